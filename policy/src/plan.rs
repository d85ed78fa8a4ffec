//! The residency plan: the one table by which every policy speaks to every executor.
//!
//! A plan lists rows, one per (tenant, kernel, block shape), and groups of SMs. A matrix gives each
//! row its cap (resident blocks per SM) and issue weight on each group. Above its rows a tenant may
//! have a limit: for each resource the sum over its resident blocks is taken, and the largest of
//! these shares is limited (dominant-resource fairness, SMK section 5.2).
//!
//! Rules:
//! - A plan does not change once published; [`gridmux_sync::publish`] stamps its epoch. Buffers
//!   come back to the writer, who fills one through [`crate::PlanBuilder`] without allocating.
//! - A row that the plan does not list runs under [`Plan::default_row`] on every SM, so that no
//!   launch waits for a plan. Its tenant's limit binds it all the same.
//! - Lookups that a dispatcher makes per launch are loads from dense tables.
//! - Dirty bits compare with the plan before; a reader that skipped one takes everything as changed.

use crate::ids::{DeviceId, GroupId, RowId, SmId, TenantId};
use crate::shape::SmUnits;
use crate::sm_set::SmSet;
use crate::units::{Cycles, Nanos};
use gridmux_sync::publish::Stamped;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;

/// The plan's end of a publication.
pub type Publisher = gridmux_sync::publish::Publisher<Plan>;
/// A reader of plans.
pub type PlanReader = gridmux_sync::publish::Reader<Plan>;

/// A cap that binds nothing: residency is left to the hardware and to the tenant's limit.
pub const NO_CAP: u16 = u16::MAX;

/// What a row gets on one group of SMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Blocks that may reside on each SM of the group; [`NO_CAP`] for no limit.
    pub cap: u16,
    /// Share of issue slots relative to the other rows of the group; `None` asks for no quota.
    pub weight: Option<NonZeroU16>,
}

impl Cell {
    /// Returns a cap with no issue quota.
    #[must_use]
    pub fn capped(cap: u16) -> Self {
        Self { cap, weight: None }
    }
}

/// How promptly a row must be able to stop: the policy's answer to who runs beside it. It may
/// change while an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Work may be handed to the device ahead of time, up to the executor's window: throughput.
    #[default]
    Ahead,
    /// Within about one block: the cap is checked before more blocks are handed over.
    Checked,
}

/// One listed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRow {
    /// The row.
    pub row: RowId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// Its place in the dispatch order, lowest first; rows of equal rank go by arrival.
    pub rank: u32,
    /// How promptly it must be able to stop.
    pub stop: Stop,
    /// Blocks of this row may start up to this number, counted since the row was made; a block that
    /// is restored does not start again. `None` is no limit.
    pub budget: Option<u64>,
}

/// In which order free room is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DispatchOrder {
    /// By the rank of rows, then by arrival.
    #[default]
    Rank,
    /// By arrival, whatever the ranks.
    Arrival,
}

/// How an SM that holds more blocks than a cap or limit permits gets rid of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// It does not: caps bind new blocks only, and caps may promise more than fits.
    #[default]
    None,
    /// Blocks leave as they end.
    Drain,
    /// Blocks are switched out at once.
    Switch,
    /// Blocks are switched out where waiting for their end is expected to cost more; executors say how much more.
    Cheapest,
}

impl Preemption {
    /// Returns whether blocks leave by context switch.
    #[must_use]
    pub fn switches(self) -> bool {
        matches!(self, Self::Switch | Self::Cheapest)
    }
}

/// What becomes of room that no row within its cap and limit can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Surplus {
    /// It stays empty: caps and limits bind always, as in the papers' static partitions.
    #[default]
    Idle,
    /// It is lent to rows beyond their caps and limits, in dispatch order, which bind only while a row within its own
    /// has blocks waiting there. Then what was lent comes back first to such rows: when its blocks end, or sooner where
    /// blocks beyond a cap leave by [`Preemption`], but only for room that is waited for.
    Lend,
}

