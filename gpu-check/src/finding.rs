//! What a part reports, and how it stands in JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// Something that gridmux relies on, judged.
    Check {
        /// What was looked at, unique in its part.
        name: String,
        /// It is as it should be.
        passed: bool,
        /// What was seen, where that says more than the name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A measured value, not judged.
    Figure {
        /// What was measured, unique in its part.
        name: String,
        /// The value.
        value: f64,
        /// Its unit.
        unit: String,
        /// Where it stands in a validation file; absent for what such a file does not know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<Validation>,
    },
    /// What the driver says of itself or of the device.
    Fact {
        /// What it is, unique in its part.
        name: String,
        /// What was said.
        value: Value,
    },
    /// Something that was not done, because the driver or the device does not offer it.
    Skipped {
        /// What it is.
        name: String,
        /// Why.
        why: String,
    },
}

impl Finding {
    /// Returns the finding of a measured value. What is no finite number is no figure, and JSON knows none.
    pub(crate) fn measured(
        name: String,
        value: f64,
        unit: &str,
        validation: Option<Validation>,
    ) -> Self {
        match value.is_finite() {
            true => Self::Figure {
                name,
                value,
                unit: unit.to_owned(),
                validation,
            },
            false => Self::Skipped {
                name,
                why: format!("{value} {unit} is no number that can be written"),
            },
        }
    }
}

/// How a figure stands in a file of `hw-model/validation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The figure's class.
    pub class: String,
    /// What was run: the kernel and its parameters.
    pub run: serde_json::Map<String, Value>,
}

/// How a part ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum End {
    /// To its end.
    Done,
    /// With an error.
    Failed {
        /// What it said.
        error: String,
    },
    /// Its process died.
    Died {
        /// How, and the last that it wrote to stderr.
        error: String,
    },
    /// It was ended at its time limit.
    TimedOut {
        /// The limit in seconds.
        limit_s: u64,
    },
    /// It was not begun, because the time of the whole run was over, or what it needs to know could not be asked.
    NotBegun,
}

/// What came of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartReport {
    /// The part's name.
    pub part: String,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// Wall time that it took.
    pub seconds: f64,
    /// What it found out, in order.
    pub findings: Vec<Finding>,
}

impl PartReport {
    /// Returns the report of a part that was not begun.
    #[must_use]
    pub fn not_begun(part: &str) -> Self {
        Self {
            part: part.to_owned(),
            end: End::NotBegun,
            seconds: 0.0,
            findings: Vec::new(),
        }
    }

    /// Returns whether it came to its end and no check failed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.end == End::Done && self.failed_checks().next().is_none()
    }

    /// Returns the checks that failed, each with its detail.
    pub fn failed_checks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.findings.iter().filter_map(|finding| match finding {
            Finding::Check {
                name,
                passed: false,
                detail,
            } => Some((name.as_str(), detail.as_str())),
            _ => None,
        })
    }

    /// Returns how many checks there were.
    #[must_use]
    pub fn checks(&self) -> usize {
        let is_check = |finding: &&Finding| matches!(finding, Finding::Check { .. });
        self.findings.iter().filter(is_check).count()
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_value_that_is_no_number_comes_back_as_skipped() {
        for value in [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let finding = Finding::measured("speed".to_owned(), value, "us", None);
            let text = serde_json::to_string(&finding).unwrap();
            let read: Finding = serde_json::from_str(&text).unwrap();
            assert_eq!(read, finding);
            assert_eq!(
                matches!(read, Finding::Figure { .. }),
                value == 1.5,
                "{text}"
            );
        }
    }
}
