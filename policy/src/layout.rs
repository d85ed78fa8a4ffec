//! Plans as policies that order launches make them: some groups, and one cap a row on each.
//!
//! Rule: rows with work, or that are expected to have some, are listed; the default row binds the others until the
//! replan that follows their next launch. Where rows are capped, a tenant with a row for launches of several kinds has
//! a limit.

use crate::book::{Book, TenantRecord};
use crate::ids::{DeviceId, GroupId, RowId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, Surplus,
    TenantLimit,
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
        plans: (&Plan, &mut Plan),
        groups: &[Group],
        ranked: &[RowId],
        cap: impl Fn(usize, usize) -> u16,
    ) {
        self.fill_limited(book, plans, groups, ranked, cap, |_| None);
    }

    /// Fills `next` as [`Layout::fill`] does; `budget` is asked up to which number blocks of the row at a place in
    /// `ranked` may start.
    ///
    /// # Panics
    /// If the groups overlap or leave an SM out.
    pub fn fill_budgeted(
        &self,
        book: &Book,
        plans: (&Plan, &mut Plan),
        groups: &[Group],
        ranked: &[RowId],
        cap: impl Fn(usize, usize) -> u16,
        budget: impl Fn(usize) -> Option<u64>,
    ) {
        self.fill_whole(book, plans, groups, ranked, cap, (budget, |_| None));
    }

    /// Fills `next` as [`Layout::fill`] does; `limit` is asked what a tenant's rows may hold together, where several of
    /// them have work.
    ///
    /// # Panics
    /// If the groups overlap or leave an SM out.
    pub fn fill_limited(
        &self,
        book: &Book,
        plans: (&Plan, &mut Plan),
        groups: &[Group],
        ranked: &[RowId],
        cap: impl Fn(usize, usize) -> u16,
        limit: impl Fn(&TenantRecord) -> Option<SmUnits>,
    ) {
        self.fill_whole(book, plans, groups, ranked, cap, (|_| None, limit));
    }

    fn fill_whole(
        &self,
        book: &Book,
        (standing, next): (&Plan, &mut Plan),
        groups: &[Group],
        ranked: &[RowId],
        cap: impl Fn(usize, usize) -> u16,
        (budget, limit): (
            impl Fn(usize) -> Option<u64>,
            impl Fn(&TenantRecord) -> Option<SmUnits>,
        ),
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
            let listed = PlanRow {
                budget: budget(at),
                ..book.listed(*row, rank, stop)
            };
            let place = plan.row(listed, Cell::default());
            for group in 0..groups.len() {
                let id = GroupId(u16::try_from(group).unwrap_or(u16::MAX));
                plan.cell(id, place, Cell::capped(cap(group, at)));
            }
        }
        if self.default_cap != NO_CAP {
            limit_tenants(&mut plan, book, limit);
        }
        let block = |row: RowId| book.row(row).map_or_else(BlockShape::default, |i| i.block);
        plan.finish(standing, block)
            .expect("groups cover the device once, and each row is listed once");
    }
}

/// Limits tenants of whom several rows have work as `limit` says. Those whose launches are of more kinds than they have
/// rows are limited in any case, to their weight's part of the device, because nothing else binds the row that takes
/// the rest of them.
fn limit_tenants(
    plan: &mut PlanBuilder<'_>,
    book: &Book,
    limit: impl Fn(&TenantRecord) -> Option<SmUnits>,
) {
    let all = book.active().map(|tenant| u64::from(tenant.weight));
    let all: u64 = all.sum();
    for tenant in book.active() {
        let rows = || book.rows_of(tenant).filter(|(row, _)| !book.is_idle(*row));
        let spills = rows().any(|(_, row)| row.spill);
        let several = rows().nth(1).is_some();
        let own = several.then(|| limit(tenant)).flatten();
        let weight = u64::from(tenant.weight);
        let device = SmUnits::ONE.times(book.shape().sms.into());
        let part = (spills && weight < all).then(|| SmUnits(device.0 * weight / all));
        if let Some(device) = own.or(part) {
            plan.limit(TenantLimit {
                tenant: tenant.id,
                device,
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
