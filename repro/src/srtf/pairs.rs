//! The 56 ordered pairs of ERCBench kernels under each policy (the paper's section 6.1.3).
//!
//! Rules: kernels that start together do so within 100 cycles, the second one later; the oracles know of both at once;
//! a pair shares if at any time a plan lets both kernels reside on the same SM.

use crate::context::Context;
use crate::picture::{Picture, Series, curves};
use crate::world::{Contender, World};
use anyhow::{Context as _, Result};
use gridmux_mix::event::ErcKernel;
use gridmux_policy::metrics::{antt, geometric_mean, stp, strict_f};
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_policy::{Event, Plan, Policy, Watch};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cycles by which the second kernel is later where the pair starts together (section 6.1.3: up to 100).
const STAGGER: u64 = 100;
/// Policies that know of both kernels before either has run (section 6.2.1).
const AT_ONCE: [&str; 2] = ["sjf", "ljf"];
/// Policies of the paper.
pub(super) const POLICIES: [&str; 7] = [
    "fifo-strict",
    "mpmax",
    "srtf",
    "srtf-adaptive",
    "srtf-zero",
    "sjf",
    "ljf",
];
/// Arrivals of the second kernel, in percent of the first one's runtime (Tables 5 and 6).
pub(crate) const OFFSETS: [u64; 3] = [0, 25, 50];

/// A figure of a pair.
type Metric = fn(&Pair) -> f64;

/// How a pair went.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pair {
    /// The kernels, by place.
    pub(crate) kernels: [usize; 2],
    /// Time alone and together of each, in cycles.
    pub(crate) times: [(f64, f64); 2],
    /// Both kernels were allowed on one SM at some time.
    pub(crate) shares: bool,
}

impl Pair {
    /// Returns how much slower a kernel of the pair was than alone.
    pub(crate) fn slowdown(&self, place: usize) -> f64 {
        self.times[place].1 / self.times[place].0
    }

    pub(crate) fn stp(&self) -> f64 {
        stp(&self.times)
    }

    pub(crate) fn antt(&self) -> f64 {
        antt(&self.times)
    }

    pub(crate) fn fairness(&self) -> f64 {
        strict_f(&self.times)
    }
}

/// How all pairs went under one policy at one offset.
#[derive(Clone, Debug)]
pub(crate) struct Runs(Vec<(String, u64, Vec<Pair>)>);

impl Runs {
    /// Runs the paper's policies at all offsets.
    pub(super) fn of(context: &Context, world: &World) -> Result<Self> {
        let all: Vec<Contender> = POLICIES.into_iter().map(Contender::named).collect();
        Self::under(context, world, &all, &OFFSETS)
    }

    /// Runs some policies at some offsets.
    pub(crate) fn under(
        context: &Context,
        world: &World,
        contenders: &[Contender],
        offsets: &[u64],
    ) -> Result<Self> {
        let at = |contender: &Contender| {
            let contender = contender.clone();
            offsets
                .iter()
                .map(move |percent| (contender.clone(), *percent))
        };
        let parts: Vec<(Contender, u64)> = contenders.iter().flat_map(at).collect();
        let worlds = world.key();
        let runs = context.parts(
            "ERCBench pairs",
            &parts,
            |(contender, percent)| format!("{} at {percent} %, {worlds}", contender.key()),
            |(contender, percent)| {
                pairs(world, contender, |first| match *percent {
                    0 if AT_ONCE.contains(&contender.name.as_str()) => 0,
                    0 => STAGGER,
                    _ => world.runtimes[first].0 * percent / 100,
                })
            },
        )?;
        let named = parts
            .into_iter()
            .map(|(contender, percent)| (contender.name, percent));
        let runs = named
            .zip(runs)
            .map(|((name, percent), pairs)| (name, percent, pairs));
        Ok(Self(runs.collect()))
    }

    /// Returns the pairs under a policy at an offset.
    ///
    /// # Panics
    /// If it was not run.
    pub(crate) fn get(&self, policy: &str, percent: u64) -> &[Pair] {
        let found = self
            .0
            .iter()
            .find(|(name, at, _)| name == policy && *at == percent);
        let (_, _, pairs) = found.unwrap_or_else(|| panic!("{policy} at {percent} % was not run"));
        pairs
    }

