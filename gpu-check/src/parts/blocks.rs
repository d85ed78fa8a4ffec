//! Blocks: the timer that they read, how fast the device starts them, what lies between one block's end and its
//! successor's start, and in which order they start.

use super::Part;
use crate::cuda::{Function, Session, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use crate::stamps::{Stamp, Stamps, float};
use gridmux_workloads::portable;
use std::collections::BTreeMap;

pub(super) const PART: Part = Part {
    name: "blocks",
    about: "steps of the global timer, start rate, turnover and order of blocks",
    usual_s: 1,
    limit_s: 60,
    run,
};

/// The kernels of this part, and a stream.
struct BlockBench<'a> {
    cuda: &'a Session,
    spin: Function,
    ticks: Function,
    stream: u64,
    /// SMs of the device.
    sms: u32,
}

impl BlockBench<'_> {
    /// Launches blocks that each spin for a time, and note what they see in `out`.
    fn spin(&self, shape: Shape, stream: u64, ns: u64, out: u64) -> anyhow::Result<()> {
        Ok(self
            .cuda
            .launch_words(&self.spin, shape, stream, &[out, ns, ns])?)
    }

    /// Returns a shape of which an SM holds one block at a time, where shared memory decides.
    fn lone(&self, blocks: u32, threads: u32) -> anyhow::Result<Shape> {
        let shared_bytes = self.cuda.most_shared()?;
        self.cuda.allow_shared(&self.spin, shared_bytes)?;
        Ok(Shape {
            shared_bytes,
            ..Shape::row(blocks, threads)
        })
    }
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let bench = BlockBench {
        cuda,
        spin: cuda.function(&module, "spin")?,
        ticks: cuda.function(&module, "ticks")?,
        stream: cuda.stream(0)?,
        sms: cuda.sms()?,
    };
    timer(lab, &bench)?;
    rate(lab, &bench)?;
    turnover(lab, &bench)
}

/// Tells the steps of `%globaltimer`.
fn timer(lab: &mut Lab<'_>, bench: &BlockBench<'_>) -> anyhow::Result<()> {
    const VALUES: usize = 1000;
    let out = lab.cuda.zeroed(VALUES as u64 * 8)?;
    let count = lab.scale.choose(2000, 1 << 20);
    lab.cuda.launch_words(
        &bench.ticks,
        Shape::row(1, 1),
        bench.stream,
        &[out, count, VALUES as u64],
    )?;
    lab.cuda.wait(bench.stream)?;
    let values = lab.cuda.words(out, VALUES)?;
    let values: Vec<u64> = values.into_iter().take_while(|value| *value != 0).collect();
    let goes_back = values.windows(2).any(|pair| pair[1] < pair[0]);
    // A timer that stands still has one value.
    lab.check(
        "the global timer goes on and never back",
        values.len() > 1 && !goes_back,
        format!("{} values", values.len()),
    );
    let steps = values
        .windows(2)
        .map(|pair| float(pair[1].saturating_sub(pair[0])));
    lab.spread("step of the global timer", steps.collect(), "ns");
    Ok(())
}

/// Tells how fast blocks start that do next to nothing, over the whole device.
fn rate(lab: &mut Lab<'_>, bench: &BlockBench<'_>) -> anyhow::Result<()> {
    let blocks = lab.scale.choose(2_000, 1_000_000);
    let stamps = Stamps::new(lab.cuda, blocks.into())?;
    let (start, end) = (lab.cuda.event(true)?, lab.cuda.event(true)?);
    for threads in [32, 128, 1024] {
        let mut took = f64::INFINITY;
        for _ in 0..lab.scale.choose(1, 3) {
            lab.cuda.record(start, bench.stream)?;
            bench.spin(Shape::row(blocks, threads), bench.stream, 0, stamps.address)?;
            lab.cuda.record(end, bench.stream)?;
            lab.cuda.wait(bench.stream)?;
            took = took.min(lab.cuda.elapsed_us(start, end)?);
        }
        lab.figure(
            format!("blocks of {threads} threads started"),
            f64::from(blocks) / took,
            "blocks/us",
        );
    }
    Ok(())
}

/// Tells, of one block at a time on each SM, what lies between them, and where and in which order they start.
fn turnover(lab: &mut Lab<'_>, bench: &BlockBench<'_>) -> anyhow::Result<()> {
    const NS: u64 = 5_000;
    let blocks = bench.sms * lab.scale.choose(8, 200);
    let stamps = Stamps::new(lab.cuda, blocks.into())?;
    for threads in lab.scale.choose(&[32][..], &[32, 256, 1024]) {
        bench.spin(
            bench.lone(blocks, *threads)?,
            bench.stream,
            NS,
            stamps.address,
        )?;
        lab.cuda.wait(bench.stream)?;
        let notes = stamps.read()?;
        let mut by_sm: BTreeMap<u64, Vec<Stamp>> = BTreeMap::new();
        for note in &notes {
            by_sm.entry(note.sm).or_default().push(*note);
        }
        if *threads == 32 {
            let (found, due) = (by_sm.len(), bench.sms as usize);
            lab.check(
                "every SM runs blocks",
                found == due,
                format!("{found} of {due}"),
            );
        }
        let mut gaps = Vec::new();
        let mut overlaps = 0;
        for notes in by_sm.values_mut() {
            notes.sort_by_key(|note| note.start);
            for pair in notes.windows(2) {
                match pair[1].start.checked_sub(pair[0].end) {
                    Some(gap) => gaps.push(float(gap)),
                    None => overlaps += 1,
                }
            }
        }
        let name = format!("blocks of {threads} threads, one at a time on an SM");
        lab.check(
            format!("{name}: shared memory keeps others out"),
            overlaps == 0,
            format!("{overlaps} overlaps"),
        );
        lab.spread(
            &format!("{name}: from an end to the next start"),
            gaps,
            "ns",
        );
        let mut latest = 0_u64;
        let mut early = 0_u64;
        for note in &notes {
            early = early.max(latest.saturating_sub(note.start));
            latest = latest.max(note.start);
        }
        // Blocks start in ascending order; how far a later one's clock is ahead says how exactly.
        lab.figure(
            format!("{name}: how far a block starts before an earlier one"),
            float(early),
            "ns",
        );
    }
    Ok(())
}
