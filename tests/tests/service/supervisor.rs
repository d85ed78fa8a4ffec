//! Contract: the supervisor waits for nobody. A device host that stands still is replaced, a flood of connections keeps
//! nobody else out, signals to all processes of the service end it in good order, and a host sees nothing that it does
//! not need.

use crate::somebody_else::{OTHER, works_as};
use gridmux_channel::ring::{HostState, RingError};
use gridmux_mediator::supervisor::CLIENT_SOCKET;
use gridmux_tests::{
    Bench, ENDLESS, RawTenant, ServiceBuilder, bare_launch, connect, program, run_once, until,
};
use gridmux_workloads::Size;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn process(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap())
}

#[test]
fn a_device_host_that_stands_still_is_replaced() {
    let builder = ServiceBuilder::new(&[("only", 1)]);
    let service = builder.limit("host_patience_seconds", 2).start();
    run_once(&service, "only");
    let first = service.host();
    kill(process(first), Signal::SIGSTOP).unwrap();
    until("another device host", || {
        let now = gridmux_tests::host_of(&service)?;
        (now != first).then_some(())
    });
    run_once(&service, "only");
    assert_eq!(service.statistics().host_restarts, 1);
    assert!(
        service.log().contains("host_patience_seconds"),
        "{}",
        service.log()
    );
}

#[test]
fn a_device_host_whose_dispatcher_alone_stands_still_is_replaced() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can hold a thread of another user's process");
        return;
    }
    let builder = ServiceBuilder::new(&[("only", 1)]);
    let service = builder.limit("host_patience_seconds", 2).start();
    run_once(&service, "only");
    let first = service.host();
    let dispatcher = thread_of(first, "dispatcher");
    ptrace::seize(dispatcher, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(dispatcher).unwrap();
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    until("another device host", || {
        // Whoever holds a thread sees it off, too, before its process is gone.
        let _ = waitpid(dispatcher, Some(flags));
        // The control thread answers all the while.
        let now = gridmux_tests::host_of(&service)?;
        (now != first).then_some(())
    });
    run_once(&service, "only");
    assert_eq!(service.statistics().host_restarts, 1);
    let log = service.log();
    assert!(log.contains("host_patience_seconds"), "{log}");
}

/// Returns the thread of a process that has a name.
fn thread_of(process: u32, name: &str) -> Pid {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let found = threads.flatten().find(|thread| {
        let comm = std::fs::read_to_string(thread.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    });
    let number = found.expect("such a thread").file_name();
    Pid::from_raw(number.to_str().unwrap().parse().unwrap())
}

#[test]
fn statistics_are_answered_while_the_device_host_stands_still_and_history_outlives_it() {
    let service = ServiceBuilder::new(&[("only", 1), ("never", 1)]).start();
    let gpu = service.gpu("only");
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    for _ in 0..5 {
        bench.run(&gpu).unwrap();
    }
    let before = service.tenant("only");
    assert_eq!((before.clients.len(), before.usage.pending), (1, 0));
    assert_eq!((before.usage.launches, before.latency.count), (5, 5));
    let first = service.host();
    kill(process(first), Signal::SIGSTOP).unwrap();
    let still = service.statistics();
    let later = service.statistics();
    assert!(
        later.age_ms > still.age_ms,
        "{} and {}",
        still.age_ms,
        later.age_ms
    );
    assert_eq!((still.host_pid, later.host.tenants.len()), (Some(first), 2));
    assert_eq!(later.host.tenants[0].usage, before.usage);
    kill(process(first), Signal::SIGKILL).unwrap();
    let gone = until("the end of the device host", || {
        let statistics = service.statistics();
        (statistics.host_pid != Some(first)).then_some(statistics)
    });
    let history = |statistics: &gridmux_mediator::supervisor::ServiceStatistics| {
        let [only, never] = statistics.host.tenants.as_slice() else {
            panic!("{statistics:?}");
        };
        assert_eq!((&*only.tenant.name, &*never.tenant.name), ("only", "never"));
        (
            only.usage.launches,
            only.usage.completed,
            only.latency.count,
            never.usage.launches,
        )
    };
    let expected = (5, before.usage.completed, 5, 0);
    assert_eq!(history(&gone), expected);
    // What the next host counts comes on top.
    let gpu = until("the new device host", || {
        connect(&service.socket(), "only").ok()
    });
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    bench.run(&gpu).unwrap();
    let after = service.statistics();
    assert_eq!((history(&after).0, history(&after).2), (6, 6));
    assert!(history(&after).1 > expected.1);
    assert_eq!(
        (after.host_restarts, after.host.tenants[0].clients.len()),
        (1, 1)
    );
    let page = std::fs::metadata(service.folder().join("statistics")).unwrap();
    assert_eq!(page.permissions().mode() & 0o7777, 0o640);
}

#[test]
fn operators_that_say_nothing_keep_no_other_waiting() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let connect = || UnixStream::connect(service.folder().join("control.sock")).unwrap();
    let silent: Vec<UnixStream> = (0..12).map(|_| connect()).collect();
    for _ in 0..20 {
        assert_eq!(service.statistics().host_restarts, 0);
    }
    drop(silent);
}

