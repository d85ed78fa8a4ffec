//! The gang that is being placed: a launch whose blocks may wait for each other
//! ([`Kernel::is_gang`](gridmux_ptx::Kernel::is_gang)). Those that have started hold their room in vain until the last
//! one starts.
//!
//! Rules: there is one at a time, because two that hold a part of the device each would wait for each other for ever.
//! While it is being placed no other launch goes to the device, so that it gets the room of what ends there; its tenant
//! is charged for what it holds meanwhile, as for any block. Where the device only estimates which blocks have started
//! ([`Residency`](crate::device::Residency)), because a gang goes whole and writes no stamps, its turn ends with the
//! launch. All gangs together keep others back for at most
//! [`MOST_NS`] at once and for at most a tenth of the time in the long run; beyond that a gang waits for room beside
//! them.

use super::piece::Attempt;
use crate::device::Tag;
use gridmux_policy::units::Nanos;

/// Longest time for which others are kept back at once, in nanoseconds: some windows.
const MOST_NS: u64 = 2_000_000;
/// Others are kept back for at most one `PARTS`th of the time in the long run.
const PARTS: u64 = 10;

/// The gang that is being placed, if there is one, and for how long others may be kept back.
#[derive(Debug)]
pub(in crate::dispatch) struct GangTurn {
    placing: Option<Placing>,
    /// For how long others may be kept back as of `at`, in nanoseconds.
    credit_ns: u64,
    at: Nanos,
}

/// A gang of which some blocks have not started.
#[derive(Debug, Clone, Copy)]
struct Placing {
    tag: Tag,
    since: Nanos,
}

impl Default for GangTurn {
    fn default() -> Self {
        Self {
            placing: None,
            credit_ns: MOST_NS,
            at: Nanos::ZERO,
        }
    }
}

impl GangTurn {
    /// Begins the turn of a gang.
    pub(super) fn begin(&mut self, tag: Tag, now: Nanos) {
        let earned = (now - self.at).0 / PARTS;
        self.credit_ns = self.credit_ns.saturating_add(earned).min(MOST_NS);
        self.placing = Some(Placing { tag, since: now });
    }

    /// Ends the turn of a gang that has all its blocks on the device, or has left it; returns whether it had the turn.
    pub(super) fn end(&mut self, tag: Tag, now: Nanos) -> bool {
        let placed = self.placing.take_if(|placing| placing.tag == tag);
        if let Some(placing) = placed {
            self.credit_ns = self.credit_ns.saturating_sub((now - placing.since).0);
            self.at = now;
        }
        placed.is_some()
    }

    /// Returns until when launches that are no gangs are kept back, if that is in the future.
    pub(in crate::dispatch) fn keeps_back_until(&self, now: Nanos) -> Option<Nanos> {
        let until = self.placing?.since + Nanos(self.credit_ns);
        (until > now).then_some(until)
    }

    /// Returns what keeps a launch from the device because of a gang that is being placed.
    pub(super) fn keeps_back(&self, is_gang: bool, now: Nanos) -> Option<Attempt> {
        let placing = self.placing?;
        match is_gang {
            true => Some(Attempt::Blocked),
            false => ((now - placing.since).0 < self.credit_ns).then_some(Attempt::DeviceFull),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Attempt, GangTurn, MOST_NS, PARTS};
    use crate::device::{LaneId, Tag};
    use gridmux_policy::units::Nanos;

    const FIRST: Tag = Tag {
        lane: LaneId(0),
        generation: 1,
    };
    const SECOND: Tag = Tag {
        lane: LaneId(0),
        generation: 2,
    };

    #[test]
    fn others_are_kept_back_for_a_tenth_of_the_time() {
        let mut turn = GangTurn::default();
        assert_eq!(turn.keeps_back(false, Nanos(0)), None);
        assert_eq!(turn.keeps_back_until(Nanos(0)), None);
        turn.begin(FIRST, Nanos(0));
        assert_eq!(turn.keeps_back(true, Nanos(9)), Some(Attempt::Blocked));
        let last = Nanos(MOST_NS - 1);
        assert_eq!(turn.keeps_back_until(last), Some(Nanos(MOST_NS)));
        assert_eq!(turn.keeps_back_until(Nanos(MOST_NS)), None);
        assert_eq!(turn.keeps_back(false, last), Some(Attempt::DeviceFull));
        let over = Nanos(MOST_NS);
        assert_eq!(turn.keeps_back(false, over), None);
        assert_eq!(turn.keeps_back(true, over), Some(Attempt::Blocked));
        assert!(!turn.end(SECOND, over), "another one's end");
        assert!(turn.end(FIRST, over));
        assert_eq!(turn.keeps_back(true, over), None);
        // What was used comes back by parts.
        turn.begin(SECOND, over + Nanos(50 * PARTS));
        let later = |ns| over + Nanos(50 * PARTS + ns);
        assert_eq!(turn.keeps_back(false, later(49)), Some(Attempt::DeviceFull));
        assert_eq!(turn.keeps_back(false, later(50)), None);
    }
}
