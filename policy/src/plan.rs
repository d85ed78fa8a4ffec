//! The residency plan: the one table by which every policy speaks to every executor.
//!
//! A plan holds rows per group of SMs. A row gives one kernel its cap (resident blocks per SM), its
//! start budget, and its issue weight; the rows of a group stand in fill order.
//!
//! Rules:
//! - A plan never changes once built; [`crate::publish`] stamps its epoch and hands it out.
//! - A kernel that no group lists runs under [`Plan::default_row`] on every SM, so that no launch
//!   waits for a plan. A kernel that some group lists gets nothing on the groups that do not.
//! - Lookups that the dispatcher makes per launch are single loads from a dense table.

use crate::ids::{DeviceId, GroupId, KernelId, SmId, TenantId};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// What a plan gives to one kernel on one group of SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowLimits {
    /// Blocks that may reside on each SM of the group.
    pub cap: u16,
    /// Blocks that may still start under this row from the moment the plan is read: a sample or a
    /// slice. `None` is no limit.
    pub budget: Option<u32>,
    /// Share of issue slots relative to the other rows of the group.
    pub weight: u16,
}

impl RowLimits {
    /// A cap with no start budget and weight 1.
    #[must_use]
    pub fn capped(cap: u16) -> Self {
        Self {
            cap,
            budget: None,
            weight: 1,
        }
    }
}

/// One kernel's limits on one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The standing row's kernel.
    pub kernel: KernelId,
    /// Whose kernel it is.
    pub tenant: TenantId,
    /// What it gets.
    pub limits: RowLimits,
}

/// In which order free room is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// The order of the rows: the first row with a waiting block takes the room.
    RowOrder,
    /// The order in which launches arrived, whatever the order of the rows.
    Arrival,
}

/// How an SM that holds more blocks than a row's cap gets rid of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveUp {
    /// Caps bind only new blocks, and rows may promise more than fits: order decides.
    Never,
    /// Blocks leave as they end.
    Drain,
    /// Blocks are switched out at once.
    Switch,
    /// Blocks are switched out only where that is cheaper than waiting for their end.
    Cheapest,
}

/// The rows of one group of SMs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupPlan {
    /// The SMs of the group; groups do not overlap.
    pub sms: SmSet,
    /// The order in which free room is filled.
    pub fill: Fill,
    /// How blocks beyond a cap leave.
    pub give_up: GiveUp,
    /// The first in fill order that has a waiting block holds up everyone behind it.
    pub head_of_line: bool,
    /// The rows, in fill order; no kernel stands twice.
    pub rows: Box<[Row]>,
}

/// What the dispatcher needs to know of one kernel, summed over the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) cap: u32,
    pub(crate) rank: u32,
    pub(crate) budget: Option<u32>,
}

/// A residency plan. Made by [`crate::PlanBuilder`]; immutable afterwards.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The device it is for.
    pub device: DeviceId,
    /// Its number; stamped at publication, strictly rising.
    pub epoch: u64,
    /// The groups; together they hold every SM, or there are none.
    pub groups: Box<[GroupPlan]>,
    /// What a kernel without a row gets on every SM.
    pub default_row: RowLimits,
    /// When the policy wants to be woken even if nothing happens.
    pub wake_at: Option<Nanos>,
    /// By kernel; `None` for a number that has no row.
    #[serde(skip)]
    pub(crate) by_kernel: Box<[Option<Totals>]>,
    #[serde(skip)]
    pub(crate) default_totals: Totals,
    /// By SM: which group it belongs to.
    #[serde(skip)]
    pub(crate) group_by_sm: Box<[GroupId]>,
}

impl Plan {
    /// How many blocks of this kernel may be on the device at once: cap × SMs, summed over the
    /// groups. One load; kernels without a row get the default's.
    #[must_use]
    #[inline]
    pub fn cap_total(&self, kernel: KernelId) -> u32 {
        self.totals(kernel).cap
    }

    /// The kernel's place in fill order, lower first: its best place in any group. Kernels without
    /// a row come after all that have one.
    #[must_use]
    #[inline]
    pub fn fill_rank(&self, kernel: KernelId) -> u32 {
        self.totals(kernel).rank
    }

    /// How many blocks of this kernel may still start, summed over the groups; `None` is no limit.
    #[must_use]
    #[inline]
    pub fn budget_total(&self, kernel: KernelId) -> Option<u32> {
        self.totals(kernel).budget
    }

    /// Whether some group lists the kernel.
    #[must_use]
    pub fn lists(&self, kernel: KernelId) -> bool {
        self.by_kernel
            .get(kernel.index())
            .is_some_and(Option::is_some)
    }

    /// The order that holds for the device as a whole: by arrival only if every group says so.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let row_order = self.groups.iter().any(|group| group.fill == Fill::RowOrder);
        if row_order {
            Fill::RowOrder
        } else {
            Fill::Arrival
        }
    }

    /// Whether the first launch in fill order holds up the rest on every group.
    #[must_use]
    pub fn head_of_line(&self) -> bool {
        !self.groups.is_empty() && self.groups.iter().all(|group| group.head_of_line)
    }

    /// Whether residency is left to the hardware on every group, so that kernels go whole.
    #[must_use]
    pub fn never_gives_up(&self) -> bool {
        self.groups
            .iter()
            .all(|group| group.give_up == GiveUp::Never)
    }

    /// The group of an SM, if the plan has groups and the device has the SM.
    #[must_use]
    #[inline]
    pub fn group_of(&self, sm: SmId) -> Option<&GroupPlan> {
        let group = self.group_by_sm.get(sm.index())?;
        self.groups.get(usize::from(group.0))
    }

    /// What the kernel gets on this SM: its row there, nothing where only other groups list it, and
    /// the default where no group does. Walks the group's rows: for executors that keep tables of
    /// their own and rebuild them when the epoch changes.
    #[must_use]
    pub fn limits_on(&self, sm: SmId, kernel: KernelId) -> RowLimits {
        if !self.lists(kernel) {
            return self.default_row;
        }
        self.group_of(sm)
            .and_then(|group| group.rows.iter().find(|row| row.kernel == kernel))
            .map_or(RowLimits::capped(0), |row| row.limits)
    }

    /// Whether two plans say the same, whatever their epochs and wake-up times.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.groups == other.groups && self.default_row == other.default_row
    }

    #[inline]
    fn totals(&self, kernel: KernelId) -> &Totals {
        match self.by_kernel.get(kernel.index()) {
            Some(Some(totals)) => totals,
            _ => &self.default_totals,
        }
    }
}
