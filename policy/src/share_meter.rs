//! What each tenant's blocks held, over what it was entitled to.
//!
//! Held is the time integral of a tenant's dominant share while it is busy: for each resource the sum
//! over its resident blocks, and of these the largest. Entitled is the time integral, while the tenant is
//! busy, of its weight over the weights of all busy tenants times what all busy tenants held: an
//! idle tenant changes nobody's figure. Their ratio is 1 for a tenant that got what it asked for.
//!
//! The same meter serves reports and controllers: an executor feeds it and sends its readings to
//! the policy ([`crate::Event::Share`]).
//!
//! Rules: every call is O(1), whatever the number of tenants; sums of resources are integers, so
//! that what is placed and retired cancels exactly; times that run backwards count as no time;
//! nothing is allocated after the last tenant was added. Reading changes nothing: sums of floats
//! depend on where they are cut, and readers come when they like.

use crate::ids::TenantId;
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits};
use crate::units::Nanos;

/// Integrates the shares of the tenants of one device.
#[derive(Clone, Debug)]
pub struct ShareMeter {
    device: DeviceShape,
    /// By tenant.
    meters: Vec<Meter>,
    now: Nanos,
    /// What all busy tenants hold now.
    held: u64,
    /// Sum of the weights of busy tenants.
    weight: u64,
    /// Time integral of what is held, in SM · ns.
    total: f64,
    /// Time integral of what is held per weight of the busy tenants, in SM · ns.
    per_weight: f64,
}

/// One tenant's integrals, in SM · nanoseconds since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareReading {
    /// What its blocks held while it was busy.
    pub held: f64,
    /// Its weight's part of what all busy tenants held, while it was busy.
    pub entitled: f64,
    /// What all tenants held while it was busy.
    pub total: f64,
}

#[derive(Clone, Copy, Debug)]
struct Meter {
    weight: u32,
    busy: bool,
    blocks: Held,
    held: SmUnits,
    /// Integrals up to the time at which the meter was last brought forward.
    reading: ShareReading,
    at: Nanos,
    /// The device's integrals at that time.
    total_at: f64,
    per_weight_at: f64,
}

impl ShareReading {
    /// Returns held over entitled: 1 for a tenant that got its share; `None` before it was
    /// entitled to anything.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.entitled > 0.0).then(|| self.held / self.entitled)
    }

    /// Returns the part of what all tenants held that it was entitled to while it was busy.
    #[must_use]
    pub fn asked(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.entitled / self.total)
    }

    /// Returns the part of what all tenants held that it held while it was busy.
    #[must_use]
    pub fn got(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.held / self.total)
    }
}

impl ShareMeter {
    /// Returns a meter without tenants, at time 0.
    #[must_use]
    pub fn new(device: &DeviceShape) -> Self {
        Self {
            device: *device,
            meters: Vec::new(),
            now: Nanos::ZERO,
            held: 0,
            weight: 0,
            total: 0.0,
            per_weight: 0.0,
        }
    }

