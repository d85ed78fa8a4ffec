//! The serial steps of a launch: a host thread submits launches one at a time, the GPU's front end accepts one at a
//! time, and blocks are placed one at a time. Each step has an interval in cycles, which all queues share.
//!
//! Launches of one tenant are submitted by one thread and wait for each other; those of different tenants do not. A
//! program that submits for all tenants, as the mediator does, launches under no row and so has one thread. The first
//! launch of an idle thread waits for nothing: its latency to the first block is `launch.kernel_cycles`.
//! Rules: a turn that no launch took is lost; the turn of a launch that is killed is not given back, because it has
//! been submitted. An interval may be a fraction of a cycle; turns begin at whole cycles.

use gridmux_policy::ids::TenantId;

/// Bits of a cycle's fraction.
const FRACTION: u32 = 16;

/// A step that serves one launch at a time, at least an interval apart.
#[derive(Debug)]
pub(crate) struct Turns {
    /// In 2^-16 cycles.
    interval: u64,
    next_at: u64,
    /// How much later than `next_at` the next turn would be, in 2^-16 cycles.
    fraction: u64,
}

impl Turns {
    /// Returns turns of which none was taken, `interval` cycles apart.
    pub(crate) fn new(interval: f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "descriptions are checked, and scaled by 1024 at most; the cast saturates"
        )]
        let interval = (interval * f64::from(1 << FRACTION)).round() as u64;
        Self {
            interval,
            next_at: 0,
            fraction: 0,
        }
    }

    /// Returns the first cycle of the next turn.
    pub(crate) fn next_at(&self) -> u64 {
        self.next_at
    }

    /// Takes a turn at `at`, which is not before [`Turns::next_at`].
    pub(crate) fn take(&mut self, at: u64) {
        if at > self.next_at {
            self.fraction = 0;
        }
        let passed = self.fraction.saturating_add(self.interval);
        self.next_at = at.saturating_add(passed >> FRACTION);
        self.fraction = passed & ((1 << FRACTION) - 1);
    }
}

/// The threads that submit launches, one for each tenant.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Cycles that a thread takes for a launch.
    submit_cycles: u64,
    /// Tenants whose thread is busy, and until when.
    busy: Vec<(TenantId, u64)>,
}

impl Threads {
    /// Returns the threads that are idle and take `submit_cycles` for a launch.
    pub(crate) fn new(submit_cycles: u64) -> Self {
        Self {
            submit_cycles,
            busy: Vec::with_capacity(16),
        }
    }

    /// Takes note of a tenant's launch at `now`; returns when its thread comes to it.
    pub(crate) fn submit(&mut self, tenant: TenantId, now: u64) -> u64 {
        self.busy.retain(|(_, until)| *until > now);
        let known = self.busy.iter_mut().find(|(other, _)| *other == tenant);
        if let Some((_, until)) = known {
            let at = *until;
            *until = until.saturating_add(self.submit_cycles);
            return at;
        }
        if self.submit_cycles > 0 {
            self.busy
                .push((tenant, now.saturating_add(self.submit_cycles)));
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::{Threads, Turns};
    use gridmux_policy::ids::TenantId;

    /// Returns when each of `count` takers has its turn that all come at 0.
    fn turns(interval: f64, count: usize) -> Vec<u64> {
        let mut turns = Turns::new(interval);
        let take = |_| {
            let at = turns.next_at();
            turns.take(at);
            at
        };
        (0..count).map(take).collect()
    }

    #[test]
    fn turns_keep_their_interval_on_average() {
        assert_eq!(turns(1.0, 4), [0, 1, 2, 3]);
        assert_eq!(turns(1.5, 5), [0, 1, 3, 4, 6]);
        assert_eq!(turns(0.25, 9), [0, 0, 0, 0, 1, 1, 1, 1, 2]);
        assert_eq!(turns(19.8, 1001).last(), Some(&19_800));
        // No fraction is carried over an idle time.
        let mut late = Turns::new(1.5);
        late.take(0);
        late.take(10);
        assert_eq!(late.next_at(), 11);
    }

    #[test]
    fn launches_wait_for_their_own_thread() {
        let mut threads = Threads::new(100);
        let (one, two) = (TenantId(1), TenantId(2));
        let submitted = [(one, 0), (one, 0), (two, 50), (one, 50), (two, 500)];
        let times = submitted.map(|(tenant, now)| threads.submit(tenant, now));
        assert_eq!(times, [0, 100, 50, 200, 500]);
        let mut free = Threads::new(0);
        assert_eq!([(); 3].map(|()| free.submit(one, 7)), [7, 7, 7]);
    }
}
