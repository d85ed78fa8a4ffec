//! Every workload gives its reference's results, functionally and timed.

mod support;

use gridmux_workloads::{Size, workloads};
use support::{Bench, functional, kernel_of};

#[test]
fn every_workload_matches_its_reference_functionally() {
    for workload in workloads() {
        for size in [Size::Tiny, Size::Small] {
            let mut bench = Bench::named("h200");
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
