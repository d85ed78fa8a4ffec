//! A launch on the functional device: where it stands, and what the dispatcher hears of its blocks.
//!
//! Reports are those that a chip would give. A launch becomes resident when it is first in its lane and the device has
//! room; as many of its blocks count as resident as the device holds at once. Those would run side by side, so the last
//! of them end together, and the time that the resident ones took so far is spread over those that end.

use super::super::State;
use crate::device::{DeviceReport, LaunchCommand, Tag};
use gridmux_hw_model::launch::{Launch, LaunchError, Level, QueueId, Workspace};
use gridmux_hw_model::memory::DomainId;
use gridmux_hw_model::{Counters, FunctionalRun, Kernel, RunError, occupancy};
use gridmux_policy::units::Nanos;
use std::sync::Arc;
use std::time::Duration;

/// Warp instructions of a launch's first turn, before it is known what they cost.
const FIRST_PART: u64 = 1024;
/// Processor time of a warp instruction, in nanoseconds, from which on it counts as several in the estimate: about
/// twice what any costs that works on each lane for itself. So what is long on the host (products of matrices, text
/// that is printed) is long on the device, and nobody who shares by the device's time waits for much more of the
/// host's.
const COSTLY_NS: u64 = 200;
/// Fewest and most warp instructions of a turn.
const PARTS: (u64, u64) = (256, 1 << 20);

/// A launch that waits for its turn or has had some.
pub(super) struct Running {
    command: LaunchCommand,
    domain: DomainId,
    kernel: Arc<Kernel>,
    params: Vec<u8>,
    run: Option<FunctionalRun>,
    /// Blocks that the device holds at once.
    wave: u32,
    warps: u32,
    blocks: u32,
    /// Blocks reported resident, and reported ended.
    resident: u32,
    retired: u32,
    /// When its first block started.
    start: Nanos,
    /// Time of the newest report, and residence since then that no ended block was given.
    at: Nanos,
    resided_ns: u64,
    /// Counters when the clock was last moved.
    counted: Counters,
    /// Core cycles that it has taken by the estimate.
    cycles: f64,
    /// Warp instructions of the next turn.
    part: u64,
}

impl Running {
    /// Makes a launch that has not begun.
    pub(super) fn new(
        state: &State,
        (command, domain): (&LaunchCommand, DomainId),
        kernel: Arc<Kernel>,
        params: Vec<u8>,
    ) -> Self {
        let threads: u32 = command.block.iter().product();
        let config = state.gpu.config();
        let held = occupancy(config, &kernel, threads, command.dynamic_shared_bytes);
        Self {
            wave: (held.blocks_per_sm * u32::from(config.sm.count)).max(1),
            warps: threads.div_ceil(32),
            blocks: command.grid.iter().product(),
            command: *command,
            domain,
            kernel,
            params,
            run: None,
            resident: 0,
            retired: 0,
            start: Nanos(0),
            at: Nanos(0),
            resided_ns: 0,
            counted: Counters::default(),
            cycles: 0.0,
            part: FIRST_PART,
        }
    }

    /// Returns its name in reports.
    pub(super) fn tag(&self) -> Tag {
        self.command.tag
    }

    /// Returns the command.
    pub(super) fn command(&self) -> &LaunchCommand {
        &self.command
    }

    /// Returns when its first block started.
    pub(super) fn start(&self) -> Nanos {
        self.start
    }

    /// Returns the blocks that it holds on the device, or would if it had begun, and how many the device could hold.
    pub(super) fn holds(&self) -> (u32, u32) {
        ((self.blocks - self.retired).min(self.wave), self.wave)
    }

    /// Returns whether its first block has started.
    pub(super) fn has_begun(&self) -> bool {
        self.run.is_some()
    }

    /// Returns the part of the device that it holds, or would if it had begun.
    pub(super) fn part(&self) -> f64 {
        let (holds, of) = self.holds();
        f64::from(holds) / f64::from(of)
    }

    /// Returns the warps of the blocks that it holds.
    pub(super) fn warps(&self) -> u64 {
        u64::from(self.holds().0) * u64::from(self.warps)
    }

    /// Returns whether it has taken more core cycles than it may.
    pub(super) fn is_over_budget(&self) -> bool {
        self.cycles > self.command.budget_cycles as f64
    }

