//! Launches that are queued or running.
//!
//! Rule: a launch keeps its index from acceptance until its end is reported; requests that are still on their way
//! for a launch that is gone are counted for nobody.

use crate::counters::Counters;
use crate::exec::BlockShape;
use crate::kernel::Kernel;
use crate::launch::{Launch, Level, MAX_PARAM_BYTES};
use crate::memory::DomainId;
use crate::occupancy::{BlockNeeds, block_needs};

use gridmux_policy::blocks::Standing;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::BlockShape as PlanShape;
use std::sync::Arc;

/// One launch.
#[derive(Debug)]
pub(crate) struct LaunchState {
    pub(crate) tag: u64,
    pub(crate) queue: usize,
    pub(crate) level: Level,
    pub(crate) domain: DomainId,
    pub(crate) kernel: Arc<Kernel>,
    /// The plan's row that it runs under.
    pub(crate) row: RowId,
    /// The tenant that it belongs to.
    pub(crate) tenant: TenantId,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) needs: BlockNeeds,
    /// What each block takes, as plans count it.
    pub(crate) counted: PlanShape,
    pub(crate) threads: u32,
    pub(crate) budget: Option<u64>,
    /// Number among all launches ever, for order and for `%gridid`.
    pub(crate) serial: u64,
    /// Address of the words of the grid's barrier; 0 where the launch is not cooperative.
    pub(crate) workspace: u64,
    /// Whether the words were allocated for this launch.
    pub(crate) owns_workspace: bool,
    pub(crate) blocks: u64,
    pub(crate) next_block: u64,
    pub(crate) ended_blocks: u64,
    pub(crate) first_start: Option<u64>,
    pub(crate) last_end: u64,
    /// When the thread that submits it comes to it.
    pub(crate) submitted_at: u64,
    /// It is a node of a graph, behind another one in its queue.
    pub(crate) is_node: bool,
    /// When its first block may start; set when it becomes the head of its queue.
    pub(crate) eligible_at: Option<u64>,
    /// It came behind a launch of its stream that had not ended, and may read what that one wrote.
    pub(crate) is_dependent: bool,
}

impl LaunchState {
    pub(crate) fn all_placed(&self) -> bool {
        self.next_block == self.blocks
    }

    /// Returns the last core cycle within its budget; `None` if it has no budget or has not begun.
    pub(crate) fn deadline(&self) -> Option<u64> {
        Some(self.first_start?.saturating_add(self.budget?))
    }
}

/// Parameter bytes at an address that stays.
type ParamBytes = Box<[u8; MAX_PARAM_BYTES]>;

/// All launches, by index.
#[derive(Debug)]
pub(crate) struct Launches {
    slots: Vec<Option<LaunchState>>,
    params: Vec<ParamBytes>,
    counters: Vec<Counters>,
    free: Vec<u32>,
    next_serial: u64,
    nobody: Counters,
    live: usize,
}

impl Launches {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            params: Vec::new(),
            counters: Vec::new(),
            free: Vec::new(),
            next_serial: 1,
            nobody: Counters::default(),
            live: 0,
        }
    }

    /// Adds a launch that was checked, and returns its index.
    pub(crate) fn insert(
        &mut self,
        config: &crate::config::GpuConfig,
        launch: Launch<'_>,
        standing: Standing,
    ) -> u32 {
        let threads = launch.block.iter().product::<u32>();
        let needs = block_needs(config, &launch.kernel, threads, launch.dynamic_shared_bytes);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.params.push(Box::new([0; MAX_PARAM_BYTES]));
            self.counters.push(Counters::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let at = index as usize;
        self.params[at][..launch.params.len()].copy_from_slice(launch.params);
        self.counters[at] = Counters::default();
        self.slots[at] = Some(LaunchState {
            tag: launch.tag,
            queue: usize::from(launch.queue.0),
            level: launch.level,
            domain: launch.domain,
            kernel: launch.kernel,
            row: standing.row,
            tenant: standing.tenant,
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            needs,
            counted: needs.counted(),
            threads,
            budget: launch.budget.map(|b| b.0),
            serial: self.next_serial,
            workspace: 0,
            owns_workspace: false,
            blocks: launch.grid.iter().map(|n| u64::from(*n)).product(),
            next_block: 0,
            ended_blocks: 0,
            first_start: None,
            last_end: 0,
            submitted_at: 0,
            is_node: false,
            eligible_at: None,
            is_dependent: false,
        });
        self.next_serial += 1;
        self.live += 1;
        index
    }

    pub(crate) fn remove(&mut self, index: u32) {
        if self.slots[index as usize].take().is_some() {
            self.live -= 1;
            self.free.push(index);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn get(&self, index: u32) -> Option<&LaunchState> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut LaunchState> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Returns the number of slots; every index is below it.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the index and state of every launch.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &LaunchState)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(at, slot)| Some((u32::try_from(at).ok()?, slot.as_ref()?)))
    }

    /// Returns the last core cycle of the budget that runs out first; `None` if no launch that has begun has one.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let running = self.slots.iter().flatten();
        running.filter_map(LaunchState::deadline).min()
    }

    /// Returns the counters of a launch; those of nobody when it is gone.
    pub(crate) fn counters(&mut self, index: u32) -> &mut Counters {
        match self.slots.get(index as usize) {
            Some(Some(_)) => &mut self.counters[index as usize],
            _ => &mut self.nobody,
        }
    }

    /// Returns what each block of a launch is given; `None` when the launch is gone.
    pub(crate) fn shape(&self, index: u32, nsmid: u32) -> Option<BlockShape> {
        let launch = self.get(index)?;
        Some(BlockShape {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: self.params[index as usize].as_ptr(),
            gridid: launch.serial,
            workspace: launch.workspace,
            nsmid,
        })
    }
}