/// What a row that has spent its issue quota does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spent {
    /// It stops until quotas are renewed (SMK, section 5.4).
    #[default]
    Stops,
    /// It issues in the slots that no row within its quota can use.
    Yields,
}

/// When quotas are renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Renewal {
    /// When every row has spent its own, and at the end of every epoch: a row cannot issue more than its part of the
    /// epoch's slots, whatever the others need.
    #[default]
    EachEpoch,
    /// When every row has spent its own, with all schedulers of an SM together (SMK, section 5.4), so that rows issue
    /// in proportion to their weights; and where nothing was issued for an epoch.
    WhenSpent,
}

/// How issue weights become quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    /// Length of an epoch (SMK, section 6.1: 10,000 cycles); a scheduler's quotas add up to as many instructions.
    pub epoch: Cycles,
    /// When quotas are renewed.
    pub renewal: Renewal,
    /// What a row that has spent its quota does.
    pub spent: Spent,
}

impl Default for QuotaRule {
    fn default() -> Self {
        Self {
            epoch: Cycles(10_000),
            renewal: Renewal::EachEpoch,
            spent: Spent::Stops,
        }
    }
}

/// A group of SMs that are treated alike; groups do not overlap and cover the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its SMs.
    pub sms: SmSet,
    /// The order in which free room is filled.
    pub order: DispatchOrder,
    /// How blocks beyond a cap or limit leave.
    pub preemption: Preemption,
    /// The first in dispatch order that has a waiting block holds up everyone behind it.
    pub head_of_line: bool,
    /// What becomes of room that nobody within cap and limit can use.
    pub surplus: Surplus,
}

/// A tenant's limit on the whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimit {
    /// The tenant.
    pub tenant: TenantId,
    /// The largest of its resource sums over the device, in SMs; [`SmUnits::MAX`] for none.
    pub device: SmUnits,
}

/// What a row that no plan lists gets on every SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRow {
    /// Blocks that may reside on each SM.
    pub cap: u16,
    /// How promptly it must be able to stop.
    pub stop: Stop,
}

/// A residency plan. Filled by [`crate::PlanBuilder`]; immutable once published. `clone_from` reuses
/// the room of the tables that it overwrites.
#[derive(Debug, Default)]
pub struct Plan {
    /// The device it is for.
    pub device: DeviceId,
    /// Its number; stamped at publication, strictly rising.
    pub epoch: u64,
    /// How issue weights become quotas.
    pub quota: QuotaRule,
    /// When the policy wants to be woken even if nothing happens.
    pub wake_at: Option<Nanos>,
    pub(crate) default_row: DefaultRow,
    pub(crate) sms: u16,
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: Vec<PlanRow>,
    /// Row by row, a cell for each group.
    pub(crate) cells: Vec<Cell>,
    /// Rows with work, which the joint fit counts with.
    pub(crate) works: Vec<bool>,
    /// Places of the rows with work, in order of rank.
    pub(crate) fit_order: Vec<u32>,
    /// By group: how many SMs it has.
    pub(crate) group_sms: Vec<u32>,
    /// By place of the row: caps times SMs, summed over groups.
    pub(crate) totals: Vec<u32>,
    pub(crate) limits: Vec<TenantLimit>,
    /// Limit by limit, a number for each group.
    pub(crate) group_limits: Vec<SmUnits>,
    /// By SM: the group it belongs to.
    pub(crate) group_by_sm: Vec<GroupId>,
    /// By row id: place + 1 in `rows`, 0 for none.
    pub(crate) row_index: Vec<u32>,
    /// By tenant id: place + 1 in `limits`, 0 for none.
    pub(crate) limit_index: Vec<u32>,
    /// By place: the row, or a limit above it, changed since the plan before.
    pub(crate) dirty_rows: Vec<bool>,
    /// By group.
    pub(crate) dirty_groups: Vec<bool>,
}

impl Default for DefaultRow {
    fn default() -> Self {
        Self {
            cap: NO_CAP,
            stop: Stop::Checked,
        }
    }
}

