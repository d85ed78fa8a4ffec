//! How many blocks of a kernel an SM can hold, and what limits it (CUDA's occupancy calculation).
//!
//! Rules: registers are allocated per warp in units, shared memory per block in units with the system's share
//! added, threads in whole warps.

use crate::config::{GpuConfig, WARP_LANES};
use crate::kernel::Kernel;
use gridmux_policy::shape::{AllocationUnits, BlockShape, DeviceShape};

/// The resource that runs out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OccupancyLimit {
    /// Block slots.
    Blocks,
    /// Warp slots.
    Threads,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
}

impl OccupancyLimit {
    /// Returns the name for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "block slots",
            Self::Threads => "threads",
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
        }
    }
}

/// Result of [`occupancy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks that one SM can hold.
    pub blocks_per_sm: u32,
    /// What prevents one more.
    pub limit: OccupancyLimit,
}

/// Returns the units of a modelled GPU.
#[must_use]
pub fn allocation_units(config: &GpuConfig) -> AllocationUnits {
    AllocationUnits {
        registers: config.sm.register_unit,
        shared_bytes: config.sm.shared_unit_bytes,
        reserved_shared_bytes: config.sm.reserved_shared_bytes_per_block,
    }
}

/// What one block takes from an SM, allocation units included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNeeds {
    /// Warps.
    pub warps: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Bytes of shared memory, the system's share included.
    pub shared_bytes: u32,
}

impl BlockNeeds {
    /// Returns the same as plans count it: threads in whole warps, the other two in allocation units.
    #[must_use]
    pub fn counted(&self) -> BlockShape {
        BlockShape {
            threads: self.warps * WARP_LANES,
            registers: self.registers,
            shared_bytes: self.shared_bytes,
        }
    }
}

/// Returns the GPU as policies see it.
#[must_use]
pub fn device_shape(config: &GpuConfig) -> DeviceShape {
    DeviceShape {
        sms: config.sm.count,
        threads: config.sm.max_threads,
        blocks: config.sm.max_blocks,
        registers: config.sm.registers,
        shared_bytes: config.sm.shared_bytes,
        submission_ns: config.launch.submit_ns,
        dram_bytes_per_kcycle: dram_bytes_per_kcycle(config),
        issued_per_kcycle: issued_per_kcycle(config),
    }
}

/// Returns the bytes that DRAM moves in a thousand core cycles at most. GB/s over MHz are thousands of bytes a cycle.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is checked to be in range"
)]
fn dram_bytes_per_kcycle(config: &GpuConfig) -> u32 {
    let per_cycle = config.dram.gigabytes_per_second * 1e3 / f64::from(config.clock.core_mhz);
    (per_cycle * 1e3).clamp(0.0, f64::from(u32::MAX)) as u32
}

/// Returns the warp instructions that an SM issues in a thousand cycles at most: what its schedulers issue, or its
/// arithmetic units take where these are fewer. Integers have units of their own, or those of single precision.
fn issued_per_kcycle(config: &GpuConfig) -> u32 {
    let pipelines = &config.pipelines;
    let each = |units: u8, interval: u32| 1000 * u32::from(units) / interval.max(1);
    let taken = each(pipelines.units.fp32, pipelines.fp32.interval)
        + each(pipelines.units.int, pipelines.int.interval);
    let schedulers = u32::from(config.sm.schedulers) * u32::from(config.sm.issue_width);
    (1000 * schedulers).min(taken)
}

/// Returns what one block of `threads` threads takes.
#[must_use]
pub fn block_needs(
    config: &GpuConfig,
    kernel: &Kernel,
    threads: u32,
    dynamic_shared_bytes: u32,
) -> BlockNeeds {
    let shared = kernel
        .static_shared_bytes
        .saturating_add(dynamic_shared_bytes);
    let block = allocation_units(config).block(threads, kernel.registers_per_thread, shared);
    BlockNeeds {
        warps: block.threads / WARP_LANES,
        registers: block.registers,
        shared_bytes: block.shared_bytes,
    }
}

/// Returns the blocks of that shape that one SM can hold at once, and what limits them.
#[must_use]
pub fn occupancy(
    config: &GpuConfig,
    kernel: &Kernel,
    threads_per_block: u32,
    dynamic_shared_bytes: u32,
) -> Occupancy {
    let needs = block_needs(config, kernel, threads_per_block, dynamic_shared_bytes);
    let candidates = [
        (config.sm.max_blocks, OccupancyLimit::Blocks),
        (
            config.warps_per_sm() / needs.warps.max(1),
            OccupancyLimit::Threads,
        ),
        (
            config.sm.registers / needs.registers.max(1),
            OccupancyLimit::Registers,
        ),
        (
            config
                .sm
                .shared_bytes
                .checked_div(needs.shared_bytes)
                .unwrap_or(u32::MAX),
            OccupancyLimit::SharedMemory,
        ),
    ];
    let (blocks_per_sm, limit) = candidates
        .into_iter()
        .min_by_key(|(blocks, _)| *blocks)
        .unwrap_or((0, OccupancyLimit::Blocks));
    Occupancy {
        blocks_per_sm,
        limit,
    }
}
