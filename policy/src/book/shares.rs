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
/// Time constant of the average of what a tenant is entitled to, in nanoseconds. Without a reading for so long a tenant
/// had nothing to do, which its average does not count.
const AVERAGED_NS: f64 = 2e6;
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
    /// The excess of late, and the time as of which it is that.
    late_excess: (f64, Nanos),
    /// What it was entitled to of late, in SMs: an average with [`AVERAGED_NS`]; `None` where nothing was averaged yet.
    entitled_sms: Option<f64>,
    /// What it had been entitled to when the average was last brought forward, and that time.
    averaged: (f64, Nanos),
    /// What was read before is not known: the tenant was first named after a loss.
    is_late: bool,
}

impl Shares {
    /// Returns those of a tenant without readings.
    pub(super) const fn new(is_late: bool) -> Self {
        Self {
            held: 0.0,
            entitled: 0.0,
            late_excess: (0.0, Nanos::ZERO),
            entitled_sms: None,
            averaged: (0.0, Nanos::ZERO),
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
        if std::mem::take(&mut self.is_late) {
            self.averaged = (entitled, now);
            return;
        }
        let late_excess = self.late_excess_at(now) + newly_held - newly_entitled;
        self.late_excess = (late_excess.clamp(-bound, bound), now);
        self.average(now);
    }

    /// Brings the average of what it is entitled to forward.
    fn average(&mut self, now: Nanos) {
        let (before, since) = self.averaged;
        let elapsed_ns = (now - since).0 as f64;
        if elapsed_ns == 0.0 {
            return;
        }
        self.averaged = (self.entitled, now);
        if elapsed_ns <= AVERAGED_NS {
            let sms = (self.entitled - before) / elapsed_ns;
            let kept = (-elapsed_ns / AVERAGED_NS).exp();
            let average = self.entitled_sms.unwrap_or(sms);
            self.entitled_sms = Some(average * kept + sms * (1.0 - kept));
        }
    }
}

impl TenantRecord {
    /// Returns its excess of late over its weight: of two tenants the one with less is owed more.
    #[must_use]
    pub fn excess_per_weight(&self, now: Nanos) -> f64 {
        self.shares.late_excess_at(now) / f64::from(self.weight)
    }

    /// Returns its excess of late beyond `from`, in SM · nanoseconds for a weight of one, over what it was entitled to
    /// of late: the time in which it is entitled to as much, in nanoseconds, below zero for one that lacks it.
    ///
    /// `sms_each` is the SMs of a weight of one. Who is entitled to less than [`LEAST_PART`] of its weight's SMs counts
    /// as if it were to that, and one of which nothing is known as if it were to all of them.
    #[must_use]
    pub fn excess_time(&self, now: Nanos, from: f64, sms_each: f64) -> f64 {
        let weight = f64::from(self.weight);
        let nominal = sms_each * weight;
        let entitled = self.shares.entitled_sms.unwrap_or(nominal);
        let excess = self.shares.late_excess_at(now) - from * weight;
        excess / entitled.max(nominal * LEAST_PART)
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
