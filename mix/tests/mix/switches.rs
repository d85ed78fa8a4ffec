//! Another policy takes over from one in charge of a driver, while launches run and wait: each ends once, and the new
//! policy decides as it does when it was there from the start.

use crate::load::{self, policy};
use gridmux_mix::event::EventDriver;
use gridmux_policy::{Cycles, all_policies};

/// When the policy is replaced: some launches run, some wait, some have not arrived.
const SWITCHES: [u64; 3] = [1, 40_000, 100_000];

fn driver(name: &str) -> EventDriver {
    load::driver(policy(name))
}

/// Runs to the end, and checks that no policy failed.
fn finish(driver: &mut EventDriver, name: &str) {
    load::finish(driver, name);
    assert_eq!(driver.policy_failure(), None, "{name}");
}

#[test]
fn every_policy_takes_over_from_every_other() {
    for to in all_policies() {
        let mut from_the_start = driver(to.name);
        finish(&mut from_the_start, to.name);
        let kind = |driver: &EventDriver| (driver.plan().order(), driver.plan().head_of_line());
        for from in all_policies() {
            for at in SWITCHES {
                let name = format!("{} to {} at {at}", from.name, to.name);
                let mut driver = driver(from.name);
                assert!(!driver.run(Cycles(at)), "{name}: launches are open");
                driver.choose_policy(policy(to.name));
                finish(&mut driver, &name);
                assert_eq!(kind(&driver), kind(&from_the_start), "{name}");
            }
        }
    }
}
