//! `plan` mode is a subject of the conformance suite, and the suite fails when a rule is broken.
//!
//! Rule: what happened is told by the model's own block events, what was said by the policy that the suite hands in.

mod support;

use gridmux_hw_model::{
    BlockChange, DriverOptions, GpuConfig, PolicyDriver, QueueId, Submission, device_shape,
    enforces,
};
use gridmux_policy::conformance::{
    BlockSeen, Change, LaunchSeen, Load, Slack, Subject, Trace, Verdict, cases, check,
};
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::ledger::Ledger;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Class, Element, Enforcement, Event, Plan, Policy};
use std::collections::BTreeMap;
use support::Bench;

/// Stays on its SM for so many nanoseconds, mostly asleep.
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

/// Plan mode on a small GPU.
struct PlanMode {
    config: GpuConfig,
    threads: usize,
    rows_per_tenant: usize,
    first_row: u32,
    lose: Option<(u64, u64)>,
    wrong: Option<Wrong>,
}

/// A rule that is broken by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Plans are obeyed as if each cap were one higher.
    Caps,
    /// Ranks are turned around.
    Ranks,
    /// Tenants have no limits.
    Limits,
    /// Budgets begin anew with each plan.
    Budgets,
    /// Every third event of blocks is left out.
    Blocks,
    /// Shares are of the whole device.
    Shares,
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
            wrong: None,
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
        let kernels: Vec<_> = loads.iter().map(|_| bench.kernel(STAY, "stay")).collect();
        let mut gpu = bench.gpu;
        gpu.set_threads(self.threads);
        let between = Between {
            inner: policy,
            shape: self.device(),
            truth: Ledger::new(&self.device()),
            heard: 0,
            lose: self.lose.take(),
            lost: 0,
            known: BTreeMap::new(),
            tenants: BTreeMap::new(),
            wrong: self.wrong,
            started: BTreeMap::new(),
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
    let config = driver.gpu().config();
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

/// Stands between the executor and the policy: loses events and makes the loss good, and breaks rules.
struct Between {
    inner: Box<dyn Policy>,
    shape: DeviceShape,
    /// Has heard everything.
    truth: Ledger,
    heard: u64,
    lose: Option<(u64, u64)>,
    lost: u64,
    known: BTreeMap<RowId, Event>,
    tenants: BTreeMap<TenantId, Event>,
    wrong: Option<Wrong>,
    /// Starts by row.
    started: BTreeMap<RowId, u64>,
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

    /// The plan as an executor would obey it that breaks the rule.
    fn spoil(&self, plan: &mut Plan) {
        let said = plan.clone();
        let mut builder = gridmux_policy::PlanBuilder::new(plan, said.device, &self.shape);
        builder
            .wake_at(said.wake_at)
            .default_row(said.default_row());
        let groups: Vec<_> = said
            .groups()
            .iter()
            .map(|group| builder.group(*group))
            .collect();
        for (place, row) in said.rows().iter().enumerate() {
            let mut row = *row;
            if self.wrong == Some(Wrong::Ranks) {
                row.rank = 10_u32.saturating_sub(row.rank);
            }
            if self.wrong == Some(Wrong::Budgets) {
                let started = self.started.get(&row.row).copied().unwrap_or(0);
                row.budget = row.budget.map(|more| started + more);
            }
            let at = builder.standby_row(row, gridmux_policy::Cell::default());
            for (n, group) in groups.iter().enumerate() {
                let mut cell = said.cell(n, place);
                if self.wrong == Some(Wrong::Caps) && cell.cap > 0 {
                    cell.cap = cell.cap.saturating_add(1);
                }
                builder.cell(*group, at, cell);
            }
        }
        if self.wrong != Some(Wrong::Limits) {
            for (place, limit) in said.limits().iter().enumerate() {
                let at = builder.limit(*limit);
                for (n, group) in groups.iter().enumerate() {
                    builder.group_limit(*group, at, said.group_limit(n, place));
                }
            }
        }
        let none = Plan::default();
        let done = builder.finish(&none, |_| gridmux_policy::BlockShape::default());
        done.expect("as good as the one before");
    }
}

impl Policy for Between {
    fn observe(&mut self, event: &Event) {
        self.truth.observe(event);
        match *event {
            Event::Tenant { tenant, .. } => drop(self.tenants.insert(tenant, *event)),
            Event::RowNew { row, .. } => drop(self.known.insert(row, *event)),
            Event::RowGone { row } => drop(self.known.remove(&row)),
            Event::Blocks { row, started, .. } => {
                *self.started.entry(row).or_default() += u64::from(started);
            }
            _ => {}
        }
        self.heard += 1;
        let lost = self
            .lose
            .is_some_and(|(from, n)| (from..from + n).contains(&self.heard));
        let blocks = matches!(event, Event::Blocks { .. });
        if lost {
            self.lost += 1;
        } else if self.wrong == Some(Wrong::Blocks) && blocks && self.heard.is_multiple_of(3) {
            // Left out.
        } else if let (
            Some(Wrong::Shares),
            Event::Share {
                held,
                tenant,
                entitled,
                at,
            },
        ) = (self.wrong, *event)
        {
            let held = held * 1.1;
            self.inner.observe(&Event::Share {
                tenant,
                held,
                entitled,
                at,
            });
        } else {
            self.inner.observe(event);
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if self.lost > 0 {
            self.make_good(now);
        }
        let made = self.inner.replan(now, standing, next);
        if made && self.wrong.is_some() {
            self.spoil(next);
        }
        made
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
fn broken(wrong: Wrong) -> Vec<&'static str> {
    let mut subject = PlanMode::new();
    subject.wrong = Some(wrong);
    let failed = cases()
        .into_iter()
        .filter(|case| case.run(&mut subject).is_err());
    failed.map(|case| case.name).collect()
}

#[test]
fn the_suite_fails_when_caps_are_not_held() {
    let failed = broken(Wrong::Caps);
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
    let failed = broken(Wrong::Ranks);
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
    let failed = broken(Wrong::Limits);
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
    let failed = broken(Wrong::Budgets);
    assert!(
        failed.contains(&"a budget is a position, however often it is said"),
        "{failed:?}"
    );
}

#[test]
fn the_suite_fails_when_the_policy_is_not_told_the_truth() {
    let failed = broken(Wrong::Blocks);
    assert!(
        failed.contains(&"blocks are counted on the groups that hold them"),
        "{failed:?}"
    );
    let failed = broken(Wrong::Shares);
    assert_eq!(failed, ["shares are the integrals of what happened"]);
}
