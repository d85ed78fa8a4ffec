//! Who is at the other end of a connection: the kernel's word, not the peer's.
//!
//! `SO_PEERCRED` gives process, user and group as they were when the peer connected; `SO_PEERPIDFD` gives a descriptor
//! of that very process, so that a reused process number cannot be mistaken for it.

use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// Process.
    pub(super) pid: i32,
    /// User.
    pub(super) uid: u32,
    /// Descriptor of the process.
    pub(super) process: OwnedFd,
}

/// Why a peer is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// Not the user that the tenant belongs to.
    #[error("process {pid} runs as user {uid}, which may not use this tenant's socket")]
    Uid {
        /// Process.
        pid: i32,
        /// User.
        uid: u32,
    },
    /// The kernel does not tell.
    #[error("cannot tell who connected: {0}")]
    System(#[from] io::Error),
}

/// Establishes a peer and checks its user: the tenant's own if one is configured, else root or the service's.
pub(super) fn establish(connection: &UnixStream, owner: Option<u32>) -> Result<Peer, PeerError> {
    let credentials = getsockopt(connection, sockopt::PeerCredentials).map_err(io::Error::from)?;
    let (pid, uid) = (credentials.pid(), credentials.uid());
    let own = nix::unistd::geteuid().as_raw();
    let allowed = uid == 0 || owner.map_or(uid == own, |owner| uid == owner);
    if !allowed {
        return Err(PeerError::Uid { pid, uid });
    }
    Ok(Peer {
        pid,
        uid,
        process: peer_pidfd(connection)?,
    })
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
