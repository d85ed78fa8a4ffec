//! The gang that is being placed: a launch whose blocks may wait for each other
//! ([`Kernel::is_gang`](gridmux_ptx::Kernel::is_gang)). Those that have started hold their room in vain until the last
//! one starts.
//!
//! Rules: there is one at a time, because two that hold a part of the device each would wait for each other for ever.
//! While it is being placed no other launch goes to the device, so that it gets the room of what ends there; its tenant
//! is charged for what it holds meanwhile, as for any block. Where the device only estimates which blocks have started
//! ([`Residency`](crate::device::Residency)), because a gang goes whole and writes no stamps, its turn ends with the
//! launch. A gang keeps others back for at most [`MOST_NS`]; beyond that it waits for room beside them. All gangs
//! together do so for at most a tenth of the time in the long run, [`BURST_NS`] at once aside: where they have had that,
//! the next one begins later, because a gang that is not placed holds its room in vain. Who is alone waits for nothing.

use super::piece::Attempt;
use crate::device::Tag;
use gridmux_policy::units::Nanos;

/// Longest time for which a gang keeps others back, in nanoseconds.
const MOST_NS: u64 = 2_000_000;
/// For how long others may be kept back after a long time without gangs, before the next gang waits, in nanoseconds.
const BURST_NS: u64 = 500_000;
/// Others are kept back for at most one `PARTS`th of the time in the long run.
const PARTS: u64 = 10;

/// The gang that is being placed, if there is one, and for how long others may be kept back.
#[derive(Debug)]
pub(in crate::dispatch) struct GangTurn {
    placing: Option<Placing>,
    /// When the time for which others were kept back will be at most one [`PARTS`]th of all.
    repaid_at: Nanos,
    /// Gangs wait for their turn until then.
    rests_until: Nanos,
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
            repaid_at: Nanos::ZERO,
            rests_until: Nanos::ZERO,
        }
    }
}

impl GangTurn {
    /// Begins the turn of a gang.
    pub(super) fn begin(&mut self, tag: Tag, now: Nanos) {
        self.placing = Some(Placing { tag, since: now });
    }

    /// Ends the turn of a gang that has all its blocks on the device, or has left it; returns whether it had the turn.
    pub(super) fn end(&mut self, tag: Tag, now: Nanos) -> bool {
        let placed = self.placing.take_if(|placing| placing.tag == tag);
        if let Some(placing) = placed {
            let kept_back = (now - placing.since).0.min(MOST_NS);
            self.repaid_at = self.repaid_at.max(placing.since) + Nanos(kept_back * PARTS);
            self.rests_until = Nanos(self.repaid_at.0.saturating_sub(BURST_NS * PARTS));
        }
        placed.is_some()
    }

    /// Returns whether the time for which gangs wait for their turn has just passed.
    pub(in crate::dispatch) fn has_rested(&mut self, now: Nanos) -> bool {
        let is_over = self.rests_until > Nanos::ZERO && self.rests_until <= now;
        if is_over {
            self.rests_until = Nanos::ZERO;
        }
        is_over
    }

    /// Returns until when a gang keeps others back, or gangs wait for their turn, if that is in the future.
    pub(in crate::dispatch) fn waits_until(&self, now: Nanos) -> Option<Nanos> {
        let placing = self.placing.map(|placing| placing.since + Nanos(MOST_NS));
        let until = placing.unwrap_or(self.rests_until);
        (until > now).then_some(until)
    }

    /// Returns what keeps a launch from the device because of a gang that is being placed, or was; `competes` says
    /// whether other tenants have work.
    pub(super) fn keeps_back(&self, is_gang: bool, competes: bool, now: Nanos) -> Option<Attempt> {
        match (self.placing, is_gang) {
            (Some(_), true) => Some(Attempt::Blocked),
            (Some(placing), false) => {
                ((now - placing.since).0 < MOST_NS).then_some(Attempt::DeviceFull)
            }
            (None, true) if competes && now < self.rests_until => Some(Attempt::NotItsTurn),
            (None, _) => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Attempt, BURST_NS, GangTurn, MOST_NS, PARTS};
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
    fn a_gang_keeps_others_back_while_it_is_placed() {
        let mut turn = GangTurn::default();
        assert_eq!(turn.keeps_back(false, true, Nanos(0)), None);
        assert_eq!(turn.waits_until(Nanos(0)), None);
        turn.begin(FIRST, Nanos(0));
        let (last, over) = (Nanos(MOST_NS - 1), Nanos(MOST_NS));
        assert_eq!(turn.waits_until(last), Some(over));
        assert_eq!(turn.waits_until(over), None);
        for now in [Nanos(9), last, over] {
            assert_eq!(turn.keeps_back(true, true, now), Some(Attempt::Blocked));
        }
        assert_eq!(
            turn.keeps_back(false, true, last),
            Some(Attempt::DeviceFull)
        );
        assert_eq!(turn.keeps_back(false, true, over), None);
        assert!(!turn.end(SECOND, over), "another one's end");
        assert!(turn.end(FIRST, over));
        assert_eq!(turn.keeps_back(false, true, over), None);
    }

    #[test]
    fn gangs_keep_others_back_for_a_tenth_of_the_time() {
        let mut turn = GangTurn::default();
        let each = BURST_NS / 5;
        let mut now = Nanos(0);
        // The first ones have their turns at once.
        for _ in 0..5 {
            assert_eq!(turn.keeps_back(true, true, now), None);
            turn.begin(FIRST, now);
            now = now + Nanos(each);
            assert!(turn.end(FIRST, now));
        }
        // What was repaid meanwhile is another turn's.
        let mut turns = 5;
        while now < Nanos(100 * BURST_NS) {
            match turn.keeps_back(true, true, now) {
                Some(rests) => {
                    assert_eq!(rests, Attempt::NotItsTurn);
                    assert_eq!(turn.keeps_back(true, false, now), None, "it is alone");
                    assert!(!turn.has_rested(now));
                    now = turn.waits_until(now).expect("it rests");
                    assert!(turn.has_rested(now));
                    assert!(!turn.has_rested(now), "it is said once");
                }
                None => {
                    turn.begin(SECOND, now);
                    now = now + Nanos(each);
                    assert!(turn.end(SECOND, now));
                    turns += 1;
                }
            }
        }
        let kept_back = turns * each;
        let most = BURST_NS + now.0 / PARTS + each;
        assert!(kept_back <= most, "{kept_back} of {}", now.0);
        assert!(kept_back >= now.0 / PARTS, "{kept_back} of {}", now.0);
    }
}
