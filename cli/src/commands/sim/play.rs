//! Running programs together on an executor, with a policy in charge, on the model or on the event executor alike.
//!
//! Rules: a launch is submitted when it arrives and the one before it in its stream has ended, but its turnaround
//! counts from its arrival; launches of one instant are submitted in the order of their programs.

use super::loading::with_budget_hint;
use super::meter::Meter;
use crate::failure::Failure;
use crate::output::note;
use gridmux_hw_model::RunError;
use gridmux_policy::driver::{Driver, DriverOptions, Engine};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Class, ShareReading};
use std::error::Error;
use std::rc::Rc;

/// No run lasts until this cycle.
pub(super) const NEVER: Cycles = Cycles(u64::MAX / 4);

/// A program was slowed down by others if its slowdown is more than this.
const SLOWED: f64 = 1.01;

/// When a launch arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// At this time, in nanoseconds.
    At(u64),
    /// Nanoseconds after the end of the launch before it in its stream; for the first one after time 0.
    After(u64),
}

/// A launch of a stream.
#[derive(Debug)]
pub(super) struct Planned<S> {
    pub(super) submission: Rc<S>,
    pub(super) arrival: Arrival,
}

/// A program: a tenant, with the launches of each of its streams.
#[derive(Debug)]
pub(super) struct Program<S> {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) class: Class,
    pub(super) streams: Vec<Vec<Planned<S>>>,
}

/// How a launch went. Times are in nanoseconds of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Went {
    pub(super) arrival_ns: u64,
    /// When its first block started.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// What became of a program's launches.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// In the order of their ends.
    pub(super) launches: Vec<Went>,
    /// What its blocks held, and what it was entitled to.
    pub(super) reading: ShareReading,
}

impl Played {
    /// Returns the time from arrival to end of each launch.
    pub(super) fn turnaround_ns(&self) -> Vec<u64> {
        let launches = self.launches.iter();
        launches
            .map(|went| went.end_ns.saturating_sub(went.arrival_ns))
            .collect()
    }

    /// Returns when the first launch arrived, and when the last one ended.
    pub(super) fn span_ns(&self) -> (u64, u64) {
        let first = self.launches.iter().map(|went| went.arrival_ns).min();
        (first.unwrap_or(0), self.end_ns())
    }

    /// Returns when the first block started.
    pub(super) fn start_ns(&self) -> u64 {
        let first = self.launches.iter().map(|went| went.start_ns).min();
        first.unwrap_or(0)
    }

    /// Returns when the last launch ended.
    pub(super) fn end_ns(&self) -> u64 {
        self.launches
            .iter()
            .map(|went| went.end_ns)
            .max()
            .unwrap_or(0)
    }
}

/// A run of all programs.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) played: Vec<Played>,
    pub(super) meter: Meter,
}

/// Puts the policy of that name in charge of an idle engine. It knows the kernels that have profiles, and learns what
/// runs.
pub(super) fn driver<E: Engine>(
    engine: E,
    (policy, profiles): (&str, &Profiles),
) -> Result<Driver<E>, Failure> {
    let device = DeviceId(0);
    let policy = gridmux_policy::by_name(policy, device, &engine.shape(), profiles)?;
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = Driver::new(engine, policy, device, options);
    driver.learn(profiles);
    Ok(driver)
}

/// Says on stderr that the programs of a run did not get in each other's way, where none was slowed down: then the
/// figures say nothing about sharing.
pub(super) fn hint_if_nobody_met(run: &Run, slowdowns: impl IntoIterator<Item = f64>) {
    let slowed = slowdowns.into_iter().any(|slowdown| slowdown > SLOWED);
    if run.played.len() < 2 || slowed {
        return;
    }
    let why = match run.meter.met() {
        true => "no program was slowed down by another: the GPU has room for all of them at once",
        false => "no two programs had blocks on the GPU at the same time, and none waited",
    };
    note(&format!("hint: {why}; try fewer SMs, with --sms"));
}

/// A launch that was submitted, by the number that the driver gave it.
#[derive(Debug, Clone, Copy)]
struct Sent {
    program: usize,
    stream: usize,
    arrival_ns: u64,
    block: BlockShape,
}

/// A run under way.
struct Stage<'a, E: Engine> {
    driver: &'a mut Driver<E>,
    programs: &'a [Program<E::Submission>],
    /// For each program and stream how many launches were submitted.
    next: Vec<Vec<usize>>,
    sent: Vec<Sent>,
    played: Vec<Played>,
    meter: Meter,
}

