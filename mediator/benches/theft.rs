//! `theft`: what a victim keeps beside a tenant that tries to hold more than its part, on the timed model.
//!
//! A case is `theft/POLICY/TRICK`. Values: under a policy that promises weights `got`, what the victim held over what
//! it was entitled to; under others `part`, what it held over half of what both held; and `wait`, the longest time
//! from a launch's submission to its first block over that of the thief's longest block, the victim's own block and a
//! launch's latency together. The first launch of a kernel is left out: nobody knows it yet.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_policy::ids::TenantId;
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{ModelRig, SPIN, Shape, StreamLoop};

/// Policies: those that promise weights first.
const POLICIES: [&str; 6] = ["smk-p", "gridmux", "accelos", "elastic", "even", "spatial"];
/// Device time of a case.
const RUN_NS: u64 = 20_000_000;
/// Time that is left out at the beginning, in which kernels become known.
const SETTLES_NS: u64 = 2_000_000;
/// Rounds of a microsecond.
const ROUNDS_PER_US: u32 = 28;
/// A launch's latency, and what the victim's own blocks take.
const OWN_NS: u64 = 6_000 + 20_000;

/// A kernel that cannot be cut, because it reads its launch's number.
const UNCUT: &str = include_str!("uncut.ptx");
/// A kernel whose blocks wait until all of them have started.
const GANG: &str = include_str!("../tests/mediator/gang.ptx");
/// A kernel whose first two blocks are short.
const GROWS: &str = include_str!("grows.ptx");

/// What the thief does: its clients' modules and streams, and how long its longest block takes in nanoseconds.
struct Trick {
    name: &'static str,
    clients: Vec<(&'static str, Vec<StreamLoop>)>,
    block_ns: u64,
}

fn main() {
    let chosen = Chosen::by_arguments();
    for policy in POLICIES {
        for trick in tricks() {
            let name = format!("theft/{policy}/{}", trick.name);
            if chosen.has(&name) {
                judge(&name, policy, &trick);
            }
        }
    }
}

fn stream(blocks: u32, threads: u16, us: u32, ahead: u32) -> StreamLoop {
    StreamLoop {
        shape: Shape {
            blocks,
            threads,
            shared_bytes: 0,
            rounds: us * ROUNDS_PER_US,
        },
        ahead,
        count: u64::MAX,
    }
}

fn tricks() -> Vec<Trick> {
    let trick = |name, clients, block_us: u64| Trick {
        name,
        clients,
        block_ns: block_us * 1_000,
    };
    let one = |ptx, streams| vec![(ptx, streams)];
    vec![
        trick("honest", one(SPIN, vec![stream(64, 256, 20, 2); 2]), 20),
        // Whole grids of several waves.
        trick("uncut", one(UNCUT, vec![stream(256, 256, 100, 2); 2]), 100),
        trick(
            "uncut_and_trivial",
            one(UNCUT, vec![stream(256, 256, 100, 2), stream(1, 32, 0, 1)]),
            100,
        ),
        trick(
            "first_blocks_short",
            one(GROWS, vec![stream(4096, 256, 500, 2); 2]),
            500,
        ),
        trick(
            "tiny_before_huge",
            one(SPIN, vec![stream(1, 256, 0, 1), stream(4096, 256, 500, 1)]),
            500,
        ),
        trick(
            "forty_shapes",
            one(SPIN, (1..=40).map(|n| stream(32, 8 * n, 20, 1)).collect()),
            20,
        ),
        trick(
            "twenty_clients",
            (0..20)
                .map(|_| (SPIN, vec![stream(64, 256, 20, 1)]))
                .collect(),
            20,
        ),
        trick(
            "long_blocks",
            one(SPIN, vec![stream(512, 256, 1_000, 2); 2]),
            1_000,
        ),
        // Each of nearly the whole device.
        trick("gangs", one(GANG, vec![stream(7, 1024, 100, 2); 4]), 100),
        trick("flood", one(SPIN, vec![stream(4, 256, 0, 4); 31]), 1),
    ]
}

fn judge(name: &str, policy: &str, trick: &Trick) {
    let mut rig = ModelRig::new(policy);
    let (victim, thief) = (rig.tenant(1), rig.tenant(1));
    let own = rig.client(victim, &[stream(16, 256, 20, 1); 2]);
    for (ptx, streams) in &trick.clients {
        rig.client_of(thief, ptx, streams);
    }
    rig.run_until(SETTLES_NS);
    let before = [victim, thief].map(|tenant| held(&rig, tenant));
    rig.run_until(RUN_NS);
    let after = [victim, thief].map(|tenant| held(&rig, tenant));
    let got = |n: usize| after[n].0 - before[n].0;
    match promises_weights(policy) {
        true => {
            let entitled = after[0].1 - before[0].1;
            Figure::higher(
                &format!("{name}/got"),
                got(0) / entitled,
                "of its entitlement",
            )
            .print();
        }
        false => {
            let part = 2.0 * got(0) / (got(0) + got(1));
            Figure::higher(&format!("{name}/part"), part, "of half of what both held").print();
        }
    }
    let late = rig
        .done
        .iter()
        .filter(|done| done.client == own && done.submitted >= SETTLES_NS);
    let waits = late.map(|done| (done.submitted, done.start - done.submitted));
    // One that was submitted behind the last that ended may still wait.
    let last = rig.done.iter().filter(|done| done.client == own);
    let last = last.map(|done| done.end).max().unwrap_or(0);
    let waits = waits
        .map(|(_, wait)| wait)
        .chain([RUN_NS - last.min(RUN_NS)]);
    let longest = waits.max().unwrap_or(RUN_NS);
    let wait = longest as f64 / (trick.block_ns + OWN_NS) as f64;
    Figure::lower(
        &format!("{name}/wait"),
        wait,
        "of a block of each and a launch",
    )
    .print();
}

fn promises_weights(policy: &str) -> bool {
    let policies = gridmux_policy::all_policies().iter();
    policies
        .into_iter()
        .any(|info| info.name == policy && info.promises_weights)
}

/// Returns what a tenant held and was entitled to so far, in SM · ns.
fn held(rig: &ModelRig, tenant: TenantId) -> (f64, f64) {
    let usage = rig.usage(tenant);
    (usage.held_sm_ns, usage.entitled_sm_ns)
}
