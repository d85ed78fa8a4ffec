//! What a launch did, counted.
//!
//! Rule: counters are sums of events, never derived rates; a rate is a method.

use crate::config::{GpuConfig, SECTOR_BYTES};
use serde::Serialize;
use std::ops::AddAssign;

/// What a counter, a rate or another figure of a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Legend {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident: $unit:literal,)*) => {
        /// Event counts of one launch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl Counters {
            /// Returns every counter with its name, in declaration order.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Returns what each counter counts, in declaration order.
            #[must_use]
            pub fn legend() -> Vec<Legend> {
                vec![$(Legend {
                    name: stringify!($name),
                    unit: $unit,
                    meaning: concat!($($doc),+).trim_ascii(),
                },)*]
            }
        }
    };
}

macro_rules! rates {
    ($($(#[doc = $doc:literal])+ $name:ident: $unit:literal,)*) => {
        /// Rates that follow from counters, the time they took and the GPU that they were counted on.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Rates {
            $($(#[doc = $doc])+ pub $name: f64,)*
        }

        impl Rates {
            /// Returns every rate with its name, in declaration order.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Returns what each rate says, in declaration order.
            #[must_use]
            pub fn legend() -> Vec<Legend> {
                vec![$(Legend {
                    name: stringify!($name),
                    unit: $unit,
                    meaning: concat!($($doc),+).trim_ascii(),
                },)*]
            }
        }
    };
}

counters! {
    /// Warp instructions executed, those that are folded into others included.
    warp_instructions: "warp instructions",
    /// Thread instructions executed: lanes under the mask, summed over warp instructions.
    thread_instructions: "thread instructions",
    /// Blocks that ran to their end.
    blocks: "blocks",
    /// Residence of blocks on SMs, summed over blocks, in cycles.
    block_cycles: "block cycles",
    /// Warp instructions that read global memory.
    global_loads: "warp instructions",
    /// Warp instructions that wrote global memory.
    global_stores: "warp instructions",
    /// Warp instructions with a global atomic operation or reduction.
    global_atomics: "warp instructions",
    /// Warp instructions on shared memory.
    shared_accesses: "warp instructions",
    /// Cycles of shared-memory accesses beyond their first: bank conflicts, further words of wide accesses, and what an
    /// atomic operation takes besides.
    shared_conflict_cycles: "cycles",
    /// 128-byte lines that global accesses touched.
    global_lines: "lines",
    /// 32-byte sectors that global accesses touched.
    global_sectors: "sectors",
    /// Sectors that hit in L1.
    l1_hit_sectors: "sectors",
    /// Sectors that missed in L1.
    l1_miss_sectors: "sectors",
    /// Sectors that hit in L2; stores that have not come to it when the last block ends are in neither of both.
    l2_hit_sectors: "sectors",
    /// Sectors that missed in L2.
    l2_miss_sectors: "sectors",
    /// Bytes read from DRAM, without those of a burst (`dram.burst_bytes`) that nobody asked for.
    dram_read_bytes: "bytes",
    /// Bytes written to DRAM.
    dram_write_bytes: "bytes",
    /// DRAM reads and writes that found their row open.
    dram_row_hits: "accesses",
    /// DRAM reads and writes that had to open their row.
    dram_row_misses: "accesses",
    /// Barriers passed, counted per warp.
    barriers: "warps",
    /// Branches whose lanes went both ways.
    divergent_branches: "branches",
    /// Warp instructions that the chip would not execute, because its compiler folds them into others.
    folded_instructions: "warp instructions",
    /// Thread instructions of the integer pipelines, moves included.
    int_threads: "thread instructions",
    /// Thread instructions of the single-precision pipelines.
    fp32_threads: "thread instructions",
    /// Thread instructions of the double-precision pipelines.
    fp64_threads: "thread instructions",
    /// Thread instructions of the special-function units.
    sfu_threads: "thread instructions",
    /// Thread instructions of the matrix units.
    tensor_threads: "thread instructions",
    /// Thread instructions that read or wrote memory, shuffles included.
    memory_threads: "thread instructions",
    /// Branches, barriers and other control instructions, by thread.
    control_threads: "thread instructions",
    /// Residence of warps on SMs, summed over warps, in cycles.
    warp_cycles: "warp cycles",
    /// Warp instructions on local memory.
    local_accesses: "warp instructions",
    /// Warp instructions on constant memory.
    constant_accesses: "warp instructions",
    /// Constant accesses that missed in the constant cache.
    constant_misses: "accesses",
    /// Warp instructions on textures.
    texture_accesses: "warp instructions",
    /// Texture lines that missed in the texture cache.
    texture_misses: "lines",
    /// Sectors that loads found on their way to L1 already.
    l1_reserved_sectors: "sectors",
    /// Scheduler cycles without an issue while a warp waits for memory, and none for what ends sooner. As with the
    /// other stalls, time in which nothing happens on an SM, because all of its warps wait, is left out
    /// (`asleep_cycles`).
    stall_memory_cycles: "scheduler cycles",
    /// Scheduler cycles without an issue while a warp waits for a result of short latency, and none is ready.
    stall_short_raw_cycles: "scheduler cycles",
    /// Scheduler cycles without an issue although a warp is ready, because its pipeline or the load/store unit is busy.
    stall_resource_cycles: "scheduler cycles",
    /// Scheduler cycles without an issue because all warps that are left wait at barriers.
    stall_barrier_cycles: "scheduler cycles",
    /// Scheduler cycles without an issue while a warp waits behind a branch, a fence or a sleep, for its code or for
    /// the start of its block (`launch.block_cycles`), and none for a result of short latency.
    stall_control_cycles: "scheduler cycles",
    /// Scheduler cycles without an issue because the scheduler has no warp while its SM has a block.
    stall_empty_cycles: "scheduler cycles",
    /// Scheduler cycles in which nothing happened on an SM, because all of its warps waited, nearly always for memory;
    /// they count for the kernel of the SM's first block.
    asleep_cycles: "scheduler cycles",
    /// Blocks that were switched out.
    switches_out: "blocks",
    /// Blocks that came back.
    switches_in: "blocks",
    /// Bytes of contexts written to memory by switches.
    context_written_bytes: "bytes",
    /// Bytes of contexts read back.
    context_read_bytes: "bytes",
}

rates! {
    /// Warp instructions issued per cycle of the whole GPU.
    ipc: "instructions a cycle",
    /// Warp instructions issued per cycle of an SM, over all SMs.
    ipc_per_sm: "instructions a cycle",
    /// Achieved occupancy: resident warps over the most that could be, over all SMs and the whole time.
    occupancy: "0 to 1",
    /// Pipeline utilisation ratio: instructions issued over issue slots (Kernelet, section 4.2).
    pur: "0 to 1",
    /// Memory bandwidth utilisation ratio: DRAM bytes over what the bus could move (Kernelet, section 4.2).
    mur: "0 to 1",
    /// Sectors that missed in L2 per thousand thread instructions.
    l2_mpki: "sectors",
    /// Hits over accesses in L1, by sector.
    l1_hit_rate: "0 to 1",
    /// Hits over accesses in L2, by sector.
    l2_hit_rate: "0 to 1",
    /// Bytes of the sectors that were asked of L2, hits and misses.
    l2_gigabytes_per_second: "GB/s",
    /// Bytes from and to DRAM.
    dram_gigabytes_per_second: "GB/s",
    /// DRAM accesses that found their row open.
    dram_row_hit_rate: "0 to 1",
    /// Energy of all events and of leakage.
    energy_microjoules: "uJ",
}

impl Counters {
    /// Returns how many warp instructions were issued; folded ones take no issue slot.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.warp_instructions - self.folded_instructions
    }

    /// Returns how many of these were of special functions: as great a part as of the threads' instructions.
    #[must_use]
    pub fn special_instructions(&self) -> u64 {
        let all = u128::from(self.issued()) * u128::from(self.sfu_threads);
        let special = all / u128::from(self.thread_instructions.max(1));
        u64::try_from(special).unwrap_or(u64::MAX)
    }

    /// Returns the rates over `cycles`, on the GPU they were counted on.
    #[must_use]
    pub fn rates(&self, config: &GpuConfig, cycles: u64) -> Rates {
        let ratio = |a: u64, b: f64| if b > 0.0 { a as f64 / b } else { 0.0 };
        let time = cycles.max(1) as f64;
        let sms = f64::from(config.sm.count);
        let slots = sms * f64::from(config.sm.schedulers) * f64::from(config.sm.issue_width);
        let seconds = time / (f64::from(config.clock.core_mhz) * 1e6);
        let gigabytes = |bytes: u64| bytes as f64 / seconds / 1e9;
        let rate = gigabytes(self.dram_read_bytes + self.dram_write_bytes);
        let l2_sectors = self.l2_hit_sectors + self.l2_miss_sectors;
        let of = |hits: u64, misses: u64| ratio(hits, (hits + misses) as f64);
        Rates {
            ipc: self.ipc(cycles),
            ipc_per_sm: self.ipc(cycles) / sms,
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
            l2_gigabytes_per_second: gigabytes(l2_sectors * SECTOR_BYTES),
            dram_gigabytes_per_second: rate,
            dram_row_hit_rate: of(self.dram_row_hits, self.dram_row_misses),
            energy_microjoules: self.event_microjoules(config)
                + config.energy.static_watts * seconds * 1e6,
        }
    }

    /// Returns the energy of the events in microjoules, without leakage.
    #[must_use]
    pub fn event_microjoules(&self, config: &GpuConfig) -> f64 {
        self.picojoules(config) * 1e-6
    }

    /// Returns the energy of the events, leakage apart: a sum of counts times energies (the way of GPUWattch, ISCA
    /// 2013).
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

    /// Returns the warp instructions issued per cycle over `cycles`; folded ones are not issued.
    #[must_use]
    pub fn ipc(&self, cycles: u64) -> f64 {
        self.issued() as f64 / cycles.max(1) as f64
    }
}
