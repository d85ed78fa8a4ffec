//! Launching a kernel on the model, whole, in slices, through gates or by workers, and what it did.
//!
//! Rule: a slice is submitted when every block of the one before has its place on an SM, into another hardware queue.
//! So blocks start in ascending order, as they would in one launch, and an SM does not wait for a slice to end.

use crate::failure::Failure;
use gridmux_hw_model::{
    Advance, Counters, DomainId, Gpu, Kernel, Launch, QueueId, Report, occupancy, run_functional,
};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, SubBox, next_box, next_planes};
use gridmux_ptx::control::{CONTROL_BYTES, Control};
use gridmux_ptx::forms::LaunchGrid;
use nix::time::{ClockId, clock_gettime};
use std::io::Write as _;
use std::sync::Arc;

/// A time that no kernel reaches.
const FOREVER: Cycles = Cycles(1 << 62);
/// Hardware queues that the slices go round; more than can be running at once.
const QUEUES: u64 = 8;
/// Waves of blocks in a slice, unless the number of blocks is given.
const WAVES: u64 = 2;

/// What to launch.
pub(super) struct Plan {
    pub(super) domain: DomainId,
    pub(super) kernel: Arc<Kernel>,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    /// The parameter block; the control block in it is empty.
    pub(super) params: Vec<u8>,
    /// Where the control block stands; `None` for a kernel that is launched whole.
    pub(super) control_offset: Option<u32>,
    /// What the grids of its launches hold.
    pub(super) launches: LaunchGrid,
    /// What the control block of every launch has in common: where the memory of the instance is.
    pub(super) instance: Control,
    /// Most blocks of a launch; `None` for [`WAVES`].
    pub(super) slice_blocks: Option<u32>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// From the submission to the end of the last block; `None` without timing.
    pub(super) cycles: Option<u64>,
    /// Launches that it took.
    pub(super) slices: u64,
    /// What they did together.
    pub(super) counters: Counters,
    /// Processor time of this process that running them took.
    pub(super) cpu_seconds: f64,
}

/// Runs the plan with timing.
pub(super) fn timed(gpu: &mut Gpu, plan: &Plan, budget: Option<u64>) -> Result<Outcome, Failure> {
    let started = cpu_seconds();
    let submitted = gpu.now();
    let mut outcome = Outcome::default();
    let mut slices = plan.slices(gpu).into_iter();
    let mut flight = Flight::default();
    flight.submit_next(gpu, plan, &mut slices, budget)?;
    let mut reports = Vec::new();
    let mut end = submitted;
    while flight.ended < flight.submitted {
        let advance = gpu.advance(FOREVER, &mut reports);
        for report in reports.drain(..) {
            show_printed(gpu);
            match report {
                Report::Placed { tag, blocks, .. } => flight.placed(tag, blocks),
                Report::Ended {
                    end: at, counters, ..
                } => {
                    flight.ended += 1;
                    end = end.max(at);
                    outcome.counters += counters;
                }
                Report::Faulted { fault, .. } => return Err(fault.into()),
                Report::Retired { .. } | Report::Copied { .. } => {}
            }
        }
        let went_on = flight.unplaced == 0 && flight.submit_next(gpu, plan, &mut slices, budget)?;
        if advance == Advance::Idle && !went_on && flight.ended < flight.submitted {
            return Err(Failure::new(
                "the model went idle before the kernel ended; this is an error of the model",
            ));
        }
    }
    outcome.slices = flight.submitted;
    outcome.cycles = Some(end.0.saturating_sub(submitted.0));
    outcome.cpu_seconds = cpu_seconds() - started;
    Ok(outcome)
}

/// Slices on their way.
#[derive(Default)]
struct Flight {
    submitted: u64,
    ended: u64,
    /// Blocks of the newest slice that no SM holds yet.
    unplaced: u64,
}

impl Flight {
    /// Submits the next slice into the next hardware queue; false if there is none.
    fn submit_next(
        &mut self,
        gpu: &mut Gpu,
        plan: &Plan,
        slices: &mut impl Iterator<Item = SubBox>,
        budget: Option<u64>,
    ) -> Result<bool, Failure> {
        let Some(slice) = slices.next() else {
            return Ok(false);
        };
        let params = plan.params_of(slice);
        let queue = u8::try_from(self.submitted % QUEUES).unwrap_or(0);
        gpu.launch(plan.launch(slice, &params, QueueId(queue), self.submitted, budget))?;
        self.unplaced = slice.blocks();
        self.submitted += 1;
        Ok(true)
    }

