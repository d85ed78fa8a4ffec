//! `plan` mode is a subject of the conformance suite, and the suite fails when a rule is broken.

use crate::bench::Bench;
use gridmux_hw_model::{QueueId, device_shape, enforces};
use gridmux_mix::conformance::{Asked, OnVirtualTime};
use gridmux_mix::model::ModelSubmission;
use gridmux_policy::Policy;
use gridmux_policy::conformance::{Breach, Load, Verdict, cases, check};
use gridmux_policy::units::Nanos;
use gridmux_testkit::kernels::STAY;

/// Computes: about as many instructions a thread as its parameter says. They wait for no other one, and
/// are for two units, each of which takes every second one of a scheduler's.
const COMPUTE: &str = include_str!("compute.ptx");

/// Returns plan mode on a small GPU.
fn plan_mode() -> OnVirtualTime {
    let config = Bench::config(4);
    // 20 times 6,900 cycles to a launch's first block and 1,250 behind another one in the front end.
    let times = [Bench::observation(&config), Nanos(120_000)];
    let shape = device_shape(&config);
    let run = move |asked: Asked, policy: Box<dyn Policy>, loads: &[Load], until: Nanos| {
        let mut bench = Bench::new(config.clone());
        let kernel = |load: &Load| match load.computes {
            true => bench.kernel(COMPUTE, "compute"),
            false => bench.kernel(STAY, "stay"),
        };
        let kernels: Vec<_> = loads.iter().map(kernel).collect();
        asked.run(bench.gpu, policy, (loads, until), |place, load, launch| {
            ModelSubmission {
                queue: QueueId(load.stream),
                kernel: kernels[place].clone(),
                grid: [launch.blocks, 1, 1],
                block: [load.block.threads, 1, 1],
                dynamic_shared_bytes: load.block.shared_bytes,
                params: launch.block_ns.0.to_le_bytes().to_vec(),
                budget: None,
            }
        })
    };
    OnVirtualTime::new(shape, enforces, times, Box::new(run))
}

#[test]
fn plan_mode_holds_every_rule() {
    let went = check(&mut plan_mode()).unwrap_or_else(|failures| {
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"));
    });
    let skipped: Vec<_> = went.iter().filter(|(_, v)| *v != Verdict::Held).collect();
    assert!(skipped.is_empty(), "{skipped:?}");
    assert!(went.len() >= 20, "{}", went.len());
}

/// Returns the names of the cases that fail when a rule is broken.
fn broken(breach: Breach) -> Vec<&'static str> {
    let mut subject = plan_mode();
    subject.breach = Some(breach);
    let failed = cases()
        .into_iter()
        .filter(|case| case.run(&mut subject).is_err());
    failed.map(|case| case.name).collect()
}

/// Judges that these cases fail when a rule is broken; returns the names of all that do.
fn fails(breach: Breach, cases: &[&str]) -> Vec<&'static str> {
    let failed = broken(breach);
    assert!(cases.iter().all(|case| failed.contains(case)), "{failed:?}");
    failed
}

const CAPS: &str = "a cap holds on each SM of its group";

#[test]
fn the_suite_fails_when_caps_are_not_held() {
    let switched = "blocks beyond a lowered cap are switched out and come back";
    fails(Breach::Caps, &[CAPS, switched]);
}

#[test]
fn the_suite_fails_when_ranks_are_not_held() {
    let cases = [
        "free room goes to the best rank",
        "the head of the line holds up the rest",
        "beyond a lowered limit the worst rank leaves first",
    ];
    let failed = fails(Breach::Ranks, &cases);
    assert!(!failed.contains(&CAPS), "{failed:?}");
}

#[test]
fn the_suite_fails_when_limits_are_not_held() {
    let cases = [
        "rows of a tenant hold its device limit together",
        "rows of a tenant hold its limit on each SM together",
        "the spill row is bound by its tenant's limit alone",
    ];
    fails(Breach::Limits, &cases);
}

#[test]
fn the_suite_fails_when_budgets_begin_anew() {
    let case = "a budget is a position, however often it is said";
    fails(Breach::Budgets, &[case]);
}

#[test]
fn the_suite_fails_when_weights_are_not_held() {
    assert_eq!(broken(Breach::Weights), ["rows issue as their weights are"]);
}

#[test]
fn the_suite_fails_when_rows_do_not_stop() {
    let cases = [
        "a row that is checked stops at once",
        "a row that runs ahead stops within a window",
    ];
    fails(Breach::Stops, &cases);
}

#[test]
fn the_suite_fails_when_room_is_not_lent_as_the_plan_says() {
    let cases = [
        "room that nobody within his cap can use is lent",
        "room that is not lent stays empty",
        "room that nobody within his limit can use is lent",
        "what was lent is switched out for as many as wait for it",
        "room is lent again when who waited has his block",
    ];
    fails(Breach::Surplus, &cases);
}

#[test]
fn the_suite_fails_when_the_policy_is_not_told_the_truth() {
    let case = "blocks are counted on the groups that hold them";
    fails(Breach::Blocks, &[case]);
    let failed = broken(Breach::Shares);
    assert_eq!(failed, ["shares are the integrals of what happened"]);
}
