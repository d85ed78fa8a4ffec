//! The model as an engine of the driver: a policy on `plan` mode, the papers' hardware with any policy in charge.
//!
//! Rule: a run is deterministic to the cycle, whatever the number of threads.

use crate::driver::{self, BlockEvent, Described, Driver, Ending, Engine, RowSample, Standing};
use gridmux_hw_model::launch::{self, Launch, LaunchError, Level, QueueId};
use gridmux_hw_model::occupancy::{block_needs, device_shape};
use gridmux_hw_model::{Counters, Gpu, Kernel, Report, RunError, Sample};
use gridmux_policy::Watch;
use gridmux_policy::ids::{ProfileKey, RowId};
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::{Cycles, Nanos};
use std::sync::Arc;

/// A GPU, a policy and the launches of tenants.
pub type ModelDriver = Driver<Gpu>;

/// Result of a launch, as far as it is known.
pub type Outcome = driver::Outcome<Counters, RunError>;

/// A launch was not accepted.
pub type SubmitError = driver::SubmitError<LaunchError>;

/// A launch that a tenant asks for.
#[derive(Debug, Clone)]
pub struct ModelSubmission {
    /// Queue; launches of one queue run in order.
    pub queue: QueueId,
    /// Kernel, loaded into the driver's GPU.
    pub kernel: Arc<Kernel>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The parameter block.
    pub params: Vec<u8>,
    /// Cycles after its first start in which it must end.
    pub budget: Option<Cycles>,
}

impl ModelSubmission {
    /// Returns the launch as the GPU takes it.
    fn request(&self, tag: u64) -> Launch<'_> {
        Launch {
            queue: self.queue,
            level: Level::LOWEST,
            tag,
            domain: self.kernel.domain,
            kernel: Arc::clone(&self.kernel),
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params: &self.params,
            budget: self.budget,
        }
    }
}

impl Engine for Gpu {
    type Kernel = Kernel;
    type Submission = ModelSubmission;
    type Counters = Counters;
    type Refusal = LaunchError;
    type Failure = RunError;

    fn shape(&self) -> DeviceShape {
        device_shape(self.config())
    }

    fn now(&self) -> Cycles {
        self.now()
    }

    fn time(&self, at: Cycles) -> Nanos {
        Nanos(self.config().cycles_to_ns(at.0))
    }

    fn cycle(&self, at: Nanos) -> Cycles {
        Cycles(self.config().ns_to_cycles(at.0))
    }

    fn describe(&self, submission: &ModelSubmission) -> Result<Described<Kernel>, LaunchError> {
        launch::check(self.config(), &submission.request(0))?;
        let threads = submission.block.iter().product();
        let dynamic = submission.dynamic_shared_bytes;
        let needs = block_needs(self.config(), &submission.kernel, threads, dynamic);
        Ok(Described {
            kernel: Arc::clone(&submission.kernel),
            block: needs.counted(),
            blocks: submission.grid.iter().map(|n| u64::from(*n)).product(),
            queue: submission.queue.0.into(),
        })
    }

    fn profile(&self, kernel: &Kernel, block: &BlockShape) -> ProfileKey {
        ProfileKey::new(kernel.key, block)
    }

    fn set_plan(&mut self, plan: &Plan) {
        self.set_plan(plan);
        self.record_block_events(true);
    }

    fn launch(
        &mut self,
        number: u64,
        standing: Standing,
        submission: &ModelSubmission,
    ) -> Result<(), RunError> {
        Ok(self.launch_under(standing, submission.request(number))?)
    }

    fn kill(&mut self, number: u64) {
        self.kill(number);
    }

    fn forget_row(&mut self, row: RowId) {
        self.forget_row(row);
    }

    /// Comes back at the end of every epoch in which something is reported, a block's end included.
    fn advance(&mut self, until: Cycles, _watch: Option<Watch>) -> Vec<Ending<Self>> {
        let mut reports = Vec::new();
        self.advance(until, &mut reports);
        let ending = |report| match report {
            Report::Ended {
                tag, end, counters, ..
            } => Some(Ending {
                number: tag,
                at: end,
                result: Ok(counters),
            }),
            Report::Faulted { tag, fault, at, .. } => Some(Ending {
                number: tag,
                at,
                result: Err(RunError::Fault(fault)),
            }),
            Report::Placed { .. } | Report::Retired { .. } | Report::Copied { .. } => None,
        };
        reports.into_iter().filter_map(ending).collect()
    }

    fn take_blocks(&mut self) -> Vec<BlockEvent> {
        self.take_block_events()
    }

    fn samples(&self) -> Vec<RowSample> {
        let cycles = self.now().0;
        let schedulers = u64::from(self.config().sm.schedulers);
        let row_sample = |sample: Sample| RowSample {
            sm: sample.sm,
            row: sample.row,
            cycles,
            block_cycles: sample.counters.block_cycles,
            issued: sample.counters.issued(),
            memory_stalls: (sample.counters.stall_memory_cycles + sample.counters.asleep_cycles)
                / schedulers,
            l1_misses: sample.counters.l1_miss_sectors,
            l2_misses: sample.counters.l2_miss_sectors,
            dram_bytes: sample.counters.dram_read_bytes + sample.counters.dram_write_bytes,
            loads: sample.counters.global_loads + sample.counters.global_atomics,
            accesses: sample.counters.global_loads
                + sample.counters.global_stores
                + sample.counters.global_atomics,
            lines: sample.counters.global_lines,
            l1_hits: sample.counters.l1_hit_sectors,
            l2_hits: sample.counters.l2_hit_sectors,
            shared: sample.counters.shared_accesses,
            special: sample.counters.special_instructions(),
        };
        self.samples().into_iter().map(row_sample).collect()
    }
}
