//! Launches: what one costs, how many a thread gets out, how many kernels run at once.

use super::Part;
use crate::cuda::{Session, Shape};
use crate::kernels::{EMPTY, PROBE, portable};
use crate::lab::Lab;
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "launches",
    about: "cost and rate of launches from one thread, kernels at once",
    limit_s: 40,
    run,
};

/// Unit of times by the host's clock.
const WALL: &str = "us (wall)";

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let module = lab.cuda.load(&portable(EMPTY))?;
    let empty = lab.cuda.function(module, "empty")?;
    latency(lab, empty)?;
    for streams in [1, 8, 32] {
        rate(lab, empty, streams)?;
    }
    at_once(lab)
}

fn streams(cuda: &Session, count: u32) -> anyhow::Result<Vec<u64>> {
    (0..count).map(|_| Ok(cuda.stream(0)?)).collect()
}

/// From the call to the end of a kernel that does nothing, on a device that is idle.
fn latency(lab: &mut Lab<'_>, empty: u64) -> anyhow::Result<()> {
    let stream = lab.cuda.stream(0)?;
    let mut called = Vec::new();
    let mut ended = Vec::new();
    for _ in 0..lab.scale.choose(5, 500) {
        let start = Instant::now();
        lab.cuda
            .launch_words(empty, Shape::row(1, 32), stream, &[])?;
        called.push(start.elapsed().as_secs_f64() * 1e6);
        lab.cuda.wait(stream)?;
        ended.push(start.elapsed().as_secs_f64() * 1e6);
    }
    lab.spread("a launch: the call", called, WALL);
    lab.spread("a launch: until it is seen to have ended", ended, WALL);
    Ok(())
}

/// Launches as fast as one thread can make them, dealt to streams.
fn rate(lab: &mut Lab<'_>, empty: u64, count: u32) -> anyhow::Result<()> {
    let streams = streams(lab.cuda, count)?;
    let launches = lab.scale.choose(64, 4096);
    let start = Instant::now();
    for n in 0..launches {
        lab.cuda
            .launch_words(empty, Shape::row(1, 32), streams[n % streams.len()], &[])?;
    }
    let called = start.elapsed().as_secs_f64() * 1e6;
    lab.cuda.wait_for_all()?;
    let ended = start.elapsed().as_secs_f64() * 1e6;
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let each = launches as f64;
    lab.figure(
        format!("launches on {count} streams: the call"),
        called / each,
        WALL,
    );
    lab.figure(
        format!("launches on {count} streams: to the end"),
        ended / each,
        WALL,
    );
    Ok(())
}

/// Kernels of one block on as many streams as nobody has queues for: how many overlap.
fn at_once(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    const STREAMS: u32 = 160;
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let spin = cuda.function(module, "spin")?;
    let count = lab.scale.choose(8, STREAMS);
    // Longer than all of these launches take.
    let ns = lab.scale.choose(20_000, 20_000_000);
    let out = cuda.zeroed(u64::from(count) * 24)?;
    let streams = streams(cuda, count)?;
    for (n, stream) in (0..).zip(&streams) {
        cuda.launch_words(spin, Shape::row(1, 32), *stream, &[out + 24 * n, ns, ns])?;
    }
    cuda.wait_for_all()?;
    let words = cuda.words(out, 3 * count as usize)?;
    let mut changes: Vec<(u64, i32)> = words
        .chunks_exact(3)
        .flat_map(|note| [(note[0], 1), (note[1], -1)])
        .collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    lab.figure(
        format!("kernels at once, of {count} on as many streams"),
        f64::from(most),
        "kernels",
    );
    Ok(())
}
