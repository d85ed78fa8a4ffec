//! The policy interface and the list of policies.
//!
//! Rules: a policy only observes and replans; it never places a block and knows no executor. It is
//! deterministic: the same events and times give the same plans. Each policy is one file in
//! `policies/` and one entry in [`policies`].

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::plan::Plan;
use crate::policies::{
    accelos, elastic, even, fifo, gridmux, ljf, mpmax, sjf, smk_p, spatial, srtf, srtf_adaptive,
    srtf_zero,
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
    fn wake_at(&self) -> Option<Nanos>;

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
    #[serde(skip)]
    make: fn(DeviceId, &DeviceShape, &Profiles) -> Box<dyn Policy>,
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

/// What a class means to policies that do not look at it.
const NO_CLASS: &str = "it has no meaning";

// Length: a table, one entry for each policy.
/// Every policy there is.
#[must_use]
pub fn policies() -> &'static [PolicyInfo] {
    const POLICIES: &[PolicyInfo] = &[
        PolicyInfo {
            name: fifo::NAME,
            summary: "launches fill the device in order of arrival; the next takes what is left over",
            source: "stock hardware; Left-Over of Warped-Slicer section 2",
            promises_weights: false,
            weights: "they have no meaning: launches go in order of arrival, whosever they are",
            class: NO_CLASS,
            is_oracle: false,
            uses: fifo::USES,
            make: |device, shape, _| Box::new(fifo::Fifo::new(device, shape)),
        },
        PolicyInfo {
            name: fifo::STRICT,
            summary: "launches fill the device strictly in order of arrival",
            source: "stock hardware; the baseline of SRTF section 5.2.1",
            promises_weights: false,
            weights: "they have no meaning: launches go in order of arrival, whosever they are",
            class: NO_CLASS,
            is_oracle: false,
            uses: fifo::STRICT_USES,
            make: |device, shape, _| Box::new(fifo::Fifo::strict(device, shape)),
        },
        PolicyInfo {
            name: mpmax::NAME,
            summary: "every kernel leaves room for one block of each co-runner",
            source: "just-in-time MPMax of SRTF section 5.2.2",
            promises_weights: false,
            weights: "they have no meaning: every kernel leaves room for one block of each other one",
            class: NO_CLASS,
            is_oracle: false,
            uses: mpmax::USES,
            make: |device, shape, _| Box::new(mpmax::MpMax::new(device, shape)),
        },
        PolicyInfo {
            name: sjf::NAME,
            summary: "the kernel with the least runtime has the device until it ends; unknown ones go first",
            source: "SRTF section 6.2, where it is an oracle",
            promises_weights: false,
            weights: "they have no meaning: kernels go by their runtimes alone",
            class: NO_CLASS,
            is_oracle: true,
            uses: sjf::USES,
            make: |device, shape, known| Box::new(sjf::Sjf::new(device, shape, known.clone())),
        },
        PolicyInfo {
            name: ljf::NAME,
            summary: "the kernel with the greatest runtime has the device until it ends; unknown ones go first",
            source: "SRTF section 6.2, where it is an oracle",
            promises_weights: false,
            weights: "they have no meaning: kernels go by their runtimes alone",
            class: NO_CLASS,
            is_oracle: true,
            uses: ljf::USES,
            make: |device, shape, known| Box::new(ljf::Ljf::new(device, shape, known.clone())),
        },
        PolicyInfo {
            name: srtf::NAME,
            summary: "the kernel with the least predicted remaining time has the device; new ones are sampled",
            source: "SRTF section 5.1.1",
            promises_weights: false,
            weights: "they have no meaning: kernels go by their remaining times alone",
            class: NO_CLASS,
            is_oracle: false,
            uses: srtf::USES,
            make: |device, shape, _| {
                Box::new(srtf::Srtf::new(device, shape, srtf::Settings::default()))
            },
        },
        PolicyInfo {
            name: srtf_zero::NAME,
            summary: "as srtf, with profiles instead of samples",
            source: "SRTF section 6.2.2",
            promises_weights: false,
            weights: "they have no meaning: kernels go by their remaining times alone",
            class: NO_CLASS,
            is_oracle: true,
            uses: srtf_zero::USES,
            make: |device, shape, known| Box::new(srtf_zero::new(device, shape, known.clone())),
        },
        PolicyInfo {
            name: srtf_adaptive::NAME,
            summary: "as srtf, but kernels share the device where exclusive use would be unfair",
            source: "SRTF section 5.1.2",
            promises_weights: false,
            weights: "they have no meaning: kernels go by their remaining times alone, or share as the paper says",
            class: NO_CLASS,
            is_oracle: false,
            uses: srtf_adaptive::USES,
            make: |device, shape, _| Box::new(srtf_adaptive::new(device, shape)),
        },
        PolicyInfo {
            name: spatial::NAME,
            summary: "every kernel has SMs of its own; several share one where there are more kernels than SMs",
            source: "Spart of SMK section 6; Spatial of Warped-Slicer section 2",
            promises_weights: false,
            weights: "SMs are divided in proportion, among kernels and not tenants",
            class: NO_CLASS,
            is_oracle: false,
            uses: spatial::USES,
            make: |device, shape, _| Box::new(spatial::Spatial::new(device, shape)),
        },
        PolicyInfo {
            name: even::NAME,
            summary: "kernels hold equal parts of every SM, at least a block each as far as there is room",
            source: "Even of Warped-Slicer section 5",
            promises_weights: false,
            weights: "parts of an SM are in proportion, among kernels and not tenants",
            class: NO_CLASS,
            is_oracle: false,
            uses: even::USES,
            make: |device, shape, _| Box::new(even::Even::new(device, shape)),
        },
        PolicyInfo {
            name: accelos::NAME,
            summary: "kernels hold equal parts of the device, at least a block each, and the rest is filled up",
            source: "accelOS section 3",
            promises_weights: false,
            weights: "parts of the device are in proportion, among kernels and not tenants, before the rest is filled \
                      up",
            class: NO_CLASS,
            is_oracle: false,
            uses: accelos::USES,
            make: |device, shape, _| Box::new(accelos::AccelOs::new(device, shape)),
        },
        PolicyInfo {
            name: elastic::NAME,
            summary: "kernels are merged before they start, with sizes that do not change",
            source: "Elastic Kernels, the baseline of accelOS section 7.3",
            promises_weights: false,
            weights: "they have no meaning: every kernel leaves room for one block of each other one",
            class: NO_CLASS,
            is_oracle: false,
            uses: elastic::USES,
            make: |device, shape, _| Box::new(elastic::Elastic::new(device, shape)),
        },
        PolicyInfo {
            name: gridmux::NAME,
            summary: "shortest remaining time by profiles and samples, with preemption, a bound and a guard",
            source: "ours, from SRTF section 5, accelOS section 3, SMK sections 4 and 5.2",
            promises_weights: false,
            weights: "remaining times are divided by them, and a tenant that held more than its part comes later",
            class: NO_CLASS,
            is_oracle: false,
            uses: gridmux::USES,
            make: |device, shape, known| {
                let settings = gridmux::Settings {
                    profiles: known.clone(),
                    ..gridmux::Settings::default()
                };
                Box::new(gridmux::Gridmux::new(device, shape, settings))
            },
        },
        PolicyInfo {
            name: smk_p::NAME,
            summary: "each SM is partitioned by weighted dominant-resource fairness",
            source: "SMK section 5.3.2, Figures 6 to 8; weights and share control are ours",
            promises_weights: true,
            weights: "a tenant's share of the dominant resource is in proportion, whatever kernels it has",
            class: "room that is free goes to the better class first",
            is_oracle: false,
            uses: smk_p::USES,
            make: |device, shape, _| Box::new(smk_p::SmkP::new(device, shape)),
        },
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