    /// Adds a tenant, idle, or changes its weight.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u32, at: Nanos) {
        self.advance(at);
        let weight = weight.max(1);
        while self.meters.len() <= tenant.index() {
            self.meters.push(Meter {
                weight: 1,
                busy: false,
                blocks: Held::default(),
                held: SmUnits(0),
                reading: ShareReading::default(),
                at: self.now,
                total_at: self.total,
                per_weight_at: self.per_weight,
            });
        }
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        let old = std::mem::replace(&mut meter.weight, weight);
        if meter.busy {
            self.weight = self.weight - u64::from(old) + u64::from(weight);
        }
    }

    /// Forgets a tenant's integrals: should it come back, they begin anew.
    pub fn remove(&mut self, tenant: TenantId, at: Nanos) {
        self.set_busy(tenant, false, at);
        if let Some(meter) = self.meters.get_mut(tenant.index()) {
            meter.reading = ShareReading::default();
        }
    }

    /// Notes that a tenant has work, or has none any more.
    pub fn set_busy(&mut self, tenant: TenantId, busy: bool, at: Nanos) {
        self.advance(at);
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        let (weight, held) = (u64::from(meter.weight), meter.held.0);
        if std::mem::replace(&mut meter.busy, busy) != busy {
            match busy {
                true => {
                    self.weight += weight;
                    self.held += held;
                }
                false => {
                    self.weight -= weight;
                    self.held -= held;
                }
            }
        }
    }

    /// Notes that `n` blocks of a tenant became resident.
    pub fn placed(&mut self, tenant: TenantId, block: &BlockShape, n: u32, at: Nanos) {
        self.change(tenant, at, |held| held.add(block, n));
    }

    /// Notes that `n` blocks of a tenant left their SMs.
    pub fn retired(&mut self, tenant: TenantId, block: &BlockShape, n: u32, at: Nanos) {
        self.change(tenant, at, |held| held.remove(block, n));
    }

    fn change(&mut self, tenant: TenantId, at: Nanos, act: impl FnOnce(&mut Held)) {
        self.advance(at);
        let device = self.device;
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        act(&mut meter.blocks);
        let held = meter.blocks.dominant(&device);
        let before = std::mem::replace(&mut meter.held, held);
        if meter.busy {
            self.held = self.held - before.0 + held.0;
        }
    }

    /// Returns what a tenant's blocks hold now.
    #[must_use]
    pub fn held_now(&self, tenant: TenantId) -> Held {
        self.meters
            .get(tenant.index())
            .map_or_else(Held::default, |meter| meter.blocks)
    }

    /// Integrates up to `at`.
    pub fn advance(&mut self, at: Nanos) {
        let elapsed = (at - self.now).0;
        self.now = self.now.max(at);
        if elapsed == 0 || self.weight == 0 {
            return;
        }
        let held = SmUnits(self.held).as_sms() * elapsed as f64;
        self.total += held;
        self.per_weight += held / self.weight as f64;
    }

    /// Returns a tenant's integrals up to the newest time seen.
    #[must_use]
    pub fn read(&self, tenant: TenantId) -> ShareReading {
        let meter = self.meters.get(tenant.index());
        meter.map_or_else(ShareReading::default, |meter| self.reading_now(meter))
    }

    /// Brings a tenant's integrals to the present.
    fn forward(&mut self, tenant: TenantId) -> Option<&mut Meter> {
        let reading = self.read(tenant);
        let meter = self.meters.get_mut(tenant.index())?;
        meter.reading = reading;
        meter.at = self.now;
        meter.total_at = self.total;
        meter.per_weight_at = self.per_weight;
        Some(meter)
    }

    fn reading_now(&self, meter: &Meter) -> ShareReading {
        let mut reading = meter.reading;
        let elapsed = (self.now - meter.at).0 as f64;
        if meter.busy {
            reading.held += meter.held.as_sms() * elapsed;
            let per_weight = self.per_weight - meter.per_weight_at;
            reading.entitled += per_weight * f64::from(meter.weight);
            reading.total += self.total - meter.total_at;
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::ShareMeter;
    use crate::ids::TenantId;
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    const A: TenantId = TenantId(0);
    const B: TenantId = TenantId(1);
    const C: TenantId = TenantId(2);
    const DEVICE: DeviceShape = DeviceShape::small(4);
    /// A quarter of an SM by threads.
    const QUARTER: BlockShape = BlockShape {
        threads: 256,
        registers: 256,
        shared_bytes: 0,
    };
    /// Half an SM by shared memory.
    const HALF: BlockShape = BlockShape {
        threads: 32,
        registers: 32,
        shared_bytes: 24_576,
    };

    fn meter() -> ShareMeter {
        let mut meter = ShareMeter::new(&DEVICE);
        for (tenant, weight) in [(A, 2), (B, 1), (C, 1)] {
            meter.set_weight(tenant, weight, Nanos(0));
        }
        meter
    }

    #[test]
    fn an_idle_tenant_changes_nobodys_figure() {
        let mut meter = meter();
        meter.set_busy(A, true, Nanos(0));
        meter.set_busy(B, true, Nanos(0));
        meter.placed(A, &QUARTER, 8, Nanos(0));
        meter.placed(B, &QUARTER, 4, Nanos(0));
        meter.advance(Nanos(300));
        // 3 SMs are held: A is entitled to 2 and holds 2, B to 1 and holds 1.
        for (tenant, held) in [(A, 600.0), (B, 300.0)] {
            let reading = meter.read(tenant);
            assert_eq!((reading.held, reading.entitled), (held, held));
        }
        assert_eq!(meter.read(C).ratio(), None);
    }

    #[test]
    fn blocks_of_an_idle_tenant_change_nobodys_figure() {
        let mut meter = meter();
        meter.placed(C, &HALF, 2, Nanos(0));
        meter.set_busy(A, true, Nanos(0));
        meter.placed(A, &QUARTER, 4, Nanos(0));
        meter.advance(Nanos(100));
        let reading = meter.read(A);
        assert_eq!((reading.held, reading.entitled), (100.0, 100.0));
        meter.set_busy(C, true, Nanos(100));
        meter.retired(C, &HALF, 2, Nanos(100));
        meter.set_busy(C, false, Nanos(100));
        meter.advance(Nanos(200));
        assert_eq!(meter.read(A).entitled, 200.0);
        assert_eq!(meter.read(C).held, 0.0);
    }

    #[test]
    fn entitlement_follows_who_is_busy_at_the_moment() {
        let mut meter = meter();
        meter.set_busy(A, true, Nanos(0));
        meter.placed(A, &QUARTER, 4, Nanos(0));
        // A alone until 100, then beside B, which holds nothing yet.
        meter.set_busy(B, true, Nanos(100));
        meter.advance(Nanos(400));
        let (a, b) = (meter.read(A), meter.read(B));
        assert_eq!((a.held, a.entitled), (400.0, 100.0 + 200.0));
        assert_eq!((b.held, b.entitled), (0.0, 100.0));
        assert_eq!(b.total, 300.0);
    }

    #[test]
    fn the_largest_resource_sum_counts() {
        let mut meter = meter();
        meter.set_busy(A, true, Nanos(0));
        // Two quarters by threads and one half by shared memory: half an SM, plus 64 threads' worth.
        meter.placed(A, &QUARTER, 2, Nanos(0));
        meter.placed(A, &HALF, 1, Nanos(0));
        meter.advance(Nanos(1024));
        assert_eq!(meter.read(A).held, 544.0);
        meter.retired(A, &QUARTER, 2, Nanos(1024));
        meter.advance(Nanos(2048));
        assert_eq!(meter.read(A).held, 544.0 + 512.0);
    }

    #[test]
    fn weights_change_and_time_never_runs_backwards() {
        let mut meter = meter();
        meter.set_busy(A, true, Nanos(10));
        meter.set_busy(B, true, Nanos(10));
        meter.placed(A, &QUARTER, 4, Nanos(10));
        meter.set_weight(A, 3, Nanos(40));
        meter.advance(Nanos(20));
        meter.advance(Nanos(80));
        let reading = meter.read(A);
        assert_eq!(reading.held, 70.0);
        assert!((reading.entitled - (20.0 + 30.0)).abs() < 1e-9);
    }
}
