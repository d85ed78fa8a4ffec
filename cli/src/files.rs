//! Reading users' files: whole, but no more than such a file may be.

use anyhow::{Context, ensure};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a description of a GPU, of PTX, and of a trace or a buffer.
pub(crate) const MOST_DESCRIPTION: u64 = 1 << 20;
/// See [`MOST_DESCRIPTION`].
pub(crate) const MOST_PTX: u64 = 64 << 20;
/// See [`MOST_DESCRIPTION`].
pub(crate) const MOST_DATA: u64 = 1 << 30;

/// Reads a file.
///
/// # Errors
/// The file cannot be read, or has more than `most` bytes; the error names it.
pub(crate) fn bytes(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let mut contents = Vec::new();
    let file = File::open(path).with_context(|| format!("reading {name}"))?;
    let read = file.take(most.saturating_add(1)).read_to_end(&mut contents);
    read.with_context(|| format!("reading {name}"))?;
    let fits = contents.len() as u64 <= most;
    ensure!(
        fits,
        "{name} has more than {most} bytes, the most that is read of such a file"
    );
    Ok(contents)
}

/// Reads a file of text.
///
/// # Errors
/// As for [`bytes`], and for text that is no UTF-8.
pub(crate) fn text(path: &Path, most: u64) -> anyhow::Result<String> {
    let name = path.display();
    String::from_utf8(bytes(path, most)?).with_context(|| format!("reading {name}"))
}

#[cfg(test)]
mod tests {
    use super::{bytes, text};
    use std::path::Path;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(text(file.path(), 3).unwrap(), "abc");
        let error = text(file.path(), 2).unwrap_err().to_string();
        assert!(error.contains("more than 2 bytes"), "{error}");
        let endless = bytes(Path::new("/dev/zero"), 1 << 16).unwrap_err();
        assert!(endless.to_string().starts_with("/dev/zero"), "{endless}");
    }
}
