//! The `event` executor: a discrete-event simulation of thread blocks, cheap enough for tens of thousands of workloads.
//!
//! A block has work, in cycles of its kernel alone at full residency. On an SM it progresses at a speed that depends on
//! what resides beside it ([`config::Contention`]); it ends when its work is done. No instruction is executed. The
//! executor is an [`Engine`](crate::driver::Engine): a [`Driver`](crate::driver::Driver) puts a policy in charge of it.
//!
//! [`place`] is the block scheduler, [`leave`] takes blocks off SMs, [`sm`] is the progress of what resides, [`demand`]
//! how residents slow each other down, [`counted`] what samples are made of, [`launches`] the queues and what rows and
//! tenants hold.
//!
//! Rules: ends of an instant are reported before blocks are placed at that instant; blocks of a launch start in
//! ascending order, a switched block comes back before its launch starts a new one; equal inputs give equal runs; the
//! work of a block depends on its kernel and number alone, not on the policy.

mod config;
mod counted;
mod demand;
mod engine;
mod ercbench;
mod flags;
mod kernel;
mod launches;
mod leave;
mod measured;
mod place;
mod sm;
mod soonest;

pub use config::{Contention, EventConfig, EventConfigError};
pub use demand::Uses;
pub use ercbench::{ErcKernel, ercbench};
pub use kernel::{EventKernel, EventSubmission, LaunchCounters, Refusal, Work};
pub use measured::{MEASURED_ON, MeasuredKernel, measured_kernels};

use crate::driver::{BlockChange, BlockEvent, Driver, Ending};
use flags::Flags;
use gridmux_policy::contract::{Element, Enforcement};
use gridmux_policy::ids::{RowId, SmId, TenantId};
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::{Held, SmUnits};
use gridmux_policy::units::Cycles;
use launches::{Launches, RowCounts};
use sm::Sm;
use soonest::Soonest;

/// A policy in charge of an event executor.
pub type EventDriver = Driver<EventExecutor>;

/// Block events that are kept before [`EventExecutor`] comes back to its driver.
const MOST_EVENTS: usize = 1 << 10;

/// A simulated device.
#[derive(Debug)]
pub struct EventExecutor {
    config: EventConfig,
    now: u64,
    plan: Plan,
    /// Blocks beyond the plan's caps and limits have not been looked for.
    is_new: bool,
    /// Some group of the plan lends.
    is_lending: bool,
    sms: Vec<Sm>,
    /// When a block ends or has left, by SM.
    next_at: Soonest,
    /// SMs that may take a block.
    open: Flags,
    /// SMs on which something moved since their speeds were computed.
    moved: Flags,
    /// SM that is looked at first for the next block.
    turn: usize,
    /// What residents demand of DRAM, on the mean of all SMs.
    demanded: f64,
    /// What they demanded when speeds were computed.
    dram: f64,
    /// When the device can start the next block, in cycles; more than one may start in a cycle.
    dispatch_at: f64,
    launches: Launches,
    /// By row id.
    rows: Vec<RowCounts>,
    /// By tenant id: what its resident blocks hold.
    tenants: Vec<Held>,
    events: Vec<BlockEvent>,
    ended: Vec<Ending<Self>>,
    /// Slots of launches whose last block has ended at this instant.
    done: Vec<u32>,
}

/// Returns how well the executor holds an element of a plan.
#[must_use]
pub fn enforces(element: Element) -> Enforcement {
    match element {
        Element::Weight => {
            Enforcement::No("it executes no instructions, so there are no issue slots to share")
        }
        Element::Preemption => Enforcement::Approximate(
            "a context takes its size over a fixed rate to leave, whatever else moves; \
             the cheapest way goes by an estimate of what is left to run",
        ),
        Element::Cap
        | Element::DeviceLimit
        | Element::GroupLimit
        | Element::Order
        | Element::HeadOfLine
        | Element::Budget
        | Element::Stop
        | Element::Surplus => Enforcement::Exact,
    }
}

/// Returns how well the executor samples kernels.
#[must_use]
pub fn samples() -> Enforcement {
    Enforcement::Approximate(
        "what a kernel's measured use of a GPU says, with every access as a load that no cache has; nothing of kernels \
         whose use was not measured",
    )
}

