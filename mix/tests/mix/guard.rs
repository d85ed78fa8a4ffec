//! A policy that panics in charge of a driver: FIFO takes its place, and every launch ends.

use crate::load;
use gridmux_mix::event::EventDriver;
use gridmux_policy::conformance::Fails;
use gridmux_policy::{DispatchOrder, all_policies};

/// Runs launches of three tenants under a policy that fails, and returns the driver with all of them ended.
fn run(policy: &str, observes: u64, replans: u64) -> EventDriver {
    let mut driver = load::driver(Fails::new(load::policy(policy), observes, replans));
    load::finish(&mut driver, policy);
    driver
}

#[test]
fn a_policy_that_panics_is_replaced_and_every_launch_ends() {
    let never = u64::MAX;
    for info in all_policies() {
        for (observes, replans) in [(1, never), (2, never), (9, never), (40, never)] {
            let driver = run(info.name, observes, replans);
            let failure = driver.policy_failure().expect("it panicked").to_string();
            assert!(failure.contains("an event is one too many"), "{failure}");
        }
        for replans in [1, 2, 5] {
            let driver = run(info.name, never, replans);
            let failure = driver.policy_failure().expect("it panicked").to_string();
            assert!(failure.contains("a plan is one too many"), "{failure}");
            let plan = driver.plan();
            assert_eq!(plan.order(), DispatchOrder::Arrival, "{}", info.name);
            assert!(!plan.head_of_line());
        }
        assert_eq!(run(info.name, never, never).policy_failure(), None);
    }
}
