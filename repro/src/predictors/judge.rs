//! Predictors fed with traces, and their predictions over what came.
//!
//! Rule: on an SM the truth is for how many cycles blocks of the kernel were resident there, on the device the time
//! from the kernel's first start to its end.

use crate::measure::mean_and_deviation;
use crate::model::{Ran, Traced};
use gridmux_policy::SmId;
use gridmux_policy::predict::{PerSm, Slicing, simple_slicing, staircase};
use gridmux_policy::units::Cycles;

/// Predictions over runtimes of a kernel that ran alone.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    /// Relative standard deviation of its blocks' durations in percent.
    pub(super) deviation: f64,
    /// Blocks over resident blocks.
    pub(super) waves: f64,
    /// Equation 2 on each SM after its first block.
    pub(super) slicing: Vec<f64>,
    /// Equation 2 over the device, after one block on each SM, with their mean duration.
    pub(super) pooled: f64,
    /// Equation 1 on each SM after its first block.
    pub(super) staircase: Vec<f64>,
    /// The last value of a line through the ends of all blocks of an SM.
    pub(super) regression: Vec<f64>,
    /// The same with the first 2R blocks alone.
    pub(super) early: Vec<f64>,
}

/// Errors of the predictions for a kernel on an SM, beside another kernel: logarithms of prediction over runtime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corun {
    /// Of the first prediction of the last slice in which one was made.
    pub(super) aware: f64,
    /// Of the only prediction.
    pub(super) unaware: f64,
}

/// Returns the least and the greatest of some values.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), x| {
            (least.min(*x), most.max(*x))
        })
}

impl Alone {
    pub(super) fn of(ran: &Ran) -> Self {
        let launch = &ran.launches[0];
        let told = predictions(ran, Slicing::Unaware);
        let sms = || (0..ran.sms).map(usize::from);
        let per_sm = launch.blocks.div_ceil(ran.sms.into());
        let firsts: Vec<Option<u64>> = sms()
            .map(|sm| ends(ran, sm).first().map(|(_, ran)| *ran))
            .collect();
        let durations: Vec<f64> = ran
            .blocks
            .iter()
            .filter_map(|(.., ran)| ran.map(|ran| ran as f64))
            .collect();
        let truth = |sm: usize| told.active[0][sm];
        let slicing = sms().filter_map(|sm| Some(told.first[0][sm]? / truth(sm)));
        let stairs = sms().filter_map(|sm| {
            let t = firsts[sm]? as f64;
            Some(staircase(per_sm, launch.resident.into(), t) / truth(sm))
        });
        let lines = |most: usize| {
            let line = move |sm: usize| {
                let ends = ends(ran, sm);
                let at: Vec<f64> = ends
                    .iter()
                    .take(most)
                    .map(|(at, _)| (at - launch.start) as f64)
                    .collect();
                let predicted = line_at(&at, ends.len())?;
                Some(predicted / truth(sm))
            };
            sms().filter_map(line).collect::<Vec<f64>>()
        };
        let resident = usize::from(launch.resident);
        Self {
            deviation: mean_and_deviation(&durations).1,
            waves: launch.blocks as f64 / (f64::from(launch.resident) * f64::from(ran.sms)),
            slicing: slicing.collect(),
            pooled: pooled(ran, launch) / (launch.end - launch.start) as f64,
            staircase: stairs.collect(),
            regression: lines(usize::MAX),
            early: lines(2 * resident),
        }
    }
}

/// Returns equation 2 over the device when every SM that ends blocks has ended one.
fn pooled(ran: &Ran, launch: &Traced) -> f64 {
    let firsts = (0..ran.sms).filter_map(|sm| ends(ran, sm.into()).first().copied());
    let firsts: Vec<(u64, u64)> = firsts.collect();
    let now = firsts
        .iter()
        .map(|(at, _)| *at)
        .max()
        .unwrap_or(launch.start);
    // What had ended by then is what a policy knows.
    let known: Vec<f64> = ended_by(ran, now).map(|ran| ran as f64).collect();
    let (t, _) = mean_and_deviation(&known);
    let resident = u64::from(launch.resident) * u64::from(ran.sms);
    let left = launch.blocks.saturating_sub(known.len() as u64);
    simple_slicing((now - launch.start) as f64, left, resident, t)
}

fn ended_by(ran: &Ran, now: u64) -> impl Iterator<Item = u64> + '_ {
    let by_then = ran.blocks.iter().filter(move |(at, ..)| *at <= now);
    by_then.filter_map(|(.., ran)| *ran)
}

/// Returns the ends of blocks on an SM with their durations, in order.
fn ends(ran: &Ran, sm: usize) -> Vec<(u64, u64)> {
    let own = ran
        .blocks
        .iter()
        .filter(|(_, on, ..)| usize::from(*on) == sm);
    own.filter_map(|(at, _, _, ran)| Some((*at, (*ran)?)))
        .collect()
}

/// Returns the value at `n` of the line that fits values at 1, 2, … with the least squares; none for fewer than two.
fn line_at(values: &[f64], n: usize) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean_x = f64::midpoint(count, 1.0);
    let mean_y = values.iter().sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (at, y) in (1_u32..).map(f64::from).zip(values) {
        xy += (at - mean_x) * (y - mean_y);
        xx += (at - mean_x).powi(2);
    }
    Some(mean_y + xy / xx * (n as f64 - mean_x))
}

