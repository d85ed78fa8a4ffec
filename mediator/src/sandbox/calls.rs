//! The system calls that a confined process may make (seccomp).
//!
//! The list names what is allowed, and by which arguments where those matter; it was found by tracing the processes
//! under the integration tests. Everything else is refused with `EPERM`: a library that asks for something it can do
//! without goes on, and an attacker in the process has gained an error. Ending the process instead would turn each
//! call that a new libc makes into an outage for all tenants, and protect nothing more.
//!
//! Rules: what asks about a file by its descriptor is `fstat` itself, because `newfstatat` and `statx`, by which the C
//! library does it, ask by name as well. A call that names another process, a file, a socket's address or a namespace
//! stands here only for a reason.

use super::{SandboxError, system};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// The kind of a confined process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A device host on the SM model.
    ModelHost,
    /// A device host on NVIDIA's driver, which opens files and maps libraries as it goes.
    CudaHost,
    /// The fork server of compilers.
    ForkServer,
    /// One compiler.
    Compiler,
}

/// Memory, time, locks, signal handlers and the end of a process.
const BASE: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Descriptors that are passed on, polled and sealed.
const DESCRIPTORS: &[i64] = &[
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_ppoll,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fstat,
    libc::SYS_lseek,
];

/// A device host's clients, rings and threads.
const HOST: &[i64] = &[
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fallocate,
    libc::SYS_fstatfs,
    libc::SYS_membarrier,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
];

/// Calls of the same purpose that exist on this architecture only.
#[cfg(target_arch = "x86_64")]
const HOST_OLD: &[i64] = &[libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const HOST_OLD: &[i64] = &[];
#[cfg(target_arch = "x86_64")]
const POLL_OLD: &[i64] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const POLL_OLD: &[i64] = &[];

/// Calls that NVIDIA's driver needs besides: for files that landlock permits, its devices, memory on chosen nodes.
const CUDA: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_statfs,
    libc::SYS_ioctl,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getppid,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
];
#[cfg(target_arch = "x86_64")]
const CUDA_OLD: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_pipe,
    libc::SYS_dup2,
];
#[cfg(not(target_arch = "x86_64"))]
const CUDA_OLD: &[i64] = &[];

/// Calls that remove a file.
#[cfg(target_arch = "x86_64")]
const UNLINK: &[i64] = &[libc::SYS_unlink, libc::SYS_unlinkat];
#[cfg(not(target_arch = "x86_64"))]
const UNLINK: &[i64] = &[libc::SYS_unlinkat];

/// Calls by which the fork server makes, limits, awaits and confines its children.
const FORK_SERVER: &[i64] = &[
    libc::SYS_wait4,
    libc::SYS_pidfd_open,
    libc::SYS_close_range,
    libc::SYS_dup3,
    libc::SYS_seccomp,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
];

/// Flags without which `clone` makes a process.
const THREAD_FLAGS: i32 =
    libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
/// Flags that make namespaces.
const NAMESPACE_FLAGS: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// Flags that `fork` of glibc and musl sets beside the signal of the child's end.
const FORK_FLAGS: i32 = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;

/// Rules by call: of each, one must match; a call without a rule is always allowed.
#[derive(Default)]
struct Calls(BTreeMap<i64, Vec<SeccompRule>>);

impl Calls {
    fn allow(&mut self, calls: &[i64]) {
        for &call in calls {
            self.0.insert(call, Vec::new());
        }
    }

    /// Allows a call where some bits of an argument, 32 bits wide, have a value.
    fn allow_where(
        &mut self,
        call: i64,
        argument: u8,
        mask: i32,
        value: i32,
    ) -> Result<(), SandboxError> {
        self.allow_if(call, &[(argument, mask, value)])
    }

    /// Allows a call where some bits of each of several arguments have a value.
    fn allow_if(&mut self, call: i64, conditions: &[(u8, i32, i32)]) -> Result<(), SandboxError> {
        let conditions = conditions.iter().map(|&(argument, mask, value)| {
            let mask = u64::from(mask.cast_unsigned());
            let operator = SeccompCmpOp::MaskedEq(mask);
            let value = u64::from(value.cast_unsigned());
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        });
        let conditions = conditions
            .collect::<Result<_, _>>()
            .map_err(system("seccomp"))?;
        let rule = SeccompRule::new(conditions).map_err(system("seccomp"))?;
        self.0.entry(call).or_default().push(rule);
        Ok(())
    }
}

/// Every bit of a 32-bit argument.
const ALL: i32 = -1;

/// Takes every call away that the role has no use for.
pub(super) fn limit(role: Role) -> Result<(), SandboxError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(system("seccomp"))?;
    // libc makes threads and processes by `clone3`, whose flags no filter can read, and by `clone` where that is not
    // there. Of two filters that refuse a call, the one that was installed last says how; this one is the only one that
    // refuses `clone3`.
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    install(SeccompFilter::new(
        clone3,
        SeccompAction::Allow,
        unknown,
        arch,
    ))?;
    if role == Role::CudaHost {
        let nothing = SeccompAction::Errno(libc::ENOENT.unsigned_abs());
        let removals = UNLINK.iter().map(|call| (*call, Vec::new())).collect();
        install(SeccompFilter::new(
            removals,
            SeccompAction::Allow,
            nothing,
            arch,
        ))?;
    }
    let mut calls = allowed(role)?;
    calls.allow(&[libc::SYS_clone3]);
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    install(SeccompFilter::new(
        calls.0,
        denied,
        SeccompAction::Allow,
        arch,
    ))
}

