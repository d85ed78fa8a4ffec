//! The plan in force, as a page holds it: which rows may hold how many blocks on which SMs.
//!
//! Rules: a page has room for [`CELLS`] cells and a range of SMs for each SM that a plan can name; of a plan with more
//! cells the rows of the first ranks are kept. Rows are known by their numbers, which stand beside their kernels in the
//! same reading ([`super::KernelSnapshot`]).

use gridmux_policy::ids::RowId;
use gridmux_policy::plan::{
    DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop, Surplus, TenantLimit,
};
use gridmux_policy::shape::SmUnits;
use gridmux_policy::sm_set::{MAX_SMS, SmSet};
use serde::{Deserialize, Serialize};

/// Most cells of a plan that a page holds.
const CELLS: usize = 8192;
/// Bytes of a copy for a plan: its cells with 6 bytes each, as many rows with 32 and limits with 16, and groups and
/// ranges of SMs.
pub(super) const PLAN_BYTES: usize = CELLS * (6 + 32 + 16) + MAX_SMS as usize * 24;

/// A reading of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSnapshot {
    /// Its number; 0 before any was read.
    pub epoch: u64,
    /// SMs of the device.
    pub sms: u16,
    /// When the policy wants to be woken, in nanoseconds of the device's clock.
    pub wake_ns: Option<u64>,
    /// The groups of SMs; none where residency is left to the hardware.
    pub groups: Vec<PlanGroup>,
    /// The rows that it lists, by rank.
    pub rows: Vec<PlanRowSnapshot>,
    /// It lists more rows than a page holds.
    pub has_more: bool,
    /// The limits of tenants.
    pub limits: Vec<PlanLimit>,
    /// Blocks on each SM of a row that it does not list; none for no limit.
    pub default_cap: Option<u16>,
    /// How promptly such a row must be able to stop.
    pub default_stop: Stop,
}

/// A group of SMs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanGroup {
    /// Its SMs: the first and the last one of each range.
    pub sms: Vec<(u16, u16)>,
    /// In which order free room is filled.
    pub order: DispatchOrder,
    /// How blocks beyond a cap leave.
    pub preemption: Preemption,
    /// The first that waits holds up everyone behind it.
    pub head_of_line: bool,
    /// What becomes of room that nobody within a cap can use.
    pub surplus: Surplus,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRowSnapshot {
    /// Its number.
    pub row: RowId,
    /// Its place in the dispatch order, lowest first.
    pub rank: u32,
    /// How promptly it must be able to stop.
    pub stop: Stop,
    /// Number up to which its blocks may start, counted since the row was made.
    pub budget: Option<u64>,
    /// By group: blocks that may reside on each SM, none for no limit; and the share of issue slots, none for no quota.
    pub cells: Vec<(Option<u16>, Option<u16>)>,
}

/// A tenant's limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLimit {
    /// The tenant's number.
    pub tenant: u32,
    /// The largest of its shares of resources over the device, in thousandths of an SM; none for no limit.
    pub device_milli_sms: Option<u64>,
}

impl PlanSnapshot {
    /// Takes a reading of a plan.
    #[must_use]
    pub fn of(plan: &Plan, sms: u16) -> Self {
        let mut listed: Vec<&PlanRow> = plan.rows().iter().collect();
        listed.sort_by_key(|row| (row.rank, row.row));
        let most = CELLS / plan.groups().len().max(1);
        let default = plan.default_row();
        Self {
            epoch: plan.epoch,
            sms,
            wake_ns: plan.wake_at.map(|at| at.0),
            groups: plan.groups().iter().map(PlanGroup::of).collect(),
            has_more: listed.len() > most,
            rows: listed
                .into_iter()
                .take(most)
                .map(|row| PlanRowSnapshot::of(plan, row))
                .collect(),
            limits: plan
                .limits()
                .iter()
                .take(CELLS)
                .map(PlanLimit::of)
                .collect(),
            default_cap: bound(default.cap),
            default_stop: default.stop,
        }
    }

    /// Takes out what no plan can mean: more groups, rows, cells and ranges than a page holds.
    pub(super) fn settle(&mut self) {
        self.sms = self.sms.min(MAX_SMS);
        self.groups.truncate(self.sms.into());
        let mut ranges = usize::from(MAX_SMS);
        for group in &mut self.groups {
            group.sms.truncate(ranges);
            ranges -= group.sms.len();
            group
                .sms
                .retain(|(first, last)| first <= last && *last < MAX_SMS);
        }
        let groups = self.groups.len();
        self.rows.truncate(CELLS / groups.max(1));
        for row in &mut self.rows {
            row.cells.resize(groups, (None, None));
        }
        self.limits.truncate(CELLS);
    }
}

