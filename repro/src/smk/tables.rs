//! The paper's figures over groups of pairs.

use super::pairs::{Alone, BEST, GPU, Group, HORIZON, Merit, POLICIES, Pair, Pairs, SMS, WAVES};
use crate::picture::{Picture, Series, curves};
use crate::tables::{Figures, Note, Row};
use gridmux_policy::issue_profile::Settings;
use gridmux_policy::units::Nanos;

const NONE: f64 = f64::NAN;
const METRICS: [&str; 3] = ["stp", "fairness", "antt"];

/// A figure of a pair under a policy.
type Figure = fn(&Merit) -> f64;

/// A policy's STP, fairness and ANTT in the paper, in a group or in all pairs (sections 6.2 and 6.3, Table 3).
type Paper = (Option<Group>, &'static str, [f64; 3]);

const PAPER: &[Paper] = &[
    (Some(Group::CM), "spatial", [1.30, NONE, NONE]),
    (Some(Group::CM), "smk", [1.38, NONE, NONE]),
    (Some(Group::CM), "smk-p-strict", [1.46, 0.49, NONE]),
    (Some(Group::CM), "smk-pw", [1.52, NONE, NONE]),
    (Some(Group::CC), "smk-p-strict", [NONE, 0.64, NONE]),
    (Some(Group::MM), "smk-p-strict", [NONE, 0.55, NONE]),
    (None, "smk", [1.28, 0.6, NONE]),
    (None, "smk-p-strict", [1.34, 0.54, NONE]),
    (None, "smk-pw", [1.37, 0.74, NONE]),
];

/// Returns every table.
pub(super) fn all(pairs: &Pairs) -> Vec<Figures> {
    vec![
        groups(pairs),
        over_spatial(pairs),
        known_rates(pairs),
        switches(pairs),
        alone(pairs),
        each(pairs),
    ]
}

/// Returns the groups with all pairs behind them.
fn with_all() -> impl Iterator<Item = (Option<Group>, &'static str)> {
    let groups = Group::ALL.map(|group| (Some(group), group.name()));
    groups.into_iter().chain([(None, "all")])
}

/// Figure 10 and Table 3.
fn groups(pairs: &Pairs) -> Figures {
    let row = |group: (Option<Group>, &str), policy: &&'static str| {
        let ours: [Figure; 3] = [|m| m.stp, |m| m.fairness, |m| m.antt];
        let ours = ours.map(|figure| pairs.mean(group.0, |pair| figure(&pair.merit(policy))));
        let told = PAPER
            .iter()
            .find(|(of, name, _)| (*of, *name) == (group.0, *policy));
        let paper = told.map_or([NONE; 3], |(_, _, figures)| *figures);
        Row::new(format!("{}, {policy}", group.1), METRICS, paper, ours)
    };
    let rows = with_all().flat_map(|group| POLICIES.iter().map(move |policy| row(group, policy)));
    Figures {
        name: "SMK's policies on 45 pairs (Figure 10, Table 3)".to_owned(),
        about: format!(
            "Means over the pairs of ten of our kernels, four of which compute; each runs for {HORIZON} cycles on \
             {SMS} SMs of a `{GPU}`, and starts again when it ends. A launch has at least {WAVES} waves of blocks. \
             `smk` allocates on demand, `smk-p-strict` is SMK-P, `smk-pw` SMK-(P+W), `spatial` Spart. A kernel that \
             issues nothing, behind another one's launch under `fifo`, makes a fairness of 0 and is left out of \
             `antt`. {}",
            order(pairs)
        ),
        rows: rows.collect(),
        notes: Vec::from(NOTES),
    }
}

