//! What `sim mix` and `sim trace` have in common: reading traces, and what users are told of a run.

use super::loading::BUDGET_HINT;
use crate::failure::Failure;
use crate::files;
use crate::output::note;
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
