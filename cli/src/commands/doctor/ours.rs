//! Which mapped files are gridmux's own libraries.
//!
//! A library is known by its file, device and inode, as the kernel writes them into a process's list of mappings: a
//! name or a text inside of a file could be put into any other. To learn them in the kernel's own form, which on some
//! file systems is not that of `stat`, the file is mapped here for a moment and looked up in the own list.

use super::processes::maps::{FileId, Mapping};
use crate::commands::run::places;
use crate::failure::Failure;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Bytes that are mapped: the kernel takes whole pages.
const BYTES: NonZeroUsize = NonZeroUsize::MIN;

/// The files of our libraries.
#[derive(Debug)]
pub(super) struct Ours(HashSet<FileId>);

impl Ours {
    /// Finds the libraries beside this program; `more` are taken for ours, too.
    pub(super) fn find(more: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = HashSet::new();
        let (places, _) = places()?;
        for file in places.into_iter().filter_map(|place| place.file) {
            // One that cannot be mapped here cannot be used by a program either.
            files.extend(id_of(&file));
        }
        for file in more {
            let id = id_of(file).ok_or_else(|| {
                Failure::new(format!("--ours {}: it cannot be mapped", file.display()))
            })?;
            files.insert(id);
        }
        Ok(Self(files))
    }

    /// Returns whether a mapped file is one of ours.
    pub(super) fn has(&self, file: FileId) -> bool {
        self.0.contains(&file)
    }
}

/// Returns the device and inode of a file as lists of mappings have them.
pub(super) fn id_of(path: &Path) -> Option<FileId> {
    let file = File::open(path).ok()?;
    // SAFETY: the kernel chooses the place, nothing reads the page, and it is unmapped below.
    let start = unsafe {
        mmap(
            None,
            BYTES,
            ProtFlags::PROT_READ,
            MapFlags::MAP_PRIVATE,
            &file,
            0,
        )
    };
    let start = start.ok()?;
    let own = std::fs::read_to_string("/proc/self/maps");
    let address = start.addr().get() as u64;
    let id = own.ok().and_then(|text| {
        let mut mappings = text.lines().filter_map(Mapping::parse);
        mappings
            .find(|mapping| mapping.start == address)
            .map(|mapping| mapping.file)
    });
    // SAFETY: exactly what was mapped above, and nothing refers to it.
    let _ = unsafe { munmap(start, BYTES.get()) };
    id
}

#[cfg(test)]
mod tests {
    use super::{Ours, id_of};

    #[test]
    fn a_file_is_known_under_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
        std::fs::write(&one, "library").unwrap();
        std::fs::write(&other, "library").unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        let ours = Ours::find(std::slice::from_ref(&one)).unwrap();
        assert!(ours.has(id_of(&two).unwrap()));
        assert!(!ours.has(id_of(&other).unwrap()));
        assert!(Ours::find(&[folder.path().join("absent")]).is_err());
    }
}
