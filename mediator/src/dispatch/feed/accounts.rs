//! The tenants' accounts: weight, class, what their blocks hold, and how their launches behave.
//!
//! An account is made when the control thread names its tenant, survives the tenant's clients, and goes when the
//! control thread says that the tenant is gone.
//!
//! Rule: a tenant whose launches keep ending at their budget goes behind the others ([`Account::is_behind`]), until its
//! launches that end in time have run for as long as those had: its launches are handed to the device only while no
//! other tenant has one open, or has had one for a [`GRACE`]. Nothing of a tenant that an operator paused
//! ([`TenantState::Paused`]) goes to the device, and nobody is kept back for it: it counts among those who want
//! something as little as one that has nothing to do.

use super::accounting::TenantCounters;
use super::rows::TENANTS;
use super::tenant_set::TenantSet;
use super::why::Why;
use crate::dispatch::issuer::queue::Active;
use gridmux_policy::Class;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::Held;
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Launches that end at their budget before their tenant goes behind the others.
pub const BUDGET_ENDS: u32 = 2;

/// For how long after the last launch of the others a tenant behind them waits for their next one, because programs
/// launch one kernel after the other.
pub const GRACE: Nanos = Nanos(2_000_000);

/// Whether a tenant's operations go to the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TenantState {
    /// They do.
    #[default]
    Running,
    /// An operator holds them back: what is submitted stays queued, and what is on the device ends.
    Paused,
}

impl fmt::Display for TenantState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Running => "running",
            Self::Paused => "paused",
        })
    }
}

/// One tenant's account.
#[derive(Debug)]
pub struct Account {
    /// The tenant.
    pub id: TenantId,
    /// Its weight, at least 1.
    pub weight: u32,
    /// Its class.
    pub class: Class,
    /// Whether its operations go to the device.
    pub state: TenantState,
    /// Counters that others may read.
    pub counters: Arc<TenantCounters>,
    /// Resources that its blocks on the device take at most, which its limit binds.
    pub charged: Held,
    /// Launches that the policy knows of and that have not ended.
    pub open: u32,
    /// Those of them whose rows are unproven ([`Row::is_unproven`](super::rows::Row::is_unproven)).
    pub unproven: u32,
    /// Operations in the issue queue or parked here.
    pub queued: u32,
    /// Lanes that it holds.
    pub lanes: u32,
    /// Operations that wait until something of this tenant ends, a round ends or a plan comes.
    pub parked: Vec<Active>,
    /// Why the last one of them could not go.
    pub why: Why,
    /// Launches that ended at their budget and are not made good.
    pub budget_ends: u32,
    /// For how long its launches have to end in time to make these good, in nanoseconds of device time.
    pub lost_ns: u64,
    /// Pieces that it may submit as of [`Account::turns_of`].
    pub turns: u64,
    /// The round in which it submitted last.
    pub turns_of: u64,
    /// The row of the piece that it submitted last.
    pub submitted_row: Option<RowId>,
    /// The first round since then in which a launch of another row of its found no turn left.
    pub passed_over: Option<u64>,
}

/// Every account, by tenant.
#[derive(Debug)]
pub struct Accounts {
    accounts: Box<[Option<Box<Account>>]>,
    /// Tenants with a launch open.
    pub busy: TenantSet,
    /// Tenants with operations parked that are not paused.
    pub parked: TenantSet,
    /// Number of the round of submissions (`issuer/submission.rs`).
    pub round: u64,
    /// The weight that is worth one turn in a round.
    pub least_weight: u32,
    /// Tenants that have no turn left in this round.
    pub submitted: TenantSet,
    /// Tenants of which one row lets the others go first in this round.
    pub yielding: TenantSet,
    /// Tenants that wait for the others.
    pub behind: TenantSet,
    /// When tenants that are not behind have been without a launch for a [`GRACE`], if they have none until then.
    quiet_at: Nanos,
    /// The tenant whose last launch ended latest and the latest one beside it, each with when it has been without a
    /// launch for a [`GRACE`].
    lately: [Option<(TenantId, Nanos)>; 2],
    /// Tenants of which a gang waits, until all blocks of another one have started or gangs are no longer paused.
    pub gangs: TenantSet,
    /// Tenants of which it is to be said what binds them.
    pub watched: TenantSet,
    /// How many tenants have something queued or on the device.
    pub wanting: u32,
    /// How many tenants have something queued.
    pub queueing: u32,
}

