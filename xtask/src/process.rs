//! Running programs: quietly, aloud, or line by line.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, pipe};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long the output of a program that has ended may be silent before it counts as complete.
const QUIET: Duration = Duration::from_secs(1);

/// Returns the command as one would type it, for messages.
#[must_use]
pub fn shown(command: &Command) -> String {
    let environment = command.get_envs().filter_map(|(key, value)| {
        // Paths to libraries are noise; what changes the build is not.
        let value = value?.to_string_lossy().into_owned();
        (key == "RUSTFLAGS").then(|| format!("RUSTFLAGS={value:?}"))
    });
    let program = PathBuf::from(command.get_program());
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let words = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned());
    environment
        .chain([name])
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a program and returns its stdout.
///
/// # Errors
/// If it cannot be started or fails; the error holds the end of its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let what = shown(command);
    let done = command
        .output()
        .with_context(|| format!("cannot run `{what}`"))?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        let end = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("`{what}` failed ({}):\n{end}", done.status);
    }
    String::from_utf8(done.stdout)
        .with_context(|| format!("`{what}` printed something that is not UTF-8"))
}

/// Runs a program with its output going to our stderr.
///
/// # Errors
/// If it cannot be started or fails.
pub fn aloud(command: &mut Command) -> Result<()> {
    let what = shown(command);
    if lines(command, &mut |line| eprintln!("{line}"))? {
        Ok(())
    } else {
        bail!("`{what}` failed")
    }
}

/// Runs a program and hands over each line of its stdout and stderr, in the order in which it wrote them.
/// Returns whether it succeeded.
///
/// # Errors
/// If it cannot be started.
pub fn lines(command: &mut Command, each: &mut dyn FnMut(&str)) -> Result<bool> {
    let what = shown(command);
    let (reader, writer) = pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot duplicate a pipe")?)
        .stderr(writer);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run `{what}`"))?;
    // The command holds the pipe's writing ends; while they are open, the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    // A process that the program left behind may hold the pipe open for ever, so its end is not what is waited for.
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    loop {
        match received.recv_timeout(QUIET) {
            Ok(line) => each(&String::from_utf8_lossy(&line)),
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status.success());
                }
            }
        }
    }
}

/// Finds a program on `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::{lines, output};
    use std::process::Command;

    #[test]
    fn both_streams_come_in_order() {
        let mut seen = Vec::new();
        let script = "echo one; echo two >&2; echo three; exit 3";
        let succeeded = lines(Command::new("sh").args(["-c", script]), &mut |line| {
            seen.push(line.to_owned());
        });
        assert!(!succeeded.expect("sh runs"));
        assert_eq!(seen, ["one", "two", "three"]);
    }

    /// The process left behind holds the pipe's writing end for longer than the test may take.
    #[test]
    fn a_process_left_behind_does_not_hold_the_caller() {
        let mut pid = String::new();
        let script = "sleep 1000 & echo $!";
        let succeeded = lines(Command::new("sh").args(["-c", script]), &mut |line| {
            line.clone_into(&mut pid);
        });
        assert!(succeeded.expect("sh runs"));
        // The shell's own `kill`: a bare machine has no program of that name.
        let kill = format!("kill {pid}");
        output(Command::new("sh").args(["-c", &kill]))
            .expect("the sleeper is still there, and is ended");
    }

    #[test]
    fn a_failure_tells_what_the_program_said() {
        let error = output(Command::new("sh").args(["-c", "echo no such thing >&2; exit 1"]));
        let message = error.expect_err("it fails").to_string();
        assert!(
            message.contains("no such thing") && message.contains("sh -c"),
            "{message}"
        );
    }
}
