//! A step after which a warp does not simply go on: it waits for others, prints, ends or faults.
//!
//! A barrier counts arriving warps one after another, and releases them all some time after it has counted the last one
//! (`sm.barrier`).
//! Rule: warps that another warp's step releases are scheduled in the same cycle, in ascending order.

use super::resident::State;
use super::sm::{Epoch, Sm, SmEvent};
use crate::exec::{Block, Meeting, RawFault, Step, Warp};
use crate::fault::FaultKind;

impl Sm {
    /// Handles a step after which the warp does not simply go on.
    pub(super) fn stop(&mut self, slot: u32, step: Step, epoch: &Epoch<'_>) {
        let entry = &mut self.warps[slot as usize];
        let number = usize::from(entry.block);
        let resident = &mut self.residency.blocks[number];
        let index = entry.warp.index;
        let meeting = match step {
            Step::Done | Step::Slept => return,
            Step::Barrier(arrival) => {
                entry.state = State::AtBarrier;
                self.arbiter.at_barrier(slot);
                resident.counters.barriers += 1;
                if let Some(barrier) = epoch.config.sm.barrier {
                    self.barrier_at = self.now.max(self.barrier_at) + u64::from(barrier.interval);
                }
                let meeting = resident.block.arrive(index, &arrival);
                if !arrival.stalled {
                    self.schedule(slot, epoch);
                }
                meeting
            }
            Step::Stalled { alive } => {
                entry.state = State::AtBarrier;
                self.arbiter.at_barrier(slot);
                resident.block.stall(index, alive)
            }
            Step::Printed => {
                if let Some(said) = entry.warp.take_output() {
                    let launch = resident.launch;
                    self.events.push(SmEvent::Printed { launch, said });
                }
                self.schedule(slot, epoch);
                return;
            }
            Step::Ended => {
                entry.state = State::Stopped;
                self.arbiter.left(slot);
                let meeting = resident.block.end(index);
                if resident.block.alive() == 0 {
                    self.retire(number);
                    return;
                }
                meeting
            }
            Step::Fault(raw) => {
                entry.state = State::Stopped;
                self.arbiter.left(slot);
                self.report_fault(number, slot, raw, epoch);
                return;
            }
        };
        match meeting {
            Meeting::Wait => {}
            Meeting::Release(warps) => {
                let latency = epoch.config.sm.barrier.map_or(0, |b| u64::from(b.latency));
                let at = self.now.max(self.barrier_at) + latency;
                self.resume(
                    number,
                    (warps, at),
                    |warp, block| warp.resume(block.released()),
                    epoch,
                );
            }
            Meeting::Deadlock => {
                let resident = &self.residency.blocks[number];
                let waiting = resident.block.alive().trailing_zeros() as usize & 31;
                let slot = u32::from(resident.slots[waiting]);
                let stalled = resident.block.stalled();
                let now = self.now;
                if !self.resume(number, (stalled, now), |warp, _| warp.loosen(), epoch) {
                    let raw = RawFault {
                        kind: FaultKind::BarrierDeadlock,
                        lane: 0,
                        address: None,
                    };
                    self.report_fault(number, slot, raw, epoch);
                }
            }
        }
    }

    /// Schedules those of a block's `warps` that can go on again, as `go_on` finds, not before `at`; false when none
    /// can.
    fn resume(
        &mut self,
        number: usize,
        (mut warps, at): (u32, u64),
        go_on: impl Fn(&mut Warp, &Block) -> bool,
        epoch: &Epoch<'_>,
    ) -> bool {
        let mut any = false;
        while warps != 0 {
            let index = warps.trailing_zeros();
            warps &= warps - 1;
            let resident = &mut self.residency.blocks[number];
            let slot = u32::from(resident.slots[index as usize]);
            let entry = &mut self.warps[slot as usize];
            if go_on(&mut entry.warp, &resident.block) {
                entry.not_before = entry.not_before.max(at);
                resident.block.unstall(index);
                self.schedule(slot, epoch);
                any = true;
            }
        }
        any
    }
}
