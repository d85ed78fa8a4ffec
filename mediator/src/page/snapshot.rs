//! The contents of a page: the counters of each tenant, by name, and its kernels ([`super::kernels`]).
//!
//! Rules: a snapshot that was read says only what a device host says, so that [`Snapshot::settle`] takes out of it what
//! no host can mean before anybody uses it. Tenants are known by name, because their numbers change with the
//! configuration.

use super::kernels::KernelsSnapshot;
use crate::device::{DeviceFacts, Timing};
use crate::dispatch::accounting::{TenantCounters, TenantUsage};
use crate::dispatch::samples::LatencyHistogram;
use crate::dispatch::why::Binding;
use crate::link::ClientFacts;
use gridmux_bpf::histogram::Histogram;
use gridmux_bpf::layout::BUCKETS;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most characters of a text that a host says.
const TEXT_CHARACTERS: usize = 1000;

/// A reading of a device host, as its page holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken, in nanoseconds of the machine's monotonic clock.
    pub at_ns: u64,
    /// The device.
    pub device: DeviceSnapshot,
    /// Which policy decides.
    pub policy: PolicySnapshot,
    /// Device time, nanoseconds.
    pub device_now_ns: u64,
    /// How often a client held the virtual clock for the longest wall time permitted.
    pub holds_expired: u64,
    /// Tenants that the host knows.
    pub tenants: Vec<TenantSnapshot>,
    /// The last reading of the tenants' kernels.
    pub kernels: KernelsSnapshot,
}

/// What is shown of a device also where only the page tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSnapshot {
    /// Its name; empty before a host has said it.
    pub name: String,
    /// How a modelled device treats time.
    pub timing: Option<Timing>,
    /// Streaming multiprocessors.
    pub sms: u16,
    /// Core clock.
    pub clock_khz: u32,
    /// Memory that tenants may share.
    pub memory_bytes: u64,
}

impl DeviceSnapshot {
    /// Takes what is shown of a device.
    #[must_use]
    pub fn of(facts: &DeviceFacts) -> Self {
        Self {
            name: facts.name.clone(),
            timing: facts.timing,
            sms: facts.sms,
            clock_khz: facts.clock_khz,
            memory_bytes: facts.memory_bytes,
        }
    }
}

/// Which policy decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySnapshot {
    /// Its name; empty before a host has said it.
    pub name: String,
    /// Time from which on it decides, in nanoseconds of the machine's monotonic clock.
    pub since_ns: u64,
    /// How the one that was chosen failed, if it did and this one took its place.
    pub failure: Option<String>,
}

/// A reading of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantSnapshot {
    /// Name.
    pub name: String,
    /// Its clients: those connected, and those that left and still hold something.
    pub clients: Vec<ClientFacts>,
    /// Device memory that its clients hold.
    pub memory_used_bytes: u64,
    /// Share by weight: its weight over the sum of the weights of all tenants that have clients, its own included.
    pub share_by_weight: f64,
    /// Counters, since the service started.
    pub usage: TenantUsage,
    /// Launch latencies, since the service started.
    pub start: Buckets,
    /// Completion latencies, since the service started.
    pub complete: Buckets,
    /// Preemption latencies, since the service started.
    pub preemption: Buckets,
}

/// The counts of a histogram: those that are not 0, each with the number of its bucket, in ascending order; and the
/// least and the greatest value in it, the greatest number and 0 while it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets(pub Vec<(u16, u64)>, pub (u64, u64));

impl Default for Buckets {
    fn default() -> Self {
        Self(Vec::new(), (u64::MAX, 0))
    }
}

impl Buckets {
    /// Takes a reading of a histogram.
    #[must_use]
    pub fn of(histogram: &LatencyHistogram) -> Self {
        let numbered = (0..).zip(histogram.counts());
        let counts = numbered.filter(|(_, count)| *count > 0);
        Self(counts.collect(), histogram.range_ns())
    }