fn install(filter: Result<SeccompFilter, seccompiler::BackendError>) -> Result<(), SandboxError> {
    let filter = filter.map_err(system("seccomp"))?;
    let program = BpfProgram::try_from(filter).map_err(system("seccomp"))?;
    seccompiler::apply_filter(&program).map_err(system("seccomp"))
}

fn allowed(role: Role) -> Result<Calls, SandboxError> {
    let mut calls = Calls::default();
    calls.allow(BASE);
    match role {
        Role::ModelHost | Role::CudaHost => {
            for list in [DESCRIPTORS, POLL_OLD, HOST, HOST_OLD] {
                calls.allow(list);
            }
            allow_threads(&mut calls)?;
            // It asks for its own limit of descriptors, and sets none.
            calls.allow_if(libc::SYS_prlimit64, &[(0, ALL, 0), (2, ALL, 0)])?;
            allow_descriptor_flags(&mut calls)?;
            allow_signals_to_itself(&mut calls)?;
        }
        Role::ForkServer => {
            for list in [DESCRIPTORS, POLL_OLD, FORK_SERVER] {
                calls.allow(list);
            }
            let rest = !(FORK_FLAGS | 0xff);
            calls.allow_if(libc::SYS_clone, &[(0, rest, 0), (0, 0xff, libc::SIGCHLD)])?;
            for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT] {
                calls.allow_where(libc::SYS_kill, 1, ALL, signal)?;
            }
            // Its filter stands in its children too, which may abort.
            calls.allow_where(libc::SYS_tgkill, 2, ALL, libc::SIGABRT)?;
            calls.allow_where(libc::SYS_prlimit64, 0, ALL, 0)?;
            for option in [
                libc::PR_SET_PDEATHSIG,
                libc::PR_SET_NO_NEW_PRIVS,
                libc::PR_SET_SECCOMP,
            ] {
                calls.allow_where(libc::SYS_prctl, 0, ALL, option)?;
            }
            allow_descriptor_flags(&mut calls)?;
        }
        Role::Compiler => allow_signals_to_itself(&mut calls)?,
    }
    if role == Role::CudaHost {
        calls.allow(CUDA);
        calls.allow(CUDA_OLD);
        calls.allow_where(libc::SYS_prlimit64, 0, ALL, 0)?;
        calls.allow_if(
            libc::SYS_prctl,
            &[(0, ALL, libc::PR_SET_DUMPABLE), (1, ALL, 0)],
        )?;
        allow_driver_socket(&mut calls)?;
    } else {
        // No memory is ever code that was data before.
        calls.allow_where(libc::SYS_mmap, 2, libc::PROT_EXEC, 0)?;
        calls.allow_where(libc::SYS_mprotect, 2, libc::PROT_EXEC, 0)?;
    }
    Ok(calls)
}

/// Allows the socket that NVIDIA's driver needs to start: it listens on it under an abstract name. Before it binds the
/// socket, it calls `unlink` with that name; [`limit`] answers `ENOENT`.
fn allow_driver_socket(calls: &mut Calls) -> Result<(), SandboxError> {
    let kind = (1, 0xf, libc::SOCK_SEQPACKET);
    calls.allow_if(libc::SYS_socket, &[(0, ALL, libc::AF_UNIX), kind])?;
    calls.allow(&[libc::SYS_bind, libc::SYS_listen]);
    calls.allow(UNLINK);
    Ok(())
}

fn allow_threads(calls: &mut Calls) -> Result<(), SandboxError> {
    let mask = THREAD_FLAGS | NAMESPACE_FLAGS;
    calls.allow_where(libc::SYS_clone, 0, mask, THREAD_FLAGS)?;
    calls.allow_where(libc::SYS_prctl, 0, ALL, libc::PR_SET_NAME)
}

/// Allows what changes nothing beyond the descriptor; signals on readiness stay refused.
fn allow_descriptor_flags(calls: &mut Calls) -> Result<(), SandboxError> {
    for command in [
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_GET_SEALS,
        libc::F_ADD_SEALS,
    ] {
        calls.allow_where(libc::SYS_fcntl, 1, ALL, command)?;
    }
    // The C library declares requests as unsigned long on some systems and as int on others.
    for request in [0x5421, 0x5451] {
        // FIONBIO and FIOCLEX (asm-generic/ioctls.h).
        calls.allow_where(libc::SYS_ioctl, 1, ALL, request)?;
    }
    Ok(())
}

/// Allows the signal of `abort`.
fn allow_signals_to_itself(calls: &mut Calls) -> Result<(), SandboxError> {
    let own = std::process::id().cast_signed();
    calls.allow_where(libc::SYS_tgkill, 0, ALL, own)?;
    calls.allow_where(libc::SYS_kill, 0, ALL, own)
}
