//! Functional execution: a launch to its end without timing, at once or a part at a time.
//!
//! A block runs until it ends. When it waits ([`seat`]), or has had a generous part of the time, the next one begins,
//! as long as the GPU would hold it beside those that have begun; then live blocks have their turns one after another
//! ([`live`]). So blocks that wait for each other come to an end as they do on a GPU, and a launch whose blocks wait
//! for nobody has one live block at a time.
//!
//! Rules: blocks begin in ascending order; the warps of a block take turns, so that one may wait for another; the
//! budget counts warp instructions of the whole launch. How a run is cut into parts changes nothing of what it
//! computes, unless something else writes its memory meanwhile.

mod live;
mod seat;
mod spin;

pub(crate) use seat::count_access;

use crate::config::{GpuConfig, WARP_LANES};
use crate::counters::Counters;
use crate::exec::{BlockShape, RegisterSlot};
use crate::fault::{Fault, FaultKind};
use crate::kernel::Kernel;
use crate::launch::{Launch, LaunchError, Workspace};
use crate::memory::{Domain, DomainId};
use crate::occupancy::occupancy;
use crate::report::{Printed, append_printed};
use live::Live;
use seat::{Engine, Turn, plain};
use std::sync::Arc;

/// What starting a block counts against the length of a part, in warp instructions.
const BLOCK_START: u64 = 32;
/// Bytes that a print looks at or makes, for which a part is one warp instruction shorter.
const PRINTED_BYTES: u64 = 4;

/// Local memory that is kept for the next run, in bytes.
const KEPT_LOCAL_BYTES: usize = 1 << 20;
/// Registers of each warp that are kept for the next run, in bytes.
const KEPT_WARP_BYTES: usize = 64 << 10;

/// Host memory that the live blocks of a launch may take, in bytes.
const LIVE_BYTES: u64 = 512 << 20;
/// Host memory that the live blocks of all launches may take together, but for one block of each, in bytes.
const LIVE_BYTES_OF_ALL: u64 = 2 << 30;

/// Storage that a functional run reuses from block to block and launch to launch.
#[derive(Debug)]
pub(crate) struct Functional {
    live: Live,
    engine: Engine,
}

/// A launch that runs without timing, a part at a time ([`Gpu::begin_functional`](crate::Gpu::begin_functional)).
#[derive(Debug)]
pub struct FunctionalRun {
    tag: u64,
    domain: DomainId,
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    block: [u32; 3],
    /// SMs of the GPU, which kernels read as `%nsmid`; all blocks run on the first.
    sms: u32,
    dynamic_shared_bytes: u32,
    params: Vec<u8>,
    budget: Option<u64>,
    /// Address of the words of the grid's barrier; 0 where the launch is not cooperative.
    workspace: u64,
    /// Whether the words were allocated for this launch.
    owns_workspace: bool,
    /// Blocks of the grid, and those that have begun.
    blocks: u64,
    begun: u64,
    /// Blocks that may be live at once, and the most that were.
    most_live: usize,
    were_live: usize,
    /// Host memory of a live block, and what was taken for blocks, as [`Room`] counts it.
    block_bytes: u64,
    taken_bytes: u64,
    counters: Counters,
    /// What the part at hand did beside its instructions, in warp instructions.
    charged: u64,
    storage: Functional,
}

/// The host memory that live blocks of all runs take, but for one block of each.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken_bytes: u64,
}

impl Room {
    /// Takes memory, if there is so much; returns whether.
    fn take(&mut self, bytes: u64) -> bool {
        let taken = self.taken_bytes.saturating_add(bytes);
        let fits = taken <= LIVE_BYTES_OF_ALL;
        if fits {
            self.taken_bytes = taken;
        }
        fits
    }

    /// Takes back what an ended run had.
    pub(crate) fn end(&mut self, run: &FunctionalRun) {
        self.taken_bytes = self.taken_bytes.saturating_sub(run.taken_bytes);
    }
}

/// How a block's turn ended.
enum Visit {
    /// The part is over.
    Cut,
    /// The block has ended.
    Ended,
    /// Another block is to go on.
    SetAside,
}