    /// Returns the counts of all buckets, in order; 0 for those that do not stand there.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; BUCKETS];
        for (number, count) in &self.0 {
            if let Some(place) = counts.get_mut(usize::from(*number)) {
                *place = *count;
            }
        }
        counts
    }

    /// Returns the histogram.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        Histogram::from_counts(self.counts(), self.1)
    }

    /// Returns a histogram that goes on from these counts.
    fn going_on(&self) -> LatencyHistogram {
        LatencyHistogram::of(&self.counts(), self.1)
    }
}

impl TenantSnapshot {
    /// Returns counters that go on from these.
    #[must_use]
    pub fn counters(&self) -> TenantCounters {
        TenantCounters::going_on(
            &self.usage,
            [&self.start, &self.complete, &self.preemption].map(Buckets::going_on),
        )
    }

    /// Ends what was under way when the host ended: nobody is connected, holds anything, or waits.
    fn end(&mut self) {
        self.clients.clear();
        self.memory_used_bytes = 0;
        self.usage.abandoned = self.usage.abandoned.saturating_add(self.usage.pending);
        self.usage.pending = 0;
        self.usage.budget_ends = 0;
        self.usage.is_behind = false;
        self.usage.is_waiting = false;
        self.usage.slowdown = None;
        self.usage.binding = Binding::default();
    }

    fn settle(&mut self, clients: &mut usize) {
        self.clients.truncate(*clients);
        *clients -= self.clients.len();
        for client in &mut self.clients {
            client.name = plain(&client.name);
        }
        let usage = &mut self.usage;
        for number in [
            &mut self.share_by_weight,
            &mut usage.held_sm_ns,
            &mut usage.entitled_sm_ns,
            &mut usage.all_held_sm_ns,
        ] {
            *number = sound(*number);
        }
        usage.share_got = usage.share_got.map(sound);
        usage.share_entitled = usage.share_entitled.map(sound);
        usage.slowdown = usage.slowdown.map(sound);
        // A sum over a histogram stays a number of 64 bits.
        for buckets in [&mut self.start, &mut self.complete, &mut self.preemption] {
            buckets.0.truncate(BUCKETS);
            for (_, count) in &mut buckets.0 {
                *count = (*count).min(u64::MAX / BUCKETS as u64);
            }
        }
    }
}

impl Snapshot {
    /// Returns the tenant of a name.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<&TenantSnapshot> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }

    /// Takes out what no host can mean: numbers that are none, control characters, and more than `tenants` tenants or
    /// `clients` clients.
    #[must_use]
    pub fn settle(mut self, tenants: usize, mut clients: usize) -> Self {
        self.device.name = plain(&self.device.name);
        self.policy.name = plain(&self.policy.name);
        self.policy.failure = self.policy.failure.as_deref().map(plain);
        self.tenants.truncate(tenants);
        for tenant in &mut self.tenants {
            tenant.name = plain(&tenant.name);
            tenant.settle(&mut clients);
        }
        self.kernels.settle();
        self
    }

    /// Returns what is left of it when its host has ended: what was counted.
    #[must_use]
    pub fn end(mut self) -> Self {
        self.policy = PolicySnapshot::default();
        self.kernels = KernelsSnapshot::default();
        for tenant in &mut self.tenants {
            tenant.end();
        }
        self
    }

    /// Returns how long ago it was taken.
    #[must_use]
    pub fn age(&self) -> Duration {
        age_of(self.at_ns)
    }
}

impl TenantSnapshot {
    /// Returns for how long it has been bound by what binds it, if a host has said it.
    #[must_use]
    pub fn bound_for(&self) -> Option<Duration> {
        let since_ns = self.usage.binding.since_ns;
        (since_ns > 0).then(|| age_of(since_ns))
    }
}

