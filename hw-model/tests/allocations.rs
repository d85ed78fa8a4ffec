//! Once its buffers have grown, the model runs a launch without asking the allocator for anything.

#[path = "hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::{Advance, QueueId};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, by_name};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Bench, kernel_of};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system allocator unchanged; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: the counter is read by the thread that increments it.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Relaxed: as in `alloc`.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let mut launch = bench.launch(&kernel, &case, &prepared.params);
            (launch.tag, launch.queue) = (tag, QueueId(3));
            bench.gpu.launch(launch).expect("accepted");
            while bench
                .gpu
                .advance(Cycles(bench.gpu.now().0 + 1_000_000_000), &mut reports)
                != Advance::Idle
            {}
            reports.clear();
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        // Blocks land on other slots in each run, so it takes some runs until every slot's buffers have grown.
        let counts: Vec<u64> = (0..24).map(&mut run).collect();
        println!("{name}: allocations by run: {counts:?}");
        assert!(
            counts[20..].iter().all(|count| *count == 0),
            "{name}: {counts:?}"
        );
    }
}
