//! Modules are compiled by processes apart: what eats memory or time, dies or is left fails alone and says why.

use gridmux_channel::control::{ControlReply, ControlRequest};
use gridmux_channel::session::{CallError, Session};
use gridmux_tests::{RawTenant, Service, ServiceBuilder, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const SMALL: &[u8] =
    b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n";

/// Returns a module of that many instructions, about 20 bytes each.
fn big(instructions: usize) -> Vec<u8> {
    module(instructions, "add.u32 %r1,%r1,1 ;\n")
}

/// Returns a module of that many instructions, of which each is rewritten, so that it takes several times as long as
/// [`big`].
fn slow(instructions: usize) -> Vec<u8> {
    module(instructions, "mov.u32 %r1,%ctaid.x;\n")
}

fn module(instructions: usize, instruction: &str) -> Vec<u8> {
    let mut text = String::with_capacity(instructions * instruction.len() + 200);
    text +=
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n.reg .u32 %r1;\n";
    text += &instruction.repeat(instructions);
    text += "ret;\n}\n";
    text.into()
}

/// Processes whose parent is `parent`, and their command lines.
fn children(parent: Pid) -> Vec<(Pid, String)> {
    let parent = parent.to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        // A process that has just ended is none.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let behind_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut fields = behind_name.split(' ');
        if fields.next() != Some("Z") && fields.next() == Some(parent.as_str()) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push((Pid::from_raw(number), command));
        }
    }
    found
}

/// Returns the fork server of a service.
fn fork_server(service: &Service) -> Option<Pid> {
    let all = children(service.pid());
    let its = all
        .iter()
        .find(|(_, command)| command.starts_with("gridmux compiler"));
    its.map(|(pid, _)| *pid)
}

/// Returns the compilers that a service has at this moment.
fn compilers(service: &Service) -> Vec<Pid> {
    let children = fork_server(service).map(children).unwrap_or_default();
    children.into_iter().map(|(pid, _)| pid).collect()
}

fn await_compiler(service: &Service) -> Pid {
    until("a compiler at work", || compilers(service).first().copied())
}

fn reason(result: Result<gridmux_channel::control::Module, CallError>) -> String {
    result.map(drop).unwrap_err().to_string()
}

