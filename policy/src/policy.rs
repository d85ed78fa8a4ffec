//! The policy interface and the list of policies.
//!
//! Rules: a policy only observes and replans; it never places a block and knows no executor. It is
//! deterministic: the same events and times give the same plans. Each policy is one file in
//! `policies/`, which says what it is, and one entry in [`policies`].

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::plan::Plan;
use crate::policies::{
    accelos, elastic, even, fifo, gridmux, kernelet, ljf, mpmax, sjf, smk, smk_p, smk_pw, spatial,
    srtf, srtf_adaptive, srtf_zero, warped_slicer,
};
use crate::profiles::Profiles;
use crate::shape::DeviceShape;
use crate::units::Nanos;
use serde::Serialize;
use thiserror::Error;

/// A scheduling policy of one device.
pub trait Policy: Send {
    /// Takes note of an event. Cheap: the executor's queue drains through this.
    fn observe(&mut self, event: &Event);

    /// Fills `next` with the plan for what has been observed until `now`, and returns true; returns
    /// false where the standing plan still holds, whatever `next` contains then. The first call
    /// always returns true. Allocates nothing once its tables are large enough.
    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool;

    /// Returns when the policy next wants `replan` called even if nothing happens. Is in the plan as
    /// well, but moves on when `replan` returns false. How often it is called is the executor's: it
    /// may come later.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    /// Returns which row the policy watches: it wants `replan` called, once, when that row has ended so many blocks.
    fn watch(&self) -> Option<Watch> {
        None
    }
}

/// A count of ended blocks after which a policy wants to be asked. One that is reached already is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The row.
    pub row: RowId,
    /// Blocks of the row that have ended since it was made.
    pub ended: u64,
}

/// What is known of a policy without making one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PolicyInfo {
    /// Its name, as users give it.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The paper that it follows, by a short name and the year; `repro/src/head.md` has them in full.
    pub paper: &'static str,
    /// Whether tenants' shares follow their weights.
    pub promises_weights: bool,
    /// What a tenant's weight means to it, or why it means nothing.
    pub weights: &'static str,
    /// What a tenant's class means to it.
    pub class: &'static str,
    /// Whether it stands for a policy that knows every kernel's runtime before it has run; then profiles of what will
    /// run are to be given.
    pub is_oracle: bool,
    /// The elements of a plan that it uses.
    pub uses: &'static [Element],
    /// What it does with samples of kernels.
    pub samples: Samples,
    /// Makes it for a device, with the store of the device's profiles.
    #[serde(skip)]
    pub(crate) make: fn(DeviceId, &DeviceShape, &Profiles) -> Box<dyn Policy>,
}

/// What an executor's samples of kernels ([`Event::Sample`]) are to a policy; the text says what it does without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Samples {
    /// It does not look at them.
    Unused,
    /// It is better with them.
    Useful(&'static str),
    /// Without them it is hardly the policy that its name says.
    Needed(&'static str),
}

impl Samples {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Useful(_) => "useful",
            Self::Needed(_) => "needed",
        }
    }

    /// Returns what the policy does without them, if that is another thing.
    #[must_use]
    pub fn without(self) -> Option<&'static str> {
        match self {
            Self::Unused => None,
            Self::Useful(without) | Self::Needed(without) => Some(without),
        }
    }
}

impl PolicyInfo {
    /// Returns whether weights mean anything to it, promised or not.
    #[must_use]
    pub fn uses_weights(&self) -> bool {
        !self.weights.starts_with(NO_WEIGHTS)
    }

    /// Returns whether classes mean anything to it.
    #[must_use]
    pub fn uses_classes(&self) -> bool {
        self.class != NO_CLASS
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no policy named {name:?}; known policies: {known}")]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
    /// The names that exist, separated by commas.
    pub known: String,
}

/// How it begins what weights mean to policies that do not look at them.
const NO_WEIGHTS: &str = "they have no meaning";
/// What a class means to policies that do not look at it.
pub(crate) const NO_CLASS: &str = "it has no meaning";

/// Every policy there is.
#[must_use]
pub fn policies() -> &'static [PolicyInfo] {
    const POLICIES: &[PolicyInfo] = &[
        fifo::INFO,
        fifo::STRICT_INFO,
        mpmax::INFO,
        sjf::INFO,
        ljf::INFO,
        srtf::INFO,
        srtf_zero::INFO,
        srtf_adaptive::INFO,
        spatial::INFO,
        even::INFO,
        accelos::INFO,
        elastic::INFO,
        kernelet::INFO,
        gridmux::INFO,
        smk_p::INFO,
        smk::INFO,
        smk_p::STRICT_INFO,
        smk_pw::INFO,
        warped_slicer::INFO,
    ];
    POLICIES
}

/// Makes the policy of that name for a device, with the store of the device's profiles. Policies that use none leave it
/// alone.
///
/// # Errors
/// [`UnknownPolicy`], which lists the names that exist.
pub fn by_name(
    name: &str,
    device: DeviceId,
    shape: &DeviceShape,
    profiles: &Profiles,
) -> Result<Box<dyn Policy>, UnknownPolicy> {
    policies()
        .iter()
        .find(|info| info.name == name)
        .map(|info| (info.make)(device, shape, profiles))
        .ok_or_else(|| {
            let known: Vec<&str> = policies().iter().map(|info| info.name).collect();
            UnknownPolicy {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
}
