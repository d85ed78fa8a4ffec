//! Users' files: read whole, but no more than such a file may have, and written where that was found to be possible
//! before anything ran.
//!
//! Rules: a pipe with a name is refused, because nobody may write or read at its other end; the pipe of a shell, as
//! `<(command)`, is a file like others, and `-` is stdin. Of a file a read never waits: some of the kernel's, as
//! /proc/kmsg, would wait without end.

use anyhow::{Context, bail, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::O_NONBLOCK;
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{AccessFlags, access};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of a description of a GPU, of PTX, and of a trace or a buffer.
pub(crate) const MOST_DESCRIPTION: u64 = 1 << 20;
/// See [`MOST_DESCRIPTION`].
pub(crate) const MOST_PTX: u64 = 64 << 20;
/// See [`MOST_DESCRIPTION`].
pub(crate) const MOST_DATA: u64 = 1 << 30;

/// Where pipes without a name live (`PIPEFS_MAGIC` of statfs(2)).
const PIPES: FsType = FsType(0x5049_5045);

/// Reads a file.
///
/// # Errors
/// The file cannot be read, or is no file, or has more than `most` bytes; the error names it.
pub(crate) fn bytes(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let reading = || format!("reading {name}");
    let mut contents = Vec::new();
    let source: &mut dyn Read = match path.as_os_str() == "-" {
        true => &mut std::io::stdin().lock(),
        false => &mut open(path).with_context(reading)?,
    };
    let read = source
        .take(most.saturating_add(1))
        .read_to_end(&mut contents);
    read.with_context(reading)?;
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

/// Opens a file to be read, without waiting for the other end of a pipe.
fn open(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() && fstatfs(&file)?.filesystem_type() != PIPES {
        bail!("a named pipe, and no file");
    }
    if !kind.is_file() {
        // From here on reads may wait, as those of a shell's pipe do.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    }
    Ok(file)
}

/// Checks that a file can be written, as far as that can be told without writing it.
///
/// # Errors
/// It is a folder or a named pipe, or this user may not write it or make it; the error names it.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    let cannot = || format!("{name} cannot be written");
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => bail!("{name} is a folder"),
        Ok(found) if found.file_type().is_fifo() && !is_shells(path) => {
            bail!("{name} is a named pipe, and no file")
        }
        Ok(_) => access(path, AccessFlags::W_OK).with_context(cannot),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let shown = folder.display();
            ensure!(
                folder.is_dir(),
                "{name} cannot be written: there is no folder {shown}"
            );
            ensure!(
                fs::symlink_metadata(path).is_err(),
                "{name} is a link that leads nowhere"
            );
            access(folder, AccessFlags::W_OK).with_context(cannot)
        }
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Returns whether a path is one of the descriptors that a shell made, as for `>(command)`.
fn is_shells(path: &Path) -> bool {
    let path = fs::canonicalize(path.parent().unwrap_or(path)).unwrap_or_default();
    path.starts_with("/proc")
}

/// Checks that no file is written that is read or written for another purpose; each comes with its purpose. Devices may
/// be written by several.
///
/// # Errors
/// The first such file, with both purposes.
pub(crate) fn check_apart<'a>(
    read: impl IntoIterator<Item = (&'a Path, String)>,
    written: impl IntoIterator<Item = (&'a Path, String)>,
) -> anyhow::Result<()> {
    let read = read.into_iter();
    let mut known: Vec<(PathBuf, String)> = read
        .map(|(path, purpose)| (resolved(path), purpose))
        .collect();
    for (path, purpose) in written {
        let place = resolved(path);
        if let Some((_, other)) = known.iter().find(|(other, _)| *other == place) {
            bail!(
                "{}, {purpose}, is {other}, too; give it another name",
                path.display()
            );
        }
        if !place.exists() || place.is_file() {
            known.push((place, purpose));
        }
    }
    Ok(())
}

/// Returns a path without links, as far as what it names exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    path.canonicalize()
        .unwrap_or_else(|_| match (folder, path.file_name()) {
            (Ok(folder), Some(name)) => folder.join(name),
            _ => path.to_owned(),
        })
}

/// Writes a file.
///
/// # Errors
/// It cannot be written; the error names it.
pub(crate) fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    // A named pipe that nobody reads is an error then, and not a wait.
    let file = options.custom_flags(O_NONBLOCK).open(path);
    let mut file = file.with_context(writing)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).with_context(writing)?;
    file.write_all(contents).with_context(writing)
}

#[cfg(test)]
mod tests {
    use super::{bytes, check_apart, check_writable, text, write};
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::O_NONBLOCK;
    use nix::sys::stat::Mode;
    use std::path::Path;

    #[test]
    fn a_file_has_one_purpose_and_a_device_has_any() {
        let folder = tempfile::tempdir().unwrap();
        let [kernel, link, out] = ["kernel", "link", "out"].map(|name| folder.path().join(name));
        std::fs::write(&kernel, "").unwrap();
        std::os::unix::fs::symlink(&kernel, &link).unwrap();
        let check = |written: &[&Path]| {
            let written = written.iter().map(|file| (*file, "an output".to_owned()));
            check_apart([(kernel.as_path(), "the kernel".to_owned())], written)
        };
        check(&[&out]).unwrap();
        let null = Path::new("/dev/null");
        check(&[null, null]).unwrap();
        let error = check(&[&out, &link]).unwrap_err().to_string();
        assert!(
            error.ends_with("link, an output, is the kernel, too; give it another name"),
            "{error}"
        );
        let error = check(&[&out, &out]).unwrap_err().to_string();
        assert!(error.contains("an output, is an output, too"), "{error}");
    }

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

    #[test]
    fn a_named_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for error in [
            bytes(&pipe, 9).unwrap_err(),
            check_writable(&pipe).unwrap_err(),
        ] {
            let error = format!("{error:#}");
            assert!(error.contains("named pipe"), "{error}");
        }
        write(&pipe, b"x").unwrap_err();
    }

    #[test]
    fn a_read_of_a_file_does_not_wait() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let opened = super::open(file.path()).unwrap();
        let flags = fcntl(&opened, FcntlArg::F_GETFL).unwrap();
        assert_ne!(flags & O_NONBLOCK, 0);
        let opened = super::open(Path::new("/dev/null")).unwrap();
        let flags = fcntl(&opened, FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & O_NONBLOCK, 0, "of a terminal it does");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new");
        check_writable(&file).unwrap();
        assert!(!file.exists());
        write(&file, b"abc").unwrap();
        check_writable(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"abc");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/nonexistent/file", &link).unwrap();
        for (path, due) in [
            (folder.path(), "is a folder"),
            (Path::new("/nonexistent/file"), "no folder /nonexistent"),
            (&link, "leads nowhere"),
        ] {
            let error = check_writable(path).unwrap_err();
            assert!(format!("{error:#}").contains(due), "{error:#}");
        }
    }
}
