//! What launches cost the host: warp instructions, so that a driver can attribute the processor time that it measures.
//!
//! Executing an instruction is nearly all that the model's processor time goes into, so that launches which run side by
//! side share it about as they share the instructions. The number is exact and the same on every host and for any
//! number of threads; a driver that bounds processor time multiplies it by what an instruction costs where it runs.
//!
//! Rule: issuing an instruction does not touch these numbers. Blocks that have ended are in their launch's counters
//! already; those that are resident are added up when somebody asks, once for each moment that is asked about.

use super::Gpu;

/// Warp instructions of the blocks that are resident, by launch.
#[derive(Debug, Default)]
pub(super) struct Resident {
    by_launch: Vec<u64>,
    /// Nothing has changed since they were added up.
    is_fresh: bool,
}

impl Resident {
    /// Forgets the sums: time passed, or a launch came or went.
    pub(super) fn changed(&mut self) {
        self.is_fresh = false;
    }
}

impl Gpu {
    /// Returns the warp instructions that a launch has issued so far, folded ones and those of running blocks included;
    /// 0 when no launch in flight has that tag.
    ///
    /// The number never falls while the launch is in flight. Its last value is in the launch's last report:
    /// [`Report::Ended`](crate::Report::Ended) has it in its counters and [`Report::Faulted`](crate::Report::Faulted)
    /// beside the fault; for a launch that is to be killed it is read before. The first call after time has moved looks
    /// at every resident block once, further ones take constant time.
    ///
    /// Processor time per instruction is not the same for all launches: on one machine it was 120 ns for barriers on
    /// full SMs, 210 ns for a single warp that spins, and 630 ns where every lane prints.
    pub fn launch_cost(&mut self, tag: u64) -> u64 {
        let index = self.tags.get(&tag).copied();
        index.map_or(0, |index| self.cost_of(index))
    }

    /// Returns the same by index.
    pub(super) fn cost_of(&mut self, index: u32) -> u64 {
        if !self.resident.is_fresh {
            let sums = &mut self.resident.by_launch;
            sums.clear();
            sums.resize(self.launches.slots(), 0);
            for sm in &self.machine.sms {
                sm.add_instructions(sums);
            }
            self.resident.is_fresh = true;
        }
        let running = self.resident.by_launch.get(index as usize);
        self.launches.counters(index).warp_instructions + running.copied().unwrap_or(0)
    }
}
