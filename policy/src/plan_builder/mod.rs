//! Filling a plan: checks what executors rely on, and makes joint promises feasible.
//!
//! A builder fills a buffer that the publisher hands out again and again: its tables keep their
//! room, so that filling allocates nothing once they are large enough.
//!
//! Rules:
//! - Groups come first, then rows and limits. Groups do not overlap and cover every SM; no row and
//!   no tenant's limit is listed twice.
//! - In a group that preempts, rows cannot promise more than an SM holds, or no executor would know
//!   whose blocks to take: caps are reduced in order of rank ([`PlanBuilder::finish`]). Rows under a
//!   group limit of their tenant are left alone: there the limits are the promise, and the policy
//!   makes them feasible.
//! - A standby row (its kernel has no work now) takes no part in that fit.

use crate::ids::{DeviceId, GroupId, RowId, SmId, TenantId};
use crate::plan::{
    Cell, DefaultRow, Group, NO_CAP, Plan, PlanRow, Preemption, QuotaRule, TenantLimit, times_sms,
};
use crate::shape::{BlockShape, DeviceShape, Room, SmUnits};
use crate::units::Nanos;
use thiserror::Error;

/// Why a plan cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// An SM is in two groups.
    #[error("{sm} is in two groups; give each SM to one group")]
    Overlap {
        /// The SM.
        sm: SmId,
    },
    /// An SM is in no group although there are groups.
    #[error("{sm} is in no group; cover every SM of the device")]
    Uncovered {
        /// The SM.
        sm: SmId,
    },
    /// A group names an SM that the device does not have.
    #[error("the device has no {sm}; name only SMs below its count")]
    NoSuchSm {
        /// The SM.
        sm: SmId,
    },
    /// A row is listed twice.
    #[error("{row} is listed twice; list it once and give it a cell on each group")]
    RowTwice {
        /// The row.
        row: RowId,
    },
    /// A tenant has two limits.
    #[error("{tenant} has two limits; give it one and a number on each group")]
    LimitTwice {
        /// The tenant.
        tenant: TenantId,
    },
    /// A group was added after a row or a limit.
    #[error("group {} was added after rows; add every group first", group.0)]
    GroupTooLate {
        /// The group.
        group: GroupId,
    },
}

/// A row or limit that was added, by its place in the plan under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanIndex(usize);

/// Fills one plan.
#[derive(Debug)]
pub struct PlanBuilder<'a> {
    plan: &'a mut Plan,
    shape: DeviceShape,
    error: Option<PlanError>,
}

impl<'a> PlanBuilder<'a> {
    /// Empties a buffer and begins a plan with no groups, under which every row may fill the
    /// device.
    pub fn new(plan: &'a mut Plan, device: DeviceId, shape: &DeviceShape) -> Self {
        for row in &plan.rows {
            plan.row_index[row.row.index()] = 0;
        }
        for limit in &plan.limits {
            plan.limit_index[limit.tenant.index()] = 0;
        }
        plan.device = device;
        plan.sms = shape.sms;
        plan.quota = QuotaRule::default();
        plan.wake_at = None;
        plan.default_row = DefaultRow {
            cap: u16::try_from(shape.blocks).unwrap_or(NO_CAP),
            ..DefaultRow::default()
        };
        plan.groups.clear();
        plan.group_sms.clear();
        plan.rows.clear();
        plan.cells.clear();
        plan.works.clear();
        plan.totals.clear();
        plan.limits.clear();
        plan.group_limits.clear();
        plan.group_by_sm.clear();
        Self {
            plan,
            shape: *shape,
            error: None,
        }
    }

    /// Sets what a row that is not listed gets on each SM.
    pub fn default_row(&mut self, default: DefaultRow) -> &mut Self {
        self.plan.default_row = default;
        self
    }

    /// Sets how issue weights become quotas.
    pub fn quota(&mut self, rule: QuotaRule) -> &mut Self {
        self.plan.quota = rule;
        self
    }

    /// Sets when the policy wants to be woken.
    pub fn wake_at(&mut self, at: Option<Nanos>) -> &mut Self {
        self.plan.wake_at = at;
        self
    }

    /// Adds a group, before any row or limit.
    pub fn group(&mut self, group: Group) -> GroupId {
        let id = GroupId(u16::try_from(self.plan.groups.len()).unwrap_or(u16::MAX));
        if !self.plan.rows.is_empty() || !self.plan.limits.is_empty() {
            self.fail(PlanError::GroupTooLate { group: id });
            return id;
        }
        self.plan.group_sms.push(group.sms.len());
        self.plan.groups.push(group);
        id
    }

