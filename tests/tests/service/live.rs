//! Contract: the configuration of a running service changes without a restart. A reload puts in force what may change
//! and names what may not, a configuration that is not right changes nothing, and whatever happens meanwhile no launch
//! of a tenant that stays is lost. What becomes of those of a tenant that goes: `tenants_come_and_go.rs`.

use gridmux_mediator::supervisor::{AdminReply, AdminRequest, ask};
use gridmux_tests::reload::{APPLIED, REFUSED, change, reload, with, without};
use gridmux_tests::{
    Bench, Service, ServiceBuilder, Speaker, connect, program, run, run_once, until,
};
use gridmux_workloads::Size;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn start(service: &Service, tenant: &str, launches: &str) -> Speaker {
    let words =
        format!("black_scholes --elements 8192 --streams 6 --wait-go --launches {launches}");
    let mut speaker = Speaker::work(&service.socket(), tenant, &words, Stdio::inherit());
    speaker.expect("ready");
    speaker
}

/// Waits until `launches` launches of a tenant have ended, however long each takes.
fn await_launches(service: &Service, tenant: &str, launches: u64) {
    let ended = || service.tenant(tenant).latency.count;
    let mut seen = ended();
    while seen < launches {
        seen = until("the next launch", || {
            Some(ended()).filter(|ended| *ended > seen)
        });
    }
}

/// Returns what each of two tenants has held so far, in SM · nanoseconds of device time.
fn held(service: &Service) -> [f64; 2] {
    let tenants = service.statistics().host.tenants;
    [0, 1].map(|place| tenants[place].usage.held_sm_ns)
}

#[test]
fn a_reload_changes_a_weight_under_load_and_no_launch_is_lost() {
    const LAUNCHES: u64 = 240;
    let service = ServiceBuilder::new(&[("first", 1), ("second", 1)])
        .lockstep()
        .limit("clock_hold_ms", 60_000)
        .start();
    let launches = LAUNCHES.to_string();
    let mut speakers = ["first", "second"].map(|tenant| start(&service, tenant, &launches));
    for word in ["hold", "go"] {
        for speaker in &mut speakers {
            speaker.say(word);
            if word == "hold" {
                speaker.expect("held");
            }
        }
    }
    // The part of the first of what both held between two readings.
    let part = |from: [f64; 2], to: [f64; 2]| {
        let [first, second] = [0, 1].map(|place| to[place] - from[place]);
        first / (first + second)
    };
    await_launches(&service, "first", 15);
    let begin = held(&service);
    await_launches(&service, "first", 55);
    let even = part(begin, held(&service));
    let weight = "name = \"first\"\nweight = ";
    // The clock stands still while a client that has its completions does not go on. So the run is as far at the end of
    // the reload as it was at its beginning, however long that takes, and launches are in flight all the time.
    let signal = |speakers: &[Speaker; 2], signal| speakers.iter().for_each(|s| s.signal(signal));
    signal(&speakers, Signal::SIGSTOP);
    let log = change(&service, |text| {
        text.replace(&format!("{weight}1"), &format!("{weight}3"))
    });
    assert!(!log.contains("restart"), "{log}");
    assert_eq!(service.tenant("first").tenant.weight, 3);
    let in_flight = ["first", "second"].map(|tenant| service.tenant(tenant).usage.pending);
    assert!(in_flight.iter().sum::<u64>() > 0, "{in_flight:?}");
    signal(&speakers, Signal::SIGCONT);
    // What was under way at the change runs as it was planned.
    let now = service.tenant("first").latency.count;
    await_launches(&service, "first", now + 15);
    let begin = held(&service);
    await_launches(&service, "first", now + 75);
    let heavy = part(begin, held(&service));
    println!("part of the first: {even} with weights 1 to 1, {heavy} with 3 to 1");
    for speaker in &mut speakers {
        let result: Value = speaker.expect("verified");
        assert_eq!(result["verified"], true, "{result}");
    }
    assert!((even - 0.5).abs() < 0.1, "{even}");
    assert!((heavy - 0.75).abs() < 0.1, "{heavy}");
    for tenant in ["first", "second"] {
        let usage = service.tenant(tenant).usage;
        assert_eq!(
            (usage.launches, usage.failed, usage.abandoned),
            (LAUNCHES, 0, 0),
            "{usage:?}"
        );
        assert_eq!(
            (usage.pending, usage.completed),
            (0, usage.submitted),
            "{usage:?}"
        );
    }
    let statistics = service.statistics();
    assert_eq!(
        (statistics.host_restarts, statistics.host.holds_expired),
        (0, 0)
    );
}

