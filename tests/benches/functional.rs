//! `functional`: the functional device through the service, against the same work done in this process.
//!
//! `functional/kernel/NAME`: a launch and the wait for its end, against [`run_functional`] of the same launch.
//! `functional/copy/*`: copies between the client's registered memory and the device, against `memcpy` of as many bytes
//! between two mapped pieces of memory. All times are wall time, the least of several rounds, and the two sides of a
//! ratio take turns, because the host may have other work.

use gridmux_channel::memory::Protection;
use gridmux_channel::ring::{CompletionStatus, Copy, Operation};
use gridmux_hw_model::{DomainId, Gpu, GpuConfig, Kernel, Launch, Level, QueueId, run_functional};
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_tests::{Bench, RawTenant, Service, ServiceBuilder};
use gridmux_workloads::{Arg, Case, Size, workloads};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of which the fastest counts.
const ROUNDS: u32 = 7;
/// Length of a large copy.
const COPY_BYTES: u64 = 64 << 20;
/// Streaming multiprocessors of the service's device.
const SMS: u16 = 4;

fn main() {
    let chosen = Chosen::by_arguments();
    let service = ServiceBuilder::new(&[("a", 1)])
        .functional()
        .memory(1 << 30)
        .start();
    for workload in workloads() {
        let name = format!("functional/kernel/{}", workload.name);
        if chosen.has(&name) {
            kernel(&name, &service, &workload.case(Size::Large, 1));
        }
    }
    for (name, to_device) in [("to_device", true), ("from_device", false)] {
        let name = format!("functional/copy/{name}");
        if chosen.has(&name) {
            copy(&name, &service, to_device);
        }
    }
}

fn say(name: &str, took: Duration, floor: Duration) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Figure::lower(name, ms(took), "ms").floor(ms(floor)).print();
}

/// Returns the time that something takes.
fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn kernel(name: &str, service: &Service, case: &Case) {
    let gpu = service.gpu("a");
    let bench = Bench::set_up(&gpu, case.workload, Size::Large, 1).expect("it is set up");
    let mut bare = Bare::new(case);
    let (mut took, mut floor) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        floor = floor.min(time(|| bare.run()));
        took = took.min(time(|| {
            let (grid, block) = (case.grid, case.block);
            let shared = case.dynamic_shared_bytes;
            let launch = bench
                .stream
                .launch(&bench.kernel, grid, block, shared, bench.args());
            launch.and_then(|event| event.wait()).expect("it runs");
        }));
    }
    say(name, took, floor);
}

/// A launch on a modelled GPU of this process.
struct Bare {
    gpu: Gpu,
    domain: DomainId,
    kernel: Arc<Kernel>,
    case: Case,
    params: Vec<u8>,
}

impl Bare {
    fn new(case: &Case) -> Self {
        let config = GpuConfig::builtin("h200").expect("built in");
        let mut gpu = Gpu::new(config.scaled_to_sms(SMS));
        let memory = gpu.memory_mut();
        let domain = memory.create_domain(1 << 30).expect("address space");
        let module = gridmux_ptx::Module::parse(case.ptx).expect("our own PTX");
        let program = module.decode().expect("our own PTX");
        let loaded = gpu.load(domain, &program, case.ptx.as_bytes());
        let kernel = loaded.expect("modelled").kernel(case.entry);
        let mut params = Vec::new();
        for arg in &case.args {
            let bytes = match arg {
                Arg::Buffer { bytes, .. } => {
                    let memory = gpu.memory_mut();
                    let address = memory.alloc(domain, bytes.len() as u64).expect("fits");
                    memory.write(domain, address, bytes).expect("inside");
                    address.to_le_bytes().to_vec()
                }
                scalar => scalar.scalar_bytes().expect("no buffer"),
            };
            params.resize(params.len().next_multiple_of(bytes.len()), 0);
            params.extend(bytes);
        }
        Self {
            gpu,
            domain,
            kernel: kernel.expect("exists"),
            case: case.clone(),
            params,
        }
    }

    fn run(&mut self) {
        let launch = Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: self.domain,
            kernel: Arc::clone(&self.kernel),
            grid: self.case.grid,
            block: self.case.block,
            dynamic_shared_bytes: self.case.dynamic_shared_bytes,
            params: &self.params,
            budget: None,
        };
        run_functional(&mut self.gpu, &launch).expect("it runs");
    }
}

fn copy(name: &str, service: &Service, to_device: bool) {
    let mut tenant = RawTenant::connect(&service.socket(), "a");
    let length = usize::try_from(COPY_BYTES).expect("it fits");
    let bytes: Vec<u8> = (0..length).map(|n| n.to_le_bytes()[0]).collect();
    let both = Protection::READ_WRITE;
    let (iova, _) = tenant.map(&bytes, both);
    let address = tenant.alloc(COPY_BYTES);
    let request = Copy {
        iova,
        address,
        len: COPY_BYTES,
    };
    let operation = || match to_device {
        true => Operation::CopyToDevice(request),
        false => Operation::CopyFromDevice(request),
    };
    let mut target = vec![1_u8; length];
    let (mut took, mut floor) = (Duration::MAX, Duration::MAX);
    for _ in 0..2 * ROUNDS {
        floor = floor.min(time(|| {
            std::hint::black_box(&mut target[..]).copy_from_slice(std::hint::black_box(&bytes));
        }));
        took = took.min(time(|| {
            tenant.push(0, operation());
            let status = tenant.await_completion().status;
            assert_eq!(CompletionStatus::try_from(status), Ok(CompletionStatus::Ok));
        }));
    }
    say(name, took, floor);
}
