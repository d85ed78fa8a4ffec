//! The service as a script runs it: it says when it is ready, tenants run, operators ask, and it stops when told.

use crate::command::running::{Running, Service, until};
use crate::command::{PROGRAM, gridmux, json_of, typed, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns which policy the device obeys, and for how long, which passes.
fn in_force(of: &Value, key: &str) -> (Value, bool) {
    let in_force = &of[key];
    (in_force["name"].clone(), in_force["for_ms"].is_u64())
}

#[test]
fn an_operator_sets_the_policy() {
    let service = Service::start("policy-set");
    let set = service.ask(&["policy", "set", "even"]);
    let said = |key: &str| set[key].as_str().map(ToOwned::to_owned);
    assert_eq!(said("policy").as_deref(), Some("even"), "{set}");
    assert_eq!(said("before").as_deref(), Some("smk-p"), "{set}");
    let even = |shown: &Value| shown["policy"] == "even" && shown["in_force"]["name"] == "even";
    assert_eq!(set["host_told"], true, "{set}");
    until("it takes over", || {
        even(&service.ask(&["policy", "show"])).then_some(())
    });
    let run_dir = service.run_dir.to_str().unwrap();
    let text = gridmux(["policy", "show", "--run-dir", run_dir]);
    let text = text.succeeded().stdout;
    assert!(text.contains("in force  even for "), "{text}");
    assert_eq!(set["changed"], true, "{set}");
    let again = service.ask(&["policy", "set", "even"]);
    assert_eq!(
        [&again["before"], &again["changed"]],
        [&json!("even"), &json!(false)]
    );
    let text = gridmux(["policy", "set", "even", "--run-dir", run_dir]);
    let text = text.succeeded().stdout;
    assert!(
        text.contains("even was set already") && text.contains("in force: even for "),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "nothing changes: {text}");
    let unheld = gridmux(["policy", "set", "smk-pw", "--run-dir", run_dir]);
    let told = unheld.succeeded().stderr;
    assert!(told.contains("issue quotas are not enforced"), "{told}");
    let without = "no samples are taken by a service, so under smk-pw issue slots have no quotas";
    assert!(told.contains(without), "{told}");
    assert_eq!(service.ask(&["policy", "set", "even"])["before"], "smk-pw");
    until("it takes over again", || {
        even(&service.ask(&["policy", "show"])).then_some(())
    });
    let wrong = gridmux(["-j", "policy", "set", "evne", "--run-dir", run_dir]);
    wrong.failed(2, &["evne", "even", "fifo", "smk-p"]);
    assert!(even(&service.ask(&["policy", "show"])));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn it_says_when_it_is_ready_answers_and_stops() {
    let service = Service::start("answers");
    assert_eq!(service.ready["ready"]["policy"], "smk-p");
    assert_eq!(
        service.ready["ready"]["tenants"],
        json!(["first", "second"])
    );
    let device = service.ask(&["device", "show"]);
    for (key, value) in [
        ("sms", json!(4)),
        ("policy", json!("smk-p")),
        ("memory_used_bytes", json!(0)),
        ("tenants", json!(2)),
        ("clients", json!(0)),
    ] {
        assert_eq!(device[key], value, "{key}");
    }
    let obeyed = service.ask(&["policy", "show"]);
    assert_eq!(
        [&obeyed["policy"], &obeyed["failure"]],
        [&json!("smk-p"), &Value::Null]
    );
    let expected = (json!("smk-p"), true);
    assert_eq!(in_force(&obeyed, "in_force"), expected);
    assert_eq!(in_force(&device, "policy_in_force"), expected);
    for command in ["list", "show"] {
        let tenants = service.ask(&["tenant", command]);
        let rows = tenants.as_array().unwrap().iter();
        let shown = rows.map(|row| json!([row["name"], row["class"], row["clients"]]));
        let expected = json!([["first", "latency", 0], ["second", "normal", 0]]);
        assert_eq!(shown.collect::<Value>(), expected);
    }
    // A tenant that never had work asked for nothing and got nothing.
    let idle = &service.ask(&["tenant", "show", "first"])[0];
    assert!(
        idle["share_by_weight"].is_null() && idle["share_got"].is_null(),
        "{idle}"
    );
    let folder = service.run_dir.to_str().unwrap();
    let listed = gridmux(["tenant", "list", "--run-dir", folder]).succeeded();
    assert!(!listed.stdout.contains('%'), "{}", listed.stdout);
    assert!(listed.stdout.contains("ABANDONED"), "{}", listed.stdout);
    let latency = service.ask(&["latency"]);
    let source = match device["ebpf"] == true {
        true => "ebpf",
        false => "mediator",
    };
    assert_eq!(latency["source"], source);
    let preemption = service.ask(&["latency", "--preemption"]);
    assert_eq!(preemption["latencies"], json!([]), "nobody ran anything");
    for command in [
        &["latency", "nobody"][..],
        &["latency", "--preemption", "nobody"],
        &["tenant", "show", "nobody"],
    ] {
        let ran = gridmux(command.iter().chain(&["-j", "--run-dir", folder]));
        assert_eq!(ran.code, Some(1), "{command:?}: {}", ran.stdout);
        assert_eq!(ran.json_error(), "there is no tenant \"nobody\"");
        assert_eq!(ran.json()["hint"], "configured are: first, second");
    }
    assert_eq!(service.stop(), Some(0));
}

/// Connects and says nothing.
fn stranger(service: &Service) -> UnixStream {
    let connection = UnixStream::connect(service.socket()).unwrap();
    connection.set_nonblocking(true).unwrap();
    connection
}

/// Returns whether the service has closed a connection.
fn is_cut(mut connection: &UnixStream) -> bool {
    let mut rest = [0; 256];
    let would_wait = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
    !connection.read(&mut rest).is_err_and(would_wait)
}

#[test]
fn figures_of_a_host_that_stands_still_say_their_age_and_half_open_connections_are_counted() {
    let service = Service::start("age");
    let mut strangers = [(); 3].map(|()| stranger(&service));
    let folder = service.run_dir.to_str().unwrap();
    let text = |command: [&str; 2]| {
        let ran = gridmux(command.iter().chain(&["--run-dir", folder]));
        ran.succeeded().stdout
    };
    // Who does not greet is cut off after a while, so that on a slow machine some have to come again.
    let device = until("three strangers", || {
        for connection in strangers.iter_mut().filter(|connection| is_cut(connection)) {
            *connection = stranger(&service);
        }
        let device = service.ask(&["device", "show"]);
        let shown = text(["device", "show"]);
        let is_said = shown.contains("3 connections not greeted") && !shown.contains(" old");
        (device["connections_not_greeted"] == 3 && is_said).then_some(device)
    });
    assert_eq!(device["clients"], 0);
    drop(strangers);
    let host = i32::try_from(device["host_pid"].as_u64().unwrap()).unwrap();
    kill(Pid::from_raw(host), Signal::SIGSTOP).unwrap();
    let still = until("figures of more than two seconds' age", || {
        let row = service.ask(&["tenant", "show", "first"])[0].clone();
        (row["age_ms"].as_u64().unwrap() > 2000).then_some(row)
    });
    assert_eq!(still["host_state"], "up");
    for command in [["tenant", "list"], ["tenant", "show"], ["device", "show"]] {
        let text = text(command);
        let says = |word: &str| text.lines().any(|line| line.contains(word));
        assert!(says(" old") && says(&format!("pid {host}")), "{text}");
    }
    kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_service_manager_is_told_of_every_state_and_that_the_service_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let run_dir = folder.path().join("run");
    let configuration = folder.path().join("gridmux.toml");
    let text = "schema_version = 1\n[[tenant]]\nname = \"a\"\n";
    std::fs::write(&configuration, text).unwrap();
    let arguments = format!(
        "serve --instance notify-{} --sms 2 --run-dir {} --config {}",
        std::process::id(),
        run_dir.display(),
        configuration.display()
    );
    let mut child = Command::new(PROGRAM)
        .args(words(&arguments))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Without a limit a service that says nothing would hang the test for ever.
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let heard = || {
        let mut message = [0; 80];
        let length = manager.recv(&mut message).unwrap_or(0);
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let first = [heard(), heard(), heard()];
    let service = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut news = std::iter::repeat_with(heard).filter(|message| message != "WATCHDOG=1\n");
    kill(service, Signal::SIGHUP).unwrap();
    let reload = [news.next().unwrap(), news.next().unwrap()];
    kill(service, Signal::SIGTERM).unwrap();
    let last = news.next();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(first, ["READY=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n"]);
    let [begin, end] = reload;
    let reloading = "RELOADING=1\nMONOTONIC_USEC=";
    assert!(begin.starts_with(reloading), "{begin:?}");
    assert_eq!(end, "READY=1\n");
    assert_eq!(last.unwrap(), "STOPPING=1\n");
}

#[test]
fn a_second_service_in_the_same_folder_is_refused() {
    let service = Service::start("twice");
    let folder = service.run_dir.to_str().unwrap();
    let second = typed(&format!(
        "-j serve --run-dir {folder} --instance twice-second --tenant x"
    ));
    second.failed(1, &[folder]);
    assert_eq!(
        service.ask(&["tenant", "show", "first"])[0]["clients"],
        0,
        "the first one still answers"
    );
    assert_eq!(service.stop(), Some(0));
}

/// Checks that a launch starts before it ends, and that the old name stands for the completion latency.
fn check_latencies(result: &Value) {
    let of = |key: &str, rank: &str| result[key][rank].as_u64();
    assert!(
        of("latency_ns", "p99") >= of("latency_ns", "p50"),
        "{result}"
    );
    assert_eq!(result["latency_ns"], result["completion_latency_ns"]);
    let (launch, completion) = (
        of("launch_latency_ns", "p50"),
        of("completion_latency_ns", "p50"),
    );
    assert!(launch.is_some() && launch < completion, "{result}");
}

#[test]
fn a_workload_waits_for_the_go_runs_and_is_verified() {
    let service = Service::start("workload");
    let mut tenant = Running::workload(
        &service,
        "reduction --tenant first --streams 3 --launches 20 --progress",
    );
    let connected = service.ask(&["tenant", "show", "first"]);
    assert_eq!([&connected[0]["weight"], &connected[0]["launches"]], [2, 0]);
    assert!(connected[0]["memory_used_bytes"].as_u64().unwrap() > 0);
    let client = &connected[0]["connected"][0];
    assert_eq!(connected[0]["clients"], 1);
    assert_eq!(client["pid"], tenant.child.id());
    assert_eq!(client["name"], "gridmux workload reduction");
    tenant.hold_and_go();
    let mut last = 0;
    let result = loop {
        let line = tenant.next();
        let Some(progress) = line["progress"].as_u64() else {
            break line;
        };
        assert!(progress > last && progress <= 20, "{line}");
        last = progress;
    };
    assert_eq!(last, 20, "the last progress is the end");
    assert_eq!(
        [&result["name"], &result["workload"]],
        ["first", "reduction"]
    );
    assert_eq!(result["verified"], true, "{result}");
    assert_eq!(result["launches"], 20, "{result}");
    assert!(
        result["last_end_ns"].as_u64() > result["first_start_ns"].as_u64(),
        "{result}"
    );
    check_latencies(&result);
    let while_connected = service.ask(&["tenant", "show", "first"]);
    let row = &while_connected[0];
    assert_eq!([&row["launches"], &row["failed"]], [20, 0]);
    assert_latency_is_of_20_launches(&service);
    tenant.say("leave");
    assert_eq!(tenant.exit_code(), Some(0));
    assert_eq!(service.stop(), Some(0));
}

fn assert_latency_is_of_20_launches(service: &Service) {
    let latency = service.ask(&["latency", "first"]);
    let rows = latency["latencies"].as_array().unwrap();
    let mut rows = rows.iter();
    let start = rows.find(|row| row["kind"] == "submit_to_start").unwrap();
    assert_eq!(start["count"], 20, "{latency}");
    assert_eq!(start["clock"], "virtual", "{latency}");
}

#[test]
fn a_workload_whose_service_is_not_there_or_goes_away_fails_clearly() {
    let ran = typed("-j workload run vecadd --socket /nonexistent/a.sock");
    ran.failed(1, &["/nonexistent/a.sock"]);
    assert!(ran.hint().contains("--run-dir"));

    let service = Service::start("gone");
    let mut tenant = Running::workload(&service, "vecadd --tenant second");
    assert_eq!(service.stop(), Some(0));
    tenant.hold_and_go();
    let error = tenant.next();
    let [text, hint] = ["error", "hint"].map(|key| error[key].as_str().unwrap());
    let lost = "tenant second: the connection to the service was lost";
    assert!(text.contains(lost), "{error}");
    assert!(hint.contains("was stopped"), "{error}");
    assert!(!hint.contains("Gpu::"), "{error}");
    assert_eq!(tenant.exit_code(), Some(1));
}

#[test]
fn kernels_are_shown_with_what_was_learnt_of_them_and_how_they_go_now() {
    let service = Service::start("kernels");
    let folder = service.run_dir.to_str().unwrap();
    let nothing = service.ask(&["kernel", "show"]);
    assert_eq!(nothing["kernels"], json!([]), "{nothing}");
    let mut tenant = Running::workload(&service, "matmul --tenant first --launches 1000000");
    tenant.hold_and_go();
    let row = until("a launch on the device whose blocks are known", || {
        let shown = service.ask(&["kernel", "show", "--tenant", "first"]);
        let row = shown["kernels"][0].clone();
        (row["level"].is_u64() && row["is_proven"] == true).then_some(row)
    });
    for (key, value) in [
        ("tenant", json!("first")),
        ("kernel", json!("matmul")),
        ("entries", json!(["slice"])),
        ("uncut", Value::Null),
        ("is_for_several", json!(false)),
        ("role", json!("filler")),
    ] {
        assert_eq!(row[key], value, "{key}: {row}");
    }
    for key in ["threads", "registers", "block_ns", "blocks", "profile_ns"] {
        assert!(row[key].as_u64() > Some(0), "{key}: {row}");
    }
    let blocks = |key: &str| row["piece"][key].as_u64().unwrap();
    assert!((1..=blocks("launch_blocks")).contains(&blocks("blocks")));
    let others = service.ask(&["kernel", "show", "--tenant", "second"]);
    assert_eq!(others["kernels"], json!([]), "{others}");
    drop(tenant);
    // Its row outlives the client, and so does its name.
    let shown = until("the end of its launches", || {
        let shown = service.ask(&["kernel", "show"]);
        shown["kernels"][0]["role"].is_null().then_some(shown)
    });
    let row = &shown["kernels"][0];
    assert_eq!(
        [&row["kernel"], &row["level"]],
        [&json!("matmul"), &Value::Null]
    );
    let text = gridmux(["kernel", "show", "--run-dir", folder]);
    let text = text.succeeded().stdout;
    let says = |word: &str| text.contains(word);
    assert!(says("matmul") && says("slice") && !says(" old"), "{text}");
    let wrong = gridmux([
        "-j",
        "kernel",
        "show",
        "--tenant",
        "nobody",
        "--run-dir",
        folder,
    ]);
    wrong.failed(1, &["there is no tenant \"nobody\""]);
    assert_eq!(wrong.hint(), "configured are: first, second");
    let nowhere = gridmux(["-j", "kernel", "show", "--run-dir", "/nonexistent"]);
    nowhere.failed(1, &["/nonexistent"]);
    assert!(
        nowhere.hint().contains("gridmux serve"),
        "{}",
        nowhere.stdout
    );
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_plan_is_shown_with_the_kernels_that_it_holds() {
    let service = Service::start("plan");
    let folder = service.run_dir.to_str().unwrap();
    let mut tenants = ["first", "second"].map(|name| {
        let run = format!("matmul --tenant {name} --launches 1000000");
        Running::workload(&service, &run)
    });
    for tenant in &mut tenants {
        tenant.hold_and_go();
    }
    let plan = until("a plan for both", || {
        let plan = service.ask(&["plan", "show"]);
        let rows = plan["rows"].as_array().unwrap();
        let holds = |name: &str| {
            let of = rows.iter().find(|row| row["tenant"] == name);
            of.is_some_and(|row| row["kernel"] == "matmul" && row["fits"].as_u64() > Some(0))
        };
        (holds("first") && holds("second")).then_some(plan)
    });
    let groups = plan["groups"].as_array().unwrap();
    for row in plan["rows"].as_array().unwrap() {
        assert_eq!(
            row["cells"].as_array().unwrap().len(),
            groups.len(),
            "{row}"
        );
    }
    let ranges = groups.iter().flat_map(|of| of["sms"].as_array().unwrap());
    let sms = ranges.map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap() + 1);
    assert_eq!(sms.sum::<u64>(), plan["sms"].as_u64().unwrap(), "{plan}");
    let later = until("another plan", || {
        let later = service.ask(&["plan", "show"]);
        (later["epoch"].as_u64() > plan["epoch"].as_u64()).then_some(later)
    });
    assert_eq!(later["policy"], plan["policy"]);
    let text = gridmux(["plan", "show", "--run-dir", folder])
        .succeeded()
        .stdout;
    let says = |word: &str| text.contains(word);
    assert!(says("GROUP") && says("matmul") && says("|"), "{text}");
    drop(tenants);
    let nowhere = gridmux(["-j", "plan", "show", "--run-dir", "/nonexistent"]);
    nowhere.failed(1, &["/nonexistent"]);
    assert_eq!(service.stop(), Some(0));
}

/// Kills the device host, and returns its process number.
fn kill_host(service: &Service) -> Value {
    let host = service.ask(&["device", "show"])["host_pid"].clone();
    let pid = host.as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill(Pid::from_raw(pid.unwrap()), Signal::SIGKILL).unwrap();
    host
}

#[test]
fn a_device_host_that_dies_ends_the_run_clearly_and_is_replaced() {
    let service = Service::start("dies");
    let socket = service.socket();
    let mut tenant = Running::workload(&service, "matmul --tenant first --launches 1000000");
    tenant.hold_and_go();
    let host = kill_host(&service);
    let error = tenant.next()["error"].to_string();
    assert!(error.contains("tenant first"), "{error}");
    assert_eq!(tenant.exit_code(), Some(1));

    let again = typed(&format!(
        "-j workload run vecadd --socket {socket} --tenant first --size tiny"
    ));
    assert_eq!(again.succeeded().json()["verified"], true);
    let device = service.ask(&["device", "show"]);
    assert_eq!(device["host_restarts"], 1);
    assert_ne!(device["host_pid"], host);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_client_that_may_not_be_a_tenant_is_told_which_it_may_be() {
    let service = Service::start("foreign");
    let socket = service.socket();
    let run = |tenant: &str| {
        typed(&format!(
            "-j workload run vecadd --size tiny --socket {socket} --tenant {tenant}"
        ))
    };
    let refused = run("third");
    let due = "may not be tenant \"third\"; you may be: first, second";
    refused.failed(1, &[due]);
    assert!(refused.hint().contains("--tenant"));
    assert_eq!(run("second").succeeded().json()["name"], "second");
    assert_eq!(service.stop(), Some(0));
}

/// Returns the keys of what a file says was learnt.
fn learnt(file: &str) -> Vec<String> {
    let shown = json_of(["-j", "policy", "profiles", file]);
    assert_eq!(shown["device"]["sms"], 4, "{shown}");
    let key = |profile: &Value| {
        assert!(profile["block_ns"].as_f64() > Some(0.0), "{profile}");
        profile["key"].as_str().expect("a key").to_owned()
    };
    let profiles = shown["profiles"].as_array().expect("a list");
    profiles.iter().map(key).collect()
}

#[test]
fn what_another_tenant_runs_changes_nothing_that_was_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, config) = (path("profiles"), path("config.toml"));
    let text = format!("schema_version = 1\n[profiles]\nfile = {file:?}\n");
    std::fs::write(&config, text).unwrap();
    // The same module, entry and block shape, with arguments of another size.
    let run = |name: &str, tenant: &str, size: &str| {
        let service = Service::start_with(name, &["--config", &config]);
        let socket = service.socket();
        let command = format!(
            "-j workload run reduction --socket {socket} --tenant {tenant} --size {size} --launches 3"
        );
        typed(&command).succeeded();
        assert_eq!(service.stop(), Some(0));
        let shown = json_of(["-j", "policy", "profiles", &file]);
        shown["profiles"].as_array().expect("a list").clone()
    };
    let before = run("victim", "first", "tiny");
    let after = run("attacker", "second", "small");
    assert!(
        before.iter().all(|known| after.contains(known)),
        "{before:?}, {after:?}"
    );
    assert!(after.len() > before.len(), "{before:?}, {after:?}");
    // The victim itself changes it, so that the arguments do.
    let own = run("victim-again", "first", "small");
    assert!(
        !before.iter().any(|known| own.contains(known)),
        "{before:?}, {own:?}"
    );
}

#[test]
fn what_was_learnt_outlives_device_hosts_and_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, config) = (path("profiles"), path("config.toml"));
    let text = format!("schema_version = 1\n[profiles]\nfile = {file:?}\n");
    std::fs::write(&config, text).unwrap();
    let unknown = "{\"format\":\"gridmux profiles\",\"version\":9}\n";
    std::fs::write(&file, unknown).unwrap();
    let serve = |name: &str| Service::start_with(name, &["--config", &config]);
    let run = |service: &Service, workload: &str| {
        let socket = service.socket();
        let ran = typed(&format!(
            "-j workload run {workload} --socket {socket} --size tiny --launches 3"
        ));
        ran.succeeded();
    };
    let service = serve("learns");
    run(&service, "reduction");
    assert_eq!(service.stop(), Some(0));
    let aside = std::fs::read_to_string(path("profiles.bad1")).unwrap();
    assert_eq!(aside, unknown);
    let first = learnt(&file);
    assert!(!first.is_empty());

    let service = serve("knows");
    let killed = kill_host(&service);
    let run_dir = service.run_dir.to_str().unwrap();
    // There is no answer while there is no host.
    until("another device host", || {
        let shown = gridmux(["-j", "device", "show", "--run-dir", run_dir]);
        (shown.code == Some(0) && shown.json()["host_pid"] != killed).then_some(())
    });
    run(&service, "vecadd");
    assert_eq!(service.stop(), Some(0));
    // The newest host names all that it knows: it never ran what the first service learnt.
    let both = learnt(&file);
    assert!(
        first.iter().all(|key| both.contains(key)),
        "{first:?}, {both:?}"
    );
    assert!(both.len() > first.len(), "{first:?}, {both:?}");
}
