//! A member of a mix: a tenant with one program, and where its launches come from.

use crate::event::ErcKernel;
use crate::model::ModelSubmission;
use crate::play::Arrival;
use crate::recording::Recording;
use crate::replay::{self, Arrivals};
use gridmux_hw_model::{Gpu, QueueId};
use gridmux_policy::Class;
use gridmux_workloads::{Size, Workload};
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
        let arrival = |n: u64| match (n, self.pace) {
            (0, _) => Arrival::At(offset_ns),
            (_, Pace::Closed(think)) => Arrival::After(think),
            (_, Pace::Open(period)) => {
                Arrival::At(offset_ns.saturating_add(n.saturating_mul(period)))
            }
        };
        vec![(0..self.launches).map(|n| (0, arrival(n))).collect()]
    }
}
