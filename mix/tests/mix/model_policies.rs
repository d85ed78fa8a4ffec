//! Every policy in charge of `plan` mode, over launches of our workloads: all end, results are right to the bit, plans
//! are obeyed and promises kept.

use crate::bench::Bench;
use gridmux_hw_model::{GpuConfig, QueueId, device_shape, enforces};
use gridmux_mix::conformance::{Asked, OnVirtualTime};
use gridmux_mix::model::ModelSubmission;
use gridmux_policy::Policy;
use gridmux_policy::conformance::{Load, LoadLaunch, Trace, check_policy};
use gridmux_policy::ids::TenantId;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use gridmux_workloads::{Case, Size, by_name};

gridmux_policy::policy_tests!(holds);

/// A tenant's workload: tenant, its weight, the workload, its stream, and when its launches arrive, in nanoseconds.
type Part = (u32, u32, &'static str, u8, &'static [u64]);

/// Kernels that compute, that wait for memory and that live in the cache; one tenant has two of them.
const MIX: &[Part] = &[
    (0, 1, "tea", 0, &[0, 30_000]),
    (1, 2, "vecadd", 0, &[3_000, 20_000]),
    (1, 2, "stencil3d", 1, &[6_000, 25_000]),
    (2, 1, "matmul", 0, &[9_000, 10_000, 11_000]),
];

/// Returns the cases, by load and launch, and the loads.
fn mix() -> (Vec<Vec<Case>>, Vec<Load>) {
    let part = |(tenant, weight, name, stream, arrivals): &Part| {
        let workload = by_name(name).unwrap_or_else(|| panic!("no {name}"));
        // Each launch has data of its own, so that results differ.
        let seeds = 1..=arrivals.len() as u64;
        let cases: Vec<Case> = seeds.map(|n| workload.case(Size::Small, n)).collect();
        let launches = arrivals.iter().zip(&cases).map(|(at, case)| LoadLaunch {
            at: Nanos(*at),
            blocks: u32::try_from(case.blocks()).expect("a small grid"),
            block_ns: Nanos(0),
        });
        let load = Load {
            tenant: TenantId(*tenant),
            weight: *weight,
            block: BlockShape::of_threads(cases[0].block.iter().product()),
            computes: false,
            stream: *stream,
            launches: launches.collect(),
        };
        (cases, load)
    };
    MIX.iter().map(part).unzip()
}

/// Runs the cases on a small GPU and compares what they leave in memory with their references.
fn run(
    (config, cases): (&GpuConfig, &[Vec<Case>]),
    asked: Asked,
    policy: Box<dyn Policy>,
    loads: (&[Load], Nanos),
) -> Trace {
    let mut bench = Bench::new(config.clone());
    let mut kernels = Vec::new();
    let mut prepared = Vec::new();
    for own in cases {
        kernels.push(bench.kernel(own[0].ptx, own[0].entry));
        let buffers = own.iter().map(|case| bench.buffers(case));
        prepared.push(buffers.collect::<Vec<_>>());
    }
    let mut made = vec![0; cases.len()];
    let (trace, gpu) = asked.run_on(bench.gpu, policy, loads, |place, _, _| {
        let n = made[place];
        made[place] += 1;
        let case = &cases[place][n];
        ModelSubmission {
            queue: QueueId(u8::try_from(place).expect("few loads")),
            kernel: kernels[place].clone(),
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            params: case.pack_params(&prepared[place][n]),
            budget: None,
        }
    });
    bench.gpu = gpu;
    for (case, buffers) in cases.iter().flatten().zip(prepared.iter().flatten()) {
        let right = case.verify(&bench.outputs(case, buffers));
        right.unwrap_or_else(|error| panic!("{}: {error}", case.workload));
    }
    trace
}

fn holds(policy: &'static str) {
    let config = Bench::config(4);
    // What a launch takes to its first block, behind one of each other load in the front end.
    let costs = &config.launch;
    let others = u64::try_from(MIX.len() - 1).expect("few");
    let cycles = u64::from(costs.kernel_cycles) + others * u64::from(costs.front_end_cycles);
    let grain = Nanos(20 * config.cycles_to_ns(cycles + 100));
    let times = [Bench::observation(&config), grain];
    let shape = device_shape(&config);
    let (cases, loads) = mix();
    let run = move |asked: Asked, policy: Box<dyn Policy>, loads: &[Load], until: Nanos| {
        run((&config, &cases), asked, policy, (loads, until))
    };
    let mut subject = OnVirtualTime::new(shape, enforces, times, Box::new(run));
    let held = check_policy(&mut subject, policy, &loads, Nanos(50_000_000));
    held.unwrap_or_else(|failure| panic!("{failure}"));
}
