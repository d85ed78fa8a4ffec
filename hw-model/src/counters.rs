//! What a launch did, counted.
//!
//! Rule: counters are sums of events, never derived rates; a rate is a method.

use crate::config::GpuConfig;
use std::ops::AddAssign;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Event counts of one launch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl Counters {
            /// Every counter with its name, in declaration order.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Warp instructions issued.
    warp_instructions,
    /// Thread instructions executed: lanes under the mask, summed over warp instructions.
    thread_instructions,
    /// Blocks that ran to their end.
    blocks,
    /// Residence of blocks on SMs, summed over blocks, in cycles.
    block_cycles,
    /// Warp instructions that read global memory.
    global_loads,
    /// Warp instructions that wrote global memory.
    global_stores,
    /// Warp instructions with a global atomic operation or reduction.
    global_atomics,
    /// Warp instructions on shared memory.
    shared_accesses,
    /// Extra shared-memory cycles caused by bank conflicts.
    shared_conflict_cycles,
    /// 128-byte lines that global accesses touched.
    global_lines,
    /// 32-byte sectors that global accesses touched.
    global_sectors,
    /// Sectors that hit in L1.
    l1_hit_sectors,
    /// Sectors that missed in L1.
    l1_miss_sectors,
    /// Sectors that hit in L2.
    l2_hit_sectors,
    /// Sectors that missed in L2.
    l2_miss_sectors,
    /// Bytes read from DRAM.
    dram_read_bytes,
    /// Bytes written to DRAM.
    dram_write_bytes,
    /// DRAM reads and writes that found their row open.
    dram_row_hits,
    /// DRAM reads and writes that had to open their row.
    dram_row_misses,
    /// Barriers passed, counted per warp.
    barriers,
    /// Branches whose lanes went both ways.
    divergent_branches,
    /// Warp instructions that the chip would not execute, because its compiler folds them into others.
    folded_instructions,
    /// Thread instructions of the integer pipelines, moves included.
    int_threads,
    /// Thread instructions of the single-precision pipelines.
    fp32_threads,
    /// Thread instructions of the double-precision pipelines.
    fp64_threads,
    /// Thread instructions of the special-function units.
    sfu_threads,
    /// Thread instructions of the matrix units.
    tensor_threads,
    /// Thread instructions that read or wrote memory, shuffles included.
    memory_threads,
    /// Branches, barriers and other control instructions, by thread.
    control_threads,
    /// Residence of warps on SMs, summed over warps, in cycles.
    warp_cycles,
    /// Warp instructions on local memory.
    local_accesses,
    /// Warp instructions on constant memory.
    constant_accesses,
    /// Constant accesses that missed in the constant cache.
    constant_misses,
    /// Warp instructions on textures.
    texture_accesses,
    /// Texture lines that missed in the texture cache.
    texture_misses,
    /// Loads that found their sectors on the way to L1.
    l1_reserved_sectors,
    /// Scheduler cycles without an issue because all warps that could go on wait for memory.
    stall_memory_cycles,
    /// The same, for the result of an instruction of short latency.
    stall_short_raw_cycles,
    /// The same, for a pipeline or the load/store unit.
    stall_resource_cycles,
    /// The same, at barriers.
    stall_barrier_cycles,
    /// The same, behind branches and fences.
    stall_control_cycles,
    /// Scheduler cycles without an issue because the scheduler has no warp while its SM has a block.
    stall_empty_cycles,
    /// Blocks that were switched out.
    switches_out,
    /// Blocks that came back.
    switches_in,
    /// Bytes of contexts written to memory by switches.
    context_written_bytes,
    /// Bytes of contexts read back.
    context_read_bytes,
}

/// Rates that follow from counters, the time they took and the GPU that they were counted on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Warp instructions per cycle.
    pub ipc: f64,
    /// Resident warps over the most that could be, on the SMs of the GPU.
    pub occupancy: f64,
    /// Pipeline utilisation ratio: instructions issued over issue slots (Kernelet, section 4.2).
    pub pur: f64,
    /// Memory bandwidth utilisation ratio: DRAM bytes over what the bus could move (the same).
    pub mur: f64,
    /// Sectors that missed in L2 per thousand thread instructions.
    pub l2_mpki: f64,
    /// Hits over accesses in L1, by sector.
    pub l1_hit_rate: f64,
    /// Hits over accesses in L2, by sector.
    pub l2_hit_rate: f64,
    /// Bytes from and to DRAM, 10⁹ a second.
    pub dram_gigabytes_per_second: f64,
    /// DRAM accesses that found their row open.
    pub dram_row_hit_rate: f64,
    /// Energy of all events and of leakage, in microjoules.
    pub energy_microjoules: f64,
}

impl Counters {
    /// Rates over `cycles`, on the GPU they were counted on.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "rates for display")]
    pub fn rates(&self, config: &GpuConfig, cycles: u64) -> Rates {
        let ratio = |a: u64, b: f64| if b > 0.0 { a as f64 / b } else { 0.0 };
        let time = cycles.max(1) as f64;
        let sms = f64::from(config.sm.count);
        let slots = sms * f64::from(config.sm.schedulers) * f64::from(config.sm.issue_width);
        let bytes = self.dram_read_bytes + self.dram_write_bytes;
        let seconds = time / (f64::from(config.clock.core_mhz) * 1e6);
        let rate = bytes as f64 / seconds / 1e9;
        let of = |hits: u64, misses: u64| ratio(hits, (hits + misses) as f64);
        Rates {
            ipc: self.ipc(cycles),
            occupancy: ratio(
                self.warp_cycles,
                time * sms * f64::from(config.warps_per_sm()),
            ),
            pur: self.ipc(cycles) / slots,
            mur: rate / config.dram.gigabytes_per_second,
            l2_mpki: ratio(
                self.l2_miss_sectors * 1000,
                self.thread_instructions.max(1) as f64,
            ),
            l1_hit_rate: of(self.l1_hit_sectors, self.l1_miss_sectors),
            l2_hit_rate: of(self.l2_hit_sectors, self.l2_miss_sectors),
            dram_gigabytes_per_second: rate,
            dram_row_hit_rate: of(self.dram_row_hits, self.dram_row_misses),
            energy_microjoules: self.picojoules(config) * 1e-6
                + config.energy.static_watts * seconds * 1e6,
        }
    }

    /// Energy of the events, leakage apart: a sum of counts times energies (the way of GPUWattch, ISCA 2013).
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    fn picojoules(&self, config: &GpuConfig) -> f64 {
        let e = &config.energy;
        let terms = [
            (
                self.int_threads + self.control_threads + self.memory_threads,
                e.int_pj,
            ),
            (self.fp32_threads, e.fp32_pj),
            (self.fp64_threads, e.fp64_pj),
            (self.sfu_threads, e.sfu_pj),
            // One matrix instruction of a warp does 32 lanes times 64 multiply-adds at about a quarter each.
            (self.tensor_threads, 16.0 * e.fp32_pj),
            (self.shared_accesses * 32, e.shared_pj),
            (self.l1_hit_sectors + self.l1_miss_sectors, e.l1_sector_pj),
            (self.l2_hit_sectors + self.l2_miss_sectors, e.l2_sector_pj),
            (self.dram_read_bytes + self.dram_write_bytes, e.dram_byte_pj),
        ];
        terms.iter().map(|(count, pj)| *count as f64 * pj).sum()
    }

    /// Warp instructions issued per cycle over `cycles`; folded ones are not issued.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate for display")]
    pub fn ipc(&self, cycles: u64) -> f64 {
        (self.warp_instructions - self.folded_instructions) as f64 / cycles.max(1) as f64
    }
}