#[test]
fn a_configuration_that_is_not_right_changes_nothing() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let file = service.folder().join("gridmux.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let name = file.display().to_string();
    let refused = |parts: &[&str]| {
        let log = reload(&service);
        assert!(log.contains(REFUSED) && !log.contains(APPLIED), "{log}");
        for part in parts.iter().chain([&&*name]) {
            assert!(log.contains(part), "no {part:?} in {log}");
        }
        assert_eq!(service.tenant("only").tenant.weight, 1);
    };
    for (line, parts) in [
        ("weight = 5000\n", ["tenant.only.weight", "5000"]),
        ("weigth = 5\n", ["weigth", "unknown field"]),
        (
            "user = \"no-such-user\"\n",
            ["tenant.only.user", "no-such-user"],
        ),
        (
            "memory_limit_bytes = 1099511627776\n",
            ["tenant.only.memory_limit_bytes", "device.memory_bytes"],
        ),
        ("weight = \n", ["TOML", "weight"]),
    ] {
        service.edit_configuration(|_| format!("{}{line}", good.replace("weight = 1\n", "")));
        refused(&parts);
    }
    service.edit_configuration(|_| without(&good, "only"));
    refused(&["no tenant"]);
    // Others decide what it says.
    service.edit_configuration(|_| good.replace("weight = 1", "weight = 2"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    refused(&["chmod o-w"]);
    std::fs::remove_file(&file).unwrap();
    refused(&["No such file"]);
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused(&["no regular file"]);
    run_once(&service, "only");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, good.replace("weight = 1", "weight = 2")).unwrap();
    let log = reload(&service);
    assert!(log.contains(APPLIED), "{log}");
    assert_eq!(service.tenant("only").tenant.weight, 2);
}

#[test]
fn a_pipe_as_configuration_is_an_error_and_no_wait() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("gridmux.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for file in [pipe.to_str().unwrap(), "/proc/kmsg"] {
        let mut child = Command::new(program())
            .args(["-j", "serve", "--check", "--config", file])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let status = until("the end of a check", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(1), "{file}");
    }
}

#[test]
fn a_tenant_comes_and_another_goes_with_a_reason_and_its_memory() {
    // More than half of the device's memory.
    const HELD: u64 = 160 << 20;
    let service = ServiceBuilder::new(&[("stays", 1), ("goes", 1)]).start();
    let (stays, goes) = (service.gpu("stays"), service.gpu("goes"));
    let bench = Bench::set_up(&stays, "vecadd", Size::Tiny, 3).unwrap();
    let gone_bench = Bench::set_up(&goes, "vecadd", Size::Tiny, 3).unwrap();
    gone_bench.run(&goes).unwrap();
    let _held = goes.alloc(HELD).unwrap();
    assert!(service.statistics().host.memory_used_bytes > HELD);
    let full = stays.alloc(HELD).map(drop).unwrap_err();
    assert!(!full.is_lost(), "{full:?}");
    assert!(connect(&service.socket(), "comes").is_err());
    change(&service, |text| with(&without(&text, "goes"), "comes"));
    // Each way in which a client may find out. Until then it launches, and its last launch may be counted or not.
    let mut launches = 1;
    let lost = until("the end of the client", || {
        let error = gone_bench.run(&goes).err();
        launches += u64::from(error.is_none());
        error
    });
    let asked = goes.alloc(1).map(drop).unwrap_err();
    for error in [lost, asked] {
        assert!(error.is_lost(), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("no more in the service's configuration"),
            "{text}"
        );
    }
    let error = connect(&service.socket(), "goes")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("may not be tenant") && error.contains("stays, comes"),
        "{error}"
    );
    bench.run(&stays).unwrap();
    run_once(&service, "comes");
    // The figure is the sum over the tenants that are configured; that the device has the memory back shows only who
    // needs it.
    drop(until("the memory of who is gone", || {
        stays.alloc(HELD).ok()
    }));
    let statistics = service.statistics();
    let facts = |place: usize| {
        let tenant = &statistics.host.tenants[place].tenant;
        (&*tenant.name, tenant.number)
    };
    assert_eq!(statistics.host.tenants.len(), 2);
    assert_eq!([facts(0), facts(1)], [("stays", 0), ("comes", 2)]);
    // What was counted is there when it comes back, whatever became of the device host meanwhile.
    let host = i32::try_from(service.host()).unwrap();
    kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
    run_once(&service, "comes");
    change(&service, |text| with(&text, "goes"));
    let back = service.tenant("goes");
    let counted = back.usage.launches;
    assert!(
        (launches..=launches + 1).contains(&counted),
        "{counted} of {launches}"
    );
    assert_eq!((back.tenant.number, back.clients.len()), (1, 0));
    run_once(&service, "goes");
    let back = service.tenant("goes");
    assert_eq!((back.usage.launches, back.usage.pending), (counted + 1, 0));
}

