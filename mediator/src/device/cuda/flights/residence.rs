//! What is known of the blocks of a launch in flight: stamped by some of them, or estimated.
//!
//! A record of a stamp stands for its own block and some before and behind it ([`Sampling`]). They count as placed
//! when their block's start is seen, and as retired, each with its residence, when its end is. A launch none of whose
//! blocks has started, because other work holds the device, has nothing placed, whatever its queue says.
//!
//! Where a kernel writes no stamps, all blocks that fit count as placed when the first could start, and as retired when
//! the last ended.
//!
//! Rules: stamps may be forged, so no more blocks are outstanding than the SMs hold at once but at the instant at which
//! the launch ends, none resides longer than its launch has run, and in the end each block has been placed once and
//! retired once.

use crate::device::{DeviceReport, Tag};
use gridmux_launch::{Sampling, Stamp, StampRecord};
use gridmux_policy::units::Nanos;
use std::collections::VecDeque;

/// Blocks of a launch.
#[derive(Debug, Clone, Copy)]
pub(in crate::device::cuda) struct Blocks {
    /// All of them.
    pub(in crate::device::cuda) all: u32,
    /// Those that the SMs can hold at once.
    pub(in crate::device::cuda) resident: u32,
}

/// What an operation holds of the SMs.
pub(super) enum Residence {
    /// Nothing: it is no launch.
    None,
    /// A launch that writes no stamps.
    Estimated(Blocks),
    /// A launch that does.
    Stamped(Stamped),
}

impl Residence {
    /// Returns what is known of an operation that is about to begin.
    pub(super) fn new(blocks: Option<Blocks>, sampling: Option<Sampling>) -> Self {
        match (blocks, sampling) {
            (None, _) => Self::None,
            (Some(blocks), None) => Self::Estimated(blocks),
            (Some(blocks), Some(sampling)) => Self::Stamped(Stamped::new(blocks, sampling)),
        }
    }
}

/// What a launch's stamps have told.
pub(super) struct Stamped {
    blocks: Blocks,
    sampling: Sampling,
    /// The first record whose start was not seen. Blocks start in the order of their numbers,
    /// in which records stand.
    next: u32,
    /// Records whose end was seen, as bits.
    ended: u64,
    /// Blocks that the records seen stand for: that have started, and that have ended.
    started_blocks: u32,
    ended_blocks: u32,
    /// Residence of those that have ended, in nanoseconds, and as much of it as was reported.
    ran_ns: u64,
    told_ns: u64,
    /// Blocks reported as placed and as retired.
    placed: u32,
    retired: u32,
    /// Start of the first record and latest end, in the device's own time.
    span: Option<(u64, u64)>,
    /// The first and the last report's time.
    told: Option<(Nanos, Nanos)>,
}

impl Stamped {
    fn new(blocks: Blocks, sampling: Sampling) -> Self {
        Self {
            blocks,
            sampling,
            next: 0,
            ended: 0,
            started_blocks: 0,
            ended_blocks: 0,
            ran_ns: 0,
            told_ns: 0,
            placed: 0,
            retired: 0,
            span: None,
            told: None,
        }
    }

    /// Reads what the records have got since they were read last. The launch could begin `longest` ago.
    pub(super) fn read(&mut self, records: &[StampRecord], longest: Nanos) {
        // The bits are those of a word.
        let count = self.sampling.records().min(u64::BITS) as usize;
        let records = &records[..count.min(records.len())];
        while let Some(stamp) = records.get(self.next as usize).and_then(StampRecord::read) {
            self.started_blocks += self.sampling.stands_for(self.next);
            self.span = self.span.or(Some((stamp.start, stamp.start)));
            self.next += 1;
        }
        let started = u64::MAX
            .checked_shl(self.next)
            .map_or(u64::MAX, |behind| !behind);
        let mut running = started & !self.ended;
        while running != 0 {
            let record = running.trailing_zeros();
            running &= running - 1;
            let stamp = records[record as usize].read();
            if let Some((stamp, ran_ns)) = stamp.and_then(|s| Some((s, s.ran_ns()?))) {
                self.end(record, stamp, ran_ns.min(longest.0));
            }
        }
    }

    fn end(&mut self, record: u32, stamp: Stamp, ran_ns: u64) {
        let blocks = self.sampling.stands_for(record);
        self.ended |= 1 << record;
        self.ended_blocks += blocks;
        let ran_ns = ran_ns.saturating_mul(blocks.into());
        self.ran_ns = self.ran_ns.saturating_add(ran_ns);
        let end = stamp.end.unwrap_or(stamp.start);
        self.span = self.span.map(|(first, last)| (first, last.max(end)));
    }

