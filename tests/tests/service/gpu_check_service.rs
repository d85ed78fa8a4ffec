//! Contract: the program that measures the service through clients finds, over the SM model, that a tenant alone keeps
//! most of the bare device, that a latency tenant waits for one batch block at most, that the service counts shares as
//! the blocks themselves do, and that mixes make sense; and it finds the same again.

use gridmux_gpu_check::kernels::{Successor, stamping};
use gridmux_mediator::device::model::bare::{BareDevice, BareStream};
use gridmux_tests::{assert_names, driver_library, gpu_check, program};
use gridmux_workloads::portable;
use serde_json::Value;
use std::process::Command;

/// The device of every run: that of the program's own default.
const GPU: &str = "h200";
const SMS: u16 = 4;

/// Runs one part; returns what it found out.
fn part(name: &str) -> Vec<Value> {
    let ran = Command::new(gpu_check())
        .args(["service", "--part", name, "--seconds", "300"])
        .arg("--gridmux")
        .arg(program())
        .arg("--libcuda")
        .arg(driver_library())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().expect("a document");
    let document: Value = serde_json::from_str(last).expect("JSON");
    let parts = document["parts"].as_array().expect("a list of parts");
    assert_eq!(
        (&parts[0]["part"], &parts[1]["part"]),
        (&"device".into(), &name.into())
    );
    let facts = parts[0]["findings"].as_array().expect("a list of findings");
    for due in [
        "shared by the service",
        "name",
        "driver_version",
        "date",
        "sms",
    ] {
        assert!(facts.iter().any(|fact| fact["name"] == due), "no {due}");
    }
    parts[1]["findings"].as_array().expect("a list").clone()
}

/// Returns the figure of that name.
fn figure(findings: &[Value], name: &str) -> f64 {
    let found = findings.iter().find(|finding| finding["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name:?} in {findings:#?}"));
    found["value"].as_f64().expect("a number")
}

/// Returns the time of a launch of stamped kernels on the bare modelled device, in microseconds.
fn bare_us(ns: u64, streams: usize, launches: u64) -> f64 {
    let mut device = BareDevice::open(GPU, Some(SMS), 1 << 24).expect("a device");
    let stamping = stamping(0, Successor::AtEnd);
    let text = portable(&stamping);
    let kernel = device.load(text.as_bytes(), "stamp").expect("the kernel");
    let blocks = 2 * u32::from(SMS);
    let streams: Vec<_> = (0..streams)
        .map(|_| {
            let out = device
                .place(&vec![0; 24 * blocks as usize])
                .expect("memory");
            BareStream {
                kernel: kernel.clone(),
                grid: [blocks, 1, 1],
                block: [256, 1, 1],
                dynamic_shared_bytes: 0,
                params: [out, ns, 0, ns]
                    .into_iter()
                    .flat_map(u64::to_le_bytes)
                    .collect(),
                restored: Vec::new(),
                ahead: 8,
                most: launches,
            }
        })
        .collect();
    let all = launches * streams.len() as u64;
    let run = device.run(&streams, all, |_| {}).expect("it runs");
    run.duration_ns() as f64 / all as f64 / 1e3
}

#[test]
fn a_tenant_alone_keeps_most_of_the_bare_device_and_figures_repeat() {
    let findings = part("native");
    assert_eq!(findings, part("native"));
    for (ns, launches) in [(400, 60), (9_700, 20), (99_700, 6)] {
        for streams in [1, 4] {
            let name = format!("blocks of {ns} ns, streams {streams}, mediated: time of a launch");
            let (bare, mediated) = (bare_us(ns, streams, launches), figure(&findings, &name));
            eprintln!("{name}: {mediated:.3} us, {bare:.3} us on the bare device");
            let share = bare / mediated;
            let least = match (ns, streams) {
                (9_700, 4) => 0.8,
                _ => 0.9,
            };
            assert!(
                (least..1.1).contains(&share),
                "{name}: {share:.3} of native"
            );
        }
    }
}

