//! Building a plan: checks what executors rely on, and makes joint promises feasible.
//!
//! Rules:
//! - Groups do not overlap and cover every SM; no kernel stands twice in a group.
//! - In a group that gives blocks up, rows cannot promise more than an SM holds, or no executor
//!   would know whom to evict: [`fit`] reduces caps in fill order. Under [`GiveUp::Never`] caps are
//!   upper limits and the fill order decides, so they stay as they are.
//! - A standby row (its kernel has no work now) takes no part in the fit.

use crate::ids::{DeviceId, GroupId, KernelId, SmId};
use crate::plan::{Fill, GiveUp, GroupPlan, Plan, Row, RowLimits, Totals};
use crate::shape::{BlockShape, DeviceShape, Room};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use thiserror::Error;

/// Why a plan cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// An SM stands in two groups.
    #[error("{sm} stands in two groups; give each SM to one group")]
    Overlap {
        /// The SM.
        sm: SmId,
    },
    /// An SM stands in no group although there are groups.
    #[error("{sm} stands in no group; cover every SM of the device")]
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
    /// A kernel stands twice in one group.
    #[error("{kernel} stands twice in one group; merge its rows")]
    Twice {
        /// The kernel.
        kernel: KernelId,
    },
    /// A row was added before any group.
    #[error("{kernel} got a row before the first group; begin a group first")]
    NoGroup {
        /// The kernel.
        kernel: KernelId,
    },
}

/// Collects groups and rows, then builds the plan.
#[derive(Clone, Debug)]
pub struct PlanBuilder {
    device: DeviceId,
    shape: DeviceShape,
    default_row: RowLimits,
    wake_at: Option<Nanos>,
    groups: Vec<GroupDraft>,
    stray: Option<KernelId>,
}

#[derive(Clone, Debug)]
struct GroupDraft {
    sms: SmSet,
    fill: Fill,
    give_up: GiveUp,
    head_of_line: bool,
    rows: Vec<(Row, Option<BlockShape>)>,
}

impl PlanBuilder {
    /// A plan with no groups, under which every kernel may fill the device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        let cap = u16::try_from(shape.blocks).unwrap_or(u16::MAX);
        Self {
            device,
            shape: *shape,
            default_row: RowLimits::capped(cap),
            wake_at: None,
            groups: Vec::new(),
            stray: None,
        }
    }

    /// What a kernel without a row gets on each SM.
    pub fn default_row(&mut self, limits: RowLimits) -> &mut Self {
        self.default_row = limits;
        self
    }

    /// When the policy wants to be woken.
    pub fn wake_at(&mut self, at: Option<Nanos>) -> &mut Self {
        self.wake_at = at;
        self
    }

    /// Begins a group; the rows that follow belong to it.
    pub fn group(
        &mut self,
        sms: SmSet,
        fill: Fill,
        give_up: GiveUp,
        head_of_line: bool,
    ) -> &mut Self {
        self.groups.push(GroupDraft {
            sms,
            fill,
            give_up,
            head_of_line,
            rows: Vec::new(),
        });
        self
    }

    /// Adds a row, next in fill order, to the group begun last. The block's shape is what the fit
    /// counts with.
    pub fn row(&mut self, row: Row, block: &BlockShape) -> &mut Self {
        self.push(row, Some(*block))
    }

    /// Adds a row for a kernel that has no work now: it stands ready for the next launch and does
    /// not count against the others until the replan that follows that launch.
    pub fn standby_row(&mut self, row: Row) -> &mut Self {
        self.push(row, None)
    }

    fn push(&mut self, row: Row, block: Option<BlockShape>) -> &mut Self {
        match self.groups.last_mut() {
            Some(group) => group.rows.push((row, block)),
            None => self.stray = Some(row.kernel),
        }
        self
    }

    /// Checks and builds the plan, with epoch 0 until it is published.
    ///
    /// # Errors
    /// Any [`PlanError`]; each names the SM or kernel concerned.
    pub fn build(&self) -> Result<Plan, PlanError> {
        if let Some(kernel) = self.stray {
            return Err(PlanError::NoGroup { kernel });
        }
        let group_by_sm = self.group_by_sm()?;
        let mut groups = Vec::with_capacity(self.groups.len());
        for draft in &self.groups {
            groups.push(draft.fitted(&self.shape)?);
        }
        let default_totals = Totals {
            cap: u32::from(self.default_row.cap) * u32::from(self.shape.sms),
            rank: u32::MAX,
            budget: self.default_row.budget,
        };
        Ok(Plan {
            device: self.device,
            epoch: 0,
            by_kernel: by_kernel(&groups),
            groups: groups.into_boxed_slice(),
            default_row: self.default_row,
            wake_at: self.wake_at,
            default_totals,
            group_by_sm,
        })
    }

    fn group_by_sm(&self) -> Result<Box<[GroupId]>, PlanError> {
        if self.groups.is_empty() {
            return Ok(Box::default());
        }
        let mut by_sm: Vec<Option<GroupId>> = vec![None; usize::from(self.shape.sms)];
        for (group, place) in self.groups.iter().zip(0_u16..) {
            for sm in group.sms.iter() {
                let slot = by_sm
                    .get_mut(sm.index())
                    .ok_or(PlanError::NoSuchSm { sm })?;
                if slot.replace(GroupId(place)).is_some() {
                    return Err(PlanError::Overlap { sm });
                }
            }
        }
        by_sm
            .into_iter()
            .zip(0_u16..)
            .map(|(group, sm)| group.ok_or(PlanError::Uncovered { sm: SmId(sm) }))
            .collect()
    }
}

