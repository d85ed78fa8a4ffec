//! The attributes of a GPU, read from the driver.

use super::driver::{attribute, wrapped};
use crate::device::{AllocationUnits, DeviceError, DeviceFacts, HardwareFacts, Residency};
use cudarc::driver::result;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as A};
use gridmux_policy::shape::DeviceShape;

/// Device memory that is not for tenants' allocations: modules, local memory, the driver's own buffers.
const RESERVED_BYTES: u64 = 512 << 20;

/// Facts about a GPU whose context is current, and its allocation units.
///
/// # Errors
/// [`DeviceError::NoDevice`] for a GPU without virtual memory management (before Pascal, and some virtual GPUs).
pub(super) fn read(device: CUdevice) -> Result<(DeviceFacts, AllocationUnits), DeviceError> {
    let ask = |which| attribute(device, which);
    let name = wrapped("cuDeviceGetName", result::device::get_name(device))?;
    if ask(A::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED) == 0 {
        return Err(DeviceError::NoDevice(format!(
            "{name} has no virtual memory management, which gridmux divides its memory with; use another GPU"
        )));
    }
    let (free, _total) = wrapped("cuMemGetInfo", result::mem_get_info())?;
    let major = ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    let reserved = ask(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    let units = units(major, reserved);
    let facts = DeviceFacts {
        name,
        is_model: false,
        timing: None,
        residency: Residency::Stamped,
        sms: u16::try_from(ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)).unwrap_or(u16::MAX),
        clock_khz: ask(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).max(1),
        memory_bytes: (free as u64).saturating_sub(RESERVED_BYTES),
        max_threads_per_block: ask(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        max_shared_bytes_per_block: ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        shape: DeviceShape {
            sms: u16::try_from(ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))
                .unwrap_or(u16::MAX),
            threads: ask(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            blocks: ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            registers: ask(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            shared_bytes: ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            submission_ns: 0,
            dram_bytes_per_kcycle: 0,
            issued_per_kcycle: 0,
        },
        hardware: hardware(device, units),
    };
    Ok((facts, units))
}

/// Returns what only tenants ask for.
fn hardware(device: CUdevice, units: AllocationUnits) -> HardwareFacts {
    let ask = |which| attribute(device, which);
    HardwareFacts {
        compute_capability: (
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        max_block: [
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
        ],
        max_grid: [
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
        ],
        default_shared_bytes_per_block: ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        reserved_shared_bytes_per_block: units.reserved_shared_bytes,
        registers_per_block: ask(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        register_unit: units.registers,
        shared_unit_bytes: units.shared_bytes,
        memory_clock_khz: ask(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).into(),
        memory_bus_bits: ask(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        l2_bytes: ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).into(),
        constant_bytes: ask(A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        copy_engines: ask(A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
        // The attribute says only whether there are any; since 3.5 there are at least 32 (CUDA C++ Programming Guide,
        // "Technical Specifications per Compute Capability").
        concurrent_kernels: ask(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS) * 32,
        maps_host_memory: false,
    }
}

/// Allocation units by compute capability (CUDA C++ Programming Guide, "Compute Capabilities"; the occupancy
/// calculator of Nsight Compute): 256 registers per warp since Kepler; shared memory in units of 128 bytes since 8.0
/// (where the system takes 1024 of each block, which the driver tells), of 256 before.
fn units(major: u32, reserved_shared_bytes: u32) -> AllocationUnits {
    AllocationUnits {
        registers: 256,
        shared_bytes: if major >= 8 { 128 } else { 256 },
        reserved_shared_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::units;

    #[test]
    fn units_follow_the_compute_capability() {
        assert_eq!(units(9, 1024).shared_bytes, 128);
        assert_eq!(units(8, 1024).registers, 256);
        assert_eq!(units(7, 0).shared_bytes, 256);
        assert_eq!(units(9, 1024).reserved_shared_bytes, 1024);
    }
}
