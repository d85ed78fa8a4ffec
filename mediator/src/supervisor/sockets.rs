//! The sockets of a service: one for all clients, one for operators, and a lock that says whose they are.
//!
//! The clients' socket may be opened by everybody (mode 0666) as soon as the configuration has a rule for some tenant:
//! who a client is decides what it gets, not whether it can open the socket. Without any rule only root and the
//! service's own user are ever served, and the socket is theirs alone (mode 0600). The operators' socket has mode 0600,
//! or 0660 and the group that the configuration names (`operator_group`), whose members may read statistics only.
//!
//! Rules: the lock is taken before any socket is touched, so a second service on the same folder changes nothing of
//! the first; a path that is no socket is never removed; sockets go when the service goes, also when it does not get as
//! far as serving.

use super::folder::{Folder, at};
use super::rules::group_number;
use crate::config::{Config, Principal, TenantConfig};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Gid;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Name of the socket for all clients.
pub const CLIENT_SOCKET: &str = "gridmux.sock";
/// Name of the operators' socket.
pub(crate) const ADMIN_SOCKET: &str = "control.sock";
/// Name of the lock.
const LOCK: &str = "gridmux.lock";
/// Most bytes of the lock that are read to name its owner.
const OWNER_BYTES: u64 = 32;

/// Why the run directory or a socket cannot be had.
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
    /// The lock or another file of the service is a link, or somebody else's, or no file.
    #[error(
        "{path}: is no regular file of this user's with one name, so it is not written; move it away"
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The run directory is a link or no directory.
    #[error("{path}: is a link or no directory; name the directory itself as run_dir")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The run directory is somebody else's.
    #[error(
        "{path}: belongs to user {owner}, who could replace what the service keeps there; set another run_dir"
    )]
    ForeignDirectory {
        /// The path.
        path: PathBuf,
        /// Its owner, as a number.
        owner: u32,
    },
    /// A directory above the run directory is somebody else's.
    #[error(
        "{path}: {} is user {owner}'s or can be written by others, who could put another directory in its place; set \
         another run_dir",
        above.display()
    )]
    ForeignParent {
        /// The run directory.
        path: PathBuf,
        /// The directory above it.
        above: PathBuf,
        /// The owner of that, as a number.
        owner: u32,
    },
    /// Others may write the run directory.
    #[error(
        "{path}: its mode {mode:04o} lets others write; take that away (chmod go-w), or set another run_dir"
    )]
    SharedDirectory {
        /// The path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The path of a socket is longer than clients can connect to.
    #[error("{path}: is longer than the 107 bytes of a socket's path; set a shorter run_dir")]
    LongPath {
        /// The path.
        path: PathBuf,
    },
    /// The operators' socket cannot be given to a group.
    #[error(
        "{path}: cannot be given to group {group} (operator_group): {source}; a service gives it to groups that it is \
         in, or to all with CAP_CHOWN"
    )]
    Group {
        /// The path.
        path: PathBuf,
        /// The group.
        group: Gid,
        /// The system call's error.
        source: io::Error,
    },
    /// There is no such group.
    #[error("operator_group: there is no group {0:?} on this system")]
    NoGroup(String),
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
    bound: Bound,
}

/// The lock and sockets taken in the folder, which are given back when this is dropped.
#[derive(Debug)]
struct Bound {
    folder: Folder,
    names: Vec<&'static str>,
    _lock: Flock<File>,
}

impl Claim {
    /// Locks the folder and binds every socket.
    pub(super) fn take(config: &Config) -> Result<Self, SocketError> {
        let folder = Folder::open(&config.run_dir)?;
        let mut bound = Bound {
            _lock: lock(&folder)?,
            folder,
            names: Vec::new(),
        };
        let group = config.operator_group.as_ref().map(operators).transpose()?;
        let admin = bound.bind(ADMIN_SOCKET, 0o600)?;
        if let Some(group) = group {
            bound.folder.open_socket_to(ADMIN_SOCKET, group)?;
        }
        Ok(Self {
            admin,
            clients: bound.bind(CLIENT_SOCKET, mode_for_clients(config))?,
            bound,
        })
    }
}

/// Returns the mode of the clients' socket: everybody may connect if some tenant has a rule, and otherwise only the
/// service's own user and root.
fn mode_for_clients(config: &Config) -> u32 {
    match config.tenants.iter().any(TenantConfig::has_rule) {
        true => 0o666,
        false => 0o600,
    }
}

/// Looks the group of operators up.
fn operators(group: &Principal) -> Result<Gid, SocketError> {
    let found = group.number().or_else(|| group_number(group.as_str()));
    let missing = || SocketError::NoGroup(group.to_string());
    found.map(Gid::from_raw).ok_or_else(missing)
}

impl Claim {
    /// Returns the folder.
    pub(super) fn folder(&self) -> &Folder {
        &self.bound.folder
    }

    /// Opens the clients' socket to those who may be tenants of another configuration, or closes it to others.
    pub(super) fn open_to_clients_of(&self, config: &Config) {
        let mode = mode_for_clients(config);
        if let Err(error) = self.folder().set_socket_mode(CLIENT_SOCKET, mode) {
            tracing::error!(%error, "the mode of {CLIENT_SOCKET} stays as it is; it should be {mode:o}");
        }
    }
}

impl Bound {
    fn bind(&mut self, name: &'static str, mode: u32) -> Result<UnixListener, SocketError> {
        let listener = self.folder.bind(name, mode)?;
        self.names.push(name);
        Ok(listener)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = self.folder.remove(name);
        }
    }
}

