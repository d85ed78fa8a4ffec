//! Contract: tenants come and go while the service runs. Each launch of a tenant that goes ends with an error that says
//! why, the tenant works again when it comes back, and who may connect as whom is what the configuration says now.

use crate::somebody_else::{OTHER, works_as};
use gridmux_channel::control::ControlCode;
use gridmux_channel::session::{CallError, Session};
use gridmux_tenant::{Args, ClientError, Event};
use gridmux_tests::reload::{change, with, without};
use gridmux_tests::{
    Bench, ENDLESS, RawTenant, Service, ServiceBuilder, connect, run, run_once, until,
};
use gridmux_workloads::Size;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

#[test]
fn each_launch_of_a_tenant_that_goes_is_reported_and_it_works_when_it_comes_back() {
    let service = ServiceBuilder::new(&[("stays", 1), ("goes", 1)]).start();
    let (stays, goes) = (service.gpu("stays"), service.gpu("goes"));
    let bench = Bench::set_up(&stays, "vecadd", Size::Tiny, 3).unwrap();
    let kernel = goes
        .module(ENDLESS.as_bytes())
        .unwrap()
        .kernel("endless")
        .unwrap();
    let stream = goes.stream().unwrap();
    let launch = |_| stream.launch(&kernel, 64, 256, 0, &Args::new()).unwrap();
    // The second one waits for the first, which never ends.
    let launches: Vec<Event> = (0..2).map(launch).collect();
    until("the endless launch to be on the device", || {
        let usage = service.tenant("goes").usage;
        (usage.slices > 0 && usage.pending == 2).then_some(())
    });
    let host = service.host();
    change(&service, |text| without(&text, "goes"));
    let gone = [(1, "goes".to_owned())];
    assert_eq!(service.statistics().taken_out, gone);
    for (place, launch) in launches.iter().enumerate() {
        let error = launch.wait().map(drop).unwrap_err();
        let is_reported = matches!(error, ClientError::Failed { .. }) || error.is_lost();
        assert!(is_reported, "launch {place}: {error:?}");
    }
    let error = goes.alloc(1).map(drop).unwrap_err().to_string();
    let reason = "no more in the service's configuration";
    assert!(error.contains(reason), "{error}");
    bench.run(&stays).unwrap();
    change(&service, |text| with(&text, "goes"));
    run_once(&service, "goes");
    bench.run(&stays).unwrap();
    // All three are accounted for: the two that were in flight, and the one that worked.
    let usage = until("the end of what was in flight", || {
        let usage = service.tenant("goes").usage;
        (usage.pending == 0).then_some(usage)
    });
    let ended = (usage.launches, usage.failed, usage.abandoned);
    assert_eq!(
        usage.submitted,
        usage.completed + usage.abandoned,
        "{usage:?}"
    );
    assert_eq!(usage.launches, 3, "{ended:?}");
    assert_eq!(usage.failed + usage.abandoned, 2, "{ended:?}");
    let statistics = service.statistics();
    assert_eq!(
        (statistics.host_restarts, statistics.host_pid),
        (0, Some(host))
    );
}

/// Waits until the socket has this mode; the service may say that it has read its configuration a little before.
fn await_mode(service: &Service, mode: u32, round: u32) {
    until(&format!("mode {mode:o} in round {round}"), || {
        let metadata = std::fs::metadata(service.socket()).unwrap();
        (metadata.permissions().mode() & 0o7777 == mode).then_some(())
    });
}

#[test]
fn the_socket_is_open_to_others_as_long_as_they_may_be_somebody() {
    let service = ServiceBuilder::new(&[("own", 1)]).start();
    let rule = format!("user = {OTHER}\n");
    for round in 0..2 {
        await_mode(&service, 0o600, round);
        change(&service, |text| with(&text, "other") + &rule);
        await_mode(&service, 0o666, round);
        change(&service, |text| without(&text, "other"));
    }
    await_mode(&service, 0o600, 2);
    run_once(&service, "own");
}

#[test]
fn a_user_who_is_taken_out_of_a_tenant_cannot_connect_as_it_any_more() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can connect as two users");
        return;
    }
    let (theirs, ours) = (format!("user = {OTHER}"), "user = 0");
    // Another tenant that they may be keeps the socket open to them and says what is left.
    let service = ServiceBuilder::new(&[("left", 1), ("shared", 1)])
        .tenant_key("left", &theirs)
        .tenant_key("shared", &theirs)
        .start();
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(service.folder(), open).unwrap();
    let connect_as_other = || works_as(&service.socket(), "shared");
    connect_as_other().unwrap();
    assert!(connect(&service.socket(), "shared").is_err());
    let [to_them, to_us] =
        [&*theirs, ours].map(|rule| format!("name = \"shared\"\nweight = 1\n{rule}\n"));
    change(&service, |text| text.replace(&to_them, &to_us));
    let refused = connect_as_other().unwrap_err();
    assert!(
        refused.contains("may not be tenant \"shared\"; you may be: left"),
        "{refused}"
    );
    run_once(&service, "shared");
    change(&service, |text| text.replace(&to_us, &to_them));
    connect_as_other().unwrap();
    let error = connect(&service.socket(), "shared").map(drop).unwrap_err();
    assert!(error.to_string().contains("may not be tenant"), "{error}");
}

#[test]
fn a_process_that_was_matched_by_rules_that_changed_before_its_hello_is_not_let_in() {
    let service = ServiceBuilder::new(&[("own", 1)]).start();
    // It is in the host's hands, and has not said yet which tenant it is.
    let early = Session::connect(&service.socket()).unwrap();
    let tenant = "name = \"own\"\nweight = 1\n";
    let rule = format!("{tenant}user = {}\n", nix::unistd::geteuid());
    change(&service, |text| text.replace(tenant, &rule));
    // This one reached the host behind the new rules.
    run_once(&service, "own");
    match RawTenant::over(early, "own").map(drop) {
        Err(CallError::Control(refused)) => {
            assert_eq!(refused.code, ControlCode::NotWelcome, "{refused}");
            assert!(refused.to_string().contains("connect again"), "{refused}");
        }
        other => panic!("{other:?} where a refusal was due"),
    }
    run_once(&service, "own");
}

#[test]
fn the_latencies_of_a_tenant_that_came_later_are_measured_by_ebpf_as_well() {
    let service = ServiceBuilder::new(&[("first", 1)]).start();
    if let Some(reason) = service.statistics().ebpf_unavailable {
        println!("SKIPPED: {reason}");
        return;
    }
    let measured = |tenant: &str| {
        let arguments = ["latency", tenant, "--run-dir"].map(OsStr::new);
        let (code, said) = run(arguments.into_iter().chain([service.folder().as_os_str()]));
        assert_eq!(
            (code, &said["source"]),
            (Some(0), &Value::from("ebpf")),
            "{said}"
        );
        let rows = said["latencies"].as_array().unwrap();
        let row = rows.iter().find(|row| row["kind"] == "submit_to_complete");
        row.map_or(0, |row| row["count"].as_u64().unwrap())
    };
    let await_count = |tenant: &str, count: u64| {
        until(&format!("{count} launches of {tenant}"), || {
            (measured(tenant) == count).then_some(())
        });
    };
    run_once(&service, "first");
    await_count("first", 1);
    change(&service, |text| with(&text, "later"));
    assert_eq!(measured("later"), 0);
    run_once(&service, "later");
    run_once(&service, "later");
    await_count("later", 2);
    assert_eq!(measured("first"), 1);
}
