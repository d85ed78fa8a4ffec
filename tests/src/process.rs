//! A `gridmux` process that speaks JSON lines.

use crate::binary::program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// The process; it is killed and reaped when dropped.
#[derive(Debug)]
pub struct Speaker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Speaker {
    /// Starts `gridmux -j` with more arguments; its stderr goes to `stderr`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, stderr: Stdio) -> Self {
        let mut child = Command::new(program())
            .arg("-j")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("gridmux starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, lines }
    }

    /// Starts a client program of a tenant: `gridmux workload run` with more arguments, which are words of one line.
    ///
    /// # Panics
    /// As [`Speaker::start`].
    pub fn work(socket: &Path, tenant: &str, words: &str, stderr: Stdio) -> Self {
        let socket = socket.display();
        let line = format!("workload run {words} --tenant {tenant} --socket {socket}");
        Self::start(line.split_whitespace(), stderr)
    }

    /// Returns its process number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process numbers are positive"))
    }

    /// Returns its next line, or `None` when it has closed its stdout.
    ///
    /// # Panics
    /// If the line is not JSON.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let value = serde_json::from_str(&line);
        Some(value.unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// Returns its next line, which must have a member of that name.
    ///
    /// # Panics
    /// If it says something else or nothing.
    pub fn expect(&mut self, member: &str) -> Value {
        let said = self.hear();
        match &said {
            Some(value) if value.get(member).is_some() => value.clone(),
            _ => panic!("{said:?} where {member:?} was due"),
        }
    }

    /// Writes a line to it.
    ///
    /// # Panics
    /// If it is gone.
    pub fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{line}").expect("the process reads its stdin");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // A process that has ended needs none.
        let _ = kill(self.pid(), signal);
    }

    /// Returns whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills it with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `gridmux -j` to its end: its exit code and the JSON on its stdout.
///
/// # Panics
/// If it does not start, or prints no JSON.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> (Option<i32>, Value) {
    let output = Command::new(program())
        .arg("-j")
        .args(arguments)
        .output()
        .expect("gridmux starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    (output.status.code(), value)
}
