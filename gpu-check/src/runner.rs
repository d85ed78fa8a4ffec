//! Parts as processes: each runs in a child of this program, with a time limit, and says its findings line by line.

use crate::cuda::Cubins;
use crate::finding::{End, Finding, PartReport};
use crate::lab::Scale;
use crate::parts::Part;
use anyhow::Context;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The option that makes this program a part.
pub const CHILD: &str = "--child";
/// Lines of a dead part's stderr that are kept.
const LAST_LINES: usize = 5;
/// Lines that a part may be ahead; behind that it waits.
const AHEAD: usize = 256;

/// What parts are run with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The driver library.
    pub library: OsString,
    /// The size of launches.
    pub scale: Scale,
    /// Where the files of modules lie.
    pub cubins: Cubins,
    /// When the whole run ends.
    pub deadline: Instant,
    /// Variables that a part has beside this process's own.
    pub variables: Vec<(&'static str, OsString)>,
}

/// Runs a part in a process of its own; `each` hears of its findings as they come.
///
/// # Errors
/// The process cannot be started, or the first error of `each`, which ends it.
pub fn run(
    part: &Part,
    settings: &Settings,
    each: &mut dyn FnMut(&Finding) -> anyhow::Result<()>,
) -> anyhow::Result<PartReport> {
    let start = Instant::now();
    let left = settings.deadline.saturating_duration_since(start);
    if left.is_zero() {
        return Ok(PartReport::not_begun(part.name));
    }
    let limit = left.min(Duration::from_secs(part.limit_s));
    let mut process = Process::start(&mut command(part, settings)?)?;
    let mut findings = Vec::new();
    let end = process.hear(part.name, (start, limit), &mut |finding| {
        each(&finding)?;
        findings.push(finding);
        Ok(())
    })?;
    Ok(PartReport {
        part: part.name.to_owned(),
        end,
        seconds: start.elapsed().as_secs_f64(),
        findings,
    })
}

/// Returns the command that runs a part in a process of its own.
fn command(part: &Part, settings: &Settings) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program has no path")?;
    let mut command = Command::new(program);
    let folders = [
        ("--cubins", &settings.cubins.from),
        ("--keep-ptx", &settings.cubins.keep),
    ];
    for (option, folder) in folders {
        if let Some(folder) = folder {
            command.arg(option).arg(folder);
        }
    }
    command
        .args([
            CHILD,
            part.name,
            "--scale",
            settings.scale.name(),
            "--library",
        ])
        .arg(&settings.library)
        .envs(settings.variables.iter().map(|(name, value)| (name, value)))
        // As the mediator starts the driver: kernels are loaded at once, and there are 32 hardware queues.
        .env("CUDA_MODULE_LOADING", "EAGER")
        .env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    Ok(command)
}

/// A line of a child's stdout.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// Something that it found out.
    Finding(Finding),
    /// Its last line, when it failed.
    Failed {
        /// The error.
        failed: String,
    },
    /// Its last line, when it came to its end.
    Done {
        /// Always true.
        done: bool,
    },
}

/// A part's process; it is killed and reaped when dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Receiver<String>,
}

impl Process {
    /// Starts it, and threads that read what it says.
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("this program cannot start itself")?;
        let (line, lines) = sync_channel(AHEAD);
        let stdout = child.stdout.take().context("stdout is piped")?;
        thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    break;
                }
            }
        });
        let (all, said) = channel();
        let mut stderr = child.stderr.take().context("stderr is piped")?;
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Reports what was read before an error as well.
            let _ = stderr.read_to_end(&mut bytes);
            let _ = all.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        Ok(Self { child, lines, said })
    }

    /// Hears its lines to its end, or to its limit since `start`, however much it says; returns how it ended.
    fn hear(
        &mut self,
        name: &str,
        (start, limit): (Instant, Duration),
        each: &mut dyn FnMut(Finding) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        loop {
            let left = limit.saturating_sub(start.elapsed());
            // A line that waits is handed over even where no time is left.
            let heard = match left.is_zero() {
                true => Err(RecvTimeoutError::Timeout),
                false => self.lines.recv_timeout(left),
            };
            match heard {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(Line::Finding(finding)) => each(finding)?,
                    Ok(Line::Failed { failed }) => return Ok(End::Failed { error: failed }),
                    Ok(Line::Done { done: _ }) => return Ok(End::Done),
                    // Something that a library printed.
                    Err(_) => eprintln!("{name}: {line}"),
                },
                Err(RecvTimeoutError::Timeout) => {
                    let limit_s = limit.as_secs();
                    return Ok(End::TimedOut { limit_s });
                }
                Err(RecvTimeoutError::Disconnected) => return self.died(),
            }
        }
    }

    /// Returns how it ended that has closed its stdout without a last line.
    fn died(&mut self) -> anyhow::Result<End> {
        let status = self.child.wait().context("a part cannot be waited for")?;
        let said = self
            .said
            .recv_timeout(Duration::from_secs(1))
            .unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("; ");
        Ok(End::Died {
            error: format!("{status}: {last}"),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::Process;
    use crate::finding::End;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Starts a shell's command as a part.
    fn started(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    /// Hears a part for a time from now; returns how it ended and how many findings it said.
    fn heard(process: &mut Process, limit: Duration) -> (End, u32) {
        let mut findings = 0;
        let count = &mut |_| {
            findings += 1;
            Ok(())
        };
        let end = process.hear("part", (Instant::now(), limit), count);
        (end.unwrap(), findings)
    }

    #[test]
    fn a_part_ends_at_its_limit_whether_it_is_silent_or_prints_for_ever() {
        let second = Duration::from_secs(1);
        let ended = End::TimedOut { limit_s: 1 };
        assert_eq!(
            heard(&mut started("exec sleep 60"), second),
            (ended.clone(), 0)
        );
        let finding = r#"{"kind":"skipped","name":"one","why":"none"}"#;
        let mut endless = started(&format!("exec yes '{finding}'"));
        let (end, findings) = heard(&mut endless, second);
        assert_eq!(end, ended);
        assert!(findings > 256, "{findings} findings");
        // Lines wait, and yet the limit is what counts.
        std::thread::sleep(second / 5);
        let ended = End::TimedOut { limit_s: 0 };
        assert_eq!(heard(&mut endless, Duration::ZERO), (ended, 0));
    }

    #[test]
    fn the_end_of_a_part_is_what_its_last_line_says() {
        let said = r#"echo of a library; echo '{"kind":"skipped","name":"one","why":"none"}';"#;
        let limit = Duration::from_secs(30);
        let mut process = started(&format!(r#"{said} echo '{{"done":true}}'; exec sleep 60"#));
        assert_eq!(heard(&mut process, limit), (End::Done, 1));
        let mut process = started(&format!("{said} echo why >&2; exit 3"));
        let (end, findings) = heard(&mut process, limit);
        let End::Died { error } = end else {
            panic!("{end:?}");
        };
        assert!(error.contains('3') && error.contains("why"), "{error}");
        assert_eq!(findings, 1);
    }
}
