//! Attributes of the device (`CUdevice_attribute`): one row for each number that the API knows.
//!
//! What the device does not have (cubes, mipmaps, graphics, fabrics) is 0, so that programs do not ask for it.

use crate::attribute::device;
use crate::limit;
use gridmux_tenant::DeviceFacts;
use std::ffi::c_int;

/// The greatest pitch of a copy in bytes, as on all NVIDIA devices.
pub(crate) const MOST_PITCH: u64 = 0x7fff_ffff;

/// Returns the value of an attribute, or nothing if there is no such attribute.
#[must_use]
pub fn value(facts: &DeviceFacts, attribute: c_int) -> Option<c_int> {
    if !(1..=device::LAST).contains(&attribute) {
        return None;
    }
    let figure: u64 = match attribute {
        device::MAX_THREADS_PER_BLOCK => facts.max_threads_per_block.into(),
        device::MAX_BLOCK_DIM_X => facts.max_block[0].into(),
        device::MAX_BLOCK_DIM_Y => facts.max_block[1].into(),
        device::MAX_BLOCK_DIM_Z => facts.max_block[2].into(),
        device::MAX_GRID_DIM_X => facts.max_grid[0].into(),
        device::MAX_GRID_DIM_Y => facts.max_grid[1].into(),
        device::MAX_GRID_DIM_Z => facts.max_grid[2].into(),
        device::MAX_SHARED_MEMORY_PER_BLOCK => facts.default_shared_bytes_per_block.into(),
        device::TOTAL_CONSTANT_MEMORY => facts.constant_bytes.into(),
        device::WARP_SIZE => facts.warp_size.into(),
        device::MAX_PITCH => MOST_PITCH,
        device::MAX_REGISTERS_PER_BLOCK => facts.registers_per_block.into(),
        device::CLOCK_RATE => facts.clock_khz,
        // Bytes.
        device::TEXTURE_ALIGNMENT | device::SURFACE_ALIGNMENT => limit::ALIGNMENT,
        device::TEXTURE_PITCH_ALIGNMENT => limit::PITCH_ALIGNMENT as u64,
        // Copies overlap with kernels.
        device::GPU_OVERLAP => u64::from(facts.copy_engines > 0),
        device::CAN_MAP_HOST_MEMORY
        | device::MANAGED_MEMORY
        | device::CONCURRENT_MANAGED_ACCESS
        | device::HOST_NUMA_MEMORY_POOLS_SUPPORTED
        | device::HOST_MEMORY_POOLS_SUPPORTED
        | device::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => u64::from(facts.maps_host_memory),
        device::MULTIPROCESSOR_COUNT => facts.sms.into(),
        device::CONCURRENT_KERNELS => u64::from(facts.concurrent_kernels > 1),
        device::MEMORY_CLOCK_RATE => facts.memory_clock_khz,
        device::GLOBAL_MEMORY_BUS_WIDTH => facts.memory_bus_bits.into(),
        device::L2_CACHE_SIZE => facts.l2_bytes,
        device::MAX_THREADS_PER_MULTIPROCESSOR => facts.sm.threads.into(),
        device::ASYNC_ENGINE_COUNT => facts.copy_engines.into(),
        device::UNIFIED_ADDRESSING => 1,
        device::COMPUTE_CAPABILITY_MAJOR => facts.compute_capability.0.into(),
        device::COMPUTE_CAPABILITY_MINOR => facts.compute_capability.1.into(),
        device::STREAM_PRIORITIES_SUPPORTED
        | device::GLOBAL_L1_CACHE_SUPPORTED
        | device::LOCAL_L1_CACHE_SUPPORTED => 1,
        device::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => facts.sm.shared_bytes.into(),
        device::MAX_REGISTERS_PER_MULTIPROCESSOR => facts.sm.registers.into(),
        device::SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        // Kernels give way to others.
        device::COMPUTE_PREEMPTION_SUPPORTED => 1,
        device::COOPERATIVE_LAUNCH => 1,
        device::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => facts.shared_bytes_per_block.into(),
        device::HOST_REGISTER_SUPPORTED | device::MEMORY_POOLS_SUPPORTED => 1,
        device::MAX_BLOCKS_PER_MULTIPROCESSOR => facts.sm.blocks.into(),
        device::RESERVED_SHARED_MEMORY_PER_BLOCK => facts.reserved_shared_bytes_per_block.into(),
        // Streams belong to one memory synchronisation domain.
        device::MEM_SYNC_DOMAIN_COUNT => 1,
        // None in particular.
        device::NUMA_ID | device::HOST_NUMA_ID => return Some(-1),
        other if facts.maps_host_memory => most_texels(other),
        _ => 0,
    };
    Some(c_int::try_from(figure).unwrap_or(c_int::MAX))
}

