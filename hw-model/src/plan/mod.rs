//! `plan` mode: the block scheduler, the preemption engine and the warp schedulers obey a residency plan.
//!
//! [`crate::Gpu::set_plan`] or [`crate::Gpu::follow_plans`] ends the stock left-over scheduler; from then on every
//! launch runs under the row that [`crate::Gpu::launch_under`] names. [`obey`] is the block scheduler, [`leave`] takes
//! blocks off SMs, [`rules`] is the plan as both read it, [`books`] what rows and tenants hold; the context switch and
//! the quotas are the SM's (`timing`). [`StandIn`] stands for a kernel of which only durations are known. The room
//! `mix` puts policies in charge of all of this.
//!
//! Rules: a plan for another GPU is obeyed as far as it applies, never refused; everything is decided
//! between epochs, so cycles do not depend on the number of threads; with plans read from a publisher they depend on
//! when the writer publishes, with `set_plan` on nothing outside.

mod books;
mod leave;
pub(crate) mod obey;
mod rules;
mod stand_in;

pub use gridmux_policy::blocks::{BlockChange, BlockEvent, Standing};
pub use stand_in::StandIn;

use crate::counters::Counters;
use crate::timing::launches::LaunchState;
use gridmux_policy::contract::{Element, Enforcement};
use gridmux_policy::ids::{RowId, SmId};
use gridmux_policy::units::Cycles;

/// How the hardware that obeys a plan behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Contexts move at no cost: the papers' ideal variant (SMK, section 6.5). Blocks are drained all the same.
    pub free_switches: bool,
}

/// Returns how well `plan` mode holds an element of a plan.
#[must_use]
pub fn enforces(element: Element) -> Enforcement {
    match element {
        Element::Preemption => Enforcement::Approximate(
            "a block leaves once what it has in flight has ended and its context is in memory; \
             the cheapest way goes by an estimate of what is left to run",
        ),
        Element::Cap
        | Element::DeviceLimit
        | Element::GroupLimit
        | Element::Order
        | Element::HeadOfLine
        | Element::Budget
        | Element::Weight
        | Element::Stop
        | Element::Surplus => Enforcement::Exact,
    }
}

/// Returns how well `plan` mode samples kernels.
#[must_use]
pub fn samples() -> Enforcement {
    Enforcement::Exact
}

/// Returns the event of a launch's block.
pub(crate) fn block_event(
    launch: &LaunchState,
    sm: usize,
    block: u64,
    at: u64,
    change: BlockChange,
) -> BlockEvent {
    BlockEvent {
        at: Cycles(at),
        sm: SmId(u16::try_from(sm).unwrap_or(u16::MAX)),
        row: launch.row,
        tag: launch.tag,
        block,
        change,
    }
}

/// What the blocks of one row did on one SM so far, running ones and those of killed launches included. What memory
/// behind L1 does for an SM after its launch has ended counts for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// SM.
    pub sm: SmId,
    /// Row.
    pub row: RowId,
    /// Counts since the row was made; `block_cycles` are the cycles of residence.
    pub counters: Counters,
}
