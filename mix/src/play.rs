//! Running programs together on an executor, with a policy in charge, on the model or on the event executor alike.
//!
//! Rules: a launch is submitted when it arrives and the one before it in its stream has ended, but its turnaround
//! counts from its arrival; launches of one instant are submitted in the order of their programs.

use crate::driver::{Described, Driver, DriverOptions, Engine};
use crate::error::MixError;
use crate::meter::Meter;
use gridmux_hw_model::{FaultKind, RunError};
use gridmux_policy::ids::{DeviceId, ProfileKey, TenantId};
use gridmux_policy::policies::gridmux;
use gridmux_policy::profiles::Profiles;
use gridmux_policy::shape::{BlockShape, max_residency};
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Class, DeviceShape, Policy, ShareReading};
use serde::Serialize;
use std::collections::BTreeMap;
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

/// How long launches of a kernel took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Runtime {
    /// Launches.
    pub launches: u32,
    /// The sum over them of the duration of a block from which, by equation 2 of SRTF, the time from their first start
    /// to their last end follows, in nanoseconds.
    pub block_ns: f64,
}

/// What a program did, as the model counts it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counted {
    /// Warp instructions per cycle of the whole GPU, while the program had launches under way.
    pub ipc: f64,
    /// Energy of what it did, without the GPU's leakage.
    pub energy_microjoules: f64,
}

/// What became of a program's launches.
#[derive(Debug, Default)]
pub struct Played {
    /// In the order of their ends.
    pub launches: Vec<LaunchTimes>,
    /// What its blocks held, and what it was entitled to.
    pub reading: ShareReading,
    /// By the name of its profile how long each of its kernels took.
    pub runtimes: BTreeMap<ProfileKey, Runtime>,
    /// What it did, where its code was executed.
    pub counted: Option<Counted>,
    /// The driver's numbers of its launches.
    pub(crate) numbers: Vec<u64>,
}

impl Played {
    /// Returns the time from arrival to end of each launch.
    pub fn turnaround_ns(&self) -> Vec<u64> {
        let launches = self.launches.iter();
        launches
            .map(|went| went.end_ns.saturating_sub(went.arrival_ns))
            .collect()
    }

    /// Returns for how long launches were under way: from the first start of one to its end.
    pub fn under_way_ns(&self) -> u64 {
        let launches = self.launches.iter();
        united(launches.map(|went| (went.start_ns, went.end_ns)))
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

/// Returns the time that is within any of some spans.
pub(crate) fn united(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut spans: Vec<(u64, u64)> = spans.collect();
    spans.sort_unstable();
    let (mut all, mut until) = (0, 0);
    for (from, to) in spans {
        all += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    all
}

/// Returns a store that knows how long kernels of these programs take alone, and learns nothing: what an oracle is
/// told. Where launches of one kernel differ, it knows their mean.
#[must_use]
pub fn oracle(alone: &[Played]) -> Profiles {
    let mut all: BTreeMap<ProfileKey, Runtime> = BTreeMap::new();
    for (key, runtime) in alone.iter().flat_map(|played| &played.runtimes) {
        let sum = all.entry(*key).or_default();
        sum.launches += runtime.launches;
        sum.block_ns += runtime.block_ns;
    }
    let profiles = Profiles::default();
    for (key, runtime) in all {
        profiles.set(key, runtime.block_ns / f64::from(runtime.launches));
    }
    profiles.fixed()
}

/// A run of all programs.
#[derive(Debug)]
pub struct Run {
    /// By program.
    pub played: Vec<Played>,
    /// What the programs held over time.
    pub meter: Meter,
}

/// The policy of a run, with what it knows of kernels.
#[derive(Debug, Clone, Copy)]
pub enum Choice<'a> {
    /// The policy of that name as it is.
    Named(&'a str, &'a Profiles),
    /// Policy `gridmux` with settings of its own; profiles are those beside them.
    Gridmux(&'a gridmux::Settings, &'a Profiles),
}

impl<'a> From<(&'a str, &'a Profiles)> for Choice<'a> {
    fn from((name, profiles): (&'a str, &'a Profiles)) -> Self {
        Self::Named(name, profiles)
    }
}

impl Choice<'_> {
    /// Makes the policy for a device.
    fn make(&self, device: DeviceId, shape: &DeviceShape) -> Result<Box<dyn Policy>, MixError> {
        Ok(match *self {
            Self::Named(name, profiles) => gridmux_policy::by_name(name, device, shape, profiles)?,
            Self::Gridmux(settings, profiles) => {
                let settings = gridmux::Settings {
                    profiles: profiles.clone(),
                    ..settings.clone()
                };
                Box::new(gridmux::Gridmux::new(device, shape, settings))
            }
        })
    }
}

/// Puts a policy in charge of an idle engine. It knows the kernels that have profiles, and learns what runs.
///
/// # Errors
/// There is no such policy.
pub fn driver<'a, E: Engine>(
    engine: E,
    policy: impl Into<Choice<'a>>,
) -> Result<Driver<E>, MixError> {
    let device = DeviceId(0);
    let choice = policy.into();
    let policy = choice.make(device, &engine.shape())?;
    let (Choice::Named(_, profiles) | Choice::Gridmux(_, profiles)) = choice;
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
    blocks: u64,
    profile: ProfileKey,
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
            return Err(stage.endless());
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
        let Described {
            kernel,
            block,
            blocks,
            ..
        } = described.map_err(|error| refused(&error))?;
        let profile = self.driver.engine().profile(&kernel, &block);
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
            blocks,
            profile,
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

    /// Returns the error of launches that are open although nothing will happen.
    fn endless(&self) -> MixError {
        let has_open = |program: &usize| {
            let sent = (0_u64..).zip(&self.sent);
            let mut own = sent.filter(|(_, sent)| sent.program == *program);
            own.any(|(number, _)| {
                self.driver
                    .outcome(number)
                    .is_some_and(|of| of.end.is_none())
            })
        };
        let open = (0..self.programs.len()).filter(has_open);
        let names: Vec<&str> = open.map(|at| self.programs[at].name.as_str()).collect();
        MixError::Endless {
            programs: names.join(", "),
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
        let ran_ns = went.end_ns.saturating_sub(went.start_ns);
        let played = &mut self.played[sent.program];
        let runtime = played.runtimes.entry(sent.profile).or_default();
        runtime.launches += 1;
        runtime.block_ns += block_ns(&self.driver.engine().shape(), &sent, ran_ns);
        played.launches.push(went);
        played.numbers.push(number);
        Ok((sent.program, sent.stream, went.end_ns))
    }
}

/// Returns the duration of a block from which a launch's runtime follows by equation 2 of SRTF.
fn block_ns(device: &DeviceShape, sent: &Sent, ran_ns: u64) -> f64 {
    let resident = u64::from(max_residency(device, &sent.block)) * u64::from(device.sms);
    let blocks = sent.blocks.max(1);
    ran_ns.max(1) as f64 * resident.clamp(1, blocks) as f64 / blocks as f64
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
