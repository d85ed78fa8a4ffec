//! The pairs under each policy: each kernel runs until it has issued as many instructions as it does alone in
//! [`ALONE`] cycles, and leaves its room to the other one then (section V-A).

use super::curves::{Curve, partition};
use super::kernels::Setting;
use crate::context::Context;
use crate::corun::{Corun, Progress, Ran, Until, run};
use crate::world::Contender;
use anyhow::Result;
use gridmux_policy::policies::warped_slicer::Settings;

/// Cycles that a kernel runs alone; the paper's two million take five times as long.
pub(super) const ALONE: u64 = 400_000;
/// No pair takes as long.
const LATEST: u64 = 20 * ALONE;
/// Least cycles between samples: the policies' windows are 5,000 cycles.
const SAMPLE_EVERY: u64 = 1_000;

/// The policies; the last is Algorithm 1 with the curves of long runs alone.
pub(super) const POLICIES: [&str; 6] = [
    "fifo",
    "even",
    "spatial",
    "warped-slicer",
    "gridmux",
    "oracle",
];

/// A pair under each policy, in the order of [`POLICIES`].
pub(super) struct Pair {
    /// Places of its kernels.
    pub(super) kernels: (usize, usize),
    /// How it went.
    pub(super) ran: Vec<Ran>,
}

/// Returns the place of a policy among [`POLICIES`].
///
/// # Panics
/// If it is none of them.
pub(super) fn place_of(policy: &str) -> usize {
    let place = POLICIES.iter().position(|name| *name == policy);
    place.unwrap_or_else(|| panic!("{policy} was not run"))
}

impl Pair {
    /// Returns the instructions of both in a cycle until both are done, over the same under left-over.
    pub(super) fn ipc(&self, policy: usize) -> f64 {
        self.ran[0].cycles as f64 / self.ran[policy].cycles as f64 * self.instructions(policy)
            / self.instructions(0)
    }

    fn instructions(&self, policy: usize) -> f64 {
        let each = self.ran[policy].programs.iter();
        each.map(|program| program.instructions as f64).sum()
    }

    /// Returns the least of both speedups over running alone: cycles alone over cycles together.
    fn least_speedup(&self, policy: usize) -> f64 {
        let together = self.ran[policy]
            .programs
            .iter()
            .map(|program| program.cycles);
        ALONE as f64 / together.max().unwrap_or(1) as f64
    }

    /// Returns the least speedup over that under left-over.
    pub(super) fn speedup(&self, policy: usize) -> f64 {
        self.least_speedup(policy) / self.least_speedup(0)
    }

    /// Returns the mean turnaround over that alone.
    pub(super) fn antt(&self, policy: usize) -> f64 {
        let programs = &self.ran[policy].programs;
        let slower = programs
            .iter()
            .map(|program| program.cycles as f64 / ALONE as f64);
        slower.sum::<f64>() / programs.len() as f64
    }
}

/// Runs all pairs under all policies, and under variants of the policy, which come after [`POLICIES`].
pub(super) fn all(
    context: &Context,
    setting: &Setting,
    curves: &[Curve],
    variants: &[(&'static str, Settings)],
) -> Result<Vec<Pair>> {
    let corun = |programs: &[usize], policy, until| Corun {
        gpu: setting.gpu.clone(),
        programs: programs
            .iter()
            .map(|place| vec![setting.kernels[*place]])
            .collect(),
        policy,
        until,
        sample_every: SAMPLE_EVERY,
        free_switches: false,
    };
    let singles = (0..setting.kernels.len())
        .map(|place| corun(&[place], Contender::named("fifo"), Until::Cycles(ALONE)));
    let singles: Vec<Corun> = singles.collect();
    let alone = run(context, "kernels alone", &singles)?;
    let alone: Vec<&Progress> = alone.iter().map(|ran| &ran.programs[0]).collect();
    let pairs = setting.pairs();
    let mut coruns = Vec::new();
    for (one, other) in &pairs {
        for policy in POLICIES {
            let contender = match policy {
                "oracle" => match partition(setting, [&curves[*one], &curves[*other]]) {
                    Some(blocks) => Contender::fixed(blocks.to_vec()),
                    None => Contender::named("spatial"),
                },
                name => Contender::named(name),
            };
            let until = Until::Instructions {
                each: [*one, *other]
                    .map(|place| alone[place].instructions)
                    .to_vec(),
                latest: LATEST,
            };
            coruns.push(corun(&[*one, *other], contender, until));
        }
        for (name, settings) in variants {
            let until = coruns.last().map(|last: &Corun| last.until.clone());
            let contender = Contender::warped_slicer(*name, *settings);
            coruns.extend(until.map(|until| corun(&[*one, *other], contender, until)));
        }
    }
    let mut ran = run(context, "pairs", &coruns)?.into_iter();
    let pair = |kernels| Pair {
        kernels,
        ran: ran.by_ref().take(POLICIES.len() + variants.len()).collect(),
    };
    Ok(pairs.into_iter().map(pair).collect())
}
