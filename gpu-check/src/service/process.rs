//! A process that speaks lines of JSON: the service, or a client.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines of what a process wrote to stderr that an error tells.
const LAST_LINES: usize = 5;
/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process; it is killed and reaped when dropped.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    /// What it writes to stderr.
    said: PathBuf,
    /// When it is to be over.
    deadline: Instant,
}

impl Process {
    /// Starts it; its stderr goes into a file of that folder.
    pub(super) fn start(
        name: &str,
        command: &mut Command,
        folder: &Path,
        deadline: Instant,
    ) -> anyhow::Result<Self> {
        let said = folder.join(format!("{name}.err"));
        let stderr = File::create(&said).with_context(|| format!("making {}", said.display()))?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let (line, lines) = channel();
        thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            lines,
            said,
            deadline,
        })
    }

    /// Waits for its next line, which must have a member of that name; returns the member.
    pub(super) fn expect(&mut self, member: &str) -> anyhow::Result<Value> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let line = match self.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!(
                "{}: the time is over, and it has not said {member:?}{}",
                self.name,
                self.last()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self
                    .child
                    .wait()
                    .context("a process cannot be waited for")?;
                bail!("{}: {status}{}", self.name, self.last())
            }
        };
        let mut value: Value = serde_json::from_str(&line)
            .with_context(|| format!("{}: {line:?} is no JSON", self.name))?;
        match value.get_mut(member) {
            Some(value) => Ok(value.take()),
            None => bail!("{}: {line} where {member:?} was due", self.name),
        }
    }

    /// Says a line to it. One that has ended hears nothing.
    pub(super) fn say(&mut self, line: &str) {
        if let Some(stdin) = &mut self.child.stdin {
            // The next line that is due from it tells of its end.
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    /// Waits for its end, which it comes to by itself.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self
                .child
                .try_wait()
                .context("a process cannot be waited for")?
            {
                return match status.success() {
                    true => Ok(()),
                    false => bail!("{}: {status}{}", self.name, self.last()),
                };
            }
            thread::sleep(Duration::from_millis(2));
        }
        bail!("{}: it does not end{}", self.name, self.last())
    }

    /// Asks it to end (SIGTERM), and waits until it has.
    pub(super) fn terminate(self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        // It is this process's child and not yet reaped, so that the number is its own.
        kill(pid, Signal::SIGTERM).context("the service cannot be asked to end")?;
        self.end()
    }

    /// Returns the last that it wrote to stderr, behind a colon.
    fn last(&self) -> String {
        let said = std::fs::read(&self.said).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        match lines.is_empty() {
            true => String::new(),
            false => format!(
                ": {}",
                lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
            ),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