    /// Adds a row with work, with the same cell on every group.
    pub fn row(&mut self, row: PlanRow, cell: Cell) -> PlanIndex {
        self.push(row, cell, true)
    }

    /// Adds a row without work: it takes nothing from others in the fit until the replan that
    /// follows its next launch.
    pub fn standby_row(&mut self, row: PlanRow, cell: Cell) -> PlanIndex {
        self.push(row, cell, false)
    }

    fn push(&mut self, row: PlanRow, cell: Cell, works: bool) -> PlanIndex {
        let place = self.plan.rows.len();
        let index = &mut self.plan.row_index;
        if index.len() <= row.row.index() {
            index.resize(row.row.index() + 1, 0);
        }
        if index[row.row.index()] != 0 {
            self.fail(PlanError::RowTwice { row: row.row });
            return PlanIndex(place.saturating_sub(1));
        }
        self.plan.row_index[row.row.index()] = u32::try_from(place + 1).unwrap_or(u32::MAX);
        self.plan.rows.push(row);
        self.plan.works.push(works);
        let groups = self.plan.groups.len();
        self.plan.cells.resize((place + 1) * groups, cell);
        PlanIndex(place)
    }

    /// Sets what a row gets on one group.
    pub fn cell(&mut self, group: GroupId, place: PlanIndex, cell: Cell) -> &mut Self {
        let at = place.0 * self.plan.groups.len() + usize::from(group.0);
        if let Some(slot) = self.plan.cells.get_mut(at) {
            *slot = cell;
        }
        self
    }

    /// Gives a tenant a limit on the device, none on any group yet.
    pub fn limit(&mut self, limit: TenantLimit) -> PlanIndex {
        let place = self.plan.limits.len();
        let index = &mut self.plan.limit_index;
        if index.len() <= limit.tenant.index() {
            index.resize(limit.tenant.index() + 1, 0);
        }
        if index[limit.tenant.index()] != 0 {
            let tenant = limit.tenant;
            self.fail(PlanError::LimitTwice { tenant });
            return PlanIndex(place.saturating_sub(1));
        }
        self.plan.limit_index[limit.tenant.index()] = u32::try_from(place + 1).unwrap_or(u32::MAX);
        self.plan.limits.push(limit);
        let groups = self.plan.groups.len();
        self.plan
            .group_limits
            .resize((place + 1) * groups, SmUnits::MAX);
        PlanIndex(place)
    }

    /// Sets a tenant's limit per SM of one group.
    pub fn group_limit(&mut self, group: GroupId, place: PlanIndex, units: SmUnits) -> &mut Self {
        let at = place.0 * self.plan.groups.len() + usize::from(group.0);
        if let Some(slot) = self.plan.group_limits.get_mut(at) {
            *slot = units;
        }
        self
    }

    /// Checks the plan, makes its promises feasible and computes its tables. `block_of` says what a
    /// block of a row takes; `before` is the plan that stands, for the dirty bits.
    ///
    /// # Errors
    /// The first [`PlanError`]; each names the SM, row, tenant or group concerned.
    pub fn finish(
        mut self,
        before: &Plan,
        block_of: impl Fn(RowId) -> BlockShape,
    ) -> Result<(), PlanError> {
        self.place_sms();
        if let Some(error) = self.error {
            return Err(error);
        }
        self.sort_for_fit();
        for group in 0..self.plan.groups.len() {
            self.fit(group, &block_of);
        }
        self.total();
        mark_changes(self.plan, before);
        Ok(())
    }

    fn fail(&mut self, error: PlanError) {
        self.error.get_or_insert(error);
    }

    fn place_sms(&mut self) {
        if self.plan.groups.is_empty() {
            return;
        }
        let sms = usize::from(self.shape.sms);
        self.plan.group_by_sm.resize(sms, GroupId::UNKNOWN);
        for group in 0..self.plan.groups.len() {
            let id = GroupId(u16::try_from(group).unwrap_or(u16::MAX));
            let members = self.plan.groups[group].sms;
            for sm in members.iter() {
                let wrong = match self.plan.group_by_sm.get_mut(sm.index()) {
                    None => Some(PlanError::NoSuchSm { sm }),
                    Some(slot) if *slot != GroupId::UNKNOWN => Some(PlanError::Overlap { sm }),
                    Some(slot) => {
                        *slot = id;
                        None
                    }
                };
                if let Some(error) = wrong {
                    self.fail(error);
                }
            }
        }
        let of = &self.plan.group_by_sm;
        if let Some(sm) = of.iter().position(|group| *group == GroupId::UNKNOWN) {
            let sm = SmId(u16::try_from(sm).unwrap_or(u16::MAX));
            self.fail(PlanError::Uncovered { sm });
        }
    }

