//! `srtf`: the SRTF paper's comparison (section 6.1.3) by the mediator, on the timed model as stock hardware, and by
//! the model in plan mode, which is the paper's hardware.
//!
//! All ordered pairs of some of our kernels start together, the second one right after the first; times alone are
//! those under FIFO on the same executor. `srtf/device/POLICY/METRIC` is the geometric mean over the pairs on the
//! device, its floor the same in plan mode; `srtf/order/METRIC` is 1 where FIFO, MPMax and SRTF stand in this order on
//! the device, the last best, else 0.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;
#[path = "../tests/mediator/pairs.rs"]
mod pairs;

use gridmux_policy::metrics::{antt, geometric_mean, stp};
use gridmux_testkit::bench::{Chosen, Figure};
use pairs::{Kernel, Mix, on_device, on_plan};

/// The paper's policies that need no oracle, worst first by STP and by ANTT.
const POLICIES: [&str; 3] = ["fifo-strict", "mpmax", "srtf"];
/// Kernels whose runtimes alone are far apart: name, elements and rounds.
const KERNELS: [Kernel; 5] = [
    ("vecadd", 1_600_000, 0),
    ("raytrace", 420, 12),
    ("sad", 160, 0),
    ("aes", 110_000, 0),
    ("sha1", 9_000, 8),
];

/// How a set of launches is run under a policy: returns each one's time from arrival to end, in nanoseconds.
type Executor = fn(&str, &Mix) -> Vec<u64>;

fn main() {
    let chosen = Chosen::by_arguments();
    let is_chosen = |policy: &&str| chosen.has(&format!("srtf/device/{policy}"));
    let policies: Vec<&str> = POLICIES.into_iter().filter(is_chosen).collect();
    if policies.is_empty() {
        return;
    }
    let executors: [Executor; 2] = [on_device, on_plan];
    let alone = executors.map(|run| KERNELS.map(|kernel| run(POLICIES[0], &[kernel])[0]));
    for (n, (name, ..)) in KERNELS.iter().enumerate() {
        eprintln!(
            "{name} alone: {} ns, in plan mode {}",
            alone[0][n], alone[1][n]
        );
    }
    let of = |policy: &&str| {
        let [device, plan] = [0, 1].map(|n| means(executors[n], policy, &alone[n]));
        let name = |metric: &str| format!("srtf/device/{policy}/{metric}");
        Figure::higher(&name("stp"), device[0], "geometric mean")
            .floor(plan[0])
            .print();
        Figure::lower(&name("antt"), device[1], "geometric mean")
            .floor(plan[1])
            .print();
        device
    };
    let means: Vec<[f64; 2]> = policies.iter().map(of).collect();
    if policies.len() < POLICIES.len() {
        return;
    }
    for (metric, is_held) in [
        (
            "stp",
            means.is_sorted_by(|worse, better| worse[0] < better[0]),
        ),
        (
            "antt",
            means.is_sorted_by(|worse, better| worse[1] > better[1]),
        ),
    ] {
        let held = f64::from(u8::from(is_held));
        Figure::higher(&format!("srtf/order/{metric}"), held, "is the paper's").print();
    }
}

/// Returns the geometric means of STP and ANTT over all ordered pairs.
fn means(run: Executor, policy: &str, alone: &[u64; KERNELS.len()]) -> [f64; 2] {
    let (mut stps, mut antts) = (Vec::new(), Vec::new());
    for first in 0..KERNELS.len() {
        for second in (0..KERNELS.len()).filter(|second| *second != first) {
            let took = run(policy, &[KERNELS[first], KERNELS[second]]);
            let times = [
                (alone[first] as f64, took[0] as f64),
                (alone[second] as f64, took[1] as f64),
            ];
            eprintln!(
                "  {policy} {}+{}: stp {:.3}, antt {:.3}",
                KERNELS[first].0,
                KERNELS[second].0,
                stp(&times),
                antt(&times)
            );
            stps.push(stp(&times));
            antts.push(antt(&times));
        }
    }
    [geometric_mean(&stps), geometric_mean(&antts)]
}
