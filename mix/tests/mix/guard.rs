//! A policy that panics in charge of a driver: FIFO takes its place, and every launch ends.

use crate::load;
use gridmux_mix::event::EventDriver;
use gridmux_policy::policy::Watch;
use gridmux_policy::{DispatchOrder, Event, Nanos, Plan, Policy, all_policies};

/// Panics at one of its calls.
struct Fails {
    inner: Box<dyn Policy>,
    /// Calls of `observe` and `replan` until it panics.
    observes: u64,
    replans: u64,
}

fn count(left: &mut u64, what: &str) {
    *left -= 1;
    assert!(*left > 0, "{what} is one too many");
}

impl Policy for Fails {
    fn observe(&mut self, event: &Event) {
        count(&mut self.observes, "an event");
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        // The plan is written and then thrown away.
        let made = self.inner.replan(now, standing, next);
        count(&mut self.replans, "a plan");
        made
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }
}

/// Runs launches of three tenants under a policy that fails, and returns the driver with all of them ended.
fn run(policy: &str, observes: u64, replans: u64) -> EventDriver {
    let fails = Fails {
        inner: load::policy(policy),
        observes,
        replans,
    };
    let mut driver = load::driver(Box::new(fails));
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
