//! The paper's figures over sets: unfairness and overlap (sections 8.1, 8.2), throughput (8.3), STP and ANTT (8.4).

use super::POLICIES;
use super::sets::{Draw, Made, Results};
use crate::picture::{Picture, Series, curves};
use crate::tables::{Figures, Note, Row};

const NONE: f64 = f64::NAN;

/// What the paper has of sets of one size on a K20m.
struct Paper {
    size: usize,
    /// Unfairness, overlap and throughput; Elastic Kernels' unfairness is the standard system's over the improvement
    /// that section 8.1 gives.
    hardware: [f64; 3],
    accelos: [f64; 3],
    elastic: [f64; 3],
    /// Improvement of unfairness, as the text gives it.
    improvement: [f64; 2],
    /// STP, ANTT, worst ANTT (Table 1). Those of accelOS, and of Elastic Kernels in sets of 8, cannot follow the
    /// definitions that the paper cites.
    table_1: [[f64; 3]; 2],
}

const PAPER: [Paper; 3] = [
    Paper {
        size: 2,
        hardware: [8.43, 0.21, 1.0],
        accelos: [1.24, 0.94, 1.13],
        elastic: [8.43 / 1.53, 0.71, 1.08],
        improvement: [6.8, 1.53],
        table_1: [[1.15, 1.12, 8.2], [1.13, 3.57, 56.7]],
    },
    Paper {
        size: 4,
        hardware: [19.65, 0.03, 1.0],
        accelos: [1.89, 0.87, 1.19],
        elastic: [19.65 / 1.03, 0.43, 1.02],
        improvement: [10.4, 1.03],
        table_1: [[1.18, 1.32, 14.2], [0.99, 4.33, 72.2]],
    },
    Paper {
        size: 8,
        hardware: [43.42, 0.0, 1.0],
        accelos: [3.54, 0.82, 1.23],
        elastic: [43.42 / 0.93, 0.07, 0.91],
        improvement: [12.27, 0.93],
        table_1: [[1.25, 1.78, 23.1], [0.93, 7.57, 87.59]],
    },
];

/// A figure of a set under a policy and under stock hardware.
type Metric = fn(&Made, &Made) -> f64;

const SETS: [&str; 3] = ["unfairness", "overlap", "throughput"];
const TABLE_1: [&str; 3] = ["stp", "antt", "worst_antt"];

const NOTES: &[Note] = &[
    Note {
        rows: &["fifo"],
        metrics: &[],
        why: "Our twenty kernels on a modelled GTX 980 are not Parboil's 25 on a K20m: how unequal slowdowns in order \
              of arrival are follows from how far apart the kernels' runtimes are.",
    },
    Note {
        rows: &["accelos"],
        metrics: &["overlap"],
        why: "Kernels that get equal parts of the device end together only if they take equally long alone. If the \
              kernel that is left gets the whole device, as here, the paper's 94 % for pairs needs runtimes within \
              11 % of each other. Ours are much further apart (see above), so that the short kernels have ended while \
              the long ones run.",
    },
    Note {
        rows: &["accelos"],
        metrics: &["throughput"],
        why: "What our kernels gain beside each other follows from what they use of issue slots and DRAM, as measured \
              on the SM model, which ran only a sample of such sets (below). The paper's gain from the dynamic \
              scheduling of its work groups (1.07 alone) is not in it.",
    },
    Note {
        rows: &["accelos"],
        metrics: &["unfairness"],
        why: "A kernel whose grid fills less than its part is hardly slowed down, one that fills the device is slowed \
              down by the number of kernels; our sets mix both kinds, and kernels without their longer co-runners get \
              more again, so that slowdowns differ by more than the paper's.",
    },
    Note {
        rows: &["elastic"],
        metrics: &[],
        why: "The paper's Elastic Kernels is a port of its own, of which it says that sizes are static. Ours merges as \
              many waiting launches as an SM holds one block of each, sized as MPMax does, so that few kernels wait \
              behind a whole other one.",
    },
];

const TABLE_1_NOTES: &[Note] = &[
    Note {
        rows: &["elastic, sets of 2", "elastic, sets of 4"],
        metrics: &[],
        why: "The paper's Elastic Kernels is a port of its own, of which it says that sizes are static, and its \
              kernels are not ours.",
    },
    Note {
        rows: &[],
        metrics: &[],
        why: "The paper's figures in these rows are no bar. By the definitions that it cites, K kernels have an STP \
              of at least K / ANTT. Its accelOS has less at every size, and so has its Elastic Kernels in sets of 8. \
              Ours follow the definitions.",
    },
];

