//! Child processes of this program that are spoken to in lines: a service, tenants.
//!
//! Rule: a child that is dropped is killed and reaped, so that a command that fails leaves nothing behind.

use crate::failure::Failure;
use crate::logging;
use anyhow::{Context, anyhow};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A `gridmux` process that prints JSON lines.
pub(crate) struct Speaker {
    name: String,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Speaker {
    /// Starts this program with other arguments. It is ended (SIGTERM) when the thread that calls this ends, however
    /// that ends.
    pub(crate) fn start<A: AsRef<OsStr>>(
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(this_program()?);
        let parent = getpid();
        // SAFETY: between fork and exec only prctl and getppid are called, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                set_pdeathsig(Signal::SIGTERM)?;
                match getppid() == parent {
                    true => Ok(()),
                    // It ended before this process asked to be told.
                    false => Err(ErrorKind::BrokenPipe.into()),
                }
            });
        }
        Self::spawn(name, &mut command, args)
    }

    /// Starts this program as [`Speaker::start`] does, out of reach of the terminal's signals: what is typed to end
    /// another process does not end this one.
    pub(crate) fn start_apart<A: AsRef<OsStr>>(
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, Failure> {
        Self::spawn(name, Command::new(this_program()?).process_group(0), args)
    }

    fn spawn<A: AsRef<OsStr>>(
        name: &str,
        command: &mut Command,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, Failure> {
        let mut child = command
            .arg("--json")
            .args(args)
            .env(
                logging::VARIABLE,
                logging::directives().unwrap_or_else(|| "error".into()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let missing = || anyhow!("{name} has no pipes");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self {
            name: name.to_owned(),
            child,
            stdin,
            stdout,
        })
    }

    /// Returns its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to it.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), Failure> {
        let written = writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush());
        Ok(written.with_context(|| format!("speaking to {}", self.name))?)
    }

    /// Returns its next line; an `{"error": …}` is its failure and ours.
    pub(crate) fn hear(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        if read.with_context(|| format!("listening to {}", self.name))? == 0 {
            let status = self
                .child
                .wait()
                .map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(Failure::new(format!(
                "{} ended early ({status})",
                self.name
            )));
        }
        let value: Value =
            serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name))?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::new(format!("{}: {error}", self.name))),
            None => Ok(value),
        }
    }

    /// Returns its next line, which must hold a key.
    pub(crate) fn expect(&mut self, key: &str) -> Result<Value, Failure> {
        let value = self.hear()?;
        match value.get(key) {
            Some(_) => Ok(value),
            None => Err(Failure::new(format!(
                "{} said {value} where {key:?} was due",
                self.name
            ))),
        }
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let pid = i32::try_from(self.child.id()).context("a process number")?;
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let status = self
            .child
            .wait()
            .with_context(|| format!("waiting for {}", self.name))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("{} ended with {status}", self.name)))
        }
    }
}

fn this_program() -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe().context("finding this program")?)
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
