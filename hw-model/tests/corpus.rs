//! Kernels that nvcc, NVRTC, clang and Triton compiled from sources of ours give their references' results.

mod support;

use gridmux_hw_model::run_functional;
use gridmux_workloads::corpus::{Kernel, kernels};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::Bench;

/// How a kernel's launch ended.
enum Outcome {
    Right,
    /// Something in it is not modelled, or it faulted.
    Refused(String),
    Wrong(String),
}

fn run(kernel: &Kernel, seed: u64) -> Outcome {
    let mut bench = Bench::named("h200");
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

/// The bar: at least so many kernels run and match.
const LEAST: usize = 40;

#[test]
fn kernels_of_the_corpus_match_their_references() {
    let mut right = 0;
    let mut wrong = Vec::new();
    for kernel in kernels() {
        for seed in [1, 2] {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(kernel, seed)));
            match outcome.unwrap_or_else(|_| Outcome::Refused("a panic".to_owned())) {
                Outcome::Right => right += usize::from(seed == 1),
                Outcome::Refused(why) if seed == 1 => println!("not run: {}: {why}", kernel.name),
                Outcome::Refused(_) => {}
                Outcome::Wrong(error) => {
                    wrong.push(format!("{} seed {seed}: {error}", kernel.name))
                }
            }
        }
    }
    println!("{right} of {} kernels match", kernels().count());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right >= LEAST, "only {right} kernels run");
}
