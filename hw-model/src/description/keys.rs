//! Every key of a description with its unit and the values that make sense, in the order in which a description is
//! written.
//!
//! Rules: the values of a table come before the tables in it; the list is complete: a test holds it against what the
//! structures of [`crate::config`] have. What two keys must have in common stands in [`super::check`].
//! Length: one row for each key.

use super::range::Range;
use super::range::Range::{Any, Ascending, Multiple, Name, Number, OneOf, PowerOfTwo};
use crate::config::{LINE_BYTES, SECTOR_BYTES};

/// Fastest clock, in megahertz.
const CLOCK: u64 = 100_000;
/// Longest latency, in core cycles or nanoseconds.
const LATENCY: u64 = 1_000_000;
/// Longest time for which one operation holds a unit, in cycles of the unit's clock; no packet's header is longer, in
/// bytes.
const CYCLES: u64 = 4096;
const AT_LEAST_ONE: Range = from(1, u64::MAX);

/// Returns the range of whole numbers between two, both included.
const fn from(least: u64, most: u64) -> Range {
    Range::Whole {
        least,
        most,
        zero: "",
    }
}

/// Returns the range of whole numbers up to `most`; `zero` says what 0 means.
const fn or_zero(zero: &'static str, most: u64) -> Range {
    Range::Whole {
        least: 0,
        most,
        zero,
    }
}

/// A key: its dotted name, then the unit of its value, what it counts, or the values it may have (empty for `name`
/// only), then the values that make sense.
pub(super) type Key = (&'static str, &'static str, Range);