impl Clone for Plan {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, other: &Self) {
        self.device = other.device;
        self.epoch = other.epoch;
        self.quota = other.quota;
        self.wake_at = other.wake_at;
        self.default_row = other.default_row;
        self.sms = other.sms;
        self.groups.clone_from(&other.groups);
        self.rows.clone_from(&other.rows);
        self.cells.clone_from(&other.cells);
        self.works.clone_from(&other.works);
        self.fit_order.clone_from(&other.fit_order);
        self.totals.clone_from(&other.totals);
        self.group_sms.clone_from(&other.group_sms);
        self.limits.clone_from(&other.limits);
        self.group_limits.clone_from(&other.group_limits);
        self.group_by_sm.clone_from(&other.group_by_sm);
        self.row_index.clone_from(&other.row_index);
        self.limit_index.clone_from(&other.limit_index);
        self.dirty_rows.clone_from(&other.dirty_rows);
        self.dirty_groups.clone_from(&other.dirty_groups);
    }
}

impl Stamped for Plan {
    fn stamp(&mut self, epoch: u64) {
        self.epoch = epoch;
    }
}

impl Plan {
    /// Returns the groups; together they hold every SM, or there are none.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the listed rows, in no particular order; ranks order them.
    #[must_use]
    pub fn rows(&self) -> &[PlanRow] {
        &self.rows
    }

    /// Returns the tenants' limits.
    #[must_use]
    pub fn limits(&self) -> &[TenantLimit] {
        &self.limits
    }

    /// Returns what a row that is not listed gets on every SM.
    #[must_use]
    pub fn default_row(&self) -> DefaultRow {
        self.default_row
    }

    /// Returns the place of a row in [`Plan::rows`], if the plan lists it.
    #[must_use]
    #[inline]
    pub fn place_of(&self, row: RowId) -> Option<usize> {
        let place = *self.row_index.get(row.index())?;
        (place as usize).checked_sub(1)
    }

    /// Returns a row, if the plan lists it.
    #[must_use]
    #[inline]
    pub fn row(&self, row: RowId) -> Option<&PlanRow> {
        self.rows.get(self.place_of(row)?)
    }

    /// Returns how many blocks of a row may reside on the device: caps times SMs, summed over the
    /// groups, saturating. Rows that are not listed get the default's.
    #[must_use]
    #[inline]
    pub fn cap_total(&self, row: RowId) -> u32 {
        match self.place_of(row) {
            Some(place) => self.totals[place],
            None => times_sms(self.default_row.cap, self.sms.into()),
        }
    }

    /// Returns a row's rank; rows that are not listed come after all that are.
    #[must_use]
    #[inline]
    pub fn rank(&self, row: RowId) -> u32 {
        self.row(row).map_or(u32::MAX, |row| row.rank)
    }

    /// Returns how promptly a row must be able to stop.
    #[must_use]
    #[inline]
    pub fn stop(&self, row: RowId) -> Stop {
        self.row(row).map_or(self.default_row.stop, |row| row.stop)
    }

    /// Returns up to which number blocks of a row may start.
    #[must_use]
    #[inline]
    pub fn budget(&self, row: RowId) -> Option<u64> {
        self.row(row).and_then(|row| row.budget)
    }

    /// Returns the cell of a row on a group, by the row's place.
    #[must_use]
    #[inline]
    pub fn cell(&self, group: usize, place: usize) -> Cell {
        self.cells[place * self.groups.len() + group]
    }

    /// Returns what a row gets on an SM: its cell there, or the default where it is not listed or
    /// there are no groups.
    #[must_use]
    pub fn on_sm(&self, sm: SmId, row: RowId) -> Cell {
        match (self.place_of(row), self.group_of(sm)) {
            (Some(place), Some(group)) => self.cell(usize::from(group.0), place),
            _ => Cell::capped(self.default_row.cap),
        }
    }

    /// Returns the group of an SM, if the plan has groups and the device has the SM.
    #[must_use]
    #[inline]
    pub fn group_of(&self, sm: SmId) -> Option<GroupId> {
        self.group_by_sm.get(sm.index()).copied()
    }

    /// Returns the place of a tenant's limit in [`Plan::limits`], if it has one.
    #[must_use]
    #[inline]
    pub fn limit_place(&self, tenant: TenantId) -> Option<usize> {
        let place = *self.limit_index.get(tenant.index())?;
        (place as usize).checked_sub(1)
    }

