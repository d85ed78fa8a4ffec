//! Launching a kernel on the model, whole, in slices or by workers, and what it did.
//!
//! Rule: a slice is submitted when every block of the one before has its place on an SM, into another hardware queue.
//! So blocks start in ascending order, as they would in one launch, and an SM does not wait for a slice to end.

use super::loading::with_budget_hint;
use crate::failure::Failure;
use gridmux_hw_model::drive::{Happened, Run, RunSetup};
use gridmux_hw_model::{Counters, DriveError, FaultKind, Gpu, Partition};
use gridmux_launch::{Device, Launcher, Limits, Pace, Piece, Progress, Reservation};
use gridmux_ptx::control::COUNTERS_BYTES;
use gridmux_ptx::forms::{Form, Shape};
use gridmux_ptx::kernel::Entry;
use nix::time::{ClockId, clock_gettime};
use std::io::Write as _;

/// Waves of blocks in a slice, unless the number of blocks is given.
const WAVES: u32 = 2;

/// A kernel in a form, with what its launches take.
#[derive(Debug)]
pub(super) struct FormedKernel {
    /// The kernel of the rewritten module, with the shared memory of the form's own.
    pub(super) setup: RunSetup,
    /// Its entry in the rewritten module.
    pub(super) entry: Entry,
    /// Partition of the kernel's memory. Of a form without a fence only the domain is used.
    pub(super) partition: Partition,
    /// Blocks of the original grid.
    pub(super) grid: [u32; 3],
    /// Parameters of the original; the control block comes before them.
    pub(super) params: Vec<u8>,
}

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
pub(super) fn run(gpu: &mut Gpu, kernel: &FormedKernel, way: Way) -> Result<Outcome, Failure> {
    let started = cpu_seconds();
    let submitted = gpu.now();
    let wave = kernel.setup.wave(gpu.config());
    let limits = Limits {
        slice_blocks: way.blocks.unwrap_or(wave.saturating_mul(WAVES)),
        pace: Pace::Placed,
        workers: wave,
    };
    let reservation = Reservation {
        base: kernel.partition.base,
        mask: kernel.partition.mask(),
    };
    let launcher = Launcher::new(&kernel.entry, kernel.grid, limits, Some(reservation));
    let mut launcher = launcher.map_err(|error| {
        let other = Form {
            shape: Shape::Slice,
            ..kernel.entry.form()
        };
        Failure::new(error.to_string()).hint(format!("run it with --form {other}"))
    })?;
    let mut run = Run::new(kernel.setup.clone(), way.timed);
    if let Some(workspace) = way.workspace {
        run = run.cooperative(workspace);
    }
    let mut device = OnModel { gpu, run, kernel };
    let fault = gridmux_launch::run(&mut launcher, &mut device);
    let fault = fault.map_err(|error| explained(error, way))?;
    if let Some(fault) = fault {
        let name = &kernel.setup.kernel.name;
        return Err(Failure::new(format!(
            "kernel '{name}' recorded a fault: {fault}"
        )));
    }
    let tally = device.run.tally();
    let since_submission = |at: gridmux_policy::units::Cycles| at.0.saturating_sub(submitted.0);
    Ok(Outcome {
        cycles: tally.end.map(since_submission),
        launch_latency_cycles: tally.first_start.map(since_submission),
        launches: tally.launches,
        counters: tally.counters,
        cpu_seconds: cpu_seconds() - started,
    })
}

/// The model as the launcher's device.
struct OnModel<'a> {
    gpu: &'a mut Gpu,
    run: Run,
    kernel: &'a FormedKernel,
}

impl Device for OnModel<'_> {
    type Error = DriveError;

    fn make_counters(&mut self) -> Result<u64, DriveError> {
        self.run.zeroed(self.gpu, COUNTERS_BYTES)
    }

    fn launch(&mut self, piece: &Piece) -> Result<(), DriveError> {
        let own = &self.kernel.params;
        let params = match self.kernel.entry.form().has_control() {
            true => &piece.control.before(own),
            false => own,
        };
        let submitted = self.run.submit(self.gpu, piece.number, piece.grid, params);
        show_printed(self.gpu);
        submitted
    }

    fn wait(&mut self) -> Result<Progress, DriveError> {
        let happened = self.run.wait(self.gpu);
        show_printed(self.gpu);
        Ok(match happened? {
            Happened::Placed(number) => Progress::Placed(number),
            Happened::Ended(number) => Progress::Ended(number),
        })
    }

    fn read_counters(&mut self, address: u64) -> Result<[u8; COUNTERS_BYTES as usize], DriveError> {
        let mut counters = [0; COUNTERS_BYTES as usize];
        self.run.read(self.gpu, address, &mut counters)?;
        Ok(counters)
    }
}

/// Returns the failure, with a hint where other options or a larger budget would do.
fn explained(error: DriveError, way: Way) -> Failure {
    match &error {
        DriveError::Fault(fault)
            if fault.kind == FaultKind::Trap
                && way.looks_for_barrier
                && way.workspace.is_none() =>
        {
            let hint = "a kernel that calls grid.sync() runs with --cooperative";
            Failure::new(fault).hint(hint)
        }
        DriveError::Fault(fault) => with_budget_hint(Failure::new(fault), fault),
        _ => error.into(),
    }
}

/// Shows what kernels print; it is not data of ours, so it goes to stderr.
fn show_printed(gpu: &mut Gpu) {
    for printed in gpu.take_printed() {
        // Nobody is left to be told when stderr is gone.
        let _ = std::io::stderr().write_all(printed.text.as_bytes());
    }
}

/// Returns the processor time of all threads of this process, in seconds.
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}
