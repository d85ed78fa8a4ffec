//! Descriptions that are refused, and those that are not.

use crate::config::{GpuConfig, SchedulerPolicy};
use crate::description::{ConfigError, Description, builtin_names};

#[test]
fn every_builtin_is_valid_and_named_after_itself() {
    for name in builtin_names() {
        assert_eq!(GpuConfig::builtin(name).expect("valid").name, name);
    }
}

#[test]
fn the_gtx_480_of_srtf_differs_by_its_scheduler_alone() {
    let mut one = GpuConfig::builtin("gtx480").expect("valid");
    let other = GpuConfig::builtin("gtx480-lrr").expect("valid");
    one.name.clone_from(&other.name);
    one.sm.scheduler = SchedulerPolicy::Lrr;
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let text =
        include_str!("../../../configs/h200.toml").replace("[shared]", "[shared]\nbogus = 1");
    let error = GpuConfig::from_toml(&text).expect_err("refused");
    assert!(error.to_string().contains("bogus"), "{error}");
}

#[test]
fn a_number_that_its_type_cannot_hold_is_refused_with_its_range() {
    for value in ["-1", "4294967296"] {
        let mut description = Description::builtin("h200").expect("built in");
        let change = format!("clock.core_mhz={value}");
        description.set(&change).expect("a number");
        let error = description.config().expect_err("refused").to_string();
        let due = format!("clock.core_mhz = {value} makes no sense: it must lie between 1 and");
        assert!(error.starts_with(&due), "{error}");
    }
}

#[test]
fn what_is_too_large_is_refused_by_its_key() {
    for change in [
        "clock.core_mhz=33554432",
        "dram.timing.refi=2147483649",
        "sm.registers=4294967295",
        "sm.register_unit=2147483648",
        "sm.collector_cycles=4294967295",
        "shared.latency=4294967295",
        "l1.line_interval=4294967295",
        "l2.atomic_interval=4294967295",
        "l1.bytes=1073741824",
        "l1.bytes=4611686018427387904",
        "l2.bytes=4611686018427387904",
        "l2.banks=4294967295",
        "l2.slices=4294967295",
        "dram.channels=4294967295",
        "interconnect.header_bytes=4097",
        "launch.submit_ns=4294967295",
        "launch.warp_cycles=1000001",
        "copy.latency_ns=4294967295",
        "pipelines.approximation_guard=4097",
    ] {
        let mut description = Description::builtin("h200").expect("built in");
        description.set(change).expect("a number");
        let (key, _) = change.split_once('=').expect("a key");
        let error = description.config().expect_err("refused").to_string();
        assert!(error.contains(key), "{change}: {error}");
    }
}

#[test]
fn nonsense_is_refused_with_its_key() {
    let cases = [
        ("count = 132", "count = 0", "sm.count"),
        ("banks = 32", "banks = 7", "shared.banks"),
        (
            "setup = 0, turn = 2",
            "setup = 0, turn = 2147483648",
            "shared.atomic.turn",
        ),
        ("least = 4", "least = 4097", "shared.atomic.least"),
        ("cycle = 1.2\n", "cycle = 0.0\n", "l2.cycle"),
        ("200704, 233472]", "200704]", "l1.carve_outs"),
        ("bytes = 262144", "bytes = 131072", "l1.carve_outs"),
        ("latency = 280", "latency = 3", "l2.latency"),
        ("name = \"h200\"", "name = \"h\\n200\"", "name"),
        ("name = \"h200\"", "name = \"\"", "name"),
        ("row_bytes = 1024", "row_bytes = 1000", "dram.row_bytes"),
        ("burst_bytes = 32", "burst_bytes = 16", "dram.burst_bytes"),
        (
            "gigabytes_per_second = 4800.0",
            "gigabytes_per_second = -1.0",
            "dram.gigabytes_per_second",
        ),
        (
            "gigabytes_per_second = 4800.0",
            "gigabytes_per_second = 1e-300",
            "dram.gigabytes_per_second",
        ),
        ("command_mhz = 1563", "command_mhz = 0", "dram.command_mhz"),
        ("far_cycles = 248", "far_cycles = 2480", "l2.far_cycles"),
        ("schedulers = 4", "schedulers = 3", "sm.schedulers"),
        (
            "row_bytes = 1024",
            "row_bytes = 1024\nbank_groups = 3",
            "dram.bank_groups",
        ),
        (
            "row_bytes = 1024",
            "row_bytes = 1024\nstripe = { banks = 2, bytes = 2048 }",
            "dram.stripe.bytes",
        ),
        ("ccd = 1", "refi = 10, ccd = 1", "dram.timing.refi"),
        (
            "early_loads = 8",
            "early_loads = 1025",
            "assembler.early_loads",
        ),
        (
            "block_interval_cycles = 1.19",
            "block_interval_cycles = 0.0",
            "launch.block_interval_cycles",
        ),
    ];
    for (from, to, key) in cases {
        let original = include_str!("../../../configs/h200.toml");
        let text = original.replacen(from, to, 1);
        assert_ne!(text, original, "{from}");
        match GpuConfig::from_toml(&text) {
            Err(
                ConfigError::Value { key: named, .. }
                | ConfigError::Contradiction { key: named, .. },
            ) => assert_eq!(named, key),
            other => panic!("{to}: {other:?}"),
        }
    }
}

#[test]
fn halves_of_l2_have_room_for_copies() {
    let halves = GpuConfig::builtin("h200").expect("valid");
    assert_ne!(halves.l2.far_cycles, 0);
    let (mut odd, mut narrow) = (halves.clone(), halves.clone());
    odd.l2.bytes += u64::from(odd.l2.slices * odd.l2.ways) * 128;
    narrow.l2.ways = 1;
    let bytes = format!("l2.bytes = {}", odd.l2.bytes);
    let far = format!("l2.far_cycles = {}", halves.l2.far_cycles);
    for (config, other) in [(odd, bytes.as_str()), (narrow, "l2.ways = 1")] {
        let error = config.validate().expect_err("no room").to_string();
        assert!(error.contains(&far) && error.contains(other), "{error}");
    }
}

#[test]
fn scaling_keeps_proportions() {
    let full = GpuConfig::builtin("h200").expect("valid");
    let small = full.clone().scaled_to_sms(33);
    assert_eq!(small.sm.count, 33);
    assert_eq!(small.l2.slices, 24);
    assert_eq!(small.dram.channels, 24);
    assert!((small.dram.gigabytes_per_second - 1200.0).abs() < 1e-9);
    let intervals = [&full, &small].map(|config| config.launch.block_interval_cycles);
    assert!((intervals[1] - 4.0 * intervals[0]).abs() < 1e-9);
    small.validate().expect("still valid");
}
