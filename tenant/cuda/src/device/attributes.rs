//! Attributes of the device (`CUdevice_attribute`): one row for each number that the API knows.
//!
//! What the device does not have (textures, graphics, fabrics, managed memory, zero-copy access to host memory) is 0,
//! so that programs do not ask for it.

use gridmux_tenant::DeviceFacts;
use std::ffi::c_int;

/// Numbers up to this one are attributes (CUDA 13.5).
const LAST: c_int = 161;
/// The greatest pitch of a copy in bytes, as on all NVIDIA devices.
const MOST_PITCH: u64 = 0x7fff_ffff;

/// Returns the value of an attribute, or nothing if there is no such attribute.
#[must_use]
pub fn value(facts: &DeviceFacts, attribute: c_int) -> Option<c_int> {
    if !(1..=LAST).contains(&attribute) {
        return None;
    }
    let figure: u64 = match attribute {
        1 => facts.max_threads_per_block.into(),
        2 => facts.max_block[0].into(),
        3 => facts.max_block[1].into(),
        4 => facts.max_block[2].into(),
        5 => facts.max_grid[0].into(),
        6 => facts.max_grid[1].into(),
        7 => facts.max_grid[2].into(),
        8 => facts.default_shared_bytes_per_block.into(),
        9 => facts.constant_bytes.into(),
        10 => facts.warp_size.into(),
        11 => MOST_PITCH,
        12 => facts.registers_per_block.into(),
        13 => facts.clock_khz,
        // Alignment of textures, surfaces and pitched memory.
        14 | 30 => 512,
        51 => 32,
        // Copies overlap with kernels.
        15 => u64::from(facts.copy_engines > 0),
        16 => facts.sms.into(),
        31 => u64::from(facts.concurrent_kernels > 1),
        36 => facts.memory_clock_khz,
        37 => facts.memory_bus_bits.into(),
        38 => facts.l2_bytes,
        39 => facts.sm.threads.into(),
        40 => facts.copy_engines.into(),
        // One address space of host and device.
        41 => 1,
        75 => facts.compute_capability.0.into(),
        76 => facts.compute_capability.1.into(),
        // Stream priorities, caching of global and local memory in L1.
        78..=80 => 1,
        81 => facts.sm.shared_bytes.into(),
        82 => facts.sm.registers.into(),
        // Single-precision throughput over double-precision.
        87 => 2,
        // Kernels give way to others.
        90 => 1,
        97 => facts.shared_bytes_per_block.into(),
        // Host memory can be registered; stream-ordered allocation.
        99 | 115 => 1,
        106 => facts.sm.blocks.into(),
        111 => facts.reserved_shared_bytes_per_block.into(),
        // Streams belong to one memory synchronisation domain.
        126 => 1,
        // The host's NUMA node: none in particular.
        131 | 134 => return Some(-1),
        _ => 0,
    };
    Some(c_int::try_from(figure).unwrap_or(c_int::MAX))
}

#[cfg(test)]
mod tests {
    use super::{LAST, value};
    use gridmux_tenant::DeviceFacts;

    #[test]
    fn every_attribute_has_a_value_and_nothing_else_has() {
        let facts = DeviceFacts {
            warp_size: 32,
            l2_bytes: 1 << 40,
            ..DeviceFacts::default()
        };
        assert!((1..=LAST).all(|attribute| value(&facts, attribute).is_some()));
        for none in [0, -1, LAST + 1, i32::MAX, i32::MIN] {
            assert_eq!(value(&facts, none), None);
        }
        assert_eq!(value(&facts, 10), Some(32));
        assert_eq!(
            value(&facts, 38),
            Some(i32::MAX),
            "what does not fit is cut"
        );
    }
}
