//! The counters of one client, beside those of its tenant: what accounts by user and job are made of.
//!
//! Rules: as for the tenants' counters, only the dispatcher adds, with a load and a store, and every access is
//! `Relaxed`: a counter publishes nothing but itself. The control thread makes the counters and frees them.

use super::accounting::{add, read};
use gridmux_policy::shape::SmUnits;
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
// Not the shim's: figures that order nothing, so that the loom test need not see them.
use std::sync::atomic::AtomicU64;

/// Counters of one client, written by the dispatcher.
#[derive(Debug, Default)]
pub struct ClientCounters {
    launches: AtomicU64,
    failed: AtomicU64,
    bytes_copied: AtomicU64,
    sm_ns: AtomicU64,
}

/// A reading of [`ClientCounters`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientUsage {
    /// Launches that ended without an error.
    pub launches: u64,
    /// Operations that ended with an error, those that were refused included.
    pub failed: u64,
    /// Bytes copied either way.
    pub bytes_copied: u64,
    /// SM · nanoseconds of device time: for each block that has left its SM, how long it resided there times the part
    /// of an SM that it held by its dominant resource.
    pub sm_ns: u64,
}

impl ClientCounters {
    pub(in crate::dispatch) fn completed(&self, is_launch: bool, ok: bool) {
        add(&self.launches, (is_launch && ok).into());
        add(&self.failed, (!ok).into());
    }

    pub(in crate::dispatch) fn copied(&self, bytes: u64) {
        add(&self.bytes_copied, bytes);
    }

    /// Counts blocks that left their SMs: for how long they resided there, all together, and the part of an SM that
    /// one of them holds.
    pub(in crate::dispatch) fn retired(&self, resided: Nanos, part: SmUnits) {
        let bits = SmUnits::ONE.0.trailing_zeros();
        // Rounded to the nearest, so that many short blocks do not add up to an error.
        let half = 1_u128 << (bits - 1);
        let sm_ns = (u128::from(resided.0) * u128::from(part.0) + half) >> bits;
        add(&self.sm_ns, u64::try_from(sm_ns).unwrap_or(u64::MAX));
    }

    /// Reads every counter.
    #[must_use]
    pub fn read(&self) -> ClientUsage {
        ClientUsage {
            launches: read(&self.launches),
            failed: read(&self.failed),
            bytes_copied: read(&self.bytes_copied),
            sm_ns: read(&self.sm_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientCounters, ClientUsage};
    use gridmux_policy::shape::SmUnits;
    use gridmux_policy::units::Nanos;

    #[test]
    fn blocks_count_by_the_part_of_an_sm_that_they_hold() {
        let counters = ClientCounters::default();
        counters.retired(Nanos(1000), SmUnits(SmUnits::ONE.0 / 4));
        counters.retired(Nanos(8), SmUnits::ONE);
        counters.retired(Nanos(3), SmUnits(SmUnits::ONE.0 / 4));
        counters.completed(true, true);
        counters.completed(true, false);
        counters.completed(false, true);
        counters.copied(7);
        let expected = ClientUsage {
            launches: 1,
            failed: 1,
            bytes_copied: 7,
            sm_ns: 259,
        };
        assert_eq!(counters.read(), expected);
    }
}
