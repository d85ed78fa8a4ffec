//! A small GPU of the model, with kernels of a PTX text or of ours in it.

use gridmux_hw_model::{DomainId, Gpu, GpuConfig, Kernel};
use gridmux_policy::units::Nanos;
use gridmux_workloads::{Arg, Case, Role};
use std::sync::Arc;

/// A v100 of a few SMs with one domain.
pub(crate) struct Bench {
    pub(crate) gpu: Gpu,
    pub(crate) domain: DomainId,
}

impl Bench {
    pub(crate) fn new(config: GpuConfig) -> Self {
        let mut gpu = Gpu::new(config);
        let domain = gpu.memory_mut().create_domain(4 << 30);
        let domain = domain.expect("address space");
        Self { gpu, domain }
    }

    /// Returns the description of a v100 with so many SMs.
    pub(crate) fn config(sms: u16) -> GpuConfig {
        let config = GpuConfig::builtin("v100").expect("built in");
        config.scaled_to_sms(sms)
    }

    /// Returns how far times of the model's events may be from the truth: two of its epochs of 32 cycles.
    pub(crate) fn observation(config: &GpuConfig) -> Nanos {
        Nanos(64 * 1000 / u64::from(config.clock.core_mhz) + 1)
    }

    /// Loads a kernel of a text.
    pub(crate) fn kernel(&mut self, ptx: &str, entry: &str) -> Arc<Kernel> {
        let module = gridmux_ptx::Module::parse(ptx).expect("it is PTX");
        let program = module.decode().expect("it is well formed");
        let loaded = self.gpu.load(self.domain, &program, ptx.as_bytes());
        loaded.expect("it loads").kernel(entry).expect("it exists")
    }

    /// Makes the buffers of a case and returns their addresses, in the order of its arguments.
    pub(crate) fn buffers(&mut self, case: &Case) -> Vec<u64> {
        let memory = self.gpu.memory_mut();
        let buffers = case.args.iter().filter_map(|arg| match arg {
            Arg::Buffer { bytes, .. } => Some(bytes),
            _ => None,
        });
        let made = buffers.map(|bytes| {
            let address = memory.alloc(self.domain, bytes.len() as u64).expect("room");
            memory.write(self.domain, address, bytes).expect("inside");
            address
        });
        made.collect()
    }

    /// Returns what is in the buffers that a case writes.
    pub(crate) fn outputs(&self, case: &Case, buffers: &[u64]) -> Vec<Vec<u8>> {
        let roles = case.args.iter().filter_map(|arg| match arg {
            Arg::Buffer { bytes, role } => Some((bytes.len(), *role)),
            _ => None,
        });
        let written = roles
            .zip(buffers)
            .filter(|((_, role), _)| *role != Role::In);
        let contents = written.map(|((bytes, _), address)| {
            let mut contents = vec![0; bytes];
            let memory = self.gpu.memory();
            let read = memory.read(self.domain, *address, &mut contents);
            read.expect("inside");
            contents
        });
        contents.collect()
    }
}
