//! The document that a run leaves behind.
//!
//! Rule: in a file each finding takes one line, so that two documents can be compared line by line.

use crate::finding::{Finding, PartReport};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};
use std::path::Path;

/// The version of the document's form.
pub const VERSION: u32 = 1;

/// Most bytes of a document that are read; a run leaves less than one million.
const MOST_BYTES: u64 = 64 << 20;

/// Everything that a run found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`VERSION`].
    pub gpu_check: u32,
    /// The size of its launches: `quick` or `full`.
    pub scale: String,
    /// Every part that was asked for, in order.
    pub parts: Vec<PartReport>,
    /// Every part came to its end, and no check failed.
    pub passed: bool,
}

impl Document {
    /// Returns the document of these parts.
    #[must_use]
    pub fn new(scale: &str, parts: Vec<PartReport>) -> Self {
        Self {
            gpu_check: VERSION,
            scale: scale.to_owned(),
            passed: parts.iter().all(PartReport::is_good),
            parts,
        }
    }

    /// Gives the part of that number another report.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn set(&mut self, at: usize, report: PartReport) {
        self.parts[at] = report;
        self.passed = self.parts.iter().all(PartReport::is_good);
    }

    /// Reads a document, or the last line of a run's output, which is one.
    ///
    /// # Errors
    /// The file cannot be read, is none, or has the form of another [`VERSION`].
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = text_of(path).with_context(|| format!("cannot read {}", path.display()))?;
        let whole = serde_json::from_str(&text);
        let last = || serde_json::from_str(text.lines().last().unwrap_or_default());
        let no_document = || format!("{} is no document of gpu-check", path.display());
        let read: Value = whole.or_else(|_| last()).with_context(no_document)?;
        // The version is looked at first, because another one may have other fields.
        match read.get("gpu_check").and_then(Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => bail!(
                "{} is a document of form {version}, and this program knows form {VERSION}",
                path.display()
            ),
            _ => serde_json::from_value(read).with_context(no_document),
        }
    }

    /// Writes the document to a file, whole or not at all; through a symbolic link to the file that it names.
    ///
    /// # Errors
    /// The file cannot be written, or something else than a file stands there.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let linked = path.canonicalize();
        let path = linked.as_deref().unwrap_or(path);
        ensure!(
            !path.exists() || path.is_file(),
            "cannot write {}: it is no file",
            path.display()
        );
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, self.lines()?)
            .and_then(|()| std::fs::rename(&unfinished, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the document's text as a file holds it.
    fn lines(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = Vec::new();
        let by_lines = LineEach { depth: 0 };
        self.serialize(&mut Serializer::with_formatter(&mut text, by_lines))?;
        text.push(b'\n');
        Ok(text)
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

/// Begins a line with each part and each finding: with each element of the arrays that lie in at most one other.
struct LineEach {
    /// Arrays that have been begun and not ended.
    depth: u32,
}

impl Formatter for LineEach {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        let comma: &[u8] = if first { b"" } else { b"," };
        writer.write_all(comma)?;
        let line: &[u8] = if self.depth <= 2 { b"\n" } else { b"" };
        writer.write_all(line)
    }
}

/// Reads a file of at most [`MOST_BYTES`].
fn text_of(path: &Path) -> anyhow::Result<String> {
    let found = std::fs::metadata(path)?;
    ensure!(found.is_file(), "it is no file");
    let length = found.len();
    ensure!(
        length <= MOST_BYTES,
        "it has {length} bytes, and a document has at most {MOST_BYTES}"
    );
    Ok(std::fs::read_to_string(path)?)
}

#[cfg(test)]
mod tests {
    use super::Document;
    use crate::finding::{End, Finding, PartReport};
    use serde_json::{Value, json};
    use std::os::unix::fs::symlink;

    fn report(end: End, passed: bool) -> PartReport {
        PartReport {
            end,
            findings: vec![Finding::Check {
                name: "it works".to_owned(),
                passed,
                detail: String::new(),
            }],
            ..PartReport::not_begun("device")
        }
    }

    #[test]
    fn a_run_has_passed_when_every_part_has() {
        let mut document = Document::new("full", vec![PartReport::not_begun("device")]);
        assert!(!document.passed);
        document.set(0, report(End::Done, false));
        assert!(!document.passed);
        document.set(0, report(End::TimedOut { limit_s: 1 }, true));
        assert!(!document.passed);
        document.set(0, report(End::Done, true));
        assert!(document.passed);
    }

    #[test]
    fn a_document_is_read_back_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("document.json");
        let document = Document::new("full", vec![report(End::Done, true)]);
        document.write(&file).unwrap();
        assert_eq!(Document::read(&file).unwrap(), document);
        let text = std::fs::read_to_string(&file).unwrap();
        // The document's own line, the part's and the finding's.
        assert_eq!(text.lines().count(), 3, "{text}");
        // As stdout has it.
        let lines = format!("{{}}\n{}\n", serde_json::to_string(&document).unwrap());
        std::fs::write(&file, lines).unwrap();
        assert_eq!(Document::read(&file).unwrap(), document);

        let refusal = |value: &Value| {
            std::fs::write(&file, value.to_string()).unwrap();
            Document::read(&file).unwrap_err().to_string()
        };
        let mut other = serde_json::to_value(&document).unwrap();
        other["gpu_check"] = 2.into();
        assert!(refusal(&other).contains("form 2"), "{}", refusal(&other));
        // It may have other fields.
        let later = json!({"gpu_check": 3});
        assert!(refusal(&later).contains("form 3"), "{}", refusal(&later));
        let none = refusal(&json!({"passed": true}));
        assert!(none.ends_with("is no document of gpu-check"), "{none}");
    }

    #[test]
    fn a_document_goes_through_a_link_and_over_nothing_but_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let document = Document::new("quick", Vec::new());
        document.write(&path("file.json")).unwrap();
        symlink(path("file.json"), path("link.json")).unwrap();
        std::fs::write(path("file.json"), "before").unwrap();
        document.write(&path("link.json")).unwrap();
        assert!(path("link.json").is_symlink());
        assert_eq!(Document::read(&path("file.json")).unwrap(), document);
        let error = document.write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it is no file"), "{error}");
        let error = Document::read(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("it is no file"), "{error:#}");
    }
}
