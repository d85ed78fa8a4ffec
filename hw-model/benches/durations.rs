//! How long the workloads take on the model, alone, at their `large` size.
//!
//! `durations/GPU/WORKLOAD`: from the start of the first block to the end of the last one, in microseconds; the floor
//! is what its instructions take if every issue slot is used, or what its DRAM traffic takes at full bandwidth,
//! whichever is longer. `durations/GPU/span` is the longest duration over the shortest, without `pointer_chase`, whose
//! blocks have one thread. Arguments that name a benchmark's part select it, the span apart, which needs all.

#[path = "../tests/hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::{Counters, GpuConfig};
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_workloads::{Size, Workload, workloads};
use support::{Bench, kernel_of};

/// Returns the cycles from the first block's start to the last one's end, and what was counted.
fn timed(config: &GpuConfig, workload: &Workload) -> (u64, Counters) {
    let mut bench = Bench::new(config.clone());
    let kernel = kernel_of(&mut bench, workload);
    let case = workload.case(Size::Large, 1);
    let prepared = bench.prepare(&case);
    let done = bench.time(bench.launch(&kernel, &case, &prepared.params));
    let done = done.unwrap_or_else(|fault| panic!("{}: {fault}", workload.name));
    (done.ran, done.counters)
}

/// Returns the least cycles that the GPU needs for what was counted.
fn floor_cycles(config: &GpuConfig, counters: &Counters) -> f64 {
    let rates = counters.rates(config, 1);
    rates.pur.max(rates.mur)
}

fn main() {
    let chosen = Chosen::by_arguments();
    for gpu in ["gtx980", "h200"] {
        let config = GpuConfig::builtin(gpu).expect("built in");
        let mhz = f64::from(config.clock.core_mhz);
        let mut durations: Vec<f64> = Vec::new();
        for workload in workloads() {
            let name = format!("durations/{gpu}/{}", workload.name);
            if !chosen.has(&name) {
                continue;
            }
            let (cycles, counters) = timed(&config, workload);
            let (value, floor) = (cycles as f64 / mhz, floor_cycles(&config, &counters) / mhz);
            Figure::lower(&name, value, "us").floor(floor).print();
            if workload.name != "pointer_chase" {
                durations.push(value);
            }
        }
        if chosen.is_all() {
            let longest = durations.iter().copied().fold(0.0, f64::max);
            let shortest = durations.iter().copied().fold(f64::INFINITY, f64::min);
            let span = longest / shortest;
            Figure::lower(&format!("durations/{gpu}/span"), span, "times").print();
        }
    }
}
