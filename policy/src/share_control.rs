//! Holds tenants' shares at their weights over time.
//!
//! A partition in whole blocks misses the weights, executors obey it late (slices end as a whole)
//! and with a bias of their own. The controller closes the loop: it integrates what each tenant had
//! beyond its fair share (its **excess**, in SM · ns of contended time) and lets the next partition
//! start the tenant that much higher or lower, so that the excess is made up within a horizon.
//!
//! It is a proportional controller on an integral, so that any constant bias of the executor ends
//! as a constant excess and the long-run ratio is exact. Its horizon is four times the longest time
//! a block stays on the device, which bounds gain × delay at 1/4, well inside stability (π/2).
//!
//! Bounds: a start level never exceeds the tenant's nominal share of the device, and an excess never
//! exceeds four horizons of it: a tenant that could not use its share is not owed it for ever.

use crate::books::TenantBook;
use crate::ledger::Ledger;
use crate::units::Nanos;

/// The horizon is this many times the longest stay of a block.
const HORIZON_STAYS: f64 = 4.0;
/// The shortest horizon, for blocks that are over before a plan can matter.
const LEAST_HORIZON_NS: f64 = 40_000.0;
/// An excess is bounded by so many horizons of the tenant's nominal share.
const MOST_HORIZONS: f64 = 4.0;
/// Imbalances below this part of a horizon's nominal share leave the plan as it is.
const DEAD_BAND: f64 = 0.02;

/// Beyond this part of a horizon's nominal share, start levels were not enough.
const STUCK: f64 = 0.5;

/// What the controller found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Within what time an excess is to be made up, in nanoseconds.
    pub horizon_ns: f64,
    /// The greatest excess or deficit, as a part of what the tenant should hold in a horizon.
    pub worst: f64,
}

impl Balance {
    /// Whether the plan should be changed for it.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.worst > DEAD_BAND
    }

    /// Whether start levels alone do not mend it, so that room must stay empty for the ratio's sake.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.worst > STUCK
    }

    /// How long until the controller should look again: half the longest stay, within limits.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    pub fn tick(&self) -> Nanos {
        Nanos((self.horizon_ns / HORIZON_STAYS / 2.0).clamp(5_000.0, 1_000_000.0) as u64)
    }
}

/// Brings the books to the present: makes service relative to the weighted mean of the active
/// tenants, bounds it, and says how far off the worst is.
pub fn rebase(ledger: &mut Ledger, sms: u16) -> Balance {
    let horizon_ns = (longest_stay_ns(ledger) * HORIZON_STAYS).max(LEAST_HORIZON_NS);
    let (mut weights, mut service) = (0.0, 0.0);
    for tenant in ledger.tenants_mut().filter(|tenant| tenant.active) {
        weights += f64::from(tenant.weight);
        service += tenant.service;
    }
    let mut worst: f64 = 0.0;
    for tenant in ledger.tenants_mut().filter(|tenant| tenant.active) {
        let part = f64::from(tenant.weight) / weights;
        let nominal = part * f64::from(sms) * horizon_ns;
        let bound = MOST_HORIZONS * nominal;
        tenant.service = (tenant.service - part * service).clamp(-bound, bound);
        worst = worst.max((tenant.service / nominal).abs());
    }
    Balance { horizon_ns, worst }
}

/// Where the tenant's level starts in the next partition, in SMs held on the whole device.
#[must_use]
pub fn start_level(tenant: &TenantBook, balance: &Balance, nominal_sms: f64) -> f64 {
    (tenant.service / balance.horizon_ns).clamp(-nominal_sms, nominal_sms)
}

fn longest_stay_ns(ledger: &Ledger) -> f64 {
    let working = ledger
        .kernels()
        .filter(|(_, kernel)| kernel.open_launches > 0);
    working
        .map(|(_, kernel)| kernel.stay_ns)
        .fold(0.0, f64::max)
}
