//! Stand-ins: kernels of which only the duration of a block and what a block takes of an SM are known.
//!
//! A trace of launches (`gridmux run --record`) holds no code. For each of its kernels a stand-in is loaded, whose
//! blocks stay on their SM for as long as a parameter says and then end. One warp of a block sleeps and the others
//! leave at once, so a block costs no issue slots that matter and moves no memory; it holds its room until it ends.
//!
//! Rules: the duration is time of residence, so a block that is switched out goes on where it was, give or take one
//! sleep; how long blocks take does not depend on what runs beside them, which a trace does not tell.

use crate::gpu::Gpu;
use crate::kernel::Kernel;
use crate::load_error::LoadError;
use crate::memory::DomainId;
use gridmux_ptx::Module;
use std::sync::Arc;

/// A block sleeps about this many times, however long it stays, but for the two bounds below.
const SLEEPS: u64 = 16;
/// The least sleep that is worth while, in nanoseconds.
const LEAST_SLEEP_NS: u64 = 1_000;
/// The longest sleep, in nanoseconds (PTX ISA, `nanosleep`).
const LONGEST_SLEEP_NS: u64 = 1_000_000;

/// The kernel. `%rd2` is how long the block has been resident. A pause that is longer than a sleep and the few
/// instructions around it was spent off the SM, and counts as one sleep.
const PTX: &str = include_str!("stand_in.ptx");

/// What is known of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StandIn {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
}

impl StandIn {
    /// Loads a kernel in its place. Its blocks take what is known, at most as many registers as a thread may have.
    ///
    /// # Errors
    /// As [`Gpu::load`].
    ///
    /// # Panics
    /// Never: the text is a constant, and nobody else has a module that was just loaded.
    pub fn load(&self, gpu: &mut Gpu, domain: DomainId) -> Result<Arc<Kernel>, LoadError> {
        let module = Module::parse(PTX).expect("the text is PTX");
        let program = module.decode().expect("the text is PTX");
        let loaded = gpu.load(domain, &program, PTX.as_bytes())?;
        let mut kernel = loaded.kernel("stand_in").expect("the text has it");
        drop(loaded);
        let own = Arc::get_mut(&mut kernel).expect("nobody else has it");
        own.name = self.name.as_str().into();
        let most = gpu.config().sm.max_registers_per_thread;
        own.registers_per_thread = self.registers.clamp(1, most);
        own.static_shared_bytes = self.static_shared_bytes;
        Ok(kernel)
    }

    /// Returns the parameter block of a launch whose blocks stay for that long, in nanoseconds.
    #[must_use]
    pub fn params(stay_ns: u64) -> Vec<u8> {
        let sleep_ns = (stay_ns / SLEEPS).clamp(LEAST_SLEEP_NS, LONGEST_SLEEP_NS);
        [stay_ns, sleep_ns].map(u64::to_le_bytes).concat()
    }
}