    /// Returns the geometric means of STP, ANTT and `StrictF` under a policy at an offset.
    pub(crate) fn means(&self, policy: &str, percent: u64) -> [f64; 3] {
        let pairs = self.get(policy, percent);
        [Pair::stp, Pair::antt, Pair::fairness].map(|metric| mean(pairs, metric))
    }
}

/// Returns the geometric means of STP, ANTT and `StrictF` under `srtf-zero`, whose second kernel comes so many cycles
/// later, for each of these numbers.
pub(super) fn zero_sampling(
    context: &Context,
    world: &World,
    cycles: &[u64],
) -> Result<Vec<[f64; 3]>> {
    let zero = Contender::named("srtf-zero");
    let worlds = world.key();
    let runs = context.parts(
        "ERCBench pairs without sampling",
        cycles,
        |later| format!("{later} cycles, {worlds}"),
        |later| pairs(world, &zero, |_| *later),
    )?;
    let means = |pairs: &Vec<Pair>| {
        [Pair::stp, Pair::antt, Pair::fairness].map(|metric| mean(pairs, metric))
    };
    Ok(runs.iter().map(means).collect())
}

/// Returns the geometric mean of a metric over pairs.
pub(super) fn mean(pairs: &[Pair], metric: Metric) -> f64 {
    geometric_mean(&pairs.iter().map(metric).collect::<Vec<f64>>())
}

/// Runs all ordered pairs; `later` says by how many cycles the second kernel comes after each first one.
fn pairs(world: &World, contender: &Contender, later: impl Fn(usize) -> u64) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for first in 0..world.kernels.len() {
        for second in (0..world.kernels.len()).filter(|second| *second != first) {
            let launches = [(first, Cycles(0)), (second, Cycles(later(first)))];
            let shares = Arc::new(AtomicBool::new(false));
            let spy = Arc::clone(&shares);
            let went = world.run(contender, &launches, |policy| {
                Box::new(Spy {
                    policy,
                    shares: spy,
                })
            })?;
            let times = world.times(&launches, &went);
            pairs.push(Pair {
                kernels: [first, second],
                times: times
                    .try_into()
                    .ok()
                    .context("two kernels have two times")?,
                // relaxed: the run is over, and it was on this thread.
                shares: shares.load(Ordering::Relaxed),
            });
        }
    }
    Ok(pairs)
}

/// A policy, and whether a plan of it let two rows reside on one SM.
struct Spy {
    policy: Box<dyn Policy>,
    shares: Arc<AtomicBool>,
}

impl Policy for Spy {
    fn observe(&mut self, event: &Event) {
        self.policy.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let is_new = self.policy.replan(now, standing, next);
        let rows = next.rows().len();
        let may = |group: usize| {
            (0..rows)
                .filter(|row| next.cell(group, *row).cap > 0)
                .count()
        };
        if is_new && (0..next.groups().len()).any(|group| may(group) > 1) {
            // relaxed: it is read after the run, on the same thread.
            self.shares.store(true, Ordering::Relaxed);
        }
        is_new
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.policy.wake_at()
    }

    fn watch(&self) -> Option<Watch> {
        self.policy.watch()
    }
}

/// Draws Figures 14 to 16: a metric of all pairs, sorted for each policy by itself.
pub(super) fn pictures(runs: &Runs, kernels: &[ErcKernel]) -> Vec<Picture> {
    let metrics: [(&str, Metric); 3] = [
        ("Figure 14: STP", Pair::stp),
        ("Figure 15: logarithm of ANTT", |pair| pair.antt().ln()),
        ("Figure 16: fairness", Pair::fairness),
    ];
    let draw = |(title, metric): (&str, Metric)| {
        let series = POLICIES.map(|policy| {
            let mut values: Vec<f64> = runs.get(policy, 0).iter().map(metric).collect();
            values.sort_by(f64::total_cmp);
            Series {
                name: policy.to_owned(),
                values: (0_u32..).map(f64::from).zip(values).collect(),
            }
        });
        let pairs = kernels.len() * (kernels.len() - 1);
        Picture {
            title: format!("{title} of the {pairs} pairs, sorted"),
            svg: curves(("pair", title), &series),
        }
    };
    metrics.into_iter().map(draw).collect()
}