const NOTES: [Note; 4] = [
    Note {
        rows: &["C+M, smk-pw", "all, smk-pw"],
        metrics: &["stp"],
        why: "Quotas hold kernels to a ratio: a kernel that has issued its part waits until the others have issued \
              theirs. What that makes of both kernels of a C+M pair is said above; whether wrong profiles are the \
              reason, the table with quotas from runs alone shows.",
    },
    Note {
        rows: &[
            "C+M, smk-p-strict",
            "all, smk-p-strict",
            "C+C, smk-p-strict",
            "M+M, smk-p-strict",
        ],
        metrics: &[],
        why: "Not the paper's kernels, data or simulator. Beside kernels that leave few issue slots unused (see them \
              alone) there is less to gain.",
    },
    Note {
        rows: &["C+M, smk", "all, smk"],
        metrics: &[],
        why: "Why is not tested; room that is lent while a launch has no blocks left to start is taken back by \
              switching blocks out, and our launches are shorter than the paper's.",
    },
    Note {
        rows: &[],
        metrics: &[],
        why: "Not the paper's kernels, data or simulator; see what is said of the policies' own figures.",
    },
];

/// Says how the policies of section 6 stand to each other.
fn order(pairs: &Pairs) -> String {
    let better = |better: &str, worse: &str, group, figure: Figure| {
        let of = |policy: &str| pairs.mean(group, |pair| figure(&pair.merit(policy)));
        let gain = 100.0 * (of(better) / of(worse) - 1.0);
        format!("`{better}` over `{worse}` {gain:+.1} %")
    };
    let stp: Figure = |merit| merit.stp;
    let fairness: Figure = |merit| merit.fairness;
    let cm = Some(Group::CM);
    format!(
        "STP on C+M: {}, {} (paper: +4.1 %, +12.3 %). Fairness of all: {} (paper: +37 %). {}",
        better("smk-pw", "smk-p-strict", cm, stp),
        better("smk-p-strict", "spatial", cm, stp),
        better("smk-pw", "smk-p-strict", None, fairness),
        progress(pairs)
    )
}

/// Says how far both kernels of a C+M pair come with quotas and without.
fn progress(pairs: &Pairs) -> String {
    let mean = |policy: &str, kernel: usize| {
        pairs.mean(Some(Group::CM), |pair| pair.merit(policy).progress[kernel])
    };
    let of = |kernel: usize| {
        let [without, with] = ["smk-p-strict", "smk-pw"].map(|policy| mean(policy, kernel));
        format!("{without:.2} without quotas and {with:.2} with them")
    };
    // Kernels that compute stand first in pairs.
    format!(
        "Of its IPC alone a kernel that computes has in C+M pairs {}, the other one {}.",
        of(0),
        of(1)
    )
}

/// Figures 12 and 13.
fn over_spatial(pairs: &Pairs) -> Figures {
    let ratio = |pair: &Pair| pair.merit(BEST).stp / pair.merit("spatial").stp;
    let of = |group: Option<Group>, figure: Figure| {
        let mean = |policy: &str| pairs.mean(group, |pair| figure(&pair.merit(policy)));
        mean(BEST) / mean("spatial")
    };
    let paper = |group| match group {
        Some(Group::CM) => [1.17, NONE, 0.81],
        Some(Group::MM) => [1.051, NONE, NONE],
        Some(Group::CC) => [NONE; 3],
        None => [1.127, 1.057, 0.894],
    };
    let mut rows: Vec<Row> = with_all()
        .map(|(group, name)| {
            let ours = [
                of(group, |m| m.stp),
                of(group, |m| m.fairness),
                of(group, |m| m.antt),
            ];
            Row::new(name, METRICS, paper(group), ours)
        })
        .collect();
    let mut sorted: Vec<&Pair> = pairs.all.iter().collect();
    sorted.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let ends = [
        (sorted.first(), "worst", 0.95),
        (sorted.last(), "best", 1.613),
    ];
    for (pair, what, paper) in ends {
        if let Some(pair) = pair {
            let name = format!("{what} pair: {}", pair.name());
            rows.push(Row::one(name, "stp", Some(paper), ratio(pair)));
        }
    }
    let below = sorted.iter().filter(|pair| ratio(pair) < 1.0).count();
    Figures {
        name: "SMK-(P+W) over spatial partitioning (Figures 12 and 13)".to_owned(),
        about: format!(
            "Ratios of means. In the paper the worst pair is not below 0.95. Here {below} of {} pairs are below 1.",
            pairs.all.len()
        ),
        rows,
        notes: NOTES.into_iter().rev().take(1).collect(),
    }
}

