//! What goes to stdout: text for people, or JSON for programs.
//!
//! Rules: a command prints one JSON document, or lines of one document each where it goes on for a while; every write
//! is flushed, because a program may wait for it; an error is `{"error": …}` in JSON, and otherwise stands on stderr
//! with its hint.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// JSON on one line.
    Json,
    /// JSON, indented.
    Pretty,
}

/// Stdout, in the form that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
}

/// Stdout cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("stdout: {0}")]
pub(crate) struct StdoutFailed(pub(crate) io::Error);

impl Output {
    /// Makes stdout in that form.
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    /// Returns whether programs read it.
    pub(crate) fn is_json(&self) -> bool {
        self.format != Format::Text
    }

    /// Prints the value as JSON, or the text made for people.
    pub(crate) fn show<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.bytes(self.form(value, text)?.as_bytes())
    }

    /// Returns the value as JSON, or the text made for people, with a line break at the end.
    pub(crate) fn form<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<String, Failure> {
        let mut text = match self.format {
            Format::Text => text(),
            Format::Json => serde_json::to_string(value)?,
            Format::Pretty => serde_json::to_string_pretty(value)?,
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    /// Prints one JSON document on one line, where programs read line by line; nothing for people.
    pub(crate) fn line<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        if !self.is_json() {
            return Ok(());
        }
        let text = serde_json::to_string(value)?;
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Prints text, ending with a line break.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.bytes(format!("{text}{end}").as_bytes())
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        written.map_err(|error| StdoutFailed(error).into())
    }

    /// Reports a failure and gives the exit code.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        if failure.is_broken_pipe() {
            return ExitCode::SUCCESS;
        }
        if let Some(error) = &failure.error {
            self.report(&causes(error), failure.hint.as_deref());
        }
        ExitCode::from(failure.code)
    }

    fn report(&self, message: &str, hint: Option<&str>) {
        if self.is_json() {
            let mut report = serde_json::json!({ "error": message });
            if let Some(hint) = hint {
                report["hint"] = hint.into();
            }
            // Nothing is left to do for a reader that is gone.
            let _ = self.show(&report, String::new);
            return;
        }
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "error: {message}");
        if let Some(hint) = hint {
            let _ = writeln!(stderr, "hint: {hint}");
        }
    }

    /// Reports wrong usage and gives the exit code.
    pub(crate) fn wrong_usage(&self, message: &str) -> ExitCode {
        self.report(message, Some("gridmux --help"));
        ExitCode::from(crate::failure::WRONG_USAGE)
    }
}

/// Returns the error and what caused it, outermost first; a cause that an outer one has told already is left out.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(cause.trim_end()) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::causes;
    use anyhow::anyhow;

    #[test]
    fn each_cause_is_told_once() {
        let told = anyhow!("no such file").context("a.toml: no such file");
        assert_eq!(causes(&told), "a.toml: no such file");
        let untold = anyhow!("no such file").context("a.toml");
        assert_eq!(
            causes(&untold.context("serving")),
            "serving: a.toml: no such file"
        );
    }
}
