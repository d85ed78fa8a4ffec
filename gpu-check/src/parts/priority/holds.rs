//! Whether a block of a high level that does not fit holds back blocks of a low one that would: how many of the small
//! ones go on starting while it waits, in one launch and in many.

use super::LevelBench;
use super::arrival::{Arrived, Clock, Newcomer};
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamper, Stamps, apart, first_start, float};

/// Asks it of blocks that need much of each thing that an SM has.
pub(super) fn run(lab: &mut Lab<'_>, bench: &LevelBench<'_>) -> anyhow::Result<()> {
    let most = bench.cuda.most_shared()?;
    for us in lab.scale.choose(&[5][..], &[20, 100, 1000]) {
        // Small blocks that leave shared memory and registers to others, of which a few ended ones make room for a
        // large block's threads.
        let small = Blocks::scattered(1, lab.scale.choose(512, 64), *us).with_shared(1 << 10);
        let slots = bench.sms * bench.stamper.per_sm(small)?;
        let waves = lab
            .scale
            .choose(4, u32::try_from(4000 / us).unwrap_or(8).max(8));
        let small = small.times(slots * waves);
        let large = |threads| Blocks::scattered(1, threads, *us);
        for (needs, stamper, block) in [
            ("1024 threads", &bench.stamper, large(1024)),
            (
                "all shared memory",
                &bench.stamper,
                large(32).with_shared(most),
            ),
            ("many registers", &bench.wide, large(256)),
        ] {
            let name = format!("a high block that needs {needs}, over low ones of {us} us");
            large_block(lab, bench, &name, (small, slots), (stamper, block))?;
        }
        if lab.scale.choose(false, true) {
            in_launches(lab, bench, small, (most, *us))?;
        }
    }
    Ok(())
}

/// Tells, of one large block over a launch of small ones, how long it waits and what happens meanwhile.
fn large_block(
    lab: &mut Lab<'_>,
    bench: &LevelBench<'_>,
    name: &str,
    (small, slots): (Blocks, u32),
    (stamper, blocks): (&Stamper<'_>, Blocks),
) -> anyhow::Result<()> {
    let clock = Clock::new(bench, bench.highest())?;
    let newcomer = Newcomer {
        stamper,
        blocks,
        stream: bench.highest(),
    };
    let (mut waited, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..lab.scale.choose(1, 9) {
        let arrived = clock.beside(bench, (small, bench.lowest()), &newcomer)?;
        let Some(arrived) = arrived else { continue };
        waited.push(arrived.late_us());
        shares.extend(start_share(&arrived, slots));
    }
    lab.spread(&format!("{name}: it waits"), waited, "us");
    lab.median(
        &format!("{name}: low starts while it waits, over those before"),
        shares,
        "ratio",
    );
    Ok(())
}

/// Returns the rate at which the filler's blocks start while a newcomer waits, over the rate before. What starts with
/// the filler's launch, which fills an empty device, does not count.
fn start_share(arrived: &Arrived, slots: u32) -> Option<f64> {
    let mut starts: Vec<u64> = arrived.filler.iter().map(|stamp| stamp.start).collect();
    starts.sort_unstable();
    let begin = *starts.get(slots as usize)?;
    let within = |(from, to): (u64, u64)| {
        let count = starts.iter().filter(|start| (from..to).contains(*start));
        (to > from).then(|| float(count.count() as u64) / float(to - from))
    };
    let before = within((begin, arrived.due))?;
    let waiting = within((arrived.due, arrived.first))?;
    (before > 0.0).then(|| waiting / before)
}

/// Tells the same where the small blocks come in many launches on four streams of the low level, each of a quarter of
/// what the device holds: whether launches that are behind the large block in time still begin.
fn in_launches(
    lab: &mut Lab<'_>,
    bench: &LevelBench<'_>,
    small: Blocks,
    (most, us): (u32, u64),
) -> anyhow::Result<()> {
    const LANES: usize = 4;
    const LAUNCHES: u32 = 64;
    let each = small.times(bench.sms * bench.stamper.per_sm(small)? / 4);
    let lanes: Vec<u64> = (0..LANES)
        .map(|_| bench.cuda.stream(0))
        .collect::<Result<_, _>>()?;
    let low = Stamps::new(bench.cuda, u64::from(each.count * LAUNCHES))?;
    let high = Stamps::new(bench.cuda, 1)?;
    let large = Blocks::scattered(1, 32, us).with_shared(most);
    let mut begun_behind = Vec::new();
    let mut waited = Vec::new();
    for _ in 0..5 {
        low.clear()?;
        high.clear()?;
        for launch in 0..LAUNCHES {
            let out = low.at(u64::from(launch * each.count));
            bench
                .stamper
                .launch(each, lanes[launch as usize % LANES], out)?;
            if launch == LAUNCHES / 4 {
                bench.stamper.launch(large, bench.highest(), high.address)?;
            }
        }
        bench.cuda.wait_for_all()?;
        let stamps = low.read()?;
        // Blocks are identified by their places, so none may be missing.
        let begin =
            first_start(&stamps).filter(|_| stamps.len() == (each.count * LAUNCHES) as usize);
        let (Some(first), Some(begin)) = (first_start(&high.read()?), begin) else {
            continue;
        };
        let submitted = ((LAUNCHES / 4 + 1) * each.count) as usize;
        let behind = stamps.get(submitted..).unwrap_or_default();
        let early = behind.iter().filter(|stamp| stamp.start < first).count();
        begun_behind.push(float(early as u64) / float(behind.len().max(1) as u64));
        let last = stamps
            .iter()
            .map(|stamp| stamp.start)
            .max()
            .unwrap_or(begin);
        waited.push(apart(first, begin) / apart(last, begin).max(1.0));
    }
    for lane in lanes {
        bench.cuda.end_stream(lane)?;
    }
    let name = format!("a high block that needs all shared memory, over launches of {us} us");
    lab.median(
        &format!("{name}: low blocks submitted behind it that start before it"),
        begun_behind,
        "ratio",
    );
    lab.median(
        &format!("{name}: its start"),
        waited,
        "of the low ones' starts",
    );
    Ok(())
}
