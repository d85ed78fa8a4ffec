//! A confined process tries what it must not do. Each child is forked, has one thread, and confines itself as the real
//! processes do.
//!
//! A binary of its own, because a child that is forked from a process with other tests' threads may find any lock held.

#![cfg(target_os = "linux")]

use gridmux_mediator::sandbox::{Role, confine, drop_privileges, set_dumpable};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, setgroups, setresgid, setresuid};
use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// Every role that a process is confined as.
const ROLES: [Role; 4] = [
    Role::ModelHost,
    Role::CudaHost,
    Role::ForkServer,
    Role::Compiler,
];

/// Result of a call: 0 or more, or the negative number of an error.
type Outcome = i64;

/// Makes a system call; what is left of its six arguments is 0.
fn call<const N: usize>(number: libc::c_long, arguments: [i64; N]) -> Outcome {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: every caller passes numbers, null pointers, or pointers to values that live longer than the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        -i64::from(nix::errno::Errno::last_raw())
    } else {
        result
    }
}

/// Runs `tries` in a forked child that is confined as `role`, and returns what they gave. A child that ends otherwise
/// than by exiting fails the test.
fn confined(role: Role, tries: impl FnOnce(&mut Vec<Outcome>)) -> Vec<Outcome> {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    // SAFETY: the child has one thread; glibc leaves its allocator usable after a fork, and the child takes no other
    // lock of this process.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let mut outcomes = Vec::new();
            let ready = drop_privileges(None).and_then(|()| confine(role));
            if ready.is_ok() {
                tries(&mut outcomes);
            }
            let bytes: Vec<u8> = outcomes.iter().flat_map(|o| o.to_ne_bytes()).collect();
            let code = match nix::unistd::write(&writer, &bytes) {
                Ok(written) if written == bytes.len() && ready.is_ok() => 0,
                _ => 1,
            };
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(reader), &mut bytes).unwrap();
            let status = waitpid(child, None).unwrap();
            assert_eq!(status, WaitStatus::Exited(child, 0), "{role:?}");
            let words = bytes.chunks_exact(8);
            words
                .map(|word| i64::from_ne_bytes(word.try_into().unwrap()))
                .collect()
        }
    }
}

