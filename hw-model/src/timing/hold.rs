//! Back-pressure: a store that the SM's port or the line's partition cannot take yet holds the load/store unit.
//!
//! A store waits for no answer, so that nothing but this keeps a kernel from storing faster than memory takes it.
//! Rules: the unit takes the next access, load or store, when the port has at most [`SEND_QUEUE`] cycles of work before
//! it; what an SM knows of a partition is from the end of the last epoch; an access that meets a partition behind is
//! sent still, whole, and the unit takes the next one when the first such partition that it met has caught up. What a
//! context switch writes counts as a store: the SM's next access waits for the partition that it met.

use super::memory_system::Home;
use super::sm::{Epoch, Sm, UNKNOWN};
use crate::config::GpuConfig;

/// Cycles of the port's work that may lie before it: the 16 entries of the L1's miss queue in GPGPU-Sim's V100
/// configuration, each a line that the port takes in four cycles.
const SEND_QUEUE: u64 = 64;

/// What an SM's stores wait for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hold {
    /// First cycle at which the next access may follow; [`UNKNOWN`] until fewer than `l2.queue` writes of the
    /// partition wait for DRAM.
    until: u64,
    group: u16,
    partition: u16,
}

impl Hold {
    fn look(&mut self, epoch: &Epoch<'_>) {
        self.until = epoch.groups[usize::from(self.group)].holds_stores_until(self.partition);
    }
}

impl Sm {
    /// Notes that a store goes to a partition.
    #[inline]
    pub(super) fn heed(&mut self, home: &Home, epoch: &Epoch<'_>) {
        let (group, partition) = (home.group, home.partition);
        let until = epoch.groups[usize::from(group)].holds_stores_until(partition);
        if until > self.lsu.hold.until {
            self.lsu.hold = Hold {
                until,
                group,
                partition,
            };
        }
    }

    /// Lets the unit wait for the port, and for what the stores of the last access met.
    #[inline]
    pub(super) fn hold_unit(&mut self) {
        let port = self.port.free_at().saturating_sub(SEND_QUEUE);
        self.lsu.free_at = self.lsu.free_at.max(self.lsu.hold.until).max(port);
    }

    /// Looks at the beginning of an epoch whether the partition has caught up.
    pub(super) fn look_at_hold(&mut self, epoch: &Epoch<'_>) {
        if self.lsu.hold.until == UNKNOWN {
            self.lsu.hold.look(epoch);
            self.release_unit(epoch.start, epoch.config);
        }
    }

    /// Lets the unit go on at a cycle if nothing more keeps it: neither a miss register, nor room in a set of L1, nor a
    /// partition.
    pub(super) fn release_unit(&mut self, at: u64, config: &GpuConfig) {
        let registers = self.lsu.misses_in_flight < config.l1.mshrs;
        let room = self
            .lsu
            .crowded
            .is_none_or(|line| self.caches.l1.has_room(line));
        let caught_up = self.lsu.hold.until != UNKNOWN;
        if self.lsu.free_at == UNKNOWN && registers && room && caught_up {
            self.lsu.crowded = None;
            self.lsu.free_at = at.max(self.lsu.hold.until);
        }
    }
}
