//! What `sim mix` and `sim trace` have in common: reading traces, and what users are told of a run.

use super::loading::BUDGET_HINT;
use super::notes::Notes;
use crate::failure::Failure;
use crate::files;
use anyhow::Context;
use clap::ValueEnum;
use gridmux_mix::play::Run;
use gridmux_mix::recording::RecordingError;
use gridmux_mix::replay::Arrivals;
use gridmux_mix::{MixError, Recording};
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::path::Path;

/// A program was slowed down by others if its slowdown is more than this.
const SLOWED: f64 = 1.01;
/// Programs that are on the GPU together for less than this part of the shortest one's time hardly meet.
const HARDLY: f64 = 0.1;
/// A program was quicker together than alone if its slowdown is less than this, and programs were slower together than
/// one after the other if their throughput is.
const QUICKER: f64 = 0.99;
/// Figures are beyond their ideals if they are so by more than this factor.
const IDEAL: f64 = 1.002;

/// When launches arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum When {
    /// At the times of their submissions
    Recorded,
    /// As long after the end of the one before in their stream as they were submitted after it
    Closed,
}

impl From<When> for Arrivals {
    fn from(when: When) -> Self {
        match when {
            When::Recorded => Self::Recorded,
            When::Closed => Self::Closed,
        }
    }
}

/// Reads a trace.
///
/// # Errors
/// The file cannot be read, or is no trace.
pub(super) fn recording(path: &Path) -> Result<Recording, Failure> {
    let name = path.display();
    let text = files::text(path, files::MOST_DATA)?;
    match Recording::read(&text) {
        Ok(recording) => Ok(recording),
        Err(RecordingError::Line { number, source }) => {
            Err(source).with_context(|| format!("{name}, line {number}"))?
        }
        Err(error @ RecordingError::Empty) => Err(Failure::new(format!("{name} {error}")).hint(
            "`gridmux run --record FILE -- COMMAND` writes one, once COMMAND launches a kernel",
        )),
    }
}

/// A failure on its way through a room that knows only errors.
#[derive(Debug)]
pub(super) struct Passed(pub(super) Failure);

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kernel cannot be loaded")
    }
}

impl Error for Passed {}

/// Returns the failure of a run, with what users can do about it.
pub(super) fn failure(error: MixError) -> Failure {
    let error = match error {
        MixError::User { program, source } => match source.downcast::<Passed>() {
            Ok(passed) => return passed.0.of(&program),
            Err(source) => MixError::User { program, source },
        },
        error => error,
    };
    let hint = match &error {
        MixError::NoCode { .. } => {
            return Failure::usage(error).hint("run the mix with --on event");
        }
        MixError::Refused { .. } => Some(
            "use smaller blocks, or a GPU whose SMs are at least as large as the kernel needs, with --gpu",
        ),
        MixError::LargerThanRecorded { .. } => {
            Some("replay on a GPU that is at least as large as the recorded one, with --gpu")
        }
        MixError::Endless { .. } => Some(
            "choose another policy, a GPU with room for a block of every program, with --gpu, or let them arrive one \
             after another",
        ),
        MixError::TooLate { .. } => Some("no run lasts so long; give earlier times"),
        MixError::Failed { given_up: true, .. } | MixError::NotMeasured { given_up: true, .. } => {
            Some(BUDGET_HINT)
        }
        _ => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Says on stderr that the programs of a run did not get in each other's way, where none was slowed down: then the
/// figures say nothing about sharing.
pub(super) fn hint_if_nobody_met(
    notes: &Notes,
    run: &Run,
    slowdowns: impl IntoIterator<Item = f64>,
) {
    let slowed = slowdowns.into_iter().any(|slowdown| slowdown > SLOWED);
    if run.played.len() < 2 || slowed {
        return;
    }
    let meter = &run.meter;
    let running = (0..run.played.len()).map(|program| meter.running_ns(program));
    let shortest = running.fold(f64::INFINITY, f64::min);
    let together = meter.together_ns() as f64 / shortest.max(1.0);
    if !meter.met() {
        notes.say(
            "hint: no two programs had blocks on the GPU at the same time, and none waited; let them arrive closer \
             together, or try fewer SMs, with --sms"
                .to_owned(),
        );
    } else if meter.peaks() <= 1.0 {
        notes.say(
            "hint: no program was slowed down by another: the GPU has room for all of them at once; try fewer SMs, \
             with --sms"
                .to_owned(),
        );
    } else if together < HARDLY {
        notes.say(format!(
            "hint: programs were on the GPU at the same time for {:.1} % of the shortest one's time; let them arrive \
             closer together",
            100.0 * together
        ));
    }
}

/// Says on stderr which programs were quicker together than alone, where one was so by much or figures go beyond their
/// ideals for it.
pub(super) fn hint_if_quicker<'a>(
    notes: &Notes,
    slowdowns: impl IntoIterator<Item = (&'a str, f64)>,
) {
    let slowdowns: Vec<(&str, f64)> = slowdowns.into_iter().collect();
    let count = slowdowns.len() as f64;
    let stp: f64 = slowdowns.iter().map(|(_, slowdown)| 1.0 / slowdown).sum();
    let antt = slowdowns.iter().map(|(_, slowdown)| slowdown).sum::<f64>() / count;
    let are_beyond = stp > count * IDEAL || antt * IDEAL < 1.0;
    let most = if are_beyond { 1.0 / IDEAL } else { QUICKER };
    let quicker = slowdowns.iter().filter(|(_, slowdown)| *slowdown < most);
    let quicker: Vec<String> = quicker
        .map(|(name, slowdown)| format!("{name} ({slowdown:.3})"))
        .collect();
    if quicker.is_empty() {
        return;
    }
    let what = match are_beyond {
        true => {
            "an STP above the number of programs, or an ANTT below 1, is that of programs that were quicker together \
             than alone"
        }
        false => "quicker together than alone",
    };
    notes.say(format!(
        "hint: {what}: {}; blocks that reside otherwise than under fifo get in each other's way less, and what one \
         program read another finds in a cache",
        quicker.join(", ")
    ));
}

/// Says on stderr that programs took longer together than one after the other, each alone.
pub(super) fn hint_if_slower(notes: &Notes, programs: usize, throughput: f64) {
    if programs > 1 && throughput < QUICKER {
        notes.say(format!(
            "hint: together they took longer than one after the other (throughput {throughput:.2}): blocks slow each \
             other down, or leave the GPU idle, by more than sharing it gains"
        ));
    }
}
