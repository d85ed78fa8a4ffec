//! What was used, as operators ask for it: of a service that runs, of one that was killed, and of files.

use crate::command::running::{Running, Service, until};
use crate::command::{gridmux, json_of, typed};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A configuration that names a file of accounts.
struct Configured {
    _folder: tempfile::TempDir,
    file: PathBuf,
    config: String,
}

fn configured() -> Configured {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (
        folder.path().join("usage.redb"),
        folder.path().join("config.toml"),
    );
    let text = format!("schema_version = 1\n[accounting]\nfile = {file:?}\n");
    std::fs::write(&config, text).unwrap();
    Configured {
        _folder: folder,
        file,
        config: config.to_str().unwrap().to_owned(),
    }
}

/// Returns a figure of a row of what was used.
fn figure(usage: &Value, name: &str, key: &str) -> f64 {
    let rows = usage["rows"].as_array().expect("rows").iter();
    let found = rows.filter(|row| row["name"] == name);
    found.filter_map(|row| row[key].as_f64()).sum()
}

fn run(service: &Service, tenant: &str, launches: u32) {
    let socket = service.socket();
    let command = format!(
        "-j workload run reduction --socket {socket} --tenant {tenant} --size tiny --launches {launches}"
    );
    typed(&command).succeeded();
}

#[test]
fn use_is_counted_whole_while_the_service_runs_and_after_its_end() {
    let kept = configured();
    let service = Service::start_with("accounts", &["--config", &kept.config]);
    let nothing = service.ask(&["usage"]);
    assert_eq!(nothing["rows"], json!([]), "{nothing}");
    run(&service, "first", 30);
    run(&service, "first", 12);
    run(&service, "second", 5);
    let launches = |usage: &Value, name: &str| figure(usage, name, "launches");
    // What they did is there as soon as they have left.
    until("all clients are gone", || {
        let device = service.ask(&["device", "show"]);
        (device["clients"] == 0 && device["connections_not_greeted"] == 0).then_some(())
    });
    let usage_again = service.ask(&["usage"]);
    assert_eq!(
        (
            launches(&usage_again, "first"),
            launches(&usage_again, "second")
        ),
        (42.0, 5.0),
        "{usage_again}"
    );
    for key in ["device_sm_seconds", "memory_byte_seconds", "bytes_copied"] {
        assert!(
            figure(&usage_again, "first", key) > 0.0,
            "{key}: {usage_again}"
        );
    }
    let shown = service.ask(&["tenant", "show", "first"]);
    let held = shown[0]["held_sm_ns"].as_f64().unwrap() / 1e9;
    let counted = figure(&usage_again, "first", "device_sm_seconds");
    // Blocks of one kernel are short of one resource, so that both measures are of the same, but for the first
    // launches, of which shares do not know yet what they hold.
    assert!(
        (0.9..2.0).contains(&(counted / held)),
        "{counted} s, and {held} s were held"
    );
    let own = nix::unistd::geteuid().to_string();
    let by_user = service.ask(&["usage", "--by", "user", "--since", "1h"]);
    assert_eq!(launches(&by_user, &own), 47.0, "{by_user}");
    let future = service.ask(&["usage", "--since", "2200-01-01"]);
    assert_eq!(future["rows"], json!([]));
    let text = gridmux(["usage", "--run-dir", service.run_dir.to_str().unwrap()]).succeeded();
    assert!(
        text.stdout.contains("TENANT") && text.stdout.contains("first"),
        "{}",
        text.stdout
    );
    assert_eq!(service.stop(), Some(0));
    let file = kept.file.to_str().unwrap();
    let after = json_of(["-j", "usage", "--file", file]);
    assert_eq!(after["rows"], usage_again["rows"], "nothing was used since");
    let nowhere = "/nonexistent/gridmux";
    let named = json_of([
        "-j",
        "usage",
        "--run-dir",
        nowhere,
        "--config",
        &kept.config,
    ]);
    assert_eq!(named["rows"], after["rows"]);
}

/// Kills of the service, each with an account of what it had acknowledged: by several threads, each of which has a
/// file of its own, because a service takes most of the time to start and to write what was used a second ago.
const KILLS: u32 = 100;
const KILLERS: u32 = 10;

/// Launches of a round.
const ROUND: u32 = 20;

