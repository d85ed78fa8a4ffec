//! What `gridmux sim kernel` prints.

use super::launch::Outcome;
use crate::units::counted;
use gridmux_hw_model::{Counters, Gpu};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A run of a kernel.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    gpu: String,
    /// Core cycles from submission to the end of the last block: launch latency and kernel together; `None` without
    /// timing, as all times.
    cycles: Option<u64>,
    /// The same as time of the core clock.
    device_ns: Option<u64>,
    /// Core cycles from submission to the start of the first block.
    launch_latency_cycles: Option<u64>,
    /// The same as time of the core clock.
    launch_latency_ns: Option<u64>,
    /// Core cycles from the start of the first block to the end of the last one.
    kernel_cycles: Option<u64>,
    /// The same as time of the core clock.
    kernel_ns: Option<u64>,
    /// Launches, of whatever form.
    slices: u64,
    warp_instructions: u64,
    thread_instructions: u64,
    /// Warp instructions per kernel cycle of the whole GPU.
    ipc: Option<f64>,
    /// Processor time of the simulation.
    cpu_seconds: f64,
    /// `None` for what a run without timing did not meet, or does not count.
    counters: BTreeMap<&'static str, Option<u64>>,
    /// What follows from counters and kernel cycles; `None` without timing.
    rates: Option<Rates>,
    /// Counters of each SM, memory behind L1 apart; empty without timing.
    sms: Vec<BTreeMap<&'static str, u64>>,
}

/// Rates over the whole GPU; ratios from 0 to 1.
#[derive(Debug, Serialize)]
struct Rates {
    occupancy: f64,
    /// Pipeline utilisation ratio.
    pur: f64,
    /// Memory bandwidth utilisation ratio.
    mur: f64,
    l2_mpki: f64,
    l1_hit_rate: f64,
    l2_hit_rate: f64,
    dram_gigabytes_per_second: f64,
    dram_row_hit_rate: f64,
    energy_microjoules: f64,
}

impl From<gridmux_hw_model::counters::Rates> for Rates {
    fn from(rates: gridmux_hw_model::counters::Rates) -> Self {
        Self {
            occupancy: rates.occupancy,
            pur: rates.pur,
            mur: rates.mur,
            l2_mpki: rates.l2_mpki,
            l1_hit_rate: rates.l1_hit_rate,
            l2_hit_rate: rates.l2_hit_rate,
            dram_gigabytes_per_second: rates.dram_gigabytes_per_second,
            dram_row_hit_rate: rates.dram_row_hit_rate,
            energy_microjoules: rates.energy_microjoules,
        }
    }
}

impl Report {
    pub(super) fn new(gpu: &Gpu, outcome: &Outcome) -> Self {
        let (config, counters) = (gpu.config(), &outcome.counters);
        let named = |counters: &Counters| counters.named().into_iter().collect();
        let latency = outcome.launch_latency_cycles;
        let timed = outcome.cycles.zip(latency);
        let timed = timed.map(|(cycles, latency)| cycles.saturating_sub(latency));
        let ns = |cycles: Option<u64>| cycles.map(|cycles| config.cycles_to_ns(cycles));
        Self {
            gpu: config.name.clone(),
            cycles: outcome.cycles,
            device_ns: ns(outcome.cycles),
            launch_latency_cycles: latency,
            launch_latency_ns: ns(latency),
            kernel_cycles: timed,
            kernel_ns: ns(timed),
            slices: outcome.launches,
            warp_instructions: counters.warp_instructions,
            thread_instructions: counters.thread_instructions,
            ipc: timed.map(|cycles| counters.ipc(cycles)),
            cpu_seconds: outcome.cpu_seconds,
            counters: (counters.named().into_iter())
                .map(|(name, count)| (name, (timed.is_some() || count > 0).then_some(count)))
                .collect(),
            rates: timed.map(|cycles| counters.rates(config, cycles).into()),
            sms: timed.map_or_else(Vec::new, |_| gpu.sm_counters().iter().map(named).collect()),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a rounded figure for display")]
    pub(super) fn text(&self) -> String {
        let rate = self.thread_instructions as f64 / self.cpu_seconds.max(1e-9) / 1e6;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let kernel = self.kernel_cycles.zip(self.kernel_ns);
        let latency = self.launch_latency_cycles.zip(self.launch_latency_ns);
        let _ = match (kernel, latency, self.ipc) {
            (Some((cycles, ns)), Some((latency, latency_ns)), Some(ipc)) => writeln!(
                text,
                "{}: {cycles} cycles ({ns} ns) from first block to last\n\
                 {ipc:.3} warp instructions per cycle\n\
                 launch latency before it: {latency} cycles ({latency_ns} ns)",
                self.gpu
            ),
            _ => writeln!(text, "{}: results only, not timed", self.gpu),
        };
        let _ = writeln!(
            text,
            "simulated {} thread instructions in {}, {:.3} CPU seconds ({rate:.1} M/s)",
            self.thread_instructions,
            counted(self.slices, "launch"),
            self.cpu_seconds,
        );
        for (name, count) in &self.counters {
            if let Some(count) = count.filter(|count| *count > 0) {
                let _ = writeln!(text, "{name:<24} {count}");
            }
        }
        text
    }
}