/// Runs all programs to their ends. `after` is called with the program of each launch that has ended, before the next
/// one of its stream is submitted.
///
/// # Errors
/// A launch is refused or fails, or the policy gives it no room to end, or `after` fails.
pub(super) fn run<E: Engine>(
    driver: &mut Driver<E>,
    programs: &[Program<E::Submission>],
    mut after: impl FnMut(&mut E, usize) -> Result<(), Failure>,
) -> Result<Run, Failure>
where
    E::Submission: Clone,
    E::Refusal: Error + Send + Sync + 'static,
    E::Failure: Error + 'static,
{
    for (tenant, program) in (0..).map(TenantId).zip(programs) {
        driver.tenant(tenant, program.weight, program.class);
    }
    let next = programs
        .iter()
        .map(|program| vec![0; program.streams.len()]);
    let mut stage = Stage {
        next: next.collect(),
        sent: Vec::new(),
        played: programs.iter().map(|_| Played::default()).collect(),
        meter: Meter::new(driver.engine().shape(), programs.len()),
        driver,
        programs,
    };
    for (program, of) in programs.iter().enumerate() {
        for stream in 0..of.streams.len() {
            stage.submit((program, stream), 0)?;
        }
    }
    let mut open = stage.sent.len();
    while open > 0 {
        let ended = stage.driver.run_to_an_end(NEVER);
        stage.measure();
        if ended.is_empty() {
            return Err(Failure::new(
                "launches do not end: the policy gives them no room, or a kernel does not end",
            ));
        }
        for number in ended {
            open -= 1;
            let (program, stream, end_ns) = stage.note(number)?;
            after(stage.driver.engine_mut(), program)?;
            open += usize::from(stage.submit((program, stream), end_ns)?);
        }
    }
    // No time passes, but the last ends are told.
    stage.driver.run_until(Cycles(0));
    if let Some(failure) = stage.driver.policy_failure() {
        return Err(Failure::new(failure.to_string()));
    }
    for (tenant, played) in (0..).map(TenantId).zip(&mut stage.played) {
        played.reading = stage.driver.reading(tenant);
    }
    Ok(Run {
        played: stage.played,
        meter: stage.meter,
    })
}

impl<E: Engine> Stage<'_, E>
where
    E::Submission: Clone,
    E::Refusal: Error + Send + Sync + 'static,
    E::Failure: Error + 'static,
{
    /// Submits the next launch of a stream, if there is one; the one before ended at `before_ns`.
    fn submit(
        &mut self,
        (program, stream): (usize, usize),
        before_ns: u64,
    ) -> Result<bool, Failure> {
        let next = &mut self.next[program][stream];
        let Some(planned) = self.programs[program].streams[stream].get(*next) else {
            return Ok(false);
        };
        *next += 1;
        let arrival_ns = match planned.arrival {
            Arrival::At(at) => at,
            Arrival::After(pause) => before_ns.saturating_add(pause),
        };
        let refused = |error: &dyn std::fmt::Display| {
            let name = &self.programs[program].name;
            Failure::new(format!("{name}: {error}")).hint(
                "use smaller blocks, or a GPU whose SMs are at least as large as the kernel needs, with --gpu",
            )
        };
        let submission = E::Submission::clone(&planned.submission);
        let described = self.driver.engine().describe(&submission);
        let block = described.map_err(|error| refused(&error))?.block;
        let at = self.driver.engine().cycle(Nanos(arrival_ns.max(before_ns)));
        if at >= NEVER {
            let name = &self.programs[program].name;
            let message = format!("{name}: a launch would arrive at {arrival_ns} ns");
            return Err(Failure::new(message).hint("no run lasts so long; give earlier times"));
        }
        let tenant = TenantId(u32::try_from(program)?);
        let submitted = self.driver.submit(tenant, submission, at);
        submitted.map_err(|error| refused(&error))?;
        self.sent.push(Sent {
            program,
            stream,
            arrival_ns,
            block,
        });
        Ok(true)
    }

    /// Takes note of what blocks did.
    fn measure(&mut self) {
        for event in self.driver.take_block_events() {
            let Some(sent) = usize::try_from(event.tag)
                .ok()
                .and_then(|number| self.sent.get(number))
            else {
                continue;
            };
            let at = self.driver.engine().time(event.at);
            self.meter
                .block(sent.program, &sent.block, event.change, at.0);
        }
    }

    /// Takes note of an end; returns the program, the stream, and when it was in nanoseconds.
    fn note(&mut self, number: u64) -> Result<(usize, usize, u64), Failure> {
        let sent = self.sent[usize::try_from(number)?];
        let outcome = self.driver.outcome(number);
        if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
            let name = &self.programs[sent.program].name;
            let failure = Failure::new(format!("{name}: a launch failed: {error}"));
            let error: &(dyn Error + 'static) = error;
            return Err(match error.downcast_ref() {
                Some(RunError::Fault(fault)) => with_budget_hint(failure, fault),
                _ => failure,
            });
        }
        let time = |at: Option<Cycles>| self.driver.engine().time(at.unwrap_or_default()).0;
        let went = Went {
            arrival_ns: sent.arrival_ns,
            start_ns: time(outcome.and_then(|outcome| outcome.first_start)),
            end_ns: time(outcome.and_then(|outcome| outcome.end)),
        };
        self.meter
            .launch(sent.program, (went.arrival_ns, went.end_ns));
        self.played[sent.program].launches.push(went);
        Ok((sent.program, sent.stream, went.end_ns))
    }
}
