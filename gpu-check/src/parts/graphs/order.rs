//! At which priority nodes run, and what of graphs runs at the same time.

use super::{GraphBench, Made};
use crate::cuda::USE_NODE_PRIORITY;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamp, Stamps, apart, first_start, place_in_starts};
use std::time::Instant;

/// Whose priority a node is to have.
enum Priority {
    /// That of the stream of this priority, on which the graph is launched.
    Stream(i32),
    /// Its own; the stream has the other one.
    Node(i32, i32),
}

/// Tells when a graph's first block starts beside a filler of the lowest level, by the priorities of stream and node.
pub(super) fn priorities(lab: &mut Lab<'_>, bench: &GraphBench<'_>) -> anyhow::Result<()> {
    let highest = bench.cuda.highest_priority()?;
    for priority in (highest..=0).rev() {
        place_in_filler(
            lab,
            bench,
            &format!("a stream of priority {priority}"),
            &Priority::Stream(priority),
        )?;
    }
    for (node, stream) in [(highest, 0), (0, highest)] {
        place_in_filler(
            lab,
            bench,
            &format!("nodes of priority {node}, a stream of priority {stream}"),
            &Priority::Node(node, stream),
        )?;
    }
    Ok(())
}

/// Tells when a graph's first and last block start beside a filler, with one choice of priorities.
fn place_in_filler(
    lab: &mut Lab<'_>,
    bench: &GraphBench<'_>,
    name: &str,
    priority: &Priority,
) -> anyhow::Result<()> {
    const SLICES: u32 = 4;
    let block = Blocks::scattered(1, 256, 20);
    let slots = bench.sms * bench.stamper.per_sm(block)?;
    let filler = block.times(slots * lab.scale.choose(4, 50));
    let (old, new) = (
        Stamps::new(bench.cuda, filler.count.into())?,
        Stamps::new(bench.cuda, u64::from(slots * SLICES))?,
    );
    let (graph, nodes) = bench.graph(block.times(slots), (1, SLICES), &new)?;
    let (stream, flags) = match *priority {
        Priority::Stream(stream) => (stream, 0),
        Priority::Node(priority, stream) => {
            nodes
                .iter()
                .try_for_each(|node| graph.prioritise(*node, priority))?;
            (stream, USE_NODE_PRIORITY)
        }
    };
    let executable = graph.instantiate(flags)?;
    let (low, stream) = (bench.cuda.stream(0)?, bench.cuda.stream(stream)?);
    executable.upload(stream)?;
    bench.cuda.wait(stream)?;
    let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
    for _ in 0..lab.scale.choose(1, 7) {
        bench.stamper.launch(filler, low, old.address)?;
        filler.pause_until_some_end();
        executable.launch(stream)?;
        bench.cuda.wait_for_all()?;
        let (filler, slices) = (old.read()?, new.read()?);
        let place = |start: Option<u64>| place_in_starts(&filler, start?);
        firsts.extend(place(first_start(&slices)));
        lasts.extend(place(slices.iter().map(|stamp| stamp.start).max()));
    }
    for (what, places) in [("the first start", firsts), ("the last start", lasts)] {
        let name = format!("a graph, {name}: {what}");
        lab.median(&name, places, "of the filler's starts");
    }
    bench.cuda.end_stream(low)?;
    Ok(bench.cuda.end_stream(stream)?)
}

/// Returns the median of the time that launches take from the first start to the last end, in microseconds.
fn span_us(
    lab: &Lab<'_>,
    bench: &GraphBench<'_>,
    stamps: &Stamps<'_>,
    mut launch: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut spans = Vec::new();
    for _ in 0..lab.scale.choose(1, 7) {
        launch()?;
        bench.cuda.wait_for_all()?;
        spans.extend(span(&stamps.read()?));
    }
    spans.sort_by(f64::total_cmp);
    Ok(spans.get(spans.len() / 2).copied().unwrap_or(f64::NAN) / 1e3)
}

/// Returns the time from the first start to the last end in nanoseconds.
fn span(stamps: &[Stamp]) -> Option<f64> {
    let end = stamps.iter().map(|stamp| stamp.end).max()?;
    Some(apart(end, first_start(stamps)?))
}

/// Tells how long slices of one block of 100 us take in one branch and in several.
pub(super) fn branches(lab: &mut Lab<'_>, bench: &GraphBench<'_>) -> anyhow::Result<()> {
    const SLICES: u32 = 16;
    let block = long_block();
    let stream = bench.cuda.stream(0)?;
    let stamps = Stamps::new(bench.cuda, SLICES.into())?;
    for branches in [1, 2, 4, 16] {
        let made = bench.make(block, (branches, SLICES / branches), &stamps)?;
        let took = span_us(lab, bench, &stamps, || {
            Ok(made.executable.launch(stream)?)
        })?;
        let name = format!("{SLICES} slices of a block of 100 us, branches: {branches}");
        lab.figure(name, took, "us");
    }
    Ok(bench.cuda.end_stream(stream)?)
}

/// Tells whether an executable that is launched on two streams runs twice at once, and whether two executables do.
pub(super) fn at_once(lab: &mut Lab<'_>, bench: &GraphBench<'_>) -> anyhow::Result<()> {
    const SLICES: u32 = 4;
    let block = long_block();
    let streams = [bench.cuda.stream(0)?, bench.cuda.stream(0)?];
    let mine = Stamps::new(bench.cuda, SLICES.into())?;
    let others = Stamps::new(bench.cuda, SLICES.into())?;
    let first = bench.make(block, (1, SLICES), &mine)?;
    let second = bench.make(block, (1, SLICES), &others)?;
    let wall = |other: Option<&Made<'_>>| -> anyhow::Result<f64> {
        let start = Instant::now();
        first.executable.launch(streams[0])?;
        if let Some(other) = other {
            other.executable.launch(streams[1])?;
        }
        bench.cuda.wait_for_all()?;
        Ok(start.elapsed().as_secs_f64())
    };
    // The first launch carries an executable to the device.
    wall(Some(&second))?;
    let (mut both, mut twice) = (Vec::new(), Vec::new());
    for _ in 0..lab.scale.choose(1, 9) {
        let one = wall(None)?;
        both.push(wall(Some(&second))? / one);
        twice.push(wall(Some(&first))? / one);
    }
    lab.median(
        "two executables on two streams",
        both,
        "of one's time (wall)",
    );
    lab.median(
        "one executable on two streams",
        twice,
        "of one's time (wall)",
    );
    streams
        .into_iter()
        .try_for_each(|stream| Ok(bench.cuda.end_stream(stream)?))
}

/// Returns a block that takes 100 us.
const fn long_block() -> Blocks {
    Blocks {
        count: 1,
        threads: 32,
        shared_bytes: 0,
        ns: 100_000,
        spread_ns: 0,
    }
}
