//! Microbenchmarks in PTX that recover what a description says.
//!
//! One JSON line per GPU and figure: the measured value, the configured one as the floor, and their ratio. Latencies
//! are cycles of a chain of dependent instructions or pointers, rates are what all SMs reach together. The bank
//! conflict and coalescing staircases are drawn as SVG under `target/microbench/`.
//! A rate's peak is the card's: lanes or bus width times clock, whatever the description says of what stands before
//! them. Rule: the measured latency must be within 5 % of the configured one, a rate between 90 and 100 % of its peak;
//! anything else ends the run with an error, after everything was printed.

#[path = "microbench/kernels.rs"]
mod kernels;
#[path = "microbench/staircase.rs"]
mod staircase;
#[path = "../tests/hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::GpuConfig;
use gridmux_testkit::bench;
use kernels::Runner;

/// One figure.
struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
    configured: f64,
    /// A latency; otherwise a rate that its peak bounds.
    latency: bool,
}

impl Figure {
    fn holds(&self) -> bool {
        let ratio = self.value / self.configured;
        if self.latency {
            (ratio - 1.0).abs() <= 0.05
        } else {
            (0.9..=1.0).contains(&ratio)
        }
    }

    fn print(&self) {
        let Self {
            name,
            unit,
            value,
            configured,
            latency,
        } = self;
        let better = if *latency { "lower" } else { "higher" };
        bench::Figure::lower(name, *value, unit)
            .with("better", better)
            .floor(*configured)
            .print();
    }
}

// Length: one figure a line, each with the key that it recovers.
fn figures(gpu: &str) -> Vec<Figure> {
    let config = GpuConfig::builtin(gpu).expect("built in");
    let latency = |name: &str, value: f64, configured: u32| Figure {
        name: format!("microbench/{gpu}/{name}"),
        unit: "cycles",
        value,
        configured: f64::from(configured),
        latency: true,
    };
    let rate = |name: &str, unit: &'static str, value: f64, configured: f64| Figure {
        name: format!("microbench/{gpu}/{name}"),
        unit,
        value,
        configured,
        latency: false,
    };
    let p = &config.pipelines;
    let alu = |op: &str| Runner::new(&config).chain(op);
    let sms = f64::from(config.sm.count);
    let units = f64::from(p.units.fp32) / f64::from(p.fp32.interval);
    // An SM issues no more than its schedulers let it, whatever its units could take.
    let issue = f64::from(config.sm.schedulers) * f64::from(config.sm.issue_width);
    let fma_peak = units.min(issue) * 32.0 * sms;
    let shared_peak = 32.0 * f64::from(config.shared.bank_bytes.min(4)) * sms;
    let mut runner = Runner::new(&config);
    // Figures of units that not every chip has.
    let mut optional = Vec::new();
    if let Some(popc) = p.popc {
        let value = alu("popc.b32 %r1, %r1;");
        optional.push(latency("popc_latency", value, popc.latency));
    }
    if let Some(half) = p.half {
        let value = alu("fma.rn.f16x2 %r1, %r1, %r2, %r2;");
        optional.push(latency("half_latency", value, half.latency));
    }
    if let Some(tensor) = &p.tensor {
        let product = |k: u32, a: &str, b: &str| {
            alu(&format!(
                "mma.sync.aligned.m16n8k{k}.row.col.f16.f16.f16.f16 {{%r10, %r11}}, {{{a}}}, {{{b}}}, {{%r10, %r11}};"
            ))
        };
        let passes = |k: u32| (k * 16).div_ceil(tensor.pass_bits);
        let due = |k: u32| tensor.latency + (passes(k) - 1) * tensor.pass_latency;
        let [small, large] = [
            product(8, "%r2, %r2", "%r2"),
            product(16, "%r2, %r2, %r2, %r2", "%r2, %r2"),
        ];
        optional.push(latency("mma_k8_latency", small, due(8)));
        optional.push(latency("mma_k16_latency", large, due(16)));
    }
    if let Some(barrier) = config.sm.barrier {
        let value = alu("bar.sync 0;");
        let due = barrier.interval + barrier.latency;
        optional.push(latency("barrier_latency", value, due));
    }
    if let Some(atomic) = config.shared.atomic {
        let due = atomic.setup + 32 * atomic.turn;
        let value = runner.shared_contention();
        optional.push(latency("shared_atomic_cycles", value, due));
    }
    let shuffle = alu("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;");
    let mut all = vec![
        latency("shuffle_latency", shuffle, p.shuffle.latency),
        latency("int_latency", alu("add.u32 %r1, %r1, %r2;"), p.int.latency),
        latency(
            "mul_latency",
            alu("mul.lo.u32 %r1, %r1, %r2;"),
            p.int_mul.latency,
        ),
        latency(
            "fma_latency",
            alu("fma.rn.f32 %f1, %f1, %f2, %f2;"),
            p.fp32.latency,
        ),
        latency(
            "fp64_latency",
            alu("fma.rn.f64 %d1, %d1, %d2, %d2;"),
            p.fp64.latency,
        ),
        latency(
            "sfu_latency",
            alu("ex2.approx.ftz.f32 %f1, %f1;"),
            p.sfu.latency,
        ),
        latency(
            "shared_latency",
            runner.shared_chase(),
            config.shared.latency,
        ),
        latency(
            "l1_latency",
            runner.chase(config.l1.bytes / 256, 128),
            config.l1.latency,
        ),
        latency(
            "l2_latency",
            runner.chase(4 * config.l1.bytes / 128, 128),
            config.l2.latency,
        ),
        latency("dram_latency", runner.cold_chase(), config.dram.latency),
        rate("fma_peak", "FMA/cycle", runner.fma_rate(), fma_peak),
        rate(
            "shared_bandwidth",
            "bytes/cycle",
            runner.shared_rate(),
            shared_peak,
        ),
        rate(
            "dram_bandwidth",
            "GB/s",
            runner.dram_rate(),
            config.dram.gigabytes_per_second,
        ),
    ];
    // Where a block starts at once, what its end costs is all that there is.
    if config.launch.block_cycles > 0 {
        let start = runner.block_start();
        optional.push(latency("block_start", start, config.launch.block_cycles));
    }
    all.append(&mut optional);
    all
}

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let mut wrong = Vec::new();
    for gpu in ["gtx480", "v100", "h200"] {
        let chosen = |f: &String| {
            let group = format!("microbench/{gpu}");
            group.starts_with(f.as_str()) || f.starts_with(&group)
        };
        if !filters.is_empty() && !filters.iter().any(chosen) {
            continue;
        }
        for figure in figures(gpu) {
            figure.print();
            if !figure.holds() {
                wrong.push(figure.name);
            }
        }
        wrong.extend(staircase::draw(gpu));
    }
    if !wrong.is_empty() {
        eprintln!("microbench: outside their bounds: {}", wrong.join(", "));
        std::process::exit(1);
    }
}
