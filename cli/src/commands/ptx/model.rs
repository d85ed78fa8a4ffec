//! Which kernels of a module the SM model refuses.
//!
//! Rule: a kernel is asked about alone, on a model of its own, so that no other one matters.

use gridmux_hw_model::{Gpu, GpuConfig};
use gridmux_ptx::decode::Program;

/// GPU that the kernels are asked for, as `gridmux sim kernel` takes it where nothing is said.
const GPU: &str = "h200";
/// Memory for the variables of a module, in bytes.
const MEMORY_BYTES: u64 = 4 << 30;

/// Returns why the SM model refuses a kernel of a module, given decoded and as text; nothing where it takes it.
pub(super) fn refusal((program, text): (&Program, &[u8]), kernel: &str) -> Option<String> {
    let config = GpuConfig::builtin(GPU).ok()?.scaled_to_sms(1);
    let mut gpu = Gpu::new(config);
    let domain = match gpu.memory_mut().create_domain(MEMORY_BYTES) {
        Ok(domain) => domain,
        Err(error) => return Some(error.to_string()),
    };
    match gpu.load_one(domain, (program, text), kernel) {
        Err(error) => Some(error.to_string()),
        Ok(loaded) => {
            let mut refused = loaded.refused().iter();
            let found = refused.find(|(name, _)| name == kernel);
            found.map(|(_, error)| error.to_string())
        }
    }
}
