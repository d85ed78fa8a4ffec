//! Holds tenants' shares at their weights over time.
//!
//! A partition in whole blocks misses the weights, executors obey it late (slices end as a whole)
//! and with a bias of their own. The controller closes the loop: it takes what each tenant held
//! beyond what it was entitled to (its **excess**, in SM · ns) and lets the next partition start the
//! tenant that much higher or lower, so that the excess is made up within a horizon.
//!
//! It is a proportional controller on an integral, so that any constant bias of the executor ends
//! as a constant excess and the long-run ratio is exact. Its horizon is four times the longest time
//! a block stays on the device, which bounds gain × delay at 1/4, well inside stability (π/2).
//!
//! Bound: an excess never exceeds four horizons of the tenant's nominal share of the device, because a
//! tenant that could not use its share is not owed it for ever. Where there are so many tenants that
//! a nominal share is less than the **grain**, the least that a partition can give (the largest block,
//! on each SM of a part), tenants take turns, and one that waits for its turn must not be taken for
//! one that wants no more: everyone's bound is stretched by the same factor, so that the least nominal
//! share reaches the grain and bounds stay in the ratio of the weights. Within the bound nothing is
//! clamped: start levels that were cut off alike would tie, and ties go to the smaller block.

use crate::book::{Book, RowRecord, TenantRecord};
use crate::partition::MOST_PARTS;
use crate::units::Nanos;

/// The horizon is this many times the longest stay of a block.
const HORIZON_STAYS: f64 = 4.0;
/// The shortest horizon, for blocks that are over before a plan can matter.
const LEAST_HORIZON_NS: f64 = 40_000.0;
/// The bound of an excess, in horizons of the tenant's nominal share.
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
    /// The greatest excess or deficit, as a part of what the tenant should hold in a horizon, or of
    /// the grain where that is more.
    pub worst: f64,
}

impl Balance {
    /// Returns whether the plan should be changed for it.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.worst > DEAD_BAND
    }

    /// Returns whether start levels alone do not mend it, so that room must stay empty for the
    /// ratio's sake.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.worst > STUCK
    }

    /// Returns how long until the controller should look again: half the longest stay, within
    /// limits.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "clamped")]
    pub fn tick(&self) -> Nanos {
        Nanos((self.horizon_ns / HORIZON_STAYS / 2.0).clamp(5_000.0, 1_000_000.0) as u64)
    }
}

/// Makes the active tenants' excesses relative to their weighted mean, bounds them, and says how far
/// off the worst is.
pub fn rebase(book: &mut Book, sms: u16) -> Balance {
    let stay_ns = greatest(book, |row| row.stay_ns);
    let horizon_ns = (stay_ns * HORIZON_STAYS).max(LEAST_HORIZON_NS);
    let part_sms = f64::from(sms.div_ceil(MOST_PARTS));
    let grain_sms = greatest(book, |row| row.share) * part_sms;
    let (mut weights, mut excess, mut least) = (0.0, 0.0, f64::MAX);
    for tenant in book.active() {
        weights += f64::from(tenant.weight);
        excess += tenant.excess;
        least = least.min(f64::from(tenant.weight));
    }
    // By what bounds are stretched because nominal shares are less than the grain.
    let stretch = (grain_sms * weights / (least * f64::from(sms))).max(1.0);
    let mut worst: f64 = 0.0;
    book.for_active(|tenant| {
        let part = f64::from(tenant.weight) / weights;
        let nominal = part * f64::from(sms);
        let bound = MOST_HORIZONS * nominal * stretch * horizon_ns;
        tenant.excess = (tenant.excess - part * excess).clamp(-bound, bound);
        let unit = nominal.max(grain_sms) * horizon_ns;
        worst = worst.max((tenant.excess / unit).abs());
    });
    Balance { horizon_ns, worst }
}

/// Returns where the tenant's level starts in the next partition, in SMs held on the whole device.
#[must_use]
pub fn start_level(tenant: &TenantRecord, balance: &Balance) -> f64 {
    tenant.excess / balance.horizon_ns
}

/// Returns the greatest of a number over the rows that work.
fn greatest(book: &Book, of: impl Fn(&RowRecord) -> f64) -> f64 {
    let rows = book.active().flat_map(|tenant| book.rows_of(tenant));
    rows.filter(|(_, row)| row.works)
        .map(|(_, row)| of(row))
        .fold(0.0, f64::max)
}
