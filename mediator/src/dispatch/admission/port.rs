//! The dispatcher's view of one tenant's channel, so that tests can put a scripted tenant in its place.

#[cfg(not(loom))]
use gridmux_channel::ring::HostState;
#[cfg(not(loom))]
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{CompletionEntry, PushError, RingError, SubmissionEntry, TenantState};

/// One tenant's rings. No call blocks, allocates, or takes a lock.
pub trait TenantPort {
    /// Takes the next submission, copied out of shared memory once.
    ///
    /// # Errors
    /// The tenant broke the ring protocol; its channel is lost.
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt>;
    /// Copies kernel parameters of the newest submission out of the argument area.
    ///
    /// # Errors
    /// The range lies outside the area.
    fn read_args(&self, offset: u32, out: &mut [u8]) -> Result<(), RingError>;
    /// Puts a completion into the ring; the tenant sees it with the next [`TenantPort::wake`].
    ///
    /// # Errors
    /// The ring is full, or the tenant corrupted it.
    fn complete(&mut self, entry: CompletionEntry) -> Result<(), PushError>;
    /// Lets the tenant see every completion that was put into its ring, all at once, and wakes it if it sleeps.
    fn wake(&mut self);
    /// Asks for a doorbell write at the next submission. One [`arm_barrier`] for all tenants follows, and then
    /// [`TenantPort::has_work`].
    fn arm(&mut self);
    /// Returns whether a submission has arrived. Called after [`TenantPort::arm`] and [`arm_barrier`], so that none is
    /// missed.
    fn has_work(&mut self) -> bool;
    /// Returns how many holds of a stream the tenant says that it has released.
    fn released(&self, stream: u16) -> u64;
    /// Asks for no doorbell.
    fn disarm(&mut self);
    /// Returns the state that the tenant reports, whatever is in its ring. A following [`TenantPort::has_work`] sees
    /// whatever it submitted before it reported that state.
    fn state(&mut self) -> TenantState;
    /// Tells the tenant that its channel is closed.
    fn close(&mut self);
    /// Tells the tenant that its channel is closed because the service was stopped.
    fn stop(&mut self);
}

#[cfg(not(loom))]
impl TenantPort for HostRings {
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt> {
        Self::pop(self)
    }

    fn read_args(&self, offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        Self::read_args(self, offset, out)
    }

    fn complete(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        self.stage_completion(entry)
    }

    fn wake(&mut self) {
        self.publish_completions();
        self.wake_if_parked();
    }

    fn arm(&mut self) {
        self.announce();
    }

    fn has_work(&mut self) -> bool {
        // A corrupted ring counts as work, so that the next turn cuts the tenant off.
        self.has_submissions().unwrap_or(true)
    }

    fn released(&self, stream: u16) -> u64 {
        Self::released(self, stream)
    }

    fn disarm(&mut self) {
        Self::disarm(self);
    }

    fn state(&mut self) -> TenantState {
        self.tenant_state()
    }

    fn close(&mut self) {
        self.set_host_state(HostState::Closed);
    }

    fn stop(&mut self) {
        self.set_host_state(HostState::Stopped);
    }
}
