//! What tenants held and were entitled to, as the executor's meter reads it.
//!
//! Rules: an excess is bounded, and what is neither added to nor repaid is forgotten; what was held before a book saw
//! anything is nobody's excess.

use super::{Book, TenantRecord};
use crate::ids::TenantId;
use crate::units::Nanos;

/// Time after which a late excess has fallen to a part of 1/e, in nanoseconds: a shortfall is to be made
/// good within about a second.
pub(super) const FORGOTTEN_NS: f64 = 1e9;
/// Time after which the average of what a tenant is entitled to has followed a change to all but a part of 1/e, in
/// nanoseconds: some tens of blocks.
const FOLLOWED_NS: f64 = 2e6;
/// The least that a tenant's entitlement counts for, as a part of its weight's SMs: the excess of one that was entitled
/// to next to nothing means nothing.
const LEAST_PART: f64 = 0.02;

/// A tenant's readings, in SM · nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// What it had held by the newest reading.
    held: f64,
    /// What it had been entitled to by then.
    entitled: f64,
    /// The time of the newest reading.
    read_at: Nanos,
    /// The excess of late, and the time as of which it is that.
    late_excess: (f64, Nanos),
    /// What it was entitled to of late, in SMs: an average that follows with [`FOLLOWED_NS`].
    entitled_sms: f64,
    /// What was read before is not known: the tenant was first named after a loss.
    is_late: bool,
}

impl Shares {
    /// Returns those of a tenant without readings.
    pub(super) const fn new(is_late: bool) -> Self {
        Self {
            held: 0.0,
            entitled: 0.0,
            read_at: Nanos::ZERO,
            late_excess: (0.0, Nanos::ZERO),
            entitled_sms: 0.0,
            is_late,
        }
    }

    fn late_excess_at(&self, now: Nanos) -> f64 {
        let (excess, at) = self.late_excess;
        excess * (-((now - at).0 as f64) / FORGOTTEN_NS).exp()
    }

    /// Notes a reading; the excess of late stays within the bound.
    fn read(&mut self, (held, entitled): (f64, f64), bound: f64, now: Nanos) {
        let newly_held = held - std::mem::replace(&mut self.held, held);
        let newly_entitled = entitled - std::mem::replace(&mut self.entitled, entitled);
        let elapsed_ns = (now - std::mem::replace(&mut self.read_at, now)).0 as f64;
        if std::mem::take(&mut self.is_late) {
            return;
        }
        let late_excess = self.late_excess_at(now) + newly_held - newly_entitled;
        self.late_excess = (late_excess.clamp(-bound, bound), now);
        if elapsed_ns > 0.0 {
            let kept = (-elapsed_ns / FOLLOWED_NS).exp();
            let sms = newly_entitled / elapsed_ns;
            self.entitled_sms = self.entitled_sms * kept + sms * (1.0 - kept);
        }
    }
}

impl TenantRecord {
    /// Returns its excess of late over its weight: of two tenants the one with less is owed more.
    #[must_use]
    pub fn excess_per_weight(&self, now: Nanos) -> f64 {
        self.shares.late_excess_at(now) / f64::from(self.weight)
    }

    /// Returns its excess of late over what it was entitled to of late, in nanoseconds; below zero, for how long it had
    /// nothing. `sms_each` is the SMs of a weight of one; who is entitled to less than [`LEAST_PART`] of its weight's
    /// SMs counts as if it were to that.
    #[must_use]
    pub fn excess_per_entitled(&self, now: Nanos, sms_each: f64) -> f64 {
        let least = sms_each * f64::from(self.weight) * LEAST_PART;
        self.shares.late_excess_at(now) / self.shares.entitled_sms.max(least)
    }
}

impl Book {
    /// Returns what a tenant's blocks held beyond its part of late, in SM · nanoseconds.
    ///
    /// It is within the bound, and less what is forgotten by `now`.
    #[must_use]
    pub fn late_excess(&self, tenant: TenantId, now: Nanos) -> f64 {
        let tenant = self.tenant(tenant);
        tenant.map_or(0.0, |tenant| tenant.shares.late_excess_at(now))
    }

    /// Forgets as much of the deficits of active tenants as is beyond `most`, in SM · nanoseconds for a weight of one.
    pub fn bound_deficits(&mut self, most: f64) {
        let now = self.now;
        for id in &self.active {
            if let Some(Some(tenant)) = self.tenants.get_mut(id.index()) {
                let least = -most * f64::from(tenant.weight);
                let shares = &mut tenant.shares;
                shares.late_excess = (shares.late_excess_at(now).max(least), now);
            }
        }
    }

    pub(super) fn share(&mut self, tenant: TenantId, held: f64, entitled: f64) {
        let (now, bound) = (self.now, self.excess_bound);
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.shares.read((held, entitled), bound, now);
        }
    }
}
