//! What was used in some time.

use serde::{Deserialize, Serialize};

/// Amounts of use; sums stop at the greatest number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// SM · nanoseconds of device time that blocks held, by their dominant resource.
    pub sm_ns: u128,
    /// Bytes of device memory held, times nanoseconds of wall time.
    pub memory_byte_ns: u128,
    /// Bytes copied either way.
    pub bytes_copied: u64,
    /// Launches that ended without an error.
    pub launches: u64,
    /// Operations that ended with an error.
    pub failed: u64,
}

impl Amounts {
    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.sm_ns = self.sm_ns.saturating_add(other.sm_ns);
        self.memory_byte_ns = self.memory_byte_ns.saturating_add(other.memory_byte_ns);
        self.bytes_copied = self.bytes_copied.saturating_add(other.bytes_copied);
        self.launches = self.launches.saturating_add(other.launches);
        self.failed = self.failed.saturating_add(other.failed);
    }

    /// Returns by how much it is more than what was taken before, and makes that the greater of both: a counter that
    /// went back counts again when it is past where it was.
    pub fn take_since(&self, taken: &mut Self) -> Self {
        let more = Self {
            sm_ns: self.sm_ns.saturating_sub(taken.sm_ns),
            memory_byte_ns: self.memory_byte_ns.saturating_sub(taken.memory_byte_ns),
            bytes_copied: self.bytes_copied.saturating_sub(taken.bytes_copied),
            launches: self.launches.saturating_sub(taken.launches),
            failed: self.failed.saturating_sub(taken.failed),
        };
        taken.add(&more);
        more
    }

    /// Returns whether nothing was used.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::Amounts;

    #[test]
    fn a_counter_that_goes_back_counts_when_it_is_past_where_it_was() {
        let of = |launches| Amounts {
            launches,
            ..Amounts::default()
        };
        let mut taken = Amounts::default();
        let more = [5, 9, 2, 9, 10, u64::MAX, 3].map(|count| of(count).take_since(&mut taken));
        let launches = more.map(|more| more.launches);
        assert_eq!(launches, [5, 4, 0, 0, 1, u64::MAX - 10, 0]);
        assert!(more[2].is_nothing() && !more[4].is_nothing());
    }
}
