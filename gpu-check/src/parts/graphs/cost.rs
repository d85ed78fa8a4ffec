//! What a slice costs as a node of a graph and as a plain launch.

use super::{GraphBench, Made, WALL};
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamps};
use std::time::Instant;

/// Slices of a graph.
const SLICES: u32 = 64;

/// Wall times of several runs, in microseconds of one slice.
#[derive(Default)]
struct Times {
    called: Vec<f64>,
    ended: Vec<f64>,
}

impl Times {
    /// Times calls that launch `slices` slices on a stream.
    fn add(
        &mut self,
        bench: &GraphBench<'_>,
        (stream, slices): (u64, u32),
        calls: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        calls()?;
        let called = start.elapsed().as_secs_f64() * 1e6;
        bench.cuda.wait(stream)?;
        let ended = start.elapsed().as_secs_f64() * 1e6;
        self.called.push(called / f64::from(slices));
        self.ended.push(ended / f64::from(slices));
        Ok(())
    }

    fn tell(self, lab: &mut Lab<'_>, name: &str) {
        lab.median(&format!("{name}: its part of the call"), self.called, WALL);
        lab.median(&format!("{name}: to the end"), self.ended, WALL);
    }
}

/// Returns the slices that are asked about: an empty one, and one that fills the device.
fn slices(bench: &GraphBench<'_>) -> anyhow::Result<[(&'static str, Blocks); 2]> {
    let block = Blocks::scattered(1, 256, 5);
    let slots = bench.sms * bench.stamper.per_sm(block)?;
    let empty = Blocks::scattered(1, 32, 0);
    Ok([
        ("an empty slice", empty),
        ("a slice of a wave of 5 us", block.times(slots)),
    ])
}

/// Tells what a slice costs: as a plain launch, as a node of a graph, as one whose parameters change each time.
pub(super) fn run(lab: &mut Lab<'_>, bench: &GraphBench<'_>) -> anyhow::Result<()> {
    let highest = bench.cuda.highest_priority()?;
    let streams = [
        (0, bench.cuda.stream(0)?),
        (highest, bench.cuda.stream(highest)?),
    ];
    for (name, slice) in slices(bench)? {
        // Two places for each slice, so that changed parameters differ from those before.
        let stamps = Stamps::new(bench.cuda, u64::from(slice.count * SLICES * 2))?;
        let start = Instant::now();
        let (graph, nodes) = bench.graph(slice, (1, SLICES), &stamps)?;
        let built = start.elapsed().as_secs_f64() * 1e6;
        let executable = graph.instantiate(0)?;
        let instantiated = start.elapsed().as_secs_f64() * 1e6 - built;
        for (what, took) in [("adding it", built), ("instantiation", instantiated)] {
            let name = format!("{name} of a graph of {SLICES}: {what}");
            lab.figure(name, took / f64::from(SLICES), WALL);
        }
        executable.upload(streams[0].1)?;
        let made = Made {
            executable,
            nodes,
            _graph: graph,
        };
        for (priority, stream) in streams {
            let name = format!("{name}, priority {priority},");
            compare(lab, bench, (&name, slice, stream), (&made, &stamps))?;
        }
    }
    let mut streams = streams.into_iter();
    streams.try_for_each(|(_, stream)| Ok(bench.cuda.end_stream(stream)?))
}

/// Compares the ways to launch the slices, in turn.
fn compare(
    lab: &mut Lab<'_>,
    bench: &GraphBench<'_>,
    (name, slice, stream): (&str, Blocks, u64),
    (made, stamps): (&Made<'_>, &Stamps<'_>),
) -> anyhow::Result<()> {
    let place = |turn: u32, n: u32| stamps.at(u64::from((turn % 2 * SLICES + n) * slice.count));
    let [mut plain, mut same, mut changed] = [(); 3].map(|()| Times::default());
    let mut changing = Vec::new();
    for turn in 0..lab.scale.choose(2, 40) {
        plain.add(bench, (stream, SLICES), || {
            (0..SLICES).try_for_each(|n| Ok(bench.stamper.launch(slice, stream, place(turn, n))?))
        })?;
        same.add(bench, (stream, SLICES), || {
            Ok(made.executable.launch(stream)?)
        })?;
        let start = Instant::now();
        changed.add(bench, (stream, SLICES), || {
            for (n, node) in (0..SLICES).zip(&made.nodes) {
                let slice = bench.stamper.node(slice, place(turn, n));
                made.executable.change(*node, &slice)?;
            }
            changing.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(SLICES));
            Ok(made.executable.launch(stream)?)
        })?;
    }
    plain.tell(lab, &format!("{name} as a plain launch"));
    same.tell(lab, &format!("{name} as a node, unchanged"));
    changed.tell(lab, &format!("{name} as a node, each changed"));
    let name = format!("{name} as a node, each changed: the change");
    lab.median(&name, changing, WALL);
    Ok(())
}

/// Tells what slices cost that two executables launch in turn on a stream, each changed when its own last launch has
/// ended and while the other one runs.
pub(super) fn in_turn(lab: &mut Lab<'_>, bench: &GraphBench<'_>) -> anyhow::Result<()> {
    const EACH: u32 = 8;
    const TURNS: u32 = 16;
    let stream = bench.cuda.stream(0)?;
    for (name, slice) in slices(bench)? {
        let stamps = Stamps::new(bench.cuda, u64::from(slice.count * EACH * TURNS))?;
        let pair = [
            bench.make(slice, (1, EACH), &stamps)?,
            bench.make(slice, (1, EACH), &stamps)?,
        ];
        // Behind the last launch of each.
        let ends = [bench.cuda.event(false)?, bench.cuda.event(false)?];
        let all = (stream, EACH * TURNS);
        let place = |n: u32| stamps.at(u64::from(n * slice.count));
        let (mut plain, mut turns) = (Times::default(), Times::default());
        for _ in 0..lab.scale.choose(2, 15) {
            plain.add(bench, all, || {
                let mut slices = 0..EACH * TURNS;
                slices.try_for_each(|n| Ok(bench.stamper.launch(slice, stream, place(n))?))
            })?;
            turns.add(bench, all, || {
                for turn in 0..TURNS {
                    let (made, end) = (&pair[turn as usize % 2], ends[turn as usize % 2]);
                    if turn >= 2 {
                        while !bench.cuda.has_happened(end)? {
                            std::hint::spin_loop();
                        }
                    }
                    for (n, node) in (turn * EACH..).zip(&made.nodes) {
                        let slice = bench.stamper.node(slice, place(n));
                        made.executable.change(*node, &slice)?;
                    }
                    made.executable.launch(stream)?;
                    bench.cuda.record(end, stream)?;
                }
                Ok(())
            })?;
        }
        plain.tell(lab, &format!("{name}, {} plain launches", all.1));
        turns.tell(
            lab,
            &format!("{name}, two executables of {EACH} in turn, each changed"),
        );
        ends.into_iter()
            .try_for_each(|end| bench.cuda.end_event(end))?;
    }
    Ok(bench.cuda.end_stream(stream)?)
}
