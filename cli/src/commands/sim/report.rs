//! What `gridmux sim kernel` prints.

use super::launch::Outcome;
use gridmux_hw_model::GpuConfig;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A run of a kernel.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    gpu: String,
    /// Core cycles from submission to the end of the last block; `None` without timing.
    cycles: Option<u64>,
    /// The same as time of the core clock.
    device_ns: Option<u64>,
    slices: u64,
    warp_instructions: u64,
    thread_instructions: u64,
    /// Warp instructions per cycle of the whole GPU.
    ipc: Option<f64>,
    /// Processor time of the simulation.
    cpu_seconds: f64,
    counters: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(super) fn new(config: &GpuConfig, outcome: &Outcome) -> Self {
        let counters = &outcome.counters;
        Self {
            gpu: config.name.clone(),
            cycles: outcome.cycles,
            device_ns: outcome.cycles.map(|cycles| config.cycles_to_ns(cycles)),
            slices: outcome.slices,
            warp_instructions: counters.warp_instructions,
            thread_instructions: counters.thread_instructions,
            ipc: outcome.cycles.map(|cycles| counters.ipc(cycles)),
            cpu_seconds: outcome.cpu_seconds,
            counters: counters.named().into_iter().collect(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a rounded figure for display")]
    pub(super) fn text(&self) -> String {
        let rate = self.thread_instructions as f64 / self.cpu_seconds.max(1e-9) / 1e6;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match (self.cycles, self.device_ns, self.ipc) {
            (Some(cycles), Some(ns), Some(ipc)) => {
                writeln!(
                    text,
                    "{}: {cycles} cycles ({ns} ns), {ipc:.3} warp instructions per cycle",
                    self.gpu
                )
            }
            _ => writeln!(text, "{}: results only, not timed", self.gpu),
        };
        let _ = writeln!(
            text,
            "simulated {} thread instructions in {:.3} CPU seconds ({rate:.1} million per second), {} launches",
            self.thread_instructions, self.cpu_seconds, self.slices,
        );
        for (name, count) in self.counters.iter().filter(|(_, count)| **count > 0) {
            let _ = writeln!(text, "{name:<24} {count}");
        }
        text
    }
}
