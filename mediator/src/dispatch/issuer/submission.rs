//! Sharing the thread that submits launches: each submission takes it a fixed time.
//!
//! Launches that waited at that thread would go in the order in which they came. So they wait in the issue queue
//! until the thread is idle, where a better one may still overtake them. While it has work, tenants submit in rounds:
//! each is given a turn in every round, which is one piece, or more in proportion to its weight where the plan gives
//! tenants parts of the device, and saves up to [`MOST_TURNS`] of them. So a flood of short launches of one tenant,
//! which a plan may well prefer, goes ahead of another tenant's launches with one piece a round, and with eight when
//! the thread has rested. Of a tenant's own rows, one that has had all of the tenant's turns for [`MOST_PASSED_OVER`]
//! rounds, while a launch of another row found none left, lets the others go first for a round.
//!
//! Rules: among those who have a turn the plan's order holds. A round ends when nobody who has a turn can submit; when
//! the thread has rested everybody has all turns. A device that does not tell what a submission costs
//! ([`Submission`](crate::device::Submission)) has no rounds, and a strict head of line permits none.

use super::Issuer;
use crate::device::Device;
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::feed::accounts::Accounts;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::units::Nanos;

/// Turns that a tenant saves at most: as many pieces as it may submit one after another while others wait.
const MOST_TURNS: u64 = 8;
/// Rounds for which one row of a tenant may have all of its turns while another one waits for one.
const MOST_PASSED_OVER: u64 = 2;

impl<D: Device> Issuer<D> {
    /// Returns whether a launch would wait at the thread.
    pub(in crate::dispatch) fn is_submitting(&self, now: Nanos) -> bool {
        self.device.submission().idle_at > now
    }

    /// Returns when the thread takes another launch, if one waits for it.
    pub(in crate::dispatch) fn submits_next(
        &self,
        accounts: &Accounts,
        now: Nanos,
    ) -> Option<Nanos> {
        let parked = !accounts.submitted.is_empty() && !accounts.parked.is_empty();
        let waits = parked || !self.queue.is_empty();
        let at = self.device.submission().idle_at;
        (waits && at > now).then_some(at)
    }

    /// Takes note of a piece of a row that a tenant submitted.
    pub(super) fn take_turn(&self, feed: &mut PolicyFeed, tenant: TenantId, row: Option<RowId>) {
        let costs_time = self.device.submission().each > Nanos::ZERO;
        if !costs_time || feed.policy.is_head_of_line() {
            return;
        }
        let accounts = &mut feed.accounts;
        let (round, least) = (accounts.round, accounts.least_weight.max(1));
        let Some(account) = accounts.get_mut(tenant) else {
            return;
        };
        if std::mem::replace(&mut account.submitted_row, row) != row {
            account.passed_over = None;
        }
        let each = u64::from(account.weight / least).clamp(1, MOST_TURNS);
        let given = (round - account.turns_of).saturating_mul(each);
        let given = account.turns.saturating_add(given);
        (account.turns, account.turns_of) = (given.min(MOST_TURNS).saturating_sub(1), round);
        if account.turns == 0 {
            accounts.submitted.insert(tenant);
        }
    }

    /// Gives everybody all turns where the thread has rested.
    pub(in crate::dispatch) fn begin_rounds_after_rest<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
        now: Nanos,
    ) {
        if self.device.submission().has_rested(now) {
            feed.accounts.round += MOST_TURNS - 1;
            self.begin_round(clients, feed);
        }
    }

    /// Gives every tenant a turn; returns whether one had none left, or let others go first.
    pub(in crate::dispatch) fn begin_round<P>(
        &mut self,
        clients: &ClientTable<P>,
        feed: &mut PolicyFeed,
    ) -> bool {
        let ended = !feed.accounts.submitted.is_empty() || !feed.accounts.yielding.is_empty();
        feed.accounts.round += 1;
        feed.accounts.least_weight = least_weight(feed);
        while let Some(tenant) = feed.accounts.submitted.pop() {
            self.unpark(clients, feed, tenant);
        }
        while let Some(tenant) = feed.accounts.yielding.pop() {
            if let Some(account) = feed.accounts.get_mut(tenant) {
                account.passed_over = None;
            }
            self.unpark(clients, feed, tenant);
        }
        ended
    }
}

/// Returns the weight that is worth one turn in a round: the least of those who have work where the plan gives
/// tenants parts of the device, else more than any.
fn least_weight(feed: &PolicyFeed) -> u32 {
    if feed.policy.plan().limits().is_empty() {
        return u32::MAX;
    }
    let busy = feed.accounts.busy.members().iter();
    let weights = busy.filter_map(|tenant| Some(feed.accounts.get(*tenant)?.weight));
    weights.min().unwrap_or(u32::MAX)
}

/// Returns whether launches of a row have to wait for the next round: its tenant has no turn left in this one, or
/// its other rows go first.
pub(super) fn had_its_turn(feed: &mut PolicyFeed, tenant: TenantId, row: RowId) -> bool {
    if feed.policy.is_head_of_line() {
        return false;
    }
    let (round, spent) = (
        feed.accounts.round,
        feed.accounts.submitted.contains(tenant),
    );
    let Some(account) = feed.accounts.get_mut(tenant) else {
        return spent;
    };
    let is_other = account.submitted_row.is_some_and(|newest| newest != row);
    if spent {
        if is_other {
            account.passed_over.get_or_insert(round);
        }
        return true;
    }
    let since = account.passed_over.filter(|_| !is_other);
    let yields = since.is_some_and(|since| round - since >= MOST_PASSED_OVER);
    if yields {
        feed.accounts.yielding.insert(tenant);
    }
    yields
}
