//! The service's eBPF programs and maps, as an operator asks for them.

use crate::command::running::Service;
use crate::command::{gridmux, json_of};
use nix::unistd::geteuid;
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts a service, and returns it with its eBPF instance; none where it has none, which is said.
fn service(name: &str) -> Option<(Service, String)> {
    let service = Service::start(name);
    let device = service.ask(&["device", "show"]);
    match device["ebpf_instance"].as_str() {
        Some(instance) => Some((service, instance.to_owned())),
        None => {
            println!("SKIPPED: {}", device["ebpf_unavailable"]);
            None
        }
    }
}

/// Returns those of an instance.
fn of_instance(listed: &Value, instance: &str) -> Vec<Value> {
    let all = listed.as_array().unwrap().iter();
    all.filter(|of| of["instance"] == instance)
        .cloned()
        .collect()
}

#[test]
fn programs_and_their_cost_are_shown() {
    let Some((service, instance)) = service("prog-show") else {
        return;
    };
    let programs = of_instance(&json_of(["-j", "prog", "show"]), &instance);
    let drain = programs.iter().find(|of| of["name"] == "gridmux_drain");
    let drain = drain.unwrap_or_else(|| panic!("{programs:?}"));
    assert_eq!(drain["type"], "raw_tracepoint");
    assert!(drain["bytes_xlated"].as_u64() > Some(0), "{drain}");
    assert!(!drain["map_ids"].as_array().unwrap().is_empty(), "{drain}");
    // Each reading of the latencies runs the program that drains.
    let reader = std::thread::spawn({
        let instance = instance.clone();
        move || {
            for _ in 0..5 {
                json_of(["-j", "map", "show"]);
                gridmux([
                    "-j",
                    "latency",
                    "--run-dir",
                    "/nowhere",
                    "--instance",
                    &instance,
                ]);
            }
        }
    });
    let costs = json_of(["-j", "prog", "show", "--cost", "3"]);
    reader.join().unwrap();
    let costs = of_instance(&costs, &instance);
    let drain = costs
        .iter()
        .find(|of| of["name"] == "gridmux_drain")
        .unwrap();
    assert!(drain["run_cnt"].as_u64() > Some(0), "{drain}");
    assert!(drain["ns_per_run"].as_f64() > Some(0.0), "{drain}");
    let text = gridmux(["prog", "show"]).succeeded().stdout;
    assert!(text.contains(&instance), "{text}");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn maps_are_shown_and_dumped() {
    let Some((service, instance)) = service("map-dump") else {
        return;
    };
    let maps = of_instance(&json_of(["-j", "map", "show"]), &instance);
    let names: Vec<&str> = maps.iter().filter_map(|map| map["name"].as_str()).collect();
    for due in [
        "gridmux_latency",
        "gridmux_stats",
        "gridmux_samples",
        "gridmux_owner",
    ] {
        assert!(names.contains(&due), "{due}: {names:?}");
    }
    let dump = |name: &str| json_of(["-j", "map", "dump", name, "--instance", &instance]);
    let [by_pin, by_name] = ["stats", "gridmux_stats"].map(dump);
    assert_eq!(by_pin[0]["id"], by_name[0]["id"]);
    assert_eq!(by_pin[0]["entries"]["samples"], 0);
    assert_eq!(dump("gridmux_tenants")[0]["entries"], json!([0, 1]));
    let owner = dump("owner");
    assert_eq!(owner[0]["entries"]["pid"], service.running.child.id());
    assert_eq!(dump("histograms")[0]["entries"], json!([]));
    let id = by_name[0]["id"].to_string();
    let text = gridmux(["map", "dump", &id]).succeeded().stdout;
    assert!(text.contains("unknown_tenant  0"), "{text}");
    gridmux(["-j", "map", "dump", "gridmux_samples"])
        .failed(1, &["cannot be dumped", "user_ringbuf"]);
    let absent = gridmux(["-j", "map", "dump", "nothing", "--instance", &instance]);
    absent.failed(1, &["there is no map \"nothing\"", &instance]);
    assert!(
        absent.hint().contains("gridmux_latency"),
        "{}",
        absent.hint()
    );
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn who_may_not_ask_is_told_what_is_missing() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can become a user without rights");
        return;
    }
    // A user without rights may not be able to reach this program's folder, so a copy is run.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let program = folder.path().join("gridmux");
    std::fs::copy(crate::command::PROGRAM, &program).unwrap();
    for command in [&["-j", "prog", "show"][..], &["-j", "map", "dump", "stats"]] {
        let mut asked = Command::new(&program);
        let output = asked.args(command).uid(65534).gid(65534).output().unwrap();
        let ran = crate::command::Ran::from(output);
        ran.failed(
            1,
            &[
                "not permitted to this user",
                "run as root or with CAP_SYS_ADMIN",
            ],
        );
    }
}
