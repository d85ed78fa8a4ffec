//! How many thread blocks the `event` executor simulates in a second, on one core. One JSON object per benchmark on
//! stdout.
//!
//! The workload is the 56 ordered pairs of ERCBench (SRTF, section 6.1.3), of which the second kernel arrives when half
//! of the first has passed: about 200,000 blocks. Wall time on this machine; the most of several rounds, because other
//! work on the machine only ever adds. The floor is what any such simulation does for a block: to put its end into a
//! priority queue as deep as the device is wide, and to take it out again. Arguments choose benchmarks by part of their
//! name.

use gridmux_mix::event::{EventConfig, ercbench};
use gridmux_mix::{MixLaunch, together};
use gridmux_policy::{Cycles, DeviceId, Profiles, all_policies, by_name};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mixes = mixes();
    let blocks: u64 = mixes.iter().flatten().map(|l| l.submission.blocks).sum();
    let floor = most_a_second(blocks, || queue(blocks));
    for policy in all_policies() {
        let name = format!("event_blocks_{}", policy.name.replace('-', "_"));
        if !chosen.is_empty() && !chosen.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let value = most_a_second(blocks, || run(policy.name, &mixes));
        println!(
            "{{\"name\":\"{name}\",\"value\":{value:.0},\"unit\":\"blocks/s\",\"better\":\"higher\",\
             \"floor\":{floor:.0},\"ratio\":{:.3},\"peer\":null}}",
            value / floor
        );
    }
}

/// Returns the ordered pairs of ERCBench.
fn mixes() -> Vec<Vec<MixLaunch>> {
    let config = EventConfig::gtx480();
    let kernels = ercbench();
    let launch = |place: usize, arrival| MixLaunch {
        submission: kernels[place].submission(&config.shape),
        arrival: Cycles(arrival),
        weight: 1,
    };
    let pairs = (0..64)
        .map(|n| (n / 8, n % 8))
        .filter(|(one, other)| one != other);
    pairs
        .map(|(one, other)| {
            let half = kernels[one].runtime_cycles / 2;
            vec![launch(one, 0), launch(other, half)]
        })
        .collect()
}

fn run(policy: &str, mixes: &[Vec<MixLaunch>]) {
    let config = EventConfig::gtx480();
    for mix in mixes {
        let policy = by_name(policy, DeviceId(0), &config.shape, &Profiles::default());
        let policy = policy.expect("a listed policy exists");
        black_box(together(config, policy, mix).expect("the pairs can run"));
    }
}

/// Passes blocks through a priority queue of their ends, as many at once as a GTX 480 holds.
fn queue(blocks: u64) {
    let mut ends: BinaryHeap<Reverse<u64>> = (0..120).map(Reverse).collect();
    for block in 0..blocks {
        if let Some(Reverse(end)) = ends.pop() {
            ends.push(Reverse(
                end + 10_000 + block.wrapping_mul(0x9e37_79b9) % 4_096,
            ));
        }
    }
    black_box(ends);
}

/// Returns blocks in a second: the most of several rounds.
fn most_a_second(blocks: u64, mut round: impl FnMut()) -> f64 {
    let timed = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        blocks as f64 / start.elapsed().as_secs_f64()
    });
    timed.fold(0.0, f64::max)
}
