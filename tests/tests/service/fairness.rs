//! Contract: under `smk-p` a tenant gets the share that it was promised, and on a modelled GPU it gets it again.

use gridmux_tests::{BusyHost, Service, ServiceBuilder, Speaker};
use serde_json::Value;
use std::process::Stdio;

/// A tenant of the mix: the same kernel for both, four SMs full of blocks for each. Launches are large enough that both
/// wait for the device: where they wait for the thread that submits, most of the device is empty, and what that costs
/// the one with more launches is made up for over many milliseconds only.
struct Role {
    name: &'static str,
    weight: u32,
    launches: &'static str,
}

/// Work in proportion to the weights, so that both are busy for about as long.
const ROLES: [Role; 2] = [
    Role {
        name: "heavy",
        weight: 3,
        launches: "120",
    },
    Role {
        name: "light",
        weight: 1,
        launches: "40",
    },
];

/// The figures of a run of the mix.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Got and entitled, each as a part of what both held while the tenant was busy.
    heavy: (f64, f64),
    light: (f64, f64),
    /// The start of both.
    started_ns: u64,
    /// The report of each program: times and latencies.
    reports: Vec<Value>,
    /// The service's counts of each tenant.
    counted: Vec<Value>,
    holds_expired: u64,
}

fn start(service: &Service, role: &Role) -> Speaker {
    let words = format!(
        "black_scholes --elements 32768 --streams 6 --wait-go --launches {}",
        role.launches
    );
    Speaker::work(&service.socket(), role.name, &words, Stdio::inherit())
}

/// Runs the mix: both tenants hold the virtual clock before either starts, so that they start at one instant of it.
fn run_mix() -> Outcome {
    let tenants = ROLES.map(|role| (role.name, role.weight));
    // A loaded machine may keep a tenant's process waiting; the clock waits with it.
    let service = ServiceBuilder::new(&tenants)
        .lockstep()
        .limit("clock_hold_ms", 60_000)
        .start();
    // One after another, so that they get their numbers and their memory in the same order each time.
    let mut speakers = ROLES.each_ref().map(|role| {
        let mut speaker = start(&service, role);
        speaker.expect("ready");
        speaker
    });
    for speaker in &mut speakers {
        speaker.say("hold");
        speaker.expect("held");
    }
    let started_ns = service.statistics().host.device_now_ns;
    for speaker in &mut speakers {
        speaker.say("go");
    }
    let results = speakers
        .each_mut()
        .map(|speaker| speaker.expect("verified"));
    let share = |name: &str| {
        let usage = service.tenant(name).usage;
        let got = usage.share_got.expect("it had work");
        (got, usage.share_entitled.expect("it had work"))
    };
    for result in &results {
        assert_eq!(result["verified"], true, "{result}");
    }
    let statistics = service.statistics();
    let counted = statistics.host.tenants.iter().map(|tenant| {
        let mut usage = serde_json::json!(tenant.usage);
        // Since when something binds is of wall time.
        usage["binding"]["since_ns"] = Value::Null;
        serde_json::json!({ "usage": usage, "start_p99_ns": tenant.latency.start_p99_ns })
    });
    let outcome = Outcome {
        heavy: share("heavy"),
        light: share("light"),
        started_ns,
        counted: counted.collect(),
        holds_expired: statistics.host.holds_expired,
        reports: results.into(),
    };
    for speaker in &mut speakers {
        speaker.say("leave");
    }
    outcome
}

#[test]
fn shares_are_as_asked_and_come_out_the_same_again() {
    let first = run_mix();
    println!("first run: {first:?}");
    for (got, entitled) in [first.heavy, first.light] {
        assert!(
            (got / entitled - 1.0).abs() < 0.1,
            "entitled to {entitled}, got {got}: {first:?}"
        );
    }
    // Work is in proportion to the weights, so both are busy for nearly all of the time.
    assert!((first.heavy.1 - 0.75).abs() < 0.1, "{first:?}");
    assert_eq!(first.holds_expired, 0, "{first:?}");
    // Everything, to the nanosecond and the last bit of a share, whatever the host has to do besides.
    let busy = BusyHost::start();
    let second = run_mix();
    drop(busy);
    assert_eq!(first, second);
}