    /// Returns what a limit says per SM of a group, by the limit's place.
    #[must_use]
    pub fn group_limit(&self, group: usize, place: usize) -> SmUnits {
        self.group_limits[place * self.groups.len() + group]
    }

    /// Returns how many blocks of a row may reside on an SM of a group; the default row's cap for a row or a group that
    /// the plan does not have.
    #[must_use]
    pub fn cap_on(&self, group: usize, row: RowId) -> u32 {
        let cap = match self.place_of(row) {
            Some(place) if group < self.groups.len() => self.cell(group, place).cap,
            _ => self.default_row.cap,
        };
        match cap {
            NO_CAP => u32::MAX,
            cap => u32::from(cap),
        }
    }

    /// Returns what a tenant may hold on an SM of a group; everything for a tenant or a group that the plan does not
    /// have.
    #[must_use]
    pub fn limit_on(&self, group: usize, tenant: TenantId) -> SmUnits {
        match self.limit_place(tenant) {
            Some(place) if group < self.groups.len() => self.group_limit(group, place),
            _ => SmUnits::MAX,
        }
    }

    /// Returns what a tenant may hold on the whole device: the lesser of its device limit and the
    /// sum of its group limits over all SMs; [`SmUnits::MAX`] for no limit.
    #[must_use]
    #[inline]
    pub fn device_limit(&self, tenant: TenantId) -> SmUnits {
        self.limit_place(tenant)
            .map_or(SmUnits::MAX, |place| self.limits[place].device)
    }

    /// Returns the order that holds for the device as a whole: by arrival only if every group says
    /// so.
    #[must_use]
    pub fn order(&self) -> DispatchOrder {
        let by_rank = |group: &Group| group.order == DispatchOrder::Rank;
        match self.groups.iter().any(by_rank) {
            true => DispatchOrder::Rank,
            false => DispatchOrder::Arrival,
        }
    }

    /// Returns whether the first in order holds up the rest on every group.
    #[must_use]
    pub fn head_of_line(&self) -> bool {
        !self.groups.is_empty() && self.groups.iter().all(|group| group.head_of_line)
    }

    /// Returns whether every group lends the room that nobody within cap and limit can use.
    #[must_use]
    pub fn lends(&self) -> bool {
        let lends = |group: &Group| group.surplus == Surplus::Lend;
        !self.groups.is_empty() && self.groups.iter().all(lends)
    }

    /// Returns whether an SM's group lends.
    #[must_use]
    pub fn lends_on(&self, sm: SmId) -> bool {
        let group = self.group_of(sm);
        group.is_some_and(|group| self.groups[usize::from(group.0)].surplus == Surplus::Lend)
    }

    /// Returns the rows with work, in order of rank.
    pub fn working_rows(&self) -> impl DoubleEndedIterator<Item = &PlanRow> {
        let places = self.fit_order.iter();
        places.filter_map(|place| self.rows.get(*place as usize))
    }

    /// Returns whether a row changed since the plan before, by its place.
    #[must_use]
    pub fn row_changed(&self, place: usize) -> bool {
        self.dirty_rows[place]
    }

    /// Returns whether a group changed since the plan before: its SMs, its rules, or any row's cell
    /// on it.
    #[must_use]
    pub fn group_changed(&self, group: usize) -> bool {
        self.dirty_groups[group]
    }

    /// Returns whether two plans say the same, whatever their epochs and wake-up times. Rows are
    /// compared in order.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.groups == other.groups
            && self.rows == other.rows
            && self.cells == other.cells
            && self.limits == other.limits
            && self.group_limits == other.group_limits
            && self.default_row == other.default_row
            && self.quota == other.quota
    }
}

/// Returns blocks on `sms` SMs under a cap per SM, saturating.
pub(crate) fn times_sms(cap: u16, sms: u32) -> u32 {
    match cap {
        NO_CAP if sms > 0 => u32::MAX,
        cap => u32::from(cap).saturating_mul(sms),
    }
}