fn lock(folder: &Folder) -> Result<Flock<File>, SocketError> {
    let file = folder.open_file(LOCK)?;
    let at = at(&folder.path().join(LOCK));
    let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut owner = String::new();
            let _ = file.take(OWNER_BYTES).read_to_string(&mut owner);
            return Err(SocketError::Claimed {
                path: folder.path().to_owned(),
                owner: owner.trim().to_owned(),
            });
        }
        Err((_, errno)) => return Err(at(errno.into())),
    };
    lock.set_len(0).map_err(&at)?;
    io::Write::write_all(&mut *lock, format!("{}\n", std::process::id()).as_bytes())
        .map_err(&at)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::{ADMIN_SOCKET, CLIENT_SOCKET, Claim, LOCK, SocketError};
    use crate::config::Config;
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    /// Returns the error of a claim, and asserts that there is one.
    fn refused(folder: &std::path::Path) -> SocketError {
        match Claim::take(&config(folder)) {
            Err(error) => error,
            Ok(claim) => panic!("{claim:?}"),
        }
    }

    #[test]
    fn a_lock_that_is_a_link_or_has_a_second_name_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, lock) = (folder.path().join("victim"), folder.path().join(LOCK));
        std::fs::write(&victim, "precious").unwrap();
        let ways: [fn(&std::path::Path, &std::path::Path) -> std::io::Result<()>; 2] = [
            |victim, lock| symlink(victim, lock),
            |victim, lock| std::fs::hard_link(victim, lock),
        ];
        for make in ways {
            make(&victim, &lock).unwrap();
            let error = refused(folder.path());
            assert!(matches!(error, SocketError::NotAFile { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
            std::fs::remove_file(&lock).unwrap();
        }
        std::fs::create_dir(&lock).unwrap();
        let error = refused(folder.path());
        assert!(matches!(error, SocketError::NotAFile { .. }), "{error}");
        std::fs::remove_dir(&lock).unwrap();
        // A link that leads nowhere makes no file there either.
        symlink(folder.path().join("nowhere"), &lock).unwrap();
        refused(folder.path());
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn a_folder_that_is_a_link_or_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let error = refused(&link);
        assert!(
            matches!(error, SocketError::NotADirectory { .. }),
            "{error}"
        );
        for mode in [0o777, 0o1777, 0o770] {
            std::fs::set_permissions(&real, PermissionsExt::from_mode(mode)).unwrap();
            let error = refused(&real);
            assert!(
                matches!(error, SocketError::SharedDirectory { .. }),
                "{error}"
            );
        }
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o750)).unwrap();
        Claim::take(&config(&real)).unwrap();
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root can give a folder away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let owner = Some(nix::unistd::Uid::from_raw(65_534));
        nix::unistd::chown(folder.path(), owner, None).unwrap();
        let error = refused(folder.path());
        assert!(
            matches!(error, SocketError::ForeignDirectory { owner: 65_534, .. }),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_below_one_of_somebody_else_is_refused_links_included() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root can give a folder away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link"));
        let run = theirs.join("run");
        std::fs::create_dir_all(&run).unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        Claim::take(&config(&link.join("run"))).unwrap();
        let owner = Some(nix::unistd::Uid::from_raw(65_534));
        nix::unistd::chown(&theirs, owner, None).unwrap();
        for run in [run, link.join("run")] {
            let error = refused(&run);
            let is_named = match &error {
                SocketError::ForeignParent { above, owner, .. } => {
                    (above, *owner) == (&theirs, 65_534)
                }
                _ => false,
            };
            assert!(is_named, "{error}");
        }
    }

    #[test]
    fn missing_folders_are_made_so_that_clients_can_pass() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("a/b");
        let _claim = Claim::take(&config(&run)).unwrap();
        for made in [&run, &folder.path().join("a")] {
            let mode = std::fs::metadata(made).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o755, "{made:?}");
        }
    }

    #[test]
    fn a_claim_that_fails_leaves_no_socket_behind() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(CLIENT_SOCKET)).unwrap();
        let error = refused(folder.path());
        assert!(matches!(error, SocketError::NotASocket { .. }), "{error}");
        assert!(!folder.path().join(ADMIN_SOCKET).exists());
    }

    #[test]
    fn a_path_that_no_client_could_connect_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = refused(&folder.path().join("x".repeat(100)));
        assert!(matches!(error, SocketError::LongPath { .. }), "{error}");
    }

    #[test]
    fn operators_of_a_group_may_open_their_socket_and_nobody_else() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        // Whoever runs this test is in its own group; root may take any.
        let own = nix::unistd::getegid().as_raw();
        let group = if nix::unistd::geteuid().is_root() {
            65_533
        } else {
            own
        };
        config.operator_group = Some(group.to_string().as_str().into());
        let claim = Claim::take(&config).unwrap();
        let socket = std::fs::metadata(folder.path().join(ADMIN_SOCKET)).unwrap();
        assert_eq!((socket.mode() & 0o7777, socket.gid()), (0o660, group));
        drop(claim);
        config.operator_group = Some("no-such-group".into());
        let error = Claim::take(&config).unwrap_err().to_string();
        assert!(
            error.contains("operator_group") && error.contains("no-such-group"),
            "{error}"
        );
        assert!(!folder.path().join(ADMIN_SOCKET).exists());
    }
}
