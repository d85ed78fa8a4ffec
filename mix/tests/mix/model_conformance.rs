//! `plan` mode is a subject of the conformance suite, and the suite fails when a rule is broken.

use crate::bench::Bench;
use gridmux_hw_model::{GpuConfig, QueueId, device_shape, enforces};
use gridmux_mix::conformance::Asked;
use gridmux_mix::model::ModelSubmission;
use gridmux_policy::conformance::{Breach, Load, Slack, Subject, Trace, Verdict, cases, check};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Element, Enforcement, Policy};

/// A kernel that stays on its SM for the nanoseconds of its parameter, mostly asleep.
const STAY: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry stay(.param .u64 ns)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [ns];
    mov.u64 %rd2, %globaltimer;
LOOP:
    nanosleep.u32 1000;
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra LOOP;
    ret;
}
";

/// Computes: about as many instructions a thread as its parameter says. They wait for no other one, and
/// are for two units, each of which takes every second one of a scheduler's.
const COMPUTE: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry compute(.param .u64 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [n];
    cvt.u32.u64 %r1, %rd1;
LOOP:
    add.f32 %f1, %f1, 0f3F800000;
    add.s32 %r2, %r2, 1;
    add.f32 %f2, %f2, 0f3F800000;
    add.f32 %f3, %f3, 0f3F800000;
    add.f32 %f4, %f4, 0f3F800000;
    sub.s32 %r1, %r1, 8;
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra LOOP;
    ret;
}
";

/// Plan mode on a small GPU.
struct PlanMode {
    config: GpuConfig,
    threads: usize,
    asked: Asked,
    breach: Option<Breach>,
}

impl PlanMode {
    fn new() -> Self {
        Self {
            config: Bench::config(4),
            threads: 1,
            asked: Asked::default(),
            breach: None,
        }
    }
}

impl Subject for PlanMode {
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
        // 20 times 6,900 cycles to a launch's first block and 1,250 behind another one in the front end.
        Nanos(120_000)
    }

    fn limit_rows(&mut self, per_tenant: usize) -> bool {
        self.asked.rows_per_tenant = per_tenant;
        true
    }

    fn first_row(&mut self, first: u32) -> bool {
        self.asked.first_row = first;
        true
    }

    fn lose_events(&mut self, from: u64, n: u64) -> bool {
        self.asked.lose = Some((from, n));
        true
    }

    fn run(&mut self, policy: Box<dyn Policy>, loads: &[Load], until: Nanos) -> Trace {
        let mut bench = Bench::new(self.config.clone());
        let kernel = |load: &Load| match load.computes {
            true => bench.kernel(COMPUTE, "compute"),
            false => bench.kernel(STAY, "stay"),
        };
        let kernels: Vec<_> = loads.iter().map(kernel).collect();
        let mut gpu = bench.gpu;
        gpu.set_threads(self.threads);
        let asked = Asked {
            breach: self.breach,
            ..std::mem::take(&mut self.asked)
        };
        asked.run(gpu, policy, (loads, until), |place, load, launch| {
            ModelSubmission {
                queue: QueueId(load.stream),
                kernel: kernels[place].clone(),
                grid: [launch.blocks, 1, 1],
                block: [load.block.threads, 1, 1],
                dynamic_shared_bytes: load.block.shared_bytes,
                params: launch.block_ns.0.to_le_bytes().to_vec(),
                budget: None,
            }
        })
    }
}

#[test]
fn plan_mode_holds_every_rule() {
    let went = check(&mut PlanMode::new()).unwrap_or_else(|failures| {
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"));
    });
    for (name, verdict) in &went {
        assert_eq!(*verdict, Verdict::Held, "{name}");
    }
    assert!(went.len() >= 20, "{}", went.len());
}

/// Names of the cases that fail.
fn broken(breach: Breach) -> Vec<&'static str> {
    let mut subject = PlanMode::new();
    subject.breach = Some(breach);
    let failed = cases()
        .into_iter()
        .filter(|case| case.run(&mut subject).is_err());
    failed.map(|case| case.name).collect()
}

#[test]
fn the_suite_fails_when_caps_are_not_held() {
    let failed = broken(Breach::Caps);
    assert!(
        failed.contains(&"a cap holds on each SM of its group"),
        "{failed:?}"
    );
    assert!(
        failed.contains(&"blocks beyond a lowered cap are switched out and come back"),
        "{failed:?}"
    );
}

#[test]
fn the_suite_fails_when_ranks_are_not_held() {
    let failed = broken(Breach::Ranks);
    assert!(
        failed.contains(&"free room goes to the best rank"),
        "{failed:?}"
    );
    assert!(
        failed.contains(&"the head of the line holds up the rest"),
        "{failed:?}"
    );
    assert!(
        failed.contains(&"beyond a lowered limit the worst rank leaves first"),
        "{failed:?}"
    );
    assert!(
        !failed.contains(&"a cap holds on each SM of its group"),
        "{failed:?}"
    );
}

#[test]
fn the_suite_fails_when_limits_are_not_held() {
    let failed = broken(Breach::Limits);
    for case in [
        "rows of a tenant hold its device limit together",
        "rows of a tenant hold its limit on each SM together",
        "the spill row is bound by its tenant's limit alone",
    ] {
        assert!(failed.contains(&case), "{failed:?}");
    }
}

#[test]
fn the_suite_fails_when_budgets_begin_anew() {
    let failed = broken(Breach::Budgets);
    assert!(
        failed.contains(&"a budget is a position, however often it is said"),
        "{failed:?}"
    );
}

#[test]
fn the_suite_fails_when_weights_are_not_held() {
    assert_eq!(broken(Breach::Weights), ["rows issue as their weights are"]);
}

#[test]
fn the_suite_fails_when_rows_do_not_stop() {
    let failed = broken(Breach::Stops);
    for case in [
        "a row that is checked stops at once",
        "a row that runs ahead stops within a window",
    ] {
        assert!(failed.contains(&case), "{failed:?}");
    }
}

#[test]
fn the_suite_fails_when_the_policy_is_not_told_the_truth() {
    let failed = broken(Breach::Blocks);
    assert!(
        failed.contains(&"blocks are counted on the groups that hold them"),
        "{failed:?}"
    );
    let failed = broken(Breach::Shares);
    assert_eq!(failed, ["shares are the integrals of what happened"]);
}