/// Returns what a `status` file says under a key.
fn status(pid: Pid, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.split(':').next() == Some(key));
    let (_, value) = line.and_then(|line| line.split_once(':')).unwrap();
    value.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_module_that_needs_too_much_memory_fails_alone() {
    let service = ServiceBuilder::new(&[("a", 1)])
        .limit("compile_memory_bytes", 256 << 20)
        .start();
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let text = reason(tenant.load(&big(2_000_000)));
    assert!(
        text.contains("more than 268435456 bytes of memory")
            && text.contains("limits.compile_memory_bytes"),
        "{text}"
    );
    tenant.load(SMALL).unwrap();
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn a_module_that_needs_too_much_time_fails_alone() {
    let service = ServiceBuilder::new(&[("a", 1)])
        .limit("compile_cpu_seconds", 1)
        .start();
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let text = reason(tenant.load(&slow(2_000_000)));
    assert!(
        text.contains("more than 1 s of processor time")
            && text.contains("limits.compile_cpu_seconds"),
        "{text}"
    );
    tenant.load(SMALL).unwrap();
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn a_compiler_and_a_fork_server_that_are_killed_fail_one_module_each() {
    let service = ServiceBuilder::new(&[("a", 1)]).start();
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let module = big(2_000_000);

    let text = std::thread::scope(|scope| {
        let load = scope.spawn(|| reason(tenant.load(&module)));
        kill(await_compiler(&service), Signal::SIGILL).unwrap();
        load.join().unwrap()
    });
    assert!(
        text.contains("the compiler ended by signal 4 (SIGILL)"),
        "{text}"
    );

    let before = fork_server(&service).unwrap();
    let text = std::thread::scope(|scope| {
        let load = scope.spawn(|| reason(tenant.load(&module)));
        await_compiler(&service);
        // It has begun with the job, and said so, when it sleeps: one that had not would have left it to the next.
        until("a fork server that waits", || {
            (status(before, "State") == "S").then_some(())
        });
        kill(before, Signal::SIGKILL).unwrap();
        load.join().unwrap()
    });
    assert!(
        text.contains("the fork server of the compilers ended"),
        "{text}"
    );
    tenant.load(SMALL).unwrap();

    // One that dies while nothing is compiled costs nobody a module.
    let second = fork_server(&service).unwrap();
    assert_ne!(before, second);
    kill(second, Signal::SIGKILL).unwrap();
    until("the end of the fork server", || {
        (fork_server(&service) != Some(second)).then_some(())
    });
    tenant.load(SMALL).unwrap();
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn a_fork_server_that_stands_still_is_replaced() {
    let service = ServiceBuilder::new(&[("a", 1)]).start();
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    tenant.load(SMALL).unwrap();
    let stopped = fork_server(&service).unwrap();
    kill(stopped, Signal::SIGSTOP).unwrap();
    let text = reason(tenant.load(SMALL));
    assert!(text.contains("does not answer"), "{text}");
    tenant.load(SMALL).unwrap();
    assert_ne!(fork_server(&service), Some(stopped));
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn a_client_that_leaves_ends_its_compilation() {
    let service = ServiceBuilder::new(&[("a", 1)])
        .tenant_key("a", "clients = 1")
        .start();
    let module = big(2_000_000);
    let socket = UnixStream::connect(service.socket()).unwrap();
    let session = Session::over(socket.try_clone().unwrap()).unwrap();
    let mut tenant = RawTenant::over(session, "a").unwrap();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| tenant.load(&module).map(drop));
        let compiler = await_compiler(&service);
        socket.shutdown(Shutdown::Both).unwrap();
        until("the end of the compiler", || {
            (!compilers(&service).contains(&compiler)).then_some(())
        });
        assert!(load.join().unwrap().is_err());
    });
    service.await_gone("a");
    RawTenant::connect(&service.socket(), "a")
        .load(SMALL)
        .unwrap();
}

#[test]
fn a_small_module_does_not_wait_for_a_big_one_of_another_tenant() {
    let service = ServiceBuilder::new(&[("big", 1), ("small", 1)]).start();
    let module = big(1_000_000);
    // Two clients of one tenant want more than their seat.
    let mut first = RawTenant::connect(&service.socket(), "big");
    let mut second = RawTenant::connect(&service.socket(), "big");
    let mut small = RawTenant::connect(&service.socket(), "small");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for tenant in [&mut first, &mut second] {
            scope.spawn(|| {
                tenant.load(&module).unwrap();
                // Release: pairs with the Acquire below.
                is_done.store(true, Ordering::Release);
            });
        }
        await_compiler(&service);
        small.load(SMALL).unwrap();
        // Acquire: pairs with the Release above.
        assert!(!is_done.load(Ordering::Acquire), "the big one was first");
    });
}

#[test]
fn tenants_with_slow_modules_hold_nobody_elses_up_and_get_theirs() {
    // Two compilers run at once, four modules have seats: more offenders than of each.
    for offenders in [2, 8] {
        let names: Vec<String> = (0..offenders).map(|n| format!("o{n}")).collect();
        let mut tenants: Vec<(&str, u32)> = names.iter().map(|name| (&**name, 1)).collect();
        tenants.push(("small", 1));
        let service = ServiceBuilder::new(&tenants).start();
        let module = slow(200_000);
        let mut small = RawTenant::connect(&service.socket(), "small");
        let (done, begun) = (AtomicU32::new(0), AtomicU32::new(0));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for name in &names {
                let mut offender = RawTenant::connect(&service.socket(), name);
                let (module, done, begun, is_over) = (&module, &done, &begun, &is_over);
                scope.spawn(move || {
                    // relaxed: a flag and counts that hand nothing over.
                    while !is_over.load(Ordering::Relaxed) {
                        begun.fetch_add(1, Ordering::Relaxed);
                        let loaded = offender.load(module).expect("slow, and nothing else");
                        done.fetch_add(1, Ordering::Relaxed);
                        let module = loaded.handle;
                        let unload = ControlRequest::UnloadModule { module };
                        offender.session.control(&unload).unwrap();
                    }
                });
            }
            // Each offender is at work, and some have used more than a little.
            until("a module of theirs", || {
                let all =
                    done.load(Ordering::Relaxed) > 0 && begun.load(Ordering::Relaxed) >= offenders;
                all.then_some(())
            });
            let before = done.load(Ordering::Relaxed);
            for _ in 0..20 {
                small.load(SMALL).unwrap();
            }
            let meanwhile = done.load(Ordering::Relaxed) - before;
            is_over.store(true, Ordering::Relaxed);
            // Where each small one waited for one of theirs, 20 of theirs would be done.
            assert!(
                meanwhile <= 10,
                "{offenders} offenders: {meanwhile} of theirs"
            );
        });
        assert_eq!(service.statistics().host_restarts, 0);
    }
}