impl EventExecutor {
    /// Returns an idle device at cycle 0.
    #[must_use]
    pub fn new(config: EventConfig) -> Self {
        let sms = usize::from(config.shape.sms);
        Self {
            now: 0,
            plan: Plan::default(),
            is_new: false,
            is_lending: false,
            sms: (0..sms).map(|_| Sm::new(&config.shape)).collect(),
            next_at: Soonest::new(sms),
            open: Flags::new(sms),
            moved: Flags::new(sms),
            turn: 0,
            demanded: 0.0,
            dram: 0.0,
            dispatch_at: 0.0,
            launches: Launches::default(),
            rows: Vec::new(),
            tenants: Vec::new(),
            events: Vec::new(),
            ended: Vec::new(),
            done: Vec::new(),
            config,
        }
    }

    /// Returns its description.
    #[must_use]
    pub fn config(&self) -> &EventConfig {
        &self.config
    }

    fn row(&mut self, row: RowId) -> &mut RowCounts {
        entry(&mut self.rows, row.index())
    }

    fn tenant(&mut self, tenant: TenantId) -> &mut Held {
        entry(&mut self.tenants, tenant.index())
    }

    /// Takes note of what happened to a block of a launch.
    fn record(&mut self, sm: usize, slot: u32, block: u64, change: BlockChange) {
        let launch = self.launches.get(slot);
        self.events.push(BlockEvent {
            at: Cycles(self.now),
            sm: SmId(u16::try_from(sm).unwrap_or(u16::MAX)),
            row: launch.row,
            tag: launch.number,
            block,
            change,
        });
    }

    /// Takes note of a block of a launch that counts for its tenant no more.
    fn release(&mut self, slot: u32) {
        let launch = self.launches.get(slot);
        let (tenant, shape) = (launch.tenant, launch.kernel.block);
        self.tenant(tenant).remove(&shape, 1);
        // Whatever shape its waiting blocks have, they may fit within the limit now, on any SM.
        if self.plan.device_limit(tenant) != SmUnits::MAX {
            self.open.fill();
        }
    }

    /// Ends the blocks, and frees the room of those that leave, whose time has come.
    fn retire(&mut self) {
        while let Some(sm) = self.next_at.until(self.now) {
            // It moved, so that its next time is computed before time passes.
            self.next_at.set(sm, u64::MAX);
            self.sms[sm].pass_to(self.now);
            self.open.set(sm);
            self.moved.set(sm);
            while let Some(ended) = self.sms[sm].take_ended(self.now) {
                let ran = Cycles(ended.ran);
                self.record(sm, ended.launch, ended.block, BlockChange::Retired { ran });
                self.release(ended.launch);
                let launch = self.launches.get_mut(ended.launch);
                launch.ended += 1;
                launch.counters.block_cycles = launch.counters.block_cycles.saturating_add(ran.0);
                let (row, over) = (launch.row, launch.ended == launch.blocks);
                let book = self.row(row);
                book.ended += 1;
                book.ran = book.ran.saturating_add(ran.0);
                if over {
                    self.done.push(ended.launch);
                }
            }
            while let Some((slot, block, saved)) = self.sms[sm].take_left(self.now) {
                let bytes = saved.bytes;
                self.record(sm, slot, block, BlockChange::SwitchedOut { bytes });
                let launch = self.launches.get_mut(slot);
                launch.counters.switched_bytes += bytes;
                launch.saved.insert(block, saved);
                self.launches.stale = true;
                self.open.fill();
            }
        }
        while let Some(slot) = self.done.pop() {
            let launch = self.launches.remove(slot);
            let dependent = self.now + self.config.dependent_cycles;
            self.launches.follow(&launch, dependent);
            self.open.fill();
            self.ended.push(Ending {
                number: launch.number,
                at: Cycles(self.now),
                result: Ok(launch.counters),
            });
        }
        self.ended.sort_by_key(|ending| (ending.at, ending.number));
    }
}

/// Returns an entry of a dense table, which grows as needed.
fn entry<T: Default + Clone>(table: &mut Vec<T>, at: usize) -> &mut T {
    if table.len() <= at {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}
