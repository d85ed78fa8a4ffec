//! The gang that is being placed: a launch whose blocks may wait for each other
//! ([`Kernel::is_gang`](gridmux_ptx::Kernel::is_gang)). Those that have started hold their room in vain until the last
//! one starts.
//!
//! Rules: there is one at a time, because two that hold a part of the device each would wait for each other for ever.
//! While it is being placed no other launch goes to the device, so that it gets the room of what ends there; its tenant
//! is charged for what it holds meanwhile, as for any block. Where the device only estimates which blocks have started
//! ([`Residency`](crate::device::Residency)), because a gang goes whole and writes no stamps, its turn ends with the
//! launch.
//!
//! A gang keeps others back for at most [`MOST_NS`]; beyond that it waits for room beside them. In the long run all
//! gangs together do so for a tenth of the time: what exceeds that by [`BURST_NS`] is made up for by a **rest**, in
//! which no gang begins, because one that is not placed holds its room in vain. Only turns in which a launch really
//! was kept back count, and who is alone never rests.

use super::piece::Attempt;
use crate::device::Tag;
use gridmux_policy::units::Nanos;

/// Longest time for which a gang keeps others back, in nanoseconds.
const MOST_NS: u64 = 2_000_000;
/// Time for which others may be kept back beyond their part before the next gang rests, in nanoseconds.
const BURST_NS: u64 = 500_000;
/// Others are kept back for at most one `PARTS`th of the time in the long run.
const PARTS: u64 = 10;

/// The gang that is being placed, if there is one, and for how long others may be kept back.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct GangTurn {
    placing: Option<Placing>,
    /// When the time for which others were kept back will be at most one [`PARTS`]th of all.
    repaid_at: Nanos,
    /// No gang begins before this time.
    rests_until: Nanos,
}

/// A gang of which some blocks have not started.
#[derive(Debug, Clone, Copy)]
struct Placing {
    tag: Tag,
    since: Nanos,
    /// It kept another launch back.
    kept_back: bool,
}

impl GangTurn {
    /// Begins the turn of a gang.
    pub(super) fn begin(&mut self, tag: Tag, now: Nanos) {
        self.placing = Some(Placing {
            tag,
            since: now,
            kept_back: false,
        });
    }

    /// Ends the turn of a gang that has all its blocks on the device, or has left it; returns whether it had the turn.
    pub(super) fn end(&mut self, tag: Tag, now: Nanos) -> bool {
        let Some(placing) = self.placing.take_if(|placing| placing.tag == tag) else {
            return false;
        };
        if placing.kept_back {
            let took = (now - placing.since).0.min(MOST_NS);
            self.repaid_at = self.repaid_at.max(placing.since) + Nanos(took * PARTS);
            self.rests_until = Nanos(self.repaid_at.0.saturating_sub(BURST_NS * PARTS));
        }
        true
    }

    /// Returns whether a rest has just ended, or ends because whose gangs wait is alone.
    pub(in crate::dispatch) fn has_rested(&mut self, has_company: bool, now: Nanos) -> bool {
        let is_over = self.rests_until > Nanos::ZERO && (self.rests_until <= now || !has_company);
        if is_over {
            self.rests_until = Nanos::ZERO;
        }
        is_over
    }

    /// Returns when something changes for those who wait, if that is in the future: others are no longer kept back or,
    /// where a gang waits (`gang_waits`), a rest ends.
    pub(in crate::dispatch) fn waits_until(&self, gang_waits: bool, now: Nanos) -> Option<Nanos> {
        let until = match self.placing {
            Some(placing) => placing.since + Nanos(MOST_NS),
            None if gang_waits => self.rests_until,
            None => Nanos::ZERO,
        };
        (until > now).then_some(until)
    }

