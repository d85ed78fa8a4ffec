//! When a warp can issue its next operation: its registers, its instruction and what it waits for are there.
//!
//! Rules: a warp is looked at when it has issued, when an answer comes and when the wheel names it, never from cycle to
//! cycle; operations that cost nothing are done on the way to the next one that does.

use super::resident::State;
use super::sm::{Epoch, Sm, UNKNOWN};
use super::stalls::Cause;
use super::wheel::HORIZON;
use crate::exec::{Kind, NONE, Step};

impl Sm {
    /// Wakes a warp that the wheel named; its bit may be stale.
    #[inline(always)]
    pub(super) fn wake(&mut self, slot: u32) {
        let entry = &self.warps[slot as usize];
        if entry.state != State::Asleep {
            return;
        }
        if entry.wake_at > self.now {
            self.wheel
                .insert(entry.wake_at.min(self.now + HORIZON), slot);
            return;
        }
        self.make_ready(slot);
    }

    #[inline(always)]
    fn make_ready(&mut self, slot: u32) {
        let entry = &mut self.warps[slot as usize];
        let Some(kernel) = &self.residency.blocks[usize::from(entry.block)].kernel else {
            return;
        };
        entry.state = State::Ready;
        let pipe = kernel.ops[entry.warp.pc as usize].pipe;
        self.arbiter.now_ready(slot, pipe);
    }

    /// Finds out when the warp's next operation can issue; operations that cost nothing are done on the way.
    #[inline(always)]
    pub(super) fn schedule(&mut self, slot: u32, epoch: &Epoch<'_>) {
        if self.context_switches.held >> slot & 1 != 0 {
            self.hold(slot);
            return;
        }
        loop {
            let entry = &mut self.warps[slot as usize];
            let Some(kernel) = &self.residency.blocks[usize::from(entry.block)].kernel else {
                return;
            };
            let op = &kernel.ops[entry.warp.pc as usize];
            let mut there = 0;
            for register in op.waits.iter().take_while(|r| **r != NONE) {
                there = there.max(entry.ready_at[usize::from(*register)]);
            }
            match op.kind {
                // The result would come to a frame that the next call may use.
                Kind::Return if entry.ready_at.contains(&UNKNOWN) => there = UNKNOWN,
                Kind::CopyGroup => there = there.max(entry.copies.over_at(op.aux)),
                _ => {}
            }
            let free = op.free;
            let supplied = self.supply(slot, epoch);
            if there == UNKNOWN || supplied == UNKNOWN {
                self.warps[slot as usize].state = State::Blocked;
                let for_code = there != UNKNOWN;
                self.arbiter.waits(
                    slot,
                    if for_code {
                        Cause::Control
                    } else {
                        Cause::Memory
                    },
                );
                return;
            }
            if !free {
                self.sleep(slot, there, supplied);
                return;
            }
            if !self.fold(slot, there, epoch) {
                return;
            }
        }
    }

    /// Stops a warp whose block is leaving.
    #[cold]
    fn hold(&mut self, slot: u32) {
        self.warps[slot as usize].state = State::Held;
        self.arbiter.left(slot);
    }

    /// Lets the warp sleep until its registers and its next instruction have arrived.
    #[inline(always)]
    fn sleep(&mut self, slot: u32, there: u64, supplied: u64) {
        let entry = &mut self.warps[slot as usize];
        let at = there.max(entry.not_before).max(supplied).max(self.now);
        if at == self.now {
            self.make_ready(slot);
            return;
        }
        entry.state = State::Asleep;
        entry.wake_at = at;
        let cause = if there >= at {
            Cause::ShortRaw
        } else {
            Cause::Control
        };
        self.arbiter.waits(slot, cause);
        self.wheel.insert(at.min(self.now + HORIZON), slot);
    }

    /// Executes an operation that costs nothing; its results are there when its sources are.
    /// False when the warp cannot simply go on.
    fn fold(&mut self, slot: u32, there: u64, epoch: &Epoch<'_>) -> bool {
        let mut rare = Step::Done;
        let Some((op, stepped)) = self.step(slot, epoch, &mut rare) else {
            return false;
        };
        let entry = &mut self.warps[slot as usize];
        for register in op.writes.iter().take_while(|r| **r != NONE) {
            entry.ready_at[usize::from(*register)] = there;
        }
        let counters = &mut self.residency.blocks[usize::from(entry.block)].counters;
        counters.warp_instructions += 1;
        counters.folded_instructions += 1;
        counters.thread_instructions += u64::from(stepped.lanes.count_ones());
        if stepped.plain {
            return true;
        }
        self.stop(slot, rare, epoch);
        false
    }
}
