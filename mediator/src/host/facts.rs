//! The facts that a tenant is told: of the device when it says hello, of a module when it was loaded.

use crate::device::LoadedGlobal;
use gridmux_channel::control::{DeviceFacts, GlobalInfo, SmFacts};

/// Returns what a tenant may know of a device.
pub(super) fn facts_for_tenant(facts: crate::device::DeviceFacts) -> DeviceFacts {
    let (shape, hardware) = (facts.shape, facts.hardware);
    DeviceFacts {
        name: facts.name,
        is_model: facts.is_model,
        compute_capability: hardware.compute_capability,
        sms: facts.sms.into(),
        warp_size: 32,
        clock_khz: facts.clock_khz.into(),
        max_threads_per_block: facts.max_threads_per_block,
        max_block: hardware.max_block,
        max_grid: hardware.max_grid,
        shared_bytes_per_block: facts.max_shared_bytes_per_block,
        default_shared_bytes_per_block: hardware.default_shared_bytes_per_block,
        reserved_shared_bytes_per_block: hardware.reserved_shared_bytes_per_block,
        registers_per_block: hardware.registers_per_block,
        sm: SmFacts {
            threads: shape.threads,
            blocks: shape.blocks,
            registers: shape.registers,
            register_unit: hardware.register_unit,
            shared_bytes: shape.shared_bytes,
            shared_unit_bytes: hardware.shared_unit_bytes,
        },
        memory_bytes: facts.memory_bytes,
        memory_clock_khz: hardware.memory_clock_khz,
        memory_bus_bits: hardware.memory_bus_bits,
        l2_bytes: hardware.l2_bytes,
        constant_bytes: hardware.constant_bytes,
        copy_engines: hardware.copy_engines,
        concurrent_kernels: hardware.concurrent_kernels,
        maps_host_memory: hardware.maps_host_memory,
    }
}

/// Returns names, addresses and sizes of a module's variables.
pub(super) fn globals_for_tenant(globals: Vec<LoadedGlobal>) -> Vec<GlobalInfo> {
    let shown = |global: LoadedGlobal| GlobalInfo {
        name: global.name,
        address: global.address,
        bytes: global.bytes,
        is_managed: global.is_managed,
    };
    globals.into_iter().map(shown).collect()
}
