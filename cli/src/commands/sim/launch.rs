//! Launching a kernel on the model, whole or in slices, and what it did.
//!
//! Rule: slices of one launch follow one another in one hardware queue, in ascending order of blocks; nothing overlaps.

use crate::failure::Failure;
use gridmux_hw_model::{
    Advance, Counters, DomainId, Gpu, Kernel, Launch, QueueId, Report, occupancy, run_functional,
};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, SubBox, next_box};
use gridmux_ptx::control::{CONTROL_BYTES, Control};
use nix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// A time that no kernel reaches.
const FOREVER: Cycles = Cycles(1 << 62);
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
    /// Most blocks of a slice; `None` for [`WAVES`].
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
    for (slice, params) in plan.slices(gpu) {
        gpu.launch(plan.launch(slice, &params, outcome.slices, budget))?;
        outcome.slices += 1;
    }
    let mut reports = Vec::new();
    let mut ended = 0;
    let mut end = submitted;
    while ended < outcome.slices {
        reports.clear();
        let advance = gpu.advance(FOREVER, &mut reports);
        for report in reports.drain(..) {
            match report {
                Report::Ended {
                    end: at, counters, ..
                } => {
                    ended += 1;
                    end = end.max(at);
                    outcome.counters += counters;
                }
                Report::Faulted { fault, .. } => return Err(fault.into()),
                Report::Placed { .. } | Report::Retired { .. } | Report::Copied { .. } => {}
            }
        }
        if advance == Advance::Idle && ended < outcome.slices {
            return Err(Failure::new(
                "the model went idle before the kernel ended; this is an error of the model",
            ));
        }
    }
    outcome.cycles = Some(end.0.saturating_sub(submitted.0));
    outcome.cpu_seconds = cpu_seconds() - started;
    Ok(outcome)
}

/// Runs the plan for its results only.
pub(super) fn functional(
    gpu: &mut Gpu,
    plan: &Plan,
    budget: Option<u64>,
) -> Result<Outcome, Failure> {
    let started = cpu_seconds();
    let mut outcome = Outcome::default();
    for (slice, params) in plan.slices(gpu) {
        outcome.counters += run_functional(gpu, &plan.launch(slice, &params, 0, budget))?;
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
        tag: u64,
        budget: Option<u64>,
    ) -> Launch<'a> {
        Launch {
            queue: QueueId(0),
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

    /// The sub-boxes in order, each with its parameters.
    fn slices(&self, gpu: &Gpu) -> Vec<(SubBox, Vec<u8>)> {
        let grid = Grid(self.grid);
        let Some(control_at) = self.control_offset.filter(|_| grid.is_sliceable()) else {
            return vec![(
                SubBox {
                    offset: [0; 3],
                    dims: self.grid,
                },
                self.whole_params(),
            )];
        };
        let most = self.slice_blocks.unwrap_or_else(|| self.waves(gpu));
        let mut slices = Vec::new();
        let mut next = 0;
        while next < grid.blocks() {
            let slice = next_box(grid, next, most);
            slices.push((slice, self.params_with(control_at, slice.offset)));
            next += slice.blocks();
        }
        slices
    }

    /// Blocks of [`WAVES`] waves over the whole GPU.
    fn waves(&self, gpu: &Gpu) -> u32 {
        let threads = self
            .block
            .iter()
            .fold(1, |n: u32, &extent| n.saturating_mul(extent));
        let per_sm = occupancy(gpu.config(), &self.kernel, threads, self.shared_bytes)
            .blocks_per_sm
            .max(1);
        let blocks = WAVES * u64::from(per_sm) * u64::from(gpu.config().sm.count);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// The parameters of the whole grid, whether or not there is a control block.
    fn whole_params(&self) -> Vec<u8> {
        match self.control_offset {
            Some(control_at) => self.params_with(control_at, [0; 3]),
            None => self.params.clone(),
        }
    }

    fn params_with(&self, control_at: u32, offset: [u32; 3]) -> Vec<u8> {
        let control = Control {
            offset,
            grid: self.grid,
            ..Control::default()
        };
        let mut params = self.params.clone();
        params[control_at as usize..][..CONTROL_BYTES as usize]
            .copy_from_slice(&control.to_bytes());
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
