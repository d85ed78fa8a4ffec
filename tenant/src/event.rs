//! The end of something that was submitted.

use crate::error::{ClientError, Lost};
use crate::link::{Link, LinkRef};
use gridmux_channel::ring::{CompletionEntry, CompletionStatus};
use std::sync::{Arc, OnceLock};

/// The end of a launch, or of everything before it on its stream
/// ([`crate::Stream::record`]). Any number of threads may wait for it. An
/// event that is dropped before anybody waited for it leaves a failure to
/// [`crate::Stream::synchronize`].
#[derive(Debug)]
pub struct Event {
    link: LinkRef,
    cookie: u64,
    ended: OnceLock<Ended>,
    /// The mediator's text if it failed, asked for once.
    message: OnceLock<String>,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    operation: &'static str,
    entry: CompletionEntry,
}

/// When the device executed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Nanoseconds of the device's clock when it started.
    pub start_ns: u64,
    /// Nanoseconds of the device's clock when it ended.
    pub end_ns: u64,
    /// The status with which it ended.
    pub status: CompletionStatus,
}

impl Event {
    pub(crate) fn new(link: LinkRef, cookie: u64) -> Self {
        Self {
            link,
            cookie,
            ended: OnceLock::new(),
            message: OnceLock::new(),
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The operation failed ([`ClientError::Failed`], the same at each call),
    /// or the device was lost.
    pub fn wait(&self) -> Result<Timing, ClientError> {
        if let Some(ended) = self.ended.get() {
            return self.judge(ended);
        }
        let mut core = self.link.enter()?;
        let found = self.link.wait_for(&mut core, |core| {
            // Under the lock, so that of two threads the second finds what the first took.
            if self.ended.get().is_none() {
                let (operation, entry) = core.pending.take(self.cookie)?;
                let _ = self.ended.set(Ended { operation, entry });
            }
            Some(())
        })?;
        drop(core);
        match (found, self.ended.get()) {
            (Some(()), Some(ended)) => self.judge(ended),
            _ => Err(ClientError::DeviceLost(Lost::Missing)),
        }
    }

    fn judge(&self, ended: &Ended) -> Result<Timing, ClientError> {
        let entry = &ended.entry;
        let status = CompletionStatus::try_from(entry.status);
        match status.map_err(ClientError::UnknownStatus)? {
            CompletionStatus::Ok => Ok(Timing {
                start_ns: entry.start_ns,
                end_ns: entry.end_ns,
                status: CompletionStatus::Ok,
            }),
            status => {
                let explain = || self.link.explain(self.cookie, status);
                Err(ClientError::Failed {
                    operation: ended.operation,
                    status,
                    message: self.message.get_or_init(explain).clone(),
                })
            }
        }
    }

    /// Returns whether it has ended, without waiting.
    ///
    /// # Errors
    /// The rings are corrupt.
    pub fn is_done(&self) -> Result<bool, ClientError> {
        if self.ended.get().is_some() {
            return Ok(true);
        }
        let mut core = self.link.look()?;
        // Taken by another thread meanwhile, it has ended too.
        Ok(core.pending.is_done(self.cookie) || self.ended.get().is_some())
    }

    /// Returns when the device executed it, once it has ended, however it did. A failure is left to whoever asks the
    /// stream after the event was dropped.
    ///
    /// # Errors
    /// The rings are corrupt.
    pub fn timing(&self) -> Result<Option<Timing>, ClientError> {
        let mut core = self.link.look()?;
        let entry = match self.ended.get() {
            Some(ended) => Some(ended.entry),
            None => core.pending.peek(self.cookie),
        };
        let Some(entry) = entry else {
            return Ok(None);
        };
        let status = CompletionStatus::try_from(entry.status);
        Ok(Some(Timing {
            start_ns: entry.start_ns,
            end_ns: entry.end_ns,
            status: status.map_err(ClientError::UnknownStatus)?,
        }))
    }

    /// Returns the cookie of its submission, for an operation over `link`.
    pub(crate) fn cookie(&self, link: &Arc<Link>) -> Result<u64, ClientError> {
        if !Arc::ptr_eq(link, &self.link) {
            return Err(ClientError::Foreign("event"));
        }
        Ok(self.cookie)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(mut core) = self.link.enter() {
            core.pending.unwatch(self.cookie);
        }
    }
}
