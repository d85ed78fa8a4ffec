//! What a launch did, counted.
//!
//! Rule: counters are sums of events, never derived rates; a rate is a method.

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
}

impl Counters {
    /// Warp instructions per cycle over `cycles`.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate for display")]
    pub fn ipc(&self, cycles: u64) -> f64 {
        self.warp_instructions as f64 / cycles.max(1) as f64
    }
}
