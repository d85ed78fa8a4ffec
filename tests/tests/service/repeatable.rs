//! Contract: in lockstep a run is a function of the programs, on an idle host and on a busy one.

use gridmux_tests::{BusyHost, run};
use serde_json::Value;

/// Returns the demonstration with as little work as it takes; every program in it is a process of its own.
fn demo() -> Value {
    let line = "demo --work 1 --sms 4 --policy smk-p --device model:h200";
    let (code, report) = run(line.split_whitespace());
    assert_eq!(code, Some(0), "{report}");
    report
}

#[test]
fn two_demos_agree_in_every_figure_though_the_host_of_the_second_is_busy() {
    let first = demo();
    assert_eq!(first["holds_expired"], 0, "{first}");
    assert_eq!(first["against"], "native");
    for tenant in first["policies"][0]["tenants"].as_array().expect("a list") {
        assert_eq!(tenant["verified"], true, "{tenant}");
        let native_ns = tenant["duration_native_ns"].as_u64();
        assert!(native_ns.is_some_and(|ns| ns > 0), "{tenant}");
    }
    let busy = BusyHost::start();
    let second = demo();
    drop(busy);
    // No figure in it is wall time.
    assert_eq!(first, second);
}
