//! What `gridmux sim kernel` prints.

use super::launch::Outcome;
use super::lines::{self, Line};
use crate::units::counted;
use gridmux_hw_model::counters::Legend;
use gridmux_hw_model::{Counters, Gpu};
use gridmux_ptx::forms::Form;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A run of a kernel.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) gpu: String,
    /// Name of the kernel, as the PTX has it.
    pub(super) kernel: String,
    pub(super) form: Form,
    /// Core cycles from submission to the end of the last block: launch latency and kernel together; `None` without
    /// timing, as all times.
    pub(super) cycles: Option<u64>,
    /// The same as time of the core clock.
    pub(super) device_ns: Option<u64>,
    /// Core cycles from submission to the start of the first block.
    pub(super) launch_latency_cycles: Option<u64>,
    /// The same as time of the core clock.
    pub(super) launch_latency_ns: Option<u64>,
    /// Core cycles from the start of the first block to the end of the last one.
    pub(super) kernel_cycles: Option<u64>,
    /// The same as time of the core clock.
    pub(super) kernel_ns: Option<u64>,
    /// Launches, of whatever form.
    pub(super) slices: u64,
    pub(super) warp_instructions: u64,
    pub(super) thread_instructions: u64,
    /// Warp instructions per kernel cycle of the whole GPU.
    pub(super) ipc: Option<f64>,
    /// Processor time of the simulation.
    pub(super) cpu_seconds: f64,
    /// `None` for what a run without timing did not meet, or does not count.
    pub(super) counters: BTreeMap<&'static str, Option<u64>>,
    /// The rates that follow from counters and kernel cycles; `None` without timing.
    pub(super) rates: Option<BTreeMap<&'static str, f64>>,
    /// The nominal bandwidth of DRAM, in 10⁹ bytes per second.
    #[serde(skip)]
    pub(super) dram_peak: f64,
    /// Counters of each SM, memory behind L1 apart; empty without timing.
    pub(super) sms: Vec<BTreeMap<&'static str, u64>>,
    /// Lines of PTX at which most cycles were lost; `None` where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<Line>>,
}

/// The legend of the figures of a whole run, by their names in JSON; all but `ipc` are comma-separated values, too.
pub(super) const FIGURES: [Legend; 9] = [
    figure(
        "kernel_cycles",
        "cycles",
        "Core cycles from the start of the first block to the end of the last one, the waits between launches of one \
         form included; what tables and text call cycles.",
    ),
    figure(
        "kernel_ns",
        "ns",
        "`kernel_cycles` as time of the core clock.",
    ),
    figure(
        "launch_latency_cycles",
        "cycles",
        "Core cycles from submission to the start of the first block.",
    ),
    figure(
        "launch_latency_ns",
        "ns",
        "`launch_latency_cycles` as time of the core clock.",
    ),
    figure(
        "cycles",
        "cycles",
        "Core cycles from submission to the end of the last block: `launch_latency_cycles` and `kernel_cycles` \
         together.",
    ),
    figure("device_ns", "ns", "`cycles` as time of the core clock."),
    figure(
        "slices",
        "launches",
        "Launches that the form made of the kernel.",
    ),
    figure(
        "ipc",
        "instructions a cycle",
        "Warp instructions per kernel cycle of the whole GPU.",
    ),
    figure("cpu_seconds", "s", "Processor time of the simulation."),
];

const fn figure(name: &'static str, unit: &'static str, meaning: &'static str) -> Legend {
    Legend {
        name,
        unit,
        meaning,
    }
}

impl Report {
    pub(super) fn new(gpu: &Gpu, (kernel, form): (&str, Form), outcome: &Outcome) -> Self {
        let (config, counters) = (gpu.config(), &outcome.counters);
        let named = |counters: &Counters| counters.named().into_iter().collect();
        let latency = outcome.launch_latency_cycles;
        let timed = outcome.cycles.zip(latency);
        let timed = timed.map(|(cycles, latency)| cycles.saturating_sub(latency));
        let ns = |cycles: Option<u64>| cycles.map(|cycles| config.cycles_to_ns(cycles));
        Self {
            gpu: config.name.clone(),
            kernel: kernel.to_owned(),
            form,
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
            rates: timed.map(|cycles| {
                let rates = counters.rates(config, cycles).named();
                rates.into_iter().collect()
            }),
            dram_peak: config.dram.gigabytes_per_second,
            sms: timed.map_or_else(Vec::new, |_| gpu.sm_counters().iter().map(named).collect()),
            lines: None,
        }
    }

    /// Adds the lines at which most cycles were lost.
    pub(super) fn with_lines(self, lines: Vec<Line>) -> Self {
        Self {
            lines: Some(lines),
            ..self
        }
    }

    pub(super) fn text(&self) -> String {
        let rate = self.thread_instructions as f64 / self.cpu_seconds.max(1e-9) / 1e6;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let kernel = self.kernel_cycles.zip(self.kernel_ns);
        let latency = self.launch_latency_cycles.zip(self.launch_latency_ns);
        let _ = match (kernel, latency) {
            (Some((cycles, ns)), Some((latency, latency_ns))) => writeln!(
                text,
                "{}: {cycles} cycles ({ns} ns) from first block to last\n\
                 launch latency before it: {latency} cycles ({latency_ns} ns)",
                self.gpu
            ),
            _ => writeln!(text, "{}: results only, not timed", self.gpu),
        };
        text.push_str(&self.rates_text().unwrap_or_default());
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
        if let Some(lines) = &self.lines {
            let _ = write!(text, "\n{}", lines::text(lines));
        }
        text
    }

    /// Returns the rates that say most; `None` without timing.
    fn rates_text(&self) -> Option<String> {
        let rate = |name: &str| self.rates.as_ref()?.get(name).copied();
        let count = |name: &str| self.counters.get(name).copied().flatten();
        let hits = |cache: &str| {
            let asked = ["hit", "miss"].map(|how| count(&format!("{cache}_{how}_sectors")));
            match asked.into_iter().flatten().sum::<u64>() {
                0 => Some("not used".to_owned()),
                _ => Some(format!(
                    "{:.1} % hits",
                    100.0 * rate(&format!("{cache}_hit_rate"))?
                )),
            }
        };
        let (ipc, ipc_per_sm) = (rate("ipc")?, rate("ipc_per_sm")?);
        let (l2, dram) = (
            rate("l2_gigabytes_per_second")?,
            rate("dram_gigabytes_per_second")?,
        );
        Some(format!(
            "IPC {ipc_per_sm:.3} per SM, {ipc:.3} of the GPU; achieved occupancy {:.1} %\n\
             L1: {}; L2: {}, {l2:.1} GB/s\n\
             DRAM: {dram:.1} GB/s of {:.1} GB/s\n",
            100.0 * rate("occupancy")?,
            hits("l1")?,
            hits("l2")?,
            self.dram_peak,
        ))
    }
}
