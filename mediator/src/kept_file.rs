//! Files that the service keeps over years: their folder, the names beside them, and how one that makes no sense is set
//! aside.
//!
//! Rules: a file is never deleted or overwritten because of what it holds; no link is followed by its last name.

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Files that are set aside at most.
const MOST_ASIDE: u32 = 100;

/// Makes the folder of the file where it is missing and the one above it is there: others may not look into it.
pub(crate) fn make_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().mode(0o750).create(folder);
    made.map_err(|error| {
        let name = folder.display();
        format!(
            "{name} is not there and cannot be made: {error}; make it, as a folder of the service's user with mode 0750"
        )
    })
}

/// Gives the file another name, which no file has; returns it.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=MOST_ASIDE {
        let aside = beside(path, &format!(".bad{number}"));
        match renameat2(
            AT_FDCWD,
            path,
            AT_FDCWD,
            &aside,
            RenameFlags::RENAME_NOREPLACE,
        ) {
            Ok(()) => return Ok(aside),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(format!(
        "{MOST_ASIDE} files were set aside already; remove them"
    )))
}

/// Returns the path with an addition to the file's name.
pub(crate) fn beside(path: &Path, addition: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(addition);
    name.into()
}
