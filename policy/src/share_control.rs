//! Holds tenants' shares at their weights over time.
//!
//! A partition in whole blocks misses the weights, executors obey it late (slices end as a whole) and with a bias of
//! their own. The controller closes the loop: it takes what each tenant held beyond what it was entitled to, per
//! weight ([`TenantRecord::excess_per_weight`]), and lets the next partition start a tenant as much lower as it is
//! behind the one with the greatest excess, so that it catches up within a horizon.
//!
//! It is a proportional controller on an integral, so that any constant bias of the executor ends
//! as a constant distance and the long-run ratio is exact. Its horizon is four times the longest time
//! a block stays on the device, which bounds gain × delay at 1/4, well inside stability (π/2). Where looks come later
//! than the controller asked, because plans cost the host too much, that delay is added to the stay.
//!
//! Bound: nobody is behind by more than [`MOST_BEHIND_NS`] of a weight's part of the device, because a
//! tenant that could not use its share is not owed it for ever. Where there are so many tenants that
//! a nominal share is less than the **grain**, the least that a partition can give (the largest block,
//! on each SM of a part), tenants take turns, and one that waits for its turn must not be taken for
//! one that wants no more: the bound is stretched until the least nominal share reaches the grain.
//! Within it nothing is clamped: start levels that were cut off alike would tie, and ties go to the
//! smaller block.
//!
//! Order: of a class, the tenant goes first that is behind by the longest time of what it is entitled to
//! ([`TenantRecord::excess_time`]). By weight, one that can use little would come after all that fluctuate by as much
//! as it can use at all.

use crate::book::{Book, RowRecord, TenantRecord};
use crate::class::Class;
use crate::ids::TenantId;
use crate::partition::MOST_PARTS;
use crate::units::Nanos;
use std::cmp::Ordering;

/// The horizon is this many times the longest stay of a block and the delay of looks.
const HORIZON_STAYS: f64 = 4.0;
/// The least stay that counts, in nanoseconds, for blocks that are over before a plan can matter.
const LEAST_STAY_NS: f64 = 10_000.0;
/// The bound of what a tenant is behind by, in nanoseconds of a weight's part of the device.
const MOST_BEHIND_NS: f64 = 10e6;
/// What tenants of a better class are far ahead by, in nanoseconds of a weight's part of the device: more than they
/// fluctuate by from block to block.
const FAR_AHEAD_NS: f64 = 2e5;
/// The longest delay of looks that counts, in nanoseconds: a host that stood still is no reason to be slow afterwards.
const MOST_LATE_NS: f64 = 20e6;
/// Distances below this part of a horizon leave the plan as it is.
const DEAD_BAND: f64 = 0.02;

/// What the controller found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Within what time a tenant that is behind is to catch up, in nanoseconds.
    pub horizon_ns: f64,
    /// The same where looks come in time.
    in_time_ns: f64,
    /// The time at which it was found.
    pub now: Nanos,
    /// The greatest excess per weight.
    most: f64,
    /// The same of each class, the best first.
    most_of_class: [f64; Class::ALL.len()],
    /// The excess that counts as none, per weight, in SM · ns: above zero where deficits were cut off above it.
    none: f64,
    /// [`FAR_AHEAD_NS`] per weight, in SM · ns; at least what a horizon gives.
    far: f64,
    /// SMs of a weight of one.
    sms_each: f64,
    /// By what the tenant with the least is behind it, as a part of what a horizon gives it.
    pub worst: f64,
}

/// A tenant's place in the dispatch order: by class, excess and number.
#[derive(Debug)]
pub struct Place {
    /// The class that it stands with: its own, or a better one.
    class: Class,
    /// It stands before those of that class that do not.
    goes_first: bool,
    /// [`TenantRecord::excess_time`].
    excess_ns: f64,
    /// The tenant.
    pub tenant: TenantId,
}

impl Place {
    /// Returns which of two goes first.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let class = self.class.cmp(&other.class);
        let first = other.goes_first.cmp(&self.goes_first);
        let excess = self.excess_ns.total_cmp(&other.excess_ns);
        class
            .then(first)
            .then(excess)
            .then(self.tenant.cmp(&other.tenant))
    }
}

