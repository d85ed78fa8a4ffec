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
//! gangs together do so for a tenth of the time: while they are more than [`BURST_NS`] ahead of that they are
//! **paused**, and none begins, because one that is not placed holds its room in vain. Only turns count in which
//! another tenant had something queued, and gangs of a tenant without co-runners are not paused. Under a
//! tenant's limit a gang takes no room that is lent, because it keeps those back that lend it: it begins, whole, when
//! cap and limit have room for a block of it, and what it holds beyond is made up for later.

use super::piece::Attempt;
use crate::device::Tag;
use crate::dispatch::feed::accounts::Accounts;
use crate::dispatch::feed::why::Why;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;

/// Longest time for which a gang keeps others back, in nanoseconds.
const MOST_NS: u64 = 2_000_000;
/// Time for which others may be kept back beyond their part before gangs are paused, in nanoseconds.
const BURST_NS: u64 = 500_000;
/// Others are kept back for at most one `PARTS`th of the time in the long run.
const PARTS: u64 = 10;

/// The gang that is being placed, if there is one, and for how long others may be kept back.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct GangTurn {
    placing: Option<Placing>,
    /// When the time for which others were kept back will be at most one [`PARTS`]th of all.
    repaid_at: Nanos,
}

/// A gang of which some blocks have not started.
#[derive(Debug, Clone, Copy)]
struct Placing {
    tag: Tag,
    tenant: TenantId,
    since: Nanos,
    /// It kept another tenant back.
    kept_back: bool,
}

