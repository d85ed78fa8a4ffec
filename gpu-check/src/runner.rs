//! Parts as processes: each runs in a child of this program, with a time limit, and says its findings line by line.

use crate::cuda::Cubins;
use crate::finding::{End, Finding, Report};
use crate::lab::Scale;
use crate::parts::Part;
use anyhow::Context;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The option that makes this program a part.
pub const CHILD: &str = "--child";
/// Lines of a dead part's stderr that are kept.
const LAST_LINES: usize = 5;

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
}

/// Runs a part in a process of its own; `each` hears of its findings as they come.
///
/// # Errors
/// The process cannot be started.
pub fn run(
    part: &Part,
    settings: &Settings,
    each: &mut dyn FnMut(&Finding),
) -> anyhow::Result<Report> {
    let start = Instant::now();
    let left = settings.deadline.saturating_duration_since(start);
    let report = |end, findings| Report {
        part: part.name.to_owned(),
        end,
        seconds: start.elapsed().as_secs_f64(),
        findings,
    };
    if left.is_zero() {
        return Ok(report(End::NotBegun, Vec::new()));
    }
    let limit = left.min(Duration::from_secs(part.limit_s));
    let mut process = Process::start(part, settings)?;
    let mut findings = Vec::new();
    let end = loop {
        match process
            .lines
            .recv_timeout(limit.saturating_sub(start.elapsed()))
        {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Line::Finding(finding)) => {
                    each(&finding);
                    findings.push(finding);
                }
                Ok(Line::Failed { failed }) => break End::Failed { error: failed },
                Ok(Line::Done { done: _ }) => break End::Done,
                // Something that a library printed.
                Err(_) => eprintln!("{}: {line}", part.name),
            },
            Err(RecvTimeoutError::Timeout) => {
                break End::TimedOut {
                    limit_s: limit.as_secs(),
                };
            }
            Err(RecvTimeoutError::Disconnected) => break process.died()?,
        }
    };
    Ok(report(end, findings))
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
    fn start(part: &Part, settings: &Settings) -> anyhow::Result<Self> {
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
        let mut child = command
            .args([
                CHILD,
                part.name,
                "--scale",
                settings.scale.name(),
                "--library",
            ])
            .arg(&settings.library)
            // As the mediator starts the driver: kernels are loaded at once, and there are 32 hardware queues.
            .env("CUDA_MODULE_LOADING", "EAGER")
            .env("CUDA_DEVICE_MAX_CONNECTIONS", "32")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("this program cannot start itself")?;
        let (line, lines) = channel();
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
            // Findings that were read before an error are reported too.
            let _ = stderr.read_to_end(&mut bytes);
            let _ = all.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        Ok(Self { child, lines, said })
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
