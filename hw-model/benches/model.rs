//! How fast the model executes, and what it holds.
//!
//! `model_speed/*`: million thread instructions per CPU-second, timed, one thread; the floor is the functional speed
//! of the same run, because no timing model can be faster than the execution it times. `model_functional/*`: that
//! functional speed. `model_threads/*`: how many times faster two threads are than one, by the wall clock.
//! `model_memory/*`: most memory of the process so far, so it is printed last. The GPU is `v100` unless
//! `GRIDMUX_BENCH_GPU` names another. Arguments that name a benchmark's part select it.

use gridmux_hw_model::{
    Advance, DomainId, Gpu, GpuConfig, Kernel, Launch, QueueId, Report, run_functional,
};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Arg, Case, Size, Workload, workloads};
use std::sync::Arc;

/// Million thread instructions per CPU-second of GPGPU-Sim 4.2 with its V100 configuration.
const GPGPU_SIM: &str = "GPGPU-Sim 4.2, V100, measured on another 2.3 GHz VM";

fn peer(workload: &str) -> Option<f64> {
    match workload {
        "matmul" => Some(0.603),
        "vecadd" => Some(0.472),
        "reduction" => Some(0.513),
        "spmv" => Some(0.080),
        "black_scholes" => Some(0.543),
        "fma_loop" => Some(1.256),
        _ => None,
    }
}

struct Setup {
    gpu: Gpu,
    domain: DomainId,
    kernel: Arc<Kernel>,
    case: Case,
    params: Vec<u8>,
}

impl Setup {
    fn new(gpu: &str, workload: &Workload, size: Size) -> Self {
        let mut gpu = Gpu::new(GpuConfig::builtin(gpu).expect("built in"));
        let domain = gpu
            .memory_mut()
            .create_domain(8 << 30)
            .expect("address space");
        let module = gridmux_ptx::Module::parse(workload.ptx).expect("our own PTX");
        let program = module.decode().expect("our own PTX");
        let loaded = gpu
            .load(domain, &program, workload.ptx.as_bytes())
            .expect("modelled");
        let kernel = loaded.kernel(workload.entry).expect("exists");
        let case = workload.case(size, 1);
        let mut addresses = Vec::new();
        for arg in &case.args {
            if let Arg::Buffer { bytes, .. } = arg {
                let memory = gpu.memory_mut();
                let address = memory.alloc(domain, bytes.len() as u64).expect("fits");
                memory.write(domain, address, bytes).expect("inside");
                addresses.push(address);
            }
        }
        let params = case.pack_params(&addresses);
        Self {
            gpu,
            domain,
            kernel,
            case,
            params,
        }
    }

    /// Thread instructions of one run.
    fn run(&mut self, timed: bool) -> u64 {
        let launch = Launch {
            queue: QueueId(0),
            tag: 1,
            domain: self.domain,
            kernel: self.kernel.clone(),
            grid: self.case.grid,
            block: self.case.block,
            dynamic_shared_bytes: self.case.dynamic_shared_bytes,
            params: &self.params,
            budget: None,
        };
        if !timed {
            return run_functional(&mut self.gpu, &launch)
                .expect("runs")
                .thread_instructions;
        }
        self.gpu.launch(launch).expect("accepted");
        let mut reports = Vec::new();
        loop {
            let advance = self.gpu.advance(Cycles(u64::MAX / 2), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Ended { counters, .. } => return counters.thread_instructions,
                    Report::Faulted { fault, .. } => panic!("{fault}"),
                    _ => {}
                }
            }
            assert_ne!(advance, Advance::Idle, "the launch vanished");
        }
    }

    /// Million thread instructions per CPU-second, over at least half a second and two runs.
    fn speed(&mut self, timed: bool) -> f64 {
        self.run(timed);
        let began = cpu_seconds();
        let mut instructions = 0;
        loop {
            instructions += self.run(timed);
            let spent = cpu_seconds() - began;
            if spent > 0.5 {
                #[allow(clippy::cast_precision_loss, reason = "a rate for display")]
                return instructions as f64 / spent / 1e6;
            }
        }
    }
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    #[allow(clippy::cast_precision_loss, reason = "a duration for display")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    seconds
}

/// Seconds of the wall clock that one timed run takes with so many threads: the best of several, because the host
/// has other work.
fn wall_seconds(setup: &mut Setup, threads: usize) -> f64 {
    setup.gpu.set_threads(threads);
    setup.run(true);
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        let began = std::time::Instant::now();
        setup.run(true);
        best = best.min(began.elapsed().as_secs_f64());
    }
    best
}

/// Most memory that this process has held, in megabytes.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn print(name: &str, value: f64, unit: &str, better: &str, floor: Option<f64>, peer: Option<f64>) {
    let number = |v: Option<f64>| v.map_or("null".to_owned(), |v| format!("{v:.3}"));
    let peer = peer.map_or("null".to_owned(), |v| format!("{{\"{GPGPU_SIM}\":{v}}}"));
    println!(
        "{{\"name\":\"{name}\",\"value\":{value:.2},\"unit\":\"{unit}\",\"better\":\"{better}\",\
         \"floor\":{},\"ratio\":{},\"peer\":{peer}}}",
        number(floor),
        number(floor.map(|floor| value / floor))
    );
}

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    let gpu = std::env::var("GRIDMUX_BENCH_GPU").unwrap_or_else(|_| "v100".to_owned());
    let unit = "M thread instructions/CPU-s";
    for workload in workloads() {
        let [speed, functional, threads] = ["speed", "functional", "threads"]
            .map(|what| format!("model_{what}/{}", workload.name));
        if chosen(&speed) || chosen(&functional) {
            let mut setup = Setup::new(&gpu, workload, Size::Small);
            let floor = setup.speed(false);
            if chosen(&functional) {
                print(&functional, floor, unit, "higher", None, None);
            }
            if chosen(&speed) {
                let value = setup.speed(true);
                print(
                    &speed,
                    value,
                    unit,
                    "higher",
                    Some(floor),
                    peer(workload.name),
                );
            }
        }
        if chosen(&threads) {
            // The irregular ones take long enough when small.
            let size = match workload.name {
                "spmv" | "pointer_chase" => Size::Small,
                _ => Size::Large,
            };
            let mut setup = Setup::new(&gpu, workload, size);
            let (one, two) = (wall_seconds(&mut setup, 1), wall_seconds(&mut setup, 2));
            print(
                &threads,
                one / two,
                "times one thread",
                "higher",
                None,
                None,
            );
        }
    }
    if chosen("model_memory/h200") {
        let workload = gridmux_workloads::by_name("matmul").expect("in the table");
        let mut setup = Setup::new("h200", workload, Size::Large);
        setup.run(true);
        if let Some(megabytes) = peak_megabytes() {
            print("model_memory/h200", megabytes, "MB", "lower", None, None);
        }
    }
}
