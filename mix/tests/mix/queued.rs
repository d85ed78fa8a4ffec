//! Launches that cannot run yet or cannot run at all: those behind others of their queue, and those that an engine
//! refuses as they arrive.

use gridmux_mix::driver::{
    BlockEvent, Described, Driver, DriverOptions, Ending, Engine, RowSample, Standing,
};
use gridmux_mix::event::{
    EventConfig, EventDriver, EventExecutor, EventKernel, EventSubmission, LaunchCounters, Refusal,
    Uses, Work,
};
use gridmux_policy::conformance::{LogEntry, Tapped};
use gridmux_policy::policies::srtf::{Settings, Srtf};
use gridmux_policy::policy::Watch;
use gridmux_policy::profiles::Profiles;
use gridmux_policy::{
    BlockShape, Class, Cycles, DeviceId, DeviceShape, Event, Nanos, Plan, Policy, ProfileKey,
    RowId, TenantId, all_policies, by_name,
};
use std::sync::Arc;

fn kernel(name: &str, threads: u32) -> Arc<EventKernel> {
    Arc::new(EventKernel {
        name: name.to_owned(),
        block: BlockShape::of_threads(threads),
        pressure: 1.0,
        sensitivity: 1.0,
        uses: Uses::UNKNOWN,
    })
}

fn submission(kernel: &Arc<EventKernel>, blocks: u64, mean: f64) -> EventSubmission {
    EventSubmission {
        queue: 0,
        kernel: Arc::clone(kernel),
        blocks,
        work: Work::Random {
            mean,
            deviation: 0.0,
            by_wave: true,
        },
    }
}

/// Short launches behind a long one in their tenant's queue: whoever gave the device to one of them would wait for
/// ever.
#[test]
fn a_launch_behind_another_one_of_its_queue_is_waited_for_by_nobody() {
    let config = EventConfig::gtx480();
    let [long, short, other] =
        [("long", 256), ("short", 128), ("other", 64)].map(|k| kernel(k.0, k.1));
    for info in all_policies() {
        let profiles = Profiles::default();
        let made = by_name(info.name, DeviceId(0), &config.shape, &profiles).expect("listed");
        let (tapped, log) = Tapped::new(made);
        let engine = EventExecutor::new(config);
        let options = DriverOptions::default();
        let mut driver = EventDriver::new(engine, tapped, DeviceId(0), options);
        driver.learn(&profiles);
        for tenant in [0, 1] {
            driver.tenant(TenantId(tenant), 1, Class::Normal);
        }
        let mut submit = |tenant, kernel, blocks, mean, at| {
            let asked = submission(kernel, blocks, mean);
            driver
                .submit(TenantId(tenant), asked, Cycles(at))
                .expect("it fits")
        };
        // So that the short one is known to be short.
        submit(0, &short, 60, 1_000.0, 0);
        let first = submit(0, &long, 2_000, 50_000.0, 1_000_000);
        let behind = submit(0, &short, 60, 1_000.0, 1_000_001);
        submit(1, &other, 900, 20_000.0, 1_000_002);
        let ended = driver.run(Cycles(1 << 40));
        assert!(ended, "{}: a launch never got room", info.name);
        let end = |number| driver.outcome(number).and_then(|outcome| outcome.end);
        assert!(end(first) < end(behind), "{}: one queue", info.name);
        let place = |what: &dyn Fn(&Event) -> bool, events: &[Event]| events.iter().position(what);
        let events = log.take_events();
        let arrives = place(
            &|event| {
                matches!(event, Event::Arrive { launch, at, .. }
                if *launch == behind && *at < Nanos(2_000_000))
            },
            &events,
        );
        let ends = place(
            &|event| matches!(event, Event::Ended { launch, .. } if *launch == first),
            &events,
        );
        assert!(ends.is_some() && ends < arrives, "{}", info.name);
    }
}

