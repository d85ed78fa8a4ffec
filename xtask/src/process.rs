//! Running programs: quietly, aloud, or line by line.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, pipe};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The command as one would type it, for messages.
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
    for line in BufReader::new(reader).split(b'\n') {
        each(&String::from_utf8_lossy(&line?));
    }
    Ok(child.wait()?.success())
}

/// Finds a program on `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
