//! Kernels that nobody wrote: 100 seeds leave the same memory functionally, as written, and timed, as an assembler
//! leaves them.

use crate::support::{Bench, functional, part_of};
use gridmux_hw_model::config::Assembler;
use gridmux_hw_model::{Launch, Level, QueueId};
use gridmux_testkit::generate::generate;

/// `tests/tests` runs more of them, in every form.
const SEEDS: u64 = 100;

/// Returns the bytes of every buffer.
fn run(seed: u64, timed: bool) -> Vec<Vec<u8>> {
    let kernel = generate(seed);
    // Each chip has another order of blocks and warps.
    let name = ["v100", "gtx480", "h200"][usize::try_from(seed % 3).expect("small")];
    let mut config = part_of(name, 4);
    config.assembler = Assembler {
        wide_loads: timed,
        early_loads: if timed { 8 } else { 0 },
    };
    let mut bench = Bench::new(config);
    let loaded = bench
        .try_kernel(&kernel.ptx, kernel.entry)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let prepared = bench.place(&kernel.args);
    let launch = Launch {
        queue: QueueId(0),
        level: Level::LOWEST,
        tag: 1,
        domain: bench.domain,
        kernel: loaded,
        grid: kernel.grid,
        block: kernel.block,
        dynamic_shared_bytes: kernel.dynamic_shared_bytes,
        params: &prepared.params,
        budget: None,
    };
    if timed {
        let done = bench.time(launch);
        done.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    } else {
        functional(&mut bench, &launch);
    }
    bench.buffers(&prepared)
}

#[test]
fn generated_kernels_leave_the_same_memory_functionally_and_timed() {
    for seed in 0..SEEDS {
        let (functional, timed) = (run(seed, false), run(seed, true));
        for (n, (a, b)) in functional.iter().zip(&timed).enumerate() {
            let differs = a.iter().zip(b).position(|(a, b)| a != b);
            assert_eq!(
                differs, None,
                "seed {seed}: first differing byte of buffer {n}"
            );
        }
    }
}
