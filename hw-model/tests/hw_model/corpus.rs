//! Kernels that nvcc, NVRTC, clang and Triton compiled from sources of ours give their references' results.

use crate::support::Bench;
use gridmux_hw_model::run_functional;
use gridmux_workloads::corpus::{Kernel, kernels};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a kernel's launch ended.
enum Outcome {
    Right,
    /// Something in it is not modelled, or it faulted.
    Refused(String),
    Wrong(String),
}

fn run(kernel: &Kernel, seed: u64) -> Outcome {
    let mut bench = Bench::small();
    let loaded = match bench.try_kernel(kernel.ptx, kernel.entry) {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let case = kernel.case(seed);
    let prepared = bench.prepare(&case);
    let launch = bench.launch(&loaded, &case, &prepared.params);
    // Seeds that are odd run without timing, the others with.
    let done = if seed % 2 == 1 {
        run_functional(&mut bench.gpu, &launch)
            .map(drop)
            .map_err(|error| error.to_string())
    } else {
        bench
            .time(launch)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    if let Err(error) = done {
        return Outcome::Refused(error);
    }
    match case.verify(&bench.outputs(&prepared)) {
        Ok(()) => Outcome::Right,
        Err(error) => Outcome::Wrong(error.to_string()),
    }
}

#[test]
fn every_kernel_of_the_corpus_matches_its_reference() {
    let mut bad = Vec::new();
    let mut runs = 0;
    for kernel in kernels() {
        for seed in [1, 2] {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(kernel, seed)));
            let mode = if seed == 1 { "functional" } else { "timed" };
            runs += 1;
            match outcome.unwrap_or_else(|_| Outcome::Refused("a panic".to_owned())) {
                Outcome::Right => {}
                Outcome::Refused(why) => {
                    bad.push(format!("{} {mode}: not run: {why}", kernel.name))
                }
                Outcome::Wrong(why) => bad.push(format!("{} {mode}: wrong: {why}", kernel.name)),
            }
        }
    }
    println!("{} of {runs} runs match", runs - bad.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
