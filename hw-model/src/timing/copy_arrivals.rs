//! Arrivals at mbarrier objects that wait for copies (`cp.async.mbarrier.arrive`, PTX ISA section 9.7.13.15).
//!
//! The warp goes on at once; the arrival happens when the last copy that the warp had made before is complete.
//! Each arrival counts how many of those copies still wait for an answer. Copies have numbers, by which the answer to
//! an earlier copy is told from the answer to a later one. A warp that waits at the object polls it, and sees the
//! arrival in the next cycle.
//! Rules: arrivals of one cycle happen in the order in which they were issued; a block that leaves its SM has none
//! pending, because its copies are completed first; the pending ones of a block that ends are dropped.

use super::copy_groups::CopyNumber;
use super::resident::State;
use super::sm::{Epoch, Sm};
use crate::exec::RawFault;
use crate::fault::FaultKind;

/// Lanes of one warp that arrive.
#[derive(Debug, Clone, Copy)]
struct CopyArrival {
    slot: u32,
    mask: u32,
    /// Offsets of the objects in the block's shared memory.
    offsets: [u64; 32],
    /// Copies made before it that have not been answered.
    unanswered: u32,
    /// The first copy that was made after it.
    next: CopyNumber,
    /// Cycle in which the last of the answered copies is complete.
    at: u64,
}

/// All arrivals of an SM that have not happened.
#[derive(Debug)]
pub(super) struct CopyArrivals {
    waiting: Vec<CopyArrival>,
    /// When the next one happens, as far as it is known; [`u64::MAX`] when none is.
    next_at: u64,
}

impl CopyArrivals {
    pub(super) const fn new() -> Self {
        Self {
            waiting: Vec::new(),
            next_at: u64::MAX,
        }
    }

    /// Returns when the next one happens, as far as it is known; [`u64::MAX`] when none is.
    #[inline(always)]
    pub(super) fn next_at(&self) -> u64 {
        self.next_at
    }

    fn look(&mut self) {
        let known = self.waiting.iter().filter(|a| a.unanswered == 0);
        self.next_at = known.map(|a| a.at).min().unwrap_or(u64::MAX);
    }

    /// Notes that a copy of a slot's warp is complete at `at`.
    pub(super) fn answered(&mut self, slot: u32, number: CopyNumber, at: u64) {
        if self.waiting.is_empty() {
            return;
        }
        let before = |a: &&mut CopyArrival| a.slot == slot && number < a.next;
        for arrival in self.waiting.iter_mut().filter(before) {
            arrival.unanswered -= 1;
            arrival.at = arrival.at.max(at);
        }
        self.look();
    }

    /// Forgets the slot's warp, which is gone.
    pub(super) fn left(&mut self, slot: u32) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|a| a.slot != slot);
            self.look();
        }
    }

    fn take_due(&mut self, now: u64) -> Option<CopyArrival> {
        let due = |a: &CopyArrival| a.unanswered == 0 && a.at <= now;
        let at = self.waiting.iter().position(due)?;
        Some(self.waiting.remove(at))
    }
}

impl Sm {
    /// Lets the lanes of the access that the slot's warp just made arrive when its copies are complete.
    pub(super) fn arrive_after_copies(&mut self, slot: u32) {
        let copies = &self.warps[slot as usize].copies;
        self.arrivals.waiting.push(CopyArrival {
            slot,
            mask: self.lsu.access.mask,
            offsets: self.lsu.access.addresses,
            unanswered: copies.unanswered(),
            next: copies.next(),
            at: copies.known_at().max(self.now + 1),
        });
        self.arrivals.look();
    }

    /// Carries out the arrivals that are due.
    #[cold]
    pub(super) fn arrive(&mut self, epoch: &Epoch<'_>) {
        while let Some(arrival) = self.arrivals.take_due(self.now) {
            let entry = &mut self.warps[arrival.slot as usize];
            let number = usize::from(entry.block);
            let block = &mut self.residency.blocks[number].block;
            if let Err(lane) = block.arrive_after_copies(arrival.mask, &arrival.offsets) {
                entry.state = State::Stopped;
                self.arbiter.left(arrival.slot);
                let raw = RawFault {
                    kind: FaultKind::BadMbarrier,
                    lane,
                    address: None,
                };
                self.report_fault(number, arrival.slot, raw, epoch);
            }
        }
        self.arrivals.look();
    }
}