/// Returns the tables of all sizes; `span` says how far apart the kernels' runtimes are.
pub(super) fn all(all: &[(Draw, Results)], span: &str) -> Vec<Figures> {
    let mut tables: Vec<Figures> = all
        .iter()
        .map(|(draw, results)| sets(draw, results, span))
        .collect();
    tables.push(improvements(all));
    tables.push(single_sets(all));
    tables.push(table_1(all));
    tables
}

fn paper(draw: &Draw) -> Option<&'static Paper> {
    PAPER.iter().find(|paper| paper.size == draw.size)
}

/// Returns the paper's unfairness, overlap and throughput of a policy over sets of a draw's size.
pub(super) fn paper_of(draw: &Draw, policy: &str) -> [f64; 3] {
    paper(draw).map_or([NONE; 3], |paper| match policy {
        "fifo" => paper.hardware,
        "accelos" => paper.accelos,
        "elastic" => paper.elastic,
        _ => [NONE; 3],
    })
}

/// Returns means over sets of unfairness, overlap and throughput against stock hardware.
pub(crate) fn means(draw: &Draw, results: &Results, policy: &str) -> [f64; 3] {
    let (made, stock) = (results.get(policy), results.get("fifo"));
    [
        draw.mean(|at| made[at].unfairness),
        draw.mean(|at| made[at].overlap),
        draw.mean(|at| stock[at].makespan / made[at].makespan),
    ]
}

fn sets(draw: &Draw, results: &Results, span: &str) -> Figures {
    let row = |policy: &str| {
        Row::new(
            policy,
            SETS,
            paper_of(draw, policy),
            means(draw, results, policy),
        )
    };
    Figures {
        name: format!(
            "Sets of {} kernels that start together (sections 8.1 to 8.3)",
            draw.size
        ),
        about: format!(
            "Means over {} sets, of which {} differ in their kernels; throughput against `fifo`, which is stock \
             hardware. {span}",
            draw.drawn(),
            draw.sets.len()
        ),
        rows: POLICIES.map(row).to_vec(),
        notes: NOTES.to_vec(),
    }
}

/// Returns how many times less unfair than stock hardware policies are, and how much more they get done, over all
/// sizes.
fn improvements(all: &[(Draw, Results)]) -> Figures {
    let metrics = ["unfairness", "throughput"];
    let mut rows = Vec::new();
    for (place, policy) in ["accelos", "elastic", "gridmux"].into_iter().enumerate() {
        let mut sums = [0.0; 2];
        for (draw, results) in all {
            let [stock, own] = ["fifo", policy].map(|policy| means(draw, results, policy));
            let improvement = stock[0] / own[0];
            let told = paper(draw).and_then(|paper| paper.improvement.get(place));
            let name = format!("{policy}, sets of {}", draw.size);
            rows.push(Row::one(name, "unfairness", told.copied(), improvement));
            sums = [sums[0] + improvement, sums[1] + own[2]];
        }
        let means = sums.map(|sum| sum / all.len() as f64);
        let told = match policy {
            "accelos" => [9.55, 1.18],
            "elastic" => [1.13, 1.00],
            _ => [NONE; 2],
        };
        rows.push(Row::new(
            format!("{policy}, mean of all sizes"),
            metrics,
            told,
            means,
        ));
    }
    Figures {
        name: "How many times less unfair than stock hardware (sections 8.1 and 8.3)".to_owned(),
        about: "Mean unfairness under `fifo` over that under the policy, as the paper divides it."
            .to_owned(),
        rows,
        notes: vec![Note {
            rows: &[],
            metrics: &[],
            why: "It follows from the tables above.",
        }],
    }
}

