//! How well an executor holds each element of a plan.
//!
//! A policy is written once; what becomes of it depends on the executor. Each executor answers,
//! element by element, whether it holds the plan exactly, nearly, or not at all, and the conformance
//! suite ([`crate::conformance`]) measures it against its own answer. It answers likewise whether it
//! samples kernels, which some policies live by ([`crate::policy::Samples`]).

use crate::ids::RowId;
use crate::plan::{Group, Plan, Preemption, Stop, Surplus};
use crate::shape::SmUnits;
use serde::{Serialize, Serializer};
use std::fmt;

/// An element of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Element {
    /// A row's cap on each SM group.
    Cap,
    /// A tenant's limit over all of its rows, on the whole device.
    DeviceLimit,
    /// A tenant's limit over all of its rows, on each SM of a group.
    GroupLimit,
    /// Which row's waiting blocks take free room first.
    Order,
    /// The first in order with a waiting block holds up everyone behind it.
    HeadOfLine,
    /// How blocks beyond a cap leave.
    Preemption,
    /// How many blocks of a row may start in all.
    Budget,
    /// Issue weights, with their epoch and rule.
    Weight,
    /// How promptly a row can stop.
    Stop,
    /// What becomes of room that nobody within cap and limit can use.
    Surplus,
}

impl Element {
    /// Every element, in the order in which they are printed.
    pub const ALL: [Self; 10] = [
        Self::Cap,
        Self::DeviceLimit,
        Self::GroupLimit,
        Self::Order,
        Self::HeadOfLine,
        Self::Preemption,
        Self::Budget,
        Self::Weight,
        Self::Stop,
        Self::Surplus,
    ];

    /// Returns the name under which it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cap => "cap",
            Self::DeviceLimit => "device limit",
            Self::GroupLimit => "group limit",
            Self::Order => "order",
            Self::HeadOfLine => "head of line",
            Self::Preemption => "preemption",
            Self::Budget => "budget",
            Self::Weight => "weight",
            Self::Stop => "stop",
            Self::Surplus => "surplus",
        }
    }

    /// Returns whether a plan says anything by it, beside what holds where nothing is said. A cap binds
    /// where it is less than what an SM holds of a row's blocks, which `most` says; order decides where
    /// several rows may have blocks on a group.
    #[must_use]
    pub fn is_in(self, plan: &Plan, most: impl Fn(RowId) -> u16) -> bool {
        let groups = || 0..plan.groups().len();
        let any_group = |is: fn(&Group) -> bool| plan.groups().iter().any(is);
        let cells = |group: usize| {
            let rows = (0..).zip(plan.rows());
            rows.map(move |(place, row)| (row.row, plan.cell(group, place)))
        };
        let mut all_cells = groups().flat_map(cells);
        match self {
            Self::Cap => all_cells.any(|(row, cell)| cell.cap < most(row)),
            Self::DeviceLimit => plan.limits().iter().any(|of| of.device < SmUnits::MAX),
            Self::GroupLimit => {
                let limits = |group| (0..plan.limits().len()).map(move |at| (group, at));
                let mut limits = groups().flat_map(limits);
                limits.any(|(group, at)| plan.group_limit(group, at) < SmUnits::MAX)
            }
            Self::Order => groups().any(|group| {
                let open = cells(group).filter(|(_, cell)| cell.cap > 0);
                open.count() > 1
            }),
            Self::HeadOfLine => any_group(|group| group.head_of_line),
            Self::Preemption => any_group(|group| group.preemption != Preemption::None),
            Self::Budget => plan.rows().iter().any(|row| row.budget.is_some()),
            Self::Weight => all_cells.any(|(_, cell)| cell.weight.is_some()),
            Self::Stop => plan.rows().iter().any(|row| row.stop == Stop::Checked),
            Self::Surplus => any_group(|group| group.surplus == Surplus::Lend),
        }
    }
}

/// How well an executor holds an element of a plan, or samples kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// To the block, and to the instruction of an epoch.
    Exact,
    /// Nearly; the text says what differs.
    Approximate(&'static str),
    /// Not at all; the text says why.
    No(&'static str),
}

impl fmt::Display for Enforcement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => write!(out, "exact"),
            Self::Approximate(how) => write!(out, "approximate: {how}"),
            Self::No(why) => write!(out, "no: {why}"),
        }
    }
}

impl Serialize for Enforcement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
