//! Launches: what one takes, how they follow each other, what a writer leaves to the next reader.

use super::MeasuredRun;
use super::bench::{ValidationBench, float};
use crate::cuda::Shape;
use crate::kernels::EMPTY;
use crate::lab::Lab;
use gridmux_workloads::portable;
use std::time::Instant;

const STREAM: &str = include_str!("../../../../hw-model/validation/kernels/stream.ptx");

/// Measures launches alone, launches in a row, and a read behind a writer.
pub(super) fn run(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    empty(lab, bench)?;
    let small: u64 = 4096;
    let all: &[(u64, u32, usize)] = &[
        (small, 256, 1),
        (small, 256, 8),
        (65_536, 256, 1),
        (1 << 20, 256, 1),
        (4_196_976, 32, 1),
        (4_196_976, 64, 1),
        (4_196_976, 128, 1),
        (4_196_976, 1024, 1),
    ];
    for (elements, block, queues) in lab
        .scale
        .choose(&[(small, 256, 1), (small, 256, 8)][..], all)
    {
        launches(lab, bench, *elements, (*block, *queues))?;
    }
    read_after_write(lab, bench)
}

/// Measures one launch of a kernel that does nothing, from the call until its end is seen, on a device that is idle.
fn empty(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    let module = bench.cuda.load(&portable(EMPTY))?;
    let function = bench.cuda.function(&module, "empty")?;
    let mut took = f64::INFINITY;
    for _ in 0..lab.scale.choose(2, 500) {
        let start = Instant::now();
        bench
            .cuda
            .launch_words(&function, Shape::row(1, 1024), bench.stream, &[])?;
        bench.cuda.wait(bench.stream)?;
        took = took.min(start.elapsed().as_secs_f64() * 1e6);
    }
    MeasuredRun::new("launch", "empty-launch").report(lab, took, "us");
    Ok(bench.cuda.unload(module)?)
}

/// Measures launches of `scale`, dealt to queues in turn, by the wall clock.
fn launches(
    lab: &mut Lab<'_>,
    bench: &ValidationBench<'_>,
    elements: u64,
    (block, queues): (u32, usize),
) -> anyhow::Result<()> {
    let cuda = bench.cuda;
    let module = cuda.load(&portable(STREAM))?;
    let function = cuda.function(&module, "scale")?;
    let (a, b) = (cuda.zeroed(elements * 8)?, cuda.zeroed(elements * 8)?);
    let streams: Result<Vec<u64>, _> = (0..queues).map(|_| cuda.stream(0)).collect();
    let streams = streams?;
    // One more than is needed where blocks are full, as the published kernel has it: `size / blockSize.x + 1` in
    // gpu-small-kernels/main.cu of RRZE-HPC/gpu-benches.
    let blocks = u32::try_from(elements / u64::from(block) + 1).unwrap_or(u32::MAX);
    let count = lab.scale.choose(16, 2000);
    let once = |count: usize| -> anyhow::Result<f64> {
        let start = Instant::now();
        for n in 0..count {
            let (to, from) = if n % 2 == 0 { (a, b) } else { (b, a) };
            let words = [to, from, 0, 0, elements];
            cuda.launch_words(
                &function,
                Shape::row(blocks, block),
                streams[n % queues],
                &words,
            )?;
        }
        cuda.wait_for_all()?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    };
    once(count)?;
    let took = (once(2 * count)? - once(count)?) / float(count as u64);
    let class = if elements > 1 << 21 {
        "block-rate"
    } else {
        "launch"
    };
    let run = MeasuredRun::new(class, "launches")
        .with("elements", elements)
        .with("block", block)
        .with("queues", queues);
    match class {
        "launch" => run.report(lab, took, "us"),
        _ => run.report(lab, float(elements) * 16.0 / took / 1e3, "GB/s"),
    }
    cuda.free(a)?;
    cuda.free(b)?;
    Ok(cuda.unload(module)?)
}

/// Measures a read right behind a writer of other memory, over the same read alone.
fn read_after_write(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    let (write_mb, read_mb) = lab.scale.choose((1, 1), (256, 128));
    let cuda = bench.cuda;
    let module = cuda.load(&portable(STREAM))?;
    let (store, read) = (
        cuda.function(&module, "store")?,
        cuda.function(&module, "read")?,
    );
    let bytes = |mb: u64| mb * 1_000_000;
    let (to, from) = (cuda.zeroed(bytes(write_mb))?, cuda.zeroed(bytes(read_mb))?);
    let shape = |mb: u64| Shape::row(u32::try_from(bytes(mb) / 8 / 256).unwrap_or(u32::MAX), 256);
    let words = |mb: u64| [to, from, 0, 0, bytes(mb) / 8];
    // Before each timed run the reader's memory leaves the caches.
    let took = |write: bool| -> anyhow::Result<f64> {
        let [start, end] = [cuda.event(true)?, cuda.event(true)?];
        let mut fastest = f64::INFINITY;
        for _ in 0..lab.scale.choose(1, 5) {
            cuda.launch_words(&store, shape(write_mb), bench.stream, &words(write_mb))?;
            if !write {
                cuda.wait(bench.stream)?;
            }
            cuda.record(start, bench.stream)?;
            cuda.launch_words(&read, shape(read_mb), bench.stream, &words(read_mb))?;
            cuda.record(end, bench.stream)?;
            cuda.wait(bench.stream)?;
            fastest = fastest.min(cuda.elapsed_us(start, end)?);
        }
        Ok(fastest)
    };
    let ratio = took(true)? / took(false)?;
    let run = MeasuredRun::new("launch", "read-after-write")
        .with("write_mb", write_mb)
        .with("read_mb", read_mb);
    run.report(lab, ratio, "ratio");
    cuda.free(to)?;
    cuda.free(from)?;
    Ok(cuda.unload(module)?)
}
