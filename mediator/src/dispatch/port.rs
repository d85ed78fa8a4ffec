//! The dispatcher's view of one tenant's channel, so that tests can put a scripted tenant in its place.

use gridmux_channel::ring::host::{HostRings, TenantState};
use gridmux_channel::ring::{CompletionEntry, RingError, SubmissionEntry};

/// One tenant's rings. No call blocks, allocates, or takes a lock.
pub trait TenantPort {
    /// The next submission, copied out of shared memory once.
    ///
    /// # Errors
    /// The tenant broke the ring protocol; its channel is lost.
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, RingError>;
    /// Copies kernel parameters out of the argument area.
    ///
    /// # Errors
    /// The range lies outside the area.
    fn read_args(&self, offset: u32, out: &mut [u8]) -> Result<(), RingError>;
    /// Puts a completion into the ring; `false` when it is full.
    fn complete(&mut self, entry: &CompletionEntry) -> bool;
    /// Wakes the tenant if it sleeps.
    fn wake(&mut self);
    /// Tells the tenant whether a submission needs a doorbell write; returns whether work arrived meanwhile.
    fn set_armed(&mut self, armed: bool) -> bool;
    /// What the tenant says of itself.
    fn state(&self) -> TenantState;
}

impl TenantPort for HostRings {
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, RingError> {
        Self::pop(self)
    }

    fn read_args(&self, offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        Self::read_args(self, offset, out)
    }

    fn complete(&mut self, entry: &CompletionEntry) -> bool {
        self.push_completion(entry).is_ok()
    }

    fn wake(&mut self) {
        if self.needs_wake() {
            Self::wake(self);
        }
    }

    fn set_armed(&mut self, armed: bool) -> bool {
        if armed { self.arm() } else { self.disarm(); false }
    }

    fn state(&self) -> TenantState {
        self.tenant_state()
    }
}
