//! The outcome of one look: right, or wrong with the line that mends it.

use crate::table;
use serde::Serialize;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// It is right.
    Ok,
    /// Something is missing that the service goes on without.
    Warning,
    /// The service cannot work as it is configured.
    Failure,
}

/// One look.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// What was looked at.
    pub(super) about: String,
    pub(super) verdict: Verdict,
    pub(super) message: String,
    /// What mends it: a command, or else what to do; none where it is right.
    pub(super) remedy: Option<String>,
}

impl Check {
    /// Makes one that is right.
    pub(super) fn ok(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            about: about.into(),
            verdict: Verdict::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    /// Makes a warning.
    pub(super) fn warning(
        about: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Warning,
            remedy: Some(remedy.into()),
            ..Self::ok(about, message)
        }
    }

    /// Makes a failure.
    pub(super) fn failure(
        about: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Failure,
            ..Self::warning(about, message, remedy)
        }
    }
}

/// Returns the checks as a table, and below it what mends those that are not right.
pub(super) fn text(checks: &[Check]) -> String {
    let row = |of: &Check| {
        let verdict = match of.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure => "FAILURE",
        };
        vec![of.about.clone(), verdict.to_owned(), of.message.clone()]
    };
    let found = table::of(&["about", "verdict", "what"], checks.iter().map(row));
    let remedies = checks.iter().filter_map(|of| {
        let remedy = of.remedy.clone()?;
        Some(vec![of.about.clone(), remedy])
    });
    let remedies: Vec<Vec<String>> = remedies.collect();
    match remedies.is_empty() {
        true => found,
        false => format!(
            "{found}\n\n{}",
            table::of(&["about", "to mend it"], remedies)
        ),
    }
}
