//! When the virtual clock must stand still for a tenant (design section 10).
//!
//! A tenant whose host code runs costs no virtual time: while its state word says that it runs, until it says that
//! it waits or thinks, the clock holds. So a burst of submissions is one instant, and results are independent of the
//! host's speed.
//!
//! Rules: the hold is bounded in wall time, because a tenant may be slow, stopped or hostile. Each tenant has a credit
//! of [`ClockHold::new`]'s length, which running spends and which comes back at a quarter of the speed at which wall
//! time passes while the tenant waits or thinks, and by a millisecond with each completion: a tenant that answers its
//! completions promptly never runs out, and saying "waiting" for a moment buys nothing. A tenant without credit holds
//! nothing until all of it is back.

use super::dispatcher::TENANTS;
use super::message::Slot;
use super::port::TenantPort;
use super::table::TenantTable;
use gridmux_channel::ring::TenantState;
use std::time::Duration;

/// Wall time of waiting that gives one part of credit back.
const REFILL: u64 = 4;

/// Credit that a completion gives back.
const COMPLETION_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    spent_ns: u64,
    judged_wall_ns: u64,
    exhausted: bool,
}

/// Hold state of every tenant.
#[derive(Debug)]
pub(super) struct ClockHold {
    limit_ns: u64,
    credits: [Credit; TENANTS],
    holding: bool,
}

impl Credit {
    /// Accounts for the time since the last judgement; says whether the tenant may hold the clock now.
    fn judge(&mut self, runs: bool, wall_ns: u64, limit_ns: u64) -> bool {
        let elapsed_ns = match self.judged_wall_ns {
            0 => 0,
            judged => wall_ns.saturating_sub(judged),
        };
        self.judged_wall_ns = wall_ns;
        if runs && !self.exhausted {
            self.spent_ns = self.spent_ns.saturating_add(elapsed_ns);
            self.exhausted = self.spent_ns > limit_ns;
        } else {
            self.spent_ns = self.spent_ns.saturating_sub(elapsed_ns / REFILL);
            self.exhausted &= self.spent_ns > 0;
        }
        runs && !self.exhausted
    }
}

impl ClockHold {
    /// A credit of `limit` of wall time for each tenant.
    #[must_use]
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            credits: [Credit::default(); TENANTS],
            holding: false,
        }
    }

    /// Whether the newest judgement was to hold.
    #[must_use]
    pub(super) fn is_holding(&self) -> bool {
        self.holding
    }

    /// A completion was handed to a tenant.
    pub(super) fn completed(&mut self, slot: Slot) {
        let credit = &mut self.credits[usize::from(slot.0)];
        credit.spent_ns = credit.spent_ns.saturating_sub(COMPLETION_NS);
    }

    /// Forgets a tenant that is gone.
    pub(super) fn release(&mut self, slot: Slot) {
        self.credits[usize::from(slot.0)] = Credit::default();
    }

    /// Judges all tenants.
    pub(super) fn holds<P: TenantPort>(
        &mut self,
        tenants: &mut TenantTable<P>,
        wall_ns: u64,
    ) -> bool {
        self.holding = false;
        for index in 0..tenants.len() {
            let slot = tenants.slot_at(index);
            let Some(tenant) = tenants.get_mut(slot) else {
                continue;
            };
            // A tenant whose table is full has nothing to add before something of it completes.
            let has_say = !tenant.leaving && tenant.operations.has_room();
            let runs = has_say && tenant.port.state() == TenantState::Running;
            self.holding |= self.credits[usize::from(slot.0)].judge(runs, wall_ns, self.limit_ns);
        }
        self.holding
    }
}

#[cfg(test)]
mod tests {
    use super::Credit;

    const MS: u64 = 1_000_000;

    #[test]
    fn credit_is_spent_by_running_and_comes_back_slowly() {
        let mut credit = Credit::default();
        assert!(credit.judge(true, 1000 * MS, 200 * MS));
        assert!(credit.judge(true, 1150 * MS, 200 * MS));
        assert!(
            !credit.judge(true, 1250 * MS, 200 * MS),
            "250 ms of 200 are spent"
        );
        assert!(!credit.judge(false, 1251 * MS, 200 * MS));
        assert!(
            !credit.judge(true, 1252 * MS, 200 * MS),
            "a moment of waiting buys nothing"
        );
        assert!(!credit.judge(false, 2252 * MS, 200 * MS));
        assert!(
            credit.judge(true, 2253 * MS, 200 * MS),
            "a second of waiting gives all of it back"
        );
    }

    #[test]
    fn short_runs_never_exhaust_it() {
        let mut credit = Credit::default();
        let mut now = 1000 * MS;
        for _ in 0..10_000 {
            assert!(credit.judge(true, now, 200 * MS));
            now += MS / 50;
            assert!(credit.judge(true, now, 200 * MS));
            now += MS;
            credit.judge(false, now, 200 * MS);
        }
    }
}