impl Account {
    /// Makes the account of a tenant that has done nothing yet.
    #[must_use]
    pub fn new(id: TenantId, weight: u32, class: Class, counters: Arc<TenantCounters>) -> Self {
        Self {
            id,
            weight: weight.max(1),
            class,
            state: TenantState::Running,
            counters,
            charged: Held::default(),
            open: 0,
            unproven: 0,
            queued: 0,
            lanes: 0,
            parked: Vec::with_capacity(64),
            why: Why::Idle,
            budget_ends: 0,
            lost_ns: 0,
            turns: 0,
            turns_of: 0,
            submitted_row: None,
            passed_over: None,
        }
    }

    /// Returns whether its launches keep ending at their budget.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.budget_ends >= BUDGET_ENDS
    }

    /// Takes note of a launch that ended at its budget after `ran`.
    pub fn ended_at_budget(&mut self, ran: Nanos) {
        self.budget_ends = self.budget_ends.saturating_add(1);
        self.lost_ns = self.lost_ns.saturating_add(ran.0);
    }

    /// Takes note of a launch that ended in time after `ran`. Launches that run at the same time make good together
    /// what one of them would.
    pub fn ended_in_time(&mut self, ran: Nanos) {
        let good = ran.0 / u64::from(self.open.saturating_add(1));
        self.lost_ns = self.lost_ns.saturating_sub(good);
        if self.lost_ns == 0 {
            self.budget_ends = 0;
        }
    }

    /// Returns whether its shares are measured: it has a launch open whose demand is known.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.open > self.unproven
    }

    /// Returns whether an operator holds it back.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.state == TenantState::Paused
    }

    fn queues(&self) -> bool {
        self.queued > 0 && !self.is_paused()
    }

    fn wants(&self) -> bool {
        self.queues() || self.lanes > 0
    }
}

impl Default for Accounts {
    fn default() -> Self {
        let mut accounts = Vec::with_capacity(TENANTS);
        accounts.resize_with(TENANTS, || None);
        Self {
            accounts: accounts.into_boxed_slice(),
            busy: TenantSet::default(),
            parked: TenantSet::default(),
            round: 0,
            least_weight: u32::MAX,
            submitted: TenantSet::default(),
            yielding: TenantSet::default(),
            behind: TenantSet::default(),
            quiet_at: Nanos::ZERO,
            lately: [None; 2],
            gangs: TenantSet::default(),
            watched: TenantSet::default(),
            wanting: 0,
            queueing: 0,
        }
    }
}

impl Accounts {
    /// Adds an account, or changes weight and class of the one that is there and hands the new one back to be freed.
    pub fn set(&mut self, account: Box<Account>) -> Option<Box<Account>> {
        let Some(slot) = self.accounts.get_mut(account.id.index()) else {
            return Some(account);
        };
        self.watched.insert(account.id);
        match slot {
            Some(known) => {
                known.weight = account.weight;
                known.class = account.class;
                Some(account)
            }
            None => {
                *slot = Some(account);
                None
            }
        }
    }

    /// Takes out the account of a tenant that has nothing under way.
    pub fn remove(&mut self, tenant: TenantId) -> Option<Box<Account>> {
        let account = self.accounts.get_mut(tenant.index())?.take()?;
        self.busy.remove(tenant);
        self.parked.remove(tenant);
        self.submitted.remove(tenant);
        self.yielding.remove(tenant);
        self.behind.remove(tenant);
        self.gangs.remove(tenant);
        self.watched.remove(tenant);
        self.wanting -= u32::from(account.wants());
        self.queueing -= u32::from(account.queues());
        Some(account)
    }

    /// Returns an account.
    #[must_use]
    pub fn get(&self, tenant: TenantId) -> Option<&Account> {
        self.accounts.get(tenant.index())?.as_deref()
    }

    /// Returns an account, to be changed.
    pub fn get_mut(&mut self, tenant: TenantId) -> Option<&mut Account> {
        self.accounts.get_mut(tenant.index())?.as_deref_mut()
    }

