//! Every workload gives its reference's results, functionally and timed, and its reference refuses others.

use crate::support::{Bench, functional, kernel_of, part_of};
use gridmux_workloads::{Case, Size, Workload, workloads};

/// Returns what a case leaves in its outputs when it is run functionally.
fn outputs(workload: &Workload, case: &Case) -> Vec<Vec<u8>> {
    let mut bench = Bench::small();
    let kernel = kernel_of(&mut bench, workload);
    let prepared = bench.prepare(case);
    let launch = bench.launch(&kernel, case, &prepared.params);
    functional(&mut bench, &launch);
    bench.outputs(&prepared)
}

#[test]
fn every_workload_matches_its_reference_functionally() {
    for workload in workloads() {
        for size in [Size::Tiny, Size::Small] {
            for seed in 1..4 {
                let case = workload.case(size, seed);
                case.verify(&outputs(workload, &case))
                    .unwrap_or_else(|error| panic!("{} {size} {seed}: {error}", workload.name));
            }
        }
    }
}

#[test]
fn references_refuse_one_changed_value() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 9);
        let right = outputs(workload, &case);
        case.verify(&right)
            .unwrap_or_else(|error| panic!("{}: {error}", workload.name));
        for output in 0..right.len() {
            let mut wrong = right.clone();
            let last_value = wrong[output].len() - 4;
            // Exponent, sign or a high bit: a difference that no tolerance covers.
            wrong[output][last_value + 3] ^= 0x41;
            case.verify(&wrong).expect_err(workload.name);
        }
    }
}

#[test]
fn every_workload_matches_its_reference_timed() {
    for gpu in ["h200", "gtx480"] {
        for workload in workloads() {
            for size in [Size::Tiny, Size::Small] {
                let case = workload.case(size, 2);
                let (timed, outputs) = Bench::new(part_of(gpu, 4)).run(&case);
                case.verify(&outputs)
                    .unwrap_or_else(|error| panic!("{gpu} {} {size}: {error}", workload.name));
                println!(
                    "{gpu} {} {size}: {} cycles, {} thread instructions",
                    workload.name, timed.cycles, timed.counters.thread_instructions
                );
            }
        }
    }
}
