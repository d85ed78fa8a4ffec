//! How long work would take by the chip's throughput alone, without modelling it.
//!
//! A kernel's part takes as long as the longer of two: its warp instructions at the rate at which the warps that are
//! resident can issue them, and its accesses to global memory at the bandwidth of DRAM. Resident warps issue one
//! instruction each per latency of the integer pipeline, all of them together no more than the schedulers of all SMs.
//! An access of a warp counts as one line of 128 bytes.
//!
//! Rule: nothing here depends on the state of a modelled GPU; caches, conflicts and the order of blocks are left out.

use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::launch::CopyEngine;

/// What an access of a warp to global memory moves, in bytes.
const LINE_BYTES: u64 = 128;

impl GpuConfig {
    /// Returns the core cycles for what `counters` say, while `resident_warps` warps are on the chip.
    #[must_use]
    pub fn estimated_cycles(&self, counters: &Counters, resident_warps: u64) -> f64 {
        let sm = &self.sm;
        let slots = u64::from(sm.schedulers) * u64::from(sm.issue_width) * u64::from(sm.count);
        let warps = resident_warps.max(1) as f64 / f64::from(self.pipelines.int.latency.max(1));
        let issue = counters.warp_instructions as f64 / warps.min(slots as f64);
        let accesses = counters.global_loads + counters.global_stores + counters.global_atomics;
        issue.max(self.memory_cycles(accesses * LINE_BYTES))
    }

    /// Returns the core cycles for moving bytes to or from DRAM.
    #[must_use]
    pub fn memory_cycles(&self, bytes: u64) -> f64 {
        let cycles_per_us = f64::from(self.clock.core_mhz);
        bytes as f64 * cycles_per_us / (self.dram.gigabytes_per_second * 1000.0)
    }

    /// Returns the core cycles for copying bytes over a copy engine, without its latency.
    #[must_use]
    pub fn copy_cycles(&self, engine: CopyEngine, bytes: u64) -> f64 {
        let rate = match engine {
            CopyEngine::H2D => self.copy.h2d_gigabytes_per_second,
            CopyEngine::D2H => self.copy.d2h_gigabytes_per_second,
        };
        bytes as f64 * f64::from(self.clock.core_mhz) / (rate * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::GpuConfig;
    use crate::counters::Counters;

    #[test]
    fn a_full_chip_issues_at_its_schedulers_rate_and_a_lone_warp_at_its_latency() {
        let config = GpuConfig::builtin("h200").expect("built in");
        let counters = Counters {
            warp_instructions: 52_800,
            ..Counters::default()
        };
        // 132 SMs of 4 schedulers; an integer result takes 4 cycles.
        assert!((config.estimated_cycles(&counters, 132 * 64) - 100.0).abs() < 1e-9);
        assert!((config.estimated_cycles(&counters, 1) - 4.0 * 52_800.0).abs() < 1e-6);
    }

    #[test]
    fn what_moves_much_takes_as_long_as_its_bytes() {
        let config = GpuConfig::builtin("h200").expect("built in");
        let counters = Counters {
            warp_instructions: 1000,
            global_loads: 1000,
            ..Counters::default()
        };
        let took = config.estimated_cycles(&counters, 132 * 64);
        assert!((took - config.memory_cycles(128_000)).abs() < 1e-9);
        assert!(
            config.memory_cycles(1 << 20) < config.copy_cycles(crate::CopyEngine::H2D, 1 << 20)
        );
    }
}
