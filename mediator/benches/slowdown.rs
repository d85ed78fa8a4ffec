//! `slowdown`: how well a tenant's slowdown is estimated while it runs, against its programs' progress alone and
//! together, on the timed model.
//!
//! A case is `slowdown/POLICY/ONE+OTHER`: two tenants, each with one kernel in a closed loop. Its value is the worse
//! relative error of the two; `slowdown/POLICY/mean` is the mean over all tenants of all pairs. Kernels are known from
//! a run alone before.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_policy::Profiles;
use gridmux_policy::ids::TenantId;
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{ModelRig, SPIN, Shape, StreamLoop};

const SMS: u16 = 2;
/// Policies: one that shares evenly, and the default.
const POLICIES: [&str; 2] = ["smk-p", "gridmux"];
/// Device time of a run.
const RUN_NS: u64 = 3_000_000;
/// How often it is seen in that time whether shares were settled.
const LOOKS: u64 = 60;
/// A kernel that reads memory in every round of its loop.
const READS: &str = include_str!("reads.ptx");

/// A kernel in a closed loop: its name, PTX, streams and launches.
type Kernel = (&'static str, &'static str, usize, Shape);

const KERNELS: [Kernel; 8] = [
    ("short", SPIN, 1, Shape::new(8, 256, 0, 280)),
    ("streams", SPIN, 4, Shape::new(4, 128, 0, 560)),
    ("waves", SPIN, 2, Shape::new(64, 256, 0, 560)),
    ("long", SPIN, 1, Shape::new(32, 512, 0, 2_800)),
    ("shared", SPIN, 2, Shape::new(12, 128, 48 << 10, 1_400)),
    ("tiny", SPIN, 8, Shape::new(2, 64, 0, 10)),
    ("reads", READS, 2, Shape::new(32, 256, 0, 60)),
    ("few", READS, 1, Shape::new(4, 128, 0, 120)),
];

fn main() {
    let chosen = Chosen::by_arguments();
    for policy in POLICIES {
        let mut errors = Vec::new();
        for (n, other) in KERNELS.iter().enumerate() {
            // All pairs of different kernels.
            for one in &KERNELS[..n] {
                let name = format!("slowdown/{policy}/{}+{}", one.0, other.0);
                if !chosen.has(&name) {
                    continue;
                }
                let pair = errors_of(policy, [one, other]);
                let worst = pair.into_iter().fold(0.0, f64::max);
                Figure::lower(&name, worst, "relative error").print();
                errors.extend(pair);
            }
        }
        if !errors.is_empty() {
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            Figure::lower(&format!("slowdown/{policy}/mean"), mean, "relative error").print();
        }
    }
}

/// What two tenants did.
struct Ran {
    /// Device time at the look that first saw the last settlement of shares, of which estimates tell, in nanoseconds.
    until: u64,
    /// Of each, the blocks that had ended at that look.
    ended: [f64; 2],
    /// Of each, how many times longer its work takes than alone, by estimate.
    slowdowns: [f64; 2],
}

/// Returns the relative errors of the estimates of two tenants' slowdowns.
fn errors_of(policy: &str, pair: [&Kernel; 2]) -> [f64; 2] {
    let profiles = Profiles::default();
    let [one, other] = pair;
    let alone = [
        run(policy, &profiles, [Some(one), None]),
        run(policy, &profiles, [None, Some(other)]),
    ];
    let together = run(policy, &profiles, pair.map(Some));
    let pace = |ran: &Ran, n: usize| ran.ended[n] / ran.until as f64;
    [0, 1].map(|n| {
        let slowdown = pace(&alone[n], n) / pace(&together, n);
        let estimate = together.slowdowns[n];
        eprintln!("  {}: {slowdown:.2}, estimated {estimate:.2}", pair[n].0);
        ((estimate - slowdown) / slowdown).abs()
    })
}

/// Runs kernels of two tenants until the last settlement of shares within [`RUN_NS`]. It is seen when it is published,
/// up to 0.1 ms later, in which a few more blocks may end.
fn run(policy: &str, profiles: &Profiles, kernels: [Option<&Kernel>; 2]) -> Ran {
    let mut rig = ModelRig::learning(policy, SMS, profiles);
    let tenants: [TenantId; 2] = [rig.tenant(1), rig.tenant(1)];
    for (tenant, kernel) in tenants.iter().zip(kernels) {
        if let Some((name, ptx, streams, shape)) = kernel {
            // A kernel of its own, so that its blocks are not taken for those of another one.
            let ptx = ptx.replace(".entry ", &format!(".entry {name}_"));
            let stream = StreamLoop::endless(*shape, 1);
            rig.client_of(*tenant, &ptx, &vec![stream; *streams]);
        }
    }
    let mut ran = Ran {
        until: 0,
        ended: [0.0; 2],
        slowdowns: [1.0; 2],
    };
    let mut entitled = [0.0; 2];
    for until in (1..=LOOKS).map(|look| look * RUN_NS / LOOKS) {
        rig.run_until(until);
        let usage = tenants.map(|tenant| rig.usage(tenant));
        let of = |n: usize| usage[n].entitled_sm_ns;
        let before = std::mem::replace(&mut entitled, [of(0), of(1)]);
        if before != entitled {
            let ended = |n: usize| usage[n].blocks as f64;
            let slowdown = |n: usize| usage[n].slowdown.unwrap_or(f64::NAN);
            ran = Ran {
                until,
                ended: [ended(0), ended(1)],
                slowdowns: [slowdown(0), slowdown(1)],
            };
        }
    }
    ran
}
