//! Telling the service manager that the service is up (sd_notify(3)).
//!
//! Rule: a service manager that cannot be told is no reason not to serve.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `READY=1` to the socket that `NOTIFY_SOCKET` names, where it is set.
pub(crate) fn ready() {
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&path, b"READY=1\n")
    {
        tracing::warn!(%error, socket = ?path, "the service manager cannot be told that the service is ready");
    }
}

/// Sends a message to a socket. A name that starts with `@` is in the abstract namespace (unix(7)).
fn send(path: &OsStr, message: &[u8]) -> io::Result<()> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address)?;
    Ok(())
}
