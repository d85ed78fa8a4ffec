//! How the process that started `gridmux workload run` directs it: lines on stdin, JSON lines on stdout.
//!
//! With `--wait-go`: `{"ready": true}`, and a line is awaited; then `{"held": true}`, from which on the virtual clock
//! holds for this tenant, and another line is awaited before the first launch. So several tenants can start at the
//! same instant of virtual time. After the result a last line (or the end of stdin) is awaited before the tenant
//! disconnects.

use crate::failure::Failure;
use crate::output::{Output, note};
use gridmux_tenant::Gpu;
use serde_json::json;
use std::io;

/// Progress is told at most this many times.
const PROGRESS_STEPS: u64 = 50;

/// The conversation.
pub(super) struct Directions<'a> {
    out: &'a Output,
    waits: bool,
    tells_progress: bool,
    told: u64,
}

impl<'a> Directions<'a> {
    pub(super) fn new(out: &'a Output, waits: bool, tells_progress: bool) -> Self {
        Self {
            out,
            waits,
            tells_progress,
            told: 0,
        }
    }

    /// Says that everything is set up, holds the clock when told to, and waits for the go.
    pub(super) fn await_go(&self, gpu: &Gpu) -> Result<(), Failure> {
        if !self.waits {
            return Ok(());
        }
        gpu.think();
        self.say_and_wait("ready")?;
        gpu.resume();
        self.say_and_wait("held")
    }

    fn say_and_wait(&self, word: &str) -> Result<(), Failure> {
        if self.out.is_json() {
            self.out.line(&json!({ word: true }))?;
        } else {
            self.out.text(word)?;
        }
        if read_line()? {
            return Ok(());
        }
        Err(Failure::new("stdin ended before the go")
            .hint("--wait-go holds the clock at a line on its stdin, and starts at another"))
    }

    /// Waits until the tenant may disconnect.
    pub(super) fn await_leave(&self) -> Result<(), Failure> {
        if self.waits {
            read_line()?;
        }
        Ok(())
    }

    /// Says how many launches have ended, every 2 % or so.
    pub(super) fn progress(&mut self, ended: u64, launches: u64) -> Result<(), Failure> {
        let step = ended.saturating_mul(PROGRESS_STEPS) / launches.max(1);
        if !self.tells_progress || step <= self.told {
            return Ok(());
        }
        self.told = step;
        if self.out.is_json() {
            return self.out.line(&json!({ "progress": ended }));
        }
        // Progress that nobody can see stops nothing.
        note(&format!("{ended} of {launches} launches"));
        Ok(())
    }
}

/// Reads a line; returns whether there was one.
fn read_line() -> Result<bool, Failure> {
    let mut line = String::new();
    Ok(io::stdin().read_line(&mut line)? > 0)
}
