//! What a process gives up before it meets a tenant's bytes: its user, the file system, signals to others, and every
//! system call that it has no use for.
//!
//! Device hosts and compilers confine themselves ([`confine`]) before they start a thread, so that no thread is left
//! out. The list of calls is in [`calls`].
//!
//! Rules: each step says clearly when the kernel does not offer it; a process that runs as root never goes on with
//! root's rights; what is not allowed is refused.

mod calls;

pub use calls::Role;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};
use std::io;
use std::path::PathBuf;

/// The user of the service's own, taken where the configuration names none and the system has it.
const OWN_USER: &str = "gridmux";
/// A group that no process has.
const NOBODYS_GROUP: u32 = 0x7fff_fff0;
/// The user that is taken otherwise.
const OTHER_USER: &str = "nobody";
/// What rights the newest version of landlock that is asked for knows; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;
/// Where the names of this process's threads are.
const OWN_THREADS: &str = "/proc/self/task";
/// Where NVIDIA's driver has its libraries and reads facts about the system.
const CUDA_READS: [&str; 7] = ["/usr", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys"];

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The user does not exist.
    #[error("host_user {0:?} does not exist; name a user without rights, such as \"nobody\"")]
    NoUser(String),
    /// The user would keep root's rights.
    #[error("host_user {0:?} is root; name a user without rights, such as \"nobody\"")]
    Root(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// Why not.
        error: String,
    },
}

fn system<E: ToString>(what: &'static str) -> impl Fn(E) -> SandboxError {
    move |error| SandboxError::System {
        what,
        error: error.to_string(),
    }
}

/// Ends this process when the one that started it ends, however it ends.
///
/// # Errors
/// The system call's.
pub fn tie_to_parent() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

/// Becomes a user without rights, for good, and leaves no core file and nothing to attach to. A service that does not
/// run as root stays who it is. Without a name it is `gridmux`, if there is such a user, and `nobody` otherwise.
///
/// # Errors
/// [`SandboxError`]: a user that does not exist or is root, or a system call that failed.
pub fn drop_privileges(name: Option<&str>) -> Result<(), SandboxError> {
    if nix::unistd::geteuid().is_root() {
        let (uid, gid) = find_user(name)?;
        setgroups(&[]).map_err(system("setgroups"))?;
        // Who looks into another process must have all of its groups (ptrace(2)), and nobody has this saved one. Where
        // a user namespace does not know the group, it is the user's own.
        setresgid(gid, gid, Gid::from_raw(NOBODYS_GROUP))
            .or_else(|_| setresgid(gid, gid, gid))
            .map_err(system("setresgid"))?;
        setresuid(uid, uid, uid).map_err(system("setresuid"))?;
        // Changing the user cleared the death signal (prctl(2)).
        tie_to_parent().map_err(system("prctl"))?;
    }
    prctl::set_no_new_privs().map_err(system("no_new_privs"))?;
    // Neither a core file nor another process of the same user shows tenants' bytes.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(system("RLIMIT_CORE"))?;
    set_dumpable(false)
}

/// Sets whether this process leaves core files and other processes of its user may look into it (`PR_SET_DUMPABLE`).
/// NVIDIA's driver names its threads by files of `/proc/self/task`, which are root's while it is not, and gives up
/// where it cannot; so a host on a GPU is dumpable while the driver starts, before it has seen a byte of a tenant.
///
/// # Errors
/// The system call's.
pub fn set_dumpable(is_dumpable: bool) -> Result<(), SandboxError> {
    prctl::set_dumpable(is_dumpable).map_err(system("PR_SET_DUMPABLE"))
}

/// Finds the user to become.
fn find_user(name: Option<&str>) -> Result<(Uid, Gid), SandboxError> {
    let look_up = |name: &str| User::from_name(name).map_err(system("looking up host_user"));
    let (found, name) = match name {
        Some(name) => (look_up(name)?, name),
        None => match look_up(OWN_USER)? {
            Some(user) => (Some(user), OWN_USER),
            None => (look_up(OTHER_USER)?, OTHER_USER),
        },
    };
    let (uid, gid) = match found {
        Some(user) => (user.uid, user.gid),
        // Without a user database `nobody` still has its number.
        None if name == OTHER_USER => (Uid::from_raw(65534), Gid::from_raw(65534)),
        None => return Err(SandboxError::NoUser(name.to_owned())),
    };
    if uid.is_root() {
        return Err(SandboxError::Root(name.to_owned()));
    }
    Ok((uid, gid))
}

/// Returns the number of the user that a host becomes; nothing where the service stays who it is, or there is no such
/// user.
#[must_use]
pub fn host_uid(name: Option<&str>) -> Option<u32> {
    let is_root = nix::unistd::geteuid().is_root();
    let found = is_root.then(|| find_user(name))?;
    found.ok().map(|(uid, _)| uid.as_raw())
}

/// Returns the name of the user that a host becomes where the configuration names none.
#[must_use]
pub fn default_user() -> &'static str {
    match User::from_name(OWN_USER) {
        Ok(Some(_)) => OWN_USER,
        Ok(None) | Err(_) => OTHER_USER,
    }
}

/// Takes files, signals to others and all but a few system calls away from this thread and those it starts. To be
/// called while it is the only one.
///
/// # Errors
/// [`SandboxError::System`]. A kernel without landlock is warned of, and is no error.
pub fn confine(role: Role) -> Result<(), SandboxError> {
    let status = forbid_files(role).map_err(system("landlock"))?;
    if status == RulesetStatus::NotEnforced {
        tracing::warn!("this kernel has no landlock: files are protected by their owners alone");
    }
    calls::limit(role)
}

/// Takes all but a few system calls away from a process that was forked from a confined one, whose other limits it has.
///
/// # Errors
/// [`SandboxError::System`].
pub fn confine_calls(role: Role) -> Result<(), SandboxError> {
    calls::limit(role)
}

/// Takes the file system, network ports, abstract sockets and signals to other processes away (landlock); descriptors
/// that are open stay. NVIDIA's driver may read what a system library reads, use NVIDIA's device files, and write what
/// `/proc` has of this process's own threads, to name them.
fn forbid_files(role: Role) -> Result<RulesetStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    if role == Role::CudaHost {
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        for path in CUDA_READS.map(PathBuf::from) {
            ruleset = permit(ruleset, path, read)?;
        }
        let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        let of_nvidia = devices.filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(b"nvidia") || name == "null" || name == "zero"
        });
        for entry in of_nvidia {
            let all = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
            ruleset = permit(ruleset, entry.path(), all)?;
        }
        let name = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        ruleset = permit(ruleset, PathBuf::from(OWN_THREADS), name | read)?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Permits something beneath a path; one that does not exist needs no permission.
fn permit(
    ruleset: RulesetCreated,
    path: PathBuf,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(beneath) => ruleset.add_rule(PathBeneath::new(beneath, access)),
        Err(_) => Ok(ruleset),
    }
}
