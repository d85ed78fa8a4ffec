//! Cycles of six kernels beside those of GPGPU-Sim 4.2 with the configurations that it publishes.
//!
//! One JSON line per GPU and kernel: our cycles, theirs as the peer, and the ratio. Shapes are theirs, kernels our own
//! (`workloads/`), so instruction counts differ: GPGPU-Sim executes every PTX instruction, moves, conversions of
//! addresses and loads of parameters included, while the model folds those that ptxas makes none of. Launch latency
//! is subtracted on both sides: 5000 cycles of theirs on V100; their GTX 480 configuration has none.
//! GPGPU-Sim fills L2 with what is copied to the device (its option `gpgpu_perf_sim_memcpy`, on by default), so every
//! run here begins with the inputs read once (`gpgpusim/warm.ptx`). Row `cold` begins with an empty L2; rows of another
//! variant are repeated with the last change of the description.
//! Where shapes are not told (the length of the FMA loop, values in a row of the matrix), one was taken with which both
//! chips fit; nothing else is fitted to a kernel.
//!
//! For the GTX 480 each kernel is run again with one part of the description changed, which shows what the part is
//! worth: `without_front_end` (instruction buffers, one fetch a cycle, 2 KB of instruction cache),
//! `without_parameter_misses` (parameters are at hand), `without_reserved_lines` (a full set of L1 holds nobody up),
//! `without_buffer_limit`, `without_bank_groups`, `without_turnaround`, `without_refresh` (DRAM), `with_collectors`
//! (GPGPU-Sim's 6, each held a cycle for each source) and `with_a_burst_for_each_sector` (GPGPU-Sim's 64-byte bursts,
//! each for one sector of 32 bytes). `as_gpgpu_sim_has_it` has these bursts and collectors, and no refresh.
//! For the V100, `with_moves_executed` executes every PTX instruction, as GPGPU-Sim does.
//! `ordinary_functions` is Black-Scholes as a program has it that does not ask for the approximate functions by name;
//! `N_values_a_row` is the sparse product with another matrix.
//!
//! With L2 warm on both sides the model takes about half of GPGPU-Sim's cycles for `vecadd` and `reduction` on the V100
//! and two thirds for `black_scholes`, while from an empty L2 (rows `cold`) it takes 0.83 to 0.93 of these same cycles.
//! So in GPGPU-Sim these kernels seem to gain little from what its copies left in L2. Why is not known; its cycles with
//! that option off would say whether its L2 is slower, or not as warm as its option says.
//!
//! What lies behind each other difference above 15 %, found from an empty L2:
//! - `gtx480/vecadd` and `gtx480/reduction`: bandwidth. GPGPU-Sim's L2 asks DRAM for one sector at a time, and each
//!   takes a burst of twice its length, so that it reaches half of the card's 177.4 GB/s at most. The model's
//!   description has the card's bandwidth, and sectors that lie in one burst share it. Row
//!   `with_a_burst_for_each_sector` has GPGPU-Sim's bandwidth instead and lies on the other side of its cycles.
//! - `black_scholes` on both: the kernel. Ours asks for the approximate functions by name, 95 PTX instructions a
//!   thread; with `expf`, `logf`, `sqrtf` and IEEE division it has 165 (row `ordinary_functions`), and on the GTX 480
//!   it comes within 15 % where bandwidth and collectors are GPGPU-Sim's besides (row
//!   `ordinary_functions/as_gpgpu_sim_has_it`). On the V100 GPGPU-Sim also executes what ptxas makes no instruction of,
//!   and the difference is below 15 % where the model does (row `with_moves_executed`).
//! - `spmv` on both: the matrix. Ours has 20 values a row at random columns; theirs is not known. The rows with 16 and
//!   with 26 values lie on either side of GPGPU-Sim's cycles on both chips, while no part of the GTX 480's description
//!   moves its figure by more than 3 %.
//!
//! No row has global atomic operations, because no cycles of GPGPU-Sim are published for such a kernel. A warp issues
//! nothing there while one of its atomic operations is under way, which its source calls not required for accurate
//! timing (`shd_warp_t::waiting` in `src/gpgpu-sim/shader.cc`, commit 667834c); a card's warp goes on, and so does the
//! model's.

#[path = "../tests/hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::GpuConfig;
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_workloads::{Arg, Params, Role, by_name};
use serde_json::json;
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

/// Black-Scholes with `expf`, `logf`, `sqrtf` and IEEE division, made from the `.cu` beside it by
/// `nvcc -ptx -arch=sm_80`.
const ORDINARY: &str = include_str!("gpgpusim/black_scholes.ptx");

/// Reads a buffer once, one thread for each sector.
const WARM: &str = include_str!("gpgpusim/warm.ptx");

