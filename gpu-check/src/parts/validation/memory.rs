//! Latency over footprint, and bandwidths of DRAM and L2.

use super::MeasuredRun;
use super::bench::{ValidationBench, float};
use crate::cuda::Shape;
use crate::lab::{Lab, Scale};
use gridmux_workloads::Prng;
use gridmux_workloads::portable;

const CHASE: &str = include_str!("../../../../hw-model/validation/kernels/chase.ptx");
const STREAM: &str = include_str!("../../../../hw-model/validation/kernels/stream.ptx");
const SWEEP: &str = include_str!("../../../../hw-model/validation/kernels/sweep.ptx");

/// Bytes of a cache line.
const LINE: u64 = 128;
/// Hops of a turn.
const HOPS: u64 = 8;
/// Bytes that a block of a sweep reads.
const PART: u64 = 64 * 1024 * 8;

/// Measures latencies by footprint, then bandwidths.
pub(super) fn run(lab: &mut Lab<'_>, bench: &ValidationBench<'_>) -> anyhow::Result<()> {
    let footprints: &[u64] = &[
        16, 48, 96, 128, 176, 224, 512, 1024, 4096, 8192, 16_384, 24_576, 38_912, 49_152, 76_800,
        131_072, 241_664, 524_288,
    ];
    for footprint_kb in lab.scale.choose(&[16, 512][..], footprints) {
        chase(lab, bench, *footprint_kb)?;
    }
    let occupancies: &[(u32, u32)] = &[(32, 1), (64, 2), (128, 2), (256, 2), (512, 2), (1024, 2)];
    for (block, per_sm) in lab.scale.choose(&[(32, 1), (256, 2)][..], occupancies) {
        for (op, arrays) in [("store", 1), ("read", 1), ("scale", 2), ("triad", 4)] {
            stream(lab, bench, (op, arrays), (*block, *per_sm))?;
        }
    }
    let footprints: &[u64] = &[3072, 6144, 18_432, 28_160, 44_032, 61_440, 131_072];
    for footprint_kb in lab.scale.choose(&[1024][..], footprints) {
        sweep(lab, bench, *footprint_kb)?;
    }
    Ok(())
}

/// Returns the bytes of `count` lines at `base` that are a ring through all of them (Sattolo's shuffle).
fn ring(base: u64, count: u64) -> Vec<u8> {
    let mut next: Vec<u64> = (0..count).collect();
    let mut random = Prng::new(count);
    for n in (1..next.len()).rev() {
        let other = usize::try_from(random.next_u64() % n as u64).unwrap_or(0);
        next.swap(n, other);
    }
    let mut lines = vec![0; next.len() * 128];
    for (line, next) in lines.chunks_exact_mut(128).zip(next) {
        line[..8].copy_from_slice(&(base + next * LINE).to_le_bytes());
    }
    lines
}

/// Measures the latency of one lane in a footprint.
fn chase(lab: &mut Lab<'_>, bench: &ValidationBench<'_>, footprint_kb: u64) -> anyhow::Result<()> {
    let module = bench.cuda.load(&portable(CHASE))?;
    let function = bench.cuda.function(&module, "chase")?;
    let bytes = footprint_kb * 1024;
    let lines = bytes / LINE;
    let (data, out) = (bench.cuda.alloc(bytes)?, bench.cuda.alloc(256)?);
    bench.cuda.write(data, &ring(data, lines))?;
    let run = |hops: u64| bench.launch_us(&function, Shape::row(1, 1), &[data, hops / HOPS, out]);
    // Whole laps of a small ring; of a large one as many hops as take some milliseconds.
    let lap = match lab.scale.choose(lines, lines.clamp(16_384, 1 << 20)) {
        hops if hops < lines => hops,
        hops => hops.div_ceil(lines) * lines,
    };
    run(lap)?;
    let (short, long) = (run(lap)?, run(3 * lap)?);
    let cycles = (long - short) / float(2 * lap) * bench.mhz()?;
    let run = MeasuredRun::new("latency", "chase").with("footprint_kb", footprint_kb);
    run.report(lab, cycles, "cycles");
    bench.cuda.free(data)?;
    bench.cuda.free(out)?;
    Ok(bench.cuda.unload(module)?)
}

/// Measures a bandwidth with a given number of blocks on each SM.
fn stream(
    lab: &mut Lab<'_>,
    bench: &ValidationBench<'_>,
    (op, arrays): (&'static str, u64),
    (block, per_sm): (u32, u32),
) -> anyhow::Result<()> {
    let class = match (op, per_sm) {
        (_, 1) => "block-turnover",
        ("store", _) => "occupancy-stores",
        _ => "occupancy-loads",
    };
    let module = bench.cuda.load(&portable(STREAM))?;
    let function = bench.cuda.function(&module, op)?;
    let shared_bytes = bench.spoiler(&function, block, per_sm)?;
    let wave = u64::from(bench.sms * per_sm * block);
    // Some waves of lone warps; else more than any L2 holds.
    let short = match lab.scale {
        Scale::Quick => 4 * wave,
        Scale::Full if per_sm == 1 => 400 * wave,
        Scale::Full => (48_u64 << 20).div_ceil(wave) * wave,
    };
    let long = 3 * short;
    let mut words: Vec<u64> = Vec::new();
    for _ in 0..4 {
        words.push(bench.cuda.alloc(long * 8)?);
    }
    for array in &words {
        bench.cuda.fill(*array, 0, long * 8)?;
    }
    let run = |elements: u64| {
        let shape = Shape {
            shared_bytes,
            ..Shape::row(
                u32::try_from(elements / u64::from(block)).unwrap_or(u32::MAX),
                block,
            )
        };
        let words = [words[0], words[1], words[2], words[3], elements];
        bench.launch_us(&function, shape, &words)
    };
    run(short)?;
    let took = run(long)? - run(short)?;
    // Bytes a microsecond are 10⁶ a second.
    let gigabytes = float((long - short) * arrays * 8) / took / 1e3;
    let run = MeasuredRun::new(class, "stream")
        .with("op", op)
        .with("block", block)
        .with("blocks_per_sm", per_sm);
    run.report(lab, gigabytes, "GB/s");
    for array in words {
        bench.cuda.free(array)?;
    }
    Ok(bench.cuda.unload(module)?)
}

/// Measures the bandwidth of blocks that all read the same footprint.
fn sweep(lab: &mut Lab<'_>, bench: &ValidationBench<'_>, footprint_kb: u64) -> anyhow::Result<()> {
    let module = bench.cuda.load(&portable(SWEEP))?;
    let function = bench.cuda.function(&module, "sweep")?;
    let parts = (footprint_kb * 1024 / PART).max(1);
    let (data, out) = (bench.cuda.zeroed(parts * PART)?, bench.cuda.alloc(256)?);
    let wave = bench.sms * bench.cuda.blocks_per_sm(&function, 1024, 0)?;
    let run =
        |blocks: u32| bench.launch_us(&function, Shape::row(blocks, 1024), &[data, parts, out]);
    let short = wave * lab.scale.choose(1, 20);
    run(short)?;
    let took = run(3 * short)? - run(short)?;
    let gigabytes = float(u64::from(2 * short) * PART) / took / 1e3;
    let run = MeasuredRun::new("throughput", "sweep").with("footprint_kb", parts * PART / 1024);
    run.report(lab, gigabytes, "GB/s");
    bench.cuda.free(data)?;
    bench.cuda.free(out)?;
    Ok(bench.cuda.unload(module)?)
}
