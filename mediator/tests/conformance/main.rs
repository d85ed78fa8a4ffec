//! The dispatcher is a subject of the conformance suite: on a scripted device and on the SM model.
//!
//! Rules: what happened is told by the device's reports, what was said by the policy that the suite hands in; where the
//! suite is to fail, a rule is broken between the two.

mod hardware;
mod model;
mod rig;
mod tap;

use gridmux_policy::conformance::{Breach, Verdict, cases, check};
use gridmux_policy::units::Nanos;
use hardware::{LAUNCH_NS, Scripted};
use model::Model;
use rig::Dispatched;

fn scripted() -> Dispatched {
    Dispatched::new(|| Box::new(Scripted), Nanos(LAUNCH_NS), Nanos(0))
}

/// From handing a launch over to its first block on four SMs of a V100: 5,000 cycles at 1.38 GHz.
const V100_LAUNCH: Nanos = Nanos(3_624);
/// Two of the model's epochs of 32 cycles.
const V100_EPOCHS: Nanos = Nanos(47);

fn modelled() -> Dispatched {
    Dispatched::new(|| Box::new(Model::open()), V100_LAUNCH, V100_EPOCHS)
}

/// Checks a subject; what it skips is known.
fn holds_every_rule(mut subject: Dispatched) {
    let went = check(&mut subject).unwrap_or_else(|failures| {
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"));
    });
    let skipped = went.iter().filter(|(_, verdict)| *verdict != Verdict::Held);
    let skipped: Vec<&str> = skipped.map(|(name, _)| *name).collect();
    let known = [
        "beyond a lowered limit the worst rank leaves first",
        "beyond a lowered device limit the worst rank leaves first",
        "blocks are counted on the groups that hold them",
    ];
    assert_eq!(skipped, known);
    assert!(went.len() >= 20, "{}", went.len());
}

#[test]
fn the_dispatcher_holds_every_rule_on_a_scripted_device() {
    holds_every_rule(scripted());
}

#[test]
fn the_dispatcher_holds_every_rule_on_the_model() {
    holds_every_rule(modelled());
}
