//! Programs in closed loops together on the SM model in plan mode: how far each comes beside the others.
//!
//! SMK (section 6.1) runs programs for a number of cycles and starts again what ends; Warped-Slicer runs each until it
//! has issued as many instructions as it does alone in that time, and frees its room to the others then. [`Corun`] says
//! what runs, under which policy and for how long, [`run`] runs many of them and keeps their results, [`stage`] is one
//! run.
//!
//! Rules: each program is a tenant of its own, in a queue of its own, and has one launch open at a time, the next of
//! its kernels as soon as the one before has ended; a run is a function of its [`Corun`], to the cycle; what a launch
//! that ended left in its buffers is compared with the host reference, and a wrong result ends the run.

mod stage;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::model::Sized;
use crate::world::Contender;
use anyhow::{Context as _, Result};
use gridmux_hw_model::GpuConfig;
use gridmux_policy::metrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Programs that run together.
#[derive(Clone, Debug)]
pub(crate) struct Corun {
    /// The GPU, with as many SMs as are asked for ([`GpuConfig::scaled_to_sms`]).
    pub(crate) gpu: GpuConfig,
    /// The kernels of each program, which are launched in turn.
    pub(crate) programs: Vec<Vec<Sized>>,
    /// The policy.
    pub(crate) policy: Contender,
    /// When the run ends.
    pub(crate) until: Until,
    /// Least cycles between two rounds of [`gridmux_policy::Event::Sample`], which a policy gets where it is woken.
    pub(crate) sample_every: u64,
    /// Contexts move at no cost (SMK section 6.5).
    pub(crate) free_switches: bool,
}

/// When a run ends.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// After that number of cycles.
    Cycles(u64),
    /// When each program has issued its number of warp instructions, in the order of the programs; one that has leaves
    /// the device to the others. A run that takes longer than `latest` cycles fails.
    Instructions {
        /// Warp instructions of each program.
        each: Vec<u64>,
        /// The last cycle.
        latest: u64,
    },
}

/// How a run went.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Ran {
    /// Cycles until the last program was done.
    pub(crate) cycles: u64,
    /// Plans that the policy made.
    pub(crate) plans: u64,
    /// Each program, in order.
    pub(crate) programs: Vec<Progress>,
}

/// How far a program came.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Progress {
    /// Cycles until the run's end, or until it had issued its instructions.
    pub(crate) cycles: u64,
    /// Warp instructions issued.
    pub(crate) instructions: u64,
    /// Launches that ended.
    pub(crate) launches: u64,
    /// Blocks that ended.
    pub(crate) blocks: u64,
    /// Blocks whose context went to memory.
    pub(crate) switched_out: u64,
    /// Bytes of contexts that went to memory and came back.
    pub(crate) switched_bytes: u64,
    /// What its blocks did on all SMs, by the names of [`gridmux_hw_model::Counters`].
    pub(crate) counters: BTreeMap<String, u64>,
}

impl Progress {
    /// Returns its warp instructions a cycle, of all SMs together.
    pub(crate) fn ipc(&self) -> f64 {
        self.instructions as f64 / self.cycles.max(1) as f64
    }
}

impl Ran {
    /// Returns the IPC of each program together and alone, which [`metrics::stp`] and [`metrics::strict_f`] take as
    /// they take times alone and together.
    pub(crate) fn ipcs(&self, alone: &[&Progress]) -> Vec<(f64, f64)> {
        let programs = self.programs.iter().zip(alone);
        programs
            .map(|(together, alone)| (together.ipc(), alone.ipc()))
            .collect()
    }

    /// Returns the system throughput: the sum of each program's IPC over that alone.
    pub(crate) fn stp(&self, alone: &[&Progress]) -> f64 {
        metrics::stp(&self.ipcs(alone))
    }

    /// Returns the fairness: the least IPC over that alone, divided by the greatest; 0 if a program issued nothing.
    pub(crate) fn fairness(&self, alone: &[&Progress]) -> f64 {
        match self.programs.iter().all(|own| own.instructions > 0) {
            true => metrics::strict_f(&self.ipcs(alone)),
            false => 0.0,
        }
    }

    /// Returns the mean of each program's IPC alone over that together, of those that issued something.
    pub(crate) fn antt(&self, alone: &[&Progress]) -> f64 {
        metrics::antt(&self.ipcs(alone))
    }
}

impl Corun {
    /// Returns everything that determines the run, as text.
    fn key(&self) -> String {
        let program = |kernels: &Vec<Sized>| kernels.iter().map(Sized::key).collect::<Vec<_>>();
        let programs: Vec<_> = self.programs.iter().map(program).collect();
        format!(
            "{programs:?} under {} until {:?}, samples every {}, free switches: {}, on {:?}",
            self.policy.key(),
            self.until,
            self.sample_every,
            self.free_switches,
            self.gpu
        )
    }

    /// Says which programs these are, and under what they run.
    fn names(&self) -> String {
        let name = |kernels: &Vec<Sized>| {
            let names: Vec<&str> = kernels.iter().map(|k| k.workload.name).collect();
            names.join(",")
        };
        let names: Vec<String> = self.programs.iter().map(name).collect();
        format!("{} under {}", names.join("+"), self.policy.name)
    }
}

/// Runs each, or takes its result from the store where it ran before; `name` stands beside the progress.
pub(crate) fn run(context: &Context, name: &str, coruns: &[Corun]) -> Result<Vec<Ran>> {
    context.runs(name, coruns, Corun::key, |corun| {
        stage::run(corun).with_context(|| corun.names())
    })
}
