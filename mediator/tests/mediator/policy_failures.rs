//! A policy that panics under the dispatcher: FIFO takes its place, that is reported, and every launch ends.

use crate::scripted::{BLOCK_NS, Rig, SharedWire, launch, named, submit};
use gridmux_policy::conformance::Fails;
use gridmux_policy::{DispatchOrder, all_policies};

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
        let done = |wire: &SharedWire| wire.borrow().completions.len() == 4;
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
            let policy = || Fails::new(named(info.name), observes, replans);
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
    let mut rig = Rig::with_policy(Fails::new(named("sjf"), u64::MAX, 2));
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
