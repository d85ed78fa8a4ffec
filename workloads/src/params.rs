//! How big a launch is: three named sizes, and free parameters behind them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Named problem sizes, by the thread instructions one launch executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// From 10 thousand to half a million, for tests of correctness: a few blocks, some partly idle.
    Tiny,
    /// About one to three million.
    Small,
    /// About thirty to a hundred million. Durations span a hundredfold range (`cargo xtask bench durations`).
    Large,
}

impl Size {
    /// All sizes, smallest first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Small, Self::Large];

    /// Returns the name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A size that is none of the three.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown size {0:?}: choose tiny, small or large")]
pub struct UnknownSize(
    /// What was given.
    pub String,
);

impl FromStr for Size {
    type Err = UnknownSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|size| size.name() == text)
            .ok_or_else(|| UnknownSize(text.to_owned()))
    }
}

/// Free parameters of a launch. [`Workload::elements`](crate::Workload) and
/// [`Workload::rounds`](crate::Workload) say what the two numbers count for each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// Problem size: elements, matrix edge, box edge, rows, threads or links.
    pub elements: u32,
    /// Work per element where a kernel has such a dial; ignored elsewhere.
    pub rounds: u32,
    /// Seed of the input data.
    pub seed: u64,
}

/// Parameters that a workload cannot launch with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("workload {workload}: {key} ({what}) is {value}; it must be from {least} to {most}")]
pub struct BadParams {
    /// The workload's name.
    pub workload: &'static str,
    /// The parameter's name.
    pub key: &'static str,
    /// What the parameter counts.
    pub what: &'static str,
    /// The value given.
    pub value: u32,
    /// The least value it takes.
    pub least: u32,
    /// The greatest value it takes.
    pub most: u32,
}
