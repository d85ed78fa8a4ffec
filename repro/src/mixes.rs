//! Mixes of our kernels that start together, each program in a closed loop, on the SM model and on `event`.
//!
//! Every program is compared with itself alone under stock hardware ([`STOCK`]).
//!
//! Rules: a policy begins each mix without profiles; a wrong result ends the experiment.

use crate::context::Context;
use anyhow::{Result, bail};
use gridmux_hw_model::GpuConfig;
use gridmux_mix::event::Contention;
use gridmux_mix::play::Run;
use gridmux_mix::report::{Metrics, MixReport, ProgramReport, Setting};
use gridmux_mix::{Member, On, OnEvent, OnModel, Pace, Shapes, Source, Verdict};
use gridmux_policy::{Class, Profiles};
use gridmux_workloads::{Size, by_name};
use serde::{Deserialize, Serialize};

/// The GPU, and how many of its SMs are modelled.
const GPU: &str = "gtx980";
const SMS: u16 = 4;
/// What each launch of a program works on, and when it comes.
const SIZE: Size = Size::Large;
const PACE: Pace = Pace::Closed(0);
/// What stock hardware does, and what programs run under alone.
pub(crate) const STOCK: &str = "fifo";

/// Kernels each of which takes at least six times as long as any other.
pub(crate) const LONG: [&str; 3] = ["bfs", "spmv", "pointer_chase"];

/// A program: its kernel, and how often it launches it in a closed loop.
pub(crate) type Program = (&'static str, u64);

/// How a mix went under a policy.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Went {
    pub(crate) stp: f64,
    pub(crate) antt: f64,
    pub(crate) fairness: f64,
    /// Time of the programs alone, one after the other, over that together.
    pub(crate) throughput: f64,
}

/// Runs mixes on the SM model; returns how each went under each policy.
pub(crate) fn on_model(
    context: &Context,
    mixes: &[&[Program]],
    policies: &[&str],
) -> Result<Vec<Vec<Went>>> {
    let config = GpuConfig::builtin(GPU)?.scaled_to_sms(SMS);
    let key = |mix: &&[Program]| format!("{} {policies:?}", name_of(mix));
    context.runs("mixes on the model", mixes, key, |mix| {
        let members: Vec<Member> = mix.iter().map(member).collect();
        let model = OnModel {
            config: &config,
            threads: 1,
            members: &members,
        };
        went(&config, &members, (On::Model, policies), |policy, take| {
            let (run, verdicts, _) = model.run((policy, &Profiles::default()), take)?;
            Ok((run, verdicts))
        })
    })
}

/// Runs mixes on `event` with some parameters, as [`on_model`].
pub(crate) fn on_event(
    context: &Context,
    mixes: &[&[Program]],
    policies: &[&str],
    contention: Contention,
) -> Result<Vec<Vec<Went>>> {
    let config = GpuConfig::builtin(GPU)?.scaled_to_sms(SMS);
    let key = |mix: &&[Program]| format!("{} {policies:?} {contention:?}", name_of(mix));
    context.parts("mixes on event", mixes, key, |mix| {
        let members: Vec<Member> = mix.iter().map(member).collect();
        let event = OnEvent::with((contention, Shapes::OfAnySms), &config, &members, |_| {})?;
        went(&config, &members, (On::Event, policies), |policy, take| {
            let run = event.run((policy, &Profiles::default()), take)?;
            Ok((run, take.iter().map(|_| None).collect()))
        })
    })
}

/// Runs a mix on an executor under policies. `run` is to have profiles of its own each time: clones share one
/// table, from which the next policy would know the kernels.
fn went(
    config: &GpuConfig,
    members: &[Member],
    (on, policies): (On, &[&str]),
    run: impl Fn(&str, &[(usize, u64)]) -> Result<(Run, Vec<Verdict>)>,
) -> Result<Vec<Went>> {
    let mut alone = Vec::new();
    for place in 0..members.len() {
        alone.extend(run(STOCK, &[(place, 0)])?.0.played);
    }
    let take: Vec<(usize, u64)> = (0..members.len()).map(|place| (place, 0)).collect();
    let under = |policy: &&str| {
        let (together, verdicts) = run(policy, &take)?;
        let played = members.iter().zip(together.played.iter().zip(&alone));
        let programs = played
            .zip(verdicts)
            .map(|((member, played), verdict)| ProgramReport::new(member, played, verdict));
        let setting = Setting::new(policy, on, (&config.name, config.sm.count));
        let report = MixReport::new(setting, programs.collect(), (&together, &alone));
        match report.wrong() {
            Some(wrong) => bail!("{policy}: {wrong}"),
            None => Ok(Went::from(&report.metrics)),
        }
    };
    policies.iter().map(under).collect()
}

/// Says what runs where.
fn name_of(mix: &[Program]) -> String {
    format!("{mix:?} of {SIZE:?}, {PACE:?}, on {SMS} SMs of {GPU}")
}

fn member(&(kernel, launches): &Program) -> Member {
    Member {
        name: kernel.to_owned(),
        weight: 1,
        class: Class::Normal,
        source: Source::Own {
            workload: by_name(kernel).expect("a workload"),
            size: SIZE,
        },
        launches,
        pace: PACE,
    }
}

impl From<&Metrics> for Went {
    fn from(metrics: &Metrics) -> Self {
        Self {
            stp: metrics.stp,
            antt: metrics.antt,
            fairness: metrics.fairness,
            throughput: metrics.throughput,
        }
    }
}
