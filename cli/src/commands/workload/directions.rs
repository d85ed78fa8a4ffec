//! How whoever started `gridmux workload run` directs it: lines on stdin, JSON lines on stdout.
//!
//! With `--wait-go`: `{"ready": true}`, then a line is awaited before the first launch, and after the result another
//! one (or the end of stdin) before the tenant disconnects.

use crate::failure::Failure;
use crate::output::Output;
use serde_json::json;
use std::io::{self, Write};

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

    /// Says that everything is set up, and waits for the go.
    pub(super) fn await_go(&self) -> Result<(), Failure> {
        if !self.waits {
            return Ok(());
        }
        if self.out.is_json() {
            self.out.line(&json!({ "ready": true }))?;
        } else {
            self.out.text("ready")?;
        }
        if read_line()? {
            return Ok(());
        }
        Err(Failure::new("stdin ended before the go")
            .hint("--wait-go starts when a line is written to its stdin"))
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
        let _ = writeln!(io::stderr(), "{ended} of {launches} launches");
        Ok(())
    }
}

/// Whether there was a line.
fn read_line() -> Result<bool, Failure> {
    let mut line = String::new();
    Ok(io::stdin().read_line(&mut line)? > 0)
}