/// Section 5.4 with exact profiles.
fn known_rates(pairs: &Pairs) -> Figures {
    let row = |(group, name)| {
        let figures: [Figure; 3] = [|m| m.stp, |m| m.fairness, |m| m.antt];
        let ours = figures.map(|figure| pairs.mean(group, |pair| figure(&pair.knowing)));
        Row::new(name, METRICS, [NONE; 3], ours)
    };
    Figures {
        name: "SMK-(P+W) with quotas from runs alone".to_owned(),
        about: format!(
            "As above, but what a kernel issues alone is measured with the whole GPU before, not on one SM while \
             others use the rest. Against `{BEST}` with profiles of its own, on C+M {}.",
            exact_profiles(pairs)
        ),
        rows: with_all().map(row).collect(),
        ..Figures::default()
    }
}

/// Says what exact profiles make of C+M pairs.
fn exact_profiles(pairs: &Pairs) -> String {
    let change = |figure: Figure| {
        let mean = |of: fn(&Pair) -> Merit| pairs.mean(Some(Group::CM), |pair| figure(&of(pair)));
        100.0 * (mean(|pair| pair.knowing) / mean(|pair| pair.merit(BEST)) - 1.0)
    };
    format!(
        "STP is {:+.1} % and fairness {:+.1} %",
        change(|merit| merit.stp),
        change(|merit| merit.fairness)
    )
}

/// Says how much of a run profiles take; that there is one in it, a test shows.
fn profiles(lasts: Nanos) -> String {
    let Settings { warm_up, window } = Settings::DEFAULT;
    let took = warm_up + window;
    let ms = |ns: Nanos| ns.0 as f64 / 1e6;
    format!(
        "In a run of {:.2} ms both kernels are profiled once: each has one of the {SMS} SMs to itself for {:.2} ms, \
         {:.0} % of the run. Blocks are switched out when these SMs are given and taken back, and when \
         partitions begin.",
        ms(lasts),
        ms(took),
        100.0 * ms(took) / ms(lasts)
    )
}

/// Section 6.5.
fn switches(pairs: &Pairs) -> Figures {
    let row = |(group, name): (Option<Group>, &str)| {
        let with = pairs.mean(group, |pair| pair.merit(BEST).stp);
        let without = pairs.mean(group, |pair| pair.free.stp);
        let switched = pairs.mean(group, |pair| pair.merit(BEST).switched);
        let paper = [group.map_or(2.0, |_| NONE), NONE];
        let ours = [100.0 * (1.0 - with / without), switched];
        Row::new(name, ["overhead_percent", "switched_blocks"], paper, ours)
    };
    Figures {
        name: "What context switches cost SMK-(P+W) (section 6.5)".to_owned(),
        about: format!(
            "What STP is less than where contexts move at no cost, and blocks of a pair that were switched out. {} The \
             paper's profiling SMs are two of 16, for good. `spatial` here takes no block off an SM, so that the \
             paper's 5 % of Spart have no counterpart.",
            profiles(pairs.lasts)
        ),
        rows: with_all().map(row).collect(),
        notes: vec![Note {
            rows: &[],
            metrics: &[],
            why: "The paper's runs use small data sets to extenuate the effect; a difference of this size depends on \
                  how often blocks move in the time that is run.",
        }],
    }
}