    /// Returns every account.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().flatten().map(|account| &**account)
    }

    /// Counts a launch that the policy was told of; returns whether the tenant had none open before.
    pub fn open(&mut self, tenant: TenantId) -> bool {
        let Some(account) = self.get_mut(tenant) else {
            return false;
        };
        account.open += 1;
        let began = account.open == 1;
        if began {
            self.busy.insert(tenant);
        }
        began
    }

    /// Counts a launch that ended; returns whether the tenant has none open now.
    pub fn close(&mut self, tenant: TenantId, now: Nanos) -> bool {
        let Some(account) = self.get_mut(tenant) else {
            return false;
        };
        if account.open == 0 {
            return false;
        }
        account.open -= 1;
        let over = account.open == 0;
        let is_behind = account.is_behind();
        if over {
            self.busy.remove(tenant);
            let until = now + GRACE;
            if !is_behind {
                self.quiet_at = until;
            }
            if self.lately[0].is_some_and(|(latest, _)| latest != tenant) {
                self.lately[1] = self.lately[0];
            }
            self.lately[0] = Some((tenant, until));
        }
        over
    }

    /// Returns whether a tenant waits until the others have had no launch for a while.
    #[must_use]
    pub fn waits_for_others(&self, account: &Account, now: Nanos) -> bool {
        let others = self.busy.len() - usize::from(account.open > 0);
        account.is_behind() && (others > 0 || now < self.quiet_at)
    }

    /// Returns until when a tenant has co-runners: others with a launch open, or with one less than a [`GRACE`] ago.
    /// `None` if it has none; the greatest time while a launch of others is open.
    #[must_use]
    pub fn co_runners_until(&self, tenant: TenantId, now: Nanos) -> Option<Nanos> {
        if self.busy.len() > usize::from(self.busy.contains(tenant)) {
            return Some(Nanos(u64::MAX));
        }
        let others = self.lately.iter().flatten().filter(|of| of.0 != tenant);
        others
            .map(|(_, until)| *until)
            .filter(|until| *until > now)
            .max()
    }

    /// Returns until when those have co-runners whose gangs wait; `None` if no gang waits, or one of a tenant alone.
    #[must_use]
    pub fn gangs_have_co_runners_until(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.gangs.members().iter();
        waiting
            .filter_map(|tenant| self.co_runners_until(*tenant, now))
            .min()
    }

    /// Returns whether tenants other than this one have something queued.
    #[must_use]
    pub fn others_queue(&self, tenant: TenantId) -> bool {
        let own = self.get(tenant).is_some_and(|account| account.queued > 0);
        self.queueing > u32::from(own)
    }

    /// Returns whether the time for which tenants wait for the others has just passed.
    pub fn has_become_quiet(&mut self, now: Nanos) -> bool {
        let is_over = self.quiet_at > Nanos::ZERO && self.quiet_at <= now;
        if is_over {
            self.quiet_at = Nanos::ZERO;
        }
        is_over
    }

    /// Returns when tenants that wait for the others may have their turn, if that is in the future.
    #[must_use]
    pub fn quiet_at(&self, now: Nanos) -> Option<Nanos> {
        let is_coming = !self.behind.is_empty() && self.quiet_at > now;
        is_coming.then_some(self.quiet_at)
    }

    /// Keeps an operation until something of its tenant ends, a round ends or a plan comes.
    pub fn park(&mut self, active: Active, why: Why) {
        if let Some(account) = self.get_mut(active.tenant) {
            account.parked.push(active);
            account.why = why;
            if !account.is_paused() {
                self.parked.insert(active.tenant);
            }
        }
    }

    /// Takes back one of the operations that are parked at a tenant's account.
    pub fn unpark(&mut self, tenant: TenantId) -> Option<Active> {
        let account = self.get_mut(tenant)?;
        let active = account.parked.pop();
        if account.parked.is_empty() {
            self.parked.remove(tenant);
        }
        active
    }

    /// Changes what a tenant has queued and how many lanes it holds, and counts the tenants that queue and want lanes.
    pub fn change(&mut self, tenant: TenantId, queued: i32, lanes: i32) {
        self.count_change(tenant, |account| {
            account.queued = account.queued.saturating_add_signed(queued);
            account.lanes = account.lanes.saturating_add_signed(lanes);
        });
    }

    /// Pauses a tenant or lets it go on; returns whether that is new. One that is paused waits for nobody's turn.
    pub fn set_state(&mut self, tenant: TenantId, state: TenantState) -> bool {
        let account = self.get(tenant).filter(|account| account.state != state);
        let Some(has_parked) = account.map(|account| !account.parked.is_empty()) else {
            return false;
        };
        self.count_change(tenant, |account| account.state = state);
        match state {
            TenantState::Paused => {
                self.parked.remove(tenant);
                self.gangs.remove(tenant);
            }
            TenantState::Running if has_parked => self.parked.insert(tenant),
            TenantState::Running => {}
        }
        true
    }

    /// Changes an account, and counts the tenants that queue and want lanes.
    fn count_change(&mut self, tenant: TenantId, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.get_mut(tenant) else {
            return;
        };
        let before = (account.wants(), account.queues());
        change(account);
        let after = (account.wants(), account.queues());
        self.wanting = self.wanting + u32::from(after.0) - u32::from(before.0);
        self.queueing = self.queueing + u32::from(after.1) - u32::from(before.1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Account, Accounts, GRACE};
    use crate::dispatch::feed::accounting::TenantCounters;
    use gridmux_policy::Class;
    use gridmux_policy::ids::TenantId;
    use gridmux_policy::units::Nanos;
    use std::sync::Arc;

    fn account(tenant: u32) -> Box<Account> {
        let counters = Arc::new(TenantCounters::default());
        Box::new(Account::new(TenantId(tenant), 1, Class::Normal, counters))
    }

    fn two_accounts() -> (Accounts, [TenantId; 2]) {
        let mut accounts = Accounts::default();
        for number in [0, 1] {
            assert!(accounts.set(account(number)).is_none());
        }
        (accounts, [TenantId(0), TenantId(1)])
    }

    #[test]
    fn what_launches_lost_at_their_budget_is_made_good_by_as_much_time() {
        let mut account = account(0);
        account.ended_at_budget(Nanos(1000));
        account.ended_in_time(Nanos(1));
        account.ended_at_budget(Nanos(1000));
        assert!(account.is_behind(), "a short launch makes little good");
        account.ended_in_time(Nanos(1998));
        assert!(account.is_behind());
        account.ended_in_time(Nanos(1));
        assert!(!account.is_behind());
        assert_eq!(account.budget_ends, 0);
        // Two at once make good as much as one.
        account.ended_at_budget(Nanos(1000));
        account.open = 1;
        account.ended_in_time(Nanos(1000));
        assert_eq!(account.lost_ns, 500);
    }

    #[test]
    fn who_is_behind_waits_for_the_next_launch_of_others_for_a_grace() {
        let (mut accounts, [bad, good]) = two_accounts();
        for _ in 0..2 {
            accounts.get_mut(bad).unwrap().ended_at_budget(Nanos(9));
        }
        accounts.behind.insert(bad);
        let waits = |accounts: &Accounts, now| {
            accounts.waits_for_others(accounts.get(bad).unwrap(), Nanos(now))
        };
        assert!(!waits(&accounts, 0), "it is alone");
        accounts.open(good);
        assert!(waits(&accounts, 10));
        assert_eq!(accounts.quiet_at(Nanos(10)), None);
        accounts.close(good, Nanos(20));
        assert!(waits(&accounts, 20));
        let quiet = Nanos(20) + GRACE;
        assert_eq!(accounts.quiet_at(Nanos(20)), Some(quiet));
        assert!(!accounts.has_become_quiet(Nanos(21)));
        assert!(accounts.has_become_quiet(quiet));
        assert!(!accounts.has_become_quiet(quiet), "it is said once");
        assert!(!waits(&accounts, quiet.0));
        // Its own launches keep nobody waiting.
        accounts.open(bad);
        accounts.close(bad, quiet);
        assert!(!waits(&accounts, quiet.0));
    }

    #[test]
    fn who_ended_a_launch_lately_is_a_co_runner_of_others_alone() {
        let (mut accounts, [one, other]) = two_accounts();
        let until =
            |accounts: &Accounts, tenant, now| accounts.co_runners_until(tenant, Nanos(now));
        accounts.open(one);
        assert_eq!(until(&accounts, one, 0), None);
        assert_eq!(until(&accounts, other, 0), Some(Nanos(u64::MAX)));
        accounts.close(one, Nanos(10));
        let over = Nanos(10) + GRACE;
        assert_eq!(until(&accounts, one, 11), None, "by its own launch");
        assert_eq!(until(&accounts, other, 11), Some(over));
        assert_eq!(until(&accounts, other, over.0), None);
        // Whoever ends launches in between.
        for now in [20, 30] {
            accounts.open(other);
            accounts.close(other, Nanos(now));
        }
        assert_eq!(until(&accounts, other, 31), Some(over));
        assert_eq!(until(&accounts, one, 31), Some(Nanos(30) + GRACE));
    }

    #[test]
    fn tenants_that_queue_are_counted_apart_from_those_that_hold_lanes() {
        let (mut accounts, [one, other]) = two_accounts();
        accounts.change(one, 2, 0);
        accounts.change(other, 0, 1);
        assert_eq!((accounts.wanting, accounts.queueing), (2, 1));
        assert!(!accounts.others_queue(one) && accounts.others_queue(other));
        accounts.change(one, -1, 0);
        accounts.change(one, -1, 1);
        assert_eq!((accounts.wanting, accounts.queueing), (2, 0));
        accounts.change(other, 1, -1);
        accounts.remove(other);
        assert_eq!((accounts.wanting, accounts.queueing), (1, 0));
    }
}
