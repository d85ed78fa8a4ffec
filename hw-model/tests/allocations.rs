//! Once its buffers have grown, the model runs a launch without asking the allocator for anything.
//!
//! A binary of its own, because the allocator that counts is the whole process's.

#[path = "hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::{Advance, QueueId};
use gridmux_policy::units::Cycles;
use gridmux_testkit::allocator::{CountingAllocator, calls};
use gridmux_workloads::{Size, by_name};
use support::{Bench, kernel_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_warm_launch_allocates_nothing() {
    for name in ["matmul", "spmv", "reduction", "stencil3d"] {
        let mut bench = Bench::named("gtx480");
        let workload = by_name(name).expect("in the table");
        let kernel = kernel_of(&mut bench, workload);
        let case = workload.case(Size::Small, 1);
        let prepared = bench.prepare(&case);
        let mut reports = Vec::with_capacity(1 << 16);
        let mut run = |tag: u64| {
            let before = calls();
            let mut launch = bench.launch(&kernel, &case, &prepared.params);
            (launch.tag, launch.queue) = (tag, QueueId(3));
            bench.gpu.launch(launch).expect("accepted");
            while bench
                .gpu
                .advance(Cycles(bench.gpu.now().0 + 1_000_000_000), &mut reports)
                != Advance::Idle
            {}
            reports.clear();
            calls() - before
        };
        // Blocks land on other slots in each run, so it takes some runs until every slot's buffers have grown.
        let counts: Vec<u64> = (0..24).map(&mut run).collect();
        println!("{name}: calls by run: {counts:?}");
        assert!(
            counts[20..].iter().all(|count| *count == 0),
            "{name}: {counts:?}"
        );
    }
}
