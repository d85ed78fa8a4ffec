//! Every workload gives its reference's results, functionally and timed.

use crate::support::{Bench, functional, kernel_of};
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::{Size, workloads};

/// Returns a part of a chip with 4 SMs, which has every unit of the whole.
fn part(gpu: &str) -> GpuConfig {
    GpuConfig::builtin(gpu).expect("built in").scaled_to_sms(4)
}

#[test]
fn every_workload_matches_its_reference_functionally() {
    for workload in workloads() {
        for size in [Size::Tiny, Size::Small] {
            let mut bench = Bench::small();
            let kernel = kernel_of(&mut bench, workload);
            let case = workload.case(size, 1);
            let prepared = bench.prepare(&case);
            let launch = bench.launch(&kernel, &case, &prepared.params);
            functional(&mut bench, &launch);
            case.verify(&bench.outputs(&prepared))
                .unwrap_or_else(|error| panic!("{} {size}: {error}", workload.name));
        }
    }
}

#[test]
fn every_workload_matches_its_reference_timed() {
    for gpu in ["h200", "gtx480"] {
        for workload in workloads() {
            for size in [Size::Tiny, Size::Small] {
                let mut bench = Bench::new(part(gpu));
                let kernel = kernel_of(&mut bench, workload);
                let case = workload.case(size, 2);
                let prepared = bench.prepare(&case);
                let timed = bench.timed(bench.launch(&kernel, &case, &prepared.params));
                case.verify(&bench.outputs(&prepared))
                    .unwrap_or_else(|error| panic!("{gpu} {} {size}: {error}", workload.name));
                println!(
                    "{gpu} {} {size}: {} cycles, {} thread instructions",
                    workload.name, timed.cycles, timed.counters.thread_instructions
                );
            }
        }
    }
}
