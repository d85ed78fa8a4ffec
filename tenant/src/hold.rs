//! Holds: places in a stream where something on the host is to be done,
//! between what was submitted before and what is submitted behind.
//!
//! Who makes a hold waits until the stream has come there
//! ([`Gpu::wait_reached`]), does what it has to, and releases it
//! ([`Gpu::release`]). A hold that is never released keeps its stream for ever.
//! The release is a word in shared memory and not a submission, because the
//! ring may be full of what stands behind the hold.

use crate::error::{ClientError, Lost};
use crate::gpu::Gpu;
use crate::pending::Watch;
use crate::raw::Mark;
use crate::stream::Stream;
use gridmux_channel::ring::Operation;

/// A place in a stream that nothing passes before it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    stream: u16,
    /// Of the barrier in front of it.
    barrier: u64,
    /// Holds of the stream up to and with this one.
    count: u64,
}

impl Stream {
    /// Submits a hold and returns its mark. `note` is told of it before anything can have found out that the stream
    /// has come to it; it must not use the client.
    ///
    /// # Errors
    /// The device was lost; then `note` may have been called.
    pub fn hold(&self, note: impl FnOnce(Hold)) -> Result<Mark, ClientError> {
        let _holding = self.holding.lock();
        let mut core = self.link.enter()?;
        let mut ticket = self.ticket("barrier", None);
        ticket.watch = Watch::Result;
        let barrier = self.link.submit(&mut core, Operation::Barrier, ticket)?;
        let state = core.pending.stream(self.id());
        state.holds += 1;
        let count = state.holds;
        note(Hold {
            stream: self.id(),
            barrier,
            count,
        });
        let ticket = self.ticket("hold", None);
        let cookie = self
            .link
            .submit(&mut core, Operation::Hold { count }, ticket)?;
        Ok(self.mark(&mut core, cookie))
    }
}

impl Gpu {
    /// Waits until `look` finds something. It is called anew whenever something completed, with a function that says
    /// whether a stream has come to a hold; for each hold that says so once. `look` must not use the client.
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_reached<T>(
        &self,
        mut look: impl FnMut(&mut dyn FnMut(&Hold) -> bool) -> Option<T>,
    ) -> Result<T, ClientError> {
        let mut core = self.link.enter()?;
        let found = self.link.wait_for(&mut core, |core| {
            look(&mut |hold| core.pending.take(hold.barrier).is_some())
        })?;
        found.ok_or(ClientError::DeviceLost(Lost::Missing))
    }

    /// Releases a hold that its stream has come to.
    ///
    /// # Errors
    /// The device was lost.
    pub fn release(&self, hold: Hold) -> Result<(), ClientError> {
        self.link.release(hold.stream, hold.count)
    }
}
