//! The device as the dispatcher and the control thread see it: two narrow traits and the plain data they exchange.
//!
//! Rules:
//! - [`Device`] belongs to the dispatcher thread. Its calls neither block, nor allocate, nor take a lock of ours
//!   (invariant 4 of `ARCHITECTURE.md`); commands and reports are `Copy`.
//! - [`DeviceControl`] belongs to the control thread and may do all of that.
//! - A handle ([`DeviceKernelId`], [`BufferId`], [`DomainId`]) is an index into the backend's own table; the
//!   mediator checks that it belongs to the tenant before it reaches a command.
//! - Times are nanoseconds of the device's clock: virtual on the SM model, real on a GPU.

mod compiled;
#[cfg(not(loom))]
pub mod cuda;
mod error;
mod facts;
mod isolation;
mod mappings;
#[cfg(not(loom))]
pub mod model;
mod submission;

pub use compiled::{CompiledGlobal, CompiledKernel, CompiledModule, entry_of};
pub use error::DeviceError;
pub use facts::{DeviceFacts, HardwareFacts, Residency, Timing};
pub use gridmux_policy::shape::AllocationUnits;
pub use isolation::{Fence, Isolation, Unfenceable, status_of};
pub use mappings::{HostMappings, MOST_HOST_MAPPINGS};
pub use submission::Submission;

use gridmux_channel::control::PagingRequest;
use gridmux_channel::control::object::Object;
use gridmux_channel::memory::TenantBuffer;
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_launch::Reservation;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use std::sync::Arc;
use std::time::Duration;

/// Hardware queues (lanes) that a device offers: CUDA's `CUDA_DEVICE_MAX_CONNECTIONS` tops out at 32.
pub const LANES: usize = 32;
// Sets of lanes are words of 32 bits.
const _: () = assert!(LANES == u32::BITS as usize);

/// Operations that a lane takes at once, at most.
pub const MOST_DEPTH: usize = 4;

/// Bytes of kernel parameters that a launch may carry: 4 KiB of the tenant's (the CUDA limit before 12.1) and the
/// 64-byte control block of a rewritten kernel. Under loom, whose threads have small stacks, as much as a test needs.
pub const PARAM_BYTES: usize = if cfg!(loom) { 128 } else { 4096 + 64 };

/// A hardware queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaneId(pub u8);

/// A level of hardware queues. Blocks of a higher level take the next room that comes free, before those of lower ones;
/// what runs is not stopped. 0 is the lowest; [`Device::levels`] says how many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(pub u8);

/// Levels of a device at most: NVIDIA's drivers have priorities 0 to -5.
pub const MOST_LEVELS: usize = 8;

impl Level {
    /// The lowest one, which every device has.
    pub const LOWEST: Self = Self(0);
}

/// Names one operation in flight: the lane and a generation that tells a late report from a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Lane it runs in.
    pub lane: LaneId,
    /// Incremented whenever the lane is reused.
    pub generation: u32,
}

impl Tag {
    /// Packs the tag into the 64 bits that a backend carries.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 8) | self.lane.0 as u64
    }

    /// The inverse of [`Tag::to_bits`].
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the fields are packed with these widths"
    )]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            lane: LaneId(bits as u8),
            generation: (bits >> 8) as u32,
        }
    }
}

/// A protection domain of the device: one tenant's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DomainId(pub u32);

/// A loaded kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceKernelId(pub u32);

/// A loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceModuleId(pub u32);

/// A registered tenant buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(pub u32);

/// One launch of (a sub-box of) a grid.
#[derive(Debug, Clone, Copy)]
pub struct LaunchCommand {
    /// Names it in reports; its lane is the hardware queue.
    pub tag: Tag,
    /// Level of the lane, the same for all that it holds at a time.
    pub level: Level,
    /// The launch that it is a piece of: a number that grows from launch to launch.
    pub launch: u64,
    /// No further piece of the launch follows.
    pub is_last: bool,
    /// Domain whose memory it may touch.
    pub domain: DomainId,
    /// Kernel that runs.
    pub kernel: DeviceKernelId,
    /// Blocks per axis of this launch (of the slice, not of the tenant's grid).
    pub grid: [u32; 3],
    /// The slice's first block in the tenant's grid, for what is said of a fault.
    pub first_block: [u32; 3],
    /// Threads per block and axis.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Its blocks reside all at once and have a barrier; it is the whole of the tenant's launch then.
    pub is_cooperative: bool,
    /// Longest time it may run, in core cycles, where the backend can tell.
    pub budget_cycles: u64,
    /// Size of the parameters, control block included, that come with the command.
    pub params_bytes: u32,
}

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Tenant buffer to device memory.
    ToDevice,
    /// Device memory to tenant buffer.
    FromDevice,
}

