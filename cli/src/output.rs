//! What goes to stdout: text for people, or JSON for programs.
//!
//! Rules: control characters in text for people are shown and not sent, whatever name holds them; a command prints one
//! JSON document, or lines of one document each where it goes on for a while; every write is flushed, because a program
//! may wait for it; an error is `{"error": …}` in JSON, and otherwise stands on stderr with its hint.

use crate::failure::Failure;
use serde::Serialize;
use std::borrow::Cow;
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
            Format::Text => harmless(&text()).into_owned(),
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
        self.bytes(format!("{}{end}", harmless(text)).as_bytes())
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
        note(&format!("error: {message}"));
        if let Some(hint) = hint {
            note(&format!("hint: {hint}"));
        }
    }

    /// Reports wrong usage and gives the exit code.
    pub(crate) fn wrong_usage(&self, message: &str) -> ExitCode {
        self.report(message, Some("gridmux --help"));
        ExitCode::from(crate::failure::WRONG_USAGE)
    }
}

/// Says something on stderr, in a line of its own.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told when stderr is gone.
    let _ = writeln!(io::stderr(), "{}", harmless(text));
}

/// Returns text without what a terminal would obey: control characters other than line breaks and tabulators, and
/// those that turn the direction of text, stand there by their names.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| match is_obeyed(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(shown.collect())
}

/// Returns the error and what caused it, outermost first; a cause that an outer one has told already is left out.
pub(crate) fn causes(error: &anyhow::Error) -> String {
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
    use super::{causes, harmless};
    use anyhow::anyhow;

    #[test]
    fn a_terminal_gets_nothing_to_obey() {
        assert_eq!(harmless("a\tb\n\u{e9}"), "a\tb\n\u{e9}");
        assert_eq!(harmless("\u{1b}[31mx"), "\\u{1b}[31mx");
        assert_eq!(harmless("a\rb\u{9b}2J\u{7f}"), "a\\rb\\u{9b}2J\\u{7f}");
        assert_eq!(harmless("\u{202e}cba"), "\\u{202e}cba");
    }

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