// SAFETY: the raw pointers inside a run (register slots, shared and local memory, parameters) point into buffers that
// the same run owns and that do not move when it does; nothing outside keeps a copy.
unsafe impl Send for FunctionalRun {}

impl Functional {
    pub(crate) fn new() -> Self {
        Self {
            live: Live::new(),
            engine: Engine::new(),
        }
    }
}

/// Returns how many blocks of a launch may be live at once: as many as the GPU holds, and as the host's memory for
/// them allows.
fn most_live(config: &GpuConfig, launch: &Launch<'_>) -> u64 {
    let threads = launch.block.iter().product();
    let fits = occupancy(config, &launch.kernel, threads, launch.dynamic_shared_bytes);
    let held = u64::from(fits.blocks_per_sm) * u64::from(config.sm.count);
    held.min(LIVE_BYTES / live_bytes(launch)).max(1)
}

/// Returns about how much of the host's memory a live block takes, in bytes.
fn live_bytes(launch: &Launch<'_>) -> u64 {
    let kernel = &launch.kernel;
    let warps = u64::from(launch.block.iter().product::<u32>().div_ceil(WARP_LANES));
    let registers = u64::from(kernel.slots) * size_of::<RegisterSlot>() as u64;
    let predicates = u64::from(kernel.predicates) * 4;
    let local = u64::from(kernel.local_bytes) * u64::from(WARP_LANES);
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    let own = (size_of::<seat::Seat>() + size_of::<crate::exec::Warp>()) as u64;
    warps * (registers + predicates + local) + shared + own
}

impl FunctionalRun {
    /// Makes a run of a launch that was checked.
    pub(crate) fn new(config: &GpuConfig, launch: &Launch<'_>, storage: Functional) -> Self {
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
        let most_live = most_live(config, launch).min(blocks);
        Self {
            tag: launch.tag,
            domain: launch.domain,
            kernel: Arc::clone(&launch.kernel),
            grid: launch.grid,
            block: launch.block,
            sms: u32::from(config.sm.count),
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: launch.params.to_vec(),
            budget: launch.budget.map(|budget| budget.0),
            workspace: 0,
            owns_workspace: false,
            blocks,
            begun: 0,
            most_live: usize::try_from(most_live).unwrap_or(usize::MAX),
            were_live: 0,
            block_bytes: live_bytes(launch),
            taken_bytes: 0,
            counters: Counters::default(),
            charged: 0,
            storage,
        }
    }

    /// Makes it a run of a cooperative launch, whose blocks find the words of their barrier at this address.
    pub(crate) fn cooperative(mut self, words: u64, asked: Workspace) -> Self {
        self.workspace = words;
        self.owns_workspace = asked == Workspace::OfLaunch;
        self
    }

    /// Takes the memory that all blocks need to be live at once.
    ///
    /// # Errors
    /// [`LaunchError::HostMemory`]: there is not so much.
    pub(crate) fn take_room(&mut self, room: &mut Room) -> Result<(), LaunchError> {
        let bytes = self.block_bytes.saturating_mul(self.blocks);
        if self.blocks > self.most_live as u64 || !room.take(bytes) {
            return Err(LaunchError::HostMemory {
                kernel: self.kernel.name.to_string(),
                blocks: self.blocks,
                most_bytes: LIVE_BYTES,
            });
        }
        self.taken_bytes = bytes;
        Ok(())
    }

    /// Returns the address of the words of the grid's barrier, if they were allocated for this launch.
    pub(crate) fn own_workspace(&self) -> Option<u64> {
        self.owns_workspace.then_some(self.workspace)
    }

    /// Returns the launch's tag.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Returns the memory domain that the launch sees.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// Returns the kernel's name.
    pub(crate) fn kernel_name(&self) -> &str {
        &self.kernel.name
    }

    /// Returns what the launch did so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the most blocks that had begun and not ended at one time so far.
    #[must_use]
    pub fn most_live_blocks(&self) -> usize {
        self.were_live
    }

    /// Returns the storage, to be used by another run.
    pub(crate) fn into_storage(mut self) -> Functional {
        let live = &mut self.storage.live;
        live.clear();
        for seat in &mut live.seats {
            seat.block.trim(KEPT_LOCAL_BYTES);
            for warp in &mut seat.warps {
                warp.trim(KEPT_WARP_BYTES);
            }
        }
        self.storage
    }

