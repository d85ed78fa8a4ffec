//! Copy engines: how long copies take, one engine per direction.
//!
//! Rule: an engine takes its copies in order; setup and transfer of one copy are not overlapped with the next.

use crate::config::GpuConfig;
use crate::launch::{Copy, CopyEngine};
use std::collections::VecDeque;

/// A copy that will be complete at a known time.
#[derive(Debug, Clone, Copy)]
struct CopyInFlight {
    tag: u64,
    at: u64,
}

/// Both engines.
#[derive(Debug, Default)]
pub(crate) struct CopyQueues {
    in_flight: [VecDeque<CopyInFlight>; 2],
    free_at: [u64; 2],
}

impl CopyQueues {
    pub(crate) fn submit(&mut self, config: &GpuConfig, copy: Copy, now: u64) {
        let (engine, rate) = match copy.engine {
            CopyEngine::H2D => (0, config.copy.h2d_gigabytes_per_second),
            CopyEngine::D2H => (1, config.copy.d2h_gigabytes_per_second),
        };
        let setup = config.ns_to_cycles(u64::from(config.copy.latency_ns));
        let at = self.free_at[engine].max(now) + setup + config.transfer_cycles(copy.bytes, rate);
        self.free_at[engine] = at;
        self.in_flight[engine].push_back(CopyInFlight { tag: copy.tag, at });
    }

    pub(crate) fn contains(&self, tag: u64) -> bool {
        self.in_flight.iter().flatten().any(|f| f.tag == tag)
    }

    /// Forgets a copy; the engine's time is spent all the same.
    pub(crate) fn kill(&mut self, tag: u64) -> bool {
        let before = self.len();
        for queue in &mut self.in_flight {
            queue.retain(|f| f.tag != tag);
        }
        self.len() != before
    }

    fn len(&self) -> usize {
        self.in_flight.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        self.in_flight
            .iter()
            .filter_map(|q| q.front())
            .map(|f| f.at)
            .min()
    }

    /// Returns the next copy that is complete before `end`.
    pub(crate) fn pop(&mut self, end: u64) -> Option<(u64, u64)> {
        let queue = self
            .in_flight
            .iter_mut()
            .filter(|q| q.front().is_some_and(|f| f.at < end))
            .min_by_key(|q| q.front().map(|f| f.at))?;
        queue.pop_front().map(|f| (f.tag, f.at))
    }
}
