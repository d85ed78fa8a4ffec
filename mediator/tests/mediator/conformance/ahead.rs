//! What is handed over beyond a cap to make up for the latency of launches.
//!
//! Rules: while all recent slices are short at most [`MOST_AHEAD`] percent of the cap on top of it, and next to nothing
//! while one of them was long against a launch, whatever short ones came since.

use super::hardware::{LAUNCH_NS, SHAPE};
use super::scripted;
use gridmux_mediator::dispatch::window::MOST_AHEAD;
use gridmux_policy::TenantId;
use gridmux_policy::conformance::script::{PlanSpec, Script};
use gridmux_policy::conformance::{Change, Load, LoadLaunch, Subject, Trace};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;

const CAP: u16 = 6;

/// Runs launches of one kernel one after another under a cap of [`CAP`] blocks an SM. Each launch is given by its
/// number of blocks and by how many nanoseconds a block stays.
fn run(launches: &[(u32, u64)]) -> Trace {
    let launches = launches.iter().map(|(blocks, block_ns)| LoadLaunch {
        at: Nanos(0),
        blocks: *blocks,
        block_ns: Nanos(*block_ns),
    });
    let load = Load {
        tenant: TenantId(0),
        weight: 1,
        block: BlockShape::of_threads(64),
        computes: false,
        stream: 0,
        launches: launches.collect(),
    };
    let specs = vec![PlanSpec::at(Nanos(0), SHAPE.sms).row(0, 0, CAP)];
    let loads = [load];
    let (script, _log) = Script::logged(&SHAPE, specs, &loads, None);
    let until = Nanos(1_000_000_000);
    let trace = scripted().run(script, &loads, until);
    assert!(trace.launches.iter().all(|launch| launch.end.is_some()));
    trace
}

/// Returns the most blocks on the device at once while blocks of some launches start.
fn most_resident(trace: &Trace, launches: impl Fn(usize) -> bool) -> i64 {
    let (mut held, mut most) = (0, 0);
    for seen in &trace.blocks {
        match seen.change {
            Change::Started => {
                held += 1;
                if launches(seen.launch) {
                    most = most.max(held);
                }
            }
            _ => held -= 1,
        }
    }
    most
}

#[test]
fn short_slices_get_the_cap_and_what_may_be_ahead_at_most() {
    let trace = run(&[(4000, LAUNCH_NS / 8)]);
    let cap = i64::from(CAP * SHAPE.sms);
    let most = most_resident(&trace, |_| true);
    let bound = cap * i64::try_from(100 + MOST_AHEAD).expect("small") / 100;
    assert!((cap + 1..=bound).contains(&most), "{most}, cap {cap}");
}

#[test]
fn a_long_launch_among_short_ones_keeps_to_the_cap() {
    let (short, long) = (LAUNCH_NS / 8, LAUNCH_NS * 50);
    // Even ones are short, and the short ones before the first long one may use what is handed over ahead.
    let launches: Vec<(u32, u64)> = (0..10)
        .map(|n| (100, if n % 2 == 0 { short } else { long }))
        .collect();
    let trace = run(&launches);
    let cap = i64::from(CAP * SHAPE.sms);
    // A lane takes four launches of a stream, so up to the fifth are on the device before a long one has ended.
    // A short one has 25 slices, with each of which the longest is forgotten by a sixteenth: 40 us of 200 are left, of
    // which two latencies of a launch are a fifth.
    let most = most_resident(&trace, |launch| launch % 2 == 1 && launch > 4);
    assert!(most > 0 && most <= cap + cap / 4, "{most}, cap {cap}");
}
