//! Our kernels as launches on the SM model.

use anyhow::{Context, Result};
use gridmux_hw_model::{DomainId, Gpu, QueueId, Submission};
use gridmux_workloads::{Arg, Size, Workload};

/// Address space of a tenant, in bytes.
const SPACE: u64 = 8 << 30;

/// Loads a kernel and the buffers of one launch for a tenant of its own; launches go to the given queue.
pub(crate) fn submission(
    gpu: &mut Gpu,
    workload: &Workload,
    size: Size,
    queue: u8,
) -> Result<Submission> {
    let domain: DomainId = gpu.memory_mut().create_domain(SPACE)?;
    let module = gridmux_ptx::Module::parse(workload.ptx)?;
    let loaded = gpu.load(domain, &module.decode()?, workload.ptx.as_bytes())?;
    let case = workload.case(size, 1);
    let mut addresses = Vec::new();
    for arg in &case.args {
        if let Arg::Buffer { bytes, .. } = arg {
            let memory = gpu.memory_mut();
            let address = memory.alloc(domain, bytes.len() as u64)?;
            memory.write(domain, address, bytes)?;
            addresses.push(address);
        }
    }
    Ok(Submission {
        queue: QueueId(queue),
        kernel: loaded
            .kernel(workload.entry)
            .context("a kernel that the table names")?,
        grid: case.grid,
        block: case.block,
        dynamic_shared_bytes: case.dynamic_shared_bytes,
        params: case.pack_params(&addresses),
        budget: None,
    })
}