/// One copy between a tenant's buffer and device memory.
#[derive(Debug, Clone, Copy)]
pub struct CopyCommand {
    /// Names it in reports.
    pub tag: Tag,
    /// Domain whose memory it is.
    pub domain: DomainId,
    /// Direction.
    pub direction: Direction,
    /// The registered buffer.
    pub buffer: BufferId,
    /// Offset in the buffer.
    pub buffer_offset: u64,
    /// Device address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// How much more of the client's copy follows behind it. A copy whose rest is not valid is refused as a whole.
    pub rest_bytes: u64,
}

/// One copy from device memory to device memory of one tenant.
#[derive(Debug, Clone, Copy)]
pub struct DeviceCopyCommand {
    /// Names it in reports.
    pub tag: Tag,
    /// Domain whose memory it is.
    pub domain: DomainId,
    /// Device address of the first byte to read.
    pub from: u64,
    /// Device address of the first byte to write.
    pub to: u64,
    /// Length.
    pub bytes: u64,
    /// How much more of the client's copy follows behind it, as in [`CopyCommand::rest_bytes`].
    pub rest_bytes: u64,
}

/// A fill of device memory with one value. The channel's codec has checked that it consists of whole, aligned elements.
#[derive(Debug, Clone, Copy)]
pub struct MemsetCommand {
    /// Names it in reports.
    pub tag: Tag,
    /// Domain whose memory it is.
    pub domain: DomainId,
    /// Device address.
    pub address: u64,
    /// Length in bytes, a multiple of the width.
    pub bytes: u64,
    /// How much more of the client's fill follows behind it, as in [`CopyCommand::rest_bytes`].
    pub rest_bytes: u64,
    /// The value of each element.
    pub value: u32,
    /// The size of an element.
    pub width: Width,
}

/// A command of the dispatcher to a device.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    /// Launch a kernel.
    Launch(LaunchCommand),
    /// Copy memory between a tenant's buffer and the device.
    Copy(CopyCommand),
    /// Copy memory within the device.
    DeviceCopy(DeviceCopyCommand),
    /// Fill memory with one value.
    Memset(MemsetCommand),
    /// Drop an operation; it ends with [`Outcome::Killed`]. A backend that cannot kill lets it end.
    Kill(Tag),
    /// Let the virtual clock pass until something happens or the time is reached; ends with
    /// [`DeviceReport::Paused`]. Devices with a real clock ignore it.
    PassTime {
        /// Latest time.
        until: Nanos,
    },
    /// End a permit early: the clock stops at the next step, with [`DeviceReport::Paused`]. Without a permit in force
    /// it does nothing.
    Pause,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done.
    Done,
    /// It failed; the text is at [`DeviceControl::take_fault`] under the tag.
    Failed(CompletionStatus),
    /// It was killed.
    Killed,
}

/// A report of a device to the dispatcher. Block counts are aggregated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeviceReport {
    /// Blocks became resident.
    Placed {
        /// The launch's tag.
        tag: Tag,
        /// Number of blocks that became resident.
        blocks: u32,
        /// Time of the event.
        at: Nanos,
    },
    /// Blocks ended.
    Retired {
        /// The launch's tag.
        tag: Tag,
        /// Number of blocks that ended.
        blocks: u32,
        /// Sum of their residence times.
        ran: Nanos,
        /// Time of the event.
        at: Nanos,
    },
    /// A block ended, while somebody traces blocks ([`gridmux_bpf::Probe::Block`]) and as far as the device tells them
    /// apart. It changes nothing; its end is also counted by a [`Self::Retired`].
    BlockEnded {
        /// The launch's tag.
        tag: Tag,
        /// Its linear number in the grid of the command.
        block: u64,
        /// The SM that it ran on, as the device says.
        sm: u32,
        /// When it started.
        start: Nanos,
        /// When it ended.
        end: Nanos,
    },
    /// An operation ended; nothing more follows for its tag.
    Ended {
        /// The operation's tag.
        tag: Tag,
        /// When its first block (or byte) started.
        start: Nanos,
        /// When it ended.
        end: Nanos,
        /// How it ended.
        outcome: Outcome,
    },
    /// The permit is used up: the virtual clock stands at `at`.
    Paused {
        /// Device time.
        at: Nanos,
    },
}

