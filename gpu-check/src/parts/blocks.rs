//! Blocks: the timer that they read, how fast the device starts them, what lies between one block's end and its
//! successor's start, in which order they start, and when a second kernel's blocks come.

use super::Part;
use crate::cuda::{Function, Session, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_workloads::portable;
use std::collections::BTreeMap;

pub(super) const PART: Part = Part {
    name: "blocks",
    about: "steps of the global timer, start rate, turnover and order of blocks, the start of a second kernel",
    limit_s: 60,
    run,
};

/// What a block of `spin` notes.
#[derive(Debug, Clone, Copy)]
struct Note {
    start: u64,
    end: u64,
    sm: u64,
}

/// The kernels of this part, and a stream.
struct Room<'a> {
    cuda: &'a Session,
    spin: Function,
    ticks: Function,
    stream: u64,
    /// SMs of the device.
    sms: u32,
}

impl Room<'_> {
    /// Launches blocks that each spin for a time, and note what they see in `out`.
    fn spin(&self, shape: Shape, stream: u64, ns: u64, out: u64) -> anyhow::Result<()> {
        Ok(self
            .cuda
            .launch_words(&self.spin, shape, stream, &[out, ns, ns])?)
    }

    /// Returns what blocks have noted.
    fn notes(&self, out: u64, blocks: u32) -> anyhow::Result<Vec<Note>> {
        let words = self.cuda.words(out, 3 * blocks as usize)?;
        let note = |words: &[u64]| Note {
            start: words[0],
            end: words[1],
            sm: words[2],
        };
        Ok(words.chunks_exact(3).map(note).collect())
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
    let room = Room {
        cuda,
        spin: cuda.function(&module, "spin")?,
        ticks: cuda.function(&module, "ticks")?,
        stream: cuda.stream(0)?,
        sms: cuda.sms()?,
    };
    timer(lab, &room)?;
    rate(lab, &room)?;
    turnover(lab, &room)?;
    second_kernel(lab, &room)
}

/// Returns a time as a figure.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds of a short run")]
fn float(ns: u64) -> f64 {
    ns as f64
}

/// Tells the steps of `%globaltimer`.
fn timer(lab: &mut Lab<'_>, room: &Room<'_>) -> anyhow::Result<()> {
    const VALUES: usize = 1000;
    let out = lab.cuda.zeroed(VALUES as u64 * 8)?;
    let count = lab.scale.choose(2000, 1 << 20);
    lab.cuda.launch_words(
        &room.ticks,
        Shape::row(1, 1),
        room.stream,
        &[out, count, VALUES as u64],
    )?;
    lab.cuda.wait(room.stream)?;
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
fn rate(lab: &mut Lab<'_>, room: &Room<'_>) -> anyhow::Result<()> {
    let blocks = lab.scale.choose(2_000, 1_000_000);
    let out = lab.cuda.zeroed(u64::from(blocks) * 24)?;
    let (start, end) = (lab.cuda.event(true)?, lab.cuda.event(true)?);
    for threads in [32, 128, 1024] {
        let mut took = f64::INFINITY;
        for _ in 0..lab.scale.choose(1, 3) {
            lab.cuda.record(start, room.stream)?;
            room.spin(Shape::row(blocks, threads), room.stream, 0, out)?;
            lab.cuda.record(end, room.stream)?;
            lab.cuda.wait(room.stream)?;
            took = took.min(lab.cuda.elapsed_us(start, end)?);
        }
        lab.figure(
            format!("blocks of {threads} threads started"),
            f64::from(blocks) / took,
            "blocks/us",
        );
    }
    lab.cuda.free(out)?;
    Ok(())
}

/// Tells, of one block at a time on each SM, what lies between them, and where and in which order they start.
fn turnover(lab: &mut Lab<'_>, room: &Room<'_>) -> anyhow::Result<()> {
    const NS: u64 = 5_000;
    let blocks = room.sms * lab.scale.choose(8, 200);
    let out = lab.cuda.zeroed(u64::from(blocks) * 24)?;
    for threads in lab.scale.choose(&[32][..], &[32, 256, 1024]) {
        room.spin(room.lone(blocks, *threads)?, room.stream, NS, out)?;
        lab.cuda.wait(room.stream)?;
        let notes = room.notes(out, blocks)?;
        let mut by_sm: BTreeMap<u64, Vec<Note>> = BTreeMap::new();
        for note in &notes {
            by_sm.entry(note.sm).or_default().push(*note);
        }
        if *threads == 32 {
            let (found, due) = (by_sm.len(), room.sms as usize);
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
    lab.cuda.free(out)?;
    Ok(())
}

/// Tells when the blocks of a kernel come whose predecessor, on another stream, fills the device.
fn second_kernel(lab: &mut Lab<'_>, room: &Room<'_>) -> anyhow::Result<()> {
    const NS: u64 = 20_000;
    let first = room.sms * lab.scale.choose(4, 20);
    let second = room.sms;
    let (a, b) = (
        lab.cuda.zeroed(u64::from(first) * 24)?,
        lab.cuda.zeroed(u64::from(second) * 24)?,
    );
    let other = lab.cuda.stream(0)?;
    let urgent = lab.cuda.stream(lab.cuda.highest_priority()?)?;
    for (name, stream) in [
        ("of the same priority", other),
        ("of the highest priority", urgent),
    ] {
        room.spin(room.lone(first, 128)?, room.stream, NS, a)?;
        room.spin(room.lone(second, 128)?, stream, NS, b)?;
        lab.cuda.wait_for_all()?;
        let (one, two) = (room.notes(a, first)?, room.notes(b, second)?);
        let begin = one.iter().map(|note| note.start).min().unwrap_or(0);
        let last = one.iter().map(|note| note.start).max().unwrap_or(0);
        let came = two.iter().map(|note| note.start).min().unwrap_or(0);
        // 0: with the first kernel's first block, 1: with its last.
        let place = (float(came) - float(begin)) / float(last - begin).max(1.0);
        lab.figure(
            format!("a second kernel {name}: its first start in the first one's starts"),
            place,
            "ratio",
        );
    }
    Ok(())
}
