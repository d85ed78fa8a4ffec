//! Running recorded launches on plan mode, with a policy in charge.
//!
//! Rules: a launch is submitted when it arrives and the one before it in its stream has ended; a kernel is a stand-in
//! whose blocks stay as long as they did; streams beyond the hardware queues share them, as on stock hardware.

use super::read::{Recorded, Recording};
use crate::failure::Failure;
use clap::ValueEnum;
use gridmux_hw_model::launch::HARDWARE_QUEUES;
use gridmux_hw_model::{
    DriverOptions, Gpu, GpuConfig, Kernel, PolicyDriver, QueueId, StandIn, Submission, device_shape,
};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, Profiles, ShareReading};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Memory for what the stand-ins' module takes.
const DOMAIN_BYTES: u64 = 1 << 30;
/// No run lasts until this cycle.
const NEVER: Cycles = Cycles(u64::MAX / 4);

/// When launches arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arrivals {
    /// At the times of their submissions
    Recorded,
    /// As long after the end of the one before in their stream as they were submitted after it
    Closed,
}

/// What the replays of a command have in common.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) config: &'a GpuConfig,
    pub(super) policy: &'a str,
    pub(super) arrivals: Arrivals,
    /// Threads that run the model.
    pub(super) threads: u16,
}

/// A tenant that takes part.
#[derive(Debug)]
pub(super) struct Party<'a> {
    pub(super) name: &'a str,
    pub(super) weight: u32,
    pub(super) class: Class,
    pub(super) recording: &'a Recording,
}

/// What became of a tenant's launches. Times are in nanoseconds of the modelled device.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// From arrival to end, of each launch.
    pub(super) turnaround_ns: Vec<u64>,
    /// From the first arrival to the last end.
    pub(super) span_ns: u64,
    /// What its blocks held, and what it was entitled to.
    pub(super) reading: ShareReading,
}

/// A launch that was submitted, by the number that the driver gave it.
#[derive(Debug, Clone, Copy)]
struct Sent {
    tenant: usize,
    stream: usize,
    arrival_ns: u64,
}

/// A run under way.
struct Replay<'a> {
    driver: PolicyDriver,
    arrivals: Arrivals,
    parties: &'a [Party<'a>],
    kernels: HashMap<(usize, &'a StandIn), Arc<Kernel>>,
    /// For each tenant and stream its launches, and how many of them were submitted.
    streams: Vec<Vec<(Vec<&'a Recorded>, usize)>>,
    sent: Vec<Sent>,
    played: Vec<Played>,
}

/// Runs all parties together.
pub(super) fn run(setting: &Setting<'_>, parties: &[Party<'_>]) -> Result<Vec<Played>, Failure> {
    let mut gpu = Gpu::new(setting.config.clone());
    gpu.set_threads(setting.threads.into());
    let domain = gpu.memory_mut().create_domain(DOMAIN_BYTES)?;
    let mut kernels = HashMap::new();
    for (tenant, party) in parties.iter().enumerate() {
        for launch in &party.recording.launches {
            if let Entry::Vacant(place) = kernels.entry((tenant, &launch.kernel)) {
                place.insert(launch.kernel.load(&mut gpu, domain)?);
            }
        }
    }
    let device = DeviceId(0);
    let profiles = Profiles::default();
    let shape = device_shape(setting.config);
    let policy = gridmux_policy::by_name(setting.policy, device, &shape, &profiles)?;
    let mut driver = PolicyDriver::new(gpu, policy, device, DriverOptions::default());
    driver.learn(&profiles);
    for (tenant, party) in (0..).zip(parties) {
        driver.tenant(TenantId(tenant), party.weight, party.class);
    }
    let mut replay = Replay {
        driver,
        arrivals: setting.arrivals,
        parties,
        kernels,
        streams: parties
            .iter()
            .map(|party| streams(party.recording))
            .collect(),
        sent: Vec::new(),
        played: parties.iter().map(|_| Played::default()).collect(),
    };
    replay.finish()?;
    Ok(replay.played)
}

/// Returns the launches of each stream, none of them submitted.
fn streams(recording: &Recording) -> Vec<(Vec<&Recorded>, usize)> {
    let mut streams = vec![(Vec::new(), 0); recording.streams];
    for launch in &recording.launches {
        streams[launch.stream].0.push(launch);
    }
    streams
}

impl Replay<'_> {
    fn finish(&mut self) -> Result<(), Failure> {
        for tenant in 0..self.streams.len() {
            for stream in 0..self.streams[tenant].len() {
                self.submit(tenant, stream, 0)?;
            }
        }
        let mut open = self.sent.len();
        while open > 0 {
            let ended = self.driver.run_to_an_end(NEVER);
            if ended.is_empty() {
                return Err(Failure::new(
                    "launches of the trace do not end on the model",
                ));
            }
            for number in ended {
                open -= 1;
                let (sent, end_ns) = self.note(number)?;
                open += usize::from(self.submit(sent.tenant, sent.stream, end_ns)?);
            }
        }
        for (tenant, played) in (0..).zip(&mut self.played) {
            played.reading = self.driver.reading(TenantId(tenant));
        }
        Ok(())
    }

    /// Submits the next launch of a stream, if there is one; the one before ended at `before_ns`.
    fn submit(&mut self, tenant: usize, stream: usize, before_ns: u64) -> Result<bool, Failure> {
        let (launches, next) = &mut self.streams[tenant][stream];
        let Some(launch) = launches.get(*next).copied() else {
            return Ok(false);
        };
        let arrival_ns = match (
            self.arrivals,
            next.checked_sub(1).map(|last| launches[last]),
        ) {
            (Arrivals::Recorded, _) | (_, None) => launch.submit_ns,
            (Arrivals::Closed, Some(last)) => {
                before_ns + launch.submit_ns.saturating_sub(last.end_ns)
            }
        };
        *next += 1;
        let before: usize = self.parties[..tenant]
            .iter()
            .map(|party| party.recording.streams)
            .sum();
        let queue = u8::try_from((before + stream) % HARDWARE_QUEUES)?;
        let submission = Submission {
            queue: QueueId(queue),
            kernel: Arc::clone(&self.kernels[&(tenant, &launch.kernel)]),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.shared_bytes,
            params: StandIn::params(launch.stay_ns),
            budget: None,
        };
        let at = self
            .driver
            .engine()
            .config()
            .ns_to_cycles(arrival_ns.max(before_ns));
        let id = TenantId(u32::try_from(tenant)?);
        self.driver
            .submit(id, submission, Cycles(at))
            .map_err(|error| {
                let name = self.parties[tenant].name;
                Failure::new(format!("{name}: {}: {error}", launch.kernel.name)).hint(
                    "replay on a GPU that is at least as large as the recorded one, with --gpu",
                )
            })?;
        self.sent.push(Sent {
            tenant,
            stream,
            arrival_ns,
        });
        Ok(true)
    }

    /// Takes note of an end; returns what ended, and when in nanoseconds.
    fn note(&mut self, number: u64) -> Result<(Sent, u64), Failure> {
        let sent = self.sent[usize::try_from(number)?];
        let outcome = self.driver.outcome(number);
        if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
            return Err(Failure::new(format!("a stand-in failed: {error}")));
        }
        let end = outcome.and_then(|outcome| outcome.end).unwrap_or_default();
        let end_ns = self.driver.engine().config().cycles_to_ns(end.0);
        let played = &mut self.played[sent.tenant];
        played
            .turnaround_ns
            .push(end_ns.saturating_sub(sent.arrival_ns));
        played.span_ns = played.span_ns.max(end_ns);
        Ok((sent, end_ns))
    }
}
