//! Launches and copies as the driver asks for them, and the limits that they must keep.
//!
//! Rule: a launch that is accepted here can run; everything that can be known beforehand is refused beforehand.

use crate::config::GpuConfig;
use crate::kernel::Kernel;
use crate::memory::{DomainId, MemoryError};
use crate::occupancy::occupancy;
use gridmux_policy::units::Cycles;
use std::sync::Arc;

/// Hardware queues of a GPU; launches of one queue run one after another.
pub const HARDWARE_QUEUES: usize = 32;
/// Largest parameter block in bytes: 4 KB (PTX ISA section 7.1) and room for what a rewrite appends.
pub const MAX_PARAM_BYTES: usize = 4352;

/// Bytes of the words of a grid's barrier: one that `grid.sync()` does not read, and a count (CUDA's
/// cooperative_groups/details/helpers.h).
pub const WORKSPACE_BYTES: usize = 8;

/// Where the words of a grid's barrier lie ([`WORKSPACE_BYTES`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// At this address of the launch's domain, zero at first.
    At(u64),
    /// In memory of the launch's domain that the GPU allocates, and frees when the launch has ended.
    OfLaunch,
}

/// One of the [`HARDWARE_QUEUES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u8);

/// A level of the block scheduler, as CUDA's stream priorities: blocks of a higher one go first into room that comes
/// free. 0 is the lowest; a card has `launch.priority_levels`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(pub u8);

impl Level {
    /// The lowest one, which every card has.
    pub const LOWEST: Self = Self(0);
}

/// A kernel launch.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Queue; launches of one queue run in order, each after the end of the one before.
    pub queue: QueueId,
    /// Level; under a plan, which has an order of its own, it says nothing.
    pub level: Level,
    /// The caller's number, unique among the launches and copies in flight.
    pub tag: u64,
    /// Memory that the kernel sees; the domain its module was loaded into.
    pub domain: DomainId,
    /// Kernel.
    pub kernel: Arc<Kernel>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The parameter block, laid out as the kernel declares it; copied during the call.
    pub params: &'a [u8],
    /// Cycles after which a launch that has not ended faults, counted from its first block's start. In a
    /// functional run the budget counts the launch's warp instructions.
    pub budget: Option<Cycles>,
}

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyEngine {
    /// Host to device.
    H2D,
    /// Device to host.
    D2H,
}

/// A copy, of which the model computes the duration only; the caller moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Direction; each has its own engine, which takes copies in order.
    pub engine: CopyEngine,
    /// Length in bytes.
    pub bytes: u64,
    /// The caller's number.
    pub tag: u64,
}

/// Why a launch was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LaunchError {
    /// There are only [`HARDWARE_QUEUES`].
    #[error("queue {0} does not exist; queues are 0 to 31")]
    NoQueue(u8),
    /// The card has fewer levels.
    #[error("level {level} does not exist; this GPU's levels are 0 to {}", levels - 1)]
    NoLevel {
        /// Level asked for.
        level: u8,
        /// Levels of the card.
        levels: u8,
    },
    /// The domain does not exist, or the kernel's module was loaded into another one.
    #[error("kernel '{kernel}' was not loaded into memory domain {}", domain.0)]
    WrongDomain {
        /// Kernel.
        kernel: String,
        /// Domain of the launch.
        domain: DomainId,
    },
    /// A dimension of the grid is zero or too large.
    #[error(
        "grid {0:?} is outside the limits: each dimension at least 1, x at most 2147483647, y and z at most 65535"
    )]
    Grid([u32; 3]),
    /// A dimension of the block is zero or too large.
    #[error(
        "block {block:?} is outside the limits: each dimension at least 1, z at most 64, together at most {limit}"
    )]
    Block {
        /// Block asked for.
        block: [u32; 3],
        /// Most threads.
        limit: u32,
    },
    /// `.maxntid` or `.reqntid` is violated.
    #[error("block {block:?} violates the bounds {bounds:?} that kernel '{kernel}' declares")]
    Bounds {
        /// Kernel.
        kernel: String,
        /// Block asked for.
        block: [u32; 3],
        /// What the kernel declares.
        bounds: [u32; 3],
    },
    /// The parameter block has the wrong length.
    #[error("kernel '{kernel}' takes {expected} bytes of parameters, {given} were given")]
    Params {
        /// Kernel.
        kernel: String,
        /// Length that the kernel declares.
        expected: u32,
        /// Length given.
        given: usize,
    },
    /// Static and dynamic shared memory exceed the block's limit.
    #[error("{asked} bytes of shared memory were asked for, a block may have {limit}")]
    SharedMemory {
        /// Static and dynamic bytes.
        asked: u64,
        /// Limit.
        limit: u32,
    },
    /// Not even one block fits on an SM.
    #[error(
        "a block of kernel '{kernel}' with {threads} threads does not fit on an SM: {resource} is exhausted"
    )]
    DoesNotFit {
        /// Kernel.
        kernel: String,
        /// Threads of the block.
        threads: u32,
        /// The limiting resource.
        resource: &'static str,
    },
    /// The blocks of a cooperative launch wait for each other, and not all of them reside at once.
    #[error(
        "a cooperative launch of kernel '{kernel}' with {blocks} blocks does not fit: {most} reside at once"
    )]
    NotAtOnce {
        /// Kernel.
        kernel: String,
        /// Blocks of the grid.
        blocks: u64,
        /// Blocks that the GPU holds.
        most: u64,
    },
    /// The words of a grid's barrier cannot lie there.
    #[error(
        "the words of a grid's barrier cannot lie at {0:#x}: it must be a multiple of 4 above zero"
    )]
    Workspace(u64),
    /// There is no memory for the words of a grid's barrier.
    #[error("no memory is left for the barrier of a cooperative launch: {0}")]
    NoWorkspace(MemoryError),
    /// The blocks of a cooperative launch take more of the host's memory together than they may.
    #[error(
        "the {blocks} blocks of a cooperative launch of kernel '{kernel}' need more of the host's memory than is left \
         for them, of {most_bytes} bytes at most: give them less local memory, or launch fewer"
    )]
    HostMemory {
        /// Kernel.
        kernel: String,
        /// Blocks of the grid.
        blocks: u64,
        /// Bytes that they may take.
        most_bytes: u64,
    },
    /// A plan decides where blocks may be, and does not promise that they are there at once.
    #[error("a cooperative launch is not made while a plan is set")]
    UnderPlan,
    /// Another launch or copy in flight has the tag.
    #[error("tag {0} is in flight already")]
    TagInUse(u64),
}

