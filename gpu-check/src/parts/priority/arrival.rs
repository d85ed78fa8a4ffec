//! When a launch arrives at the device, and how much later than on an idle one its first block starts.

use super::LevelBench;
use crate::stamps::{Blocks, Stamp, Stamper, Stamps, apart, first_start};
use anyhow::Context;
use std::time::Instant;

/// A host's clock in nanoseconds, of which the distance to the device's timer is known.
#[derive(Debug)]
pub(super) struct Clock {
    zero: Instant,
    /// What the device's timer says when a launch's first block starts on an idle device, beyond what the host's clock
    /// said at the call.
    device_minus_call_ns: u64,
}

/// A launch beside a filler.
#[derive(Debug)]
pub(super) struct Newcomer<'a> {
    /// Its kernel.
    pub(super) stamper: &'a Stamper<'a>,
    pub(super) blocks: Blocks,
    pub(super) stream: u64,
}

/// What came of a newcomer.
#[derive(Debug)]
pub(super) struct Arrived {
    /// When its first block would have started on an idle device, by the device's timer.
    pub(super) due: u64,
    /// When its first block started.
    pub(super) first: u64,
    /// The filler's blocks.
    pub(super) filler: Vec<Stamp>,
}

impl Arrived {
    /// Returns how much later than on an idle device its first block started, in microseconds.
    pub(super) fn late_us(&self) -> f64 {
        apart(self.first, self.due) / 1e3
    }
}

impl Clock {
    /// Compares the clocks by launches of one block on the idle device. The two run apart by some microseconds a
    /// second, so that this is done anew for each figure.
    pub(super) fn new(bench: &LevelBench<'_>, stream: u64) -> anyhow::Result<Self> {
        const TRIES: usize = 9;
        let zero = Instant::now();
        let stamps = Stamps::new(bench.cuda, 1)?;
        let mut ahead = Vec::new();
        for _ in 0..TRIES {
            let called = nanoseconds(zero);
            let block = bench.blocks(1, 0);
            bench.stamper.launch(block, stream, stamps.address)?;
            bench.cuda.wait(stream)?;
            let first = first_start(&stamps.read()?);
            let first = first.context("a block has left no stamp on the idle device")?;
            ahead.push(first.wrapping_sub(called));
            stamps.clear()?;
        }
        ahead.sort_unstable();
        let device_minus_call_ns = ahead[TRIES / 2];
        Ok(Self {
            zero,
            device_minus_call_ns,
        })
    }

    /// Launches a filler on a stream, and a newcomer when blocks of the filler have begun to end. Returns `None` where
    /// no block of the newcomer has left a stamp.
    pub(super) fn beside(
        &self,
        bench: &LevelBench<'_>,
        (filler, low): (Blocks, u64),
        newcomer: &Newcomer<'_>,
    ) -> anyhow::Result<Option<Arrived>> {
        let old = Stamps::new(bench.cuda, filler.count.into())?;
        let new = Stamps::new(bench.cuda, newcomer.blocks.count.into())?;
        bench.stamper.launch(filler, low, old.address)?;
        filler.pause_until_some_end();
        let called = nanoseconds(self.zero);
        newcomer
            .stamper
            .launch(newcomer.blocks, newcomer.stream, new.address)?;
        bench.cuda.wait_for_all()?;
        let due = called.wrapping_add(self.device_minus_call_ns);
        let filler = old.read()?;
        let first = first_start(&new.read()?);
        Ok(first.map(|first| Arrived { due, first, filler }))
    }
}

fn nanoseconds(zero: Instant) -> u64 {
    u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
