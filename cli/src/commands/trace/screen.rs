//! Stdout as the place where events go, in pieces that the pipe to a slow reader takes whole.

use super::clients::Owner;
use super::directory::Whose;
use super::line::Lines;
use super::session::Sink;
use crate::failure::Failure;
use crate::output::Output;
use gridmux_bpf::{Event, Range};

/// Bytes from which on lines are written; with one line more they are still less than a pipe takes at once.
const ENOUGH: usize = 3000;

/// Stdout.
pub(super) struct Screen {
    lines: Lines,
    out: Output,
    text: String,
    /// Events whose lines are in the text.
    waiting: u64,
}

impl Screen {
    /// Prints the heading.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub(super) fn begin(lines: Lines, out: Output) -> Result<Self, Failure> {
        out.bytes(lines.heading().as_bytes())?;
        Ok(Self {
            lines,
            out,
            text: String::new(),
            waiting: 0,
        })
    }
}

impl Sink for Screen {
    fn take(&mut self, event: &Event, whose: Whose<'_>) -> Result<bool, Failure> {
        self.text.push_str(&self.lines.line(event, whose)?);
        self.waiting += 1;
        Ok(self.text.len() >= ENOUGH)
    }

    fn take_range(&mut self, range: Range, owner: Owner) -> Result<bool, Failure> {
        self.text.push_str(&self.lines.range_line(&range, &owner)?);
        self.waiting += 1;
        Ok(self.text.len() >= ENOUGH)
    }

    fn counts_ranges(&self) -> bool {
        true
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if !self.text.is_empty() {
            self.out.bytes(self.text.as_bytes())?;
            self.text.clear();
            self.waiting = 0;
        }
        Ok(())
    }

    fn waiting(&self) -> u64 {
        self.waiting
    }

    fn is_stdout(&self) -> bool {
        true
    }
}
