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
//! A tenant whose launches cannot be submitted fast enough to hold its share ([`TenantBook::submittable`]) does not hold
//! it whatever room it is given. It takes no part in the balance, so that no room stays empty for its sake.
//!
//! Bound: an excess never exceeds four horizons of the tenant's nominal share of the device, because a
//! tenant that could not use its share is not owed it for ever. Where there are so many tenants that
//! a nominal share is less than the **grain**, the least that a partition can give (the largest block,
//! on each SM of a part), tenants take turns, and one that waits for its turn must not be taken for
//! one that wants no more: everyone's bound is stretched by the same factor, so that the least nominal
//! share reaches the grain and bounds stay in the ratio of the weights. Within the bound nothing is
//! clamped: start levels that were cut off alike would tie, and ties go to the smaller block.

use crate::ledger::{Ledger, RowBook, TenantBook};
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
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    pub fn tick(&self) -> Nanos {
        Nanos((self.horizon_ns / HORIZON_STAYS / 2.0).clamp(5_000.0, 1_000_000.0) as u64)
    }
}

/// Makes the active tenants' excesses relative to their weighted mean, bounds them, and says how far
/// off the worst is.
pub fn rebase(ledger: &mut Ledger, sms: u16) -> Balance {
    let stay_ns = greatest(ledger, |row| row.stay_ns);
    let horizon_ns = (stay_ns * HORIZON_STAYS).max(LEAST_HORIZON_NS);
    let part_sms = f64::from(sms.div_ceil(MOST_PARTS));
    let grain_sms = greatest(ledger, |row| row.share) * part_sms;
    ledger.measure_submission();
    let (mut weights, mut least) = (0.0, f64::MAX);
    for tenant in ledger.active() {
        weights += f64::from(tenant.weight);
        least = least.min(f64::from(tenant.weight));
    }
    let nominal = |tenant: &TenantBook| f64::from(tenant.weight) / weights * f64::from(sms);
    let is_balanced = |tenant: &TenantBook| tenant.submittable >= nominal(tenant);
    let (mut balanced_weights, mut excess) = (0.0, 0.0);
    for tenant in ledger.active().filter(|tenant| is_balanced(tenant)) {
        balanced_weights += f64::from(tenant.weight);
        excess += tenant.excess;
    }
    // By what bounds are stretched because nominal shares are less than the grain.
    let stretch = (grain_sms * weights / (least * f64::from(sms))).max(1.0);
    let mut worst: f64 = 0.0;
    ledger.for_active(|tenant| {
        if !is_balanced(tenant) {
            tenant.excess = 0.0;
            return;
        }
        let (part, nominal) = (f64::from(tenant.weight) / balanced_weights, nominal(tenant));
        let bound = MOST_HORIZONS * nominal * stretch * horizon_ns;
        tenant.excess = (tenant.excess - part * excess).clamp(-bound, bound);
        let unit = nominal.max(grain_sms) * horizon_ns;
        worst = worst.max((tenant.excess / unit).abs());
    });
    Balance { horizon_ns, worst }
}

/// Returns where the tenant's level starts in the next partition, in SMs held on the whole device.
#[must_use]
pub fn start_level(tenant: &TenantBook, balance: &Balance) -> f64 {
    tenant.excess / balance.horizon_ns
}

/// Returns the greatest of a number over the rows that work.
fn greatest(ledger: &Ledger, of: impl Fn(&RowBook) -> f64) -> f64 {
    let rows = ledger.active().flat_map(|tenant| ledger.rows_of(tenant));
    rows.filter(|(_, row)| row.works)
        .map(|(_, row)| of(row))
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::rebase;
    use crate::class::Class;
    use crate::event::Event;
    use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
    use crate::ledger::Ledger;
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    /// Returns what two tenants of equal weight are found to hold too much, of four SMs: one launches blocks of 1 us,
    /// the other of 100 us, and each launch fills the device.
    fn excesses(submission_ns: u32) -> Vec<f64> {
        let mut ledger = Ledger::new(&DeviceShape {
            sms: 4,
            threads: 1000,
            blocks: 10,
            registers: 1,
            shared_bytes: 1,
            submission_ns,
        });
        for (number, block_ns) in [(0, 1_000), (1, 100_000)] {
            let (tenant, row, at) = (TenantId(number), RowId(number), Nanos(200_000));
            let block = BlockShape {
                threads: 100,
                ..BlockShape::default()
            };
            let (weight, class) = (1, Class::Normal);
            ledger.observe(&Event::Tenant {
                tenant,
                weight,
                class,
            });
            let (profile, spill) = (ProfileKey(0), false);
            ledger.observe(&Event::RowNew {
                row,
                tenant,
                block,
                profile,
                spill,
            });
            let (launch, blocks) = (0, 40);
            ledger.observe(&Event::Arrive {
                row,
                launch,
                blocks,
                at,
            });
            ledger.observe(&Event::Blocks {
                row,
                group: GroupId::UNKNOWN,
                launch,
                started: 1,
                ended: 1,
                ran_ns: block_ns,
                at,
            });
            ledger.observe(&Event::Share {
                tenant,
                held: 1000.0 * f64::from(number),
                entitled: 500.0,
                at,
            });
        }
        rebase(&mut ledger, 4);
        ledger.active().map(|tenant| tenant.excess).collect()
    }

    #[test]
    fn who_cannot_submit_enough_to_hold_its_share_takes_no_part_in_the_balance() {
        assert_eq!(excesses(0), [-500.0, 500.0]);
        // 40 blocks of 1 us a launch are 4 SMs for half of the time, which is its share.
        assert_eq!(excesses(2_000), [-500.0, 500.0]);
        assert_eq!(excesses(2_100), [0.0, 0.0]);
    }
}