/// Starts a service on a file again and again, and kills it: in every second round a second after `gridmux usage` has
/// shown what was used, when all of it has to be in the file, in the others at once.
fn kill_again_and_again(killer: u32) {
    let kept = configured();
    let mut expected = 0.0;
    for round in 0..KILLS / KILLERS {
        let name = format!("accounts-killed-{killer}-{round}");
        let mut service = Service::start_with(&name, &["--config", &kept.config]);
        run(&service, "first", ROUND);
        let before = expected;
        expected += f64::from(ROUND);
        // Shown first, and a second later written.
        until("`gridmux usage` to show it", || {
            let usage = service.ask(&["usage"]);
            (figure(&usage, "first", "launches") >= expected).then_some(())
        });
        let is_written = round % 2 == 0;
        // A client that works when the service is killed.
        let busy = (round % 5 == 0).then(|| {
            let mut busy = Running::workload(&service, "matmul --tenant second --launches 1000000");
            busy.hold_and_go();
            busy
        });
        if is_written {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        service.running.child.kill().unwrap();
        service.running.child.wait().unwrap();
        drop(busy);
        let usage = json_of(["-j", "usage", "--file", kept.file.to_str().unwrap()]);
        let found = figure(&usage, "first", "launches");
        let may_be = if is_written { expected } else { before }..=expected;
        assert!(may_be.contains(&found), "{found} of {expected}: {usage}");
        // What a kill has lost stays lost, and comes not twice.
        expected = found;
    }
}

#[test]
fn a_service_that_is_killed_a_hundred_times_loses_a_second_at_most_and_repeats_nothing() {
    let begun = std::time::Instant::now();
    let killers =
        (0..KILLERS).map(|killer| std::thread::spawn(move || kill_again_and_again(killer)));
    let killers: Vec<_> = killers.collect();
    for killer in killers {
        killer.join().unwrap();
    }
    println!("{KILLS} kills took {:.1} s", begun.elapsed().as_secs_f64());
}

#[test]
fn a_device_host_that_dies_takes_no_account_with_it() {
    let kept = configured();
    let service = Service::start_with("accounts-host", &["--config", &kept.config]);
    run(&service, "first", 20);
    let host = service.ask(&["device", "show"]);
    let pid = host["host_pid"].as_i64().expect("a host");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    until("another host is up", || {
        let now = service.ask(&["device", "show"]);
        let is_new = now["host_pid"]
            .as_i64()
            .is_some_and(|new| new != i64::from(pid.as_raw()));
        (is_new && now["host_state"] == "up").then_some(())
    });
    run(&service, "first", 7);
    until("`gridmux usage` to show all of it", || {
        let usage = service.ask(&["usage"]);
        (figure(&usage, "first", "launches") >= 27.0).then_some(())
    });
    assert_eq!(figure(&service.ask(&["usage"]), "first", "launches"), 27.0);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_cannot_be_told_is_named_with_what_to_do() {
    let service = Service::start("no-accounts");
    let run_dir = service.run_dir.to_str().unwrap();
    gridmux(["-j", "usage", "--run-dir", run_dir])
        .failed(1, &["keeps no accounts", "accounting.file"]);
    let nowhere = "/nonexistent/gridmux";
    let failed = gridmux([
        "-j",
        "usage",
        "--run-dir",
        nowhere,
        "--config",
        "/nonexistent/c.toml",
    ]);
    failed.failed(1, &["/nonexistent/c.toml"]);
    gridmux(["-j", "usage", "--since", "yesterday"]).failed(2, &["yesterday", "7d"]);
    gridmux(["-j", "usage", "--since", "1h", "--until", "2h"]).failed(2, &["--since", "before"]);
    gridmux(["-j", "usage", "--file", "/nonexistent/x"]).failed(1, &["/nonexistent/x"]);
    gridmux(["-j", "usage", "--file", "/etc/passwd"]).failed(1, &["no database"]);
    gridmux(["-j", "usage", "--by", "mood"]).failed(2, &["mood", "tenant", "user", "job"]);
    let kept = configured();
    std::fs::write(&kept.file, b"mine\n").unwrap();
    let service = Service::start_with("accounts-foreign", &["--config", &kept.config]);
    run(&service, "first", 3);
    let usage = until("`gridmux usage` to show it", || {
        let usage = service.ask(&["usage"]);
        (figure(&usage, "first", "launches") >= 3.0).then_some(usage)
    });
    let why = usage["unwritten"].as_str().unwrap();
    assert!(why.contains("left as it is"), "{why}");
    assert_eq!(std::fs::read(&kept.file).unwrap(), b"mine\n");
    assert_eq!(service.stop(), Some(0));
}
