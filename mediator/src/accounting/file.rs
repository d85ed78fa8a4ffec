//! The file of the database: opened without following a link, and only where nobody else decides what it holds.
//!
//! Rules: owner, mode and kind are those of the file that was opened. What does not begin as a database does is left
//! alone, because a path that was mistaken may lead to anything; a file whose making was broken off begins with zeros.
//! Who writes and who reads refuse the same files: what the service goes on with can be read when it has ended.

use super::report::{Sums, UsageQuery, UsageReport};
use super::store::{Store, StoreError};
use crate::kept_file::make_folder;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How a database of redb begins.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
/// Mode of a file that is made: the group of the service may read it.
const MODE: u32 = 0o640;
/// Most bytes of a file, which is read into memory when no service has it; a database stays far below.
const MOST_BYTES: u64 = 1 << 30;

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system says no.
    #[error("{path}: {source}")]
    System {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{path} {what}")]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do about it.
        what: String,
    },
    /// What it holds cannot be used.
    #[error("{path}: {source}")]
    Store {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: StoreError,
    },
}

/// Opens the file for writing, and makes it and its folder where they are missing.
///
/// # Errors
/// [`FileError`].
pub(super) fn open(path: &Path) -> Result<File, FileError> {
    make_folder(path).map_err(|what| FileError::Kind {
        path: path.to_owned(),
        what: format!("cannot be kept: {what}"),
    })?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).mode(MODE);
    let file = open_plain(path, options)?;
    check_own(path, &file)?;
    check_what_it_is(path, &file)?;
    Ok(file)
}

/// Checks that a file is this user's, and that nobody else decides what it holds.
fn check_own(path: &Path, file: &File) -> Result<(), FileError> {
    let kind = |what: String| {
        Err(FileError::Kind {
            path: path.to_owned(),
            what,
        })
    };
    let found = file.metadata().map_err(system(path))?;
    let (owner, own) = (found.uid(), geteuid().as_raw());
    if owner != own {
        return kind(format!(
            "is user {owner}'s; chown it to user {own}, or name another file in accounting.file"
        ));
    }
    if found.mode() & 0o022 != 0 {
        return kind("can be written by others; chmod go-w".into());
    }
    if found.nlink() != 1 {
        return kind("has other names (hard links); name another file in accounting.file".into());
    }
    Ok(())
}

/// Opens a regular file, not following a link, nor waiting for a pipe.
fn open_plain(path: &Path, options: &mut OpenOptions) -> Result<File, FileError> {
    let kind = |what: &str| FileError::Kind {
        path: path.to_owned(),
        what: what.into(),
    };
    let opened = options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => kind("is a link; name the file that it leads to in accounting.file"),
        _ => system(path)(error),
    })?;
    match file.metadata().map_err(system(path))?.is_file() {
        true => Ok(file),
        false => Err(kind(
            "is no plain file; name another one in accounting.file",
        )),
    }
}

/// Checks that a file may be a database.
fn check_what_it_is(path: &Path, file: &File) -> Result<(), FileError> {
    if file.metadata().map_err(system(path))?.len() > MOST_BYTES {
        return Err(too_long(path));
    }
    let mut buffer = [0; MAGIC.len()];
    let read = file.read_at(&mut buffer, 0).map_err(system(path))?;
    let head = &buffer[..read];
    if head.is_empty() || head == MAGIC {
        return Ok(());
    }
    if head.iter().all(|byte| *byte == 0) {
        return Err(FileError::Store {
            path: path.to_owned(),
            source: StoreError::Damaged("its making was broken off".into()),
        });
    }
    Err(FileError::Kind {
        path: path.to_owned(),
        what: "is no database and is left as it is; name another file in accounting.file".into(),
    })
}

fn too_long(path: &Path) -> FileError {
    FileError::Kind {
        path: path.to_owned(),
        what: format!(
            "is longer than {MOST_BYTES} bytes, which no database of use is; put a backup in its place, or name \
             another file in accounting.file"
        ),
    }
}

fn system(path: &Path) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::System {
        path: path.to_owned(),
        source,
    }
}

/// Answers from the file of a service that has ended, without writing to it: one that was killed left a file that is
/// put right in memory.
///
/// # Errors
/// [`FileError`], also where a service has it open.
pub fn read_only(path: &Path, query: UsageQuery) -> Result<UsageReport, FileError> {
    let mut sums = Sums::new(query);
    let file = open_plain(path, OpenOptions::new().read(true))?;
    read_into((path, file), 0, &mut sums)?;
    Ok(sums.report(None))
}

/// Answers as [`read_only`] from a file that a service of this user may use.
///
/// # Errors
/// As [`read_only`]; the file is another user's, or others decide what it holds.
pub fn checked(path: &Path, query: UsageQuery) -> Result<UsageReport, FileError> {
    let mut sums = Sums::new(query);
    read_own(path, 0, &mut sums)?;
    Ok(sums.report(None))
}

/// Adds what stands in a file of this user's that nobody has open; returns the number of a writer's last flush, if one
/// is in it.
///
/// # Errors
/// As [`read_only`].
pub(super) fn read_own(
    path: &Path,
    writer: u64,
    sums: &mut Sums,
) -> Result<Option<u64>, FileError> {
    let file = open_plain(path, OpenOptions::new().read(true))?;
    check_own(path, &file)?;
    read_into((path, file), writer, sums)
}

fn read_into(
    (path, file): (&Path, File),
    writer: u64,
    sums: &mut Sums,
) -> Result<Option<u64>, FileError> {
    let of_store = |source| FileError::Store {
        path: path.to_owned(),
        source,
    };
    check_what_it_is(path, &file)?;
    let file = match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(file) => file,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Err(of_store(StoreError::Busy)),
        Err((_, errno)) => return Err(system(path)(errno.into())),
    };
    let mut bytes = Vec::new();
    let mut limited = (&*file).take(MOST_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(system(path))?;
    if bytes.len() as u64 > MOST_BYTES {
        // It grew meanwhile.
        return Err(too_long(path));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    guarded(|| {
        let store = Store::of_bytes(bytes, writer)?;
        store.sum(sums)?;
        store.flushed()
    })
    .map_err(of_store)
}

/// Does something with a database; that it panics on what it finds there means that it is damaged.
pub(super) fn guarded<T>(act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    done.unwrap_or_else(|_| {
        Err(StoreError::Damaged(
            "what it holds contradicts itself".into(),
        ))
    })
}
