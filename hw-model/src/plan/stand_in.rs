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
const PTX: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry stand_in(.param .u64 stay_ns, .param .u64 sleep_ns)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<9>;
    mov.u64 %rd1, %globaltimer;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %ntid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2;
    mad.lo.u32 %r6, %r6, %r4, %r1;
    setp.ge.u32 %p1, %r6, 32;
    @%p1 bra END;
    ld.param.u64 %rd3, [stay_ns];
    ld.param.u64 %rd4, [sleep_ns];
    add.u64 %rd5, %rd4, 500;
    mov.u64 %rd2, 0;
AGAIN:
    sub.u64 %rd6, %rd3, %rd2;
    min.u64 %rd6, %rd6, %rd4;
    cvt.u32.u64 %r7, %rd6;
    nanosleep.u32 %r7;
    mov.u64 %rd7, %globaltimer;
    sub.u64 %rd8, %rd7, %rd1;
    mov.u64 %rd1, %rd7;
    min.u64 %rd8, %rd8, %rd5;
    add.u64 %rd2, %rd2, %rd8;
    setp.lt.u64 %p2, %rd2, %rd3;
    @%p2 bra AGAIN;
END:
    ret;
}
";

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
