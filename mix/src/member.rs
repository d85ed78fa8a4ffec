//! A member of a mix: a tenant with one program, and where its launches come from.

use crate::event::ErcKernel;
use crate::model::ModelSubmission;
use crate::play::Arrival;
use crate::recording::Recording;
use crate::replay::{self, Arrivals};
use gridmux_hw_model::{Gpu, QueueId};
use gridmux_policy::Class;
use gridmux_workloads::{Prng, Size, Workload};
use std::error::Error;
use std::fmt::Debug;

/// A kernel that a user brings.
pub trait UserKernel: Debug {
    /// Loads the kernel and the buffers of a launch into a GPU.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    fn load(
        &self,
        gpu: &mut Gpu,
        queue: QueueId,
    ) -> Result<ModelSubmission, Box<dyn Error + Send + Sync>>;

    /// Returns the name under which profiles of the kernel are kept where no kernel is loaded: equal only for equal
    /// code.
    fn known_as(&self) -> String;
}

/// Where launches come from.
#[derive(Debug)]
pub enum Source {
    /// A kernel of ours.
    Own {
        /// The kernel.
        workload: &'static Workload,
        /// What it works on.
        size: Size,
    },
    /// A kernel of which only shape and durations are known.
    ErcBench(ErcKernel),
    /// A kernel of the user's.
    User(Box<dyn UserKernel>),
    /// A recorded program.
    Recorded {
        /// Its launches.
        recording: Recording,
        /// When they arrive.
        arrivals: Arrivals,
    },
}

/// When the launches of a kernel after the first one arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Nanoseconds after the end of the launch before it.
    Closed(u64),
    /// Nanoseconds after the arrival of the launch before it.
    Open(u64),
    /// An exponentially distributed time after the arrival of the launch before it: Poisson arrivals.
    Poisson {
        /// The mean time, in nanoseconds.
        mean_ns: u64,
        /// What the times are drawn from.
        seed: u64,
    },
}

impl Pace {
    /// Returns when each of some launches arrives, the first one at `offset_ns`.
    fn arrivals(self, launches: u64, offset_ns: u64) -> Vec<Arrival> {
        let at = |after: u64| Arrival::At(offset_ns.saturating_add(after));
        let mut random = match self {
            Self::Poisson { seed, .. } => Prng::new(seed),
            Self::Closed(_) | Self::Open(_) => Prng::new(0),
        };
        let mut sum = 0.0;
        let arrival = |n: u64| match (n, self) {
            (0, _) => at(0),
            (_, Self::Closed(think)) => Arrival::After(think),
            (_, Self::Open(period)) => at(n.saturating_mul(period)),
            (_, Self::Poisson { mean_ns, .. }) => {
                sum += mean_ns as f64 * exponential(&mut random);
                at(whole(sum))
            }
        };
        (0..launches).map(arrival).collect()
    }
}

/// Draws a number of the exponential distribution of mean 1, by inversion.
fn exponential(random: &mut Prng) -> f64 {
    let unit = ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -unit.ln()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "times are not negative, and the conversion saturates"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

/// A member of a mix.
#[derive(Debug)]
pub struct Member {
    /// The tenant's name.
    pub name: String,
    /// The tenant's weight.
    pub weight: u32,
    /// The tenant's class.
    pub class: Class,
    /// Where its launches come from.
    pub source: Source,
    /// Launches of a kernel; a recorded program has its own.
    pub launches: u64,
    /// When they arrive.
    pub pace: Pace,
}

impl Member {
    /// Returns the recorded program, if it is one.
    #[must_use]
    pub fn recording(&self) -> Option<&Recording> {
        match &self.source {
            Source::Recorded { recording, .. } => Some(recording),
            _ => None,
        }
    }

    /// Returns how many streams it has.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.recording().map_or(1, |recording| recording.streams)
    }

    /// Returns the launches of each stream, if it begins at `offset_ns`: places among those of its recording, which are
    /// 0 for a kernel, and when they arrive.
    #[must_use]
    pub fn arrivals(&self, offset_ns: u64) -> Vec<Vec<(usize, Arrival)>> {
        if let Source::Recorded {
            recording,
            arrivals,
        } = &self.source
        {
            return replay::arrivals(recording, *arrivals, offset_ns);
        }
        let arrivals = self.pace.arrivals(self.launches, offset_ns).into_iter();
        vec![arrivals.map(|arrival| (0, arrival)).collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::play::Arrival;

    fn poisson(seed: u64, offset_ns: u64) -> Vec<u64> {
        let pace = Pace::Poisson {
            mean_ns: 1000,
            seed,
        };
        let arrivals = pace.arrivals(20_000, offset_ns).into_iter();
        let at = arrivals.map(|arrival| match arrival {
            Arrival::At(at) => at,
            Arrival::After(_) => panic!("an open loop waits for no end"),
        });
        at.collect()
    }

    #[test]
    fn poisson_arrivals_are_those_of_their_seed_and_have_their_mean() {
        let arrivals = poisson(1, 500);
        assert_eq!((arrivals[0], &arrivals), (500, &poisson(1, 500)));
        assert_ne!(arrivals, poisson(2, 500));
        let later = poisson(1, 700).into_iter().map(|at| at - 200);
        assert!(later.eq(arrivals.iter().copied()), "only later");
        let gaps: Vec<f64> = arrivals
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1000.0).abs() < 30.0, "{mean}");
        // Of an exponential distribution the part e^-1 exceeds the mean, and e^-2 twice the mean.
        for (times, due) in [(1.0, 0.368), (2.0, 0.135)] {
            let more = gaps.iter().filter(|gap| **gap > times * 1000.0).count();
            let part = more as f64 / gaps.len() as f64;
            assert!((part - due).abs() < 0.02, "{part} instead of {due}");
        }
    }

    #[test]
    fn launches_of_a_loop_follow_the_first() {
        let arrivals = |pace: Pace| pace.arrivals(3, 10);
        assert_eq!(
            arrivals(Pace::Open(5)),
            [10, 15, 20].map(Arrival::At).to_vec()
        );
        assert_eq!(
            arrivals(Pace::Closed(5)),
            [Arrival::At(10), Arrival::After(5), Arrival::After(5)]
        );
    }
}
