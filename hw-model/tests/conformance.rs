//! `plan` mode is a subject of the conformance suite, and the suite fails when a rule is broken.
//!
//! Rule: what happened to blocks is taken from the model's own block events, and which plans were in force from the
//! policy that the suite hands in.

mod support;

use gridmux_hw_model::{
    BlockChange, DriverOptions, GpuConfig, PolicyDriver, QueueId, Submission, device_shape,
    enforces,
};
use gridmux_policy::conformance::{
    BlockSeen, Breach, Breaking, Change, LaunchSeen, Load, Slack, Subject, Trace, Verdict, cases,
    check,
};
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::ledger::Ledger;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Class, Element, Enforcement, Event, Plan, Policy};
use std::collections::BTreeMap;
use support::Bench;

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
    rows_per_tenant: usize,
    first_row: u32,
    lose: Option<(u64, u64)>,
    breach: Option<Breach>,
}

impl PlanMode {
    fn new() -> Self {
        let config = GpuConfig::builtin("v100").expect("built in");
        Self {
            config: config.scaled_to_sms(4),
            threads: 1,
            rows_per_tenant: 256,
            first_row: 0,
            lose: None,
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
        Nanos(80_000)
    }

    fn limit_rows(&mut self, per_tenant: usize) -> bool {
        self.rows_per_tenant = per_tenant;
        true
    }

    fn first_row(&mut self, first: u32) -> bool {
        self.first_row = first;
        true
    }

    fn lose_events(&mut self, from: u64, n: u64) -> bool {
        self.lose = Some((from, n));
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
        let policy: Box<dyn Policy> = match self.breach {
            Some(breach) => Box::new(Breaking::new(policy, breach, &self.device())),
            None => policy,
        };
        let between = Between {
            inner: policy,
            truth: Ledger::new(&self.device()),
            heard: 0,
            lose: self.lose.take(),
            lost: 0,
            known: BTreeMap::new(),
            tenants: BTreeMap::new(),
        };
        let options = DriverOptions {
            record: true,
            rows_per_tenant: std::mem::replace(&mut self.rows_per_tenant, 256),
            first_row: std::mem::take(&mut self.first_row),
            sample_every: Cycles(0),
            ..DriverOptions::default()
        };
        let mut driver = PolicyDriver::new(gpu, Box::new(between), DeviceId(0), options);
        for load in loads {
            driver.tenant(load.tenant, load.weight, Class::Normal);
        }
        let mut numbers = Vec::new();
        for (place, load) in loads.iter().enumerate() {
            for (n, launch) in load.launches.iter().enumerate() {
                let submission = Submission {
                    queue: QueueId(load.stream),
                    kernel: kernels[place].clone(),
                    grid: [launch.blocks, 1, 1],
                    block: [load.block.threads, 1, 1],
                    dynamic_shared_bytes: load.block.shared_bytes,
                    params: launch.block_ns.0.to_le_bytes().to_vec(),
                    budget: None,
                };
                let at = Cycles(self.config.ns_to_cycles(launch.at.0));
                let number = driver.submit(load.tenant, submission, at);
                numbers.push((number.expect("accepted"), place, n));
            }
        }
        driver.run_until(Cycles(self.config.ns_to_cycles(until.0)));
        trace(&mut driver, loads, &kernels, &numbers)
    }
}

/// What the model says happened.
fn trace(
    driver: &mut PolicyDriver,
    loads: &[Load],
    kernels: &[std::sync::Arc<gridmux_hw_model::Kernel>],
    numbers: &[(u64, usize, usize)],
) -> Trace {
    let events = driver.take_block_events();
    let config = driver.engine().config();
    let time = |at: Cycles| Nanos(config.cycles_to_ns(at.0));
    let seen = events.iter().map(|event| {
        let (_, load, launch) = numbers[usize::try_from(event.tag).expect("small")];
        BlockSeen {
            at: time(event.at),
            load,
            launch,
            block: event.block,
            sm: Some(event.sm),
            change: match event.change {
                BlockChange::Placed => Change::Started,
                BlockChange::Retired { .. } => Change::Ended,
                BlockChange::SwitchedOut { .. } => Change::SwitchedOut,
                BlockChange::SwitchedIn { .. } => Change::SwitchedIn,
            },
        }
    });
    let launches = numbers.iter().filter_map(|(number, load, launch)| {
        let outcome = driver.outcome(*number)?;
        Some(LaunchSeen {
            load: *load,
            launch: *launch,
            number: *number,
            row: outcome.row?,
            end: outcome.end.map(time),
        })
    });
    let shapes = loads.iter().zip(kernels).map(|(load, kernel)| {
        let (threads, shared) = (load.block.threads, load.block.shared_bytes);
        gridmux_hw_model::occupancy::block_needs(config, kernel, threads, shared).counted()
    });
    Trace {
        blocks: seen.collect(),
        launches: launches.collect(),
        shapes: shapes.collect(),
    }
}

/// Stands between the executor and the policy: loses events and makes the loss good.
struct Between {
    inner: Box<dyn Policy>,
    /// Has heard everything.
    truth: Ledger,
    heard: u64,
    lose: Option<(u64, u64)>,
    lost: u64,
    known: BTreeMap<RowId, Event>,
    tenants: BTreeMap<TenantId, Event>,
}

impl Between {
    fn make_good(&mut self, at: Nanos) {
        let n = std::mem::take(&mut self.lost);
        self.inner.observe(&Event::Lost { n });
        for event in self.tenants.values().chain(self.known.values()) {
            self.inner.observe(event);
        }
        for row in self.known.keys() {
            let book = self.truth.row(*row).expect("it was introduced");
            self.inner.observe(&Event::Counters {
                row: *row,
                open_launches: book.open_launches,
                live: book.live,
                waiting: book.waiting,
                at,
            });
        }
    }
}

impl Policy for Between {
    fn observe(&mut self, event: &Event) {
        self.truth.observe(event);
        match *event {
            Event::Tenant { tenant, .. } => drop(self.tenants.insert(tenant, *event)),
            Event::RowNew { row, .. } => drop(self.known.insert(row, *event)),
            Event::RowGone { row } => drop(self.known.remove(&row)),
            _ => {}
        }
        self.heard += 1;
        let lost = self
            .lose
            .is_some_and(|(from, n)| (from..from + n).contains(&self.heard));
        if lost {
            self.lost += 1;
        } else {
            self.inner.observe(event);
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if self.lost > 0 {
            self.make_good(now);
        }
        self.inner.replan(now, standing, next)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
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
