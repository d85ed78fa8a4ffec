//! Plans as policies that order launches make them: some groups, and one cap a row on each.
//!
//! Rule: rows with work, or that are expected to have some, are listed; the default row binds the others until the
//! replan that follows their next launch. Where rows are capped, a tenant with a row for launches of several kinds has
//! a limit.

use crate::book::Book;
use crate::ids::{DeviceId, GroupId, RowId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, Preemption, Stop, Surplus, TenantLimit,
};
use crate::plan_builder::PlanBuilder;
use crate::shape::{BlockShape, SmUnits};
use crate::sm_set::SmSet;

/// What a plan says of all rows.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The device.
    pub device: DeviceId,
    /// How promptly rows must be able to stop.
    pub stop: Stop,
    /// How promptly a row that is the only one with work must be able to stop.
    pub stop_alone: Stop,
    /// Cap of rows that are not listed.
    pub default_cap: u16,
}

impl Layout {
    /// Returns the layout of a policy that caps rows: rows can stop within about one block, and a row that is not
    /// listed yet may have one block on each SM.
    #[must_use]
    pub fn checked(device: DeviceId) -> Self {
        Self {
            device,
            stop: Stop::Checked,
            stop_alone: Stop::Ahead,
            default_cap: 1,
        }
    }

    /// Returns the layout of a policy that leaves everything to the hardware: launches run ahead, those of rows that
    /// are not listed yet too.
    #[must_use]
    pub fn free(device: DeviceId) -> Self {
        Self {
            device,
            stop: Stop::Ahead,
            stop_alone: Stop::Ahead,
            default_cap: NO_CAP,
        }
    }

    /// Fills `next`: the rows of `ranked` have a rank, in whose order free room is filled, and a cap on each group; the
    /// others come last. `cap` is asked for a group and a place in `ranked`.
    ///
    /// # Panics
    /// If the groups overlap or leave an SM out.
    pub fn fill(
        &self,
        book: &Book,
        (standing, next): (&Plan, &mut Plan),
        groups: &[Group],
        ranked: &[RowId],
        cap: impl Fn(usize, usize) -> u16,
    ) {
        let stop = match ranked.len() {
            0 | 1 => self.stop_alone,
            _ => self.stop,
        };
        let mut plan = PlanBuilder::new(next, self.device, book.shape());
        plan.default_row(DefaultRow {
            cap: self.default_cap,
            stop: self.stop,
        });
        for group in groups {
            plan.group(*group);
        }
        for (at, row) in ranked.iter().enumerate() {
            let rank = u32::try_from(at).unwrap_or(u32::MAX);
            let place = plan.row(book.listed(*row, rank, stop), Cell::default());
            for group in 0..groups.len() {
                let id = GroupId(u16::try_from(group).unwrap_or(u16::MAX));
                plan.cell(id, place, Cell::capped(cap(group, at)));
            }
        }
        if self.default_cap != NO_CAP {
            limit_spills(&mut plan, book, ranked);
        }
        let block = |row: RowId| book.row(row).map_or_else(BlockShape::default, |i| i.block);
        plan.finish(standing, block)
            .expect("groups cover the device once, and each row is listed once");
    }
}

/// Limits tenants whose launches are of more kinds than they have rows to their weight's part of the device, because
/// nothing else binds the row that takes the rest of them.
fn limit_spills(plan: &mut PlanBuilder<'_>, book: &Book, ranked: &[RowId]) {
    let all = book.active().map(|tenant| u64::from(tenant.weight));
    let all: u64 = all.sum();
    let spills = ranked
        .iter()
        .filter_map(|row| book.row(*row).filter(|row| row.spill));
    for (place, info) in spills.clone().enumerate() {
        let weight = u64::from(book.weight(info.tenant));
        let is_first = spills
            .clone()
            .take(place)
            .all(|other| other.tenant != info.tenant);
        if is_first && weight < all {
            let device = SmUnits::ONE.times(book.shape().sms.into());
            plan.limit(TenantLimit {
                tenant: info.tenant,
                device: SmUnits(device.0 * weight / all),
            });
        }
    }
}

/// Returns the group of all SMs.
#[must_use]
pub fn whole(book: &Book, order: DispatchOrder, preemption: Preemption) -> Group {
    Group {
        sms: SmSet::first(book.shape().sms),
        order,
        preemption,
        head_of_line: false,
        surplus: Surplus::Idle,
    }
}