/// What was predicted of each launch on each SM, and for how long it was active there.
struct Predictions {
    first: Vec<Vec<Option<f64>>>,
    last: Vec<Vec<Option<f64>>>,
    active: Vec<Vec<f64>>,
}

/// Feeds a predictor with a trace: arrivals, starts and ends of blocks, ends of launches.
fn predictions(ran: &Ran, slicing: Slicing) -> Predictions {
    let mut predictor = PerSm::new(ran.sms, slicing);
    let none = || vec![vec![None; ran.sms.into()]; ran.launches.len()];
    let (mut first, mut last): (Vec<Vec<Option<f64>>>, _) = (none(), none());
    let mut arrives: Vec<bool> = vec![false; ran.launches.len()];
    let mut ended = arrives.clone();
    for (at, sm, launch, ran_for) in &ran.blocks {
        for (number, launch) in (0..).zip(&ran.launches) {
            let place = usize::try_from(number).unwrap_or(0);
            if launch.arrival <= *at
                && !std::mem::replace(&mut arrives[place], launch.arrival <= *at)
            {
                predictor.launch(number, launch.blocks, launch.resident.into());
            }
            if launch.end < *at && !std::mem::replace(&mut ended[place], launch.end < *at) {
                predictor.end();
            }
        }
        let (place, sm_id) = (*launch as usize, SmId(*sm));
        match ran_for {
            None => predictor.block_start(u64::from(*launch), sm_id, Cycles(*at)),
            Some(ran_for) => {
                let told =
                    predictor.block_end(u64::from(*launch), sm_id, Cycles(*ran_for), Cycles(*at));
                if let Some(told) = told {
                    first[place][usize::from(*sm)].get_or_insert(told);
                    last[place][usize::from(*sm)] = Some(told);
                }
            }
        }
    }
    let active = |launch: usize| {
        let on = |sm: u16| predictor.active(launch as u64, SmId(sm)).0.max(1) as f64;
        (0..ran.sms).map(on).collect()
    };
    Predictions {
        first,
        last,
        active: (0..ran.launches.len()).map(active).collect(),
    }
}

impl Corun {
    /// Returns the errors for every kernel of a mix on every SM, where slices made a difference: the predictor was
    /// asked again.
    pub(super) fn of(ran: &Ran) -> Vec<Self> {
        let [aware, unaware] =
            [Slicing::Aware, Slicing::Unaware].map(|slicing| predictions(ran, slicing));
        let mut all = Vec::new();
        for launch in 0..ran.launches.len() {
            for sm in 0..usize::from(ran.sms) {
                let (Some(last), Some(first)) = (aware.last[launch][sm], aware.first[launch][sm])
                else {
                    continue;
                };
                let Some(only) =
                    unaware.first[launch][sm].filter(|_| (last - first).abs() > f64::EPSILON)
                else {
                    continue;
                };
                let truth = aware.active[launch][sm];
                all.push(Self {
                    aware: (last / truth).ln(),
                    unaware: (only / truth).ln(),
                });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Alone, Corun, line_at};
    use crate::model::{Ran, Traced};
    use gridmux_policy::BlockShape;

    fn launch(blocks: u64, arrival: u64, end: u64) -> Traced {
        Traced {
            kernel: "any".to_owned(),
            block: BlockShape::default(),
            blocks,
            resident: 1,
            arrival,
            start: arrival,
            end,
        }
    }

    /// Returns the blocks one after another on one SM, of launch 0.
    fn blocks(durations: &[u64], from: u64) -> Vec<(u64, u16, u32, Option<u64>)> {
        let mut now = from;
        let mut all = Vec::new();
        for ran in durations {
            all.push((now, 0, 0, None));
            now += ran;
            all.push((now, 0, 0, Some(*ran)));
        }
        all
    }

    #[test]
    fn even_blocks_are_predicted_to_the_cycle() {
        let ran = Ran {
            sms: 1,
            launches: vec![launch(10, 0, 1000)],
            blocks: blocks(&[100; 10], 0),
        };
        let alone = Alone::of(&ran);
        assert_eq!((alone.slicing, alone.staircase), (vec![1.0], vec![1.0]));
        assert!((alone.pooled - 1.0).abs() < 1e-9 && alone.deviation < 1e-9);
        assert!((alone.regression[0] - 1.0).abs() < 1e-9 && (alone.early[0] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn slices_see_what_changed() {
        // Another kernel arrives after half of the blocks, which take twice as long from then on.
        let mut all = blocks(&[100; 5], 0);
        all.extend(blocks(&[200; 5], 500));
        let ran = Ran {
            sms: 1,
            launches: vec![launch(10, 0, 1500), launch(1, 501, 9000)],
            blocks: all,
        };
        let corun = Corun::of(&ran);
        assert_eq!(corun.len(), 1, "{corun:?}");
        assert!(corun[0].aware.abs() < 1e-9, "{corun:?}");
        assert!(
            (corun[0].unaware - (1000.0_f64 / 1500.0).ln()).abs() < 1e-9,
            "{corun:?}"
        );
    }

    #[test]
    fn a_line_through_points_of_a_line() {
        let close =
            |value: Option<f64>, wanted: f64| value.is_some_and(|x| (x - wanted).abs() < 1e-9);
        assert!(close(line_at(&[3.0, 5.0, 7.0], 10), 21.0));
        assert_eq!(line_at(&[3.0], 10), None);
    }
}