/// The calls that no confined process may make: names, and calls with their arguments.
// Length: a list of calls, each with its arguments.
fn forbidden(parent: i64) -> Vec<(&'static str, libc::c_long, [i64; 5])> {
    const PATH: &CStr = c"/tmp";
    const NEW: &CStr = c"/tmp/gridmux-sandbox-new";
    let path = PATH.as_ptr() as i64;
    let new = NEW.as_ptr() as i64;
    let unix = i64::from(libc::AF_UNIX);
    let user_space = i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    let here = i64::from(libc::AT_FDCWD);
    vec![
        (
            "a user namespace by clone",
            libc::SYS_clone,
            [user_space, 0, 0, 0, 0],
        ),
        (
            "a user namespace by unshare",
            libc::SYS_unshare,
            [i64::from(libc::CLONE_NEWUSER), 0, 0, 0, 0],
        ),
        ("a signal to all", libc::SYS_kill, [-1, 0, 0, 0, 0]),
        (
            "a signal to the parent",
            libc::SYS_kill,
            [parent, 0, 0, 0, 0],
        ),
        (
            "a signal to a thread of the parent",
            libc::SYS_tgkill,
            [parent, parent, 0, 0, 0],
        ),
        ("tkill", libc::SYS_tkill, [parent, 0, 0, 0, 0]),
        (
            "a queued signal",
            libc::SYS_rt_sigqueueinfo,
            [parent, 0, 0, 0, 0],
        ),
        (
            "a signal by descriptor",
            libc::SYS_pidfd_send_signal,
            [0, 0, 0, 0, 0],
        ),
        (
            "shared memory of System V",
            libc::SYS_shmget,
            [0, 4096, 0o1600, 0, 0],
        ),
        (
            "a queue of System V",
            libc::SYS_msgget,
            [0, 0o1600, 0, 0, 0],
        ),
        (
            "a semaphore of System V",
            libc::SYS_semget,
            [0, 1, 0o1600, 0, 0],
        ),
        (
            "a queue of POSIX",
            libc::SYS_mq_open,
            [path, 0o102, 0o600, 0, 0],
        ),
        ("fchmodat", libc::SYS_fchmodat, [here, path, 0o777, 0, 0]),
        ("fchmod", libc::SYS_fchmod, [0, 0o777, 0, 0, 0]),
        ("fchown", libc::SYS_fchown, [0, 0, 0, 0, 0]),
        (
            "an extended attribute",
            libc::SYS_setxattr,
            [path, path, path, 1, 0],
        ),
        (
            "a list of extended attributes",
            libc::SYS_listxattr,
            [path, 0, 0, 0, 0],
        ),
        (
            "times of a file",
            libc::SYS_utimensat,
            [here, path, 0, 0, 0],
        ),
        ("a folder", libc::SYS_mkdirat, [here, new, 0o700, 0, 0]),
        (REMOVAL, libc::SYS_unlinkat, [here, new, 0, 0, 0]),
        (
            "a network socket",
            libc::SYS_socket,
            [
                i64::from(libc::AF_INET),
                i64::from(libc::SOCK_STREAM),
                0,
                0,
                0,
            ],
        ),
        (
            "a socket for streams",
            libc::SYS_socket,
            [unix, i64::from(libc::SOCK_STREAM), 0, 0, 0],
        ),
        (
            "a socket for datagrams",
            libc::SYS_socket,
            [unix, i64::from(libc::SOCK_DGRAM), 0, 0, 0],
        ),
        (
            PACKET_SOCKET,
            libc::SYS_socket,
            [unix, i64::from(libc::SOCK_SEQPACKET), 0, 0, 0],
        ),
        ("a connection", libc::SYS_connect, [0, 0, 0, 0, 0]),
        (
            "a connection's acceptance",
            libc::SYS_accept4,
            [0, 0, 0, 0, 0],
        ),
        (
            "a pair of sockets",
            libc::SYS_socketpair,
            [unix, i64::from(libc::SOCK_STREAM), 0, 0, 0],
        ),
        ("another program", libc::SYS_execve, [path, 0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [0, 0, 0, 0, 0]),
        (
            "another process's memory",
            libc::SYS_process_vm_readv,
            [parent, 0, 0, 0, 0],
        ),
        (
            "another process's descriptor",
            libc::SYS_pidfd_getfd,
            [0, 0, 0, 0, 0],
        ),
        ("eBPF", libc::SYS_bpf, [0, 0, 0, 0, 0]),
        ("io_uring", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
        (
            "performance counters",
            libc::SYS_perf_event_open,
            [0, 0, -1, -1, 0],
        ),
        ("a key", libc::SYS_add_key, [path, path, path, 1, -3]),
        ("a mount", libc::SYS_mount, [0, path, 0, 0, 0]),
        (
            "another personality",
            libc::SYS_personality,
            [0, 0, 0, 0, 0],
        ),
        (
            "a dump of memory",
            libc::SYS_prctl,
            [i64::from(libc::PR_SET_DUMPABLE), 1, 0, 0, 0],
        ),
    ]
}

/// A number of the 32-bit interface of x86-64, whose calls a list of 64-bit numbers could miss.
#[cfg(target_arch = "x86_64")]
const X32_GETPID: libc::c_long = 0x4000_0000 + 39;

/// The call that only a host on NVIDIA's driver may make.
const PACKET_SOCKET: &str = "a packet socket";
/// The call that a host on NVIDIA's driver gets `ENOENT` for, and every other role `EPERM`.
const REMOVAL: &str = "an end of a file";

#[test]
fn what_is_not_allowed_is_refused() {
    let eperm = -i64::from(libc::EPERM);
    let parent = i64::from(std::process::id());
    for role in ROLES {
        let list = forbidden(parent);
        let outcomes = confined(role, |outcomes| {
            outcomes.extend(
                list.iter()
                    .map(|(_, number, arguments)| call(*number, *arguments)),
            );
        });
        assert_eq!(outcomes.len(), list.len());
        for ((what, ..), outcome) in list.iter().zip(outcomes) {
            match (role, *what) {
                // NVIDIA's driver listens on a socket of its own, or does not start.
                (Role::CudaHost, PACKET_SOCKET) => assert!(outcome >= 0, "{what}: {outcome}"),
                // As if there were no such file.
                (Role::CudaHost, REMOVAL) => {
                    assert_eq!(outcome, -i64::from(libc::ENOENT), "{what}");
                }
                _ => assert_eq!(outcome, eperm, "{role:?}: {what}"),
            }
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            confined(role, |o| o.push(call(X32_GETPID, [0; 5]))),
            [eperm]
        );
    }
}

#[test]
fn processes_are_made_by_the_fork_server_only_and_threads_by_hosts_only() {
    let flags = i64::from(libc::SIGCHLD);
    let clone3 = |o: &mut Vec<Outcome>| o.push(call(libc::SYS_clone3, [0, 0, 0, 0, 0]));
    let fork = |o: &mut Vec<Outcome>| {
        let child = call(libc::SYS_clone, [flags, 0, 0, 0, 0]);
        if child == 0 {
            // SAFETY: ends the child of the child.
            unsafe { libc::_exit(0) }
        }
        o.push(child.min(1));
    };
    let thread = |o: &mut Vec<Outcome>| {
        let made = std::thread::Builder::new()
            .spawn(|| 7)
            .map(std::thread::JoinHandle::join);
        o.push(made.map_or(-1, |joined| joined.map_or(-2, i64::from)));
    };
    for role in [Role::ModelHost, Role::CudaHost, Role::Compiler] {
        assert_eq!(confined(role, fork), [-i64::from(libc::EPERM)], "{role:?}");
    }
    assert_eq!(confined(Role::ForkServer, fork), [1]);
    for role in ROLES {
        assert_eq!(
            confined(role, clone3),
            [-i64::from(libc::ENOSYS)],
            "{role:?}"
        );
        let made = i64::from(matches!(role, Role::ModelHost | Role::CudaHost));
        let expected = if made == 1 { 7 } else { -1 };
        assert_eq!(confined(role, thread), [expected], "{role:?}");
    }
}

#[test]
fn no_file_is_asked_about_by_its_name() {
    let path = c"/tmp".as_ptr() as i64;
    let mut facts = [0_u8; 256];
    let facts = facts.as_mut_ptr() as i64;
    let by_name = |o: &mut Vec<Outcome>| {
        let here = i64::from(libc::AT_FDCWD);
        o.push(call(libc::SYS_newfstatat, [here, path, facts, 0, 0]));
        o.push(call(libc::SYS_statx, [here, path, 0, 0, facts]));
    };
    let by_descriptor = |o: &mut Vec<Outcome>| o.push(call(libc::SYS_fstat, [0, facts, 0, 0, 0]));
    let eperm = -i64::from(libc::EPERM);
    for role in [Role::ModelHost, Role::ForkServer, Role::Compiler] {
        assert_eq!(confined(role, by_name), [eperm, eperm], "{role:?}");
    }
    for role in [Role::ModelHost, Role::ForkServer] {
        assert_eq!(confined(role, by_descriptor), [0], "{role:?}");
    }
}

#[test]
fn data_never_becomes_code_but_for_the_driver() {
    let map = |protection: i32| {
        move |o: &mut Vec<Outcome>| {
            let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = call(
                libc::SYS_mmap,
                [0, 4096, i64::from(protection), flags, -1, 0],
            );
            o.push(at.min(1));
        }
    };
    let code = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    for role in [Role::ModelHost, Role::ForkServer, Role::Compiler] {
        assert_eq!(
            confined(role, map(code)),
            [-i64::from(libc::EPERM)],
            "{role:?}"
        );
        assert_eq!(confined(role, map(libc::PROT_READ)), [1], "{role:?}");
    }
    assert_eq!(confined(Role::CudaHost, map(code)), [1]);
}

#[test]
fn files_are_out_of_reach_but_for_what_the_driver_reads() {
    let open = |path: &'static CStr, flags: i32| {
        move |o: &mut Vec<Outcome>| {
            let (here, path) = (i64::from(libc::AT_FDCWD), path.as_ptr() as i64);
            let opened = call(libc::SYS_openat, [here, path, i64::from(flags), 0o600, 0]);
            o.push(opened.min(0));
        }
    };
    let (eperm, eacces) = (-i64::from(libc::EPERM), -i64::from(libc::EACCES));
    for role in [Role::ModelHost, Role::ForkServer, Role::Compiler] {
        assert_eq!(
            confined(role, open(c"/proc/self/maps", libc::O_RDONLY)),
            [eperm],
            "{role:?}"
        );
    }
    let cuda = |path, flags| confined(Role::CudaHost, open(path, flags));
    assert_eq!(cuda(c"/proc/self/maps", libc::O_RDONLY), [0]);
    assert_eq!(cuda(c"/etc/hosts", libc::O_RDWR), [eacces]);
    assert_eq!(cuda(c"/tmp", libc::O_RDONLY), [eacces]);
    assert_eq!(
        cuda(c"/tmp/gridmux-sandbox-new", libc::O_RDWR | libc::O_CREAT),
        [eacces]
    );
}

#[test]
fn a_confined_process_leaves_no_core_file_and_is_nobody() {
    let outcomes = confined(Role::CudaHost, |o| {
        let mut limit = libc::rlimit {
            rlim_cur: 1,
            rlim_max: 1,
        };
        let place = (&raw mut limit) as i64;
        let core = i64::from(libc::RLIMIT_CORE);
        o.push(call(libc::SYS_prlimit64, [0, core, 0, place, 0]));
        o.push(limit.rlim_max.cast_signed());
        o.push(call(libc::SYS_getuid, [0; 5]).min(1));
    });
    assert_eq!(outcomes, [0, 0, 1]);
}

/// Forks a child that becomes another user by `become_other`, makes itself dumpable and waits; returns it once it
/// waits, with the end of a pipe that keeps it waiting.
fn dumpable_child(become_other: impl FnOnce()) -> (Pid, OwnedFd) {
    let (wait, keep) = nix::unistd::pipe().unwrap();
    let (heard, ready) = nix::unistd::pipe().unwrap();
    // SAFETY: as in `confined`.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop(keep);
            become_other();
            set_dumpable(true).unwrap();
            nix::unistd::write(&ready, b"!").unwrap();
            // Ends when the other end is closed.
            let _ = nix::unistd::read(&wait, &mut [0]);
            // SAFETY: as in `confined`.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(ready);
            assert_eq!(nix::unistd::read(&heard, &mut [0]).unwrap(), 1);
            (child, keep)
        }
    }
}

