//! Cycles of six kernels beside those of GPGPU-Sim 4.2 with the configurations that it publishes.
//!
//! One JSON line per GPU and kernel: our cycles, theirs as the peer, and the ratio. Shapes are theirs, kernels our own
//! (`workloads/`), so instruction counts differ: GPGPU-Sim executes every PTX instruction, moves, conversions of
//! addresses and loads of parameters included, while the model folds those that ptxas makes none of. Launch latency
//! is subtracted on both sides: 5000 cycles of theirs on V100; their GTX 480 configuration has none.
//! Where shapes are not told (the length of the FMA loop, values in a row of the matrix), one was taken with which both
//! chips fit; nothing else is fitted to a kernel.
//!
//! For the GTX 480 each kernel is run again with one part of the description taken away, which shows what the part is
//! worth: `without_front_end` (instruction buffers, one fetch a cycle, 2 KB of instruction cache),
//! `without_collectors`, `with_full_bursts` (no DRAM burst is longer than the sector that it is for) and
//! `with_fetch_on_write`. `ordinary_functions` is Black-Scholes as a program has it that does not ask for the
//! approximate functions by name.
//!
//! What lies behind each difference above 15 %:
//! - `gtx480/black_scholes`, 0.73: the kernel. Ours asks for the approximate functions by name, 95 PTX instructions a
//!   thread; with `expf`, `logf`, `sqrtf` and IEEE division it has 165, and the row `ordinary_functions` comes to
//!   0.87. The front end is worth 0.07 of it, because each line of code is first fetched from DRAM.
//! - `v100/black_scholes`, 0.83 (0.80 with ordinary functions): unexplained beyond this: its configuration has no
//!   instruction cache misses, and reciprocals and roots of full precision, which take 100 cycles each there, are
//!   sequences on the single-precision units here.
//! - `spmv`, 1.38 and 0.75: the matrix is ours, 20 values a row at random columns, and theirs is not known. None of the
//!   four parts moves the GTX 480's figure by more than 0.01. Both chips are within a factor of two with one matrix.

#[path = "../tests/support/mod.rs"]
mod support;

use gridmux_hw_model::GpuConfig;
use gridmux_workloads::{Arg, Params, Role, by_name};
use support::{Bench, kernel_of};

/// Kernel, its size, rounds, and GPGPU-Sim's cycles on V100 and GTX 480.
const ROWS: [(&str, u32, u32, u64, u64); 6] = [
    ("vecadd", 256 << 10, 0, 8406, 21196),
    ("reduction", 1 << 20, 0, 12076, 36627),
    ("spmv", 16 << 10, 8, 16534, 332_416),
    ("black_scholes", 64 << 10, 0, 8185, 19582),
    ("fma_loop", 64 << 10, 3, 7773, 21118),
    ("matmul", 256, 0, 31341, 122_016),
];
/// Values in a row of the sparse matrix.
const ROW: u32 = 20;
/// Launch latency in their V100 figures.
const LAUNCH: u64 = 5000;

/// Black-Scholes with `expf`, `logf`, `sqrtf` and IEEE division, made from the `.cu` beside it by `nvcc -ptx -arch=sm_80`.
const ORDINARY: &str = include_str!("gpgpusim/black_scholes.ptx");

/// A part of a description that is taken away, to see what it is worth.
type Change = (&'static str, fn(&mut GpuConfig));

const CHANGES: [Change; 9] = [
    ("without_reserved_lines", |config| {
        config.l1.reserves = false
    }),
    ("without_front_end", |config| config.fetch = None),
    ("with_parameters_at_hand", |config| {
        config.sm.parameters_cached = false;
    }),
    ("with_collectors", |config| config.sm.collectors = 6),
    ("with_buffers_enough", |config| config.dram.buffers = 0),
    ("without_bank_groups", |config| config.dram.timing.ccdl = 0),
    ("without_turnaround", |config| config.dram.timing.turn = 0),
    ("without_refresh", |config| config.dram.timing.refi = 0),
    ("with_a_burst_for_each_sector", |config| {
        config.dram.burst_bytes = 32;
        config.dram.gigabytes_per_second /= 2.0;
    }),
];

fn cycles(config: GpuConfig, name: &str, elements: u32, rounds: u32, ordinary: bool) -> u64 {
    let gpu = config.name.clone();
    let launch = u64::from(config.launch.kernel_cycles);
    let mut bench = Bench::new(config);
    let workload = by_name(name).expect("in the table");
    let kernel = if ordinary {
        bench.kernel(ORDINARY, name)
    } else {
        kernel_of(&mut bench, workload)
    };
    let params = Params {
        elements,
        rounds,
        seed: 1,
    };
    let mut case = workload.case_with(params).expect("within limits");
    if name == "spmv" {
        case.args = sparse(elements);
    }
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

/// A sparse matrix of `rows` rows with [`ROW`] values each at random columns, a vector, and the result.
fn sparse(rows: u32) -> Vec<Arg> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(state >> 33).unwrap_or(0)
    };
    let words = |values: Vec<u32>| values.iter().flat_map(|w| w.to_le_bytes()).collect();
    let buffer = |bytes: Vec<u8>, role| Arg::Buffer { bytes, role };
    let columns = (0..rows * ROW).map(|_| random() % rows).collect();
    let ones = |count: u32| vec![1.0_f32.to_bits(); count as usize];
    vec![
        buffer(words((0..=rows).map(|row| row * ROW).collect()), Role::In),
        buffer(words(columns), Role::In),
        buffer(words(ones(rows * ROW)), Role::In),
        buffer(words(ones(rows)), Role::In),
        buffer(words(vec![0; rows as usize]), Role::Out),
        Arg::U32(rows),
    ]
}

fn print(title: &str, ours: u64, theirs: u64) {
    #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
    let ratio = ours as f64 / theirs as f64;
    println!(
        "{{\"name\":\"{title}\",\"value\":{ours},\"unit\":\"cycles\",\"better\":\"lower\",\
         \"floor\":null,\"ratio\":{ratio:.3},\"peer\":{{\"GPGPU-Sim 4.2\":{theirs}}}}}"
    );
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
            let config = GpuConfig::builtin(gpu).expect("built in");
            let ordinary = name == "black_scholes";
            let ours = cycles(config.clone(), name, elements, rounds, ordinary);
            print(&title, ours, theirs);
            if ordinary {
                let ours = cycles(config.clone(), name, elements, rounds, false);
                print(&format!("{title}/approximate_functions"), ours, theirs);
            }
            for (part, change) in CHANGES.iter().filter(|_| gpu == "gtx480") {
                let mut config = config.clone();
                change(&mut config);
                let ours = cycles(config, name, elements, rounds, ordinary);
                print(&format!("{title}/{part}"), ours, theirs);
            }
        }
    }
}