    /// Returns what keeps a launch from the device because of a gang that is being placed, or of a rest; `has_company`
    /// says whether other tenants have work, or had some lately.
    pub(super) fn keeps_back(
        &mut self,
        is_gang: bool,
        has_company: bool,
        now: Nanos,
    ) -> Option<Attempt> {
        match (&mut self.placing, is_gang) {
            (Some(_), true) => Some(Attempt::Blocked),
            (Some(placing), false) if (now - placing.since).0 < MOST_NS => {
                placing.kept_back |= has_company;
                Some(Attempt::DeviceFull)
            }
            // It waits for others, which go on, also where nothing overtakes otherwise.
            (None, true) if has_company && now < self.rests_until => Some(Attempt::NotItsTurn),
            (Some(_) | None, _) => None,
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

    /// A gang has its turn for a time; `has_company` says whether another tenant's launch is kept back meanwhile.
    fn turn_of(turn: &mut GangTurn, has_company: bool, now: &mut Nanos, ns: u64) {
        assert_eq!(turn.keeps_back(true, has_company, *now), None);
        turn.begin(FIRST, *now);
        let others = turn.keeps_back(false, has_company, *now);
        assert_eq!(others, Some(Attempt::DeviceFull));
        *now += Nanos(ns);
        assert!(turn.end(FIRST, *now));
    }

    #[test]
    fn a_gang_keeps_others_back_while_it_is_placed() {
        let mut turn = GangTurn::default();
        assert_eq!(turn.keeps_back(false, true, Nanos(0)), None);
        assert_eq!(turn.waits_until(true, Nanos(0)), None);
        turn.begin(FIRST, Nanos(0));
        let (last, over) = (Nanos(MOST_NS - 1), Nanos(MOST_NS));
        assert_eq!(turn.waits_until(false, last), Some(over));
        assert_eq!(turn.waits_until(false, over), None);
        for now in [Nanos(9), last, over] {
            assert_eq!(turn.keeps_back(true, true, now), Some(Attempt::Blocked));
        }
        let others = |turn: &mut GangTurn, now| turn.keeps_back(false, true, now);
        assert_eq!(others(&mut turn, last), Some(Attempt::DeviceFull));
        assert_eq!(others(&mut turn, over), None);
        assert!(!turn.end(SECOND, over), "another one's end");
        assert!(turn.end(FIRST, over));
        assert_eq!(others(&mut turn, over), None);
    }

    #[test]
    fn gangs_keep_others_back_for_a_tenth_of_the_time() {
        let mut turn = GangTurn::default();
        let each = BURST_NS / 5;
        let (mut now, mut turns) = (Nanos(0), 0);
        while now < Nanos(100 * BURST_NS) {
            match turn.keeps_back(true, true, now) {
                Some(rests) => {
                    assert_eq!(rests, Attempt::NotItsTurn);
                    assert_eq!(turn.waits_until(false, now), None, "no gang waits");
                    now = turn.waits_until(true, now).expect("it rests");
                    assert!(turn.has_rested(true, now));
                    assert!(!turn.has_rested(true, now), "it is said once");
                }
                None => {
                    turn_of(&mut turn, true, &mut now, each);
                    turns += 1;
                }
            }
        }
        let kept_back = turns * each;
        let most = BURST_NS + now.0 / PARTS + each;
        assert!(kept_back <= most, "{kept_back} of {}", now.0);
        assert!(kept_back >= now.0 / PARTS, "{kept_back} of {}", now.0);
    }

    #[test]
    fn who_keeps_nobody_back_never_rests() {
        let mut turn = GangTurn::default();
        let mut now = Nanos(0);
        for _ in 0..1_000 {
            turn_of(&mut turn, false, &mut now, MOST_NS);
        }
        // Gangs behind each other keep no other launch back.
        for _ in 0..1_000 {
            turn.begin(FIRST, now);
            now += Nanos(MOST_NS);
            assert_eq!(turn.keeps_back(true, true, now), Some(Attempt::Blocked));
            assert!(turn.end(FIRST, now));
        }
        assert_eq!(turn.keeps_back(true, true, now), None);
        assert_eq!(turn.waits_until(true, now), None);
    }

    #[test]
    fn a_rest_ends_without_company() {
        let mut turn = GangTurn::default();
        let mut now = Nanos(0);
        turn_of(&mut turn, true, &mut now, MOST_NS);
        assert_eq!(turn.keeps_back(true, true, now), Some(Attempt::NotItsTurn));
        assert!(!turn.has_rested(true, now));
        assert!(turn.has_rested(false, now));
        assert_eq!(turn.keeps_back(true, false, now), None);
    }
}