#[test]
fn a_cancelled_launch_that_never_arrived_leaves_nothing_behind() {
    let config = EventConfig::gtx480();
    let made = by_name("srtf", DeviceId(0), &config.shape, &Profiles::default());
    let (tapped, log) = Tapped::new(made.expect("listed"));
    let options = DriverOptions {
        rows_per_tenant: 1,
        ..DriverOptions::default()
    };
    let engine = EventExecutor::new(config);
    let mut driver = EventDriver::new(engine, tapped, DeviceId(0), options);
    driver.tenant(TenantId(0), 1, Class::Normal);
    let mut numbers = Vec::new();
    let asked = submission(&kernel("one", 128), 100, 10_000.0);
    for _ in 0..3 {
        numbers.push(
            driver
                .submit(TenantId(0), asked.clone(), Cycles(0))
                .expect("it fits"),
        );
    }
    driver.run_until(Cycles(1_000));
    assert!(driver.cancel(numbers[1]));
    assert!(driver.run(Cycles(1 << 40)));
    // The row is idle, so that another kernel may have its place.
    let other = submission(&kernel("other", 256), 100, 10_000.0);
    let next = driver
        .submit(TenantId(0), other, Cycles(0))
        .expect("it fits");
    assert!(driver.run(Cycles(1 << 41)));
    assert!(
        driver
            .outcome(next)
            .is_some_and(|outcome| outcome.error.is_none())
    );
    let mut spills = Vec::new();
    for event in log.take_events() {
        match event {
            Event::Arrive { launch, .. } | Event::Ended { launch, .. } => {
                assert_ne!(launch, numbers[1], "{event:?}");
            }
            Event::RowNew { spill, .. } => spills.push(spill),
            _ => {}
        }
    }
    assert_eq!(spills, [false, false]);
}

/// An event executor that refuses a launch when it arrives.
struct Refusing(EventExecutor, u64);

impl Engine for Refusing {
    type Kernel = EventKernel;
    type Submission = EventSubmission;
    type Counters = LaunchCounters;
    type Refusal = Refusal;
    type Failure = Refusal;

    fn shape(&self) -> DeviceShape {
        self.0.shape()
    }

    fn now(&self) -> Cycles {
        self.0.now()
    }

    fn time(&self, at: Cycles) -> Nanos {
        self.0.time(at)
    }

    fn cycle(&self, at: Nanos) -> Cycles {
        self.0.cycle(at)
    }

    fn describe(&self, submission: &EventSubmission) -> Result<Described<EventKernel>, Refusal> {
        self.0.describe(submission)
    }

    fn profile(&self, kernel: &EventKernel, block: &BlockShape) -> ProfileKey {
        self.0.profile(kernel, block)
    }

    fn set_plan(&mut self, plan: &Plan) {
        self.0.set_plan(plan);
    }

    fn launch(
        &mut self,
        number: u64,
        standing: Standing,
        submission: &EventSubmission,
    ) -> Result<(), Refusal> {
        if number == self.1 {
            let kernel = submission.kernel.name.clone();
            return Err(Refusal::NoBlocks { kernel });
        }
        self.0.launch(number, standing, submission)
    }

    fn kill(&mut self, number: u64) {
        self.0.kill(number);
    }

    fn forget_row(&mut self, row: RowId) {
        self.0.forget_row(row);
    }

    fn advance(&mut self, until: Cycles, watch: Option<Watch>) -> Vec<Ending<Self>> {
        let ended = self.0.advance(until, watch).into_iter();
        let ended = ended.map(|ending| Ending {
            number: ending.number,
            at: ending.at,
            result: ending.result,
        });
        ended.collect()
    }

    fn take_blocks(&mut self) -> Vec<BlockEvent> {
        self.0.take_blocks()
    }

    fn samples(&self) -> Vec<RowSample> {
        self.0.samples()
    }
}

/// A closed loop submits its next launch when the one before has ended, however that was.
#[test]
fn a_closed_loop_goes_on_after_a_launch_that_is_refused_as_it_arrives() {
    let config = EventConfig::gtx480();
    for refused in 0..4 {
        let made = by_name("srtf", DeviceId(0), &config.shape, &Profiles::default());
        let engine = Refusing(EventExecutor::new(config), refused);
        let options = DriverOptions::default();
        let mut driver = Driver::new(engine, made.expect("listed"), DeviceId(0), options);
        driver.tenant(TenantId(0), 1, Class::Normal);
        let asked = submission(&kernel("one", 128), 100, 10_000.0);
        let mut ended = Vec::new();
        while ended.len() < 4 {
            let at = driver.engine().now();
            driver
                .submit(TenantId(0), asked.clone(), at)
                .expect("it fits");
            let ends = driver.run_to_an_end(Cycles(1 << 40));
            assert!(!ends.is_empty(), "launch {} ends", ended.len());
            ended.extend(ends);
        }
        assert_eq!(ended, [0, 1, 2, 3]);
        let failed: Vec<bool> = (0..4)
            .map(|number| {
                driver
                    .outcome(number)
                    .is_some_and(|outcome| outcome.error.is_some())
            })
            .collect();
        let expected: Vec<bool> = (0..4).map(|number| number == refused).collect();
        assert_eq!(failed, expected);
        assert!(driver.run(Cycles(1 << 41)), "nothing is left");
    }
}