    /// Reduces the caps of one group that an SM cannot hold together: in order of rank, each row
    /// with work keeps as much of its cap as still fits beside the rows before it.
    fn fit(&mut self, group: usize, block_of: &impl Fn(RowId) -> BlockShape) {
        if self.plan.groups[group].preemption == Preemption::None {
            return;
        }
        let groups = self.plan.groups.len();
        let mut room = Room::empty_sm(&self.shape);
        for at in 0..self.plan.fit_order.len() {
            let place = self.plan.fit_order[at] as usize;
            let row = self.plan.rows[place];
            let limited = self
                .plan
                .limit_place(row.tenant)
                .is_some_and(|limit| self.plan.group_limit(group, limit) != SmUnits::MAX);
            let cell = &mut self.plan.cells[place * groups + group];
            if limited || cell.cap == NO_CAP {
                continue;
            }
            let block = block_of(row.row);
            let fits = u16::try_from(room.fits(&block)).unwrap_or(NO_CAP - 1);
            cell.cap = cell.cap.min(fits);
            room.take(&block, cell.cap.into());
        }
    }

    /// Lists the rows with work in order of rank.
    fn sort_for_fit(&mut self) {
        let plan = &mut *self.plan;
        plan.fit_order.clear();
        let works = (0_u32..).zip(&plan.works).filter(|(_, works)| **works);
        plan.fit_order.extend(works.map(|(place, _)| place));
        let rows = &plan.rows;
        plan.fit_order.sort_unstable_by_key(|place| {
            let row = &rows[*place as usize];
            (row.rank, row.row)
        });
    }

    fn total(&mut self) {
        let plan = &mut *self.plan;
        let groups = plan.groups.len();
        for place in 0..plan.rows.len() {
            let cells = &plan.cells[place * groups..(place + 1) * groups];
            let blocks = cells
                .iter()
                .zip(&plan.group_sms)
                .map(|(cell, sms)| times_sms(cell.cap, *sms))
                .fold(0, u32::saturating_add);
            let blocks = match groups {
                0 => times_sms(plan.default_row.cap, plan.sms.into()),
                _ => blocks,
            };
            plan.totals.push(blocks);
        }
        for place in 0..plan.limits.len() {
            let units = &plan.group_limits[place * groups..(place + 1) * groups];
            let on_groups = units
                .iter()
                .zip(&plan.group_sms)
                .map(|(units, sms)| units.times(*sms))
                .fold(SmUnits(0), SmUnits::plus);
            if groups > 0 {
                let limit = &mut plan.limits[place];
                limit.device = limit.device.min(on_groups);
            }
        }
    }
}

/// Compares a plan with the one before it, row by row and group by group.
fn mark_changes(plan: &mut Plan, before: &Plan) {
    let groups = plan.groups.len();
    let alike = groups == before.groups.len()
        && plan.quota == before.quota
        && plan.default_row == before.default_row;
    plan.dirty_groups.clear();
    for group in 0..groups {
        let changed = !alike || plan.groups[group] != before.groups[group];
        plan.dirty_groups.push(changed);
    }
    plan.dirty_rows.clear();
    for place in 0..plan.rows.len() {
        let row = plan.rows[place];
        let here = &plan.cells[place * groups..(place + 1) * groups];
        let Some(old) = before.place_of(row.row).filter(|_| alike) else {
            plan.dirty_rows.push(true);
            plan.dirty_groups.fill(true);
            continue;
        };
        let there = &before.cells[old * groups..(old + 1) * groups];
        let moved = here != there;
        if moved {
            let cells = here.iter().zip(there);
            for (dirty, (here, there)) in plan.dirty_groups.iter_mut().zip(cells) {
                *dirty |= here != there;
            }
        }
        let limit = limit_of(plan, row.tenant) != limit_of(before, row.tenant);
        plan.dirty_rows
            .push(moved || limit || before.rows[old] != row);
    }
    // A row that is not listed any more changes every group that listed it.
    let gone = before
        .rows
        .iter()
        .any(|row| plan.place_of(row.row).is_none());
    let limits = plan.limits != before.limits || plan.group_limits != before.group_limits;
    if gone || limits {
        plan.dirty_groups.fill(true);
    }
}

/// Returns a tenant's limit on the device and on each group; nothing on any group for no limit.
fn limit_of(plan: &Plan, tenant: TenantId) -> (SmUnits, &[SmUnits]) {
    let groups = plan.groups.len();
    match plan.limit_place(tenant) {
        Some(place) => (
            plan.limits[place].device,
            &plan.group_limits[place * groups..(place + 1) * groups],
        ),
        None => (SmUnits::MAX, &[]),
    }
}

#[cfg(test)]
mod tests;
