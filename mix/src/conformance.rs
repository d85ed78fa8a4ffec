//! Runs of the suite on any [`Driver`]: what a subject on virtual time has in common with others.
//!
//! Rule: what happened to blocks is taken from the engine's own block events, and which plans were in force from the
//! policy that the suite hands in.

use crate::driver::{BlockChange, Driver, DriverOptions, Engine};
use gridmux_policy::book::Book;
use gridmux_policy::class::Class;
use gridmux_policy::conformance::{
    BlockSeen, Breach, Breaking, Change, LaunchSeen, Load, LoadLaunch, Slack, Subject, Trace,
};
use gridmux_policy::contract::{Element, Enforcement};
use gridmux_policy::event::Event;
use gridmux_policy::ids::DeviceId;
use gridmux_policy::plan::Plan;
use gridmux_policy::policy::{Policy, Watch};
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::{Cycles, Nanos};

/// What the suite asks of the next run.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Rows that a tenant may have.
    pub rows_per_tenant: usize,
    /// Number of the first row.
    pub first_row: u32,
    /// First event that is lost, and how many are.
    pub lose: Option<(u64, u64)>,
    /// A rule that is broken on the way to the executor.
    pub breach: Option<Breach>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            rows_per_tenant: 256,
            first_row: 0,
            lose: None,
            breach: None,
        }
    }
}

impl Asked {
    /// Runs loads under a policy on an idle engine until a time. `submission` makes a launch of the load of that place.
    ///
    /// # Panics
    /// If the engine refuses a launch.
    pub fn run<E: Engine>(
        self,
        engine: E,
        policy: Box<dyn Policy>,
        loads: (&[Load], Nanos),
        submission: impl FnMut(usize, &Load, &LoadLaunch) -> E::Submission,
    ) -> Trace
    where
        E::Refusal: std::fmt::Debug,
    {
        self.run_on(engine, policy, loads, submission).0
    }

    /// Runs loads as [`Asked::run`] does, and returns the engine as it is then, with what the launches left in it.
    ///
    /// # Panics
    /// If the engine refuses a launch.
    pub fn run_on<E: Engine>(
        self,
        engine: E,
        policy: Box<dyn Policy>,
        (loads, until): (&[Load], Nanos),
        mut submission: impl FnMut(usize, &Load, &LoadLaunch) -> E::Submission,
    ) -> (Trace, E)
    where
        E::Refusal: std::fmt::Debug,
    {
        let shape = engine.shape();
        let policy: Box<dyn Policy> = match self.breach {
            Some(breach) => Box::new(Breaking::new(policy, breach, &shape)),
            None => policy,
        };
        let between = Between {
            inner: policy,
            truth: Book::new(&shape),
            heard: 0,
            lose: self.lose,
            lost: 0,
        };
        let options = DriverOptions {
            record: true,
            rows_per_tenant: self.rows_per_tenant,
            first_row: self.first_row,
            sample_every: Cycles(0),
        };
        let mut driver = Driver::new(engine, Box::new(between), DeviceId(0), options);
        for load in loads {
            driver.tenant(load.tenant, load.weight, Class::Normal);
        }
        let mut launches = Vec::new();
        let mut shapes = vec![BlockShape::default(); loads.len()];
        for (place, load) in loads.iter().enumerate() {
            for (n, launch) in load.launches.iter().enumerate() {
                let at = driver.engine().cycle(launch.at);
                let asked = submission(place, load, launch);
                let described = driver.engine().describe(&asked);
                shapes[place] = described.expect("a launch that can run").block;
                let number = driver.submit(load.tenant, asked, at);
                launches.push((number.expect("described"), place, n));
            }
        }
        let until = driver.engine().cycle(until);
        driver.run_until(until);
        let trace = Trace {
            shapes,
            ..trace(&mut driver, &launches)
        };
        (trace, driver.into_engine())
    }
}

/// Runs loads under a policy until a time, as the suite asks.
type RunLoads = dyn FnMut(Asked, Box<dyn Policy>, &[Load], Nanos) -> Trace;

/// An engine under a driver, as a subject of the suite: exact, but for the time that blocks take to leave.
pub struct OnVirtualTime {
    shape: DeviceShape,
    enforces: fn(Element) -> Enforcement,
    observation: Nanos,
    grain: Nanos,
    asked: Asked,
    /// A rule that is broken in every run.
    pub breach: Option<Breach>,
    run: Box<RunLoads>,
}

impl OnVirtualTime {
    /// Returns the subject. `times` are how far its events may be from the truth and a residence of blocks that is long
    /// ([`Subject::observation`], [`Subject::grain`]).
    #[must_use]
    pub fn new(
        shape: DeviceShape,
        enforces: fn(Element) -> Enforcement,
        times: [Nanos; 2],
        run: Box<RunLoads>,
    ) -> Self {
        let [observation, grain] = times;
        Self {
            shape,
            enforces,
            observation,
            grain,
            asked: Asked::default(),
            breach: None,
            run,
        }
    }
}

impl Subject for OnVirtualTime {
    fn device(&self) -> DeviceShape {
        self.shape
    }

    fn enforces(&self, element: Element) -> Enforcement {
        (self.enforces)(element)
    }

    fn slack(&self, element: Element) -> Slack {
        Slack::exact(match element {
            Element::Preemption => Nanos(20_000),
            // What comes waits for its launch, and for a block that may stay a little longer than it was asked to.
            Element::Surplus => Nanos(self.grain.0 / 10),
            _ => Nanos(0),
        })
    }

    fn observation(&self) -> Nanos {
        self.observation
    }

    fn grain(&self) -> Nanos {
        self.grain
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
        let breach = self.breach;
        let asked = std::mem::take(&mut self.asked);
        (self.run)(Asked { breach, ..asked }, policy, loads, until)
    }
}

/// Returns what the engine says happened to launches, each with its number, load and place in it.
fn trace<E: Engine>(driver: &mut Driver<E>, launches: &[(u64, usize, usize)]) -> Trace {
    let events = driver.take_block_events();
    let seen = events.iter().map(|event| {
        let at = usize::try_from(event.tag).unwrap_or(usize::MAX);
        let (_, load, launch) = launches[at];
        BlockSeen {
            at: driver.engine().time(event.at),
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
    let blocks = seen.collect();
    let arrived = launches.iter().filter_map(|(number, load, launch)| {
        let outcome = driver.outcome(*number)?;
        Some(LaunchSeen {
            load: *load,
            launch: *launch,
            number: *number,
            row: outcome.row?,
            end: outcome.end.map(|at| driver.engine().time(at)),
        })
    });
    Trace {
        blocks,
        launches: arrived.collect(),
        shapes: Vec::new(),
    }
}

/// Stands between the executor and the policy: loses events and makes the loss good.
struct Between {
    inner: Box<dyn Policy>,
    /// Has heard everything.
    truth: Book,
    heard: u64,
    lose: Option<(u64, u64)>,
    lost: u64,
}

impl Between {
    fn make_good(&mut self, at: Nanos) {
        let n = std::mem::take(&mut self.lost);
        self.inner.observe(&Event::Lost { n });
        for event in self.truth.retold(at) {
            self.inner.observe(&event);
        }
        self.inner.observe(&Event::Resynced);
    }
}

impl Policy for Between {
    fn observe(&mut self, event: &Event) {
        self.truth.observe(event);
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

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }
}
