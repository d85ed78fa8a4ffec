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

use super::dispatcher::Dispatcher;
use super::port::TenantPort;
use crate::device::Device;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::units::Nanos;

/// Turns that a tenant saves at most: as many pieces as it may submit one after another while others wait.
const MOST_TURNS: u64 = 8;
/// Rounds for which one row of a tenant may have all of its turns while another one waits for one.
const MOST_PASSED_OVER: u64 = 2;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Returns whether a launch would wait at the thread.
    pub(super) fn is_submitting(&self) -> bool {
        self.device.submission().idle_at > self.now
    }

    /// Returns when the thread takes another launch, if one waits for it.
    pub(super) fn submits_next(&self) -> Option<Nanos> {
        let parked = !self.accounts.submitted.is_empty() && !self.accounts.parked.is_empty();
        let waits = parked || !self.queue.is_empty();
        let at = self.device.submission().idle_at;
        (waits && at > self.now).then_some(at)
    }

    /// Returns the weight that is worth one turn in a round: the least of those who have work where the plan gives
    /// tenants parts of the device, else more than any.
    fn least_weight(&self) -> u32 {
        if self.policy.plan().limits().is_empty() {
            return u32::MAX;
        }
        let busy = self.accounts.busy.members().iter();
        let weights = busy.filter_map(|tenant| Some(self.accounts.get(*tenant)?.weight));
        weights.min().unwrap_or(u32::MAX)
    }

    /// Returns whether launches of a row have to wait for the next round: its tenant has no turn left in this one, or
    /// its other rows go first.
    pub(super) fn had_its_turn(&mut self, tenant: TenantId, row: RowId) -> bool {
        if self.policy.is_head_of_line() {
            return false;
        }
        let (round, spent) = (
            self.accounts.round,
            self.accounts.submitted.contains(tenant),
        );
        let Some(account) = self.accounts.get_mut(tenant) else {
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
            self.accounts.yielding.insert(tenant);
        }
        yields
    }

    /// Returns how long a round takes in which every tenant submits a piece that has a launch to submit and is not kept
    /// to a probe.
    pub(super) fn round(&self) -> Nanos {
        let each = self.device.submission().each;
        if each == Nanos::ZERO {
            return each;
        }
        let accounts = self.accounts.busy.members().iter();
        let accounts = accounts.filter_map(|tenant| self.accounts.get(*tenant));
        let submits = accounts.filter(|account| account.is_measured() && account.queued > 0);
        each * submits.count() as u64
    }

    /// Takes note of a piece of a row that a tenant submitted.
    pub(super) fn take_turn(&mut self, tenant: TenantId, row: Option<RowId>) {
        let costs_time = self.device.submission().each > Nanos::ZERO;
        if !costs_time || self.policy.is_head_of_line() {
            return;
        }
        let (round, least) = (self.accounts.round, self.accounts.least_weight.max(1));
        let Some(account) = self.accounts.get_mut(tenant) else {
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
            self.accounts.submitted.insert(tenant);
        }
    }

    /// Gives everybody all turns where the thread has rested.
    pub(super) fn begin_rounds_after_rest(&mut self) {
        if self.device.submission().has_rested(self.now) {
            self.accounts.round += MOST_TURNS - 1;
            self.begin_round();
        }
    }

    /// Gives every tenant a turn; returns whether one had none left, or let others go first.
    pub(super) fn begin_round(&mut self) -> bool {
        let ended = !self.accounts.submitted.is_empty() || !self.accounts.yielding.is_empty();
        self.accounts.round += 1;
        self.accounts.least_weight = self.least_weight();
        while let Some(tenant) = self.accounts.submitted.pop() {
            self.unpark(tenant);
        }
        while let Some(tenant) = self.accounts.yielding.pop() {
            if let Some(account) = self.accounts.get_mut(tenant) {
                account.passed_over = None;
            }
            self.unpark(tenant);
        }
        ended
    }
}