/// Every key.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    ("name", "", Name),
    ("clock.core_mhz", "MHz", from(1, CLOCK)),
    ("sm.count", "SMs", from(1, 1024)),
    ("sm.schedulers", "schedulers of an SM", OneOf(&[1, 2, 4])),
    ("sm.scheduler", "lrr, gto or two-level", Any),
    ("sm.two_level_active_warps", "warps of a scheduler", AT_LEAST_ONE),
    ("sm.sub_cores", "true or false", Any),
    ("sm.issue_width", "instructions a cycle", OneOf(&[1, 2])),
    ("sm.register_banks", "banks", or_zero("no conflicts", 32)),
    ("sm.collectors", "collectors of an SM", or_zero("never short", 8)),
    ("sm.collector_cycles", "cycles", from(1, CYCLES)),
    ("sm.folds_moves", "true or false", Any),
    ("sm.expands_sequences", "true or false", Any),
    ("sm.parameters_cached", "true or false", Any),
    ("sm.load_store_lanes", "lanes a cycle and SM", PowerOfTwo(1, 32)),
    ("sm.max_threads", "threads of an SM", Multiple(32, 32, 2048)),
    ("sm.max_blocks", "blocks of an SM", from(1, 64)),
    ("sm.max_threads_per_block", "threads", from(1, 1024)),
    ("sm.registers", "32-bit registers of an SM", from(1, 1 << 24)),
    ("sm.max_registers_per_thread", "32-bit registers", AT_LEAST_ONE),
    ("sm.register_unit", "32-bit registers", from(1, 65536)),
    ("sm.shared_bytes", "bytes of an SM", Any),
    ("sm.max_shared_bytes_per_block", "bytes", Any),
    ("sm.shared_unit_bytes", "bytes", from(1, 65536)),
    ("sm.reserved_shared_bytes_per_block", "bytes", Any),
    ("sm.barrier.latency", "cycles", from(1, LATENCY)),
    ("sm.barrier.interval", "cycles", from(1, CYCLES)),
    ("fetch.instructions", "instructions", from(1, CYCLES)),
    ("fetch.latency", "cycles", from(1, LATENCY)),
    ("fetch.instruction_bytes", "bytes", PowerOfTwo(4, 16)),
    ("fetch.bytes", "bytes of an SM", from(0, 16 << 20)),
    ("fetch.ways", "ways", from(1, 64)),
    ("pipelines.units.int", "units of an SM", or_zero("fp32 does its work", 8)),
    ("pipelines.units.fp32", "units of an SM", from(1, 8)),
    ("pipelines.units.fp64", "units of an SM", from(1, 8)),
    ("pipelines.units.sfu", "units of an SM", from(1, 8)),
    ("pipelines.units.tensor", "units of an SM", or_zero("fp32 does its work", 8)),
    ("pipelines.int.latency", "cycles", from(1, CYCLES)),
    ("pipelines.int.interval", "cycles", from(1, CYCLES)),
    ("pipelines.int_mul.latency", "cycles", from(1, CYCLES)),
    ("pipelines.int_mul.interval", "cycles", from(1, CYCLES)),
    ("pipelines.products_in_fp32", "true or false", Any),
    ("pipelines.approximation_guard", "cycles", from(0, CYCLES)),
    ("pipelines.int_div.latency", "cycles", from(1, CYCLES)),
    ("pipelines.int_div.interval", "cycles", from(1, CYCLES)),
    ("pipelines.popc.latency", "cycles", from(1, CYCLES)),
    ("pipelines.popc.interval", "cycles", from(1, CYCLES)),
    ("pipelines.bit_find.latency", "cycles", from(1, CYCLES)),
    ("pipelines.bit_find.interval", "cycles", from(1, CYCLES)),
    ("pipelines.fp32.latency", "cycles", from(1, CYCLES)),
    ("pipelines.fp32.interval", "cycles", from(1, CYCLES)),
    ("pipelines.fp32_div.latency", "cycles", from(1, CYCLES)),
    ("pipelines.fp32_div.interval", "cycles", from(1, CYCLES)),
    ("pipelines.half.latency", "cycles", from(1, CYCLES)),
    ("pipelines.half.interval", "cycles", from(1, CYCLES)),
    ("pipelines.fp64.latency", "cycles", from(1, CYCLES)),
    ("pipelines.fp64.interval", "cycles", from(1, CYCLES)),
    ("pipelines.fp64_div.latency", "cycles", from(1, CYCLES)),
    ("pipelines.fp64_div.interval", "cycles", from(1, CYCLES)),
    ("pipelines.sfu.latency", "cycles", from(1, CYCLES)),
    ("pipelines.sfu.interval", "cycles", from(1, CYCLES)),
    ("pipelines.tensor.latency", "cycles", from(1, CYCLES)),
    ("pipelines.tensor.pass_latency", "cycles", from(0, CYCLES)),
    ("pipelines.tensor.pass_bits", "bits", from(1, CYCLES)),
    ("pipelines.tensor.pass_results", "results", from(1, CYCLES)),
    ("pipelines.tensor.setup", "cycles", from(0, CYCLES)),
    ("pipelines.tensor.rates.f16", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.tf32", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.f8", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.f64", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.int8", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.int4", "multiply-adds a cycle and SM", Any),
    ("pipelines.tensor.rates.bits", "multiply-adds a cycle and SM", Any),
    ("pipelines.move.latency", "cycles", from(1, CYCLES)),
    ("pipelines.move.interval", "cycles", from(1, CYCLES)),
    ("pipelines.control.latency", "cycles", from(1, CYCLES)),
    ("pipelines.control.interval", "cycles", from(1, CYCLES)),
    ("pipelines.vote.latency", "cycles", from(1, CYCLES)),
    ("pipelines.vote.interval", "cycles", from(1, CYCLES)),
    ("pipelines.shuffle.latency", "cycles", from(1, CYCLES)),
    ("pipelines.shuffle.interval", "cycles", from(1, CYCLES)),
    ("shared.latency", "cycles", from(1, LATENCY)),
    ("shared.banks", "banks", OneOf(&[32])),
    ("shared.bank_bytes", "bytes", OneOf(&[4, 8])),
    ("shared.atomic.setup", "cycles", from(0, CYCLES)),
    ("shared.atomic.turn", "cycles", from(1, CYCLES)),
    ("shared.atomic.least", "cycles", from(0, CYCLES)),
    ("l1.bytes", "bytes of an SM", from(0, 16 << 20)),
    ("l1.carve_outs", "bytes of an SM", Ascending),
    ("l1.ways", "ways", from(1, 64)),
    ("l1.latency", "cycles", from(1, LATENCY)),
    ("l1.mshrs", "requests", AT_LEAST_ONE),
    ("l1.merges", "loads", AT_LEAST_ONE),
    ("l1.line_interval", "cycles", from(1, CYCLES)),
    ("l1.tag_lines", "lines", PowerOfTwo(1, 32)),
    ("l1.bytes_per_cycle", "bytes a cycle and SM", Any),
    ("l1.atomic_lanes", "lanes a cycle and SM", Any),
    ("l1.sectored", "true or false", Any),
    ("l1.reserves", "true or false", Any),
    ("l1.caches_global", "true or false", Any),
    ("l1.write", "evict or through", Any),
    ("l1.flush_at_launch", "true or false", Any),
    ("constant.bytes", "bytes of an SM", from(0, 16 << 20)),
    ("constant.ways", "ways", from(1, 64)),
    ("constant.latency", "cycles", from(1, LATENCY)),
    ("texture.bytes", "bytes of an SM", from(0, 16 << 20)),
    ("texture.ways", "ways", from(1, 64)),
    ("texture.latency", "cycles", from(1, LATENCY)),
    ("interconnect.latency", "cycles", from(1, LATENCY)),
    ("interconnect.header_bytes", "bytes", from(0, CYCLES)),
    ("interconnect.request_bytes_per_cycle", "bytes a cycle and SM", AT_LEAST_ONE),
    ("interconnect.reply_bytes_per_cycle", "bytes a cycle and SM", AT_LEAST_ONE),
    ("l2.slices", "slices", from(1, 1024)),
    ("l2.banks", "banks of a slice", from(1, 1024)),
    ("l2.bytes", "bytes", from(0, 1 << 30)),
    ("l2.ways", "ways", from(1, 64)),
    ("l2.latency", "cycles", from(1, LATENCY)),
    ("l2.far_cycles", "cycles", Any),
    ("l2.interleave_bytes", "bytes", PowerOfTwo(LINE_BYTES, 1 << 20)),
    ("l2.hashed", "true or false", Any),
    ("l2.write_miss", "validate or fetch", Any),
    ("l2.cycle", "core cycles", Number(0.1, 100.0)),
    ("l2.bytes_per_cycle", "bytes a cycle of l2.cycle and slice", AT_LEAST_ONE),
    ("l2.atomic_interval", "cycles of l2.cycle", from(1, CYCLES)),
    ("l2.queue", "requests", AT_LEAST_ONE),
    ("l2.sectored", "true or false", Any),
    ("dram.channels", "channels", from(1, 1024)),
    ("dram.gigabytes_per_second", "GB/s", Number(1e-3, 1e6)),
    ("dram.latency", "cycles", from(1, LATENCY)),
    ("dram.banks", "banks of a channel", from(1, 128)),
    ("dram.burst_bytes", "bytes", PowerOfTwo(SECTOR_BYTES, LINE_BYTES)),
    ("dram.row_bytes", "bytes", PowerOfTwo(LINE_BYTES, u64::MAX)),
    ("dram.bank_groups", "groups of a channel", PowerOfTwo(1, u64::MAX)),
    ("dram.queue", "requests of a channel", from(1, 1024)),
    ("dram.buffers", "sectors of a channel", Any),
    ("dram.command_mhz", "MHz", from(1, CLOCK)),
    ("dram.stripe.banks", "banks", AT_LEAST_ONE),
    ("dram.stripe.bytes", "bytes", PowerOfTwo(LINE_BYTES, u64::MAX)),
    ("dram.timing.ccd", "command clocks", from(1, CYCLES)),
    ("dram.timing.rrd", "command clocks", from(1, CYCLES)),
    ("dram.timing.rcd", "command clocks", from(1, CYCLES)),
    ("dram.timing.ras", "command clocks", from(1, CYCLES)),
    ("dram.timing.rp", "command clocks", from(1, CYCLES)),
    ("dram.timing.rc", "command clocks", from(1, CYCLES)),
    ("dram.timing.cl", "command clocks", from(1, CYCLES)),
    ("dram.timing.wl", "command clocks", from(1, CYCLES)),
    ("dram.timing.cdlr", "command clocks", from(1, CYCLES)),
    ("dram.timing.wr", "command clocks", from(1, CYCLES)),
    ("dram.timing.ccdl", "command clocks", from(0, CYCLES)),
    ("dram.timing.turn", "command clocks", from(0, CYCLES)),
    ("dram.timing.refi", "command clocks", or_zero("no refreshes", 1 << 24)),
    ("dram.timing.rfc", "command clocks", from(0, CYCLES)),
    ("launch.submit_ns", "ns", from(0, LATENCY)),
    ("launch.kernel_cycles", "cycles", from(0, LATENCY)),
    ("launch.dependent_cycles", "cycles", from(0, LATENCY)),
    ("launch.front_end_cycles", "cycles", from(0, LATENCY)),
    ("launch.block_cycles", "cycles", from(0, LATENCY)),
    ("launch.warp_cycles", "cycles", from(0, LATENCY)),
    ("launch.block_interval_cycles", "cycles", Number(1e-3, 1e9)),
    ("launch.hardware_queues", "queues", from(1, 32)),
    ("launch.concurrent_kernels", "kernels", AT_LEAST_ONE),
    ("launch.priority_levels", "levels", from(1, 8)),
    ("launch.priority_holds", "true or false", Any),
    ("copy.h2d_gigabytes_per_second", "GB/s", Number(1e-3, 1e6)),
    ("copy.d2h_gigabytes_per_second", "GB/s", Number(1e-3, 1e6)),
    ("copy.latency_ns", "ns", from(0, LATENCY)),
    ("energy.int_pj", "pJ", Number(0.0, 1e12)),
    ("energy.fp32_pj", "pJ", Number(0.0, 1e12)),
    ("energy.fp64_pj", "pJ", Number(0.0, 1e12)),
    ("energy.sfu_pj", "pJ", Number(0.0, 1e12)),
    ("energy.shared_pj", "pJ a word", Number(0.0, 1e12)),
    ("energy.l1_sector_pj", "pJ a sector", Number(0.0, 1e12)),
    ("energy.l2_sector_pj", "pJ a sector", Number(0.0, 1e12)),
    ("energy.dram_byte_pj", "pJ a byte", Number(0.0, 1e12)),
    ("energy.static_watts", "W", Number(0.0, 1e12)),
    ("assembler.wide_loads", "true or false", Any),
    ("assembler.early_loads", "32-bit registers", from(0, 1024)),
    ("checks.uninitialised_shared", "true or false", Any),
];

/// Returns the names of a table that are keys or tables in it; none where a name is of a value, or of nothing.
pub(super) fn within(table: &str) -> Vec<&'static str> {
    let mut found: Vec<&str> = Vec::new();
    for &(key, ..) in KEYS {
        let rest = match table {
            "" => Some(key),
            _ => (key.strip_prefix(table)).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = rest.map(|rest| rest.split('.').next().unwrap_or(rest));
        if let Some(name) = name
            && found.last() != Some(&name)
        {
            found.push(name);
        }
    }
    found
}
