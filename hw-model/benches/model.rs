//! How fast the model executes: thread instructions per CPU-second, timed, for each workload.
//!
//! One JSON line per benchmark on stdout. The floor is the functional speed of the same run, because no timing
//! model can be faster than the execution it times. Arguments that name a benchmark's part select it.

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
    fn new(workload: &Workload, size: Size) -> Self {
        let mut gpu = Gpu::new(
            GpuConfig::builtin(&std::env::var("GPU").unwrap_or_else(|_| "h200".into()))
                .expect("built in"),
        );
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

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    for workload in workloads() {
        let name = format!("model_speed/{}", workload.name);
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let mut setup = Setup::new(workload, Size::Small);
        let floor = setup.speed(false);
        let value = setup.speed(true);
        let peer =
            peer(workload.name).map_or("null".to_owned(), |v| format!("{{\"{GPGPU_SIM}\":{v}}}"));
        println!(
            "{{\"name\":\"{name}\",\"value\":{value:.1},\"unit\":\"M thread instructions/CPU-s\",\
             \"better\":\"higher\",\"floor\":{floor:.1},\"ratio\":{:.3},\"peer\":{peer}}}",
            value / floor
        );
    }
}
