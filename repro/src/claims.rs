//! What the head of `docs/reproduction.md` says of results, held to the tables below it.
//!
//! Rule: a claim is words of the head, and what its tables have to show for them. One that a new run refutes is told
//! when the document is written and fails `--check`: the head is changed then, not the claim alone.

use crate::document::Document;

/// Words of the head, and whether the document's figures bear them out; none where it lacks one of them.
type Claim = (&'static str, fn(&Document<'_>) -> Option<bool>);

const ON_EVENT: &str = "Order of the policies on `event`, ERCBench (Table 5)";
const ON_MODEL: &str = "Order of the policies on `model`, our kernels";
const COUNTS: &str = "Pairs that the text counts, and the worst ANTT (sections 6.2.2 to 6.2.4)";
const RANGES: &str = "Ranges of predictions over runtimes (sections 3.2, 3.5 and 4.2)";
const SMK: &str = "SMK's policies on 45 pairs (Figure 10, Table 3)";
const SLICER: &str = "Pairs under each policy: all pairs (Figures 6 and 9)";
const NEAR: &str = "Partitions within one block of the oracle's (section IV-A)";
const SENSITIVITY: &str = "Length of windows and delay of the decision (Figure 10a)";
const MIXES: [&str; 4] = ["CI", "MI", "MIX", "ALL"];
const GPUS: [&str; 2] = ["c2050", "gtx680"];
/// A figure is near another one within this part.
const NEARLY: f64 = 0.05;

