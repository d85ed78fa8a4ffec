//! Latency over footprint: a lone lane in a random ring of lines.

use super::super::machine::{Machine, Shape};
use super::{Amount, float, kernel_text};
use gridmux_hw_model::GpuConfig;

/// Bytes of a cache line.
const LINE: u64 = 128;

/// Returns a permutation of 0 to `count` − 1 (Fisher and Yates, with xorshift64).
fn shuffled(count: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (n as u64 + 1)).unwrap_or(0);
        order.swap(n, other);
    }
    order
}

/// Hops of a chase that is too long for a whole lap, and those of its shorter run.
const HOPS: (u64, u64) = (8192, 2048);

pub(super) fn chase(config: &GpuConfig, footprint: u64) -> Amount {
    let mut machine = Machine::new(config);
    let kernel = machine.kernel(&kernel_text("chase"), "chase");
    let ring = machine.buffer(footprint);
    let out = machine.buffer(256);
    let nodes = (footprint / LINE / 8).max(1) * 8;
    let mut order = shuffled(nodes);
    // What does not fit the L2 by far is never met twice, so no more of the ring is made than is walked.
    let cold = footprint > 2 * config.l2.bytes;
    if cold {
        order.truncate(usize::try_from(HOPS.0 + HOPS.1).unwrap_or(usize::MAX));
    }
    let hop = |n: usize| ring + order[n % order.len()] * LINE;
    for n in 0..order.len() {
        machine.write(hop(n), hop(n + 1));
    }
    let lone = Shape::new(1, 1);
    let mut walk =
        |start: usize, hops: u64| float(machine.run(&kernel, lone, &[hop(start), hops / 8, out]));
    let (long, short) = if cold {
        let start = usize::try_from(HOPS.1).unwrap_or(0);
        let short = walk(0, HOPS.1);
        (walk(start, HOPS.0), short)
    } else if nodes <= 2 * HOPS.0 {
        // The first lap of a launch fills the L1, which the launch may have emptied; nobody waits for the last hop.
        walk(0, nodes);
        let short = walk(0, 2 * nodes);
        let cycles = walk(0, 3 * nodes) - short;
        return Amount {
            cycles,
            events: float(nodes),
            ..Amount::default()
        };
    } else {
        walk(0, nodes);
        let short = walk(0, HOPS.1);
        (walk(0, HOPS.0), short)
    };
    Amount {
        cycles: long - short,
        events: float(HOPS.0 - HOPS.1),
        ..Amount::default()
    }
}
