//! Single instructions, shared memory, the L1, atomic operations and barriers: loops of one SM; rates of pipelines on
//! all of them.

use super::MeasuredRun;
use super::bench::{ValidationBench, float};
use crate::cuda::Shape;
use crate::lab::Lab;
use gridmux_workloads::microbench::Loop;
use gridmux_workloads::microbench::loops::{
    self, ATOMIC_LINES, ATOMIC_LINKS, L1_READ_THREADS, L1_STRIDE_LOADS, LINKS,
};
use gridmux_workloads::microbench::ops::Op;

/// The class of atomic operations and barriers.
const CLASS: &str = "synchronisation";
/// Turns of the two runs.
const TURNS: (u64, u64) = (4, 12);
/// Instructions of a quick run.
const QUICK: [Op; 2] = [Op::FmaF32, Op::MmaF32K16];

/// An instruction of which NVIDIA's compiler makes one out of several, so that a GPU has no figure of it.
const FOLDED: Op = Op::AndB32;

/// Measures instructions, shared memory, the L1, atomic operations and barriers.
pub(super) fn run(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    for op in lab.scale.choose(&QUICK[..], Op::ALL) {
        if *op == FOLDED {
            lab.skipped(op.name(), "NVIDIA's compiler makes one of several");
            continue;
        }
        chain(lab, bench, *op)?;
        throughput(lab, bench, *op)?;
    }
    shared(lab, bench)?;
    level_1(lab, bench)?;
    synchronisation(lab, bench)
}

/// Returns the cycles of a turn of a loop.
fn cycles(
    bench: &ValidationBench<'_>,
    body: &Loop,
    shape: Shape,
    bytes: u64,
) -> anyhow::Result<f64> {
    let loaded = bench.load(body)?;
    let cycles = bench.cycles_per_turn(&loaded.function, shape, bytes, TURNS)?;
    bench.cuda.unload(loaded.module)?;
    Ok(cycles)
}

/// Returns whether an instruction is one of matrix units.
fn is_matrix(op: Op) -> bool {
    op.name().contains("mma")
}

/// Measures the latency of an instruction.
fn chain(lab: &mut Lab<'_>, bench: &ValidationBench<'_>, op: Op) -> anyhow::Result<()> {
    let class = if is_matrix(op) { "matrix" } else { "latency" };
    let cycles = cycles(bench, &loops::chain(op), Shape::row(1, 32), 0)?;
    let run = MeasuredRun::new(class, "chain").with("op", op.name());
    run.report(lab, cycles / f64::from(LINKS), "cycles");
    Ok(())
}

/// Measures the rate of an instruction.
fn throughput(lab: &mut Lab<'_>, bench: &ValidationBench<'_>, op: Op) -> anyhow::Result<()> {
    let class = if is_matrix(op) {
        "matrix"
    } else {
        "throughput"
    };
    let loaded = bench.load(&loops::throughput(op))?;
    let shape = bench.full(&loaded.function)?;
    let cycles = bench.cycles_per_turn(&loaded.function, shape, 0, TURNS)?;
    bench.cuda.unload(loaded.module)?;
    let warps = f64::from(shape.grid[0] * shape.block[0] / 32);
    let run = MeasuredRun::new(class, "throughput").with("op", op.name());
    let rate = warps * f64::from(LINKS) / cycles / f64::from(bench.sms);
    match is_matrix(op) {
        true => run.report(lab, rate * f64::from(op.flops()), "FLOP/clk/SM"),
        false => run.report(lab, rate * 32.0, "lanes/clk/SM"),
    }
    Ok(())
}

