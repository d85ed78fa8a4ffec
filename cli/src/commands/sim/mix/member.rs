//! A workload of a mix, with what was read of it.

use super::spec::{Pace, Source, Spec};
use crate::commands::sim::play::Arrival;
use crate::commands::sim::recording::{self, Recording};
use crate::commands::sim::replay;
use crate::failure::Failure;

/// A workload that takes part.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) spec: Spec,
    /// The launches of a trace.
    pub(super) recording: Option<Recording>,
}

impl Member {
    /// Reads the trace of a workload that is one.
    pub(super) fn read(spec: Spec) -> Result<Self, Failure> {
        let recording = match &spec.source {
            Source::Trace { file, .. } => {
                let recording = recording::file(file)?;
                if recording.launches.is_empty() {
                    let message = format!(
                        "{} holds no launch that ended in good order",
                        file.display()
                    );
                    return Err(
                        Failure::new(message).hint("record a program that launches kernels")
                    );
                }
                Some(recording)
            }
            _ => None,
        };
        Ok(Self { spec, recording })
    }

    /// Returns how many streams it has.
    pub(super) fn streams(&self) -> usize {
        self.recording
            .as_ref()
            .map_or(1, |recording| recording.streams)
    }

    /// Returns the launches of each stream, if it begins at `offset_ns`: places among those of its trace, which are 0
    /// for a kernel, and when they arrive.
    pub(super) fn arrivals(&self, offset_ns: u64) -> Vec<Vec<(usize, Arrival)>> {
        if let (Source::Trace { arrivals, .. }, Some(recording)) =
            (&self.spec.source, &self.recording)
        {
            return replay::arrivals(recording, *arrivals, offset_ns);
        }
        let arrival = |n: u64| match (n, self.spec.pace) {
            (0, _) => Arrival::At(offset_ns),
            (_, Pace::Closed(think)) => Arrival::After(think),
            (_, Pace::Open(period)) => {
                Arrival::At(offset_ns.saturating_add(n.saturating_mul(period)))
            }
        };
        vec![(0..self.spec.launches).map(|n| (0, arrival(n))).collect()]
    }
}
