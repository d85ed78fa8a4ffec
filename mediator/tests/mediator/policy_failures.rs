//! A policy that panics under the dispatcher: FIFO takes its place, that is reported, and every launch ends.

use crate::scripted::{BLOCK_NS, Rig, launch, named, submit};
use gridmux_policy::event::Event;
use gridmux_policy::policy::Watch;
use gridmux_policy::units::Nanos;
use gridmux_policy::{DispatchOrder, Plan, Policy, all_policies};

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

fn fails(policy: &str, observes: u64, replans: u64) -> Box<dyn Policy> {
    Box::new(Fails {
        inner: named(policy),
        observes,
        replans,
    })
}

/// Runs launches of three clients to their end.
fn runs(rig: &mut Rig, name: &str) {
    let wires = [0, 1, 2].map(|slot| rig.join(slot, 1 + u32::from(slot)));
    for round in 0..4 {
        for wire in &wires {
            submit(wire, launch(round, [40, 1, 1], [256, 1, 1]));
        }
        rig.settle(20_000);
    }
    for turn in 0..200_000 {
        let done = |wire: &std::rc::Rc<std::cell::RefCell<crate::scripted::Wire>>| {
            wire.borrow().completions.len() == 4
        };
        if wires.iter().all(done) {
            break;
        }
        assert!(turn < 199_999, "{name}: a launch has not ended");
        if rig.bench.borrow().has_real_clock {
            rig.bench.borrow_mut().now += BLOCK_NS;
            rig.bench.borrow_mut().pass_time();
        }
        rig.turn();
    }
    // What has failed by now was told what lives.
    rig.settle(20_000);
}

#[test]
fn a_policy_that_panics_is_replaced_and_every_launch_ends() {
    let never = u64::MAX;
    for info in all_policies() {
        for (observes, replans) in [(1, never), (8, never), (15, never), (never, 1), (never, 4)] {
            let policy = || fails(info.name, observes, replans);
            for mut rig in [
                Rig::with_policy(policy()),
                Rig::on_real_clock(policy(), 4096),
            ] {
                let policy = rig.policy.handle();
                runs(&mut rig, info.name);
                let failure = policy.in_force().failure.expect("it panicked").to_string();
                assert!(failure.contains("is one too many"), "{failure}");
                assert!(failure.contains("fifo took its place"), "{failure}");
                let plan = rig.policy.plan();
                assert_eq!(plan.order(), DispatchOrder::Arrival, "{}", info.name);
                assert_eq!(plan.rows().len(), 3, "{}", info.name);
            }
        }
    }
}

#[test]
fn the_plan_in_force_stays_until_the_replacement_knows_what_lives() {
    let mut rig = Rig::with_policy(fails("sjf", u64::MAX, 2));
    let wire = rig.join(0, 1);
    let first = rig.policy.plan().epoch;
    submit(&wire, launch(0, [40, 1, 1], [256, 1, 1]));
    let policy = rig.policy.handle();
    while policy.in_force().failure.is_none() {
        let _ = rig.dispatcher.turn();
        rig.policy.run();
    }
    let plan = rig.policy.plan();
    assert_eq!((plan.epoch, plan.rows().len()), (first, 0));
    rig.settle(20_000);
    let plan = rig.policy.plan();
    assert_eq!(
        (plan.order(), plan.rows().len()),
        (DispatchOrder::Arrival, 1)
    );
    assert_eq!(wire.borrow().completions.len(), 1);
}
