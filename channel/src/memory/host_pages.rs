//! Memory of ours that tenants' files take.
//!
//! A page of a memfd is charged to the process that touches it first. A copy into a hole of a tenant's memfd thus
//! takes memory of the mediator's for as long as the tenant keeps the memfd, which the mediator cannot know.
//! Well-behaved clients give their buffers memory first ([`super::SealedMemfd::fill_holes`]).
//!
//! Rule: what was taken is never given back, and beyond a limit copies into buffers with holes are refused.

// Not the shim's: a count that orders nothing, so that a loom test need not see it.
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes that the files of one owner take, unless it is said otherwise: 64 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// Memory that the files of one owner have taken.
#[derive(Debug)]
pub struct HostPages {
    taken: AtomicU64,
    most: u64,
}

impl Default for HostPages {
    fn default() -> Self {
        Self::new(MOST_BYTES)
    }
}

impl HostPages {
    /// Makes an account in which nothing is taken, with a limit in bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            taken: AtomicU64::new(0),
            most,
        }
    }

    /// Returns whether nothing more may be taken.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        // Relaxed: a count that publishes nothing else; copies that run at once may each pass it by a piece.
        self.taken.load(Ordering::Relaxed) >= self.most
    }

    /// Takes note of memory that a copy took, in bytes.
    pub fn take(&self, bytes: u64) {
        // Relaxed: as above.
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }
}
