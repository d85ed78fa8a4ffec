//! The Pareto front of STP, ANTT and fairness: the policies that no other is better than in all three.

use crate::accelos::{Draw, LONGEST, Results};
use crate::context::Context;
use crate::picture::{Picture, Series, points};
use crate::srtf::Runs;
use crate::tables::{Figures, Row};
use crate::world::{Contender, World};
use anyhow::Result;
use gridmux_policy::all_policies;
use gridmux_policy::policies::gridmux::Settings;

/// Sets of 4 that are drawn for the front.
const DRAWN: usize = 1024;

/// STP, ANTT and fairness of a policy.
pub(super) type Point = (String, [f64; 3]);

/// Returns every policy, and the combined one with profiles.
fn contenders() -> Vec<Contender> {
    let mut all: Vec<Contender> = all_policies()
        .iter()
        .map(|info| Contender::named(info.name))
        .collect();
    all.push(Contender::gridmux(
        "gridmux, profiles known",
        Settings::default(),
        true,
    ));
    all
}

/// Returns the front on the 56 pairs that start together.
pub(super) fn pairs(context: &Context, world: &World) -> Result<(Figures, Picture)> {
    let contenders = contenders();
    let runs = Runs::under(context, world, &contenders, &[0])?;
    let points = contenders.into_iter().map(|contender| {
        let means = runs.means(&contender.name, 0);
        (contender.name, means)
    });
    let about = "Geometric means; the second kernel arrives within 100 cycles. `sjf`, `ljf` and `srtf-zero` know every \
                 kernel's runtime.";
    Ok(drawn(
        "Every policy on the 56 ERCBench pairs",
        about,
        &points.collect::<Vec<_>>(),
    ))
}

/// Returns the front on sets of 4 of our kernels that start together.
pub(super) fn sets(context: &Context, world: &World) -> Result<(Figures, Picture)> {
    let contenders = contenders();
    let draw = Draw::new(world.kernels.len(), 4, DRAWN, context.part);
    let results = Results::of(context, world, &contenders, &draw)?;
    let about = format!(
        "Means over {} sets that start together. {}",
        draw.drawn(),
        without_the_longest(world, &draw, &results)
    );
    let points = contenders.into_iter().map(|contender| {
        let made = results.get(&contender.name);
        let means = [
            draw.mean(|at| made[at].stp),
            draw.mean(|at| made[at].antt),
            draw.mean(|at| 1.0 / made[at].unfairness),
        ];
        (contender.name, means)
    });
    Ok(drawn(
        "Every policy on sets of 4 of our kernels",
        &about,
        &points.collect::<Vec<_>>(),
    ))
}

/// Says why some policies have a large ANTT: with the kernel that takes longest, others wait for it.
fn without_the_longest(world: &World, draw: &Draw, results: &Results) -> String {
    let longest = |kernel: &usize| world.kernels[*kernel].kernel.name == LONGEST;
    let has = |at: usize| draw.sets[at].0.iter().any(longest);
    let part = draw.part(has);
    let antt = |policy: &str| {
        let made = results.get(policy);
        let others = draw.mean(|at| if has(at) { 0.0 } else { made[at].antt });
        format!("{:.2} under `{policy}`", others / (1.0 - part))
    };
    if part <= 0.0 || part >= 1.0 {
        return String::new();
    }
    format!(
        "`srtf` and `srtf-adaptive` predict nothing of a kernel before one of its blocks has ended: the one that has \
         the device keeps it until then, and while one is sampled no other is. A block of `{LONGEST}` lasts nearly as \
         long as the kernel, so that the others wait for its end. `ljf` runs it first because it is the longest. The \
         other {:.0} % of the sets have a mean ANTT of {}.",
        100.0 * (1.0 - part),
        ["fifo", "srtf", "srtf-adaptive", "ljf"]
            .map(antt)
            .join(", ")
    )
}

fn drawn(name: &str, about: &str, all: &[Point]) -> (Figures, Picture) {
    let metrics = ["stp", "antt", "fairness", "on_front"];
    let rows = all.iter().map(|(name, [stp, antt, fairness])| {
        let front = f64::from(u8::from(is_on_front(&[*stp, *antt, *fairness], all)));
        Row::new(
            name,
            metrics,
            [f64::NAN; 4],
            [*stp, *antt, *fairness, front],
        )
    });
    let table = Figures {
        name: name.to_owned(),
        about: format!(
            "{about} `on_front` is 1 where no other policy is at least as good in all three and better in one."
        ),
        rows: rows.collect(),
        ..Figures::default()
    };
    let dot = |(name, [stp, antt, _]): &Point| Series {
        name: name.clone(),
        values: vec![(*stp, antt.ln())],
    };
    let picture = Picture {
        title: format!("{name}: STP and ANTT"),
        svg: points(("STP", "ln ANTT"), &all.iter().map(dot).collect::<Vec<_>>()),
    };
    (table, picture)
}

/// Returns whether no other policy is at least as good in all three metrics and better in one.
pub(super) fn is_on_front(own: &[f64; 3], all: &[Point]) -> bool {
    let gains = |point: &[f64; 3]| [point[0], -point[1], point[2]];
    let own = gains(own);
    let dominates = |(_, other): &Point| {
        let other = gains(other);
        let pairs = || other.iter().zip(&own);
        pairs().all(|(other, own)| other >= own) && pairs().any(|(other, own)| other > own)
    };
    !all.iter().any(dominates)
}

#[cfg(test)]
mod tests {
    use super::is_on_front;

    #[test]
    fn a_policy_that_is_beaten_in_all_is_not_on_the_front() {
        let point = |name: &str, metrics| (name.to_owned(), metrics);
        let all = [
            point("best throughput", [1.8, 1.3, 0.5]),
            point("fairest", [1.5, 1.4, 0.9]),
            point("beaten by the first", [1.8, 1.4, 0.5]),
            point("as the fairest", [1.5, 1.4, 0.9]),
        ];
        let on_front = all.iter().map(|(_, metrics)| is_on_front(metrics, &all));
        assert_eq!(on_front.collect::<Vec<bool>>(), [true, true, false, true]);
    }
}
