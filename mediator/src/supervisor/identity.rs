//! The identity of the process at the other end of a connection, as the kernel tells it and not the peer.
//!
//! `SO_PEERCRED` gives process, user and group as they were when the peer connected, `SO_PEERGROUPS` its supplementary
//! groups at that time; `SO_PEERPIDFD` gives a descriptor of that very process, so that a reused process number cannot
//! be mistaken for it. The control group is read from `/proc/PID/cgroup`.
//!
//! Rule: what was read under a process number counts only if the process of the descriptor is still alive afterwards,
//! because its number cannot have been given to another process before.

use crate::link::Credentials;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Supplementary groups that a process can have (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;
/// Most bytes of `/proc/PID/cgroup` that are looked at.
const CGROUP_BYTES: u64 = 64 << 10;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// Process, user, group.
    pub(super) credentials: Credentials,
    /// Supplementary groups.
    pub(super) groups: Vec<u32>,
    /// Control group in the unified hierarchy, if it was asked for and there is one.
    pub(super) cgroup: Option<String>,
    /// Descriptor of the process.
    pub(super) process: OwnedFd,
}

/// Returns the user of a peer.
///
/// # Errors
/// The kernel does not tell.
pub(super) fn user(connection: &UnixStream) -> io::Result<u32> {
    let credentials = getsockopt(connection, sockopt::PeerCredentials).map_err(io::Error::from)?;
    Ok(credentials.uid())
}

/// Establishes a peer; its control group as well if `with_cgroup`.
///
/// # Errors
/// The kernel does not tell, or the process has ended.
pub(super) fn establish(connection: &UnixStream, with_cgroup: bool) -> io::Result<Peer> {
    let credentials = getsockopt(connection, sockopt::PeerCredentials).map_err(io::Error::from)?;
    let credentials = Credentials {
        pid: credentials.pid(),
        uid: credentials.uid(),
        gid: credentials.gid(),
    };
    let process = peer_pidfd(connection)?;
    let cgroup = if with_cgroup {
        let path = cgroup_of(credentials.pid);
        if has_ended(&process)? {
            return Err(io::Error::other("the process has ended"));
        }
        path
    } else {
        None
    };
    Ok(Peer {
        credentials,
        groups: peer_groups(connection)?,
        cgroup,
        process,
    })
}

/// Returns the control group of a process in the unified hierarchy; none where that cannot be read.
fn cgroup_of(pid: i32) -> Option<String> {
    let file = std::fs::File::open(format!("/proc/{pid}/cgroup")).ok()?;
    let mut text = String::new();
    file.take(CGROUP_BYTES).read_to_string(&mut text).ok()?;
    unified(&text)
}

/// Returns the path in the unified hierarchy, from the text of `/proc/PID/cgroup`.
fn unified(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.to_owned())
}

/// Returns whether a process has ended: its descriptor is readable then.
fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut fds, PollTimeout::ZERO)? > 0)
}

/// `SO_PEERPIDFD` (Linux 6.5), which nix does not wrap.
fn peer_pidfd(connection: &UnixStream) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: `fd` and `length` are valid for writes of the sizes given, and the socket is open.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just installed this descriptor for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `SO_PEERGROUPS` (Linux 4.13), which nix does not wrap: supplementary groups, as they were when the peer connected.
fn peer_groups(connection: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let bytes = groups.len() * size_of::<libc::gid_t>();
        let mut length = libc::socklen_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: `groups` is valid for writes of `length` bytes, `length` for a write of its own size, and the socket
        // is open.
        let result = unsafe {
            libc::getsockopt(
                connection.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let written = length as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(written);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The kernel says how much room it wants; a number that no process can reach is not believed.
        let wants_more = error.raw_os_error() == Some(libc::ERANGE)
            && written > groups.len()
            && written <= GROUPS;
        if !wants_more {
            return Err(error);
        }
        groups.resize(written, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{cgroup_of, establish, has_ended, unified};
    use nix::unistd::{getegid, geteuid, getgroups};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_peer_is_who_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        let (connection, _) = listener.accept().unwrap();
        let peer = establish(&connection, true).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(peer.credentials.pid, own);
        assert_eq!(
            (peer.credentials.uid, peer.credentials.gid),
            (geteuid().as_raw(), getegid().as_raw())
        );
        let mut groups: Vec<u32> = getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        let mut found = peer.groups.clone();
        groups.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, groups);
        assert_eq!(peer.cgroup, cgroup_of(own));
        assert!(!has_ended(&peer.process).unwrap());
    }

    #[test]
    fn only_the_unified_hierarchy_counts() {
        let text = "12:cpu:/legacy\n0::/user.slice/a b\n";
        assert_eq!(unified(text).as_deref(), Some("/user.slice/a b"));
        assert_eq!(unified("12:cpu:/legacy\n"), None);
    }
}