impl GroupDraft {
    fn fitted(&self, shape: &DeviceShape) -> Result<GroupPlan, PlanError> {
        let mut kernels: Vec<KernelId> = self.rows.iter().map(|(row, _)| row.kernel).collect();
        kernels.sort_unstable();
        if let Some(pair) = kernels.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PlanError::Twice { kernel: pair[0] });
        }
        let mut rows = self.rows.clone();
        if self.give_up != GiveUp::Never {
            let live = rows
                .iter_mut()
                .filter_map(|(row, block)| Some((&mut row.limits, (*block)?)));
            fit(shape, live.map(|(limits, block)| (&mut limits.cap, block)));
        }
        Ok(GroupPlan {
            sms: self.sms,
            fill: self.fill,
            give_up: self.give_up,
            head_of_line: self.head_of_line,
            rows: rows.into_iter().map(|(row, _)| row).collect(),
        })
    }
}

/// Reduces caps that one SM cannot hold together to caps that it can: in fill order, each row keeps
/// as much of its cap as still fits beside the rows before it.
pub fn fit<'a>(shape: &DeviceShape, rows: impl IntoIterator<Item = (&'a mut u16, BlockShape)>) {
    let mut room = Room::empty_sm(shape);
    for (cap, block) in rows {
        let fits = u16::try_from(room.fits(&block)).unwrap_or(u16::MAX);
        *cap = (*cap).min(fits);
        room.take(&block, (*cap).into());
    }
}