/// Returns the most texels along an axis, layers or bytes of a row of textures and surfaces, as they are for compute
/// capability 7.0 and above (CUDA programming guide, technical specifications per compute capability); 0 for what is
/// no such attribute, and for cubes and mipmaps, which are not there.
fn most_texels(attribute: c_int) -> u64 {
    let texels = match attribute {
        device::MAXIMUM_TEXTURE1D_WIDTH => limit::LINE,
        device::MAXIMUM_SURFACE1D_WIDTH
        | device::MAXIMUM_TEXTURE1D_LAYERED_WIDTH
        | device::MAXIMUM_SURFACE1D_LAYERED_WIDTH => limit::LAYERED,
        device::MAXIMUM_TEXTURE1D_LAYERED_LAYERS
        | device::MAXIMUM_SURFACE1D_LAYERED_LAYERS
        | device::MAXIMUM_TEXTURE2D_LAYERED_LAYERS
        | device::MAXIMUM_SURFACE2D_LAYERED_LAYERS => limit::LAYERS,
        device::MAXIMUM_TEXTURE2D_WIDTH | device::MAXIMUM_SURFACE2D_WIDTH => limit::PLANE[0],
        device::MAXIMUM_TEXTURE2D_HEIGHT | device::MAXIMUM_SURFACE2D_HEIGHT => limit::PLANE[1],
        device::MAXIMUM_TEXTURE2D_LAYERED_WIDTH
        | device::MAXIMUM_TEXTURE2D_LAYERED_HEIGHT
        | device::MAXIMUM_SURFACE2D_LAYERED_WIDTH
        | device::MAXIMUM_SURFACE2D_LAYERED_HEIGHT
        | device::MAXIMUM_TEXTURE2D_GATHER_WIDTH
        | device::MAXIMUM_TEXTURE2D_GATHER_HEIGHT => limit::LAYERED,
        device::MAXIMUM_TEXTURE3D_WIDTH..=device::MAXIMUM_TEXTURE3D_DEPTH
        | device::MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE..=device::MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE
        | device::MAXIMUM_SURFACE3D_WIDTH..=device::MAXIMUM_SURFACE3D_DEPTH => limit::BOX,
        device::MAXIMUM_TEXTURE1D_LINEAR_WIDTH => limit::MOST_LINEAR,
        device::MAXIMUM_TEXTURE2D_LINEAR_WIDTH => limit::MOST_ROWS[0],
        device::MAXIMUM_TEXTURE2D_LINEAR_HEIGHT => limit::MOST_ROWS[1],
        device::MAXIMUM_TEXTURE2D_LINEAR_PITCH => limit::MOST_ROWS[2],
        _ => 0,
    };
    texels as u64
}

#[cfg(test)]
mod tests {
    use super::value;
    use crate::attribute::device;
    use gridmux_tenant::DeviceFacts;

    #[test]
    fn every_attribute_has_a_value_and_nothing_else_has() {
        let facts = DeviceFacts {
            warp_size: 32,
            l2_bytes: 1 << 40,
            ..DeviceFacts::default()
        };
        assert!((1..=device::LAST).all(|attribute| value(&facts, attribute).is_some()));
        for none in [0, -1, device::LAST + 1, i32::MAX, i32::MIN] {
            assert_eq!(value(&facts, none), None);
        }
        assert_eq!(value(&facts, device::WARP_SIZE), Some(32));
        assert_eq!(
            value(&facts, device::L2_CACHE_SIZE),
            Some(i32::MAX),
            "what does not fit is cut"
        );
    }
}
