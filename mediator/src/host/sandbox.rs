//! What a device host gives up before it meets a tenant: its user, the file system, and system calls that it has no
//! use for.
//!
//! Rules: each step says clearly when the kernel does not offer it; a host that runs as root never goes on with root's
//! rights. Threads started later inherit everything.

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;
use std::io;

/// Why a host cannot be confined.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    /// The user does not exist.
    #[error("host_user {0:?} does not exist; name a user without rights, such as \"nobody\"")]
    NoUser(String),
    /// The user would keep root's rights.
    #[error("host_user {0:?} is root; name a user without rights, such as \"nobody\"")]
    Root(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
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

/// Ends this process when the supervisor ends, however it ends.
pub(super) fn tie_to_parent() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

/// Becomes a user without rights, for good. A service that does not run as root stays who it is.
pub(super) fn drop_privileges(name: &str) -> Result<(), SandboxError> {
    if nix::unistd::geteuid().is_root() {
        let found = User::from_name(name).map_err(system("looking up host_user"))?;
        // Without a user database `nobody` still has its number.
        let (uid, gid) = match found {
            Some(user) => (user.uid, user.gid),
            None if name == "nobody" => (Uid::from_raw(65534), Gid::from_raw(65534)),
            None => return Err(SandboxError::NoUser(name.to_owned())),
        };
        if uid.is_root() {
            return Err(SandboxError::Root(name.to_owned()));
        }
        setgroups(&[]).map_err(system("setgroups"))?;
        setresgid(gid, gid, gid).map_err(system("setresgid"))?;
        setresuid(uid, uid, uid).map_err(system("setresuid"))?;
        // Changing the user cleared the death signal (prctl(2)).
        tie_to_parent().map_err(system("prctl"))?;
    }
    prctl::set_no_new_privs().map_err(system("no_new_privs"))?;
    Ok(())
}

/// Takes the whole file system away (landlock); the descriptors that are open stay.
pub(super) fn forbid_files() -> Result<(), SandboxError> {
    let everything = AccessFs::from_all(ABI::V3);
    let ruleset = Ruleset::default()
        .handle_access(everything)
        .and_then(Ruleset::create);
    let status = ruleset
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(system("landlock"))?;
    if status.ruleset == landlock::RulesetStatus::NotEnforced {
        tracing::warn!(
            "this kernel has no landlock: the device host keeps its view of the file system"
        );
    }
    Ok(())
}

/// Forbids system calls that a host never makes and a takeover would want.
pub(super) fn limit_system_calls() -> Result<(), SandboxError> {
    let forbidden = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
    ];
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> = forbidden
        .into_iter()
        .map(|call| (call, Vec::new()))
        .collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(system("seccomp"))?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, denied, arch).map_err(system("seccomp"))?;
    let program = BpfProgram::try_from(filter).map_err(system("seccomp"))?;
    // All threads: the device thread of the model runs already.
    seccompiler::apply_filter_all_threads(&program).map_err(system("seccomp"))
}
