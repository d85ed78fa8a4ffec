//! Machine code for modules, assembled beforehand, in files that are named by what the PTX says.
//!
//! A run with `--keep-ptx` leaves the text of every module that it loads; an assembler makes a cubin of each; a run
//! with `--cubins` loads those in place of the texts. So a driver that cannot compile PTX of this version can still be
//! asked, and the code that it runs is known.
//! Rules: a text without a cubin is given to the driver's compiler, so that a folder may hold some of the modules only;
//! the driver is given no file that ends before what its header says.

use anyhow::{Context, ensure};
use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

/// Where the files of modules lie.
#[derive(Debug, Clone, Default)]
pub struct Cubins {
    /// The folder with cubins to load.
    pub from: Option<PathBuf>,
    /// The folder that texts are kept in.
    pub keep: Option<PathBuf>,
    /// Modules that were loaded from cubins, and those that the driver compiled.
    loaded: Cell<(u64, u64)>,
}

impl Cubins {
    /// Returns the files in these folders.
    #[must_use]
    pub fn new(from: Option<PathBuf>, keep: Option<PathBuf>) -> Self {
        Self {
            from,
            keep,
            loaded: Cell::default(),
        }
    }

    /// Returns how many modules were loaded from cubins, and how many the driver compiled.
    #[must_use]
    pub fn loaded(&self) -> (u64, u64) {
        self.loaded.get()
    }

    /// Returns what to give the driver for a module: its cubin if there is one, else its text with a zero behind it.
    ///
    /// # Errors
    /// A text that cannot be kept, or a cubin that is there and cannot be read or is none.
    pub fn image(&self, ptx: &str) -> anyhow::Result<Vec<u8>> {
        let name = name_of(ptx);
        if let Some(folder) = &self.keep {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{name}.ptx")), ptx)?;
        }
        let (cubins, compiled) = self.loaded.get();
        if let Some(folder) = &self.from {
            let file = folder.join(format!("{name}.cubin"));
            match std::fs::read(&file) {
                Ok(cubin) => {
                    ensure!(is_whole(&cubin), "{} is no whole cubin", file.display());
                    self.loaded.set((cubins + 1, compiled));
                    return Ok(cubin);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).context(file.display().to_string()),
            }
        }
        self.loaded.set((cubins, compiled + 1));
        Ok(CString::new(ptx)?.into_bytes_with_nul())
    }
}

/// Returns the name of a text's files: its FNV-1a hash.
fn name_of(ptx: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", ptx.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Returns whether a file is a 64-bit ELF file that holds all sections and segments that its header speaks of.
fn is_whole(file: &[u8]) -> bool {
    let short = |at: usize| -> Option<u64> {
        let field = file.get(at..)?.first_chunk()?;
        Some(u16::from_le_bytes(*field).into())
    };
    let long = |at: usize| -> Option<u64> {
        let field = file.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*field))
    };
    // Offset of a table, size of an entry, entries (ELF-64 Object File Format, figure 2).
    let holds = |[table, size, entries]: [usize; 3]| -> Option<bool> {
        let bytes = short(size)? * short(entries)?;
        Some(long(table)?.checked_add(bytes)? <= file.len() as u64)
    };
    let tables = [[0x20, 0x36, 0x38], [0x28, 0x3a, 0x3c]];
    let is_elf = file.starts_with(b"\x7fELF\x02");
    is_elf && tables.into_iter().all(|table| holds(table) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::{Cubins, name_of};

    /// Returns an ELF file of a header and, at its end, a table of one section.
    fn elf() -> Vec<u8> {
        let mut file = vec![0; 128];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        for (at, value) in [(0x28, 64), (0x3a, 64), (0x3c, 1)] {
            file[at] = value;
        }
        file
    }

    #[test]
    fn a_cubin_stands_for_its_text_and_for_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let cubins = Cubins::new(Some(folder.path().into()), Some(folder.path().join("kept")));
        let cubin = folder.path().join(format!("{}.cubin", name_of("one")));
        std::fs::write(&cubin, elf()).unwrap();
        assert_eq!(cubins.image("one").unwrap(), elf());
        assert_eq!(cubins.image("other").unwrap(), b"other\0");
        assert_eq!(cubins.loaded(), (1, 1));
        let mut kept: Vec<String> = std::fs::read_dir(folder.path().join("kept"))
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        kept.sort();
        assert_eq!(kept, ["one", "other"]);
        for length in [0, 16, 64, 127] {
            std::fs::write(&cubin, &elf()[..length]).unwrap();
            let error = cubins.image("one").unwrap_err().to_string();
            assert!(error.ends_with("is no whole cubin"), "{length}: {error}");
        }
    }
}