const CLAIMS: &[Claim] = &[
    ("the order of SRTF's policies by ANTT", |document| {
        let order = [
            "sjf",
            "srtf-zero",
            "srtf",
            "srtf-adaptive",
            "mpmax",
            "fifo-strict",
        ];
        let rank = |table, policy| document.figure("srtf", table, policy, "antt_rank");
        let is_papers = |table| {
            let ranks = order.map(|policy| rank(table, policy));
            let ranks: Option<Vec<f64>> = ranks.into_iter().collect();
            Some(ranks?.is_sorted())
        };
        Some(is_papers(ON_EVENT)? && is_papers(ON_MODEL)?)
    }),
    ("the order of MPMax and FIFO by STP", |document| {
        let rank = |policy| document.figure("srtf", ON_EVENT, policy, "stp_rank");
        Some(rank("fifo-strict")? < rank("mpmax")?)
    }),
    (
        "the number of pairs in which SRTF/Adaptive shares",
        |document| {
            let pairs = document.figure("srtf", COUNTS, "srtf-adaptive shares", "pairs")?;
            Some(!is_near(pairs, 35.0))
        },
    ),
    ("the slowdown of JPEG behind SHA1", |document| {
        let worst = document.figure("srtf", COUNTS, "worst of srtf", "worst_antt")?;
        Some(!is_near(worst, 37.77))
    }),
    ("equation 2 never exceeds", |document| {
        let most = document.figure("srtf", RANGES, "equation 2, even blocks", "most")?;
        Some(most > 1.08 * (1.0 + NEARLY))
    }),
    (
        "accelOS is fairer than stock hardware and than Elastic Kernels",
        |document| {
            every_size(document, |of| {
                let accelos = of("accelos")?;
                Some(accelos < of("fifo")? && accelos < of("elastic")?)
            })
        },
    ),
    ("Elastic Kernels is fairer here", |document| {
        let papers = [5.51, 19.078, 46.688].into_iter();
        let sizes = SIZES
            .iter()
            .zip(papers)
            .map(|(size, paper)| Some(unfairness(document, *size, "elastic")? < paper));
        all(sizes)
    }),
    (
        "Spart's throughput on pairs of which one computes",
        |document| Some(is_near(smk(document, "C+M, spatial", "stp")?, 1.30)),
    ),
    (
        "partitions of every SM give more of it than allocation on demand",
        |document| {
            Some(smk(document, "all, smk-p-strict", "stp")? > smk(document, "all, smk", "stp")?)
        },
    ),
    ("quotas make pairs fairer", |document| {
        let fairness = |policy| smk(document, policy, "fairness");
        Some(fairness("all, smk-pw")? > fairness("all, smk-p-strict")?)
    }),
    ("gains hardly anything over Spart", |document| {
        let partition = smk(document, "C+M, smk-p-strict", "stp")?;
        Some(is_near(partition, smk(document, "C+M, spatial", "stp")?))
    }),
    ("its quotas cost throughput here", |document| {
        Some(smk(document, "all, smk-pw", "stp")? < smk(document, "all, smk-p-strict", "stp")?)
    }),
    (
        "within the paper's error on the modelled C2050",
        |document| {
            let errors = GPUS.map(|gpu| error(document, gpu, "the model"));
            Some(errors[0]? <= 0.08 && errors[1]? <= 0.21 * (1.0 + NEARLY))
        },
    ),
    ("the schedulers of an SM have to be modelled", |document| {
        Some(
            error(document, "gtx680", "with one scheduler")?
                > error(document, "gtx680", "the model")?,
        )
    }),
    (
        "its schedules beat kernel consolidation on all four mixes",
        |document| {
            let gains = ["kernelet over base", "kernelet, balanced ratios, over base"];
            all(GPUS.into_iter().flat_map(|gpu| {
                let each = MIXES
                    .into_iter()
                    .flat_map(move |mix| gains.map(|gain| (mix, gain)));
                each.map(move |(mix, gain)| Some(mixes(document, gpu, mix, gain)? > 0.0))
            }))
        },
    ),
    ("Figure 10 comes out reversed on the C2050", |document| {
        let errors = |gpu| {
            let coalesced = error(document, gpu, "without uncoalesced accesses")?;
            Some(coalesced < error(document, gpu, "the model")?)
        };
        Some(errors("c2050")? && !errors("gtx680")?)
    }),
    (
        "balanced ratios Kernelet gains less than OPT by more than in the paper",
        |document| {
            let most = |gpu| {
                let gap = |mix| gap(document, gpu, mix, "kernelet, balanced ratios, over base");
                MIXES
                    .iter()
                    .map(|mix| gap(mix))
                    .try_fold(0.0, |most, gap| Some(f64::max(most, gap?)))
            };
            Some(most("c2050")? > 3.1 && most("gtx680")? > 15.0)
        },
    ),
    (
        "no random schedule of the mixed mix is better",
        |document| {
            let better = GPUS.map(|gpu| mixes(document, gpu, "MIX", "mc better than kernelet"));
            Some(better[0]? < 1.0 && better[1]? < 1.0)
        },
    ),
    (
        "on the GTX 680 two mixes are further from OPT than 6 %",
        |document| {
            let gaps = MIXES.map(|mix| gap(document, "gtx680", mix, "kernelet over base"));
            let gaps: Option<Vec<f64>> = gaps.into_iter().collect();
            Some(gaps?.iter().filter(|gap| **gap > 6.0).count() == 2)
        },
    ),
    (
        "gains over left-over and over spatial partitioning",
        |document| {
            let ours = slicer(document, "warped-slicer")?;
            Some(ours > slicer(document, "fifo")? && ours > slicer(document, "spatial")?)
        },
    ),
    (
        "the right partition, the oracle's, gains over even ones",
        |document| Some(slicer(document, "oracle")? > slicer(document, "even")?),
    ),
    ("here it has no more throughput than these", |document| {
        let gain = slicer(document, "warped-slicer")? / slicer(document, "even")?;
        Some(gain <= 1.0 + NEARLY / 5.0)
    }),
    (
        "equation 4 as it is printed finds the oracle's partition less often",
        |document| {
            let near = |form| document.figure("warped-slicer", NEAR, form, "near_part");
            Some(near("equation 4 as printed")? < near("as the policy is")?)
        },
    ),
    (
        "single pairs lose more by longer profiles and later decisions",
        |document| {
            let least = |form| document.figure("warped-slicer", SENSITIVITY, form, "least_ipc");
            Some(
                least("windows of 10,000 cycles")? < 0.98
                    && least("decided 10,000 cycles later")? < 0.985,
            )
        },
    ),
];

