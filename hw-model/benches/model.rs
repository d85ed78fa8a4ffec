//! How fast the model executes, and what it holds.
//!
//! `model_speed/*`: million thread instructions per CPU-second, timed, one thread; the floor is the functional speed
//! of the same run, because no timing model can be faster than the execution it times. `model_functional/*`: that
//! functional speed. `model_threads/*`: how many times faster two threads are than one, by the wall clock; the floor is
//! how many processors two threads that only count were given just before, because the host may have other work.
//! `model_threads_cpu/*`: CPU time that two threads take together, in CPU times of one; what is above 1 they spent on
//! handing work over and on waiting for each other, however busy the host is. stderr has the seconds behind both.
//! `model_memory/*`: most memory of the process so far, so it is printed last. The GPU is `v100` unless
//! `GRIDMUX_BENCH_GPU` names another. Arguments that name a benchmark's part select it.

#[path = "../tests/hw_model/support/mod.rs"]
mod support;

use gridmux_hw_model::Kernel;
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_workloads::{Case, Size, Workload, workloads};
use serde_json::json;
use std::sync::Arc;
use support::{Bench, Prepared, functional, kernel_of};

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
    bench: Bench,
    kernel: Arc<Kernel>,
    case: Case,
    prepared: Prepared,
}

impl Setup {
    fn new(gpu: &str, workload: &Workload, size: Size) -> Self {
        let mut bench = Bench::named(gpu);
        let kernel = kernel_of(&mut bench, workload);
        let case = workload.case(size, 1);
        let prepared = bench.prepare(&case);
        Self {
            bench,
            kernel,
            case,
            prepared,
        }
    }

    /// Returns the thread instructions of one run.
    fn run(&mut self, timed: bool) -> u64 {
        let params = &self.prepared.params;
        let launch = self.bench.launch(&self.kernel, &self.case, params);
        let counters = if timed {
            self.bench.timed(launch).counters
        } else {
            functional(&mut self.bench, &launch)
        };
        counters.thread_instructions
    }

    /// Measures million thread instructions per CPU-second, over at least half a second and two runs.
    fn speed(&mut self, timed: bool) -> f64 {
        self.run(timed);
        let began = cpu_seconds();
        let mut instructions = 0;
        loop {
            instructions += self.run(timed);
            let spent = cpu_seconds() - began;
            if spent > 0.5 {
                return instructions as f64 / spent / 1e6;
            }
        }
    }
}

/// Returns the CPU time of this process.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of something by the wall clock, and of CPU time over all threads.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl Cost {
    fn of(work: impl FnOnce()) -> Self {
        let (wall, cpu) = (std::time::Instant::now(), cpu_seconds());
        work();
        Self {
            wall: wall.elapsed().as_secs_f64(),
            cpu: cpu_seconds() - cpu,
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// Returns what timed runs take with one thread and with two, in turn: the least of several, because the host has other
/// work.
fn costs(setup: &mut Setup) -> [Cost; 2] {
    let mut least = [Cost {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    }; 2];
    for _ in 0..5 {
        for (threads, least) in (1..).zip(&mut least) {
            setup.bench.gpu.set_threads(threads);
            setup.run(true);
            *least = least.least(Cost::of(|| {
                setup.run(true);
            }));
        }
    }
    least
}

/// Processors that two threads get which share nothing, over a tenth of a second.
fn processors() -> f64 {
    let count = || {
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 100 {
            std::hint::spin_loop();
        }
    };
    let cost = Cost::of(|| {
        std::thread::scope(|scope| {
            scope.spawn(count);
            count();
        });
    });
    cost.cpu / cost.wall
}

/// Prints what two threads are worth on a workload, as `wall` and `cpu` name it.
fn print_threads(setup: &mut Setup, name: &str, (wall, cpu): (bool, bool)) {
    let given = processors();
    let [one, two] = costs(setup);
    eprintln!(
        "{name}: one thread: wall {:.4} s, CPU {:.4} s; two: wall {:.4} s, CPU {:.4} s; the host gave two threads \
         {given:.2} processors",
        one.wall, one.cpu, two.wall, two.cpu
    );
    if wall {
        let faster = one.wall / two.wall;
        let name = format!("model_threads/{name}");
        Figure::higher(&name, faster, "times one thread")
            .floor(given)
            .print();
    }
    if cpu {
        let more = two.cpu / one.cpu;
        let name = format!("model_threads_cpu/{name}");
        Figure::lower(&name, more, "CPU times of one thread")
            .floor(1.0)
            .print();
    }
}

/// Returns the most memory that this process has held, in megabytes.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn main() {
    let chosen = Chosen::by_arguments();
    let gpu = std::env::var("GRIDMUX_BENCH_GPU").unwrap_or_else(|_| "v100".to_owned());
    let unit = "M thread instructions/CPU-s";
    for workload in workloads() {
        let [speed, functional, threads, threads_cpu] =
            ["speed", "functional", "threads", "threads_cpu"]
                .map(|what| format!("model_{what}/{}", workload.name));
        if chosen.has(&speed) || chosen.has(&functional) {
            let mut setup = Setup::new(&gpu, workload, Size::Small);
            let floor = setup.speed(false);
            if chosen.has(&functional) {
                Figure::higher(&functional, floor, unit).print();
            }
            if chosen.has(&speed) {
                let value = setup.speed(true);
                Figure::higher(&speed, value, unit)
                    .floor(floor)
                    .with(
                        "peer",
                        peer(workload.name).map(|rate| json!({ GPGPU_SIM: rate })),
                    )
                    .print();
            }
        }
        let asked = (chosen.has(&threads), chosen.has(&threads_cpu));
        if asked.0 || asked.1 {
            // The irregular ones take long enough when small.
            let size = match workload.name {
                "spmv" | "pointer_chase" | "bfs" => Size::Small,
                _ => Size::Large,
            };
            let mut setup = Setup::new(&gpu, workload, size);
            print_threads(&mut setup, workload.name, asked);
        }
    }
    if chosen.has("model_memory/h200") {
        let workload = gridmux_workloads::by_name("matmul").expect("in the table");
        let mut setup = Setup::new("h200", workload, Size::Large);
        setup.run(true);
        if let Some(megabytes) = peak_megabytes() {
            Figure::lower("model_memory/h200", megabytes, "MB").print();
        }
    }
}