/// Returns what the text says of single sets: extremes, and how many are worse off (sections 8.1.2 and 8.3.2).
fn single_sets(all: &[(Draw, Results)]) -> Figures {
    let mut rows = Vec::new();
    let told = [
        ("accelos", [2.0, 5.0, 0.81, 15.84, 0.52, 4.8]),
        ("elastic", [44.0, 54.0, NONE, NONE, NONE, NONE]),
    ];
    for (policy, [fairer, faster, least, most, slowest, fastest]) in told {
        let sets = f64::from(all.iter().map(|(draw, _)| draw.drawn()).sum::<u32>());
        let (mut unfair, mut slow) = (0.0, 0.0);
        let mut extremes = [f64::MAX, 0.0, f64::MAX, 0.0];
        for (draw, results) in all {
            let (own, stock) = (results.get(policy), results.get("fifo"));
            let fairness = |at: usize| stock[at].unfairness / own[at].unfairness;
            let throughput = |at: usize| stock[at].makespan / own[at].makespan;
            let part = f64::from(draw.drawn()) / sets;
            // A thousandth is within the cycles in which blocks are started.
            unfair += 100.0 * part * draw.part(|at| fairness(at) < 0.999);
            slow += 100.0 * part * draw.part(|at| throughput(at) < 0.999);
            for at in 0..own.len() {
                extremes[0] = extremes[0].min(fairness(at));
                extremes[1] = extremes[1].max(fairness(at));
                extremes[2] = extremes[2].min(throughput(at));
                extremes[3] = extremes[3].max(throughput(at));
            }
        }
        let mut one = |what: &str, metric: &'static str, paper: f64, ours: f64| {
            let paper = Some(paper).filter(|paper| !paper.is_nan());
            rows.push(Row::one(format!("{policy}, {what}"), metric, paper, ours));
        };
        one("percent of sets less fair", "unfairness", fairer, unfair);
        one("percent of sets slower", "throughput", faster, slow);
        one("least improvement", "unfairness", least, extremes[0]);
        one("greatest improvement", "unfairness", most, extremes[1]);
        one("least speedup", "throughput", slowest, extremes[2]);
        one("greatest speedup", "throughput", fastest, extremes[3]);
    }
    Figures {
        name: "Single sets (sections 8.1.2 and 8.3.2)".to_owned(),
        about: "Over all sets of all sizes. The text says `less than 2 %` and `less than 5 %` of accelOS.".to_owned(),
        rows,
        notes: vec![
            Note {
                rows: &["accelos, percent of sets less fair", "elastic, percent of sets less fair"],
                metrics: &[],
                why: "A set of kernels that take alike, or whose short kernels came first, is nearly fair on stock \
                      hardware, and equal parts can then be worse; how often that is so depends on the kernels.",
            },
            Note {
                rows: &["accelos, percent of sets slower", "elastic, percent of sets slower"],
                metrics: &[],
                why: "Sets of kernels that use the same are as fast together as one after another here, so that these \
                      are about as likely to lose a little as to gain a little.",
            },
            Note {
                rows: &[],
                metrics: &[],
                why: "Extremes are single sets of kernels that are not the paper's.",
            },
        ],
    }
}

fn table_1(all: &[(Draw, Results)]) -> Figures {
    let mut rows = Vec::new();
    for (place, policy) in ["accelos", "elastic", "fifo", "gridmux"]
        .into_iter()
        .enumerate()
    {
        for (draw, results) in all {
            let made = results.get(policy);
            let told = paper(draw).and_then(|paper| paper.table_1.get(place));
            let measured = [
                draw.mean(|at| made[at].stp),
                draw.mean(|at| made[at].antt),
                made.iter().map(|made| made.antt).fold(0.0, f64::max),
            ];
            let name = format!("{policy}, sets of {}", draw.size);
            rows.push(Row::new(
                name,
                TABLE_1,
                told.copied().unwrap_or([NONE; 3]),
                measured,
            ));
        }
    }
    Figures {
        name: "STP and ANTT (Table 1)".to_owned(),
        about: "Means over sets, and the worst set.".to_owned(),
        rows,
        notes: TABLE_1_NOTES.to_vec(),
    }
}

/// Draws each policy's unfairness over the sets of a size, sorted, as Figure 10 does.
pub(super) fn pictures(all: &[(Draw, Results)]) -> Vec<Picture> {
    let metrics: [(&str, Metric); 2] = [
        ("Figure 10: logarithm of unfairness", |made, _| {
            made.unfairness.ln()
        }),
        ("Figure 14: throughput", |made, stock| {
            stock.makespan / made.makespan
        }),
    ];
    let mut pictures = Vec::new();
    for (draw, results) in all {
        for (title, metric) in metrics {
            let stock = results.get("fifo");
            let series = POLICIES.map(|policy| {
                let made = results.get(policy).iter().zip(stock);
                let mut values: Vec<f64> = made.map(|(made, stock)| metric(made, stock)).collect();
                values.sort_by(f64::total_cmp);
                // A screen has fewer columns than there are sets.
                let step = values.len().div_ceil(400);
                let thinned = values.into_iter().step_by(step);
                Series {
                    name: policy.to_owned(),
                    values: (0_u32..).map(f64::from).zip(thinned).collect(),
                }
            });
            pictures.push(Picture {
                title: format!("{title} of sets of {}, sorted", draw.size),
                svg: curves(("set", title), &series),
            });
        }
    }
    pictures
}
