//! How consecutive slices overlap: one behind the other on one stream, dealt to several lanes, and on one stream by
//! programmatic dependent launch, each over one launch of the same blocks.

use super::LevelBench;
use crate::cuda::CudaError;
use crate::cuda::session::COMPUTE_MAJOR;
use crate::kernels::Successor;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamp, Stamper, Stamps, apart, first_start};

/// The compute capability that programmatic dependent launch begins with.
const DEPENDENT_LAUNCH: i32 = 9;

/// How slices are launched.
enum Slicing<'a> {
    /// All blocks by one launch, on this stream.
    Whole(u64),
    /// Dealt to lanes in turn.
    Lanes(&'a [u64]),
    /// On one stream, each when all blocks of the one before have started.
    Early(&'a Stamper<'a>, u64),
}

/// Asks it for slices of one wave and of two.
pub(super) fn run(lab: &mut Lab<'_>, bench: &LevelBench<'_>) -> anyhow::Result<()> {
    let lanes: Vec<u64> = (0..4)
        .map(|_| bench.another(bench.levels.len() - 1))
        .collect::<Result<_, _>>()?;
    let early = early(lab, bench)?;
    for us in lab.scale.choose(&[5][..], &[20, 100]) {
        for waves in lab.scale.choose(&[1][..], &[1, 2]) {
            let slice = bench.blocks(bench.slots() * waves, *us);
            let name = format!("slices that fill the device {waves} times, blocks of {us} us");
            let whole = time(lab, bench, slice, &Slicing::Whole(lanes[0]))?;
            let tell = |lab: &mut Lab<'_>, how: &str, way: &Slicing<'_>| -> anyhow::Result<()> {
                let took = time(lab, bench, slice, way)?;
                lab.figure(
                    format!("{name}, {how}"),
                    took / whole,
                    "of one launch's time",
                );
                Ok(())
            };
            for count in [1, 2, 4] {
                let how = format!("lanes: {count}");
                tell(lab, &how, &Slicing::Lanes(&lanes[..count]))?;
            }
            if let Some(early) = &early {
                let way = Slicing::Early(early, lanes[0]);
                tell(lab, "programmatic dependent launch", &way)?;
            }
        }
    }
    Ok(lanes
        .into_iter()
        .try_for_each(|lane| bench.cuda.end_stream(lane))?)
}

/// Returns the kernel of programmatic dependent launches; says so where the device or the library has none.
fn early<'a>(lab: &mut Lab<'_>, bench: &LevelBench<'a>) -> anyhow::Result<Option<Stamper<'a>>> {
    let name = "programmatic dependent launch";
    let capability = bench.cuda.attribute(COMPUTE_MAJOR)?;
    if capability < DEPENDENT_LAUNCH {
        lab.skipped(
            name,
            format!("the device has compute capability {capability}, and it begins with 9"),
        );
        return Ok(None);
    }
    let stamper = Stamper::new(bench.cuda, 0, Successor::AtStart)?;
    let stamps = Stamps::new(bench.cuda, 1)?;
    let block = bench.blocks(1, 0);
    let launched = stamper.launch_early(block, bench.lowest(), stamps.address);
    bench.cuda.wait(bench.lowest())?;
    Ok(lab.offered(name, launched)?.map(|()| stamper))
}

/// Returns the median time that slices take from the first start to the last end, in nanoseconds.
fn time(
    lab: &Lab<'_>,
    bench: &LevelBench<'_>,
    slice: Blocks,
    way: &Slicing<'_>,
) -> anyhow::Result<f64> {
    let slices = lab.scale.choose(3, 12);
    let stamps = Stamps::new(bench.cuda, u64::from(slice.count * slices))?;
    let mut times = Vec::new();
    for _ in 0..lab.scale.choose(1, 7) {
        launch(bench, (slice, slices), &stamps, way)?;
        bench.cuda.wait_for_all()?;
        times.extend(span(&stamps.read()?));
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied().unwrap_or(f64::NAN))
}

fn launch(
    bench: &LevelBench<'_>,
    (slice, slices): (Blocks, u32),
    stamps: &Stamps<'_>,
    way: &Slicing<'_>,
) -> Result<(), CudaError> {
    let mut outs = (0..slices).map(|n| (n as usize, stamps.at(u64::from(n * slice.count))));
    match way {
        Slicing::Whole(stream) => {
            let all = slice.times(slice.count * slices);
            bench.stamper.launch(all, *stream, stamps.address)
        }
        Slicing::Lanes(lanes) => {
            outs.try_for_each(|(n, out)| bench.stamper.launch(slice, lanes[n % lanes.len()], out))
        }
        Slicing::Early(stamper, stream) => {
            outs.try_for_each(|(_, out)| stamper.launch_early(slice, *stream, out))
        }
    }
}

/// Returns the time from the first start to the last end in nanoseconds.
fn span(stamps: &[Stamp]) -> Option<f64> {
    let end = stamps.iter().map(|stamp| stamp.end).max()?;
    Some(apart(end, first_start(stamps)?))
}
