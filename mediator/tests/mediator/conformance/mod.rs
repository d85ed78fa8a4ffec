//! The dispatcher is a subject of the conformance suite: on a scripted device and on the SM model.
//!
//! Rules: what happened to blocks is taken from the device's reports, and which plans were in force from the policy
//! that the suite hands in. Where the suite is to fail, a rule is broken between the two.

mod hardware;
mod levels;
mod model;
mod policies;
mod rig;
mod shares;
mod tap;
mod workloads;

use gridmux_policy::conformance::{Breach, Verdict, cases, check};
use gridmux_policy::units::Nanos;
use hardware::{LAUNCH_NS, LEVELS, Scripted};
use model::Model;
use rig::{Dispatched, Machine};

fn scripted() -> Dispatched {
    let open = || Box::new(Scripted { levels: LEVELS }) as Box<dyn Machine>;
    Dispatched::new(open, Nanos(LAUNCH_NS), Nanos(0))
}

/// The fewest levels at which room can be lent.
fn scripted_with_two_levels() -> Dispatched {
    let open = || Box::new(Scripted { levels: 2 }) as Box<dyn Machine>;
    Dispatched::new(open, Nanos(LAUNCH_NS), Nanos(0))
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
        "the first in order is lent room first",
        "what was lent to a better rank comes back when its blocks end",
        "what was lent is switched out for as many as wait for it",
        "what was lent is switched out as soon as it has come",
        "room is lent again when who waited has reached his limit",
        "rows issue as their weights are",
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

/// Names of the cases that fail on the scripted device when a rule is broken by hand.
fn broken(breach: Breach) -> Vec<&'static str> {
    let mut subject = scripted();
    subject.breach = Some(breach);
    let failed = cases()
        .into_iter()
        .filter(|case| case.run(&mut subject).is_err());
    failed.map(|case| case.name).collect()
}

fn fails(breach: Breach, cases: &[&str]) {
    let failed = broken(breach);
    for case in cases {
        assert!(failed.contains(case), "{case:?} passes; {failed:?} fail");
    }
}

#[test]
fn the_suite_fails_when_caps_are_not_held() {
    fails(
        Breach::Caps,
        &[
            "a cap holds on each SM of its group",
            "without a line nobody is held up",
        ],
    );
}

#[test]
fn the_suite_fails_when_ranks_are_not_held() {
    let failed = broken(Breach::Ranks);
    for case in [
        "free room goes to the best rank",
        "the head of the line holds up the rest",
    ] {
        assert!(failed.contains(&case), "{failed:?}");
    }
    let other = "a cap holds on each SM of its group";
    assert!(!failed.contains(&other), "{failed:?}");
}

#[test]
fn the_suite_fails_when_limits_are_not_held() {
    fails(
        Breach::Limits,
        &[
            "rows of a tenant hold its device limit together",
            "rows of a tenant hold its limit on each SM together",
            "the spill row is bound by its tenant's limit alone",
        ],
    );
}

#[test]
fn the_suite_fails_when_budgets_begin_anew() {
    fails(
        Breach::Budgets,
        &["a budget is a position, however often it is said"],
    );
}

#[test]
fn the_suite_fails_when_rows_do_not_stop() {
    fails(
        Breach::Stops,
        &[
            "a row that is checked stops at once",
            "a row that runs ahead stops within a window",
        ],
    );
}

#[test]
fn the_suite_fails_when_room_is_not_lent_as_the_plan_says() {
    fails(
        Breach::Surplus,
        &[
            "room that nobody within his cap can use is lent",
            "room that is not lent stays empty",
        ],
    );
}

#[test]
fn the_suite_fails_when_the_policy_is_not_told_the_truth() {
    fails(
        Breach::Blocks,
        &["a budget is a position, however often it is said"],
    );
    let failed = broken(Breach::Shares);
    assert_eq!(failed, ["shares are the integrals of what happened"]);
}
