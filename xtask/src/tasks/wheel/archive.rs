//! The file format of wheels: a zip archive whose last file lists the others with their digests.
//!
//! Rule: two runs over the same files write the same bytes; times in the archive are zip's first day.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Permissions of files and of programs and libraries.
const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// A wheel that is being written.
pub(super) struct Archive {
    zip: ZipWriter<File>,
    /// The lines of `RECORD`: path, digest, size.
    record: String,
}

impl Archive {
    /// Begins a wheel in place of the file at a path.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            zip: ZipWriter::new(file),
            record: String::new(),
        })
    }

    /// Adds a file.
    pub(super) fn add(&mut self, path: &str, contents: &[u8]) -> Result<()> {
        self.add_with(path, contents, FILE_MODE)
    }

    /// Adds a file that may be executed.
    pub(super) fn add_program(&mut self, path: &str, contents: &[u8]) -> Result<()> {
        self.add_with(path, contents, PROGRAM_MODE)
    }

    fn add_with(&mut self, path: &str, contents: &[u8], mode: u32) -> Result<()> {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(contents));
        let _ = writeln!(self.record, "{path},sha256={digest},{}", contents.len());
        self.put(path, contents, mode)
    }

    fn put(&mut self, path: &str, contents: &[u8], mode: u32) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        self.zip.start_file(path, options)?;
        Ok(self.zip.write_all(contents)?)
    }

    /// Adds the list of all files at a path, which is the one that has no digest, and ends the wheel.
    pub(super) fn finish(mut self, path: &str) -> Result<()> {
        let record = format!("{}{path},,\n", self.record);
        self.put(path, record.as_bytes(), FILE_MODE)?;
        self.zip.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;
    use std::io::Read;

    #[test]
    fn the_record_lists_every_file_with_its_digest() {
        let path = std::env::temp_dir().join(format!("gridmux-wheel-{}.whl", std::process::id()));
        let mut archive = Archive::create(&path).unwrap();
        archive.add_program("x.data/scripts/x", b"abc").unwrap();
        archive.finish("x.dist-info/RECORD").unwrap();
        let mut read = zip::ZipArchive::new(std::fs::File::open(&path).unwrap()).unwrap();
        let program = read
            .by_name("x.data/scripts/x")
            .unwrap()
            .unix_mode()
            .unwrap();
        assert_eq!(program & 0o777, 0o755);
        let mut record = String::new();
        let mut file = read.by_name("x.dist-info/RECORD").unwrap();
        file.read_to_string(&mut record).unwrap();
        // The digest of "abc" is an example of FIPS 180-2, appendix B.1.
        assert_eq!(
            record,
            "x.data/scripts/x,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\nx.dist-info/RECORD,,\n"
        );
        std::fs::remove_file(&path).unwrap();
    }
}