/// The dispatcher's end of a device.
pub trait Device {
    /// Queues a command; `params` are a launch's parameters, control block included, and empty for other commands.
    ///
    /// # Errors
    /// The queue is full: to be tried again later.
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy>;
    /// Returns the next report, if there is one.
    fn poll(&mut self) -> Option<DeviceReport>;
    /// Returns whether the clock is virtual, so that it passes only under a [`Command::PassTime`]. Any other clock
    /// passes by itself, real or estimated.
    fn has_virtual_clock(&self) -> bool;
    /// Returns how often the device is to be polled while something is on it; a device that has news more promptly than
    /// that wakes the dispatcher itself.
    fn poll_every(&self) -> Duration {
        Duration::from_millis(1)
    }
    /// Returns how many operations one lane takes at once, at most [`MOST_DEPTH`]; they run one after another, in
    /// order.
    fn lane_depth(&self) -> usize {
        1
    }
    /// Returns how many levels its lanes may have, from 1 to [`MOST_LEVELS`].
    fn levels(&self) -> u8 {
        1
    }
    /// Returns how it knows which blocks are resident.
    fn residency(&self) -> Residency {
        Residency::Exact
    }
    /// Returns how launches come to it. Of a device that does not tell, launches are handed over without a pause.
    fn submission(&self) -> Submission {
        Submission::default()
    }
    /// Returns the device time now.
    fn now(&self) -> Nanos;
}

/// The device's command queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// A module that a backend loaded.
#[derive(Debug, Clone)]
pub struct LoadedModule {
    /// Handle.
    pub id: DeviceModuleId,
    /// About how much of the host's memory it takes, in bytes, until it is unloaded.
    pub host_bytes: u64,
    /// Its kernels.
    pub kernels: Vec<LoadedKernel>,
    /// Its variables of module scope in device memory.
    pub globals: Vec<LoadedGlobal>,
}

/// A variable of a loaded module.
#[derive(Debug, Clone)]
pub struct LoadedGlobal {
    /// Name.
    pub name: String,
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// A tenant's memory may take its place ([`DeviceControl::map_variable`]).
    pub is_managed: bool,
}

/// A kernel that a backend loaded.
#[derive(Debug, Clone)]
pub struct LoadedKernel {
    /// What was compiled.
    pub compiled: CompiledKernel,
    /// Limits that a launch of it must keep.
    pub limits: KernelLimits,
    /// Attributes that only its tenant asks for.
    pub attributes: KernelAttributes,
    /// Why it cannot run on the device, though others of its module can. Then its limits say little.
    pub unusable: Option<String>,
}

/// Attributes of a kernel that a tenant may know besides its limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelAttributes {
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Constant memory that its module declares, in bytes.
    pub const_bytes: u32,
    /// Most dynamic shared memory of a launch in bytes.
    pub max_dynamic_shared_bytes: u32,
    /// Architecture that the PTX is written for, major * 10 + minor.
    pub ptx_version: u32,
}

/// Handle and limits of a kernel, which each launch of it needs.
#[derive(Debug, Clone, Copy)]
pub struct KernelLimits {
    /// Handle.
    pub id: DeviceKernelId,
    /// Static shared memory.
    pub static_shared_bytes: u32,
    /// Registers per thread.
    pub registers_per_thread: u32,
    /// Largest block that the kernel accepts.
    pub max_threads_per_block: u32,
    /// Units in which the device allocates to a block.
    pub units: AllocationUnits,
}

impl KernelLimits {
    /// Returns what one block takes of an SM, as policies count it.
    #[must_use]
    pub fn block_shape(&self, threads: u32, dynamic_shared_bytes: u32) -> BlockShape {
        let shared = self
            .static_shared_bytes
            .saturating_add(dynamic_shared_bytes);
        self.units.block(threads, self.registers_per_thread, shared)
    }
}

