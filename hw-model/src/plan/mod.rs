//! `plan` mode: the block scheduler, the preemption engine and the warp schedulers obey a residency plan.
//!
//! [`crate::Gpu::set_plan`] or [`crate::Gpu::follow_plans`] ends the stock left-over scheduler; from then on every
//! launch runs under the row that [`crate::Gpu::launch_under`] names. [`obey`] is the block scheduler, [`rules`] the
//! plan as it reads it, clamped to the GPU; the context switch and the quotas are the SM's (`timing`).
//! Rules: a plan that asks for what the GPU does not have is clamped and reported, never refused; everything is
//! decided between epochs, so cycles do not depend on the number of threads; with plans read from a publisher they
//! depend on when the writer publishes, with `set_plan` on nothing outside.

pub(crate) mod obey;
mod rules;

use crate::counters::Counters;
use gridmux_policy::ids::{KernelId, SmId, TenantId};
use gridmux_policy::plan::{GiveUp, RowLimits};
use gridmux_policy::units::Cycles;

/// The standing row that a launch runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Its row in plans.
    pub kernel: KernelId,
    /// Whose it is.
    pub tenant: TenantId,
}

/// How the hardware that obeys a plan behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Contexts move at no cost: the papers' ideal variant (SMK, section 6.5). Blocks are drained all the same.
    pub free_switches: bool,
    /// Length of a quota's epoch (SMK, section 6.1: 10,000 cycles).
    pub quota_epoch: Cycles,
    /// What a kernel that has spent its quota does.
    pub spent: Spent,
}

/// What a kernel that has spent its quota does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// It stops until quotas are renewed (SMK, section 5.4).
    Stops,
    /// It issues in the slots that nobody within quota can use.
    Yields,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            free_switches: false,
            quota_epoch: Cycles(10_000),
            spent: Spent::Stops,
        }
    }
}

/// Something that a plan asks for and this GPU does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanNote {
    /// A group names an SM that does not exist; it is left out.
    #[error("the plan names {sm}, the GPU has {count}; the SM is left out")]
    NoSuchSm {
        /// Named.
        sm: SmId,
        /// SMs that there are.
        count: u16,
    },
    /// No group has the SM; only kernels without a row run there.
    #[error("no group of the plan has {sm}; only kernels without a row run there")]
    Uncovered {
        /// Left out.
        sm: SmId,
    },
    /// The SM stands in several groups; the first one counts.
    #[error("{sm} stands in several groups of the plan; the first one counts")]
    Overlap {
        /// Named twice.
        sm: SmId,
    },
    /// The cap is more than an SM's block slots; it is lowered to them.
    #[error("the plan gives {kernel} {cap} blocks an SM, an SM holds {limit}; the cap is lowered")]
    CapBeyondSm {
        /// The row's kernel.
        kernel: KernelId,
        /// Asked for.
        cap: u16,
        /// Block slots.
        limit: u16,
    },
    /// A weight of zero; it counts as one.
    #[error("the plan gives {kernel} no issue weight; it counts as 1")]
    NoWeight {
        /// The row's kernel.
        kernel: KernelId,
    },
    /// The kernel stands twice in a group; its first row counts.
    #[error("{kernel} stands twice in a group of the plan; its first row counts")]
    Twice {
        /// The kernel.
        kernel: KernelId,
    },
}

/// How well an executor holds a row (DESIGN, invariant 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// To the block, and to the instruction of an epoch.
    Exact,
    /// Nearly; the text says what differs.
    Approximate(&'static str),
    /// Not at all; the text says why.
    No(&'static str),
}

/// How well `plan` mode holds a row of a group with this way of giving blocks up.
#[must_use]
pub fn enforces(limits: &RowLimits, give_up: GiveUp) -> Enforcement {
    if limits.weight == 0 {
        return Enforcement::Approximate("an issue weight of zero counts as 1");
    }
    match give_up {
        GiveUp::Never => {
            Enforcement::Approximate("caps bind only new blocks, by request of the plan")
        }
        GiveUp::Drain => {
            Enforcement::Approximate("a lowered cap holds when enough blocks have ended")
        }
        GiveUp::Cheapest => {
            Enforcement::Approximate("blocks near their end stay; what is left is estimated")
        }
        GiveUp::Switch => Enforcement::Exact,
    }
}

/// What happened to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockChange {
    /// It has room and starts.
    Placed,
    /// It ended after being resident for so long, on all SMs together.
    Retired {
        /// Residence.
        ran: Cycles,
    },
    /// Its context is in memory and its room is free.
    SwitchedOut {
        /// Bytes that were moved.
        bytes: u64,
    },
    /// It has room again, and its context is being fetched.
    SwitchedIn {
        /// Bytes that will be moved.
        bytes: u64,
    },
}

/// One block's event in `plan` mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// When.
    pub at: Cycles,
    /// Where.
    pub sm: SmId,
    /// The row of its launch.
    pub kernel: KernelId,
    /// The launch.
    pub tag: u64,
    /// Number of the block in its grid.
    pub block: u64,
    /// What.
    pub change: BlockChange,
}

/// What the blocks of one kernel did on one SM so far, running ones and those of killed launches included. What
/// memory behind L1 does for an SM after its launch has ended counts for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// SM.
    pub sm: SmId,
    /// Row.
    pub kernel: KernelId,
    /// Counts since the GPU was made; `block_cycles` are the cycles of residence.
    pub counters: Counters,
}
