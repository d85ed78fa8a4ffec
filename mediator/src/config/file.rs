//! The file of a configuration: read without waiting, and only where nobody else decides what it says.
//!
//! A configuration says who is which tenant, so a user who may write it can become any tenant.
//!
//! Rules: owner, mode and kind are those of the file that was opened and read, whatever its path names by then. Only
//! a regular file with a length is read: to read a pipe, a device or a file of /proc may take something away or never
//! end. A file that every user may write is refused. Root refuses also one that another user owns or another group than
//! root's may write, and one that somebody else could replace; another user gets a remark that names who may write it.

use crate::trusted_path::endangered;
use nix::libc::{O_NOCTTY, O_NONBLOCK};
use nix::unistd::geteuid;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NO_FILE: &str = "this is no regular file";
/// Most bytes of a configuration.
const MOST_BYTES: u64 = 4 << 20;

/// The text of a file, and who else may write it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) text: String,
    /// The user or group beside root and this user that may write it, if there is one.
    pub(super) writer: Option<String>,
}

/// Reads a file of text that is no longer than a configuration may be.
///
/// # Errors
/// It cannot be read, or is no file that a configuration may be in.
pub(super) fn read(path: &Path) -> io::Result<Reading> {
    let refused = |why: &str| Err(io::Error::other(why));
    let (file, metadata) = open(path)?;
    if !metadata.is_file() {
        return refused(NO_FILE);
    }
    if metadata.len() == 0 {
        return refused("the file is empty, or one of those that the kernel makes up");
    }
    if metadata.len() > MOST_BYTES {
        return refused(&format!("the file has more than {MOST_BYTES} bytes"));
    }
    if metadata.mode() & 0o002 != 0 {
        return refused(
            "every user may write the file, and so decide who is which tenant; chmod o-w",
        );
    }
    let writer = writer(&metadata);
    if geteuid().is_root() {
        if let Some(who) = &writer {
            return refused(&format!(
                "{who} may write the file, and so decide who is which tenant; chown root and chmod g-w"
            ));
        }
        if let Some((above, owner)) = replaceable(path)? {
            return refused(&format!(
                "{} is user {owner}'s or can be written by others, who could put another file in the place of this one",
                above.display()
            ));
        }
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => refused(&format!("the file has more than {MOST_BYTES} bytes")),
        false => Ok(Reading { text, writer }),
    }
}

/// Says who beside root and this user may write a file, if somebody may.
fn writer(metadata: &Metadata) -> Option<String> {
    let (owner, own) = (metadata.uid(), geteuid().as_raw());
    if owner != 0 && owner != own {
        return Some(format!("its owner, user {owner},"));
    }
    let group = metadata.gid();
    (metadata.mode() & 0o020 != 0 && group != 0).then(|| format!("group {group}"))
}

/// Returns a link to a file, or a directory above it, by which somebody else than root could put another file in its
/// place, and the owner of that.
fn replaceable(path: &Path) -> io::Result<Option<(PathBuf, u32)>> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() && metadata.uid() != 0 {
        return Ok(Some((path.to_owned(), metadata.uid())));
    }
    let led = path.canonicalize()?;
    Ok(endangered(path).or_else(|| endangered(&led)))
}

/// Opens a file without waiting for whoever is at the other end of a pipe or a line.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Opening some devices does something; the look at the file that was opened follows nevertheless.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other(NO_FILE));
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(O_NONBLOCK | O_NOCTTY);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use super::{read, writer};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;

    #[test]
    fn what_may_never_end_or_is_made_up_is_no_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [
            &*pipe,
            folder.path(),
            Path::new("/dev/zero"),
            Path::new("/dev/tty"),
            Path::new("/proc/kmsg"),
            Path::new("/proc/self/status"),
        ] {
            // Some cannot be opened by everybody, or are not there.
            let error = read(path).unwrap_err();
            println!("{}: {error}", path.display());
        }
        let error = read(&pipe).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let error = read(Path::new("/proc/self/status"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("kernel makes up"), "{error}");
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gridmux.toml");
        fs::write(&file, "x").unwrap();
        let mode = |mode| fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let refused = || read(&file).unwrap_err().to_string();
        mode(0o644);
        let found = read(&file).unwrap();
        assert_eq!((&*found.text, found.writer), ("x", None));
        mode(0o646);
        assert!(refused().contains("chmod o-w"), "{}", refused());
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root gives files away");
            return;
        }
        mode(0o664);
        assert_eq!(read(&file).unwrap().writer, None, "root's group");
        chown(&file, Some(0), Some(7)).unwrap();
        assert!(refused().contains("group 7"), "{}", refused());
        mode(0o644);
        assert_eq!(read(&file).unwrap().text, "x", "the group may read it only");
        chown(&file, Some(8), None).unwrap();
        assert!(refused().contains("user 8"), "{}", refused());
        let metadata = fs::metadata(&file).unwrap();
        assert!(writer(&metadata).unwrap().contains("user 8"));
    }

    #[test]
    fn root_refuses_a_file_that_somebody_else_could_replace() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root gives folders away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        let (below, good) = (foreign.join("a.toml"), folder.path().join("b.toml"));
        fs::write(&below, "x").unwrap();
        fs::write(&good, "x").unwrap();
        let (lead, link) = (folder.path().join("lead"), foreign.join("link"));
        symlink(&below, &lead).unwrap();
        symlink(&good, &link).unwrap();
        for path in [&below, &lead, &link] {
            assert_eq!(read(path).unwrap().text, "x");
        }
        chown(&foreign, Some(8), None).unwrap();
        for path in [&below, &lead, &link] {
            let error = read(path).unwrap_err().to_string();
            assert!(
                error.contains("foreign") && error.contains("user 8"),
                "{error}"
            );
        }
        let moved = folder.path().join("moved");
        symlink(&good, &moved).unwrap();
        assert_eq!(read(&moved).unwrap().text, "x");
        std::os::unix::fs::lchown(&moved, Some(8), None).unwrap();
        let error = read(&moved).unwrap_err().to_string();
        assert!(error.contains("moved is user 8's"), "{error}");
    }
}
