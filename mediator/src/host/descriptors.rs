//! Descriptors of this process that tenants hold: their connections, processes, rings and buffers.
//!
//! Rule: a tenant holds no more than an equal part of what the process may have, with a part for a tenant that may yet
//! come, so that nobody can take the last ones.

use nix::sys::resource::{Resource, getrlimit};
use std::cell::Cell;

/// Descriptors that the host itself needs.
const OWN: u64 = 64;
/// Descriptors that a client takes besides its buffers: connection, process, rings and doorbell, some of them twice.
pub(super) const OF_A_CLIENT: u64 = 8;
/// Least part of a tenant, with which it can have a client with some buffers.
const LEAST: u64 = 32;

/// The descriptors of this process that tenants share.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Tenants with clients.
    present: Cell<u64>,
}

impl Descriptors {
    /// Returns how many descriptors one tenant may hold, by the limit that this process has now.
    pub(super) fn of_a_tenant(&self) -> u64 {
        // Where that is not told, it is the least that a system gives (getrlimit(2)).
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        self.part_of(limit)
    }

    fn part_of(&self, limit: u64) -> u64 {
        (limit.saturating_sub(OWN) / (self.present.get() + 1)).max(LEAST)
    }

    /// Takes note of a tenant whose first client came.
    pub(super) fn came(&self) {
        self.present.set(self.present.get() + 1);
    }

    /// Takes note of a tenant whose last client left.
    pub(super) fn left(&self) {
        self.present.set(self.present.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, LEAST, OWN};

    #[test]
    fn every_tenant_has_an_equal_part_and_one_stays_free() {
        let descriptors = Descriptors::default();
        descriptors.came();
        assert_eq!(descriptors.part_of(OWN + 600), 300);
        descriptors.came();
        assert_eq!(descriptors.part_of(OWN + 600), 200);
        descriptors.left();
        assert_eq!(descriptors.part_of(OWN + 600), 300);
        assert_eq!(descriptors.part_of(0), LEAST);
    }
}
