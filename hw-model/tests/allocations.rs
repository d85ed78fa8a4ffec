//! Once its buffers have grown, the model runs a launch without asking the allocator for anything.
//!
//! A binary of its own, because the allocator that counts is the whole process's.

#[path = "hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::{Advance, QueueId};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_testkit::allocator::{CountingAllocator, calls, held_bytes};
use gridmux_workloads::{Size, by_name};
use std::fmt::Write as _;
use std::sync::Mutex;
use support::{Bench, kernel_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One test at a time, because the allocator counts what the whole process holds.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn what_a_module_takes_is_no_more_than_it_says() {
    let _turn = TURN.lock().unwrap();
    let mut bench = Bench::named("gtx480");
    let domain = bench.domain;
    for (kernels, instructions) in [(1, 20_000), (100, 10), (1000, 1)] {
        let mut text = String::from(".version 7.0\n.target sm_70\n.address_size 64\n");
        for n in 0..kernels {
            let body = "mad.lo.u32 %r, %r, 3, 7;\n@%p bra L;\n".repeat(instructions);
            let begin =
                format!(".visible .entry k{n}(.param .u64 p) {{\n.reg .u32 %r;\n.reg .pred %p;\n");
            let padding = "/".repeat(128);
            write!(text, "//{padding}\n{begin}{body}L: ret;\n}}\n").unwrap();
        }
        let program = Module::parse(text.as_str()).unwrap().decode().unwrap();
        let before = held_bytes();
        let loaded = bench.gpu.load(domain, &program, text.as_bytes()).unwrap();
        let took = held_bytes() - before;
        let said = usize::try_from(loaded.host_bytes()).unwrap();
        println!("{kernels} kernels of {instructions} pairs: {said} said, {took} taken");
        assert!(took <= said && said < took * 2, "{said} said, {took} taken");
    }
}

#[test]
fn a_warm_launch_allocates_nothing() {
    let _turn = TURN.lock().unwrap();
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