    /// Runs until about `most` warp instructions were executed, or all blocks have ended; returns whether they have.
    pub(crate) fn step(
        &mut self,
        domain: &Domain,
        most: u64,
        (printed, room): (&mut Vec<Printed>, &mut Room),
    ) -> Result<bool, Box<Fault>> {
        let kernel = Arc::clone(&self.kernel);
        self.charged = 0;
        let mut until = self.counters.warp_instructions.saturating_add(most);
        loop {
            if self.storage.live.count() == 0 {
                if self.begun == self.blocks {
                    return Ok(true);
                }
                if self.done() >= until {
                    return Ok(false);
                }
                until = until.saturating_sub(BLOCK_START);
                self.start_block();
            }
            match self.run_block(&kernel, domain, until, printed)? {
                Visit::Cut => return Ok(false),
                Visit::Ended => {
                    self.counters.blocks += 1;
                    self.storage.live.remove();
                }
                Visit::SetAside if self.may_start() && self.takes_seat(room) => {
                    until = until.saturating_sub(BLOCK_START);
                    self.start_block();
                }
                Visit::SetAside => self.storage.live.turn_over(),
            }
        }
    }

    /// Returns the warp instructions done so far, with what counts as such in the part at hand.
    fn done(&self) -> u64 {
        let done = self.counters.warp_instructions;
        done.saturating_add(self.charged)
    }

    /// Returns whether one more block may begin beside those that are live.
    fn may_start(&self) -> bool {
        self.begun < self.blocks && self.storage.live.count() < self.most_live
    }

    /// Takes the memory of one more live block, unless there is some that an ended one had; returns whether there is
    /// any.
    fn takes_seat(&mut self, room: &mut Room) -> bool {
        let live = &self.storage.live;
        let needs = live.count() as u64 * self.block_bytes;
        if needs <= self.taken_bytes {
            return true;
        }
        let takes = room.take(self.block_bytes);
        if takes {
            self.taken_bytes += self.block_bytes;
        }
        takes
    }

    fn start_block(&mut self) {
        let shape = BlockShape {
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params: self.params.as_ptr(),
            gridid: self.tag,
            workspace: self.workspace,
            nsmid: self.sms,
        };
        let live = &mut self.storage.live;
        live.add().start(&self.kernel, &shape, self.begun);
        self.were_live = self.were_live.max(live.count());
        self.begun += 1;
    }

    /// Runs the block whose turn it is until it ends or is set aside, or until `until` warp instructions of the launch
    /// were executed.
    fn run_block(
        &mut self,
        kernel: &Kernel,
        domain: &Domain,
        until: u64,
        printed: &mut Vec<Printed>,
    ) -> Result<Visit, Box<Fault>> {
        let has_others = self.may_start() || self.storage.live.count() > 1;
        let Functional { live, engine } = &mut self.storage;
        let Some(seat) = live.current() else {
            return Ok(Visit::Ended);
        };
        loop {
            if self.counters.warp_instructions.saturating_add(self.charged) >= until {
                // The last warp may have ended in the turn before.
                return Ok(match seat.has_ended() {
                    true => Visit::Ended,
                    false => Visit::Cut,
                });
            }
            let Some(index) = seat.next_warp() else {
                if seat.has_ended() {
                    return Ok(Visit::Ended);
                }
                if seat.end_pass() && has_others {
                    seat.set_aside();
                    return Ok(Visit::SetAside);
                }
                continue;
            };
            match seat.take_turn(index, engine, (kernel, domain), &mut self.counters) {
                Turn::Over => {}
                Turn::Printed => {
                    if let Some(said) = seat.take_output(index) {
                        append_printed(printed, self.tag, self.domain, &said);
                        self.charged = self.charged.saturating_add(said.work / PRINTED_BYTES);
                    }
                }
                Turn::Failed(fault) => return Err(fault),
            }
            if let Some(budget) = self.budget
                && self.counters.warp_instructions > budget
            {
                let kind = FaultKind::InstructionBudgetExceeded {
                    budget_instructions: budget,
                };
                return Err(seat.explain(plain(kind), index, kernel, domain));
            }
        }
    }
}
