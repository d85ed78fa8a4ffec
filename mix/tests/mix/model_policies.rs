//! Every policy in charge of `plan` mode, over launches of our workloads: all end, results are right to the bit, plans
//! are obeyed and promises kept.

use crate::bench::Bench;
use gridmux_hw_model::{GpuConfig, QueueId, device_shape, enforces};
use gridmux_mix::conformance::Asked;
use gridmux_mix::model::ModelSubmission;
use gridmux_policy::conformance::{Load, LoadLaunch, Slack, Subject, Trace, check_policy};
use gridmux_policy::ids::TenantId;
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Element, Enforcement, Policy};
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

/// Plan mode on a small GPU, with a case for each launch.
struct Workloads {
    config: GpuConfig,
    /// By load and launch.
    cases: Vec<Vec<Case>>,
    loads: Vec<Load>,
}

impl Workloads {
    fn new() -> Self {
        let config = GpuConfig::builtin("v100").expect("built in");
        let (mut cases, mut loads) = (Vec::new(), Vec::new());
        for (tenant, weight, name, stream, arrivals) in MIX {
            let workload = by_name(name).unwrap_or_else(|| panic!("no {name}"));
            // Data of its own for each launch, so that each result is told apart.
            let seeds = 1..=arrivals.len() as u64;
            let own: Vec<Case> = seeds.map(|n| workload.case(Size::Small, n)).collect();
            let launches = arrivals.iter().zip(&own).map(|(at, case)| LoadLaunch {
                at: Nanos(*at),
                blocks: u32::try_from(case.blocks()).expect("a small grid"),
                block_ns: Nanos(0),
            });
            loads.push(Load {
                tenant: TenantId(*tenant),
                weight: *weight,
                block: BlockShape::of_threads(own[0].block.iter().product()),
                computes: false,
                stream: *stream,
                launches: launches.collect(),
            });
            cases.push(own);
        }
        Self {
            config: config.scaled_to_sms(4),
            cases,
            loads,
        }
    }
}

impl Subject for Workloads {
    fn device(&self) -> DeviceShape {
        device_shape(&self.config)
    }

    fn enforces(&self, element: Element) -> Enforcement {
        enforces(element)
    }

    fn slack(&self, element: Element) -> Slack {
        Slack::exact(match element {
            Element::Preemption => Nanos(20_000),
            _ => Nanos(0),
        })
    }

    fn observation(&self) -> Nanos {
        // Two of the model's epochs of 32 cycles.
        Nanos(64 * 1000 / u64::from(self.config.clock.core_mhz) + 1)
    }

    fn grain(&self) -> Nanos {
        // What a launch takes to its first block, behind one of each other load in the front end.
        let costs = &self.config.launch;
        let others = u64::try_from(MIX.len() - 1).expect("few");
        let cycles = u64::from(costs.kernel_cycles) + others * u64::from(costs.front_end_cycles);
        Nanos(20 * self.config.cycles_to_ns(cycles + 100))
    }

    /// Runs the cases and compares what they leave in memory with their references.
    fn run(&mut self, policy: Box<dyn Policy>, loads: &[Load], until: Nanos) -> Trace {
        let mut bench = Bench::new(self.config.clone());
        let mut kernels = Vec::new();
        let mut prepared = Vec::new();
        for cases in &self.cases {
            kernels.push(bench.kernel(cases[0].ptx, cases[0].entry));
            let buffers = cases.iter().map(|case| bench.buffers(case));
            prepared.push(buffers.collect::<Vec<_>>());
        }
        let mut made = vec![0; loads.len()];
        let (trace, gpu) =
            Asked::default().run_on(bench.gpu, policy, (loads, until), |place, _, _| {
                let n = made[place];
                made[place] += 1;
                let case = &self.cases[place][n];
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
        for (case, buffers) in self.cases.iter().flatten().zip(prepared.iter().flatten()) {
            let right = case.verify(&bench.outputs(case, buffers));
            right.unwrap_or_else(|error| panic!("{}: {error}", case.workload));
        }
        trace
    }
}

fn holds(policy: &'static str) {
    let mut subject = Workloads::new();
    let loads = subject.loads.clone();
    let held = check_policy(&mut subject, policy, &loads, Nanos(50_000_000));
    held.unwrap_or_else(|failure| panic!("{failure}"));
}
