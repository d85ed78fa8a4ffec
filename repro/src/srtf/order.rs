//! The order of the policies by STP and by ANTT: on the event executor with ERCBench, on the SM model with our kernels.
//!
//! Rules: on the model the oracles know the runtime that each kernel has alone there; policies that are not the paper's
//! have figures and no place in the order.

use super::pairs::{POLICIES, Runs};
use crate::context::Context;
use crate::model::{Mix, Ran, Sized};
use crate::tables::{Figures, Note, Row};
use crate::world::is_oracle;
use anyhow::{Context as _, Result};
use gridmux_hw_model::GpuConfig;
use gridmux_policy::metrics::{antt, geometric_mean, stp, strict_f};
use gridmux_policy::policies::{gridmux, ljf, sjf};
use gridmux_policy::{DeviceId, Profiles, by_name};
use gridmux_workloads::by_name as workload;

const GPU: &str = "gtx480";
const SMS: u16 = 2;
/// Kernels whose runtimes alone are far apart, and for how many waves of blocks they run.
const KERNELS: [(&str, u64); 7] = [
    ("vecadd", 12),
    ("raytrace", 8),
    ("sad", 16),
    ("aes", 10),
    ("nlm", 16),
    ("lbm", 24),
    ("sha1", 12),
];
/// Cycles by which the second kernel is later, as on the event executor.
const STAGGER: u64 = 100;

/// The paper's policies, best first by STP (Tables 5 and Figure 1, section 6.2.2) and by ANTT, where LJF has none.
const PAPER: [&str; 7] = [
    "sjf",
    "srtf-zero",
    "srtf",
    "srtf-adaptive",
    "mpmax",
    "fifo-strict",
    "ljf",
];

/// A policy stands behind those whose mean is better by more than this part.
const TIE: f64 = 0.001;

/// Policies whose pairs run on the model beside the paper's.
const BESIDE: [&str; 2] = ["accelos", gridmux::NAME];