impl PlanGroup {
    fn of(group: &Group) -> Self {
        Self {
            sms: ranges(&group.sms),
            order: group.order,
            preemption: group.preemption,
            head_of_line: group.head_of_line,
            surplus: group.surplus,
        }
    }
}

impl PlanRowSnapshot {
    fn of(plan: &Plan, row: &PlanRow) -> Self {
        let place = plan.place_of(row.row);
        let cells = place.into_iter().flat_map(|place| {
            (0..plan.groups().len()).map(move |group| {
                let cell = plan.cell(group, place);
                (bound(cell.cap), cell.weight.map(u16::from))
            })
        });
        Self {
            row: row.row,
            rank: row.rank,
            stop: row.stop,
            budget: row.budget,
            cells: cells.collect(),
        }
    }
}

impl PlanLimit {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a device has fewer than 2^16 SMs, and a limit is not negative"
    )]
    fn of(limit: &TenantLimit) -> Self {
        let is_bound = limit.device != SmUnits::MAX;
        Self {
            tenant: limit.tenant.0,
            device_milli_sms: is_bound.then(|| (limit.device.as_sms() * 1e3).round() as u64),
        }
    }
}

/// Returns a cap that binds.
fn bound(cap: u16) -> Option<u16> {
    (cap != NO_CAP).then_some(cap)
}

/// Returns the ranges of a set, each with its first and last SM.
fn ranges(sms: &SmSet) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for sm in sms.iter() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == sm.0 => *last = sm.0,
            _ => ranges.push((sm.0, sm.0)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::{CELLS, PLAN_BYTES, PlanGroup, PlanLimit, PlanRowSnapshot, PlanSnapshot, ranges};
    use gridmux_policy::ids::{RowId, SmId};
    use gridmux_policy::plan::{DispatchOrder, Preemption, Stop, Surplus};
    use gridmux_policy::sm_set::{MAX_SMS, SmSet};

    fn group(sms: Vec<(u16, u16)>) -> PlanGroup {
        PlanGroup {
            sms,
            order: DispatchOrder::Rank,
            preemption: Preemption::Cheapest,
            head_of_line: true,
            surplus: Surplus::Lend,
        }
    }

    fn row(cells: usize) -> PlanRowSnapshot {
        PlanRowSnapshot {
            row: RowId(u32::MAX),
            rank: u32::MAX,
            stop: Stop::Checked,
            budget: Some(u64::MAX),
            cells: vec![(Some(u16::MAX - 1), Some(u16::MAX)); cells],
        }
    }

    #[test]
    fn sms_are_said_as_ranges() {
        let sms: SmSet = [0, 1, 2, 7, 9, 10].map(SmId).into_iter().collect();
        assert_eq!(ranges(&sms), [(0, 2), (7, 7), (9, 10)]);
        assert_eq!(ranges(&SmSet::empty()), []);
    }

    #[test]
    fn the_largest_plan_has_room_and_what_no_plan_can_mean_is_taken_out() {
        let limit = PlanLimit {
            tenant: u32::MAX,
            device_milli_sms: Some(u64::MAX),
        };
        for groups in [1, usize::from(MAX_SMS)] {
            let mut plan = PlanSnapshot {
                sms: u16::MAX,
                groups: vec![group(vec![(0, 0); 4]); groups],
                rows: vec![row(3); CELLS + 1],
                limits: vec![limit.clone(); CELLS + 1],
                ..PlanSnapshot::default()
            };
            plan.groups[0].sms = vec![(5, 4), (0, MAX_SMS), (1, 3)];
            plan.settle();
            assert_eq!(plan.groups[0].sms, [(1, 3)]);
            assert_eq!(plan.rows.len(), CELLS / groups);
            assert!(plan.rows.iter().all(|row| row.cells.len() == groups));
            for row in &mut plan.rows {
                row.cells.fill((Some(u16::MAX - 1), Some(u16::MAX)));
            }
            let bytes = postcard::to_allocvec(&plan).unwrap().len();
            assert!(bytes <= PLAN_BYTES, "{bytes} bytes");
        }
    }
}
