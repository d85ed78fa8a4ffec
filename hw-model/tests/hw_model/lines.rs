//! Stalls by line add up to the time that warps were there and change nothing; a kernel that is loaded alone runs as it
//! does with others.

use crate::support::{Bench, Timed, kernel_of};
use gridmux_hw_model::{Counters, LineStalls};
use gridmux_workloads::{Size, by_name};
use std::collections::BTreeMap;

/// Runs a workload, watched or not; returns what it did, and its lines.
fn run(gpu: &str, name: &str, watched: bool) -> (Timed, Vec<LineStalls>) {
    let workload = by_name(name).expect("it exists");
    let mut bench = Bench::named(gpu);
    let kernel = kernel_of(&mut bench, workload);
    let case = workload.case(Size::Tiny, 1);
    let prepared = bench.prepare(&case);
    if watched {
        bench.gpu.watch_stalls(&kernel);
    }
    let launch = bench.launch(&kernel, &case, &prepared.params);
    let timed = bench.timed(launch);
    let lines = bench.gpu.line_stalls(&kernel);
    (timed, lines)
}

/// Returns stall cycles by counter, without those of schedulers that have no warp.
fn stalls(counters: &Counters) -> BTreeMap<&'static str, u64> {
    let named = counters.named().into_iter();
    let of_warps = |name: &str| name.starts_with("stall_") && name != "stall_empty_cycles";
    named.filter(|(name, _)| of_warps(name)).collect()
}

#[test]
fn lines_have_what_the_counters_have_and_change_nothing() {
    for gpu in ["h200", "gtx480"] {
        for name in ["vecadd", "matmul", "histogram"] {
            let (plain, none) = run(gpu, name, false);
            assert!(none.is_empty(), "nobody asked for lines");
            let (watched, lines) = run(gpu, name, true);
            assert_eq!(watched.cycles, plain.cycles, "{gpu} {name}");
            assert_eq!(watched.counters, plain.counters, "{gpu} {name}");
            let mut sums = BTreeMap::new();
            for (cause, cycles) in lines.iter().flat_map(|line| line.cycles) {
                *sums.entry(cause).or_insert(0) += cycles;
            }
            for (cause, counted) in stalls(&plain.counters) {
                assert!(sums[cause] >= counted, "{gpu} {name} {cause}: {sums:?}");
            }
        }
    }
}

#[test]
fn a_cycle_of_a_lone_warp_is_an_issue_or_a_stall_of_a_line() {
    let workload = by_name("vecadd").expect("it exists");
    let mut bench = Bench::named("h200");
    let kernel = kernel_of(&mut bench, workload);
    let case = workload.case(Size::Tiny, 1);
    let prepared = bench.prepare(&case);
    bench.gpu.watch_stalls(&kernel);
    let mut launch = bench.launch(&kernel, &case, &prepared.params);
    (launch.grid, launch.block) = ([1, 1, 1], [32, 1, 1]);
    let timed = bench.timed(launch);
    let counters = timed.counters;
    let lines = bench.gpu.line_stalls(&kernel);
    let stalled: u64 = lines.iter().map(LineStalls::total).sum();
    let issued = counters.warp_instructions - counters.folded_instructions;
    assert!(counters.block_cycles > 500, "it waits for memory");
    // A block that starts within an epoch waits for that from the epoch's beginning on.
    let beyond = (issued + stalled).checked_sub(counters.block_cycles);
    assert!(beyond.is_some_and(|beyond| beyond < 32), "{lines:?}");
}

#[test]
fn a_load_stalls_the_line_that_uses_it_and_a_barrier_its_own() {
    let most = |name: &str, counter: &str| {
        let (_, lines) = run("h200", name, true);
        let of = |line: &LineStalls| {
            let cycles = line.cycles.iter().find(|(name, _)| *name == counter);
            cycles.map_or(0, |(_, cycles)| *cycles)
        };
        let line = lines.iter().max_by_key(|line| of(line)).expect("it stalls");
        assert!(of(line) > 0, "{name}: {line:?}");
        let ptx = by_name(name).expect("it exists").ptx;
        let text = ptx.lines().nth(line.ptx_line as usize - 1);
        text.expect("a line of the text").trim().to_owned()
    };
    let memory = most("vecadd", "stall_memory_cycles");
    assert!(memory.starts_with("add.f32"), "{memory}");
    let barrier = most("matmul", "stall_barrier_cycles");
    assert!(barrier.starts_with("bar.sync"), "{barrier}");
}

/// Returns a kernel that the model refuses, one more, and `vecadd`.
fn three_kernels() -> String {
    let vecadd = by_name("vecadd").expect("it exists").ptx;
    let (header, kernel) = vecadd.split_at(vecadd.find(".visible .entry").expect("it has one"));
    let refused =
        ".visible .entry refused()\n{\n.reg .b32 %r<2>;\nfrobnicate.u32 %r1, 1;\nret;\n}\n";
    let other = kernel.replace("vecadd", "other");
    format!("{header}{refused}{other}{kernel}")
}

#[test]
fn a_kernel_that_is_loaded_alone_takes_the_cycles_that_it_takes_with_others() {
    let text = three_kernels();
    let module = gridmux_ptx::Module::parse(text.as_str()).expect("it is PTX");
    let program = module.decode().expect("it decodes");
    let case = by_name("vecadd").expect("it exists").case(Size::Tiny, 1);
    for gpu in ["h200", "gtx480"] {
        let mut counted = Vec::new();
        for alone in [false, true] {
            let mut bench = Bench::named(gpu);
            let (domain, bytes) = (bench.domain, text.as_bytes());
            let loaded = match alone {
                true => bench.gpu.load_one(domain, (&program, bytes), "vecadd"),
                false => bench.gpu.load_each(domain, &program, bytes),
            };
            let loaded = loaded.expect("its variables have their places");
            let kernel = loaded.kernel("vecadd").expect("it can run");
            let prepared = bench.prepare(&case);
            let launch = bench.launch(&kernel, &case, &prepared.params);
            let timed = bench.timed(launch);
            counted.push((timed.cycles, timed.counters));
            if alone && gpu == "h200" {
                assert_eq!(loaded.kernels().len(), 1);
                assert!(loaded.refused().is_empty());
            }
        }
        assert_eq!(counted[0], counted[1], "{gpu}");
    }
}
