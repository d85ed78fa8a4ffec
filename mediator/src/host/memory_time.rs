//! The time integral of the device memory that a client holds, for accounts.
//!
//! What is published changes only when the memory does: the integral until its last change, and when that was. Who
//! reads it adds what has passed since ([`MemoryTime::until`]), so that an idle client that holds memory costs the host
//! nothing.
//!
//! Rule: the control thread notes a change after each request of the client and before each page of statistics, so
//! that an integral is off by at most a page's interval.

use crate::link::MemoryTime;
use std::cell::Cell;

/// The integral of one client.
#[derive(Debug, Default)]
pub(super) struct MemoryClock(Cell<MemoryTime>);

impl MemoryClock {
    /// Begins to count for a client that holds nothing.
    pub(super) fn new(now_ns: u64) -> Self {
        Self(Cell::new(MemoryTime {
            since_ns: now_ns,
            ..MemoryTime::default()
        }))
    }

    /// Takes note of what the client holds now; returns the integral.
    pub(super) fn note(&self, bytes: u64, now_ns: u64) -> MemoryTime {
        let before = self.0.get();
        if before.bytes != bytes {
            self.0.set(MemoryTime {
                bytes,
                byte_ns: before.until(now_ns),
                since_ns: now_ns,
            });
        }
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryClock;

    #[test]
    fn the_integral_goes_on_between_changes_and_is_published_anew_at_a_change_only() {
        let clock = MemoryClock::new(100);
        let first = clock.note(10, 200);
        assert_eq!((first.byte_ns, first.until(300)), (0, 1000));
        assert_eq!(clock.note(10, 250), first);
        let second = clock.note(4, 300);
        assert_eq!((second.byte_ns, second.until(310)), (1000, 1040));
        assert_eq!(clock.note(0, 310).until(9999), 1040);
        assert_eq!(second.until(0), 1000, "a time before the last change");
    }
}
