//! Matrix products: a slab of C that fills the SMs, for two depths.
//!
//! Rule: rows of all matrices lie as far apart as in the published products, and only what is computed is touched.

use super::super::machine::{Machine, Shape};
use super::super::schema::SgemmStep;
use super::{Amount, float, kernel_text};
use gridmux_hw_model::GpuConfig;

/// Elements between two rows.
const PITCH: u64 = 4096;
/// Columns of C that are computed, two tiles of 128; rows are 128 for each SM.
const COLUMNS: u64 = 256;
/// Depths of the two runs.
const DEPTHS: (u64, u64) = (32, 64);

pub(super) fn sgemm(config: &GpuConfig, step: SgemmStep) -> Amount {
    let (entry, tile, threads) = match step {
        SgemmStep::Naive => ("naive", 32, 1024),
        SgemmStep::Coalesced => ("coalesced", 32, 1024),
        SgemmStep::Tiled => ("tiled", 32, 1024),
        SgemmStep::Columns => ("columns", 64, 512),
        SgemmStep::Squares => ("squares", 128, 256),
        SgemmStep::Vectors => ("vectors", 128, 256),
    };
    let rows = 128 * u64::from(config.sm.count);
    let mut machine = Machine::new(config);
    let kernel = machine.kernel(&kernel_text("sgemm"), entry);
    let a = machine.buffer(rows * PITCH * 4);
    let b = machine.buffer(DEPTHS.1 * PITCH * 4);
    let c = machine.buffer(rows * PITCH * 4);
    let across = |length: u64| u32::try_from(length / tile).unwrap_or(u32::MAX);
    let shape = Shape {
        rows_of_blocks: across(COLUMNS),
        ..Shape::new(across(rows), threads)
    };
    let mut run = |depth: u64| float(machine.run(&kernel, shape, &[a, b, c, depth, PITCH]));
    run(DEPTHS.0);
    let short = run(DEPTHS.0);
    let long = run(DEPTHS.1);
    Amount {
        cycles: long - short,
        flops: float(2 * rows * COLUMNS * (DEPTHS.1 - DEPTHS.0)),
        sms: f64::from(config.sm.count),
        ..Amount::default()
    }
}