const SIZES: [u32; 3] = [2, 4, 8];

/// Returns the claims that the document's figures refute.
pub(crate) fn refuted<'a>(document: &'a Document<'_>) -> impl Iterator<Item = &'static str> + 'a {
    let refuted = CLAIMS
        .iter()
        .filter(|(_, holds)| holds(document) == Some(false));
    refuted.map(|(claim, _)| *claim)
}

fn is_near(ours: f64, other: f64) -> bool {
    (ours / other - 1.0).abs() <= NEARLY
}

/// Returns whether all hold, if all are known.
fn all(mut claims: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    claims.try_fold(true, |all, holds| Some(all & holds?))
}

/// Asks for sets of every size, with the unfairness of a policy there.
fn every_size(
    document: &Document<'_>,
    holds: impl Fn(&dyn Fn(&str) -> Option<f64>) -> Option<bool>,
) -> Option<bool> {
    all(SIZES
        .iter()
        .map(|size| holds(&|policy| unfairness(document, *size, policy))))
}

fn unfairness(document: &Document<'_>, size: u32, policy: &str) -> Option<f64> {
    let table = format!("Sets of {size} kernels that start together (sections 8.1 to 8.3)");
    document.figure("accelos", &table, policy, "unfairness")
}

fn smk(document: &Document<'_>, row: &str, metric: &str) -> Option<f64> {
    document.figure("smk", SMK, row, metric)
}

fn slicer(document: &Document<'_>, policy: &str) -> Option<f64> {
    document.figure("warped-slicer", SLICER, policy, "ipc")
}

/// Returns the error of the IPC of kernels alone that is predicted by a form of the chain.
fn error(document: &Document<'_>, gpu: &str, form: &str) -> Option<f64> {
    let table = format!("Error of the predicted IPC on {gpu} (Figures 7 to 12)");
    document.figure("kernelet", &table, form, "alone")
}

fn mixes(document: &Document<'_>, gpu: &str, mix: &str, metric: &str) -> Option<f64> {
    let table = format!("Throughput of mixes on {gpu} (Figures 13 and 14)");
    document.figure("kernelet", &table, mix, metric)
}

/// Returns by how many percent OPT's throughput is greater, given what both gain over BASE in percent.
fn gap(document: &Document<'_>, gpu: &str, mix: &str, gain: &str) -> Option<f64> {
    let of = |metric| Some(1.0 + mixes(document, gpu, mix, metric)? / 100.0);
    Some(100.0 * (of("opt over base")? / of(gain)? - 1.0))
}

#[cfg(test)]
mod tests {
    use super::{CLAIMS, refuted};
    use crate::document::{Document, HEAD};

    /// The document that is committed.
    const DOCUMENT: &str = include_str!("../../docs/reproduction.md");

    #[test]
    fn the_tables_bear_out_what_the_head_says() {
        let head: Vec<&str> = HEAD.split_whitespace().collect();
        let head = head.join(" ");
        for (claim, holds) in CLAIMS {
            assert!(head.contains(claim), "the head does not say {claim:?}");
            assert_eq!(holds(&Document(DOCUMENT)), Some(true), "{claim:?}");
        }
    }

    #[test]
    fn a_figure_that_refutes_a_claim_names_it() {
        let row = DOCUMENT
            .lines()
            .find(|line| line.starts_with("| equation 4 as printed |"));
        let row = row.expect("a row");
        let other = DOCUMENT.replace(
            row,
            "| equation 4 as printed | 0.000 | 35000 |  | 0.990 |  |",
        );
        let refuted: Vec<&str> = refuted(&Document(&other)).collect();
        assert_eq!(refuted.len(), 1, "{refuted:?}");
        assert!(refuted[0].starts_with("equation 4"));
        assert_eq!(super::refuted(&Document("# Reproduction\n")).count(), 0);
    }
}
