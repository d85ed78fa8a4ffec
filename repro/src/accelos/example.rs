//! Figure 2: four kernels together. The paper's `tpacf` is none of ours; `histogram`, its inner part, stands for it.
//!
//! Stock hardware serves in order of arrival, so that all that is measured against it depends on which kernel comes
//! first: every order runs.

use super::sets::one;
use crate::tables::{Figures, Note, Row};
use crate::world::{Contender, World};
use anyhow::{Context, Result};

const KERNELS: [&str; 4] = ["bfs", "cutcp", "stencil3d", "histogram"];

/// Returns the table.
pub(super) fn table(world: &World, names: &[String]) -> Result<Figures> {
    let place = |name: &&str| {
        let found = names.iter().position(|other| other == name);
        found.with_context(|| format!("no kernel is named {name}"))
    };
    let set: Vec<usize> = KERNELS.iter().map(place).collect::<Result<_>>()?;
    let metrics = ["unfairness", "throughput"];
    let mut rows = Vec::new();
    for (policy, paper) in [("accelos", [5.79, 1.31]), ("elastic", [f64::NAN, 1.14])] {
        let mut gains = [Vec::new(), Vec::new()];
        for order in orders(&set) {
            let stock = one(world, &Contender::named("fifo"), &order)?;
            let made = one(world, &Contender::named(policy), &order)?;
            gains[0].push(stock.unfairness / made.unfairness);
            gains[1].push(stock.makespan / made.makespan);
        }
        for gains in &mut gains {
            gains.sort_by(f64::total_cmp);
        }
        let at = |of: fn(&[f64]) -> f64| [of(&gains[0]), of(&gains[1])];
        let none = [f64::NAN; 2];
        let name = |which: &str| format!("{policy} over fifo, {which} of 24 orders");
        let median = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        let least = |sorted: &[f64]| sorted.first().copied().unwrap_or(f64::NAN);
        let most = |sorted: &[f64]| sorted.last().copied().unwrap_or(f64::NAN);
        rows.push(Row::new(name("median"), metrics, paper, at(median)));
        rows.push(Row::new(name("least"), metrics, none, at(least)));
        rows.push(Row::new(name("most"), metrics, none, at(most)));
    }
    Ok(Figures {
        name: "bfs, cutcp, stencil and histogram together (Figure 2)".to_owned(),
        about: "How many times less unfair and faster than stock hardware; the paper has tpacf for histogram."
            .to_owned(),
        rows,
        notes: vec![Note {
            rows: &[],
            metrics: &[],
            why: "One set of kernels that are not the paper's, in sizes that are not the paper's, and the paper does \
                  not say in which order they came.",
        }],
    })
}

/// Returns every order of a set.
fn orders(set: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = set.split_first() else {
        return vec![Vec::new()];
    };
    let insert = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let (before, behind) = order.split_at(at);
            [before, &[*first], behind].concat()
        })
    };
    orders(rest).into_iter().flat_map(insert).collect()
}

#[cfg(test)]
mod tests {
    use super::orders;

    #[test]
    fn every_order_comes_once() {
        let mut all = orders(&[1, 2, 3, 4]);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24);
        assert!(all.iter().all(|order| order.iter().sum::<usize>() == 10));
    }
}