/// Returns the time of the machine's monotonic clock, which all processes share.
pub(crate) fn monotonic_ns() -> u64 {
    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
    let now = nix::time::clock_gettime(clock).map(Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns how long ago a time of the machine's monotonic clock was.
pub(crate) fn age_of(at_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns().saturating_sub(at_ns))
}

/// Returns a number that can be one of a sum or a share: finite and not below 0.
fn sound(number: f64) -> f64 {
    if number.is_finite() {
        number.max(0.0)
    } else {
        0.0
    }
}

/// Returns a text without what a terminal would obey, and not longer than a message is.
pub(crate) fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(TEXT_CHARACTERS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::{Buckets, PolicySnapshot, Snapshot, TenantSnapshot};
    use crate::dispatch::accounting::TenantUsage;
    use crate::dispatch::client_accounting::ClientUsage;
    use crate::link::{ClientFacts, Credentials, MemoryTime};

    fn tenant(name: &str) -> TenantSnapshot {
        TenantSnapshot {
            name: name.into(),
            clients: vec![ClientFacts {
                id: 1,
                name: "a\u{1b}[2J".into(),
                credentials: Credentials {
                    pid: 1,
                    uid: 2,
                    gid: 3,
                },
                memory_used_bytes: 4,
                usage: ClientUsage::default(),
                memory_time: MemoryTime::default(),
            }],
            memory_used_bytes: 4,
            share_by_weight: f64::NAN,
            usage: TenantUsage {
                submitted: 10,
                completed: 7,
                abandoned: 1,
                pending: 2,
                held_sm_ns: f64::INFINITY,
                entitled_sm_ns: -1.0,
                all_held_sm_ns: 8.0,
                share_got: Some(-1.0),
                share_entitled: Some(0.0),
                is_waiting: true,
                ..TenantUsage::default()
            },
            start: Buckets(vec![(3, 5), (60_000, 1)], (3, 3)),
            complete: Buckets(vec![(9, u64::MAX); 2000], (9, 2)),
            preemption: Buckets(vec![(4, 2)], (4, 4)),
        }
    }

    #[test]
    fn what_no_host_can_mean_is_taken_out() {
        let snapshot = Snapshot {
            policy: PolicySnapshot {
                name: "\u{1b}c".into(),
                failure: Some("\u{7}bell".repeat(1000)),
                ..PolicySnapshot::default()
            },
            tenants: vec![tenant("a"), tenant("b"), tenant("c")],
            ..Snapshot::default()
        };
        let settled = snapshot.settle(2, 1);
        let [a, b] = settled.tenants.as_slice() else {
            panic!("{settled:?}");
        };
        assert_eq!((a.clients.len(), b.clients.len()), (1, 0));
        assert_eq!(a.clients[0].name, "a\u{fffd}[2J");
        assert_eq!(settled.policy.failure.unwrap().chars().count(), 1000);
        assert_eq!(settled.policy.name, "\u{fffd}c");
        let numbers = [
            a.share_by_weight,
            a.usage.held_sm_ns,
            a.usage.entitled_sm_ns,
        ];
        assert!(numbers.iter().all(|number| *number == 0.0), "{numbers:?}");
        assert_eq!(a.start.histogram().count(), 5);
        assert!(a.complete.histogram().count() > 0);
        assert_eq!(a.preemption.histogram().count(), 2);
    }

    #[test]
    fn what_was_under_way_when_a_host_ended_is_abandoned_and_counters_go_on() {
        let ended = Snapshot {
            tenants: vec![tenant("a")],
            ..Snapshot::default()
        };
        let ended = ended.settle(8, 8).end();
        let usage = &ended.tenant("a").unwrap().usage;
        assert_eq!(
            (usage.pending, usage.abandoned, usage.is_waiting),
            (0, 3, false)
        );
        assert_eq!(usage.submitted, usage.completed + usage.abandoned);
        let counters = ended.tenant("a").unwrap().counters();
        assert_eq!(&counters.read(), usage);
        assert_eq!(counters.start_latency().read().count(), 5);
    }
}
