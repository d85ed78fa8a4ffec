//! Kernels on a device of the event executor, and the policies that are compared there.
//!
//! Rule: what a policy knows of kernels beforehand is the runtime that each has alone on the same executor, as the
//! papers' oracles do.

use crate::fixed::Fixed;
use anyhow::Result;
use gridmux_mix::driver::Engine;
use gridmux_mix::event::{EventConfig, EventExecutor, EventSubmission};
use gridmux_mix::{MixLaunch, Went, alone, together, together_learning};
use gridmux_policy::ids::ProfileKey;
use gridmux_policy::policies::warped_slicer::{self, WarpedSlicer};
use gridmux_policy::policies::{gridmux, smk_pw, srtf};
use gridmux_policy::shape::max_residency;
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, DeviceShape, Policy, Profiles, all_policies, by_name};

/// Returns whether a policy knows every kernel's runtime.
pub(crate) fn is_oracle(name: &str) -> bool {
    let mut named = all_policies().iter().filter(|policy| policy.name == name);
    named.any(|policy| policy.is_oracle)
}

/// A policy with its settings, under the name that tables show.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// The name.
    pub(crate) name: String,
    make: Make,
}

#[derive(Clone, Debug)]
enum Make {
    Named(&'static str),
    /// `smk-pw` that knows what blocks of each program issue alone, in instructions over cycles of residence.
    SmkPw(Vec<f64>),
    WarpedSlicer(warped_slicer::Settings),
    Srtf(Box<srtf::Settings>),
    /// A partition that does not change.
    Fixed(Vec<u16>),
    Gridmux {
        settings: Box<gridmux::Settings>,
        known: bool,
    },
}

impl Contender {
    /// Returns a policy as it is; `sjf`, `ljf` and `srtf-zero` know every kernel's runtime.
    pub(crate) fn named(name: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            make: Make::Named(name),
        }
    }

    /// Returns `smk-pw` without profiling SMs: `rates` are what blocks of each program issue alone, in instructions
    /// over cycles of residence.
    pub(crate) fn smk_pw_knowing(rates: Vec<f64>) -> Self {
        Self {
            name: "smk-pw, issue rates known".to_owned(),
            make: Make::SmkPw(rates),
        }
    }

    /// Returns `gridmux` with settings; with `known` it has every kernel's profile.
    pub(crate) fn gridmux(
        name: impl Into<String>,
        settings: gridmux::Settings,
        known: bool,
    ) -> Self {
        Self {
            name: name.into(),
            make: Make::Gridmux {
                settings: Box::new(settings),
                known,
            },
        }
    }

    /// Returns `warped-slicer` with settings.
    pub(crate) fn warped_slicer(
        name: impl Into<String>,
        settings: warped_slicer::Settings,
    ) -> Self {
        Self {
            name: name.into(),
            make: Make::WarpedSlicer(settings),
        }
    }

    /// Returns `srtf` with settings; it knows no kernel.
    pub(crate) fn srtf(name: impl Into<String>, settings: srtf::Settings) -> Self {
        Self {
            name: name.into(),
            make: Make::Srtf(Box::new(settings)),
        }
    }

    /// Returns a partition that does not change: the blocks of each program on an SM.
    pub(crate) fn fixed(blocks: Vec<u16>) -> Self {
        Self {
            name: format!("{blocks:?}"),
            make: Make::Fixed(blocks),
        }
    }

    /// Returns what determines the policy, as text.
    pub(crate) fn key(&self) -> String {
        format!("{:?}", self.make)
    }

    /// Makes the policy for a device, and says whether it reads a store of profiles that what runs is to fill.
    pub(crate) fn policy(
        &self,
        device: DeviceId,
        shape: &DeviceShape,
        profiles: &Profiles,
    ) -> Result<(Box<dyn Policy>, bool)> {
        Ok(match &self.make {
            Make::Named(name) => (
                by_name(name, device, shape, profiles)?,
                *name == gridmux::NAME,
            ),
            Make::WarpedSlicer(settings) => {
                (Box::new(WarpedSlicer::new(device, shape, *settings)), false)
            }
            Make::Srtf(settings) => {
                let settings = settings.as_ref().clone();
                (Box::new(srtf::Srtf::new(device, shape, settings)), false)
            }
            Make::Fixed(blocks) => (
                Box::new(Fixed::new(device, shape, blocks.clone(), 1)),
                false,
            ),
            Make::SmkPw(rates) => (Box::new(smk_pw::with_rates(device, shape, rates)), false),
            Make::Gridmux { settings, .. } => {
                let settings = gridmux::Settings {
                    profiles: profiles.clone(),
                    ..settings.as_ref().clone()
                };
                (
                    Box::new(gridmux::Gridmux::new(device, shape, settings)),
                    true,
                )
            }
        })
    }

