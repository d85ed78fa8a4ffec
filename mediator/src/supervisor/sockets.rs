//! The sockets of a service: one for all clients, one for operators, and a lock that says whose they are.
//!
//! The clients' socket may be opened by everybody (mode 0666) as soon as the configuration has a rule for some tenant:
//! who a client is decides what it gets, not whether it can open the socket. Without any rule only root and the
//! service's own user are ever served, and the socket is theirs alone (mode 0600). The operators' socket has mode 0600
//! in any case.
//!
//! Rules: the lock is taken before any socket is touched, so a second service on the same folder changes nothing of
//! the first; a path that is no socket is never removed; sockets go when the service goes.

use crate::config::{Config, TenantConfig};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Name of the socket for all clients.
pub const CLIENT_SOCKET: &str = "gridmux.sock";
/// Name of the operators' socket.
pub(crate) const ADMIN_SOCKET: &str = "control.sock";

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another service is there.
    #[error(
        "{path}: another gridmux service (process {owner}) owns this folder; stop it, or set another run_dir"
    )]
    Claimed {
        /// The folder.
        path: PathBuf,
        /// Its process, as the lock file says.
        owner: String,
    },
    /// Something else is there.
    #[error("{path}: exists and is no socket; move it away")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{path}: {source}")]
    System {
        /// The path.
        path: PathBuf,
        /// The system call's error.
        source: io::Error,
    },
}

/// The sockets, and the lock on their folder.
#[derive(Debug)]
pub(super) struct Claim {
    /// For operators.
    pub(super) admin: UnixListener,
    /// For clients.
    pub(super) clients: UnixListener,
    paths: Vec<PathBuf>,
    _lock: Flock<File>,
}

impl Claim {
    /// Locks the folder and binds every socket.
    pub(super) fn take(config: &Config) -> Result<Self, SocketError> {
        let folder = &config.run_dir;
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        let lock = lock(folder)?;
        let mut paths = Vec::new();
        let mut bind = |name: &str, mode: u32| -> Result<UnixListener, SocketError> {
            let path = folder.join(name);
            let listener = bind(&path, mode)?;
            paths.push(path);
            Ok(listener)
        };
        let has_rules = config.tenants.iter().any(TenantConfig::has_rule);
        let admin = bind(ADMIN_SOCKET, 0o600)?;
        let clients = bind(CLIENT_SOCKET, if has_rules { 0o666 } else { 0o600 })?;
        Ok(Self {
            admin,
            clients,
            paths,
            _lock: lock,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::System {
        path: path.clone(),
        source,
    }
}

fn lock(folder: &Path) -> Result<Flock<File>, SocketError> {
    let path = folder.join("gridmux.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(at(&path))?;
    let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
            let owner = std::fs::read_to_string(&path)
                .unwrap_or_default()
                .trim()
                .to_owned();
            return Err(SocketError::Claimed {
                path: folder.to_owned(),
                owner,
            });
        }
        Err((_, errno)) => return Err(at(&path)(errno.into())),
    };
    lock.set_len(0).map_err(at(&path))?;
    io::Write::write_all(&mut *lock, format!("{}\n", std::process::id()).as_bytes())
        .map_err(at(&path))?;
    Ok(lock)
}

fn bind(path: &Path, mode: u32) -> Result<UnixListener, SocketError> {
    match std::fs::symlink_metadata(path) {
        // The lock is ours, so a socket that is still there belongs to a service that is gone.
        Ok(metadata) if metadata.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(at(path))?
        }
        Ok(_) => {
            return Err(SocketError::NotASocket {
                path: path.to_owned(),
            });
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(at(path))?;
    listener.set_nonblocking(true).map_err(at(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(at(path))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::{ADMIN_SOCKET, CLIENT_SOCKET, Claim, SocketError};
    use crate::config::Config;
    use std::os::unix::fs::PermissionsExt;

    fn config(folder: &std::path::Path) -> Config {
        let text = format!("schema_version = 1\nrun_dir = {folder:?}\n[[tenant]]\nname = \"a\"\n");
        Config::parse(&text).unwrap()
    }

    #[test]
    fn a_second_claim_is_refused_and_harms_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::take(&config(folder.path())).unwrap();
        match Claim::take(&config(folder.path())) {
            Err(SocketError::Claimed { owner, .. }) => {
                assert_eq!(owner, std::process::id().to_string())
            }
            other => panic!("{other:?}"),
        }
        assert!(folder.path().join(CLIENT_SOCKET).exists());
        drop(first);
        assert!(!folder.path().join(CLIENT_SOCKET).exists());
        Claim::take(&config(folder.path())).unwrap();
    }

    #[test]
    fn everybody_may_open_the_clients_socket_only_if_somebody_else_may_be_a_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let metadata = std::fs::metadata(folder.path().join(name)).unwrap();
            metadata.permissions().mode() & 0o777
        };
        let mut config = config(folder.path());
        let claim = Claim::take(&config).unwrap();
        assert_eq!((mode(CLIENT_SOCKET), mode(ADMIN_SOCKET)), (0o600, 0o600));
        drop(claim);
        config.tenants[0].group = Some("video".into());
        let _claim = Claim::take(&config).unwrap();
        assert_eq!((mode(CLIENT_SOCKET), mode(ADMIN_SOCKET)), (0o666, 0o600));
    }

    #[test]
    fn a_file_in_the_way_is_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CLIENT_SOCKET);
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(
            Claim::take(&config(folder.path())),
            Err(SocketError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
}