impl Balance {
    /// Returns whether the plan should be changed for it.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.worst > DEAD_BAND
    }

    /// Returns how long until the controller should look again: half the longest stay, within
    /// limits.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "clamped")]
    pub fn tick(&self) -> Nanos {
        Nanos((self.in_time_ns / HORIZON_STAYS / 2.0).clamp(5_000.0, 1_000_000.0) as u64)
    }

    /// Returns a tenant's place in the dispatch order. Where the plan corrects an imbalance, one that held less than
    /// it was entitled to goes before the better classes that are far ahead: its blocks may need most of an SM, which
    /// never comes free while small ones of a better class take every bit.
    #[must_use]
    pub fn place(&self, tenant: &TenantRecord, corrects: bool) -> Place {
        let excess = tenant.excess_per_weight(self.now);
        let better = Class::ALL.into_iter().take(tenant.class as usize);
        let overtaken = better
            .filter(|_| corrects && excess < 0.0)
            .find(|class| self.is_far_ahead(*class, excess));
        Place {
            class: overtaken.unwrap_or(tenant.class),
            goes_first: overtaken.is_some(),
            excess_ns: tenant.excess_time(self.now, self.none, self.sms_each),
            tenant: tenant.id,
        }
    }

    /// Returns whether a class is far ahead of a tenant with this excess. Of the latency class one must have held so
    /// much too much; of another it is enough that one held half of it, and is so far from the tenant.
    fn is_far_ahead(&self, class: Class, excess: f64) -> bool {
        let most = self.most_of_class[class as usize];
        match class {
            Class::Latency => most > self.far,
            _ => most > self.far / 2.0 && most - excess > self.far,
        }
    }

    /// Returns where the tenant's level starts in the next partition, in SMs held on the whole device: below zero by
    /// what it is behind.
    #[must_use]
    pub fn start_level(&self, tenant: &TenantRecord) -> f64 {
        (tenant.excess_per_weight(self.now) - self.most) * f64::from(tenant.weight)
            / self.horizon_ns
    }
}

/// Bounds what the active tenants are behind by, and says how far off the worst is. `late` is by what the last look
/// came after the time that [`Balance::tick`] gave.
pub fn rebase(book: &mut Book, sms: u16, now: Nanos, late: Nanos) -> Balance {
    let stay_ns = greatest(book, |row| row.stay_ns).max(LEAST_STAY_NS);
    let late_ns = (late.0 as f64).min(MOST_LATE_NS);
    let in_time_ns = stay_ns * HORIZON_STAYS;
    let horizon_ns = (stay_ns + late_ns) * HORIZON_STAYS;
    let grain_sms = greatest(book, |row| row.share) * f64::from(sms.div_ceil(MOST_PARTS));
    let (mut weights, mut least_weight) = (0.0, f64::MAX);
    let (mut most, mut least) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut most_of_class = Class::ALL.map(|_| f64::NEG_INFINITY);
    for tenant in book.active() {
        let weight = f64::from(tenant.weight);
        (weights, least_weight) = (weights + weight, least_weight.min(weight));
        let excess = tenant.excess_per_weight(now);
        (most, least) = (most.max(excess), least.min(excess));
        let most_of_its = &mut most_of_class[tenant.class as usize];
        *most_of_its = most_of_its.max(excess);
    }
    // What a horizon gives for a weight of one, stretched where the least nominal share is less than the grain.
    let sms_each = f64::from(sms) / weights;
    let stretched = sms_each.max(grain_sms / least_weight);
    let unit = stretched * in_time_ns;
    let bound = stretched * MOST_BEHIND_NS.max(HORIZON_STAYS * in_time_ns);
    let worst = match weights > 0.0 {
        true => {
            book.bound_deficits(bound - most);
            (most - least.max(most - bound)) / unit
        }
        false => 0.0,
    };
    Balance {
        now,
        horizon_ns,
        in_time_ns,
        most,
        most_of_class,
        none: (most - bound).max(0.0),
        sms_each,
        far: stretched * FAR_AHEAD_NS.max(in_time_ns),
        worst,
    }
}

/// Returns the greatest of a number over the rows that work.
fn greatest(book: &Book, of: impl Fn(&RowRecord) -> f64) -> f64 {
    let rows = book.active().flat_map(|tenant| book.rows_of(tenant));
    rows.filter(|(_, row)| row.works)
        .map(|(_, row)| of(row))
        .fold(0.0, f64::max)
}