#[test]
fn a_latency_tenant_waits_for_one_batch_block_at_most() {
    /// The service's own part of a launch's latency, beside a kernel of 5 us, in microseconds.
    const OWN_US: f64 = 10.0;
    let findings = part("latency");
    let block = figure(&findings, "what a batch block takes at most");
    let p99 = |beside: u32, what: &str| {
        figure(
            &findings,
            &format!("gridmux, batch tenants {beside}: {what}: p99"),
        )
    };
    let alone = p99(0, "to the end");
    assert!(alone < 5.0 + OWN_US, "{alone} us alone");
    for beside in [1, 3] {
        let (start, end) = (p99(beside, "to the first block"), p99(beside, "to the end"));
        assert!(start > p99(0, "to the first block"), "{start} us");
        assert!(start < block + OWN_US, "{start} us to the first block");
        // The last of its blocks may wait for another batch block.
        assert!(end < block + 5.0 + OWN_US, "{end} us to the end");
    }
}

#[test]
fn the_service_counts_what_tenants_hold_as_their_blocks_do() {
    // The program's own checks hold what the service says against the stamps.
    let findings = part("shares");
    for weights in [&[30.0, 70.0][..], &[10.0, 90.0], &[1.0, 2.0, 4.0]] {
        let case: Vec<String> = weights.iter().map(f64::to_string).collect();
        let name = format!("smk-p, {}", case.join(":"));
        let used = figure(&findings, &format!("{name}: of the device in use"));
        assert!(used > 0.95, "{name}: {used}");
        let held = (1..=weights.len()).map(|n| {
            figure(
                &findings,
                &format!("{name}, tenant {n}: held, steady, by stamps"),
            )
        });
        let held: Vec<f64> = held.collect();
        assert!((held.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{held:?}");
        assert!(held.is_sorted(), "{name}: {held:?}");
        let checked = findings.iter().filter(|finding| {
            let is_of_case = finding["name"]
                .as_str()
                .is_some_and(|told| told.starts_with(&name));
            finding["kind"] == "check" && is_of_case
        });
        assert_eq!(checked.count(), weights.len(), "{name}");
    }
}

#[test]
fn mixes_do_more_than_one_program_and_no_more_than_all() {
    let findings = part("mixes");
    for (mix, programs) in [
        ("compute and memory", 2.0),
        ("two of compute", 2.0),
        ("three", 3.0),
    ] {
        for how in ["plain streams", "fifo", "smk-p", "gridmux"] {
            let [stp, antt] =
                ["STP", "ANTT"].map(|what| figure(&findings, &format!("{mix}, {how}: {what}")));
            // What one program leaves in the caches may serve another launch of it a little sooner.
            assert!(
                (1.0..programs * 1.05).contains(&stp),
                "{mix}, {how}: STP {stp}"
            );
            assert!(
                (0.95..programs * 1.5).contains(&antt),
                "{mix}, {how}: ANTT {antt}"
            );
        }
    }
}

#[test]
fn a_hostile_tenant_changes_nothing_of_an_honest_ones() {
    let findings = part("isolation");
    let checks = findings.iter().filter(|finding| finding["kind"] == "check");
    let passed: Vec<_> = checks.map(|check| check["passed"].clone()).collect();
    assert_eq!(
        passed,
        [Value::from(true), Value::from(true)],
        "{findings:#?}"
    );
}

#[test]
fn what_is_missing_is_named() {
    let ran = Command::new(gpu_check())
        .args(["service", "--gridmux", "/nonexistent/gridmux"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert_names(
        &said,
        &[
            "/nonexistent/gridmux",
            "--gridmux PATH",
            "cargo xtask gpu-check --service",
        ],
    );
    let ran = Command::new(gpu_check())
        .args(["service", "--part", "turbo"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert_names(&said, &["'turbo'", "latency"]);
}
