//! What each term of the combined policy is worth, on the papers' pairs and sets.

use super::line_up;
use crate::accelos::{Draw, Results, means};
use crate::context::Context;
use crate::srtf::{OFFSETS, Runs};
use crate::tables::{Figures, Row};
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_policy::policies::gridmux::Settings;
use std::fmt::Display;

/// Sets of 4 and 8 that are drawn for the ablation.
const DRAWN: [(usize, usize); 2] = [(4, 1024), (8, 512)];

/// Returns a table for each offset of arrival: `srtf` and the combined policy on the 56 pairs.
pub(super) fn pairs(context: &Context, world: &World) -> Result<Vec<Figures>> {
    let mut contenders: Vec<Contender> = ["srtf", "srtf-zero"]
        .into_iter()
        .map(Contender::named)
        .collect();
    contenders.extend(line_up(false));
    contenders.extend(line_up(true));
    let runs = Runs::under(context, world, &contenders, &OFFSETS)?;
    let table = |percent: u64| {
        let row = |contender: &Contender| {
            let means = runs.means(&contender.name, percent);
            let metrics = ["stp", "antt", "fairness"];
            Row::new(&contender.name, metrics, [f64::NAN; 3], means)
        };
        Figures {
            name: format!("gridmux on the 56 ERCBench pairs, the second kernel {percent} % later"),
            about: format!(
                "Geometric means. `srtf` and `gridmux` know no kernel beforehand; `srtf-zero` and the rows with \
                 `profiles known` know every kernel's runtime alone. {}{}",
                limits_on_pairs(&runs, percent),
                worth_of_sharing(&runs, percent)
            ),
            rows: contenders.iter().map(row).collect(),
            ..Figures::default()
        }
    };
    Ok(OFFSETS.into_iter().map(table).collect())
}

/// Says why sharing is kept where the policy has the better STP and ANTT without it.
fn worth_of_sharing(runs: &Runs, percent: u64) -> &'static str {
    let [with, without] =
        ["gridmux", "gridmux without sharing"].map(|policy| runs.means(policy, percent));
    match without[0] > with[0] && without[1] < with[1] && without[2] < with[2] {
        true => {
            " Sharing costs STP and ANTT and is kept for its fairness: compare `without sharing`."
        }
        false => "",
    }
}

/// Says when the guard and the bound act, and how many pairs go otherwise without them.
fn limits_on_pairs(runs: &Runs, percent: u64) -> String {
    let pairs = |name: &str| {
        let of = |suffix| runs.get(&format!("{name}{suffix}"), percent);
        ["", ", profiles known"]
            .into_iter()
            .flat_map(of)
            .collect::<Vec<_>>()
    };
    let whole = pairs("gridmux");
    let changed = |term: &str| {
        let without = pairs(&format!("gridmux {term}"));
        let both = whole.iter().zip(&without);
        both.filter(|(one, other)| one != other).count()
    };
    limits(&format!("{} runs of a pair", whole.len()), changed)
}

/// Says when the guard and the bound act, and how many sets go otherwise without them.
fn limits_on_sets(draw: &Draw, results: &Results) -> String {
    let whole = results.get("gridmux");
    let changed = |term: &str| {
        let without = results.get(&format!("gridmux {term}"));
        let all = whole.iter().zip(without).zip(&draw.sets);
        all.filter(|((one, other), _)| one != other)
            .map(|(_, (_, times))| times)
            .sum::<u32>()
    };
    limits(&format!("{} sets", draw.drawn()), changed)
}

/// Says when the guard and the bound act, and how much goes otherwise without each.
fn limits<N: Display>(all: &str, changed: impl Fn(&str) -> N) -> String {
    let settings = Settings::default();
    let window_ms = settings.guard.unwrap_or(f64::INFINITY) / 1e6;
    let most = settings.bound.unwrap_or(f64::INFINITY);
    format!(
        "The guard acts where a tenant has held the device for {window_ms} ms more than its part, the bound where a \
         launch's predicted slowdown exceeds {most}. Mixes as short as these hardly come to that: of {all}, {} go \
         otherwise without the guard and {} without the bound.",
        changed("without the guard"),
        changed("without the bound")
    )
}

/// Returns a table for each size of sets: `accelos` and the combined policy against stock hardware.
pub(super) fn sets(context: &Context, world: &World) -> Result<Vec<Figures>> {
    let mut contenders: Vec<Contender> = ["fifo", "accelos"]
        .into_iter()
        .map(Contender::named)
        .collect();
    contenders.extend(line_up(false));
    contenders.extend(line_up(true).into_iter().take(1));
    let mut tables = Vec::new();
    for (size, drawn) in DRAWN {
        let draw = Draw::new(world.kernels.len(), size, drawn, context.part);
        let results = Results::of(context, world, &contenders, &draw)?;
        let row = |contender: &Contender| {
            let means = means(&draw, &results, &contender.name);
            Row::new(
                &contender.name,
                ["unfairness", "overlap", "throughput"],
                [f64::NAN; 3],
                means,
            )
        };
        tables.push(Figures {
            name: format!("gridmux on sets of {size} of our kernels"),
            about: format!(
                "Means over {} sets; throughput against `fifo`, stock hardware. {}",
                draw.drawn(),
                limits_on_sets(&draw, &results)
            ),
            rows: contenders.iter().map(row).collect(),
            ..Figures::default()
        });
    }
    Ok(tables)
}
