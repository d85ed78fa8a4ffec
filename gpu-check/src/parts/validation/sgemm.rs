//! Matrix products: square ones on a GPU, a slab with few rows over the SM model.

use super::MeasuredRun;
use super::bench::{ValidationBench, float};
use crate::cuda::Shape;
use crate::lab::Lab;
use gridmux_workloads::portable;

const SGEMM: &str = include_str!("../../../../hw-model/validation/kernels/sgemm.ptx");

/// Elements between two rows.
const PITCH: u64 = 4096;
/// The steps, each with the edge of a block's tile and its threads.
const STEPS: [(&str, u64, u32); 6] = [
    ("naive", 32, 1024),
    ("coalesced", 32, 1024),
    ("tiled", 32, 1024),
    ("columns", 64, 512),
    ("squares", 128, 256),
    ("vectors", 128, 256),
];

/// Measures every step.
pub(super) fn run(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    let cuda = bench.cuda;
    let module = cuda.load(&portable(SGEMM))?;
    let (rows, columns, depths) = lab
        .scale
        .choose((128, 128, (16, 32)), (PITCH, PITCH, (1024, 4096)));
    let a = cuda.zeroed(rows * PITCH * 4)?;
    let b = cuda.zeroed(depths.1 * PITCH * 4)?;
    let c = cuda.zeroed(rows * PITCH * 4)?;
    for (step, tile, threads) in STEPS {
        let function = cuda.function(&module, step)?;
        let across = |length: u64| u32::try_from(length / tile).unwrap_or(u32::MAX);
        let shape = Shape {
            grid: [across(rows), across(columns), 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
        };
        let run = |depth: u64| bench.launch_us(&function, shape, &[a, b, c, depth, PITCH]);
        run(depths.0)?;
        let took = run(depths.1)? - run(depths.0)?;
        let flops = float(2 * rows * columns * (depths.1 - depths.0));
        let run = MeasuredRun::new("sgemm", "sgemm").with("step", step);
        run.report(lab, flops / took / 1e3, "GFLOP/s");
    }
    for array in [a, b, c] {
        cuda.free(array)?;
    }
    Ok(cuda.unload(module)?)
}