#[test]
fn the_service_outlives_one_device_host_after_another() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let mut known = Vec::new();
    for _ in 0..4 {
        let host = until("a device host", || {
            gridmux_tests::host_of(&service).filter(|host| !known.contains(host))
        });
        kill(process(host), Signal::SIGKILL).unwrap();
        known.push(host);
    }
    // A client that comes while there is none waits in the backlog, or is closed and comes again.
    let gpu = until("a place", || connect(&service.socket(), "only").ok());
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    bench.run(&gpu).unwrap();
    assert_eq!(service.statistics().host_restarts, 4);
}

#[test]
fn clients_are_told_that_the_service_was_stopped() {
    let service = ServiceBuilder::new(&[("busy", 1), ("idle", 1)]).start();
    let mut busy = RawTenant::connect(&service.socket(), "busy");
    let idle = RawTenant::connect(&service.socket(), "idle");
    let module = busy.load(ENDLESS.as_bytes()).unwrap();
    busy.push(0, bare_launch(&module, [1, 1, 1], [32, 1, 1]));
    until("the launch to be on the device", || {
        (service.tenant("busy").usage.pending == 1).then_some(())
    });
    kill(service.pid(), Signal::SIGTERM).unwrap();
    for (who, client) in [("busy", &busy), ("idle", &idle)] {
        let why = until("the channel to be closed", || {
            client.rings.check_open().err()
        });
        let is_told = matches!(why, RingError::Closed(HostState::Stopped));
        assert!(is_told, "{who}: {why}");
    }
}

#[test]
fn a_client_that_comes_while_the_device_host_is_replaced_is_served_by_the_next() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    for round in 0..2 {
        let connections = |expected: u64| {
            until(&format!("{expected} connections"), || {
                (service.statistics().connections == expected).then_some(())
            });
        };
        // The last round's client has left.
        connections(0);
        let host = process(service.host());
        kill(host, Signal::SIGSTOP).unwrap();
        let bench = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let gpu = service.gpu("only");
                let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
                bench.run(&gpu).unwrap();
            });
            // It is in the hands of the host that will never serve it.
            connections(1);
            kill(host, Signal::SIGKILL).unwrap();
            client.join()
        });
        assert!(bench.is_ok(), "the client was not served");
        assert_eq!(service.statistics().host_restarts, round + 1);
    }
}

/// A service in a process group of its own; the group is killed when dropped.
struct Group {
    child: Child,
    folder: tempfile::TempDir,
}

impl Group {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("gm").tempdir().unwrap();
        let instance = format!("group-{}", std::process::id());
        let run = folder.path().join("run");
        let configuration = folder.path().join("gridmux.toml");
        std::fs::write(&configuration, "schema_version = 1\n").unwrap();
        let mut command = Command::new(program());
        command.args([
            "-j",
            "serve",
            "--tenant",
            "only",
            "--sms",
            "4",
            "--instance",
            &instance,
        ]);
        command.arg("--config").arg(&configuration);
        command.arg("--run-dir").arg(&run).env("TOP_SECRET", "1");
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: umask is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                nix::sys::stat::umask(nix::sys::stat::Mode::empty());
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("ready"), "{line:?}");
        Self { child, folder }
    }

    fn pid(&self) -> Pid {
        process(self.child.id())
    }

    fn run_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

#[test]
fn signals_to_all_processes_of_the_service_are_an_orderly_stop() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut group = Group::start();
        let gpu = connect(&group.run_dir().join(CLIENT_SOCKET), "only").unwrap();
        let bench = Bench::set_up(&gpu, "matmul", Size::Tiny, 5).unwrap();
        bench.run(&gpu).unwrap();
        // Not a signal that ends the service.
        killpg(group.pid(), Signal::SIGHUP).unwrap();
        bench.run(&gpu).unwrap();
        let error = std::thread::scope(|scope| {
            let pid = group.pid();
            scope.spawn(move || killpg(pid, signal).unwrap());
            loop {
                if let Err(error) = bench.run(&gpu) {
                    break error;
                }
            }
        });
        assert!(error.is_lost(), "{error:?}");
        let status = group.child.wait().unwrap();
        let mut log = String::new();
        let stderr = group.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.contains("ERROR") && log.contains("stopping"), "{log}");
        let left: Vec<_> = std::fs::read_dir(group.run_dir()).unwrap().collect();
        assert!(
            left.iter()
                .flatten()
                .all(|entry| !entry.file_name().to_string_lossy().ends_with(".sock")),
            "{left:?}"
        );
    }
}