#[test]
fn what_needs_a_restart_is_named_and_the_rest_applied() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let memory = service.statistics().host.device.memory_bytes;
    let edit = |text: String| {
        text.replace("memory_bytes = ", "memory_bytes = 1")
            .replace("sms = 4", "sms = 3")
            .replace(
                "[limits]\n",
                "[limits]\nkernel_budget_cycles = 7777\nclients = 1\n",
            )
            .replace("weight = 1", "weight = 9")
    };
    let log = change(&service, edit);
    for key in [
        "device.memory_bytes",
        "device.sms",
        "limits.kernel_budget_cycles",
    ] {
        assert!(
            log.contains(&format!("{key} changed, which needs a restart")),
            "{log}"
        );
    }
    for key in ["limits.clients", "weight", "run_dir"] {
        assert!(!log.contains(&format!("{key} changed")), "{log}");
    }
    let facts = service.tenant("only").tenant;
    assert_eq!((facts.weight, facts.clients_limit), (9, 1));
    let _first = service.gpu("only");
    let error = connect(&service.socket(), "only")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("limit"), "{error}");
    // A new device host is no restart.
    let host = i32::try_from(service.host()).unwrap();
    kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
    run_once(&service, "only");
    let statistics = service.statistics();
    assert_eq!(statistics.host.device.memory_bytes, memory);
    assert_eq!(statistics.host.tenants[0].tenant, facts);
}

#[test]
fn a_reload_reaches_a_device_host_that_is_just_being_replaced() {
    let service = ServiceBuilder::new(&[("t0", 1)]).start();
    for round in 1..=3 {
        let host = i32::try_from(service.host()).unwrap();
        kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
        if round > 1 {
            until("the end of the host", || {
                let now = gridmux_tests::host_of(&service);
                (now != u32::try_from(host).ok()).then_some(())
            });
        }
        let last = format!("t{}", round - 1);
        let next = format!("t{round}");
        change(&service, |text| with(&without(&text, &last), &next));
        run_once(&service, &next);
        let error = connect(&service.socket(), &last).map(drop).unwrap_err();
        assert!(error.to_string().contains("may not be tenant"), "{error}");
    }
    assert_eq!(service.statistics().host_restarts, 3);
}

#[test]
fn a_flood_of_reloads_harms_nobody() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let gpu = service.gpu("only");
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    let pid = service.pid();
    std::thread::scope(|scope| {
        let flood = scope.spawn(move || {
            for _ in 0..20_000 {
                kill(pid, Signal::SIGHUP).unwrap();
                std::thread::yield_now();
            }
        });
        let mut runs = 0;
        while !flood.is_finished() || runs < 20 {
            bench.run(&gpu).unwrap();
            let reply = ask(service.folder(), &AdminRequest::Statistics);
            assert!(matches!(reply, Ok(AdminReply::Statistics(_))), "{reply:?}");
            runs += 1;
        }
    });
    // The last one is heard as well.
    change(&service, |text| text.replace("weight = 1", "weight = 8"));
    until("the last configuration", || {
        (service.tenant("only").tenant.weight == 8).then_some(())
    });
    bench.run(&gpu).unwrap();
    assert_eq!(service.statistics().host_restarts, 0);
}

/// Runs `gridmux tenant set`; returns its exit code and what it prints.
fn set(service: &Service, arguments: &[&str]) -> (Option<i32>, Value) {
    let folder = service.folder().to_str().unwrap();
    let begin = ["tenant", "set", "--run-dir", folder];
    run(begin.iter().chain(arguments))
}

