//! Our kernels as launches on the SM model.

use anyhow::Result;
use gridmux_hw_model::{Gpu, GpuConfig, QueueId};
use gridmux_mix::Engine;
use gridmux_mix::model::{ModelSubmission, OwnKernel};
use gridmux_policy::shape::max_residency;
use gridmux_workloads::{Case, Params, Size, Workload};

/// A kernel in a size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sized {
    /// The kernel.
    pub(crate) workload: &'static Workload,
    /// What it works on.
    pub(crate) params: Params,
}

impl Sized {
    /// Returns a kernel in the first size of its own series, which grows by a quarter from `tiny` on with the rounds of
    /// `small`, whose grid has at least `waves` waves of blocks; the largest that it takes if none has.
    pub(crate) fn with_waves(
        workload: &'static Workload,
        waves: u64,
        gpu: &GpuConfig,
    ) -> Result<Self> {
        let mut params = workload.params(Size::Tiny, 1);
        params.rounds = workload.params(Size::Small, 1).rounds;
        Self { workload, params }.grown(waves, gpu)
    }

    /// Returns the kernel with more elements, until its grid has as many waves of blocks on an idle GPU, or as many
    /// elements as it can have.
    pub(crate) fn grown(mut self, waves: u64, gpu: &GpuConfig) -> Result<Self> {
        let mut device = Gpu::new(gpu.clone());
        let launch = submission(&mut device, self.case()?, 0)?;
        let block = device.describe(&launch)?.block;
        let resident = u64::from(max_residency(&device.shape(), &block)) * u64::from(gpu.sm.count);
        while blocks_of(self.workload, self.params) < waves * resident {
            let elements = self.params.elements + self.params.elements.div_ceil(4);
            if elements > self.workload.limits.elements {
                break;
            }
            self.params.elements = elements;
        }
        Ok(self)
    }

    /// Returns what it is, as text.
    pub(crate) fn key(&self) -> String {
        format!("{} {:?}", self.workload.name, self.params)
    }

    /// Returns its launch on the host.
    pub(crate) fn case(&self) -> Result<Case> {
        Ok(self.workload.case_with(self.params)?)
    }
}

fn blocks_of(workload: &Workload, params: Params) -> u64 {
    workload
        .case_with(params)
        .map_or(u64::MAX, |case| case.blocks())
}

/// Loads a kernel and the buffers of one launch for a tenant of its own; launches go to the given queue.
pub(crate) fn submission(gpu: &mut Gpu, case: Case, queue: u8) -> Result<ModelSubmission> {
    let own = OwnKernel::load(gpu, case, QueueId(queue))?;
    Ok(own.submission)
}