/// Two kernels with equal remaining time: the one that arrived first has the device, whatever their rows' numbers are,
/// and however often plans are made.
#[test]
fn srtf_breaks_ties_by_arrival() {
    let shape = EventConfig::gtx480().shape;
    for (first, second) in [(0, 1), (1, 0), (900, 7)] {
        let profiles = Profiles::default();
        for row in [first, second] {
            profiles.set(ProfileKey(row.into()), 1_000.0);
        }
        let settings = Settings {
            profiles,
            ..Settings::default()
        };
        let mut policy = Srtf::new(DeviceId(0), &shape, settings);
        let (mut standing, mut next) = (Plan::default(), Plan::default());
        let mut tell = |event: Event| {
            policy.observe(&event);
            if policy.replan(Nanos(0), &standing, &mut next) {
                std::mem::swap(&mut standing, &mut next);
            }
            [first, second].map(|row| standing.cap_total(RowId(row)) > 0)
        };
        tell(Event::Tenant {
            tenant: TenantId(0),
            weight: 1,
            class: Class::Normal,
        });
        for row in [first, second] {
            tell(Event::RowNew {
                row: RowId(row),
                tenant: TenantId(0),
                block: BlockShape::of_threads(256),
                profile: ProfileKey(row.into()),
                spill: false,
            });
        }
        let arrive = |row: u32, launch| Event::Arrive {
            row: RowId(row),
            launch,
            blocks: 500,
            at: Nanos(1),
        };
        tell(arrive(first, 1));
        assert_eq!(tell(arrive(second, 2)), [true, false]);
        for _ in 0..3 {
            let at = Nanos(2);
            // Another weight is a reason to plan again, and changes nothing.
            let tenant = TenantId(0);
            let class = Class::Normal;
            for weight in [2, 1] {
                let event = Event::Tenant {
                    tenant,
                    weight,
                    class,
                };
                assert_eq!(tell(event), [true, false]);
            }
            assert_eq!(tell(Event::Timer { at }), [true, false]);
        }
    }
}

/// A launch behind another one of its row is no new kernel, and a row that has ended a block is not sampled again.
#[test]
fn srtf_samples_a_row_once() {
    let config = EventConfig::gtx480();
    let made = by_name("srtf", DeviceId(0), &config.shape, &Profiles::default());
    let (tapped, log) = Tapped::new(made.expect("listed"));
    let engine = EventExecutor::new(config);
    let options = DriverOptions::default();
    let mut driver = EventDriver::new(engine, tapped, DeviceId(0), options);
    let mut rows = Vec::new();
    for (tenant, name) in [(0, "one"), (1, "other")] {
        driver.tenant(TenantId(tenant), 1, Class::Normal);
        let kernel = kernel(name, 128);
        for launch in 0..5 {
            let asked = EventSubmission {
                // Two at a time, so that one waits behind the other of its row.
                queue: launch % 2,
                ..submission(&kernel, 400, 20_000.0)
            };
            let at = Cycles(u64::from(tenant) * 3_000);
            driver.submit(TenantId(tenant), asked, at).expect("it fits");
        }
    }
    assert!(driver.run(Cycles(1 << 40)));
    let entries = log.take();
    for (_, plan) in entries.iter().filter_map(LogEntry::plan) {
        let samples = plan.groups().len() == 2 && plan.groups()[0].sms.len() == 1;
        let sampled = plan.rows().iter().enumerate();
        let sampled = sampled.filter(|(place, _)| samples && plan.cell(0, *place).cap > 0);
        for (_, row) in sampled {
            rows.push(row.row);
        }
    }
    rows.dedup();
    assert_eq!(rows, [RowId(1)], "the second kernel, once");
}