#[test]
fn an_operator_changes_a_tenant_until_the_next_reload() {
    const MIB: u64 = 1 << 20;
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let gpu = service.gpu("only");
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    let (code, said) = set(
        &service,
        &[
            "only",
            "--weight",
            "7",
            "--class",
            "batch",
            "--memory-limit",
            "8MiB",
        ],
    );
    assert_eq!(
        (code, &said["until"]),
        (Some(0), &Value::from("reload")),
        "{said}"
    );
    assert_eq!(said["tenant"]["weight"], 7, "{said}");
    assert_eq!(said["tenant"]["memory_limit_bytes"], 8 * MIB, "{said}");
    let facts = service.tenant("only").tenant;
    assert_eq!(
        (&said["host_told"], &said["tenant"]["id"]),
        (&Value::from(true), &Value::from(facts.number))
    );
    assert_eq!(
        (facts.weight, facts.class.to_string()),
        (7, "batch".to_owned())
    );
    // At once, and for clients that are there.
    let error = gpu.alloc(16 * MIB).map(drop).unwrap_err().to_string();
    assert!(error.contains("tenant only"), "{error}");
    assert_eq!(
        set(&service, &["only", "--memory-limit", "32MiB"]).0,
        Some(0)
    );
    drop(gpu.alloc(16 * MIB).unwrap());
    bench.run(&gpu).unwrap();
    assert_eq!(
        service.tenant("only").tenant.weight,
        7,
        "what is not named stays"
    );
    assert_eq!(set(&service, &["only", "--clients", "1"]).0, Some(0));
    let error = connect(&service.socket(), "only")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("limit is 1"), "{error}");
    // A new device host obeys it as well.
    let host = i32::try_from(service.host()).unwrap();
    kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
    run_once(&service, "only");
    let facts = service.tenant("only").tenant;
    assert_eq!(
        (facts.weight, facts.memory_limit_bytes, facts.clients_limit),
        (7, 32 * MIB, 1)
    );
    let log = reload(&service);
    assert!(log.contains(APPLIED), "{log}");
    let facts = service.tenant("only").tenant;
    assert_eq!(
        (facts.weight, facts.class.to_string()),
        (1, "normal".to_owned())
    );
    assert_eq!(facts.memory_limit_bytes, 256 * MIB);
}

#[test]
fn a_raised_memory_limit_holds_for_who_is_there_and_for_who_comes() {
    const MIB: u64 = 1 << 20;
    let service = ServiceBuilder::new(&[("only", 1)])
        .tenant_key("only", "memory_limit_bytes = 8388608")
        .start();
    let gpu = service.gpu("only");
    assert!(gpu.alloc(32 * MIB).is_err());
    let raised = set(&service, &["only", "--memory-limit", "80MiB"]);
    assert_eq!(raised.0, Some(0), "{}", raised.1);
    let held = gpu.alloc(32 * MIB).unwrap();
    let later = service.gpu("only");
    let also_held = later.alloc(40 * MIB).unwrap();
    for client in [&gpu, &later] {
        let error = client.alloc(16 * MIB).map(drop).unwrap_err().to_string();
        assert!(error.contains("tenant only"), "{error}");
    }
    until("the figure of what is held", || {
        (service.tenant("only").memory_used_bytes == 72 * MIB).then_some(())
    });
    // The configuration says otherwise: what is held stays, and nothing comes on top.
    let log = reload(&service);
    assert!(log.contains(APPLIED), "{log}");
    until("the limit of the configuration", || later.alloc(MIB).err());
    drop((held, also_held));
    // One client's buffers may be given back after another one asks for memory.
    until("all memory to be given back", || {
        (service.tenant("only").memory_used_bytes == 0).then_some(())
    });
    assert!(gpu.alloc(32 * MIB).is_err());
    drop(gpu.alloc(4 * MIB).unwrap());
}

#[test]
fn an_operator_is_told_what_cannot_be_meant() {
    let service = ServiceBuilder::new(&[("only", 1), ("other", 1)]).start();
    let before = service.tenant("only").tenant;
    // What only the service knows to be wrong is a failure; what no service takes is wrong usage.
    for (due, arguments, parts) in [
        (
            1,
            ["nobody", "--weight", "2"],
            ["\"nobody\"", "only, other"],
        ),
        (
            1,
            ["only", "--memory-limit", "1TiB"],
            ["tenant.only.memory_limit_bytes", "device.memory_bytes"],
        ),
        (2, ["only", "--weight", "0"], ["--weight", "1..=1000"]),
        (2, ["only", "--weight", "1001"], ["--weight", "1..=1000"]),
        (2, ["only", "--clients", "2000"], ["--clients", "1..=1024"]),
        (
            2,
            ["only", "--class", "fast"],
            ["--class", "latency, normal, batch"],
        ),
        (
            2,
            ["only", "--memory-limit", "4GB"],
            ["--memory-limit", "GiB"],
        ),
        (
            2,
            ["only", "--memory-limit", "9KiB"],
            ["--memory-limit", "1MiB"],
        ),
    ] {
        let (code, said) = set(&service, &arguments);
        let error = said["error"].as_str().unwrap();
        assert_eq!(code, Some(due), "{said}");
        for part in parts {
            assert!(error.contains(part), "no {part:?} in {error}");
        }
    }
    assert_eq!(set(&service, &["only"]).0, Some(2));
    assert_eq!(service.tenant("only").tenant, before);
}
