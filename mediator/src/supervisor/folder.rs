//! The run directory: opened once, checked, and from then on reached by its descriptor only.
//!
//! A service of root may be told to use a folder below one that everybody may write, such as `/tmp`, where somebody
//! else may have made it first, with links that lead to files of root.
//!
//! Rules: nobody but root can put another directory in its place; the directory itself is no link, belongs to root or
//! to the service's own user, and is written by nobody else. What is opened, made, bound or removed in it is named
//! relative to its descriptor, and no link in it is followed. A file is written only if it is a regular one of ours
//! with one name.

use super::SocketError;
use crate::trusted_path::endangered;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat, umask};
use nix::unistd::{Gid, UnlinkatFlags, fchownat, geteuid, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Longest path of a socket (unix(7)).
const SOCKET_PATH_BYTES: usize = 107;
/// Mode of a directory that the service makes: clients of other users pass through it.
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o755);
/// How a directory is opened: as such, and not through a link.
const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The run directory.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Takes away from others what this process makes from now on, whatever it was started with.
pub(super) fn keep_others_out() {
    umask(Mode::S_IWGRP | Mode::S_IRWXO);
}

impl Folder {
    /// Opens the directory, makes it where it is missing, and checks whose it is.
    pub(super) fn open(path: &Path) -> Result<Self, SocketError> {
        let path = std::path::absolute(path).map_err(at(path))?;
        let fd = match open_directory(&path) {
            Err(Errno::ENOENT) => make(&path)?,
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(SocketError::NotADirectory { path });
            }
            opened => opened.map_err(|errno| at(&path)(errno.into()))?,
        };
        if let Some((above, owner)) = endangered(&path) {
            return Err(SocketError::ForeignParent { path, above, owner });
        }
        let stat = fstat(&fd).map_err(|errno| at(&path)(errno.into()))?;
        if !is_ours_or_roots(&stat) {
            let owner = stat.st_uid;
            return Err(SocketError::ForeignDirectory { path, owner });
        }
        if stat.st_mode & 0o022 != 0 {
            let mode = stat.st_mode & 0o7777;
            return Err(SocketError::SharedDirectory { path, mode });
        }
        Ok(Self { fd, path })
    }

    /// Returns its path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it to be read and written, and makes it where it is missing.
    pub(super) fn open_file(&self, name: &str) -> Result<File, SocketError> {
        let path = self.path.join(name);
        // Not blocking: a pipe of that name would hold the service up.
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let opened = openat(&self.fd, name, flags | OFlag::O_CLOEXEC, mode);
        let file = match opened {
            Ok(fd) => fd,
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => {
                return Err(SocketError::NotAFile { path });
            }
            Err(errno) => return Err(at(&path)(errno.into())),
        };
        let stat = fstat(&file).map_err(|errno| at(&path)(errno.into()))?;
        let is_plain = kind(&stat) == SFlag::S_IFREG && stat.st_nlink == 1;
        match is_plain && stat.st_uid == geteuid().as_raw() {
            true => Ok(file.into()),
            false => Err(SocketError::NotAFile { path }),
        }
    }

    /// Makes a file in it with that mode, in place of whatever file has the name.
    pub(super) fn make_file(&self, name: &str, mode: u32) -> Result<File, SocketError> {
        let failed = |errno: Errno| at(&self.path.join(name))(errno.into());
        match self.remove(name) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let narrow = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(&self.fd, name, flags | OFlag::O_CLOEXEC, narrow).map_err(failed)?;
        fchmod(&file, Mode::from_bits_truncate(mode)).map_err(failed)?;
        Ok(file.into())
    }

    /// Gives a file another name, in place of whatever file has that.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), SocketError> {
        nix::fcntl::renameat(&self.fd, from, &self.fd, to)
            .map_err(|errno| at(&self.path.join(to))(errno.into()))
    }

    /// Binds a socket of that mode in it; a socket that is left there is removed first.
    pub(super) fn bind(&self, name: &str, mode: u32) -> Result<UnixListener, SocketError> {
        let path = self.path.join(name);
        if path.as_os_str().len() > SOCKET_PATH_BYTES {
            return Err(SocketError::LongPath { path });
        }
        let failed = |errno: Errno| at(&path)(errno.into());
        match self.stat(name) {
            // The lock is ours, so a socket that is still there belongs to a service that is gone.
            Ok(stat) if kind(&stat) == SFlag::S_IFSOCK => self.remove(name).map_err(failed)?,
            Ok(_) => return Err(SocketError::NotASocket { path }),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
        // The file gets the mode of the socket, less the mask, in the moment in which it appears (unix_bind in the
        // kernel), so that nobody can connect before it is narrowed.
        let narrow = Mode::S_IRUSR | Mode::S_IWUSR;
        fchmod(&socket, narrow).map_err(failed)?;
        let bound = format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd());
        let address = UnixAddr::new(bound.as_str()).map_err(failed)?;
        bind(socket.as_raw_fd(), &address).map_err(failed)?;
        let listening = self.set_socket_mode(name, mode).and_then(|()| {
            let backlog = Backlog::new(128)?;
            listen(&socket, backlog)
        });
        if let Err(errno) = listening {
            let _ = self.remove(name);
            return Err(failed(errno));
        }
        Ok(socket.into())
    }

    /// Gives a socket of ours another mode.
    pub(super) fn set_socket_mode(&self, name: &str, mode: u32) -> nix::Result<()> {
        let mode = Mode::from_bits_truncate(mode);
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let socket = openat(&self.fd, name, flags, Mode::empty())?;
        let stat = fstat(&socket)?;
        if kind(&stat) != SFlag::S_IFSOCK || stat.st_uid != geteuid().as_raw() {
            return Err(Errno::ENOTSOCK);
        }
        // chmod of a descriptor that was opened as a mere path goes by its link in /proc only.
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        nix::sys::stat::fchmodat(
            nix::fcntl::AT_FDCWD,
            link.as_str(),
            mode,
            nix::sys::stat::FchmodatFlags::FollowSymlink,
        )
    }

    /// Opens a socket of ours to a group as to its owner.
    pub(super) fn open_socket_to(&self, name: &str, group: Gid) -> Result<(), SocketError> {
        let given = fchownat(
            &self.fd,
            name,
            None,
            Some(group),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        );
        let opened = given.and_then(|()| self.set_socket_mode(name, 0o660));
        opened.map_err(|errno| SocketError::Group {
            path: self.path.join(name),
            group,
            source: errno.into(),
        })
    }

    /// Removes a name that is no directory's.
    pub(super) fn remove(&self, name: &str) -> nix::Result<()> {
        unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)
    }

    fn stat(&self, name: &str) -> nix::Result<FileStat> {
        fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW)
    }
}

fn open_directory(path: &Path) -> nix::Result<OwnedFd> {
    open(path, DIRECTORY, Mode::empty())
}

/// Makes a directory, and those above it that are missing, with the mode that it is to have whatever the mask.
fn make(path: &Path) -> Result<OwnedFd, SocketError> {
    let failed = |errno: Errno| at(path)(errno.into());
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(Errno::ENOENT));
    };
    let parent = match open(
        above,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    ) {
        Err(Errno::ENOENT) => make(above)?,
        opened => opened.map_err(failed)?,
    };
    match mkdirat(&parent, name, DIRECTORY_MODE) {
        Ok(()) => {
            let made = openat(&parent, name, DIRECTORY, Mode::empty()).map_err(failed)?;
            fchmod(&made, DIRECTORY_MODE).map_err(failed)?;
            Ok(made)
        }
        // Somebody was faster: it is checked like any other.
        Err(Errno::EEXIST) => openat(&parent, name, DIRECTORY, Mode::empty()).map_err(failed),
        Err(errno) => Err(failed(errno)),
    }
}

fn is_ours_or_roots(stat: &FileStat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> SocketError + use<> {
    let path = path.to_owned();
    move |source| SocketError::System {
        path: path.clone(),
        source,
    }
}