/// Measures latency and rate of shared memory.
fn shared(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    for indexed in [false, true] {
        let cycles = cycles(bench, &loops::shared_chase(indexed), Shape::row(1, 1), 0)?;
        let run = MeasuredRun::new("latency", "shared-chase").with("indexed", indexed);
        run.report(lab, cycles / f64::from(LINKS), "cycles");
    }
    let loaded = bench.load(&loops::shared_read())?;
    let shape = bench.full(&loaded.function)?;
    let cycles = bench.cycles_per_turn(&loaded.function, shape, 0, TURNS)?;
    bench.cuda.unload(loaded.module)?;
    let bytes = f64::from(LINKS * 4) * f64::from(shape.grid[0] * shape.block[0]);
    MeasuredRun::new("throughput", "shared-read").report(
        lab,
        bytes / cycles / f64::from(bench.sms),
        "B/clk/SM",
    );
    Ok(())
}

/// Measures rates of the L1, by footprint and by stride.
fn level_1(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    for footprint_kb in lab.scale.choose(&[16][..], &[16, 64, 128, 192, 220, 256]) {
        let (read, steps) = loops::l1_read(*footprint_kb);
        let cycles = cycles(
            bench,
            &read,
            Shape::row(1, L1_READ_THREADS),
            footprint_kb * 1024,
        )?;
        let bytes = float(steps) * 8.0 * f64::from(L1_READ_THREADS);
        let run = MeasuredRun::new("throughput", "l1-read").with("footprint_kb", *footprint_kb);
        run.report(lab, bytes / cycles, "B/clk/SM");
    }
    for (element, size) in [("f32", 4), ("f64", 8)] {
        for stride in lab
            .scale
            .choose(&[1][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15])
        {
            let bytes = 64 * (u64::from(*stride) + 1) * u64::from(size);
            let cycles = cycles(
                bench,
                &loops::l1_stride(size, *stride),
                Shape::row(1, 1024),
                bytes,
            )?;
            let run = MeasuredRun::new("throughput", "l1-stride")
                .with("element", element)
                .with("stride", *stride);
            run.report(lab, cycles / f64::from(L1_STRIDE_LOADS * 32), "cycles");
        }
    }
    Ok(())
}

/// Measures the latency of an atomic addition: the mean over lines, and one to which every SM adds.
fn atomic_chase(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    let (lines, apart) = ATOMIC_LINES;
    let lines = lab.scale.choose(1, lines);
    let mut all = Vec::new();
    for line in 0..lines {
        let chase = loops::atomic_chase(line * apart);
        let turn = cycles(bench, &chase, Shape::row(1, 1), lines * apart)?;
        all.push(turn / f64::from(ATOMIC_LINKS));
    }
    let mean = all.iter().sum::<f64>() / float(lines);
    MeasuredRun::new(CLASS, "atomic-chase").report(lab, mean, "cycles");
    lab.spread("an atomic addition, by its line", all, "cycles");
    // Workers take their tickets so.
    let shape = Shape::row(bench.sms, 1);
    let turn = cycles(bench, &loops::atomic_chase(0), shape, apart)?;
    let name = "an atomic addition while every SM makes one to the same word";
    lab.figure(name, turn / f64::from(ATOMIC_LINKS), "cycles");
    Ok(())
}

/// Measures atomic operations and barriers.
fn synchronisation(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    atomic_chase(lab, bench)?;
    for space in ["global", "shared"] {
        for lanes in lab.scale.choose(&[32][..], &[1, 2, 4, 8, 16, 32]) {
            if (space, *lanes) == ("shared", 32) {
                let why = "NVIDIA's compiler adds up what a whole warp adds to one word";
                lab.skipped("atomics space=shared lanes=32", why);
                continue;
            }
            let add = loops::atomics(space == "shared", *lanes);
            let cycles = cycles(bench, &add, Shape::row(1, 32), 4096)?;
            let run = MeasuredRun::new(CLASS, "atomics")
                .with("space", space)
                .with("lanes", *lanes);
            run.report(lab, cycles / f64::from(LINKS), "cycles");
        }
    }
    for warps in lab.scale.choose(&[8][..], &[1, 2, 4, 8, 16, 32]) {
        let cycles = cycles(bench, &loops::barrier(), Shape::row(1, 32 * warps), 0)?;
        let run = MeasuredRun::new(CLASS, "barrier").with("warps", *warps);
        run.report(lab, cycles / f64::from(LINKS), "cycles");
    }
    Ok(())
}