/// The control thread's end of a device.
pub trait DeviceControl: Send + Sync {
    /// Facts.
    fn facts(&self) -> DeviceFacts;
    /// Returns the device time now.
    fn now_ns(&self) -> u64;
    /// Makes a tenant's protection domain.
    ///
    /// # Errors
    /// When the device has no room for another.
    fn create_domain(&self, limit_bytes: u64) -> Result<DomainId, DeviceError>;
    /// Lets a domain allocate up to another limit from now on; what it holds beyond that stays. The addresses that it
    /// has are as many as its first limit needed with room to spare, so a much greater one may not be reached.
    fn set_limit(&self, domain: DomainId, limit_bytes: u64);
    /// Lets loads of kernels run past the ends of allocations in domains that are made from now on, where the backend
    /// checks them.
    fn read_past_ends(&self) {}
    /// Frees all that a domain holds. No operation of it may be in flight.
    fn destroy_domain(&self, domain: DomainId);
    /// Returns the addresses to which the kernels of a domain are to be fenced; `None` where they need no fence.
    fn reservation(&self, _domain: DomainId) -> Option<Reservation> {
        None
    }
    /// Allocates device memory.
    ///
    /// # Errors
    /// Out of memory, or over the domain's limit.
    fn alloc(&self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError>;
    /// Frees an allocation.
    ///
    /// # Errors
    /// An address that is no allocation of the domain.
    fn free(&self, domain: DomainId, address: u64) -> Result<(), DeviceError>;
    /// Returns the bytes that a domain holds.
    fn used_bytes(&self, domain: DomainId) -> u64;
    /// Returns the bytes that several domains hold together, read at one moment where the backend can.
    fn used_bytes_of(&self, domains: &[DomainId]) -> u64 {
        domains.iter().map(|domain| self.used_bytes(*domain)).sum()
    }
    /// Returns what several domains have of the host's mappings together.
    fn host_mappings_of(&self, _domains: &[DomainId]) -> HostMappings {
        HostMappings::default()
    }
    /// Loads a module. A kernel that the backend cannot run is unusable, and the others are there all the same.
    ///
    /// # Errors
    /// A module none of whose kernels can run, with the reason of the first, or one whose variables have no room.
    fn load(&self, domain: DomainId, module: &CompiledModule) -> Result<LoadedModule, DeviceError>;
    /// Drops a module whose kernels no launch uses any more.
    fn unload(&self, domain: DomainId, module: DeviceModuleId);
    /// Makes a tenant buffer known to the copy engine.
    ///
    /// # Errors
    /// When the backend cannot map it.
    fn register_buffer(&self, buffer: Arc<TenantBuffer>) -> Result<BufferId, DeviceError>;
    /// Forgets a buffer; copies under way keep it alive. Where kernels reach it, it stays until that is freed, and
    /// operations that name it find it there.
    fn unregister_buffer(&self, buffer: BufferId);
    /// Lets a domain's kernels reach the first `bytes` bytes of a registered buffer, and returns the first device
    /// address. If `counts`, they count as memory that the domain holds. [`DeviceControl::free`] ends it.
    ///
    /// # Errors
    /// The backend cannot do that, the buffer is not fit for it, or there is no room.
    fn map_buffer(
        &self,
        _domain: DomainId,
        _buffer: BufferId,
        _bytes: u64,
        _counts: bool,
    ) -> Result<u64, DeviceError> {
        Err(DeviceError::Unsupported(
            "kernels of this device do not reach host memory; mapped and managed memory are there on modelled devices",
        ))
    }
    /// Puts a registered buffer in the place of a managed variable of a domain's, with what that holds.
    ///
    /// # Errors
    /// The backend cannot do that, the buffer is not fit for it, or there is no such variable.
    fn map_variable(
        &self,
        _domain: DomainId,
        _buffer: BufferId,
        _address: u64,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported(
            "managed variables are shared with the program on modelled devices only",
        ))
    }
    /// Reserves addresses of a domain, makes physical memory of it, or maps one at the other; returns the address or
    /// the number of what was made.
    ///
    /// # Errors
    /// The backend cannot do that; a range or number that makes no sense; out of memory.
    fn paging(&self, _domain: DomainId, _request: &PagingRequest) -> Result<u64, DeviceError> {
        Err(DeviceError::Unsupported(
            "reserved addresses and physical memory are there on modelled devices; this one has none yet",
        ))
    }
    /// Makes a texture or a surface of a domain's memory, and returns its handle.
    ///
    /// # Errors
    /// The backend cannot do that, or the texels are not all in one allocation.
    fn create_object(&self, _domain: DomainId, _object: &Object) -> Result<u64, DeviceError> {
        Err(DeviceError::Unsupported(
            "textures and surfaces are there on modelled devices; this one has none yet",
        ))
    }
    /// Ends a texture or a surface.
    fn destroy_object(&self, _domain: DomainId, _handle: u64) {}
    /// Returns the text of a failed operation, once.
    fn take_fault(&self, tag: Tag) -> Option<String>;
    /// Takes what a domain's kernels printed since the last call, and how many bytes found no room behind it. Nothing
    /// where the backend cannot tell.
    fn take_printed(&self, _domain: DomainId) -> (Vec<u8>, u64) {
        (Vec::new(), 0)
    }
}