/// Returns a value that `/proc/PID/status` has under a name.
fn status_of(process: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    Some(found?.trim_start_matches(':').trim().to_owned())
}

#[test]
fn a_service_that_was_started_carelessly_keeps_others_out_and_tells_its_host_little() {
    let group = Group::start();
    assert_eq!(
        status_of(&group.pid().to_string(), "Umask").as_deref(),
        Some("0027")
    );
    let mode = |name: &str| {
        let metadata = std::fs::metadata(group.run_dir().join(name)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(
        (
            mode("control.sock"),
            mode(CLIENT_SOCKET),
            mode("gridmux.lock")
        ),
        (0o600, 0o600, 0o600)
    );
    assert_eq!(mode("."), 0o755);
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", group.pid())).unwrap();
    for child in children.split_whitespace() {
        let Ok(environment) = std::fs::read(format!("/proc/{child}/environ")) else {
            println!("SKIPPED: the environment of another user's process cannot be read");
            continue;
        };
        let environment = String::from_utf8_lossy(&environment);
        for variable in environment
            .split('\0')
            .filter(|variable| !variable.is_empty())
        {
            let is_needed =
                variable.starts_with("GRIDMUX_") || variable.starts_with("RUST_BACKTRACE=");
            assert!(is_needed, "{variable}");
        }
        let stdout = std::fs::read_link(format!("/proc/{child}/fd/1")).unwrap();
        assert_eq!(stdout, std::path::Path::new("/dev/null"));
    }
}

/// A thread that was made before its process confined itself would not be.
#[test]
fn every_thread_of_a_device_host_is_confined() {
    let builder = ServiceBuilder::new(&[("only", 1)]);
    for builder in [builder.clone(), builder.functional()] {
        let service = builder.start();
        run_once(&service, "only");
        let host = service.host();
        let threads = std::fs::read_dir(format!("/proc/{host}/task")).unwrap();
        let mut names = Vec::new();
        for thread in threads.flatten() {
            let thread = format!("{host}/task/{}", thread.file_name().display());
            let has = |name| status_of(&thread, name).unwrap();
            let name = has("Name");
            assert_eq!(has("Seccomp"), "2", "{name}");
            assert_eq!(has("NoNewPrivs"), "1", "{name}");
            assert_eq!(has("CapEff"), "0000000000000000", "{name}");
            names.push(name);
        }
        for name in ["device", "dispatcher", "policy"] {
            assert!(names.iter().any(|found| found == name), "{names:?}");
        }
    }
}

#[test]
fn no_process_without_rights_has_the_log_itself() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    run_once(&service, "only");
    let of = |pid: u32| std::fs::read_link(format!("/proc/{pid}/fd/2")).unwrap();
    let host = of(service.host());
    assert!(
        host.to_string_lossy().starts_with("pipe:"),
        "{}",
        host.display()
    );
    assert_ne!(of(service.pid().as_raw().cast_unsigned()), host);
    service.await_line(&["gridmux_mediator::host"]);
    let log = service.log();
    let mut of_host = log
        .lines()
        .filter(|line| line.contains("gridmux_mediator::host"));
    assert!(
        of_host.all(|line| line.starts_with("device host: ")),
        "{log}"
    );
}

#[test]
fn a_flood_of_connections_of_one_user_keeps_no_other_out() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can connect as two users");
        return;
    }
    const FLOOD: u32 = 5000;
    let service = ServiceBuilder::new(&[("root", 1), ("other", 1)])
        .tenant_key("other", &format!("user = {OTHER}"))
        .limit("connects_per_second", 25)
        .start();
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(service.folder(), open).unwrap();
    let (made, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut runs = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // A full backlog is a refusal as well.
                drop(UnixStream::connect(service.socket()));
                made.fetch_add(1, Ordering::Relaxed);
            }
        });
        while made.load(Ordering::Relaxed) < FLOOD || runs < 3 {
            if let Err(said) = works_as(&service.socket(), "other") {
                over.store(true, Ordering::Relaxed);
                panic!("the other user was not served: {said}");
            }
            runs += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    // What the flood was let through is what its bucket holds, so that most of it was closed, and told why.
    let told = until("a connection that is turned away", || {
        connect(&service.socket(), "root").err()
    });
    let told = told.to_string();
    assert!(told.contains("limits.connects_per_second"), "{told}");
    let log = service.log();
    assert!(log.contains("limits.connects_per_second"), "{log}");
    assert_eq!(service.statistics().host_restarts, 0);
}