    /// Begins, if it has not.
    ///
    /// # Errors
    /// The limit that it does not keep.
    pub(super) fn begin(&mut self, state: &mut State, now: Nanos) -> Result<(), LaunchError> {
        if self.run.is_some() {
            return Ok(());
        }
        let launch = Launch {
            queue: QueueId(self.command.tag.lane.0),
            level: Level::LOWEST,
            tag: self.command.tag.to_bits(),
            domain: self.domain,
            kernel: Arc::clone(&self.kernel),
            grid: self.command.grid,
            block: self.command.block,
            dynamic_shared_bytes: self.command.dynamic_shared_bytes,
            params: &self.params,
            budget: None,
        };
        let run = match self.command.is_cooperative {
            true => state
                .gpu
                .begin_functional_cooperative(&launch, Workspace::OfLaunch)?,
            false => state.gpu.begin_functional(&launch)?,
        };
        self.run = Some(run);
        (self.start, self.at) = (now, now);
        Ok(())
    }

    /// Runs for one turn; returns whether all blocks have ended.
    ///
    /// # Errors
    /// The kernel's fault.
    pub(super) fn go_on(&mut self, state: &mut State) -> Result<bool, RunError> {
        match &mut self.run {
            Some(run) => state.gpu.step_functional(run, self.part),
            None => Ok(true),
        }
    }

    /// Returns the core cycles of what was done since the last call, in so much processor time, while `resident_warps`
    /// are on the chip.
    pub(super) fn take_cycles(
        &mut self,
        state: &State,
        resident_warps: u64,
        took: Duration,
    ) -> f64 {
        let Some(run) = &self.run else {
            return 0.0;
        };
        let all = *run.counters();
        let costly = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / COSTLY_NS;
        let counters = Counters {
            warp_instructions: (all.warp_instructions - self.counted.warp_instructions).max(costly),
            global_loads: all.global_loads - self.counted.global_loads,
            global_stores: all.global_stores - self.counted.global_stores,
            global_atomics: all.global_atomics - self.counted.global_atomics,
            ..Counters::default()
        };
        self.counted = all;
        let config = state.gpu.config();
        let cycles = config.estimated_cycles(&counters, resident_warps);
        self.cycles += cycles;
        cycles
    }

    /// Fits the length of the next turn to what one of this length took.
    pub(super) fn fit_part(&mut self, took: Duration, wanted: Duration) {
        let took_ns = took.as_nanos().max(1);
        let fitting = u128::from(self.part) * wanted.as_nanos() / took_ns;
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        // One slow turn, as when the host runs something else, does not make all that follow short.
        let fitting = fitting.clamp(self.part / 4, self.part.saturating_mul(4));
        self.part = fitting.clamp(PARTS.0, PARTS.1);
    }

    /// Reports what happened to its blocks up to now.
    pub(super) fn report(&mut self, now: Nanos, mut say: impl FnMut(DeviceReport)) {
        let Some(run) = &self.run else {
            return;
        };
        let tag = self.command.tag;
        let done = u32::try_from(run.counters().blocks).unwrap_or(u32::MAX);
        let ended = match done == self.blocks {
            true => done,
            false => (done + 1).saturating_sub(self.wave.min(self.blocks)),
        };
        self.resided_ns += (now - self.at).0.saturating_mul(self.resident.into());
        self.at = now;
        let newly = ended - self.retired;
        // What began and ended since the last report was resident in between.
        let unseen = newly.saturating_sub(self.resident);
        if unseen > 0 {
            self.place(unseen, now, &mut say);
        }
        if newly > 0 {
            self.retired = ended;
            self.resident -= newly;
            let ran = Nanos(std::mem::take(&mut self.resided_ns));
            say(DeviceReport::Retired {
                tag,
                blocks: newly,
                ran,
                at: now,
            });
        }
        let more = self.holds().0 - self.resident;
        if more > 0 {
            self.place(more, now, &mut say);
        }
    }

    fn place(&mut self, blocks: u32, at: Nanos, say: &mut impl FnMut(DeviceReport)) {
        self.resident += blocks;
        let tag = self.command.tag;
        say(DeviceReport::Placed { tag, blocks, at });
    }

    /// Gives its storage back.
    pub(super) fn end(&mut self, state: &mut State) {
        if let Some(run) = self.run.take() {
            state.gpu.end_functional(run);
        }
    }
}
