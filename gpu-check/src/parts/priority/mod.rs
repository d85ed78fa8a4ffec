//! What a stream's priority is worth: which levels the device distinguishes, how soon a launch of a higher level gets
//! its first block beside a running kernel, whether a block that does not fit holds others back, which share of the
//! SMs slices at a higher level keep over a filler, and how consecutive slices overlap.
//!
//! Rules: every kernel's blocks write stamps, and what a figure says is read off these; a filler is a launch with more
//! blocks than the device holds, at the lowest level; its blocks take half to one and a half of the time that is named,
//! so that their ends lie scattered. A time from a submission to a first block is reported as what it is beyond the
//! same on an idle device, so that the clocks of host and device need not agree. Over a library whose levels make no
//! difference the part says so, and its other figures mean what they mean for one level.
//!
//! It takes about 20 s on an H200; each question bounds its launches by number and their blocks by time.

mod arrival;
mod holds;
mod levels;
mod overlap;
mod residency;

use super::Part;
use crate::cuda::{CudaError, Session};
use crate::kernels::Successor;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamper};

pub(super) const PART: Part = Part {
    name: "priority",
    about: "levels of streams: first blocks beside a filler, blocks that do not fit, shares of slices, overlap",
    usual_s: 20,
    limit_s: 70,
    run,
};

/// What the questions share.
struct LevelBench<'a> {
    cuda: &'a Session,
    stamper: Stamper<'a>,
    /// The same kernel with many more registers.
    wide: Stamper<'a>,
    /// A stream of each level, the lowest first.
    levels: Vec<u64>,
    sms: u32,
    /// Threads of a filler's block, of which [`LevelBench::per_sm`] fill an SM.
    threads: u32,
    per_sm: u32,
}

impl<'a> LevelBench<'a> {
    fn new(lab: &Lab<'a>) -> anyhow::Result<Self> {
        let cuda = lab.cuda;
        let highest = cuda.highest_priority()?;
        let levels = (highest..=0).rev().map(|priority| cuda.stream(priority));
        let stamper = Stamper::new(cuda, 0, Successor::AtEnd)?;
        // The model has fewer and larger blocks to simulate.
        let threads = lab.scale.choose(1024, 256);
        let per_sm = stamper.per_sm(Blocks::scattered(1, threads, 1))?;
        Ok(Self {
            cuda,
            stamper,
            wide: Stamper::new(cuda, lab.scale.choose(32, 200), Successor::AtEnd)?,
            levels: levels.collect::<Result<_, _>>()?,
            sms: cuda.sms()?,
            threads,
            per_sm,
        })
    }

    /// Returns how many of the filler's blocks the device holds.
    const fn slots(&self) -> u32 {
        self.sms * self.per_sm
    }

    /// Returns a number of blocks of the filler's shape.
    const fn blocks(&self, count: u32, us: u64) -> Blocks {
        Blocks::scattered(count, self.threads, us)
    }

    fn lowest(&self) -> u64 {
        self.levels[0]
    }

    fn highest(&self) -> u64 {
        self.levels[self.levels.len() - 1]
    }

    /// Returns a second stream of a level, counted from the lowest, which is 0.
    fn another(&self, level: usize) -> Result<u64, CudaError> {
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        self.cuda.stream(-level)
    }
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let bench = LevelBench::new(lab)?;
    lab.fact("levels that the driver names", bench.levels.len());
    lab.fact("blocks of the filler that the device holds", bench.slots());
    let wide = f64::from(bench.wide.registers()?);
    lab.figure("a kernel of many registers has", wide, "registers");
    lab.ask("levels", |lab| levels::distinguished(lab, &bench));
    lab.ask("first blocks", |lab| levels::first_blocks(lab, &bench));
    lab.ask("blocks that do not fit", |lab| holds::run(lab, &bench));
    lab.ask("shares of slices", |lab| residency::run(lab, &bench));
    lab.ask("overlap of slices", |lab| overlap::run(lab, &bench));
    let streams = bench.levels.iter();
    Ok(streams
        .copied()
        .try_for_each(|stream| bench.cuda.end_stream(stream))?)
}
