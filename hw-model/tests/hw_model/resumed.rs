//! A functional run in parts computes what it computes at once, and kernels of a module are judged each for itself.

use crate::support::flow::module;
use crate::support::{Bench, functional, kernel_of};
use gridmux_hw_model::{FaultKind, RunError};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, workloads};

#[test]
fn parts_of_a_run_add_up_to_the_whole() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 5);
        let mut bench = Bench::named("h200");
        let kernel = kernel_of(&mut bench, workload);
        let prepared = bench.prepare(&case);
        let launch = bench.launch(&kernel, &case, &prepared.params);
        let whole = functional(&mut bench, &launch);
        let expected = bench.outputs(&prepared);
        for most in [1, 1000] {
            let prepared = bench.prepare(&case);
            let launch = bench.launch(&kernel, &case, &prepared.params);
            let mut run = bench.gpu.begin_functional(&launch).expect("accepted");
            let mut parts = 1;
            while !bench
                .gpu
                .step_functional(&mut run, most)
                .unwrap_or_else(|error| panic!("{}: {error}", workload.name))
            {
                parts += 1;
            }
            assert!(parts > 1 || most > 1, "{}", workload.name);
            assert_eq!(bench.gpu.end_functional(run), whole, "{}", workload.name);
            assert_eq!(bench.outputs(&prepared), expected, "{}", workload.name);
        }
    }
}

#[test]
fn two_runs_take_turns_and_one_that_is_given_up_leaves_the_other_alone() {
    let workload = gridmux_workloads::by_name("reduction").expect("it is in the table");
    let case = workload.case(Size::Tiny, 5);
    let mut bench = Bench::named("h200");
    let kernel = kernel_of(&mut bench, workload);
    let prepared = [0, 1].map(|_| bench.prepare(&case));
    let [mut kept, mut dropped] = [0, 1].map(|n| {
        let launch = bench.launch(&kernel, &case, &prepared[n].params);
        bench.gpu.begin_functional(&launch).expect("accepted")
    });
    for _ in 0..2 {
        assert!(!bench.gpu.step_functional(&mut dropped, 1).expect("it runs"));
        assert!(!bench.gpu.step_functional(&mut kept, 1).expect("it runs"));
    }
    bench.gpu.end_functional(dropped);
    while !bench.gpu.step_functional(&mut kept, 1).expect("it runs") {}
    case.verify(&bench.outputs(&prepared[0]))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_budget_counts_the_instructions_of_all_parts() {
    let mut bench = Bench::named("h200");
    let kernel = bench.kernel(&module("", "again:\nbra.uni again;"), "k");
    let params = [0; 8];
    let mut launch = bench.simple(&kernel, 1, 32, &params);
    launch.budget = Some(Cycles(50_000));
    let mut run = bench.gpu.begin_functional(&launch).expect("accepted");
    let fault = loop {
        match bench.gpu.step_functional(&mut run, 1) {
            Ok(is_over) => assert!(!is_over),
            Err(RunError::Fault(fault)) => break fault,
            Err(other) => panic!("{other}"),
        }
    };
    let budget_instructions = 50_000;
    let expected = FaultKind::InstructionBudgetExceeded {
        budget_instructions,
    };
    assert_eq!(fault.kind, expected);
    let text = fault.to_string();
    assert!(
        text.ends_with("budget of 50000 warp instructions"),
        "{text}"
    );
    let counters = bench.gpu.end_functional(run);
    assert!((50_000..100_000).contains(&counters.warp_instructions));
}

#[test]
fn a_kernel_that_is_not_modelled_is_named_and_the_others_run() {
    let good = module("", "st.global.u32 [%rd2], 7;");
    let start = good.find(".visible").expect("it is there");
    let bad = good[start..]
        .replace("entry k(", "entry bad(")
        .replace("st.global", "wgmma.fence.sync.aligned;\nst.global");
    let text = format!("{good}{bad}");
    let parsed = gridmux_ptx::Module::parse(&*text).expect("it is PTX");
    let program = parsed.decode().expect("it is PTX");
    let mut bench = Bench::named("h200");
    let error = bench.gpu.load(bench.domain, &program, text.as_bytes());
    let error = error.map(drop).expect_err("one kernel cannot run");
    assert_eq!(bench.gpu.memory().used_bytes(bench.domain), Ok(0));
    let loaded = bench.gpu.load_each(bench.domain, &program, text.as_bytes());
    let loaded = loaded.expect("the other one can");
    let [(name, reason)] = loaded.refused() else {
        panic!("{:?}", loaded.refused());
    };
    assert_eq!(
        (name.as_str(), reason.to_string()),
        ("bad", error.to_string())
    );
    assert!(loaded.kernel("bad").is_none());
    let kernel = loaded.kernel("k").expect("it can run");
    let out = bench.buffer(&[0; 128]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 32, &params);
    functional(&mut bench, &launch);
    assert_eq!(bench.words(out, 2), [7, 7]);
}
