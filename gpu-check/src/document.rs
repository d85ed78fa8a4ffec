//! The document that a run leaves behind.

use crate::finding::{Finding, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// The version of the document's form.
pub const VERSION: u32 = 1;

/// Everything that a run found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`VERSION`].
    pub gpu_check: u32,
    /// The size of its launches: `quick` or `full`.
    pub scale: String,
    /// Every part that was asked for, in order.
    pub parts: Vec<Report>,
    /// Every part came to its end, and no check failed.
    pub passed: bool,
}

impl Document {
    /// Returns the document of these parts.
    #[must_use]
    pub fn new(scale: &str, parts: Vec<Report>) -> Self {
        Self {
            gpu_check: VERSION,
            scale: scale.to_owned(),
            passed: parts.iter().all(Report::is_good),
            parts,
        }
    }

    /// Reads a document, or the last line of a run's output, which is one.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        use anyhow::Context;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let whole = serde_json::from_str(&text);
        let last = || serde_json::from_str(text.lines().last().unwrap_or_default());
        whole
            .or_else(|_| last())
            .with_context(|| format!("{} is no document of gpu-check", path.display()))
    }

    /// Writes the document to a file, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        use anyhow::Context;
        let unfinished = path.with_extension("unfinished");
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns a fact of a part.
    #[must_use]
    pub fn fact(&self, part: &str, fact: &str) -> Option<&Value> {
        let report = self.parts.iter().find(|report| report.part == part)?;
        report.findings.iter().find_map(|finding| match finding {
            Finding::Fact { name, value } if name == fact => Some(value),
            _ => None,
        })
    }
}
