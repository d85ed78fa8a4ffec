//! The facts of a device that tenants, operators and policies may know.

use gridmux_policy::ProfiledDevice;
use gridmux_policy::shape::DeviceShape;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a modelled device treats time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// It counts cycles: its clock is virtual, and passes under permits.
    #[default]
    Timed,
    /// It gives results as fast as the host can: its clock is an estimate.
    Functional,
}

/// How a device knows which blocks are resident, and for how long they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residency {
    /// It sees every block.
    #[default]
    Exact,
    /// Some blocks of kernels that can be cut write when they start and end, and stand for the others. Of other kernels
    /// it is estimated from when a launch could start and when it ended.
    Stamped,
}

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Stamped => {
                "stamped by one block in 16 or more; estimated for kernels that go whole"
            }
        })
    }
}

/// Facts about a device that tenants and policies may know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Name, for example `SM model h200 (8 of 132 SMs)`.
    pub name: String,
    /// The SM model rather than hardware.
    pub is_model: bool,
    /// How a model treats time; nothing for hardware.
    pub timing: Option<Timing>,
    /// How it knows which blocks are resident.
    pub residency: Residency,
    /// Streaming multiprocessors.
    pub sms: u16,
    /// Core clock.
    pub clock_khz: u32,
    /// Memory that tenants may share.
    pub memory_bytes: u64,
    /// Most threads of a block.
    pub max_threads_per_block: u32,
    /// Most shared memory of a block.
    pub max_shared_bytes_per_block: u32,
    /// Limits of one SM.
    pub shape: DeviceShape,
    /// Attributes that tenants may know besides, and that the mediator does not use.
    pub hardware: HardwareFacts,
}

impl DeviceFacts {
    /// Returns how files of profiles name it. The functional model's time is estimated, so that durations on it say
    /// nothing of the timed one.
    #[must_use]
    pub fn profiled(&self) -> ProfiledDevice {
        let name = match self.timing {
            Some(Timing::Functional) => format!("{}, functional", self.name),
            Some(Timing::Timed) | None => self.name.clone(),
        };
        let sms = self.sms;
        ProfiledDevice { name, sms }
    }
}

/// Facts about a device that only tenants ask for. A figure that the device does not tell is 0.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HardwareFacts {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Most threads of a block in x, y and z.
    pub max_block: [u32; 3],
    /// Most blocks of a grid in x, y and z.
    pub max_grid: [u32; 3],
    /// Most shared memory of a block in bytes, without asking for more.
    pub default_shared_bytes_per_block: u32,
    /// Shared memory that the system takes for each block, in bytes.
    pub reserved_shared_bytes_per_block: u32,
    /// Most registers of a block.
    pub registers_per_block: u32,
    /// Unit in which registers are given to a warp.
    pub register_unit: u32,
    /// Unit in which shared memory is given to a block, in bytes.
    pub shared_unit_bytes: u32,
    /// Clock of the memory.
    pub memory_clock_khz: u64,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// Level-2 cache.
    pub l2_bytes: u64,
    /// Constant memory of a module.
    pub constant_bytes: u32,
    /// Copies that run beside each other.
    pub copy_engines: u32,
    /// Kernels that run beside each other.
    pub concurrent_kernels: u32,
    /// Kernels reach tenants' own memory ([`super::DeviceControl::map_buffer`]).
    pub maps_host_memory: bool,
}