/// A part of a description that is taken away, to see what it is worth.
type Change = (&'static str, fn(&mut GpuConfig));

const VOLTA: &[Change] = &[("with_moves_executed", |config| {
    config.sm.folds_moves = false;
})];

const FERMI: &[Change] = &[
    ("without_front_end", |config| config.fetch = None),
    ("without_parameter_misses", |config| {
        config.sm.parameters_cached = false;
    }),
    ("without_reserved_lines", |config| {
        config.l1.reserves = false
    }),
    ("without_buffer_limit", |config| config.dram.buffers = 0),
    ("without_bank_groups", |config| config.dram.timing.ccdl = 0),
    ("without_turnaround", |config| config.dram.timing.turn = 0),
    ("without_refresh", |config| config.dram.timing.refi = 0),
    ("with_collectors", |config| config.sm.collectors = 6),
    ("with_a_burst_for_each_sector", bursts_for_sectors),
    ("as_gpgpu_sim_has_it", |config| {
        bursts_for_sectors(config);
        config.sm.collectors = 6;
        config.dram.timing.refi = 0;
    }),
];

fn bursts_for_sectors(config: &mut GpuConfig) {
    config.dram.burst_bytes = 32;
    config.dram.gigabytes_per_second /= 2.0;
}

/// One kernel at one size.
#[derive(Clone, Copy)]
struct Run {
    name: &'static str,
    elements: u32,
    rounds: u32,
    /// Values in a row of the sparse matrix.
    values: u32,
    /// Black-Scholes with ordinary functions.
    ordinary: bool,
    /// With an empty L2.
    cold: bool,
}

impl Run {
    /// Returns the run's variants, each with the name of its row.
    fn others(self) -> Vec<(&'static str, Self)> {
        let mut others = vec![("cold", Self { cold: true, ..self })];
        let ordinary = Self {
            ordinary: true,
            ..self
        };
        match self.name {
            "black_scholes" => others.push(("ordinary_functions", ordinary)),
            "spmv" => others.extend([
                ("16_values_a_row", Self { values: 16, ..self }),
                ("26_values_a_row", Self { values: 26, ..self }),
            ]),
            _ => {}
        }
        others
    }
}

fn cycles(config: GpuConfig, run: &Run) -> u64 {
    let Run { name, .. } = *run;
    let gpu = config.name.clone();
    let launch = u64::from(config.launch.kernel_cycles);
    let mut bench = Bench::new(config);
    let workload = by_name(name).expect("in the table");
    let kernel = if run.ordinary {
        bench.kernel(ORDINARY, name)
    } else {
        kernel_of(&mut bench, workload)
    };
    let params = Params {
        elements: run.elements,
        rounds: run.rounds,
        seed: 1,
    };
    let mut case = workload.case_with(params).expect("within limits");
    if name == "spmv" {
        case.args = sparse(run.elements, run.values);
    }
    let prepared = bench.prepare(&case);
    if !run.cold {
        warm(&mut bench, &prepared.inputs);
    }
    let timed = bench.timed(bench.launch(&kernel, &case, &prepared.params));
    if std::env::var_os("GRIDMUX_BENCH_COUNTERS").is_some() {
        let rates = timed
            .counters
            .rates(bench.gpu.config(), timed.cycles - launch);
        eprintln!("{gpu} {name}: {:?}\n{rates:?}", timed.counters);
    }
    timed.cycles - launch
}

/// Reads buffers into L2, in their order.
fn warm(bench: &mut Bench, buffers: &[(u64, usize)]) {
    const SECTOR: usize = 32;
    const BLOCK: u32 = 256;
    let kernel = bench.kernel(WARM, "warm");
    for (address, bytes) in buffers {
        let sectors = u32::try_from(bytes.div_ceil(SECTOR)).expect("small");
        let mut params = address.to_le_bytes().to_vec();
        params.extend(sectors.to_le_bytes());
        let launch = bench.simple(&kernel, sectors.div_ceil(BLOCK), BLOCK, &params);
        bench.timed(launch);
    }
}

/// Returns a sparse matrix of `rows` rows with `values` values each at random columns, a vector, and the result.
fn sparse(rows: u32, values: u32) -> Vec<Arg> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(state >> 33).unwrap_or(0)
    };
    let words = |values: Vec<u32>| values.iter().flat_map(|w| w.to_le_bytes()).collect();
    let buffer = |bytes: Vec<u8>, role| Arg::Buffer { bytes, role };
    let columns = (0..rows * values).map(|_| random() % rows).collect();
    let ones = |count: u32| vec![1.0_f32.to_bits(); count as usize];
    vec![
        buffer(
            words((0..=rows).map(|row| row * values).collect()),
            Role::In,
        ),
        buffer(words(columns), Role::In),
        buffer(words(ones(rows * values)), Role::In),
        buffer(words(ones(rows)), Role::In),
        buffer(words(vec![0; rows as usize]), Role::Out),
        Arg::U32(rows),
    ]
}

fn print(title: &str, ours: u64, theirs: u64) {
    let ratio = ours as f64 / theirs as f64;
    Figure::lower(title, ours as f64, "cycles")
        .with("ratio", ratio)
        .with("peer", json!({ "GPGPU-Sim 4.2": theirs }))
        .print();
}

fn main() {
    let chosen = Chosen::by_arguments();
    for gpu in ["v100-gpgpusim", "gtx480"] {
        for (name, elements, rounds, volta, fermi) in ROWS {
            let title = format!("gpgpusim/{gpu}/{name}");
            if !chosen.has(&title) {
                continue;
            }
            let theirs = if gpu == "v100-gpgpusim" {
                volta - LAUNCH
            } else {
                fermi
            };
            let config = GpuConfig::builtin(gpu).expect("built in");
            let run = Run {
                name,
                elements,
                rounds,
                values: ROW,
                ordinary: false,
                cold: false,
            };
            print(&title, cycles(config.clone(), &run), theirs);
            let changes = if gpu == "v100-gpgpusim" { VOLTA } else { FERMI };
            for (row, other) in run.others() {
                let title = format!("{title}/{row}");
                print(&title, cycles(config.clone(), &other), theirs);
                // The last change is what makes the description most like theirs.
                if let Some((part, change)) = changes.last() {
                    let mut config = config.clone();
                    change(&mut config);
                    print(&format!("{title}/{part}"), cycles(config, &other), theirs);
                }
            }
            for (part, change) in changes {
                let mut config = config.clone();
                change(&mut config);
                print(&format!("{title}/{part}"), cycles(config, &run), theirs);
            }
        }
    }
}
