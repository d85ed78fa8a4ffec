//! The attributes of a modelled GPU that programs ask for and the mediator does not use.
//!
//! Rules: what its description has is taken from there; the rest follows from its compute capability (CUDA C++
//! Programming Guide, table "Technical Specifications per Compute Capability") or from the chip's data sheet.

use crate::device::HardwareFacts;
use gridmux_hw_model::config::GpuConfig;
use gridmux_launch::boxes::{MAX_BLOCK, MAX_GRID};

/// Shared memory that a block gets without asking for more, on every compute capability since 2.0.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;
/// Constant memory of a module, on every compute capability.
const CONSTANT_BYTES: u32 = 64 << 10;
/// The model has one engine for each direction.
const COPY_ENGINES: u32 = 2;

/// A description's name, the chip's compute capability, and the width of its memory bus in bits (its data sheet).
const CHIPS: [(&str, (u32, u32), u32); 13] = [
    ("c2050", (2, 0), 384),
    ("gtx480", (2, 0), 384),
    ("gtx480-lrr", (2, 0), 384),
    ("warped-slicer", (2, 0), 384),
    ("gtx680", (3, 0), 256),
    ("k20m", (3, 5), 320),
    ("gtx980", (5, 2), 256),
    ("v100", (7, 0), 4096),
    ("v100-gpgpusim", (7, 0), 4096),
    ("a100", (8, 0), 5120),
    ("a6000", (8, 6), 384),
    ("h100", (9, 0), 5120),
    ("h200", (9, 0), 6144),
];

fn chip(name: &str) -> ((u32, u32), u32) {
    let known = CHIPS.iter().find(|(known, ..)| *known == name);
    known.map_or(((0, 0), 0), |(_, capability, bus)| (*capability, *bus))
}

/// Clock of the memory of a whole chip: its bandwidth over the width of its bus, which carries two bits a clock on each
/// line (CUDA C++ Best Practices Guide, "Theoretical Bandwidth Calculation").
pub(super) fn memory_clock_khz(full: &GpuConfig) -> u64 {
    let (_, bus_bits) = chip(&full.name);
    let bytes_per_clock = u64::from(bus_bits) / 8 * 2;
    bandwidth(full).checked_div(bytes_per_clock).unwrap_or(0) / 1000
}

/// Bytes a second.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a description's bandwidth is positive and far below 2^63"
)]
fn bandwidth(config: &GpuConfig) -> u64 {
    (config.dram.gigabytes_per_second * 1e9).round() as u64
}

/// Returns the facts of a chip, or of a part of one whose memory has the whole chip's clock and a narrower bus.
pub(super) fn facts_of(config: &GpuConfig, memory_clock_khz: u64) -> HardwareFacts {
    let (compute_capability, full_bus_bits) = chip(&config.name);
    let bus_bits = (bandwidth(config) * 8)
        .checked_div(memory_clock_khz * 1000 * 2)
        .unwrap_or(0);
    let sm = &config.sm;
    HardwareFacts {
        compute_capability,
        max_block: MAX_BLOCK,
        // Before 3.0 a grid had at most 65535 blocks in x as well.
        max_grid: if compute_capability.0 == 2 {
            [65_535; 3]
        } else {
            MAX_GRID
        },
        default_shared_bytes_per_block: DEFAULT_SHARED_BYTES.min(sm.max_shared_bytes_per_block),
        reserved_shared_bytes_per_block: sm.reserved_shared_bytes_per_block,
        // A block may have all registers of an SM on each of these chips.
        registers_per_block: sm.registers,
        register_unit: sm.register_unit,
        shared_unit_bytes: sm.shared_unit_bytes,
        memory_clock_khz,
        memory_bus_bits: u32::try_from(bus_bits)
            .map_or(full_bus_bits, |bits| bits.min(full_bus_bits)),
        l2_bytes: config.l2.bytes,
        constant_bytes: CONSTANT_BYTES,
        copy_engines: COPY_ENGINES,
        concurrent_kernels: config.launch.concurrent_kernels,
        maps_host_memory: true,
    }
}

#[cfg(test)]
mod tests {
    use super::{bandwidth, chip, facts_of, memory_clock_khz};
    use gridmux_hw_model::config::GpuConfig;
    use gridmux_hw_model::description::builtins;

    #[test]
    fn every_description_is_known_and_its_figures_fit_together() {
        for builtin in builtins() {
            let name = builtin.name;
            let (capability, bus_bits) = chip(name);
            assert_ne!(capability, (0, 0), "{name} has no entry");
            let full = GpuConfig::builtin(name).unwrap();
            let clock = memory_clock_khz(&full);
            let facts = facts_of(&full, clock);
            assert_eq!(facts.compute_capability, capability, "{name}");
            let bus = facts.memory_bus_bits;
            assert!(bus.abs_diff(bus_bits) <= 1, "{name}: {bus} bits");
            let half = full.clone().scaled_to_sms((full.sm.count / 2).max(1));
            let part = facts_of(&half, clock);
            let bytes = part.memory_clock_khz * 1000 * 2 * u64::from(part.memory_bus_bits) / 8;
            let share = bytes as f64 / bandwidth(&half) as f64;
            assert!((0.95..1.05).contains(&share), "{name}: {share}");
            assert!(
                part.memory_bus_bits < bus || full.dram.channels == half.dram.channels,
                "{name}"
            );
        }
    }
}