/// What Table 2 has of other kernels.
fn alone(pairs: &Pairs) -> Figures {
    let row = |kernel: &Alone| {
        let ours = [kernel.issues, kernel.dram, kernel.launches];
        let metrics = ["issue_share", "dram_bytes_per_cycle", "launches"];
        Row::new(kernel.name, metrics, [NONE; 3], ours)
    };
    Figures {
        name: "The kernels of SMK's pairs alone".to_owned(),
        about: "`issue_share` is the part of all issue slots in which a kernel issues. The paper's kernels that \
                compute do in 40 to 48 % (Table 2)."
            .to_owned(),
        rows: pairs.alone.iter().map(row).collect(),
        ..Figures::default()
    }
}

/// Figure 11, for every pair.
fn each(pairs: &Pairs) -> Figures {
    let mut sorted: Vec<&Pair> = pairs.all.iter().collect();
    sorted.sort_by_key(|pair| Group::ALL.iter().position(|group| *group == pair.group));
    let row = |pair: &&Pair| {
        let ours = POLICIES.map(|policy| pair.merit(policy).stp);
        let name = format!("{}: {}", pair.group.name(), pair.name());
        Row::new(name, POLICIES, [NONE; POLICIES.len()], ours)
    };
    Figures {
        name: "STP of each pair under SMK's policies (Figures 11 and 13)".to_owned(),
        about: "The paper's figures are in its pictures only.".to_owned(),
        rows: sorted.iter().map(row).collect(),
        ..Figures::default()
    }
}

/// Draws STP and fairness of all pairs, sorted for each policy by itself.
pub(super) fn pictures(pairs: &Pairs) -> Vec<Picture> {
    let figures: [(&str, Figure); 2] = [
        ("STP", |merit| merit.stp),
        ("Fairness", |merit| merit.fairness),
    ];
    let draw = |(title, figure): (&str, Figure)| {
        let series = POLICIES.map(|policy| {
            let values = pairs.all.iter().map(|pair| figure(&pair.merit(policy)));
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            Series {
                name: policy.to_owned(),
                values: (0_u32..).map(f64::from).zip(values).collect(),
            }
        });
        Picture {
            title: format!("{title} of the {} pairs, sorted", pairs.all.len()),
            svg: curves(("pair", title), &series),
        }
    };
    figures.into_iter().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pairs::{GPU, HORIZON, SMS};
    use super::profiles;
    use gridmux_hw_model::GpuConfig;
    use gridmux_policy::issue_profile::{IssueProfiler, Settings};
    use gridmux_policy::units::Nanos;
    use gridmux_policy::{Event, GroupId, RowId};

    /// Two kernels that issue all the time: how often each gets an SM within a run, and for how long.
    #[test]
    fn both_kernels_are_profiled_once_in_a_run() {
        let gpu = GpuConfig::builtin(GPU).expect("built in");
        let lasts = Nanos(gpu.cycles_to_ns(HORIZON));
        let mut profiler = IssueProfiler::new(Settings::DEFAULT, SMS);
        let rows = [RowId(0), RowId(1)];
        let (mut begun, mut took, mut had) = (0, 0, false);
        const STEP: u64 = 5_000;
        for ns in (0..lasts.0).step_by(usize::try_from(STEP).expect("small")) {
            for (row, group) in rows.into_iter().zip(0..) {
                profiler.observe(&Event::Sample {
                    row,
                    group: GroupId(group),
                    cycles: ns,
                    block_cycles: ns,
                    issued: ns,
                    memory_stalls: 0,
                    l1_misses: 0,
                    l2_misses: 0,
                    dram_bytes: 0,
                });
            }
            profiler.step(Nanos(ns), &rows);
            let now = profiler.rows().len() == rows.len();
            begun += u32::from(now && !had);
            took += if now { STEP } else { 0 };
            had = now;
        }
        assert_eq!(begun, 1);
        let said = profiles(lasts);
        assert!(said.starts_with("In a run of 0.82 ms"), "{said}");
        let part = format!(
            "{:.2} ms, {:.0} %",
            took as f64 / 1e6,
            100.0 * took as f64 / lasts.0 as f64
        );
        assert!(said.contains(&part), "{said}: {part}");
    }
}
