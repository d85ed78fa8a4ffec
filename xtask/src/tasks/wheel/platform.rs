//! Which machines a program runs on, from what it needs of others.
//!
//! A wheel's platform tag `manylinux_X_Y_ARCH` promises that it needs glibc X.Y or later and no library that is not on
//! every such Linux (PEP 600). Both are written in the program: its needed libraries and its versioned symbols.

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionTable};
use std::fmt;

/// Libraries that are on every Linux with glibc: those of glibc itself, and GCC's.
const EVERYWHERE: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];
/// Prefix of the versions of glibc's symbols.
const GLIBC: &str = "GLIBC_";

/// A version of glibc on x86-64; shown as a platform tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc(u32, u32);

/// The oldest that pip knows a tag of this form for.
pub(super) const OLDEST: Glibc = Glibc(2, 17);

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manylinux_{}_{}_x86_64", self.0, self.1)
    }
}

/// Returns the version of glibc that a program or library needs, at least [`OLDEST`].
///
/// # Errors
/// It is no ELF file of 64 bits, or it needs a library that is not on every machine.
pub(super) fn glibc(file: &[u8]) -> Result<Glibc> {
    let header = FileHeader64::<Endianness>::parse(file).context("no ELF file of 64 bits")?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    for library in needed(endian, &sections, file)? {
        if !EVERYWHERE.contains(&library.as_str()) {
            bail!("needs {library}, which is not on every machine");
        }
    }
    let mut newest = OLDEST;
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, file)? else {
        return Ok(newest);
    };
    let strings = sections.strings(endian, file, link)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = String::from_utf8_lossy(version.name(endian, strings)?);
            if let Some(version) = name.strip_prefix(GLIBC).and_then(parsed) {
                newest = newest.max(version);
            }
        }
    }
    Ok(newest)
}

/// Returns the names of the libraries that a file needs.
fn needed(
    endian: Endianness,
    sections: &SectionTable<'_, FileHeader64<Endianness>>,
    file: &[u8],
) -> Result<Vec<String>> {
    let Some((entries, link)) = sections.dynamic(endian, file)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, file, link)?;
    let names = entries
        .iter()
        .filter(|entry| entry.tag(endian) == DT_NEEDED);
    let names = names.map(|entry| {
        let name = entry.string(endian, strings)?;
        Ok(String::from_utf8_lossy(name).into_owned())
    });
    names.collect()
}

/// Returns the version that `2.34` or `2.2.5` stands for.
fn parsed(text: &str) -> Option<Glibc> {
    let mut numbers = text.split('.').map(str::parse);
    Some(Glibc(numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Glibc, OLDEST, glibc, parsed};

    #[test]
    fn versions_are_ordered_as_numbers() {
        assert_eq!(parsed("2.34"), Some(Glibc(2, 34)));
        assert_eq!(parsed("2.2.5"), Some(Glibc(2, 2)));
        assert_eq!(parsed("PRIVATE"), None);
        assert!(Glibc(2, 9) < OLDEST && OLDEST < Glibc(2, 34));
        assert_eq!(Glibc(2, 34).to_string(), "manylinux_2_34_x86_64");
    }

    #[test]
    fn a_program_tells_what_it_needs() {
        // This test itself: Rust's standard library asks for a symbol that glibc has since 2.34 on no machine before.
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(glibc(&program).unwrap() >= OLDEST);
        assert!(glibc(b"#!/bin/sh").is_err());
    }
}
