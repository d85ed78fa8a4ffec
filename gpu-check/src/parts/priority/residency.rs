//! Which share of the SMs slices at a high level keep over a filler: a capped launch that may have half of the device,
//! in slices on several lanes of which each runs a part of the cap at a time, with a filler at the lowest level below.
//! A lane with one slice outstanding stands empty from its end until the host has launched the next one; a lane with
//! two does not, but holds a slice longer when the cap falls.

use super::LevelBench;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamp, Stamps, first_start, resident};
use serde_json::json;
use std::collections::VecDeque;

/// Windows of the table over time.
const WINDOWS: usize = 12;

/// How a capped launch is dealt.
#[derive(Debug, Clone, Copy)]
struct Dealing {
    /// Lanes, each of which runs an equal part of the cap at a time.
    lanes: u32,
    /// Slices that are outstanding on a lane, one behind the other.
    outstanding: u32,
}

const DEALINGS: [Dealing; 4] = [
    Dealing {
        lanes: 4,
        outstanding: 1,
    },
    Dealing {
        lanes: 1,
        outstanding: 1,
    },
    Dealing {
        lanes: 4,
        outstanding: 2,
    },
    Dealing {
        lanes: 8,
        outstanding: 1,
    },
];

/// Asks it for blocks of several lengths and several dealings, at the highest level and, to compare, at the lowest.
pub(super) fn run(lab: &mut Lab<'_>, bench: &LevelBench<'_>) -> anyhow::Result<()> {
    let top = bench.levels.len() - 1;
    for us in lab.scale.choose(&[5][..], &[20, 100, 500]) {
        for dealing in lab.scale.choose(&DEALINGS[..1], &DEALINGS[..]) {
            share(lab, bench, (*us, *dealing), top)?;
        }
        if top > 0 {
            share(lab, bench, (*us, DEALINGS[0]), 0)?;
        }
    }
    Ok(())
}

/// Tells the shares of one dealing.
fn share(
    lab: &mut Lab<'_>,
    bench: &LevelBench<'_>,
    (us, dealing): (u64, Dealing),
    level: usize,
) -> anyhow::Result<()> {
    let Dealing { lanes, outstanding } = dealing;
    let slots = bench.slots();
    let slice = (slots / 2 / lanes).max(1);
    let cap = slice * lanes;
    // For 20 ms, and 24 turns at least.
    let turns = lab.scale.choose(4, u32::try_from(20_000 / us)?.max(24));
    // It has half of the device and so lasts twice as long as the slices do.
    let filler = bench.blocks(slots * turns, us);
    let low = Stamps::new(bench.cuda, filler.count.into())?;
    let high = Stamps::new(bench.cuda, u64::from(slice * lanes * turns))?;
    bench.stamper.launch(filler, bench.lowest(), low.address)?;
    deal(
        bench,
        (bench.blocks(slice, us), &high),
        dealing,
        (level, turns),
    )?;
    bench.cuda.wait_for_all()?;
    let (row, filler) = (high.read()?, low.read()?);
    let Some(span) = common_span(&row, &filler) else {
        lab.skipped(
            format!("slices of blocks of {us} us, level {level}"),
            "the filler had ended before they began",
        );
        return Ok(());
    };
    let name = format!(
        "{outstanding} slices of {slice} blocks of {us} us on each of {lanes} lanes, level {level}"
    );
    let mean = |stamps: &[Stamp]| resident(stamps, span, 1)[0];
    let (capped, rest) = (mean(&row), mean(&filler));
    lab.figure(
        format!("{name}: blocks that they keep on SMs"),
        capped / f64::from(cap),
        "of their cap",
    );
    lab.figure(
        format!("{name}: blocks of both"),
        (capped + rest) / f64::from(slots),
        "of the device's",
    );
    // A share in each window, in percent of the device.
    let table = |stamps: &[Stamp]| -> Vec<f64> {
        let percent = |blocks: f64| (blocks / f64::from(slots) * 1000.0).round() / 10.0;
        let shares = resident(stamps, span, WINDOWS);
        shares.into_iter().map(percent).collect()
    };
    lab.fact(
        format!("{name}: percent of the device's blocks over time"),
        json!({"slices": table(&row), "filler": table(&filler)}),
    );
    Ok(())
}

/// Launches slices on lanes of a level, `turns` on each, and a further one whenever one has ended.
fn deal(
    bench: &LevelBench<'_>,
    (slice, stamps): (Blocks, &Stamps<'_>),
    dealing: Dealing,
    (level, turns): (usize, u32),
) -> anyhow::Result<()> {
    struct SliceLane {
        stream: u64,
        /// An event behind each slice that is outstanding, the oldest first.
        outstanding: VecDeque<u64>,
        launched: u32,
    }
    let cuda = bench.cuda;
    let mut lanes = Vec::new();
    let mut events = Vec::new();
    for _ in 0..dealing.lanes {
        lanes.push(SliceLane {
            stream: bench.another(level)?,
            outstanding: VecDeque::new(),
            launched: 0,
        });
        for _ in 0..dealing.outstanding {
            events.push(cuda.event(false)?);
        }
    }
    let mut place = 0;
    while lanes
        .iter()
        .any(|lane| lane.launched < turns || !lane.outstanding.is_empty())
    {
        for lane in &mut lanes {
            while let Some(event) = lane.outstanding.front().copied() {
                if !cuda.has_happened(event)? {
                    break;
                }
                lane.outstanding.pop_front();
                events.push(event);
            }
            while lane.launched < turns && lane.outstanding.len() < dealing.outstanding as usize {
                let Some(event) = events.pop() else { break };
                bench.stamper.launch(slice, lane.stream, stamps.at(place))?;
                cuda.record(event, lane.stream)?;
                lane.outstanding.push_back(event);
                lane.launched += 1;
                place += u64::from(slice.count);
            }
        }
    }
    for lane in lanes {
        cuda.end_stream(lane.stream)?;
    }
    events
        .into_iter()
        .try_for_each(|event| Ok(cuda.end_event(event)?))
}

/// Returns from when to when both had blocks to run: from the first start of the later one to the last start of the one
/// that ran out first. A tenth at the beginning is left out, in which the slices take their place.
fn common_span(row: &[Stamp], filler: &[Stamp]) -> Option<(u64, u64)> {
    let last = |stamps: &[Stamp]| stamps.iter().map(|stamp| stamp.start).max();
    let begin = first_start(row)?.max(first_start(filler)?);
    let end = last(row)?.min(last(filler)?);
    let span = end.checked_sub(begin).filter(|span| *span > 0)?;
    Some((begin + span / 10, end))
}
