//! Running programs together on an executor, with a policy in charge, on the model or on the event executor alike.
//!
//! Rules: a launch is submitted when it arrives and the one before it in its stream has ended, but its turnaround
//! counts from its arrival; launches of one instant are submitted in the order of their programs.

use crate::driver::{Driver, DriverOptions, Engine};
use crate::error::MixError;
use crate::meter::Meter;
use gridmux_hw_model::{FaultKind, RunError};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Class, ShareReading};
use std::error::Error;
use std::rc::Rc;

/// No run lasts until this cycle.
pub const NEVER: Cycles = Cycles(u64::MAX / 4);

/// When a launch arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At this time, in nanoseconds.
    At(u64),
    /// Nanoseconds after the end of the launch before it in its stream; for the first one after time 0.
    After(u64),
}

/// A launch of a stream.
#[derive(Debug)]
pub struct Planned<S> {
    /// What is launched.
    pub submission: Rc<S>,
    /// When it arrives.
    pub arrival: Arrival,
}

/// A program: a tenant, with the launches of each of its streams.
#[derive(Debug)]
pub struct Program<S> {
    /// Its name.
    pub name: String,
    /// Its tenant's weight.
    pub weight: u32,
    /// Its tenant's class.
    pub class: Class,
    /// The launches of each stream, in order.
    pub streams: Vec<Vec<Planned<S>>>,
}

/// How a launch went. Times are in nanoseconds of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchTimes {
    /// When it arrived.
    pub arrival_ns: u64,
    /// When its first block started.
    pub start_ns: u64,
    /// When its last block ended.
    pub end_ns: u64,
}

/// What became of a program's launches.
#[derive(Debug, Default)]
pub struct Played {
    /// In the order of their ends.
    pub launches: Vec<LaunchTimes>,
    /// What its blocks held, and what it was entitled to.
    pub reading: ShareReading,
}

impl Played {
    /// Returns the time from arrival to end of each launch.
    pub fn turnaround_ns(&self) -> Vec<u64> {
        let launches = self.launches.iter();
        launches
            .map(|went| went.end_ns.saturating_sub(went.arrival_ns))
            .collect()
    }

    /// Returns when the first launch arrived, and when the last one ended.
    pub fn span_ns(&self) -> (u64, u64) {
        let first = self.launches.iter().map(|went| went.arrival_ns).min();
        (first.unwrap_or(0), self.end_ns())
    }

    /// Returns when the first block started.
    pub fn start_ns(&self) -> u64 {
        let first = self.launches.iter().map(|went| went.start_ns).min();
        first.unwrap_or(0)
    }

    /// Returns when the last launch ended.
    pub fn end_ns(&self) -> u64 {
        self.launches
            .iter()
            .map(|went| went.end_ns)
            .max()
            .unwrap_or(0)
    }
}

/// A run of all programs.
#[derive(Debug)]
pub struct Run {
    /// By program.
    pub played: Vec<Played>,
    /// What the programs held over time.
    pub meter: Meter,
}

/// Puts the policy of that name in charge of an idle engine. It knows the kernels that have profiles, and learns what
/// runs.
///
/// # Errors
/// There is no such policy.
pub fn driver<E: Engine>(
    engine: E,
    (policy, profiles): (&str, &Profiles),
) -> Result<Driver<E>, MixError> {
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
pub fn run<E: Engine>(
    driver: &mut Driver<E>,
    programs: &[Program<E::Submission>],
    mut after: impl FnMut(&mut E, usize) -> Result<(), MixError>,
) -> Result<Run, MixError>
where
    E::Submission: Clone,
    E::Refusal: Error + 'static,
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
            return Err(MixError::Endless);
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
        return Err(failure.clone().into());
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
    E::Refusal: Error + 'static,
    E::Failure: Error + 'static,
{
    /// Submits the next launch of a stream, if there is one; the one before ended at `before_ns`.
    fn submit(
        &mut self,
        (program, stream): (usize, usize),
        before_ns: u64,
    ) -> Result<bool, MixError> {
        let next = &mut self.next[program][stream];
        let Some(planned) = self.programs[program].streams[stream].get(*next) else {
            return Ok(false);
        };
        *next += 1;
        let arrival_ns = match planned.arrival {
            Arrival::At(at) => at,
            Arrival::After(pause) => before_ns.saturating_add(pause),
        };
        let name = || self.programs[program].name.clone();
        let refused = |error: &dyn std::fmt::Display| MixError::Refused {
            program: name(),
            why: error.to_string(),
        };
        let submission = E::Submission::clone(&planned.submission);
        let described = self.driver.engine().describe(&submission);
        let block = described.map_err(|error| refused(&error))?.block;
        let at = self.driver.engine().cycle(Nanos(arrival_ns.max(before_ns)));
        if at >= NEVER {
            return Err(MixError::TooLate {
                program: name(),
                arrival_ns,
            });
        }
        let tenant = TenantId(u32::try_from(program).unwrap_or(u32::MAX));
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
    fn note(&mut self, number: u64) -> Result<(usize, usize, u64), MixError> {
        let sent = self.sent[usize::try_from(number).unwrap_or(usize::MAX)];
        let outcome = self.driver.outcome(number);
        if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
            let cause: &(dyn Error + 'static) = error;
            return Err(MixError::Failed {
                program: self.programs[sent.program].name.clone(),
                why: error.to_string(),
                given_up: cause.downcast_ref().is_some_and(is_given_up),
            });
        }
        let time = |at: Option<Cycles>| self.driver.engine().time(at.unwrap_or_default()).0;
        let went = LaunchTimes {
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

/// Returns whether a launch ended at its budget.
fn is_given_up(error: &RunError) -> bool {
    let budgets = |kind: &FaultKind| {
        matches!(
            kind,
            FaultKind::BudgetExceeded { .. } | FaultKind::InstructionBudgetExceeded { .. }
        )
    };
    matches!(error, RunError::Fault(fault) if budgets(&fault.kind))
}