    /// Runs launches under the policy. A store of profiles is filled with what runs where the policy reads one.
    fn run(
        &self,
        config: EventConfig,
        known: &[(ProfileKey, f64)],
        wrap: impl FnOnce(Box<dyn Policy>) -> Box<dyn Policy>,
        launches: &[MixLaunch],
    ) -> Result<Vec<Went>> {
        let (device, shape) = (DeviceId(0), &config.shape);
        let profiles = Profiles::default();
        if self.knows() {
            known
                .iter()
                .for_each(|(key, block_ns)| profiles.set(*key, *block_ns));
        }
        let (policy, learns) = self.policy(device, shape, &profiles)?;
        let policy = wrap(policy);
        Ok(match learns {
            true => together_learning(config, policy, &profiles, launches)?,
            false => together(config, policy, launches)?,
        })
    }

    /// Returns whether it knows every kernel before it has run.
    fn knows(&self) -> bool {
        match &self.make {
            Make::Named(name) => is_oracle(name),
            Make::SmkPw(_) | Make::WarpedSlicer(_) | Make::Srtf(_) | Make::Fixed(_) => false,
            Make::Gridmux { known, .. } => *known,
        }
    }
}

/// Kernels on a device.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The device.
    pub(crate) config: EventConfig,
    /// What each kernel launches.
    pub(crate) kernels: Vec<EventSubmission>,
    /// Runtime of each alone.
    pub(crate) runtimes: Vec<Cycles>,
    /// Under which name each kernel's profile is kept, and the duration of a block from which its runtime follows.
    known: Vec<(ProfileKey, f64)>,
}

impl World {
    /// Runs every kernel alone.
    pub(crate) fn new(config: EventConfig, kernels: Vec<EventSubmission>) -> Result<Self> {
        let runtimes = kernels.iter().map(|kernel| alone(config, kernel));
        let runtimes: Vec<Cycles> = runtimes.collect::<Result<_, _>>()?;
        let known = oracle(config, &kernels, &runtimes);
        Ok(Self {
            config,
            kernels,
            runtimes,
            known,
        })
    }

    /// Returns what determines how the kernels run, as text.
    pub(crate) fn key(&self) -> String {
        format!("{:?} {:?}", self.config, self.kernels)
    }

    /// Runs kernels together, each with its arrival, and hands the policy on through `wrap`.
    pub(crate) fn run(
        &self,
        contender: &Contender,
        launches: &[(usize, Cycles)],
        wrap: impl FnOnce(Box<dyn Policy>) -> Box<dyn Policy>,
    ) -> Result<Vec<Went>> {
        let launch = |(kernel, arrival): &(usize, Cycles)| MixLaunch {
            submission: self.kernels[*kernel].clone(),
            arrival: *arrival,
            weight: 1,
        };
        let mix: Vec<MixLaunch> = launches.iter().map(launch).collect();
        contender.run(self.config, &self.known, wrap, &mix)
    }

    /// Returns the time alone and together of each launch.
    pub(crate) fn times(&self, launches: &[(usize, Cycles)], went: &[Went]) -> Vec<(f64, f64)> {
        let times = |((kernel, _), went): (&(usize, Cycles), &Went)| {
            (self.runtimes[*kernel].0 as f64, went.turnaround().0 as f64)
        };
        launches.iter().zip(went).map(times).collect()
    }
}

/// Returns profiles from which the runtimes alone follow.
fn oracle(
    config: EventConfig,
    kernels: &[EventSubmission],
    runtimes: &[Cycles],
) -> Vec<(ProfileKey, f64)> {
    let engine = EventExecutor::new(config);
    let block = |(launch, runtime): (&EventSubmission, &Cycles)| {
        let block = &launch.kernel.block;
        let key = engine.profile(&launch.kernel, block);
        let resident = u64::from(max_residency(&config.shape, block)) * u64::from(config.shape.sms);
        let resident = resident.min(launch.blocks);
        let runtime = engine.time(*runtime).0 as f64;
        (key, runtime * resident as f64 / launch.blocks as f64)
    };
    kernels.iter().zip(runtimes).map(block).collect()
}