/// A policy, two kernels by place, and the cycle in which the second one arrives.
type Part = (&'static str, [usize; 2], u64);
/// A policy's geometric means of STP, ANTT and fairness.
type Means = (&'static str, [f64; 3]);

const NOTES: &[Note] = &[
    Note {
        rows: &["mpmax", "fifo-strict"],
        metrics: &["stp_rank"],
        why: "In the paper MPMax leads FIFO by 0.02 of STP, because its FIFO is worse than the serial execution that \
              its own Table 3 implies; ours is near serial, half of whose pairs go as under SJF.",
    },
    Note {
        rows: &[],
        metrics: &[],
        why: "Neighbours in the order are closer to each other here than in the paper; see the table of figures.",
    },
];

/// Returns the order on the event executor.
pub(super) fn on_event(runs: &Runs) -> Figures {
    let means = POLICIES.map(|policy| (policy, runs.means(policy, 0)));
    ranks(
        "Order of the policies on `event`, ERCBench (Table 5)",
        &means,
    )
}

/// Returns each policy's means on the SM model, and the order of the paper's policies.
pub(super) fn on_model(context: &Context) -> Result<[Figures; 2]> {
    let gpu = GpuConfig::builtin(GPU)?.scaled_to_sms(SMS);
    let kernels = KERNELS.iter().map(|(name, waves)| {
        let workload = workload(name).with_context(|| format!("no kernel is named {name}"))?;
        Sized::with_waves(workload, *waves, &gpu)
    });
    let kernels: Vec<Sized> = kernels.collect::<Result<_>>()?;
    let key = |launches: &[(Sized, u64)]| {
        let named = launches
            .iter()
            .map(|(kernel, at)| (kernel.workload.name, kernel.params, *at));
        format!("{:?} on {SMS} SMs of {GPU}", named.collect::<Vec<_>>())
    };
    let mix = |launches: &[(Sized, u64)]| Mix {
        gpu: gpu.clone(),
        launches: launches.to_vec(),
    };
    let singles: Vec<[(Sized, u64); 1]> = kernels.iter().map(|kernel| [(*kernel, 0)]).collect();
    let alone = context.parts(
        "kernels alone on the model",
        &singles,
        |single| key(single),
        |single| run(&mix(single), "fifo-strict", &[]),
    )?;
    let parts = parts(kernels.len());
    let launches =
        |pair: &[usize; 2], later: u64| [(kernels[pair[0]], 0), (kernels[pair[1]], later)];
    let ran = context.parts(
        "pairs on the model",
        &parts,
        |(policy, pair, later)| format!("{policy} {}", key(&launches(pair, *later))),
        |(policy, pair, later)| {
            let known = pair.map(|kernel| alone[kernel].launches[0].turnaround());
            run(&mix(&launches(pair, *later)), policy, &known)
        },
    )?;
    let papers = POLICIES.map(|policy| means(policy, &parts, &ran, &alone));
    let beside = BESIDE.map(|policy| means(policy, &parts, &ran, &alone));
    let rows = papers.iter().chain(&beside).map(|(policy, means)| {
        Row::new(*policy, ["stp", "antt", "fairness"], [f64::NAN; 3], *means)
    });
    let runtimes = kernels
        .iter()
        .zip(&alone)
        .map(|(kernel, ran)| format!("{} {}", kernel.workload.name, ran.launches[0].turnaround()));
    let figures = Figures {
        name: "Pairs of our kernels on the SM model".to_owned(),
        about: format!(
            "Geometric means over {} ordered pairs on a GTX 480 of {SMS} SMs in plan mode; cycles alone: {}. {} are no \
             policies of the paper and have no place in the order below.",
            kernels.len() * (kernels.len() - 1),
            runtimes.collect::<Vec<_>>().join(", "),
            BESIDE.map(|policy| format!("`{policy}`")).join(" and ")
        ),
        rows: rows.collect(),
        ..Figures::default()
    };
    Ok([
        figures,
        ranks("Order of the policies on `model`, our kernels", &papers),
    ])
}

/// Returns every ordered pair of kernels under each policy.
fn parts(kernels: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    for policy in POLICIES.into_iter().chain(BESIDE) {
        let later = match [sjf::NAME, ljf::NAME].contains(&policy) {
            true => 0,
            false => STAGGER,
        };
        for first in 0..kernels {
            for second in (0..kernels).filter(|second| *second != first) {
                parts.push((policy, [first, second], later));
            }
        }
    }
    parts
}

/// Returns a policy's means over its pairs.
fn means(policy: &'static str, parts: &[Part], ran: &[Ran], alone: &[Ran]) -> Means {
    let own = parts.iter().zip(ran).filter(|((of, ..), _)| *of == policy);
    let times = own.map(|((_, pair, _), ran)| times(alone, pair, ran));
    let times: Vec<[(f64, f64); 2]> = times.collect();
    let mean = |metric: fn(&[(f64, f64)]) -> f64| {
        geometric_mean(&times.iter().map(|pair| metric(pair)).collect::<Vec<f64>>())
    };
    (policy, [mean(stp), mean(antt), mean(strict_f)])
}

fn times(alone: &[Ran], pair: &[usize; 2], ran: &Ran) -> [(f64, f64); 2] {
    [0, 1].map(|place| {
        let apart = alone[pair[place]].launches[0].turnaround();
        (apart as f64, ran.launches[place].turnaround() as f64)
    })
}

/// Runs a mix; the oracles know for how many cycles each launch runs alone, and `gridmux` learns kernels as they run.
fn run(mix: &Mix, policy: &str, known: &[u64]) -> Result<Ran> {
    let gpu = mix.gpu.clone();
    let profiles = Profiles::default();
    let learning = (policy == gridmux::NAME).then_some(&profiles);
    mix.run(false, learning, |shape, launches| {
        for ((key, launch), cycles) in launches.iter().zip(known).filter(|_| is_oracle(policy)) {
            let resident = f64::from(launch.resident) * f64::from(shape.sms);
            let resident = resident.min(launch.blocks as f64);
            let runtime = gpu.cycles_to_ns(*cycles) as f64;
            profiles.set(*key, runtime * resident / launch.blocks as f64);
        }
        Ok(by_name(policy, DeviceId(0), shape, &profiles)?)
    })
}

/// Returns each policy's place by STP and by ANTT, 1 for the best, beside the paper's.
fn ranks(name: &str, means: &[Means]) -> Figures {
    type Better = fn(&[f64; 3], &[f64; 3]) -> bool;
    let better_stp: Better = |a, b| a[0] > b[0] * (1.0 + TIE);
    let better_antt: Better = |a, b| a[1] < b[1] * (1.0 - TIE);
    let mean_of = |policy: &str| {
        let own = means.iter().find(|(name, _)| *name == policy);
        own.expect("every policy of the paper has run").1
    };
    let place = |better: Better, own: &[f64; 3]| {
        let before = means.iter().filter(|(_, other)| better(other, own)).count();
        f64::from(u32::try_from(before).unwrap_or(u32::MAX)) + 1.0
    };
    let row = |(paper, policy): (u32, &&'static str)| {
        let own = mean_of(policy);
        let ours = [place(better_stp, &own), place(better_antt, &own)];
        let paper = f64::from(paper);
        let told = [paper, if *policy == "ljf" { f64::NAN } else { paper }];
        Row::new(*policy, ["stp_rank", "antt_rank"], told, ours)
    };
    // The paper's order holds if no policy is better than one before it there; the paper gives LJF no ANTT.
    let is_papers = |order: &[&'static str], better: Better| {
        order.iter().enumerate().all(|(at, before)| {
            let behind = &order[at + 1..];
            !behind
                .iter()
                .any(|later| better(&mean_of(later), &mean_of(before)))
        })
    };
    let with_antt: Vec<_> = PAPER.iter().copied().filter(|p| *p != "ljf").collect();
    let yes = |same: bool| {
        if same {
            "the paper's"
        } else {
            "not the paper's"
        }
    };
    Figures {
        name: name.to_owned(),
        about: format!(
            "1 is the best; a policy stands behind those that are better by more than {} %. The order by STP is {}, \
             the order by ANTT is {}.",
            TIE * 100.0,
            yes(is_papers(&PAPER, better_stp)),
            yes(is_papers(&with_antt, better_antt))
        ),
        rows: (1..).zip(&PAPER).map(row).collect(),
        notes: NOTES.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::{BESIDE, PAPER, POLICIES, STAGGER, parts, ranks};

    #[test]
    fn every_policy_runs_every_ordered_pair_and_only_sjf_and_ljf_know_of_both_at_once() {
        let parts = parts(3);
        for policy in POLICIES.into_iter().chain(BESIDE) {
            let own = parts.iter().filter(|(of, ..)| *of == policy);
            let (mut pairs, later): (Vec<[usize; 2]>, Vec<u64>) =
                own.map(|(_, pair, later)| (*pair, *later)).unzip();
            pairs.sort_unstable();
            assert_eq!(pairs, [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]);
            let wanted = match policy {
                "sjf" | "ljf" => 0,
                _ => STAGGER,
            };
            assert_eq!(later, [wanted; 6], "{policy}");
        }
        assert_eq!(parts.len(), 6 * (POLICIES.len() + BESIDE.len()));
    }

    #[test]
    fn the_order_is_told_by_each_metric() {
        let mut means: Vec<(&'static str, [f64; 3])> = (0_u32..)
            .zip(PAPER)
            .map(|(place, policy)| {
                (
                    policy,
                    [2.0 - f64::from(place) / 10.0, 1.0 + f64::from(place), 0.5],
                )
            })
            .collect();
        let same = ranks("order", &means);
        assert!(
            same.about
                .ends_with("by STP is the paper's, the order by ANTT is the paper's."),
            "{}",
            same.about
        );
        // SJF and zero sampling are alike, which is no other order.
        let mut alike = means.clone();
        alike[1].1[0] = alike[0].1[0] * 1.0005;
        let alike = ranks("order", &alike);
        assert!(alike.about.contains("by STP is the paper's"));
        assert!((alike.row("srtf-zero").measured["stp_rank"] - 1.0).abs() < 1e-9);
        // MPMax and FIFO change places by STP.
        (means[4].1[0], means[5].1[0]) = (1.5, 1.6);
        let swapped = ranks("order", &means);
        assert!(
            swapped
                .about
                .contains("by STP is not the paper's, the order by ANTT is the paper's")
        );
        assert!((swapped.row("mpmax").measured["stp_rank"] - 6.0).abs() < 1e-9);
        assert!((swapped.row("mpmax").paper["stp_rank"] - 5.0).abs() < 1e-9);
    }
}