fn by_kernel(groups: &[GroupPlan]) -> Box<[Option<Totals>]> {
    let rows = || groups.iter().flat_map(|group| group.rows.iter());
    let len = rows().map(|row| row.kernel.index() + 1).max().unwrap_or(0);
    let mut table: Vec<Option<Totals>> = vec![None; len];
    for group in groups {
        let sms = group.sms.len();
        for (row, place) in group.rows.iter().zip(0_u32..) {
            let cap = u32::from(row.limits.cap) * sms;
            let slot = &mut table[row.kernel.index()];
            *slot = Some(match *slot {
                None => Totals {
                    cap,
                    rank: place,
                    budget: row.limits.budget,
                },
                Some(sum) => Totals {
                    cap: sum.cap + cap,
                    rank: sum.rank.min(place),
                    budget: sum
                        .budget
                        .zip(row.limits.budget)
                        .map(|(a, b)| a.saturating_add(b)),
                },
            });
        }
    }
    table.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::{PlanBuilder, PlanError, fit};
    use crate::ids::{DeviceId, KernelId, SmId, TenantId};
    use crate::plan::{Fill, GiveUp, Row, RowLimits};
    use crate::shape::{BlockShape, DeviceShape};
    use crate::sm_set::SmSet;

    const DEVICE: DeviceShape = DeviceShape {
        sms: 4,
        threads: 1024,
        blocks: 8,
        registers: 65_536,
        shared_bytes: 49_152,
    };
    const QUARTER: BlockShape = BlockShape {
        threads: 256,
        registers: 4096,
        shared_bytes: 0,
    };

    fn row(kernel: u32, cap: u16) -> Row {
        let limits = RowLimits {
            cap,
            budget: Some(10),
            weight: 1,
        };
        Row {
            kernel: KernelId(kernel),
            tenant: TenantId(kernel),
            limits,
        }
    }

    fn builder() -> PlanBuilder {
        PlanBuilder::new(DeviceId(0), &DEVICE)
    }

    #[test]
    fn totals_are_sums_over_groups() {
        let mut plan = builder();
        plan.default_row(RowLimits::capped(1));
        plan.group(SmSet::first(3), Fill::RowOrder, GiveUp::Drain, false);
        plan.row(row(5, 2), &QUARTER).row(row(2, 1), &QUARTER);
        plan.group(SmSet::range(3, 4), Fill::RowOrder, GiveUp::Drain, true);
        plan.row(row(2, 4), &QUARTER);
        let plan = plan.build().expect("the plan is valid");
        assert_eq!(plan.cap_total(KernelId(5)), 6);
        assert_eq!(plan.cap_total(KernelId(2)), 3 + 4);
        assert_eq!(
            (plan.fill_rank(KernelId(5)), plan.fill_rank(KernelId(2))),
            (0, 0)
        );
        assert_eq!(plan.budget_total(KernelId(2)), Some(20));
        // A listed kernel has nothing where it is not listed; an unlisted one has the default.
        assert_eq!(plan.limits_on(SmId(3), KernelId(5)).cap, 0);
        assert_eq!(plan.limits_on(SmId(3), KernelId(2)).cap, 4);
        for unlisted in [0, 3, 99].map(KernelId) {
            assert_eq!(plan.cap_total(unlisted), 4);
            assert_eq!(plan.limits_on(SmId(0), unlisted).cap, 1);
            assert!(plan.fill_rank(unlisted) > plan.fill_rank(KernelId(5)));
        }
        assert_eq!(plan.fill(), Fill::RowOrder);
        assert!(!plan.head_of_line());
    }

    #[test]
    fn promises_that_do_not_fit_are_cut_in_fill_order() {
        let mut caps = [(3, QUARTER), (3, QUARTER), (3, QUARTER)];
        fit(&DEVICE, caps.iter_mut().map(|(cap, block)| (cap, *block)));
        assert_eq!(caps.map(|(cap, _)| cap), [3, 1, 0]);
        let cap_of_second = |give_up| {
            let mut plan = builder();
            plan.group(SmSet::first(4), Fill::RowOrder, give_up, false);
            plan.row(row(0, 3), &QUARTER).row(row(1, 3), &QUARTER);
            plan.build().expect("the plan is valid").groups[0].rows[1]
                .limits
                .cap
        };
        assert_eq!(cap_of_second(GiveUp::Switch), 1);
        assert_eq!(
            cap_of_second(GiveUp::Never),
            3,
            "order decides, not the fit"
        );
    }

    #[test]
    fn standby_rows_take_nothing_from_others() {
        let mut plan = builder();
        plan.group(SmSet::first(4), Fill::RowOrder, GiveUp::Drain, false);
        plan.standby_row(row(0, 4)).row(row(1, 4), &QUARTER);
        let plan = plan.build().expect("the plan is valid");
        assert_eq!(plan.cap_total(KernelId(0)), 16);
        assert_eq!(plan.cap_total(KernelId(1)), 16);
    }

    #[test]
    fn mistakes_are_named() {
        let group = |plan: &mut PlanBuilder, from, to| {
            plan.group(SmSet::range(from, to), Fill::Arrival, GiveUp::Never, true);
        };
        let mut overlap = builder();
        group(&mut overlap, 0, 4);
        group(&mut overlap, 2, 3);
        assert_eq!(
            overlap.build().err(),
            Some(PlanError::Overlap { sm: SmId(2) })
        );
        let mut gap = builder();
        group(&mut gap, 0, 2);
        assert_eq!(
            gap.build().err(),
            Some(PlanError::Uncovered { sm: SmId(2) })
        );
        let mut beyond = builder();
        group(&mut beyond, 0, 5);
        assert_eq!(
            beyond.build().err(),
            Some(PlanError::NoSuchSm { sm: SmId(4) })
        );
        let mut twice = builder();
        group(&mut twice, 0, 4);
        twice.row(row(3, 1), &QUARTER).row(row(3, 1), &QUARTER);
        assert_eq!(
            twice.build().err(),
            Some(PlanError::Twice {
                kernel: KernelId(3)
            })
        );
        let mut stray = builder();
        stray.row(row(3, 1), &QUARTER);
        assert_eq!(
            stray.build().err(),
            Some(PlanError::NoGroup {
                kernel: KernelId(3)
            })
        );
    }

    #[test]
    fn no_groups_means_the_default_for_all() {
        let plan = builder().build().expect("an empty plan is valid");
        assert_eq!(plan.cap_total(KernelId(7)), 32);
        assert!(plan.group_of(SmId(0)).is_none());
    }
}
