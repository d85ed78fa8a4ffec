//! What share of the device each tenant held while all of them had work.
//!
//! The share is the time integral of the dominant share that a tenant's blocks held, divided by the
//! sum over all tenants, over the intervals in which every joined tenant is busy.
//!
//! Rules: integers only, so that what is placed and retired cancels exactly; times that run
//! backwards count as no time; nothing is allocated after a tenant has joined.

use crate::ids::TenantId;
use crate::share::Share;
use crate::units::Nanos;

/// A block's share is counted in units of 2^-32 of one SM.
const UNIT_BITS: u32 = 32;

/// Integrates the shares of the tenants of one device.
#[derive(Clone, Debug, Default)]
pub struct ShareMeter {
    /// Sorted by tenant.
    meters: Vec<Meter>,
    idle: usize,
    all_busy_ns: u64,
    now: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Meter {
    tenant: TenantId,
    busy: bool,
    held: i64,
    integral: i128,
}

impl ShareMeter {
    /// A meter with nobody on it, at time 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A tenant joins, idle. Joining twice changes nothing.
    pub fn join(&mut self, tenant: TenantId, at: Nanos) {
        self.advance(at);
        if let Err(place) = self.find(tenant) {
            let meter = Meter {
                tenant,
                busy: false,
                held: 0,
                integral: 0,
            };
            self.meters.insert(place, meter);
            self.idle += 1;
        }
    }

    /// A tenant leaves; its share is forgotten and the others are integrated without it.
    pub fn leave(&mut self, tenant: TenantId, at: Nanos) {
        self.advance(at);
        if let Ok(place) = self.find(tenant) {
            let meter = self.meters.remove(place);
            self.idle -= usize::from(!meter.busy);
        }
    }

    /// The tenant has work, or has none any more.
    pub fn set_busy(&mut self, tenant: TenantId, busy: bool, at: Nanos) {
        self.advance(at);
        if let Ok(place) = self.find(tenant) {
            let meter = &mut self.meters[place];
            if meter.busy != busy {
                meter.busy = busy;
                self.idle = if busy { self.idle - 1 } else { self.idle + 1 };
            }
        }
    }

    /// `n` blocks of the tenant became resident, each holding this share of an SM.
    pub fn placed(&mut self, tenant: TenantId, share_per_block: Share, n: u32, at: Nanos) {
        self.advance(at);
        if let Ok(place) = self.find(tenant) {
            self.meters[place].held += share_per_block.in_units(UNIT_BITS) * i64::from(n);
        }
    }

    /// `n` blocks of the tenant ended.
    pub fn retired(&mut self, tenant: TenantId, share_per_block: Share, n: u32, at: Nanos) {
        self.advance(at);
        if let Ok(place) = self.find(tenant) {
            self.meters[place].held -= share_per_block.in_units(UNIT_BITS) * i64::from(n);
        }
    }

    /// Blocks of the tenant were resident for `ran_sum_ns` altogether and have ended by `at`: for
    /// devices that report a slice only when it ends, in place of `placed` and `retired`. Counts if
    /// all are busy at `at`.
    pub fn ran(&mut self, tenant: TenantId, share_per_block: Share, ran_sum_ns: u64, at: Nanos) {
        self.advance(at);
        if let (Ok(place), 0) = (self.find(tenant), self.idle) {
            let held = share_per_block.in_units(UNIT_BITS);
            self.meters[place].integral += i128::from(held) * i128::from(ran_sum_ns);
        }
    }

    /// Integrates up to `at`.
    pub fn advance(&mut self, at: Nanos) {
        let elapsed = at - self.now;
        self.now = self.now.max(at);
        if self.idle > 0 || self.meters.is_empty() || elapsed == Nanos::ZERO {
            return;
        }
        self.all_busy_ns = self.all_busy_ns.saturating_add(elapsed.0);
        for meter in &mut self.meters {
            meter.integral += i128::from(meter.held) * i128::from(elapsed.0);
        }
    }

    /// Each tenant's share of what all held together, adding up to 1; all zero when nothing was
    /// held while all were busy. Allocates: for reports.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for a report")]
    pub fn shares(&self) -> Vec<(TenantId, f64)> {
        let total: i128 = self.meters.iter().map(|meter| meter.integral).sum();
        let ratio = |part: i128| {
            if total > 0 {
                part as f64 / total as f64
            } else {
                0.0
            }
        };
        self.meters
            .iter()
            .map(|meter| (meter.tenant, ratio(meter.integral)))
            .collect()
    }

    /// For how long every joined tenant was busy, in nanoseconds.
    #[must_use]
    pub fn all_busy_ns(&self) -> u64 {
        self.all_busy_ns
    }

    fn find(&self, tenant: TenantId) -> Result<usize, usize> {
        self.meters
            .binary_search_by_key(&tenant, |meter| meter.tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::ShareMeter;
    use crate::ids::TenantId;
    use crate::share::Share;
    use crate::units::Nanos;

    const A: TenantId = TenantId(7);
    const B: TenantId = TenantId(3);

    fn share_of(meter: &ShareMeter, tenant: TenantId) -> f64 {
        meter
            .shares()
            .into_iter()
            .find(|(who, _)| *who == tenant)
            .expect("tenant joined")
            .1
    }

    #[test]
    fn only_time_in_which_all_are_busy_counts() {
        let mut meter = ShareMeter::new();
        let (quarter, third) = (Share::new(1, 4), Share::new(1, 3));
        meter.join(A, Nanos(0));
        meter.join(B, Nanos(0));
        meter.set_busy(A, true, Nanos(0));
        meter.placed(A, quarter, 4, Nanos(0));
        // A alone until 100: not counted.
        meter.set_busy(B, true, Nanos(100));
        meter.placed(B, third, 3, Nanos(150));
        // A held 1 for 100 ns, B held 1 for 50 ns: 2/3 and 1/3.
        meter.retired(A, quarter, 4, Nanos(200));
        meter.set_busy(A, false, Nanos(200));
        meter.retired(B, third, 3, Nanos(900));
        assert_eq!(meter.all_busy_ns(), 100);
        assert!((share_of(&meter, A) - 2.0 / 3.0).abs() < 1e-9);
        assert!((share_of(&meter, B) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn leaving_lets_the_others_count() {
        let mut meter = ShareMeter::new();
        meter.join(A, Nanos(0));
        meter.join(B, Nanos(0));
        meter.set_busy(A, true, Nanos(0));
        meter.placed(A, Share::new(1, 2), 1, Nanos(0));
        meter.leave(B, Nanos(50));
        meter.advance(Nanos(80));
        assert_eq!(meter.all_busy_ns(), 30);
        assert!((share_of(&meter, A) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn time_never_runs_backwards() {
        let mut meter = ShareMeter::new();
        meter.join(A, Nanos(10));
        meter.set_busy(A, true, Nanos(10));
        meter.advance(Nanos(30));
        meter.advance(Nanos(20));
        meter.advance(Nanos(35));
        assert_eq!(meter.all_busy_ns(), 25);
    }
}