impl GangTurn {
    /// Begins the turn of a gang.
    pub(super) fn begin(&mut self, tag: Tag, tenant: TenantId, now: Nanos) {
        self.placing = Some(Placing {
            tag,
            tenant,
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
        }
        true
    }

    /// Returns until when gangs of tenants with co-runners are paused.
    fn paused_until(&self) -> Nanos {
        Nanos(self.repaid_at.0.saturating_sub(BURST_NS * PARTS))
    }

    /// Returns whether gangs wait for nothing any more: none is being placed, and they are not paused, or whose gang
    /// waits has no co-runners.
    pub(in crate::dispatch) fn lets_gangs_go(&self, accounts: &Accounts, now: Nanos) -> bool {
        let is_paused = self.paused_until() > now;
        let is_idle = self.placing.is_none() && !accounts.gangs.is_empty();
        is_idle && !(is_paused && accounts.gangs_have_co_runners_until(now).is_some())
    }

    /// Returns when something changes for those who wait, if that is in the future: others are no longer kept back or,
    /// where a gang waits, gangs are no longer paused or its tenant has no co-runners any more.
    pub(in crate::dispatch) fn waits_until(
        &self,
        accounts: &Accounts,
        now: Nanos,
    ) -> Option<Nanos> {
        let until = match self.placing {
            Some(placing) => placing.since + Nanos(MOST_NS),
            None => accounts
                .gangs_have_co_runners_until(now)?
                .min(self.paused_until()),
        };
        (until > now).then_some(until)
    }

    /// Takes note of an attempt to hand a launch over; returns what keeps it from the device because of a gang that is
    /// being placed, or because gangs are paused.
    pub(super) fn keep_back(
        &mut self,
        (tenant, is_gang): (TenantId, bool),
        accounts: &Accounts,
        now: Nanos,
    ) -> Option<Attempt> {
        let is_paused = self.paused_until() > now;
        match (&mut self.placing, is_gang) {
            (Some(_), true) => Some(Attempt::Blocked(Why::Gang)),
            (Some(placing), false) if (now - placing.since).0 < MOST_NS => {
                placing.kept_back |= accounts.others_queue(placing.tenant);
                Some(Attempt::DeviceFull(Why::Gang))
            }
            (None, true) if is_paused => {
                // It waits for others, which go on, also where nothing overtakes otherwise.
                let has_co_runners = accounts.co_runners_until(tenant, now).is_some();
                has_co_runners.then_some(Attempt::NotItsTurn(Why::Gang))
            }
            (Some(_) | None, _) => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Attempt, BURST_NS, GangTurn, MOST_NS, PARTS};
    use crate::device::{LaneId, Tag};
    use crate::dispatch::feed::accounting::TenantCounters;
    use crate::dispatch::feed::accounts::{Account, Accounts, GRACE};
    use crate::dispatch::feed::why::Why;
    use gridmux_policy::Class;
    use gridmux_policy::ids::TenantId;
    use gridmux_policy::units::Nanos;
    use std::sync::Arc;

    const FIRST: Tag = Tag {
        lane: LaneId(0),
        generation: 1,
    };
    const SECOND: Tag = Tag {
        lane: LaneId(0),
        generation: 2,
    };
    /// Whose gangs they are, and another tenant.
    const GANGS: TenantId = TenantId(0);
    const OTHER: TenantId = TenantId(1);

    /// Returns accounts of two tenants, the first of which has a gang queued.
    fn accounts() -> Accounts {
        let mut accounts = Accounts::default();
        for tenant in [GANGS, OTHER] {
            let counters = Arc::new(TenantCounters::default());
            let account = Account::new(tenant, 1, Class::Normal, counters);
            assert!(accounts.set(Box::new(account)).is_none());
        }
        accounts.open(GANGS);
        accounts.change(GANGS, 1, 0);
        accounts
    }

    /// Has the other tenant queue a launch.
    fn join(accounts: &mut Accounts) {
        accounts.open(OTHER);
        accounts.change(OTHER, 1, 0);
    }

    /// Has the other tenant's last launch end.
    fn leave(accounts: &mut Accounts, now: Nanos) {
        accounts.change(OTHER, -1, 0);
        accounts.close(OTHER, now);
    }

    fn gang(turn: &mut GangTurn, accounts: &Accounts, now: Nanos) -> Option<Attempt> {
        turn.keep_back((GANGS, true), accounts, now)
    }

    fn other(turn: &mut GangTurn, accounts: &Accounts, now: Nanos) -> Option<Attempt> {
        turn.keep_back((OTHER, false), accounts, now)
    }

    /// A gang has its turn for a time, in which another launch is tried.
    fn turn_of(turn: &mut GangTurn, accounts: &Accounts, now: &mut Nanos, ns: u64) {
        assert_eq!(gang(turn, accounts, *now), None);
        turn.begin(FIRST, GANGS, *now);
        assert_eq!(
            other(turn, accounts, *now),
            Some(Attempt::DeviceFull(Why::Gang))
        );
        *now += Nanos(ns);
        assert!(turn.end(FIRST, *now));
    }

    #[test]
    fn a_gang_keeps_others_back_while_it_is_placed() {
        let (mut turn, mut accounts) = (GangTurn::default(), accounts());
        join(&mut accounts);
        assert_eq!(other(&mut turn, &accounts, Nanos(0)), None);
        assert_eq!(turn.waits_until(&accounts, Nanos(0)), None);
        turn.begin(FIRST, GANGS, Nanos(0));
        let (last, over) = (Nanos(MOST_NS - 1), Nanos(MOST_NS));
        assert_eq!(turn.waits_until(&accounts, last), Some(over));
        assert_eq!(turn.waits_until(&accounts, over), None);
        for now in [Nanos(9), last, over] {
            assert_eq!(
                gang(&mut turn, &accounts, now),
                Some(Attempt::Blocked(Why::Gang))
            );
        }
        let kept_back = other(&mut turn, &accounts, last);
        assert_eq!(kept_back, Some(Attempt::DeviceFull(Why::Gang)));
        assert_eq!(other(&mut turn, &accounts, over), None);
        assert!(!turn.end(SECOND, over), "another one's end");
        assert!(turn.end(FIRST, over));
        assert_eq!(other(&mut turn, &accounts, over), None);
    }

    #[test]
    fn gangs_keep_others_back_for_a_tenth_of_the_time() {
        let (mut turn, mut accounts) = (GangTurn::default(), accounts());
        join(&mut accounts);
        let each = BURST_NS / 5;
        let (mut now, mut turns) = (Nanos(0), 0);
        while now < Nanos(100 * BURST_NS) {
            match gang(&mut turn, &accounts, now) {
                Some(paused) => {
                    assert_eq!(paused, Attempt::NotItsTurn(Why::Gang));
                    assert_eq!(turn.waits_until(&accounts, now), None, "no gang waits");
                    accounts.gangs.insert(GANGS);
                    assert!(!turn.lets_gangs_go(&accounts, now));
                    now = turn.waits_until(&accounts, now).expect("a pause");
                    assert!(turn.lets_gangs_go(&accounts, now));
                    accounts.gangs.remove(GANGS);
                }
                None => {
                    turn_of(&mut turn, &accounts, &mut now, each);
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
    fn who_keeps_no_other_tenant_back_is_never_paused() {
        let (mut turn, mut accounts) = (GangTurn::default(), accounts());
        let mut now = Nanos(0);
        // Alone; and beside a tenant that has all its blocks on the device.
        for _ in 0..2 {
            for _ in 0..1_000 {
                turn_of(&mut turn, &accounts, &mut now, MOST_NS);
            }
            accounts.open(OTHER);
            accounts.change(OTHER, 0, 1);
        }
        // Gangs behind each other keep no other launch back.
        for _ in 0..1_000 {
            turn.begin(FIRST, GANGS, now);
            now += Nanos(MOST_NS);
            let second = gang(&mut turn, &accounts, now);
            assert_eq!(second, Some(Attempt::Blocked(Why::Gang)));
            assert!(turn.end(FIRST, now));
        }
        assert_eq!(gang(&mut turn, &accounts, now), None);
    }

    #[test]
    fn gangs_without_co_runners_are_not_paused_and_nothing_is_forgotten() {
        let (mut turn, mut accounts) = (GangTurn::default(), accounts());
        let mut now = Nanos(0);
        join(&mut accounts);
        turn_of(&mut turn, &accounts, &mut now, MOST_NS);
        let paused = gang(&mut turn, &accounts, now);
        assert_eq!(paused, Some(Attempt::NotItsTurn(Why::Gang)));
        accounts.gangs.insert(GANGS);
        leave(&mut accounts, now);
        let alone = now + GRACE;
        assert!(!turn.lets_gangs_go(&accounts, now));
        assert_eq!(turn.waits_until(&accounts, now), Some(alone));
        assert!(turn.lets_gangs_go(&accounts, alone));
        accounts.gangs.remove(GANGS);
        assert_eq!(gang(&mut turn, &accounts, alone), None);
        // The other one is back before the pause is over, and the gangs' tenant had paused itself.
        join(&mut accounts);
        let paused = gang(&mut turn, &accounts, alone);
        assert_eq!(paused, Some(Attempt::NotItsTurn(Why::Gang)));
    }
}
