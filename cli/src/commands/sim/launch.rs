//! Launching a kernel on the model, whole, in slices, through gates or by workers, and what it did.
//!
//! Rule: a slice is submitted when every block of the one before has its place on an SM, into another hardware queue.
//! So blocks start in ascending order, as they would in one launch, and an SM does not wait for a slice to end.

use super::loading::with_budget_hint;
use crate::failure::Failure;
use gridmux_hw_model::drive::{FormedKernel, Pace, Run};
use gridmux_hw_model::{Counters, DriveError, FaultKind, Gpu};
use gridmux_ptx::control::Taking;
use gridmux_ptx::forms::{LaunchGrid, Shape};
use gridmux_ptx::protocol::Manner;
use nix::time::{ClockId, clock_gettime};
use std::io::Write as _;

/// Waves of blocks in a slice or in a gate's launch, unless the number of blocks is given.
const WAVES: u32 = 2;
/// Launches of a gate in flight.
const GATES_IN_FLIGHT: u32 = 2;

/// Result of a run. Times are core cycles of the device, and `None` without timing.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// From the submission to the end of the last block.
    pub(super) cycles: Option<u64>,
    /// Launch latency: from the submission to the start of the first block.
    pub(super) launch_latency_cycles: Option<u64>,
    /// Launches that it took.
    pub(super) launches: u64,
    /// What they did together.
    pub(super) counters: Counters,
    /// Processor time of this process that running them took.
    pub(super) cpu_seconds: f64,
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Most blocks of a launch in a form that cuts the grid.
    pub(super) blocks: Option<u32>,
    /// With timing, or for its results only.
    pub(super) timed: bool,
    /// Address of the words of the grid's barrier, where the launch is cooperative.
    pub(super) workspace: Option<u64>,
    /// The kernel's module looks for such words.
    pub(super) looks_for_barrier: bool,
}

/// Runs the kernel to its end.
pub(super) fn run(gpu: &mut Gpu, kernel: FormedKernel, way: Way) -> Result<Outcome, Failure> {
    let started = cpu_seconds();
    let submitted = gpu.now();
    let waves = kernel.wave(gpu.config()).saturating_mul(WAVES);
    let most = way.blocks.unwrap_or(waves);
    let mut run = Run::new(kernel, way.timed);
    if let Some(workspace) = way.workspace {
        run = run.cooperative(workspace);
    }
    let kernel = run.kernel();
    let done = match kernel.form.grid {
        LaunchGrid::Original | LaunchGrid::SubBox => {
            let boxes = kernel.sub_boxes(most);
            run.boxes(gpu, boxes, Pace::Placed, show_printed)
        }
        LaunchGrid::Planes(_) => {
            let host = kernel.gate(most, GATES_IN_FLIGHT);
            host.and_then(|host| run.instance(gpu, host, show_printed).map(drop))
        }
        LaunchGrid::Workers => {
            let one_by_one = Manner {
                chunk: 1,
                taking: Taking::Ahead,
            };
            let host = kernel.workers(gpu.config(), one_by_one, 0, way.timed);
            host.and_then(|host| run.instance(gpu, host, show_printed).map(drop))
        }
    };
    done.map_err(|error| explained(error, run.kernel(), way))?;
    let tally = run.tally();
    let since_submission = |at: gridmux_policy::units::Cycles| at.0.saturating_sub(submitted.0);
    Ok(Outcome {
        cycles: tally.end.map(since_submission),
        launch_latency_cycles: tally.first_start.map(since_submission),
        launches: tally.launches,
        counters: tally.counters,
        cpu_seconds: cpu_seconds() - started,
    })
}

/// Returns the failure, with a hint where another form or a larger budget would do.
fn explained(error: DriveError, kernel: &FormedKernel, way: Way) -> Failure {
    let other = match &error {
        DriveError::NoTickets { .. } => Shape::Slice,
        DriveError::Gate(_) => Shape::Whole,
        DriveError::Fault(fault)
            if fault.kind == FaultKind::Trap
                && way.looks_for_barrier
                && way.workspace.is_none() =>
        {
            let hint = "a kernel that calls grid.sync() runs with --cooperative and with timing";
            return Failure::new(fault).hint(hint);
        }
        DriveError::Fault(fault) => return with_budget_hint(Failure::new(fault), fault),
        _ => return error.into(),
    };
    let form = gridmux_ptx::forms::Form {
        shape: other,
        ..kernel.form.form
    };
    Failure::new(error.to_string()).hint(format!("run it with --form {form}"))
}

/// Shows what kernels print; it is not data of ours, so it goes to stderr.
fn show_printed(gpu: &mut Gpu) {
    for printed in gpu.take_printed() {
        // Nobody is left to be told when stderr is gone.
        let _ = std::io::stderr().write_all(printed.text.as_bytes());
    }
}

/// Returns the processor time of all threads of this process, in seconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "a figure for display; its resolution is far coarser"
)]
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}
