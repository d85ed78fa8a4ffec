//! A plan as the block scheduler reads it: clamped to the GPU, by SM.
//!
//! Rule: whatever a plan says, the rules made from it name only SMs that exist and caps that an SM can hold.

use super::PlanNote;
use crate::config::GpuConfig;
use gridmux_policy::ids::{KernelId, SmId};
use gridmux_policy::plan::{Fill, GiveUp, Plan, RowLimits};

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) fill: Fill,
    pub(super) give_up: GiveUp,
    pub(super) head_of_line: bool,
    /// In fill order.
    pub(super) rows: Vec<(KernelId, RowLimits)>,
    /// Blocks that started under each row since the plan was read, the default row's last.
    pub(super) started: Vec<u32>,
}

impl Group {
    /// Blocks leave the group's SMs by context switch.
    pub(super) fn switches(&self) -> bool {
        matches!(self.give_up, GiveUp::Switch | GiveUp::Cheapest)
    }
}

/// All groups; the last one holds the SMs that no group of the plan has.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) epoch: u64,
    pub(super) groups: Vec<Group>,
    pub(super) group_of: Vec<usize>,
    default_row: RowLimits,
    listed: Vec<KernelId>,
}

/// What a kernel gets on an SM: its place in fill order and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Right {
    pub(super) rank: usize,
    pub(super) limits: RowLimits,
}

impl Rules {
    pub(super) fn new(config: &GpuConfig, plan: &Plan, notes: &mut Vec<PlanNote>) -> Self {
        let count = config.sm.count;
        let most = u16::try_from(config.sm.max_blocks).unwrap_or(u16::MAX);
        let nobody = plan.groups.len();
        let mut group_of = vec![nobody; usize::from(count)];
        let mut groups: Vec<Group> = Vec::with_capacity(nobody + 1);
        let mut listed = Vec::new();
        for (number, group) in plan.groups.iter().enumerate() {
            for sm in group.sms.iter() {
                match group_of.get_mut(sm.index()) {
                    None => notes.push(PlanNote::NoSuchSm { sm, count }),
                    Some(slot) if *slot != nobody => notes.push(PlanNote::Overlap { sm }),
                    Some(slot) => *slot = number,
                }
            }
            let mut rows: Vec<(KernelId, RowLimits)> = Vec::with_capacity(group.rows.len());
            for row in &group.rows {
                if rows.iter().any(|(kernel, _)| *kernel == row.kernel) {
                    notes.push(PlanNote::Twice { kernel: row.kernel });
                    continue;
                }
                rows.push((row.kernel, clamp(row.kernel, row.limits, most, notes)));
                listed.push(row.kernel);
            }
            groups.push(Group {
                fill: group.fill,
                give_up: group.give_up,
                head_of_line: group.head_of_line,
                started: vec![0; rows.len() + 1],
                rows,
            });
        }
        if nobody != 0 {
            let without = group_of.iter().enumerate().filter(|(_, g)| **g == nobody);
            notes.extend(without.filter_map(|(sm, _)| {
                let sm = SmId(u16::try_from(sm).ok()?);
                Some(PlanNote::Uncovered { sm })
            }));
        }
        groups.push(Group {
            fill: Fill::Arrival,
            give_up: GiveUp::Drain,
            head_of_line: false,
            rows: Vec::new(),
            started: vec![0],
        });
        listed.sort_unstable();
        listed.dedup();
        let mut default_row = plan.default_row;
        // The builder's default is as many as any SM holds, so this is no mistake to report.
        default_row.cap = default_row.cap.min(most);
        Self {
            epoch: plan.epoch,
            groups,
            group_of,
            default_row,
            listed,
        }
    }

    /// What a kernel gets in a group.
    pub(super) fn right(&self, group: usize, kernel: KernelId) -> Right {
        let rows = &self.groups[group].rows;
        if let Some(rank) = rows.iter().position(|(other, _)| *other == kernel) {
            let limits = rows[rank].1;
            return Right { rank, limits };
        }
        let limits = if self.listed.binary_search(&kernel).is_ok() {
            RowLimits::capped(0)
        } else {
            self.default_row
        };
        let rank = rows.len();
        Right { rank, limits }
    }

    /// Issue weights of a group, and whether they say anything. Quotas are a mechanism of their own beside caps (SMK,
    /// section 6.1: SMK-P against SMK-(P+W)), so a plan can go without: rows that all weigh 1, as rows do that nobody
    /// gave a weight, ask for none. Who wants equal quotas gives equal weights above 1.
    pub(super) fn weights(&self, group: usize) -> (Vec<(KernelId, u16)>, bool) {
        let rows = self.groups[group].rows.iter();
        let weights: Vec<_> = rows
            .map(|(kernel, limits)| (*kernel, limits.weight))
            .collect();
        let mut all = weights.iter().map(|(_, weight)| *weight);
        let on = all.any(|weight| weight != 1) || self.default_row.weight != 1;
        (weights, on)
    }

    pub(super) fn default_weight(&self) -> u16 {
        self.default_row.weight
    }
}

fn clamp(kernel: KernelId, limits: RowLimits, limit: u16, notes: &mut Vec<PlanNote>) -> RowLimits {
    let mut limits = limits;
    if limits.cap > limit {
        let cap = limits.cap;
        notes.push(PlanNote::CapBeyondSm { kernel, cap, limit });
        limits.cap = limit;
    }
    if limits.weight == 0 {
        notes.push(PlanNote::NoWeight { kernel });
        limits.weight = 1;
    }
    limits
}
