//! Why a scheduler issued nothing: the causes that Warped-Slicer's figure 7c tells apart.
//!
//! Of several reasons the one that would end first counts: a busy unit, then a short result, a branch, memory, a
//! barrier. Cycles are charged to the kernel of the first warp that waits for that reason.
//! Rule: while its SM has a block, a cycle of a scheduler is either an issue or a stall of one cause, in epochs in
//! which something happens on the SM; of the others the counters say the sum, and no cause.

use super::sm::Sm;

/// What a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cause {
    /// A result of known latency.
    ShortRaw,
    /// The instruction behind a branch, a fence or a sleep, the first one of a block, or what follows a barrier that
    /// all warps have reached (`sm.barrier`).
    Control,
    /// A load that is not answered.
    Memory,
    /// The other warps of its block.
    Barrier,
    /// A unit; only ready warps do.
    Resource,
    /// The scheduler has no warp.
    #[default]
    Empty,
}

impl Cause {
    /// Causes for which warps stand in masks.
    pub(super) const COUNT: usize = 4;
    const MASKED: [Self; Self::COUNT] =
        [Self::ShortRaw, Self::Control, Self::Memory, Self::Barrier];
}

/// A scheduler's last stall.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stalled {
    cause: Cause,
    /// Whose fault it is; none while the SM is empty.
    resident: Option<u8>,
    /// Where its warp stands, where that is watched.
    operation: Option<u32>,
}

impl Sm {
    /// Takes note that a scheduler issued nothing in this cycle.
    #[inline(always)]
    pub(super) fn stalled(&mut self, scheduler: usize) {
        let stalled = self.stall_of(scheduler);
        self.arbiter.stalled[scheduler] = stalled;
        self.charge(stalled, 1);
    }

    /// Returns why a scheduler that issues nothing does not.
    #[inline(always)]
    fn stall_of(&self, scheduler: usize) -> Stalled {
        let slots = self.arbiter.slots[scheduler];
        let found = if self.arbiter.ready() & slots != 0 {
            Some((Cause::Resource, self.arbiter.ready() & slots))
        } else {
            let masks = Cause::MASKED.into_iter().zip(self.arbiter.waiting);
            let mut waiting = masks.map(|(cause, mask)| (cause, mask & slots));
            waiting.find(|(_, mask)| *mask != 0)
        };
        match found {
            Some((cause, mask)) => Stalled {
                cause,
                resident: Some(self.warps[mask.trailing_zeros() as usize].block),
                operation: match self.stalls {
                    None => None,
                    Some(_) => self.watched_operation(mask.trailing_zeros()),
                },
            },
            None => Stalled {
                cause: Cause::Empty,
                resident: self.first_resident(),
                operation: None,
            },
        }
    }

    /// Counts the epochs that passed since the last one in which something happened on this SM.
    pub(super) fn asleep(&mut self, cycles: u64) {
        if let Some(resident) = self.first_resident() {
            let counters = &mut self.residency.blocks[usize::from(resident)].counters;
            counters.asleep_cycles += cycles * self.arbiter.schedulers as u64;
        }
        if self.stalls.is_some() {
            self.watch_gap(cycles);
        }
    }

    /// Adds to the stalls of a watched kernel the epochs that passed since the last one in which something happened on
    /// this SM. The counters know no cause of them.
    #[cold]
    fn watch_gap(&mut self, cycles: u64) {
        for scheduler in 0..self.arbiter.schedulers {
            let stalled = self.stall_of(scheduler);
            if let (Some(operation), Some(stalls)) = (stalled.operation, &mut self.stalls) {
                stalls.add(operation, stalled.cause, cycles);
            }
        }
    }

    /// Counts `cycles` further cycles in which nothing happened, and no scheduler issued in the one before.
    pub(super) fn stalled_more(&mut self, cycles: u64) {
        if cycles == 0 {
            return;
        }
        for scheduler in 0..self.arbiter.schedulers {
            self.charge(self.arbiter.stalled[scheduler], cycles);
        }
    }

    fn first_resident(&self) -> Option<u8> {
        let taken = self.residency.taken();
        (taken != 0).then(|| u8::try_from(taken.trailing_zeros()).unwrap_or(0))
    }

    fn charge(&mut self, stalled: Stalled, cycles: u64) {
        let Some(resident) = stalled.resident else {
            return;
        };
        if let (Some(operation), Some(stalls)) = (stalled.operation, &mut self.stalls) {
            stalls.add(operation, stalled.cause, cycles);
        }
        let counters = &mut self.residency.blocks[usize::from(resident)].counters;
        *match stalled.cause {
            Cause::ShortRaw => &mut counters.stall_short_raw_cycles,
            Cause::Control => &mut counters.stall_control_cycles,
            Cause::Memory => &mut counters.stall_memory_cycles,
            Cause::Barrier => &mut counters.stall_barrier_cycles,
            Cause::Resource => &mut counters.stall_resource_cycles,
            Cause::Empty => &mut counters.stall_empty_cycles,
        } += cycles;
    }
}
