//! Buffers of a DRAM controller: those of its queue and those of data on their way back.
//!
//! Rule: a request has buffers from its entrance until its data have left the controller, so that few of them bound
//! what is on its way, as many as latency times bandwidth asks for where they are to be enough.

use std::collections::VecDeque;

/// The controller's buffers, and which requests hold them.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Sectors that they hold.
    limit: u32,
    held: u32,
    /// When those of served requests are free, and how many.
    freed: VecDeque<(u64, u32)>,
    /// From the end of a transfer until its buffers are free.
    hold: u64,
}

impl Buffers {
    /// Buffers of `limit` sectors, each free again `hold` after its transfer's end.
    pub(super) fn new(limit: u32, hold: u64) -> Self {
        Self {
            limit,
            held: 0,
            freed: VecDeque::new(),
            hold,
        }
    }

    /// Frees what is due by `now`.
    pub(super) fn free(&mut self, now: u64) {
        while let Some((_, sectors)) = self.freed.pop_front_if(|(at, _)| *at <= now) {
            self.held -= sectors;
        }
    }

    /// Takes buffers for a request of `sectors` sectors; false when there are too few.
    pub(super) fn take(&mut self, sectors: u32) -> bool {
        // A request of more sectors than there are buffers goes alone.
        let fits = self.held == 0 || self.held + sectors <= self.limit;
        self.held += if fits { sectors } else { 0 };
        fits
    }

    /// Notes that the transfer of a request ends at `end`.
    pub(super) fn served(&mut self, sectors: u32, end: u64) {
        self.freed.push_back((end + self.hold, sectors));
    }

    /// Returns when the next are free, as far as transfers tell.
    pub(super) fn next_free(&self) -> u64 {
        self.freed.front().map_or(u64::MAX, |(at, _)| *at)
    }
}
