//! Schedules of many launches, with the speeds that pairs were measured to have (section 5.4).
//!
//! Launches arrive at random; a scheduler says which two of those that wait run together, or which one alone, whenever
//! one of those that run has ended. Each takes one unit of time alone, whichever kernel it is of; together each is as
//! fast as its instructions a cycle over those alone.
//!
//! Rules: a schedule is a function of the arrivals and the scheduler; what runs keeps its part until one of both ends
//! (Algorithm 1, line 8), but one that runs alone is asked about again at the next arrival.

use gridmux_workloads::Prng;
use std::collections::VecDeque;

/// Who runs: a kernel alone, or two with their speeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Runs {
    /// One kernel.
    Alone(usize),
    /// Two kernels and the speed of each, in parts of that alone.
    Together([(usize, f64); 2]),
}

/// Launches that wait, the oldest of a kernel first.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// By kernel: arrival and what is left of each launch.
    launches: Vec<VecDeque<(f64, f64)>>,
}

impl Waiting {
    /// Returns the kernels of which launches wait.
    pub(super) fn kernels(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |at: &usize| !self.launches[*at].is_empty();
        (0..self.launches.len()).filter(waits)
    }

    /// Returns these kernels in order of the arrival of their oldest launches.
    pub(super) fn by_arrival(&self) -> Vec<usize> {
        let mut kernels: Vec<usize> = self.kernels().collect();
        let arrival = |at: &usize| self.launches[*at].front().map_or(f64::MAX, |of| of.0);
        kernels.sort_by(|one, other| arrival(one).total_cmp(&arrival(other)));
        kernels
    }

    /// Lets the oldest launches of kernels run for a time; those that end leave.
    fn run(&mut self, rates: &[(usize, f64)], time: f64) {
        for (kernel, speed) in rates {
            let own = &mut self.launches[*kernel];
            if let Some((_, left)) = own.front_mut() {
                *left -= speed * time;
                if *left <= 1e-9 {
                    own.pop_front();
                }
            }
        }
    }

    fn left(&self, kernel: usize) -> f64 {
        self.launches[kernel]
            .front()
            .map_or(f64::INFINITY, |of| of.1)
    }
}

/// Launches of a mix with their arrivals.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// Time and kernel, in order.
    launches: Vec<(f64, usize)>,
    kernels: usize,
}

impl Arrivals {
    /// Returns arrivals of so many launches of each of some kernels, out of `kernels`: for each kernel a Poisson
    /// process of one launch in `every` units of time.
    pub(super) fn poisson(kernels: usize, of: &[usize], each: u32, every: f64, seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let mut launches = Vec::new();
        for kernel in of {
            let mut now = 0.0;
            for _ in 0..each {
                // An exponential interval, from a number above 0 and at most 1.
                let uniform = 1.0 - f64::from(prng.next_u32()) / (f64::from(u32::MAX) + 1.0);
                now -= every * uniform.ln();
                launches.push((now, *kernel));
            }
        }
        launches.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { launches, kernels }
    }

    /// Returns when the last launch has ended under a scheduler.
    pub(super) fn replay(&self, mut schedule: impl FnMut(&Waiting) -> Runs) -> f64 {
        let mut waiting = Waiting {
            launches: vec![VecDeque::new(); self.kernels],
        };
        let (mut now, mut next) = (0.0_f64, 0);
        loop {
            while let Some((at, kernel)) = self.launches.get(next).filter(|of| of.0 <= now) {
                waiting.launches[*kernel].push_back((*at, 1.0));
                next += 1;
            }
            let arrival = self.launches.get(next).map(|of| of.0);
            if waiting.kernels().next().is_none() {
                match arrival {
                    Some(at) => now = at,
                    None => return now,
                }
                continue;
            }
            let (time, rates) = match schedule(&waiting) {
                Runs::Alone(kernel) => {
                    let until_arrival = arrival.map_or(f64::INFINITY, |at| at - now);
                    let time = waiting.left(kernel).min(until_arrival);
                    (time, [(kernel, 1.0), (kernel, 0.0)])
                }
                Runs::Together(rates) => {
                    let ends = rates.map(|(kernel, speed)| waiting.left(kernel) / speed.max(1e-9));
                    (ends[0].min(ends[1]), rates)
                }
            };
            waiting.run(&rates[..1], time);
            waiting.run(&rates[1..], time);
            now += time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Runs};

    #[test]
    fn one_after_another_takes_the_sum_and_together_less() {
        let arrivals = Arrivals::poisson(2, &[0, 1], 100, 0.1, 1);
        let first = |waiting: &super::Waiting| waiting.by_arrival()[0];
        let serial = arrivals.replay(|waiting| Runs::Alone(first(waiting)));
        assert!((serial - 200.0).abs() < 1.0, "{serial}");
        let pairs = arrivals.replay(|waiting| match waiting.kernels().count() {
            2 => Runs::Together([(0, 0.75), (1, 0.75)]),
            _ => Runs::Alone(first(waiting)),
        });
        assert!(
            (pairs / serial - 2.0 / 3.0).abs() < 0.05,
            "{pairs} of {serial}"
        );
    }

    #[test]
    fn an_idle_device_waits_for_the_next_arrival() {
        let arrivals = Arrivals::poisson(1, &[0], 50, 100.0, 1);
        let end = arrivals.replay(|_| Runs::Alone(0));
        assert!(end > 2_000.0, "{end}");
        assert_eq!(arrivals.launches.len(), 50);
        assert!(arrivals.launches.is_sorted());
    }

    #[test]
    fn what_is_slow_together_goes_on_alone() {
        let arrivals = Arrivals::poisson(2, &[0, 1], 1, 1e-6, 1);
        // The first ends after 1; the other one has a tenth then and needs 0.9 more.
        let end = arrivals.replay(|waiting| match waiting.kernels().count() {
            2 => Runs::Together([(0, 1.0), (1, 0.1)]),
            _ => Runs::Alone(waiting.by_arrival()[0]),
        });
        assert!((end - 1.9).abs() < 1e-3, "{end}");
    }
}
