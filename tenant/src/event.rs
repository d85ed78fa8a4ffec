//! The end of a launch.

use crate::error::ClientError;
use crate::link::LinkRef;
use gridmux_channel::ring::CompletionStatus;
use std::cell::Cell;

/// A launch that was submitted. An event that is dropped leaves a failure to
/// [`crate::Stream::synchronize`].
#[derive(Debug)]
pub struct Event {
    link: LinkRef,
    cookie: u64,
    timing: Cell<Option<Timing>>,
}

/// When the device executed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Nanoseconds of the device's clock when it started.
    pub start_ns: u64,
    /// Nanoseconds of the device's clock when it ended.
    pub end_ns: u64,
    /// How it ended.
    pub status: CompletionStatus,
}

impl Event {
    pub(crate) fn new(link: LinkRef, cookie: u64) -> Self {
        Self {
            link,
            cookie,
            timing: Cell::new(None),
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The launch failed ([`ClientError::Failed`], reported once), or the
    /// device was lost.
    pub fn wait(&self) -> Result<Timing, ClientError> {
        if let Some(timing) = self.timing.get() {
            return Ok(timing);
        }
        let mut link = self.link.borrow_mut();
        link.reap()?;
        let (operation, entry) = loop {
            if let Some(done) = link.pending.take(self.cookie) {
                break done;
            }
            if !link.wait_one()? {
                return Err(ClientError::DeviceLost("its event was reported before"));
            }
        };
        link.judge(operation, &entry)?;
        let (start_ns, end_ns) = (entry.start_ns, entry.end_ns);
        let timing = Timing {
            start_ns,
            end_ns,
            status: CompletionStatus::Ok,
        };
        self.timing.set(Some(timing));
        Ok(timing)
    }

    /// Whether it has ended, without waiting.
    ///
    /// # Errors
    /// The rings are corrupt.
    pub fn is_done(&self) -> Result<bool, ClientError> {
        if self.timing.get().is_some() {
            return Ok(true);
        }
        let mut link = self.link.borrow_mut();
        link.reap()?;
        Ok(link.pending.is_done(self.cookie))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.link.borrow_mut().pending.unwatch(self.cookie);
    }
}
