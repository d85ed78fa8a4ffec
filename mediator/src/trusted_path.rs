//! Whether somebody other than root could exchange what a path leads to.
//!
//! Rule: a path is judged as it is written and as it leads, links included.

use nix::unistd::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns a directory or link above a path whose owner could put something else in the path's place, and the number
/// of that owner.
///
/// Returns nothing where another user than root asks: it trusts the system as root has set it up.
#[must_use]
pub fn endangered(path: &Path) -> Option<(PathBuf, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let path = std::path::absolute(path).ok()?;
    // As it is written, links and all, and as they lead.
    let led = path.parent().and_then(|above| above.canonicalize().ok());
    let led = led.iter().flat_map(|above| above.ancestors());
    let mut above = path.ancestors().skip(1).chain(led);
    above.find_map(|above| {
        let metadata = above.symlink_metadata().ok()?;
        let (mode, is_link) = (metadata.mode(), metadata.is_symlink());
        // In a directory with the sticky bit only its owner and a file's own rename the file.
        let is_open = !is_link && mode & 0o022 != 0 && mode & 0o1000 == 0;
        (metadata.uid() != 0 || is_open).then(|| (above.to_owned(), metadata.uid()))
    })
}
