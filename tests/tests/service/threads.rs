//! Generated kernels take the same cycles and leave the same memory on one, two and four threads of the model.

use gridmux_hw_model::{Advance, Counters, Gpu, GpuConfig, Launch, Level, QueueId, Report};
use gridmux_policy::units::Cycles;
use gridmux_testkit::generate::generate;
use gridmux_workloads::Arg;

const KERNELS: u64 = 200;

/// Returns cycles, counters, and the bytes of every buffer.
fn run(seed: u64, gpu: &str, threads: usize) -> (u64, Counters, Vec<Vec<u8>>) {
    let kernel = generate(seed);
    let mut gpu = Gpu::new(GpuConfig::builtin(gpu).expect("built in").scaled_to_sms(8));
    gpu.set_threads(threads);
    let domain = gpu.memory_mut().create_domain(1 << 28).expect("room");
    let module = gridmux_ptx::Module::parse(kernel.ptx.as_str()).expect("generated PTX");
    let program = module.decode().expect("generated PTX");
    let loaded = gpu
        .load(domain, &program, kernel.ptx.as_bytes())
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let (mut params, mut buffers) = (Vec::new(), Vec::new());
    for arg in &kernel.args {
        let bytes = match arg {
            Arg::Buffer { bytes, .. } => {
                let memory = gpu.memory_mut();
                let address = memory.alloc(domain, bytes.len() as u64).expect("fits");
                memory.write(domain, address, bytes).expect("inside");
                buffers.push((address, bytes.len()));
                address.to_le_bytes().to_vec()
            }
            scalar => scalar.scalar_bytes().expect("no buffer"),
        };
        params.resize(params.len().next_multiple_of(bytes.len()), 0);
        params.extend(bytes);
    }
    gpu.launch(Launch {
        queue: QueueId(0),
        level: Level::LOWEST,
        tag: 1,
        domain,
        kernel: loaded.kernel(kernel.entry).expect("exists"),
        grid: kernel.grid,
        block: kernel.block,
        dynamic_shared_bytes: kernel.dynamic_shared_bytes,
        params: &params,
        budget: None,
    })
    .expect("accepted");
    let mut reports = Vec::new();
    loop {
        let advance = gpu.advance(Cycles(u64::MAX / 2), &mut reports);
        for report in reports.drain(..) {
            match report {
                Report::Ended { end, counters, .. } => {
                    let read = |(address, length): &(u64, usize)| {
                        let mut bytes = vec![0; *length];
                        let memory = gpu.memory();
                        memory.read(domain, *address, &mut bytes).expect("inside");
                        bytes
                    };
                    return (end.0, counters, buffers.iter().map(read).collect());
                }
                Report::Faulted { fault, .. } => panic!("seed {seed}: {fault}"),
                _ => {}
            }
        }
        assert_ne!(advance, Advance::Idle, "seed {seed}: the launch vanished");
    }
}

#[test]
fn generated_kernels_take_the_same_cycles_on_one_two_and_four_threads() {
    for seed in 0..KERNELS {
        let gpu = ["v100", "gtx480"][usize::from(seed % 2 == 1)];
        let alone = run(seed, gpu, 1);
        for threads in [2, 4] {
            let shared = run(seed, gpu, threads);
            assert_eq!(alone.0, shared.0, "seed {seed}, {threads} threads: cycles");
            assert_eq!(
                alone.1, shared.1,
                "seed {seed}, {threads} threads: counters"
            );
            assert!(
                alone.2 == shared.2,
                "seed {seed}, {threads} threads: memory"
            );
        }
    }
}