    /// Returns whether all records say that their blocks have ended, so that the launch may have.
    pub(super) fn is_over(&self) -> bool {
        self.ended.count_ones() == self.sampling.records().min(u64::BITS)
    }

    /// Reports what was read, as far as it was not, as of now.
    pub(super) fn tell_of_now(
        &mut self,
        (tag, now): (Tag, Nanos),
        ready: &mut VecDeque<DeviceReport>,
    ) {
        let most = self.retired.saturating_add(self.blocks.resident);
        let placed = self.started_blocks.min(most) - self.placed;
        self.place(placed, (tag, now), ready);
        let ended = self.ended_blocks - self.retired;
        let retired = self.ended_blocks.min(self.placed) - self.retired;
        // Blocks that cannot be told of yet keep their part of the residence.
        let ran_ns = self.ran_ns - self.told_ns;
        let part = u128::from(ran_ns) * u128::from(retired) / u128::from(ended.max(1));
        let ran_ns = u64::try_from(part).unwrap_or(u64::MAX);
        self.retire(retired, ran_ns, (tag, now), ready);
    }

    /// Reports what is left of a launch that could begin at `began` and was over at `end`, and returns when its first
    /// block started and when its last one ended.
    pub(super) fn finish(
        &mut self,
        records: &[StampRecord],
        (tag, began, end): (Tag, Nanos, Nanos),
        ready: &mut VecDeque<DeviceReport>,
    ) -> (Nanos, Nanos) {
        let took = Nanos(end.0.saturating_sub(began.0));
        self.read(records, took);
        // The end is not before a report that was made already.
        let end = self.told.map_or(end, |(_, last)| end.max(last));
        let span = self.span.map_or(took.0, |(first, last)| match self.ended {
            0 => took.0,
            _ => last.saturating_sub(first).min(took.0),
        });
        let first = Nanos(end.0 - span);
        let start = self
            .told
            .map_or(first, |(first_told, _)| first.min(first_told));
        let at_once = match self.placed {
            0 => self.blocks.resident,
            _ => 0,
        };
        self.place(at_once.min(self.blocks.all), (tag, start), ready);
        self.place(self.blocks.all - self.placed, (tag, end), ready);
        let ran_ns = self.all_ran_ns(span).saturating_sub(self.told_ns);
        self.retire(self.blocks.all - self.retired, ran_ns, (tag, end), ready);
        (start, end)
    }

    /// Reports each block that stamped its end, of a launch that [`Self::finish`] says lasted from `start` to `end`:
    /// stamps are of a clock of their own, whose first one stands for `start`.
    pub(super) fn tell_blocks(
        &self,
        records: &[StampRecord],
        (tag, start, end): (Tag, Nanos, Nanos),
        ready: &mut VecDeque<DeviceReport>,
    ) {
        let Some((first, _)) = self.span else {
            return;
        };
        let here = |stamp: u64| (start + Nanos(stamp.saturating_sub(first))).min(end);
        let records = (0..self.sampling.records()).zip(records);
        let stamped = records.filter_map(|(record, it)| Some((record, it.read()?)));
        ready.extend(stamped.filter_map(|(record, stamp)| {
            let (block_start, block_end) = (here(stamp.start), here(stamp.end?));
            Some(DeviceReport::BlockEnded {
                tag,
                block: self.sampling.block_of(record),
                sm: stamp.sm,
                start: block_start.min(block_end),
                end: block_end,
            })
        }));
    }

    /// Returns the residence of all blocks: those that no record tells of resided as long as the others in the mean.
    fn all_ran_ns(&self, span: u64) -> u64 {
        let all = u128::from(self.blocks.all);
        let ran = match self.ended_blocks {
            0 => u128::from(span) * u128::from(self.blocks.resident),
            ended => u128::from(self.ran_ns) * all / u128::from(ended),
        };
        u64::try_from(ran).unwrap_or(u64::MAX)
    }

    fn place(&mut self, blocks: u32, (tag, at): (Tag, Nanos), ready: &mut VecDeque<DeviceReport>) {
        if blocks > 0 {
            self.placed += blocks;
            self.tell(at);
            ready.push_back(DeviceReport::Placed { tag, blocks, at });
        }
    }

    fn retire(
        &mut self,
        blocks: u32,
        ran_ns: u64,
        (tag, at): (Tag, Nanos),
        ready: &mut VecDeque<DeviceReport>,
    ) {
        if blocks > 0 {
            self.retired += blocks;
            self.told_ns = self.told_ns.saturating_add(ran_ns);
            self.tell(at);
            let ran = Nanos(ran_ns);
            ready.push_back(DeviceReport::Retired {
                tag,
                blocks,
                ran,
                at,
            });
        }
    }

    fn tell(&mut self, at: Nanos) {
        let first = self.told.map_or(at, |(first, _)| first);
        self.told = Some((first, at));
    }
}