    /// Blocks of a slice were placed on SMs.
    fn placed(&mut self, tag: u64, blocks: u32) {
        if tag + 1 == self.submitted {
            self.unplaced = self.unplaced.saturating_sub(u64::from(blocks));
        }
    }
}

/// Shows what kernels print; it is not data of ours, so it goes to stderr.
fn show_printed(gpu: &mut Gpu) {
    for printed in gpu.take_printed() {
        // Nobody is left to be told when stderr is gone.
        let _ = std::io::stderr().write_all(printed.text.as_bytes());
    }
}

/// Runs the plan for its results only.
pub(super) fn functional(
    gpu: &mut Gpu,
    plan: &Plan,
    budget: Option<u64>,
) -> Result<Outcome, Failure> {
    let started = cpu_seconds();
    let mut outcome = Outcome::default();
    for slice in plan.slices(gpu) {
        let params = plan.params_of(slice);
        let launch = plan.launch(slice, &params, QueueId(0), outcome.slices, budget);
        let done = run_functional(gpu, &launch);
        show_printed(gpu);
        outcome.counters += done?;
        outcome.slices += 1;
    }
    outcome.cpu_seconds = cpu_seconds() - started;
    Ok(outcome)
}

impl Plan {
    fn launch<'a>(
        &self,
        slice: SubBox,
        params: &'a [u8],
        queue: QueueId,
        tag: u64,
        budget: Option<u64>,
    ) -> Launch<'a> {
        Launch {
            queue,
            tag,
            domain: self.domain,
            kernel: self.kernel.clone(),
            grid: slice.dims,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes,
            params,
            budget: budget.map(Cycles),
        }
    }

    /// The sub-boxes in order.
    fn slices(&self, gpu: &Gpu) -> Vec<SubBox> {
        let grid = Grid(self.grid);
        let at_origin = |dims| SubBox {
            offset: [0; 3],
            dims,
        };
        let (blocks, mut next, mut slices) = (grid.blocks(), 0, Vec::new());
        match self.launches {
            LaunchGrid::Original => slices.push(at_origin(self.grid)),
            LaunchGrid::SubBox if !grid.is_sliceable() => slices.push(at_origin(self.grid)),
            LaunchGrid::SubBox => {
                let most = self.slice_blocks.unwrap_or_else(|| self.waves(gpu, WAVES));
                while next < blocks {
                    let slice = next_box(grid, next, most);
                    next += slice.blocks();
                    slices.push(slice);
                }
            }
            LaunchGrid::Planes(_) if !grid.is_sliceable() => slices.push(at_origin(self.grid)),
            LaunchGrid::Planes(axis) => {
                let most = self.slice_blocks.unwrap_or_else(|| self.waves(gpu, WAVES));
                let mut next = 0;
                loop {
                    let slice = next_planes(grid, axis, next, most);
                    if slice.blocks() == 0 {
                        break;
                    }
                    next += slice.dims[usize::from(axis)];
                    slices.push(slice);
                }
            }
            LaunchGrid::Workers => {
                let workers = blocks.min(u64::from(self.waves(gpu, 1)));
                slices.push(at_origin([
                    u32::try_from(workers).unwrap_or(u32::MAX),
                    1,
                    1,
                ]));
            }
        }
        slices
    }

    /// Blocks of so many waves over the whole GPU.
    fn waves(&self, gpu: &Gpu, waves: u64) -> u32 {
        let threads = self
            .block
            .iter()
            .fold(1, |n: u32, &extent| n.saturating_mul(extent));
        let per_sm = occupancy(gpu.config(), &self.kernel, threads, self.shared_bytes)
            .blocks_per_sm
            .max(1);
        let blocks = waves * u64::from(per_sm) * u64::from(gpu.config().sm.count);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// The parameters of a slice.
    fn params_of(&self, slice: SubBox) -> Vec<u8> {
        let mut params = self.params.clone();
        if let Some(control_at) = self.control_offset {
            let control = match self.launches {
                LaunchGrid::Workers => self.instance,
                _ => Control {
                    offset: slice.offset,
                    grid: self.grid,
                    ..self.instance
                },
            };
            params[control_at as usize..][..CONTROL_BYTES as usize]
                .copy_from_slice(&control.to_bytes());
        }
        params
    }
}

/// Processor time of all threads of this process.
#[allow(
    clippy::cast_precision_loss,
    reason = "a figure for display; its resolution is far coarser"
)]
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}