#[test]
fn a_process_of_the_same_user_cannot_look_into_a_dumpable_host() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can become another user");
        return;
    }
    let (host, _host_waits) = dumpable_child(|| drop_privileges(None).unwrap());
    let status = std::fs::read_to_string(format!("/proc/{host}/status")).unwrap();
    let number = |key: &str| -> u32 {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let first = line.and_then(|rest| rest.split_whitespace().next());
        first.unwrap().parse().unwrap()
    };
    let (uid, gid) = (Uid::from_raw(number("Uid:")), Gid::from_raw(number("Gid:")));
    let become_user = || {
        setgroups(&[]).unwrap();
        setresgid(gid, gid, gid).unwrap();
        setresuid(uid, uid, uid).unwrap();
    };
    let (other, _other_waits) = dumpable_child(become_user);
    // SAFETY: as in `confined`.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            become_user();
            let opens = |pid: Pid| std::fs::File::open(format!("/proc/{pid}/mem")).is_ok();
            let code = i32::from(opens(host)) + 2 * i32::from(opens(other));
            // SAFETY: as in `confined`.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, 2) => {}
            WaitStatus::Exited(_, 0) => println!("SKIPPED: nobody may look into others here"),
            status => panic!("the host was looked into: {status:?}"),
        },
    }
}
