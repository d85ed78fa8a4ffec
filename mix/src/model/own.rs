//! Our own kernels, loaded into a modelled GPU with the buffers of a launch.
//!
//! Rules: each has memory of its own; its buffers are as at first before each launch, and what a launch left in them
//! can be compared with the host reference.

use super::ModelSubmission;
use gridmux_hw_model::{DomainId, Gpu, Kernel, LoadError, MemoryError, QueueId};
use gridmux_workloads::{Arg, Case, Role};
use std::sync::Arc;

/// Address space beside the buffers, for the module's variables and for what allocation rounds up, in bytes.
pub const SPARE_BYTES: u64 = 1 << 30;

/// A kernel of ours could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum OwnKernelError {
    /// Its text is no PTX.
    #[error(transparent)]
    Text(#[from] gridmux_ptx::ParseError),
    /// The model cannot run it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its buffers do not fit.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The module has no such kernel.
    #[error("{0} has no kernel")]
    NoKernel(&'static str),
}

/// A launch of a kernel of ours, and its results.
#[derive(Debug)]
pub struct OwnKernel {
    /// The launch.
    pub submission: ModelSubmission,
    case: Case,
    domain: DomainId,
    /// Addresses of the buffers that the kernel writes.
    addresses: Vec<u64>,
    /// The contents of these buffers before a launch.
    initial: Vec<Vec<u8>>,
    /// Contents that equalled the reference.
    right: Option<Vec<Vec<u8>>>,
    wrong: Option<String>,
}

impl OwnKernel {
    /// Loads the kernel of a case and makes its buffers.
    ///
    /// # Errors
    /// [`OwnKernelError`].
    pub fn load(gpu: &mut Gpu, case: Case, queue: QueueId) -> Result<Self, OwnKernelError> {
        let bytes = case.buffer_bytes().saturating_add(SPARE_BYTES);
        let domain = gpu.memory_mut().create_domain(bytes)?;
        let kernel = kernel(gpu, domain, &case)?;
        let (mut all, mut addresses) = (Vec::new(), Vec::new());
        for arg in &case.args {
            if let Arg::Buffer { bytes, role } = arg {
                let address = gpu.memory_mut().alloc(domain, bytes.len() as u64)?;
                gpu.memory_mut().write(domain, address, bytes)?;
                all.push(address);
                if *role != Role::In {
                    addresses.push(address);
                }
            }
        }
        Ok(Self {
            submission: ModelSubmission {
                queue,
                kernel,
                grid: case.grid,
                block: case.block,
                dynamic_shared_bytes: case.dynamic_shared_bytes,
                params: case.pack_params(&all),
                budget: None,
            },
            initial: case.initial_outputs(),
            case,
            domain,
            addresses,
            right: None,
            wrong: None,
        })
    }

    /// Compares what a launch left in its buffers with the reference, and makes them ready for the next one.
    ///
    /// # Errors
    /// The buffers cannot be read, which cannot be.
    pub fn judge(&mut self, gpu: &mut Gpu) -> Result<(), MemoryError> {
        let memory = gpu.memory_mut();
        let mut outputs = Vec::with_capacity(self.addresses.len());
        for (address, initial) in self.addresses.iter().zip(&self.initial) {
            let mut bytes = vec![0; initial.len()];
            memory.read(self.domain, *address, &mut bytes)?;
            memory.write(self.domain, *address, initial)?;
            outputs.push(bytes);
        }
        // The reference takes a while; equal inputs give equal bytes, unless threads race for their places.
        if self.right.as_ref() == Some(&outputs) {
            return Ok(());
        }
        match self.case.verify(&outputs) {
            Ok(()) => self.right = Some(outputs),
            Err(mismatch) => self.wrong = Some(mismatch.to_string()),
        }
        Ok(())
    }

    /// Returns what was wrong with the results of the newest launch that left wrong ones.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}

fn kernel(gpu: &mut Gpu, domain: DomainId, case: &Case) -> Result<Arc<Kernel>, OwnKernelError> {
    let module = gridmux_ptx::Module::parse(case.ptx)?;
    let loaded = gpu.load(domain, &module.decode()?, case.ptx.as_bytes())?;
    let kernel = loaded.kernel(case.entry);
    kernel.ok_or(OwnKernelError::NoKernel(case.workload))
}

#[cfg(test)]
mod tests {
    use super::OwnKernel;
    use gridmux_hw_model::{Gpu, GpuConfig, QueueId};
    use gridmux_workloads::{Size, by_name};

    #[test]
    fn a_launch_that_did_not_run_has_wrong_results() {
        let mut gpu = Gpu::new(GpuConfig::builtin("gtx980").unwrap().scaled_to_sms(1));
        let case = by_name("vecadd").unwrap().case(Size::Tiny, 1);
        let mut kernel = OwnKernel::load(&mut gpu, case, QueueId(0)).unwrap();
        kernel.judge(&mut gpu).unwrap();
        let wrong = kernel.wrong().unwrap();
        assert!(wrong.contains("values are wrong"), "{wrong}");
    }
}
