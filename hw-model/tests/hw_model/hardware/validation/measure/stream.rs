//! Bandwidth: streams through DRAM by occupancy, and sweeps through the L2.

use super::super::machine::{Machine, Shape};
use super::super::schema::StreamOp;
use super::{Amount, float, kernel_text};
use gridmux_hw_model::GpuConfig;

/// Arrays that a stream touches.
const fn arrays(op: StreamOp) -> u64 {
    match op {
        StreamOp::Store | StreamOp::Read => 1,
        StreamOp::Scale => 2,
        StreamOp::Triad => 4,
    }
}

/// Runs a stream over fresh memory; gives its cycles.
fn stream_once(
    config: &GpuConfig,
    op: StreamOp,
    (block, per_sm): (u32, u32),
    elements: u64,
) -> u64 {
    let entry = match op {
        StreamOp::Store => "store",
        StreamOp::Read => "read",
        StreamOp::Scale => "scale",
        StreamOp::Triad => "triad",
    };
    let mut machine = Machine::new(config);
    let kernel = machine.kernel(&kernel_text("stream"), entry);
    let words: Vec<u64> = (0..4).map(|_| machine.buffer(elements * 8)).collect();
    let blocks = u32::try_from(elements / u64::from(block)).unwrap_or(u32::MAX);
    let shape = Shape {
        dynamic_shared_bytes: machine.spoiler(&kernel, block, per_sm),
        ..Shape::new(blocks, block)
    };
    let words = [words[0], words[1], words[2], words[3], elements];
    machine.run(&kernel, shape, &words)
}

pub(super) fn stream(config: &GpuConfig, op: StreamOp, block: u32, per_sm: u32) -> Amount {
    let wave = u64::from(config.sm.count) * u64::from(per_sm) * u64::from(block);
    let writes = op != StreamOp::Read;
    // Where DRAM decides, the L2 is full of written lines before the rate is taken; else a few waves are enough.
    let settled = if writes && per_sm > 1 {
        config.l2.bytes / 8 * 5 / 4 / arrays(op)
    } else {
        0
    };
    let whole = |elements: u64| elements.div_ceil(wave) * wave;
    let short = whole(settled.max(4 * wave));
    let long = short + whole((settled / 2).max(8 * wave));
    let first = stream_once(config, op, (block, per_sm), short);
    let second = stream_once(config, op, (block, per_sm), long);
    Amount {
        cycles: float(second - first),
        bytes: float((long - short) * arrays(op) * 8),
        sms: f64::from(config.sm.count),
        ..Amount::default()
    }
}

/// Bytes that a block of a sweep reads.
const PART: u64 = 64 * 1024 * 8;

pub(super) fn sweep(config: &GpuConfig, footprint: f64) -> Amount {
    #[allow(clippy::cast_possible_truncation, reason = "a small number")]
    let parts = ((footprint / float(PART)).round() as u32).max(1);
    let mut machine = Machine::new(config);
    let kernel = machine.kernel(&kernel_text("sweep"), "sweep");
    let data = machine.buffer(u64::from(parts) * PART);
    let out = machine.buffer(256);
    let words = [data, u64::from(parts), out];
    let wave = u32::from(config.sm.count) * (config.sm.max_threads / 1024);
    machine.run(&kernel, Shape::new(parts, 1024), &words);
    let first = machine.run(&kernel, Shape::new(wave, 1024), &words);
    let second = machine.run(&kernel, Shape::new(3 * wave, 1024), &words);
    Amount {
        cycles: float(second - first),
        bytes: float(u64::from(2 * wave) * PART),
        sms: f64::from(config.sm.count),
        ..Amount::default()
    }
}
