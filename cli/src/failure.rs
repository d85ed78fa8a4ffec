//! Why a command did not do what it was asked.
//!
//! Rule: a failure carries the message, a hint where there is something to do about it, and its exit code.

use crate::output::{StdoutFailed, causes};
use std::fmt::Display;
use std::io;

/// Exit code of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit code of wrong usage.
pub(crate) const WRONG_USAGE: u8 = 2;

/// A failure.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error; `None` when the command's own output says so already.
    pub(crate) error: Option<anyhow::Error>,
    /// A sentence that tells the user a remedy.
    pub(crate) hint: Option<String>,
    /// Exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// Makes the failure of arguments that make no sense together.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            error: Some(anyhow::anyhow!("{message}")),
            hint: None,
            code: WRONG_USAGE,
        }
    }

    /// Makes a failure with that message.
    pub(crate) fn new(message: impl Display) -> Self {
        anyhow::anyhow!("{message}").into()
    }

    /// Makes a failure of which stdout tells already.
    pub(crate) fn reported() -> Self {
        Self {
            error: None,
            hint: None,
            code: FAILED,
        }
    }

    /// Makes a failure without a message: another program ended with that status, which is this one's too.
    pub(crate) fn passed_on(code: u8) -> Self {
        Self {
            error: None,
            hint: None,
            code,
        }
    }

    /// Returns what went wrong and what to do about it, in one line.
    pub(crate) fn line(&self) -> String {
        let error = self.error.as_ref().map(causes);
        let parts = error.iter().chain(&self.hint);
        parts.map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    /// Says what the failure is of, before its message.
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.error = self.error.map(|error| error.context(what.to_owned()));
        self
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns whether the reader of stdout is gone, as `head` is after its lines: nobody is left to tell, and it is no
    /// failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let error = self
            .error
            .as_ref()
            .and_then(|error| error.downcast_ref::<StdoutFailed>());
        error.is_some_and(|failed| failed.0.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            error: Some(error.into()),
            hint: None,
            code: FAILED,
        }
    }
}
