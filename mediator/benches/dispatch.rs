//! `dispatch`: what a launch costs on its way through the dispatcher, on a scripted device, and what the policy thread
//! takes of a core.
//!
//! - `dispatch/CONNECTED/ACTIVE`: what the dispatcher's turns take per launch, with CONNECTED clients, each of a
//!   tenant of its own, of which ACTIVE submit bursts of launches through their rings. The floor is the round trip of a
//!   submission and its completion through the same rings, both ends spinning on processors of their own. Rounds of
//!   both alternate, and the least of each is printed, because other work on the machine only ever adds. A dispatcher
//!   that turns never waits, so its processor time is its wall time less what others take of its core; of a round trip
//!   the median of a round is taken, which does not see them either.
//! - `dispatch/policy-thread`: processor time of the policy thread over wall time, with 64 tenants that always have
//!   launches open on a device that takes [`BLOCK_NS`] for each; the bar is 0.05.
//!
//! The policy is `smk-p`, on a thread of its own as in a service. A client's own work (submitting, taking completions)
//! is not counted.

#[path = "dispatch/device.rs"]
mod device;
#[path = "dispatch/rig.rs"]
mod rig;
#[path = "dispatch/round_trip.rs"]
mod round_trip;

use gridmux_testkit::bench::{Chosen, Figure};
use rig::Rig;
use std::time::{Duration, Instant};

/// Connected clients, and how many of them are active.
const CASES: [(u16, u16); 4] = [(1, 1), (1000, 1), (64, 64), (1000, 1000)];
/// Alternations of a case and its floor.
const ROUNDS: usize = 41;
/// Launches of a round.
const LAUNCHES: u64 = 8_000;
/// Residence of a block in the case of the policy thread.
const BLOCK_NS: u64 = 200_000;
/// Wall time of that case, and for settling before.
const POLICY_RUN: Duration = Duration::from_secs(2);

fn main() {
    let chosen = Chosen::by_arguments();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("SKIPPED: the benchmark needs two processors");
        return;
    }
    rig::allow_descriptors();
    for (connected, active) in CASES {
        let name = format!("dispatch/{connected}/{active}");
        if chosen.has(&name) {
            let (value, floor) = measure(connected, active);
            Figure::lower(&name, value, "ns per launch")
                .floor(floor)
                .print();
        }
    }
    let name = "dispatch/policy-thread";
    if chosen.has(name) {
        Figure::lower(name, policy_share(), "share of a core").print();
    }
}

/// Returns the nanoseconds of a launch, and of a round trip through the rings.
fn measure(connected: u16, active: u16) -> (f64, f64) {
    let mut rig = Rig::new(connected, active, 0);
    // The first launches, the first plans, and what was idle becoming cold are not the steady state.
    let settled = Instant::now() + Duration::from_millis(500);
    while Instant::now() < settled {
        rig.burst();
    }
    let (mut values, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (mut launches, mut spent) = (0, Duration::ZERO);
        while launches < LAUNCHES {
            let (done, took) = rig.burst();
            launches += done;
            spent += took;
        }
        values.push(spent.as_nanos() as f64 / launches as f64);
        floors.push(round_trip::p50_ns());
    }
    eprintln!("dispatch/{connected}/{active}: {}", rig.summary());
    (least(&values), least(&floors))
}

/// Returns processor time of the policy thread over wall time.
fn policy_share() -> f64 {
    let mut rig = Rig::new(64, 64, BLOCK_NS);
    rig.serve(POLICY_RUN / 4);
    let before = rig.policy_cpu();
    let wall = rig.serve(POLICY_RUN);
    let spent = rig.policy_cpu() - before;
    eprintln!("dispatch/policy-thread: {}", rig.summary());
    spent.as_secs_f64() / wall.as_secs_f64()
}

fn least(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