/// Checks the shape of a launch against what any kernel may have on a GPU; returns the threads of a block.
///
/// # Errors
/// [`LaunchError::Grid`] or [`LaunchError::Block`].
pub fn check_shape(
    config: &GpuConfig,
    grid: [u32; 3],
    block: [u32; 3],
) -> Result<u32, LaunchError> {
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    if gx == 0 || gy == 0 || gz == 0 || gx > i32::MAX.unsigned_abs() || gy > 65535 || gz > 65535 {
        return Err(LaunchError::Grid(grid));
    }
    let threads = [bx, by, bz].into_iter().map(u64::from);
    let threads = threads.fold(1, u64::saturating_mul);
    let limit = config.sm.max_threads_per_block.min(config.sm.max_threads);
    match u32::try_from(threads) {
        Ok(threads) if (1..=limit).contains(&threads) && bz <= 64 => Ok(threads),
        _ => Err(LaunchError::Block { block, limit }),
    }
}

/// Checks the shared memory of a block, in bytes, against what any kernel may have on a GPU.
///
/// # Errors
/// [`LaunchError::SharedMemory`].
pub fn check_shared(config: &GpuConfig, asked: u64) -> Result<(), LaunchError> {
    let limit = config.sm.max_shared_bytes_per_block;
    match asked > u64::from(limit) {
        true => Err(LaunchError::SharedMemory { asked, limit }),
        false => Ok(()),
    }
}

/// Checks everything about a launch that does not depend on the state of the GPU.
///
/// # Errors
/// Why the GPU cannot run it.
pub fn check(config: &GpuConfig, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let kernel = &launch.kernel;
    if usize::from(launch.queue.0) >= HARDWARE_QUEUES {
        return Err(LaunchError::NoQueue(launch.queue.0));
    }
    let levels = config.launch.priority_levels;
    if launch.level.0 >= levels {
        let level = launch.level.0;
        return Err(LaunchError::NoLevel { level, levels });
    }
    if kernel.domain != launch.domain {
        return Err(LaunchError::WrongDomain {
            kernel: kernel.name.to_string(),
            domain: launch.domain,
        });
    }
    let threads = check_shape(config, launch.grid, launch.block)?;
    check_bounds(launch)?;
    if launch.params.len() != kernel.params_bytes as usize || launch.params.len() > MAX_PARAM_BYTES
    {
        return Err(LaunchError::Params {
            kernel: kernel.name.to_string(),
            expected: kernel.params_bytes,
            given: launch.params.len(),
        });
    }
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    check_shared(config, shared)?;
    let fits = occupancy(config, kernel, threads, launch.dynamic_shared_bytes);
    if fits.blocks_per_sm == 0 {
        return Err(LaunchError::DoesNotFit {
            kernel: kernel.name.to_string(),
            threads,
            resource: fits.limit.name(),
        });
    }
    Ok(())
}

/// Checks that all blocks of a launch that [`check`] has accepted reside at once on a GPU where nothing else runs.
pub(crate) fn check_at_once(config: &GpuConfig, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let threads = launch.block.iter().product();
    let fits = occupancy(config, &launch.kernel, threads, launch.dynamic_shared_bytes);
    let most = u64::from(fits.blocks_per_sm) * u64::from(config.sm.count);
    let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
    match blocks > most {
        true => Err(LaunchError::NotAtOnce {
            kernel: launch.kernel.name.to_string(),
            blocks,
            most,
        }),
        false => Ok(()),
    }
}

fn check_bounds(launch: &Launch<'_>) -> Result<(), LaunchError> {
    let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
    let refused = |bounds: [u32; 3]| {
        Err(LaunchError::Bounds {
            kernel: launch.kernel.name.to_string(),
            block: launch.block,
            bounds,
        })
    };
    match (launch.kernel.required_threads, launch.kernel.max_threads) {
        (Some(required), _) if required != launch.block => refused(required),
        (None, Some(bounds)) if threads > bounds.iter().map(|n| u64::from(*n)).product() => {
            refused(bounds)
        }
        _ => Ok(()),
    }
}
