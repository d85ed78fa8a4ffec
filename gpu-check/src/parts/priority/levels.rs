//! Which levels the device distinguishes, and when a launch of each gets its first block beside a running kernel.

use super::LevelBench;
use super::arrival::{Clock, Newcomer};
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamper, place_in_starts};

/// Unit of times that are differences of the device's timer.
const TIMER: &str = "us";
/// Unit of places among a kernel's starts.
const PLACE: &str = "of the filler's starts";

/// Reports how many levels make a difference: launches of each level beside a filler of the one below.
pub(super) fn distinguished(lab: &mut Lab<'_>, bench: &LevelBench<'_>) -> anyhow::Result<()> {
    let filler = filler_of(lab, bench, 20);
    let tries = lab.scale.choose(3, 5);
    let place = |low: usize, high: usize| -> anyhow::Result<f64> {
        let stream = bench.another(high)?;
        let newcomer = Newcomer {
            stamper: &bench.stamper,
            blocks: filler.times(bench.sms),
            stream,
        };
        let clock = Clock::new(bench, stream)?;
        let mut places = Vec::new();
        for _ in 0..tries {
            let arrived = clock.beside(bench, (filler, bench.levels[low]), &newcomer)?;
            let Some(arrived) = arrived else { continue };
            places.extend(place_in_starts(&arrived.filler, arrived.first));
        }
        bench.cuda.end_stream(stream)?;
        places.sort_by(f64::total_cmp);
        Ok(places.get(places.len() / 2).copied().unwrap_or(f64::NAN))
    };
    let same = place(0, 0)?;
    let mut levels = 1;
    // A quick run looks at the greatest distance alone.
    let top = bench.levels.len() - 1;
    let pairs: Vec<_> = match lab.scale.choose(true, false) {
        true => (top > 0).then_some((0, top)).into_iter().collect(),
        false => (0..top).map(|low| (low, low + 1)).collect(),
    };
    let name = |low, high| format!("level {high} beside a filler of level {low}: the first start");
    lab.figure(name(0, 0), same, PLACE);
    for (low, high) in pairs {
        let place = place(low, high)?;
        // A launch of the same level comes behind the filler's last block.
        levels += u32::from(place < same / 2.0);
        lab.figure(name(low, high), place, PLACE);
    }
    lab.fact("levels that are told apart", levels);
    if levels == 1 {
        lab.skipped(
            "launches of a higher level",
            "there is one level: priorities of streams make no difference here",
        );
    }
    Ok(())
}

/// Tells when first blocks come, of launches of every level and of several shapes, by the time that the filler's blocks
/// take and by their shape.
pub(super) fn first_blocks(lab: &mut Lab<'_>, bench: &LevelBench<'_>) -> anyhow::Result<()> {
    let top = bench.levels.len() - 1;
    for us in lab.scale.choose(&[5][..], &[5, 20, 100, 1000]) {
        let filler = filler_of(lab, bench, *us);
        let name = format!("blocks of {us} us");
        // The other shapes are of the lowest and of the highest level.
        for level in lab.scale.choose(top..top, 1..top) {
            let new = (&bench.stamper, filler.times(bench.sms));
            first_block(lab, bench, (&name, filler), ("the same shape", level, new))?;
        }
        shapes(lab, bench, (&name, filler))?;
    }
    // Fillers that leave no place for a block, no threads, and no shared memory.
    let most = bench.cuda.most_shared()?;
    let others: &[(&str, u32, u32)] = &[
        ("of 32 threads", 32, 0),
        ("of 1024 threads", 1024, 0),
        ("with all shared memory", 128, most),
    ];
    for (shape, threads, shared_bytes) in lab.scale.choose(&[][..], others) {
        for us in [20, 100] {
            let filler = Blocks::scattered(1, *threads, us).with_shared(*shared_bytes);
            let slots = bench.sms * bench.stamper.per_sm(filler)?;
            let filler = filler.times(slots * waves(us));
            let name = format!("blocks of {us} us {shape}");
            shapes(lab, bench, (&name, filler))?;
        }
    }
    Ok(())
}

/// Tells when first blocks of several shapes come, at the lowest and the highest level.
fn shapes(
    lab: &mut Lab<'_>,
    bench: &LevelBench<'_>,
    (name, filler): (&str, Blocks),
) -> anyhow::Result<()> {
    let new = |threads| Blocks {
        count: bench.sms,
        threads,
        shared_bytes: 0,
        ..filler
    };
    let most = bench.cuda.most_shared()?;
    let newcomers = [
        ("the same shape", &bench.stamper, filler.times(bench.sms)),
        ("32 threads", &bench.stamper, new(32)),
        ("1024 threads", &bench.stamper, new(1024)),
        (
            "all shared memory",
            &bench.stamper,
            new(32).with_shared(most),
        ),
        ("many registers", &bench.wide, new(256)),
    ];
    let top = bench.levels.len() - 1;
    let levels = if top == 0 { vec![0] } else { vec![0, top] };
    for (shape, stamper, blocks) in lab.scale.choose(&newcomers[3..4], &newcomers[..]) {
        for level in &levels {
            first_block(
                lab,
                bench,
                (name, filler),
                (shape, *level, (stamper, *blocks)),
            )?;
        }
    }
    Ok(())
}

/// Tells when the first blocks of launches of one shape and level come beside a filler.
fn first_block(
    lab: &mut Lab<'_>,
    bench: &LevelBench<'_>,
    (name, filler): (&str, Blocks),
    (shape, level, (stamper, blocks)): (&str, usize, (&Stamper<'_>, Blocks)),
) -> anyhow::Result<()> {
    let stream = bench.another(level)?;
    let clock = Clock::new(bench, stream)?;
    let newcomer = Newcomer {
        stamper,
        blocks,
        stream,
    };
    let (mut late, mut places) = (Vec::new(), Vec::new());
    for _ in 0..lab.scale.choose(1, 9) {
        let arrived = clock.beside(bench, (filler, bench.lowest()), &newcomer)?;
        let Some(arrived) = arrived else { continue };
        late.push(arrived.late_us());
        places.extend(place_in_starts(&arrived.filler, arrived.first));
    }
    bench.cuda.end_stream(stream)?;
    let name = format!("beside {name}, {shape}, level {level}");
    lab.spread(&format!("{name}: the first block is late by"), late, TIMER);
    lab.median(&format!("{name}: the first start"), places, PLACE);
    Ok(())
}

/// Returns a filler of the ordinary shape, whose blocks take about so long.
fn filler_of(lab: &Lab<'_>, bench: &LevelBench<'_>, us: u64) -> Blocks {
    bench.blocks(bench.slots() * lab.scale.choose(4, waves(us)), us)
}

/// Returns how often a filler whose blocks take about so long fills the device: for 2 ms, but six times at least.
fn waves(us: u64) -> u32 {
    u32::try_from(2000 / us).map_or(6, |waves| waves.max(6))
}
