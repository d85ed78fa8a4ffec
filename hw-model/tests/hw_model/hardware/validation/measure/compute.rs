//! Instructions and shared memory: chains of one warp, rates of a full SM.

use super::super::machine::{Machine, Shape};
use super::Amount;
use super::body::{kernel, per_turn};
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::microbench::Loop;
use gridmux_workloads::microbench::loops::{self, LINKS};
use gridmux_workloads::microbench::ops::Op;

pub(super) fn chain(config: &GpuConfig, op: Op) -> Amount {
    let cycles = per_turn(&loops::chain(op), config, 0, Shape::new(1, 32), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

/// Threads of a block that fill an SM together.
const FULL_BLOCK: u32 = 256;

fn full(config: &GpuConfig, body: &Loop) -> Shape {
    let kernel = kernel(body, &mut Machine::new(config));
    let fits = gridmux_hw_model::occupancy(config, &kernel, FULL_BLOCK, 0).blocks_per_sm;
    Shape::new(fits * u32::from(config.sm.count), FULL_BLOCK)
}

pub(super) fn throughput(config: &GpuConfig, op: Op) -> Amount {
    let all = loops::throughput(op);
    let shape = full(config, &all);
    let cycles = per_turn(&all, config, 0, shape, (4, 12));
    let warps = f64::from(shape.blocks * shape.threads / 32);
    Amount {
        cycles,
        lanes: warps * 32.0 * f64::from(LINKS),
        flops: warps * f64::from(LINKS) * f64::from(op.flops()),
        sms: 1.0,
        ..Amount::default()
    }
}

pub(super) fn shared_chase(config: &GpuConfig, indexed: bool) -> Amount {
    let chase = loops::shared_chase(indexed);
    let cycles = per_turn(&chase, config, 0, Shape::new(1, 1), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

pub(super) fn shared_read(config: &GpuConfig) -> Amount {
    let read = loops::shared_read();
    let shape = full(config, &read);
    let cycles = per_turn(&read, config, 0, shape, (4, 20));
    Amount {
        cycles,
        bytes: f64::from(LINKS * 4) * f64::from(shape.blocks * shape.threads),
        sms: 1.0,
        ..Amount::default()
    }
}
