//! Kernels on a device of the event executor, and the policies that are compared there.
//!
//! Rule: what a policy knows of kernels beforehand is the runtime that each has alone on the same executor, as the
//! papers' oracles do.

use anyhow::Result;
use gridmux_policy::driver::Engine;
use gridmux_policy::executor::{EventConfig, EventExecutor, EventSubmission};
use gridmux_policy::mix::{MixLaunch, Went, alone, together};
use gridmux_policy::policies::{gridmux, ljf::Ljf, sjf::Sjf, srtf_zero};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::shape::{DeviceShape, max_residency};
use gridmux_policy::units::Cycles;
use gridmux_policy::{DeviceId, Policy, by_name};

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

    /// Returns what determines the policy, as text.
    pub(crate) fn key(&self) -> String {
        format!("{:?}", self.make)
    }

    fn policy(&self, shape: &DeviceShape, known: &Profiles) -> Result<Box<dyn Policy>> {
        let device = DeviceId(0);
        let profiles = || known.clone();
        Ok(match &self.make {
            Make::Named("sjf") => Box::new(Sjf::new(device, shape, profiles())),
            Make::Named("ljf") => Box::new(Ljf::new(device, shape, profiles())),
            Make::Named("srtf-zero") => Box::new(srtf_zero::new(device, shape, profiles())),
            Make::Named(name) => by_name(name, device, shape)?,
            Make::Gridmux { settings, known } => {
                let mut settings = settings.as_ref().clone();
                if *known {
                    settings.profiles = profiles();
                }
                Box::new(gridmux::Gridmux::new(device, shape, settings))
            }
        })
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
    known: Profiles,
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
        let policy = contender.policy(&self.config.shape, &self.known)?;
        Ok(together(self.config, wrap(policy), &mix)?)
    }

    /// Returns the time alone and together of each launch.
    #[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
    pub(crate) fn times(&self, launches: &[(usize, Cycles)], went: &[Went]) -> Vec<(f64, f64)> {
        let times = |((kernel, _), went): (&(usize, Cycles), &Went)| {
            (self.runtimes[*kernel].0 as f64, went.turnaround().0 as f64)
        };
        launches.iter().zip(went).map(times).collect()
    }
}

/// Returns profiles from which the runtimes alone follow.
#[allow(clippy::cast_precision_loss, reason = "cycles of short runs")]
fn oracle(config: EventConfig, kernels: &[EventSubmission], runtimes: &[Cycles]) -> Profiles {
    let engine = EventExecutor::new(config);
    let mut profiles = Profiles::default();
    for (launch, runtime) in kernels.iter().zip(runtimes) {
        let block = &launch.kernel.block;
        let key = engine.profile(&launch.kernel, block);
        let resident = u64::from(max_residency(&config.shape, block)) * u64::from(config.shape.sms);
        let runtime = engine.time(*runtime).0 as f64;
        profiles.set(key, runtime * resident as f64 / launch.blocks as f64);
    }
    profiles
}
