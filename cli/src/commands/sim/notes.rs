//! Notes and hints of a mix: lines on stderr for users, a list in the JSON report for programs.

use crate::output::note;
use std::cell::RefCell;

/// Lines that were said, in order.
#[derive(Debug, Default)]
pub(super) struct Notes(RefCell<Vec<String>>);

impl Notes {
    /// Says a line on stderr.
    pub(super) fn say(&self, line: String) {
        note(&line);
        self.0.borrow_mut().push(line);
    }

    /// Returns the lines that were said.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}
