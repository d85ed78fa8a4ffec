//! Recorded launches as launches of the model: each kernel is a stand-in whose blocks stay as long as they did.
//!
//! Rules: a launch never starts before the one before it in its stream has ended; streams beyond the hardware queues
//! share them, as on stock hardware.

use crate::error::MixError;
use crate::model::ModelSubmission;
use crate::play::{Arrival, Planned};
use crate::recording::{Recorded, Recording};
use gridmux_hw_model::launch::HARDWARE_QUEUES;
use gridmux_hw_model::{DomainId, Gpu, Kernel, QueueId, StandIn};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

/// Memory for what the stand-ins' module takes.
const DOMAIN_BYTES: u64 = 1 << 30;

/// When launches arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At the times of their submissions.
    Recorded,
    /// As long after the end of the one before in their stream as they were submitted after it.
    Closed,
}

/// Returns the hardware queue of a stream, by its number among the streams of all programs.
pub fn queue(stream: usize) -> QueueId {
    QueueId(u8::try_from(stream % HARDWARE_QUEUES).unwrap_or(0))
}

/// Returns the launches of each stream as places in the recording, and when they arrive if the recording begins at
/// `offset_ns`.
pub fn arrivals(
    recording: &Recording,
    arrivals: Arrivals,
    offset_ns: u64,
) -> Vec<Vec<(usize, Arrival)>> {
    let mut streams: Vec<Vec<(usize, Arrival)>> = vec![Vec::new(); recording.streams];
    for (place, launch) in recording.launches.iter().enumerate() {
        let stream = &mut streams[launch.stream];
        let before = stream.last().map(|(place, _)| &recording.launches[*place]);
        let arrival = match (arrivals, before) {
            (Arrivals::Recorded, _) | (_, None) => {
                Arrival::At(launch.submit_ns.saturating_add(offset_ns))
            }
            (Arrivals::Closed, Some(last)) => {
                Arrival::After(launch.submit_ns.saturating_sub(last.end_ns))
            }
        };
        stream.push((place, arrival));
    }
    streams
}

/// Stand-ins of the kernels of one recording, loaded into a GPU.
#[derive(Debug)]
pub struct StandIns<'a> {
    kernels: HashMap<&'a StandIn, Arc<Kernel>>,
}

impl<'a> StandIns<'a> {
    /// Loads a stand-in for each kernel, in a domain of their own.
    ///
    /// # Errors
    /// The device cannot run one, or has no memory left.
    pub fn load(gpu: &mut Gpu, recording: &'a Recording) -> Result<Self, MixError> {
        let domain: DomainId = gpu.memory_mut().create_domain(DOMAIN_BYTES)?;
        let mut kernels = HashMap::new();
        for launch in &recording.launches {
            if let Entry::Vacant(place) = kernels.entry(&launch.kernel) {
                place.insert(launch.kernel.load(gpu, domain)?);
            }
        }
        Ok(Self { kernels })
    }

    /// Returns a launch of the recording.
    pub fn submission(&self, launch: &Recorded, queue: QueueId) -> ModelSubmission {
        ModelSubmission {
            queue,
            kernel: Arc::clone(&self.kernels[&launch.kernel]),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.shared_bytes,
            params: StandIn::params(launch.stay_ns),
            budget: None,
        }
    }

    /// Returns the launches of each stream; the recording's first stream has that number among the streams of all
    /// programs.
    pub fn streams(
        &self,
        recording: &Recording,
        (when, offset_ns): (Arrivals, u64),
        first_stream: usize,
    ) -> Vec<Vec<Planned<ModelSubmission>>> {
        let streams = arrivals(recording, when, offset_ns).into_iter();
        let planned = |(number, stream): (usize, Vec<(usize, Arrival)>)| {
            let launches = stream.into_iter().map(|(place, arrival)| {
                let launch = &recording.launches[place];
                Planned {
                    submission: Rc::new(self.submission(launch, queue(number))),
                    arrival,
                }
            });
            launches.collect()
        };
        (first_stream..).zip(streams).map(planned).collect()
    }
}