#[test]
fn modules_of_a_tenant_take_memory_of_the_host_up_to_its_limit() {
    let service = ServiceBuilder::new(&[("a", 1), ("b", 1)])
        .limit("module_memory_bytes", 32 << 20)
        .start();
    let module = big(50_000);
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let mut second = RawTenant::connect(&service.socket(), "a");
    let mut loaded = Vec::new();
    let text = loop {
        match tenant.load(&module) {
            Ok(module) => loaded.push(module.handle),
            Err(error) => break error.to_string(),
        }
        assert!(loaded.len() < 32, "a module takes at least its text");
    };
    assert!(text.contains("limits.module_memory_bytes"), "{text}");
    assert!(loaded.len() > 1, "{loaded:?}");
    // All clients of the tenant share the limit, and another tenant has its own.
    assert!(reason(second.load(&module)).contains("limits.module_memory_bytes"));
    RawTenant::connect(&service.socket(), "b")
        .load(&module)
        .unwrap();
    let unload = ControlRequest::UnloadModule { module: loaded[0] };
    assert!(matches!(
        tenant.session.control(&unload),
        Ok(ControlReply::Done)
    ));
    let again = until("memory that is free again", || second.load(&module).ok());
    drop(again);
    assert!(reason(tenant.load(&module)).contains("limits.module_memory_bytes"));
    // A client that leaves gives back all of its modules' memory.
    drop(tenant);
    for _ in 1..loaded.len() {
        until("memory that is free again", || second.load(&module).ok());
    }
    // A text that is larger than what is left is refused before it is compiled.
    assert!(reason(second.load(&big(2_000_000))).contains("limits.module_memory_bytes"));
}

#[test]
fn compilers_and_their_fork_server_have_no_rights() {
    let service = ServiceBuilder::new(&[("a", 1)]).start();
    let module = big(2_000_000);
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let server = fork_server(&service).unwrap();
    std::thread::scope(|scope| {
        // It is ended when all is seen.
        scope.spawn(|| tenant.load(&module).map(drop));
        let compiler = await_compiler(&service);
        until("its confinement", || {
            (status(compiler, "Seccomp_filters") == "4").then_some(())
        });
        for pid in [server, compiler] {
            assert_eq!(status(pid, "CapEff"), "0000000000000000");
            assert_eq!(status(pid, "NoNewPrivs"), "1");
            assert_eq!(status(pid, "Seccomp"), "2");
            assert_eq!(status(pid, "Threads"), "1");
            if nix::unistd::geteuid().is_root() {
                assert_ne!(status(pid, "Uid"), "0");
            }
        }
        let mut descriptors: Vec<String> = fs::read_dir(format!("/proc/{compiler}/fd"))
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(|target| target.display().to_string())
            .collect();
        descriptors.sort();
        let memfds = ["answer", "errors", "module"].map(|name| format!("/memfd:{name} (deleted)"));
        let expected = ["/dev/null", "/dev/null"]
            .map(str::to_owned)
            .into_iter()
            .chain(memfds);
        assert_eq!(descriptors, expected.collect::<Vec<_>>());
        kill(compiler, Signal::SIGKILL).unwrap();
    });
}
