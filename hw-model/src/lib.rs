//! The SM model: functional execution and timing of PTX on a modelled GPU.
//!
//! [`Gpu`] is the whole device: memory domains, loaded modules, hardware queues, SMs, caches and DRAM.
//! Kernels are decoded once into compact operations; a warp's 32 lanes execute as vectors under a mask, and time
//! skips to the next event when nothing can issue. Time is in core cycles, and a run is deterministic: the same
//! calls give the same cycles.
//!
//! Rules of this room: it knows PTX and plans, never sockets or tenants; the values it computes never depend on
//! the timing model; nothing in the loop allocates or takes a lock.

mod compile;
pub mod config;
mod copies;
pub mod counters;
pub mod description;
pub mod drive;
mod estimate;
mod exec;
mod explain;
pub mod fault;
mod functional;
pub mod gpu;
pub mod kernel;
pub mod launch;
mod load_error;
pub mod memory;
pub mod occupancy;
pub mod plan;
pub mod report;
mod text;
pub mod texture;
mod timing;
pub mod words;

pub use compile::{Compiled, Loading};
pub use config::GpuConfig;
pub use counters::Counters;
pub use description::{ConfigError, Description, builtin_names};
pub use drive::{DriveError, Happened, Run, RunSetup};
pub use fault::{Fault, FaultKind, FaultSpace};
pub use functional::FunctionalRun;
pub use gpu::{Gpu, LineStalls, RunError, run_functional, run_functional_cooperative};
pub use kernel::{Kernel, KernelParam, LoadedModule};
pub use launch::{Copy, CopyEngine, Launch, LaunchError, Level, QueueId, Workspace};
pub use load_error::LoadError;
pub use memory::{Allocation, DomainId, Memory, MemoryError, Partition, RemovedDomain};
pub use occupancy::{Occupancy, OccupancyLimit, device_shape, occupancy};
pub use plan::{BlockChange, BlockEvent, PlanOptions, Sample, StandIn, Standing, enforces};
pub use report::{Advance, Printed, Report};
