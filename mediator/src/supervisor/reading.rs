//! Statistics for operators, read from the page.
//!
//! The device host is asked to write its page, and the answer comes when it has, or after a moment from what the page
//! holds, with its age: a host that is busy, stopped or gone holds nobody up. What is known of a host that has ended is
//! the first copy of the next one's page.
//!
//! Rules: tenants and their settings are those that are in force, whatever the page says; a page that makes no sense
//! is named in the log, and the last one that made sense is shown.

use super::Supervisor;
use super::admin::{AdminReply, KernelStatistics, ServiceStatistics};
use super::folder::Folder;
use super::tenants::Tenants;
use crate::accounting::UsageQuery;
use crate::config::{MAX_CLIENTS, MAX_TENANTS};
use crate::dispatch::samples::LatencyView;
use crate::link::{HostStatistics, PolicyInForce, TenantStatistics, ToHost};
use crate::page::{
    FILE as PAGE, PageError, PageFile, PolicySnapshot, Snapshot, age_of, capacity_for,
};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the next page until it is whole.
const NEXT_PAGE: &str = "statistics.new";
/// Mode of the page.
const MODE: u32 = 0o640;
/// How long an operator waits for a host that is asked to write its page.
const PATIENCE: Duration = Duration::from_millis(150);

/// The page of the device host, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Readings {
    page: Option<PageFile>,
    /// The last snapshot that made sense.
    last: Snapshot,
    /// Questions to the host so far.
    asked: u64,
    waiting: Vec<Waiting>,
    has_warned: bool,
}

/// What a reading is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// What is counted.
    Counters,
    /// The same, and the tenants' kernels.
    Kernels,
    /// What was used over the years.
    Usage(UsageQuery),
}

/// An operator's number, and what that one asked for.
type Asked = (u64, Subject);

#[derive(Debug)]
struct Waiting {
    asked: Asked,
    /// Number of the question to the host, which answers each.
    number: u64,
    deadline: Instant,
}

impl Readings {
    /// Makes the page of the next host, which begins with what was counted so far.
    pub(super) fn next_page(
        &mut self,
        folder: &Folder,
        tenants: &Tenants,
    ) -> Result<&PageFile, PageError> {
        self.look(tenants);
        self.last = std::mem::take(&mut self.last).end();
        // Limits may change while the host lives, and the page holds tenants that are configured no more.
        let capacity = capacity_for(MAX_TENANTS, MAX_CLIENTS);
        let file = folder.make_file(NEXT_PAGE, MODE)?;
        let page = PageFile::make(file, capacity, &self.last)?;
        folder.rename(NEXT_PAGE, PAGE)?;
        self.has_warned = false;
        Ok(self.page.insert(page))
    }

    /// Reads the page. Of names that were never configured, which only a host that was taken over writes, nothing is
    /// kept.
    fn look(&mut self, tenants: &Tenants) {
        let Some(page) = &self.page else {
            return;
        };
        match page.read() {
            Ok((_, snapshot)) => {
                let clients = usize::from(MAX_CLIENTS) + super::REFUSED;
                self.last = snapshot.settle(MAX_TENANTS.into(), clients);
                self.last.tenants.retain(|read| tenants.knows(&read.name));
                let kernels = &mut self.last.kernels.kernels;
                kernels.retain(|read| tenants.knows(&read.tenant));
            }
            Err(error) if !std::mem::replace(&mut self.has_warned, true) => {
                tracing::warn!(%error, "the last statistics that made sense are shown");
            }
            Err(_) => {}
        }
    }

    /// Reads the page; returns the last snapshot that made sense.
    pub(super) fn newest(&mut self, tenants: &Tenants) -> &Snapshot {
        self.look(tenants);
        &self.last
    }

    /// Takes note that the host has written its page for a question; returns who waited for that.
    pub(super) fn take_written(&mut self, written: u64) -> Vec<Asked> {
        self.take(|waiting| waiting.number == written)
    }

    /// Returns who waits no longer.
    fn take_late(&mut self, now: Instant) -> Vec<Asked> {
        self.take(|waiting| waiting.deadline <= now)
    }

    fn take(&mut self, is_over: impl Fn(&Waiting) -> bool) -> Vec<Asked> {
        let over = self.waiting.extract_if(.., |waiting| is_over(waiting));
        over.map(|waiting| waiting.asked).collect()
    }

    /// Returns how long until somebody waits no longer.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        let deadlines = self.waiting.iter().map(|waiting| waiting.deadline);
        Some(deadlines.min()?.saturating_duration_since(now))
    }
}

impl Supervisor {
    /// Answers an operator when the host has written its page, or else in a moment.
    pub(super) fn ask_for_reading(&mut self, asked: Asked, now: Instant) {
        self.maps.drain();
        let readings = &mut self.readings;
        readings.asked += 1;
        let number = readings.asked;
        let question = match asked.1 {
            Subject::Counters | Subject::Usage(_) => ToHost::WriteStatistics { number },
            Subject::Kernels => ToHost::WriteKernels { number },
        };
        match self.hosts.tell(&question, &[]) {
            Ok(()) => readings.waiting.push(Waiting {
                asked,
                number,
                deadline: now + PATIENCE,
            }),
            Err(_) => self.answer_with_readings(&[asked], now),
        }
    }

    /// Answers the operators that have waited for long enough.
    pub(super) fn answer_late_readings(&mut self, now: Instant) {
        let late = self.readings.take_late(now);
        self.answer_with_readings(&late, now);
    }

    /// Answers operators with what the page says, or has the thread that keeps accounts do so.
    pub(super) fn answer_with_readings(&mut self, asked: &[Asked], now: Instant) {
        for (operator, subject) in asked {
            if let Subject::Usage(query) = subject {
                self.ask_for_use(*operator, *query, now);
            }
        }
        let is_of_page = |(_, subject): &&Asked| !matches!(subject, Subject::Usage(_));
        let asked: Vec<Asked> = asked.iter().filter(is_of_page).copied().collect();
        if asked.is_empty() {
            return;
        }
        self.readings.look(&self.tenants);
        let Some(device) = self.device.clone() else {
            return;
        };
        let snapshot = &self.readings.last;
        let facts = self.tenants.facts(&self.config).into_iter();
        let tenants: Vec<TenantStatistics> = facts
            .map(|tenant| {
                let read = snapshot.tenant(&tenant.name).cloned().unwrap_or_default();
                TenantStatistics {
                    bound_for_ms: read.bound_for().map(millis),
                    tenant,
                    clients: read.clients,
                    memory_used_bytes: read.memory_used_bytes,
                    share_by_weight: read.share_by_weight,
                    usage: read.usage,
                    latency: LatencyView::of(&read.start.histogram(), &read.complete.histogram()),
                    preemption: read.preemption,
                }
            })
            .collect();
        let held = tenants.iter().map(|tenant| tenant.memory_used_bytes);
        let host = HostStatistics {
            device,
            policy: self.config.policy.clone(),
            policy_in_force: in_force(&snapshot.policy),
            policy_failure: snapshot.policy.failure.clone(),
            device_now_ns: snapshot.device_now_ns,
            memory_used_bytes: held.fold(0, u64::saturating_add),
            holds_expired: snapshot.holds_expired,
            tenants,
        };
        let unavailable = self.maps.unavailable().map(ToOwned::to_owned);
        let instance = self.config.instance.clone();
        let statistics = ServiceStatistics {
            pid: std::process::id(),
            config: self.reloads.file().map(Path::to_owned),
            host_pid: self.hosts.pid(),
            host_state: self.hosts.state(now),
            host_restarts: self.hosts.restarts(),
            connections: self.connected.len() as u64,
            age_ms: millis(snapshot.age()),
            ebpf_instance: unavailable.is_none().then_some(instance),
            ebpf_unavailable: unavailable,
            host,
            taken_out: self.tenants.taken_out(),
            kernels: None,
        };
        for (operator, subject) in &asked {
            let reply = AdminReply::Statistics(Box::new(ServiceStatistics {
                kernels: (*subject == Subject::Kernels).then(|| kernels(snapshot)),
                ..statistics.clone()
            }));
            self.operators.answer(*operator, &reply, now);
        }
    }
}

/// Returns which policy decides and for how long, if a host has said it.
fn in_force(policy: &PolicySnapshot) -> Option<PolicyInForce> {
    let since = age_of(policy.since_ns);
    (!policy.name.is_empty()).then(|| PolicyInForce {
        name: policy.name.clone(),
        for_ms: millis(since),
    })
}

/// Returns the last reading of the tenants' kernels.
fn kernels(snapshot: &Snapshot) -> KernelStatistics {
    let reading = snapshot.kernels.clone();
    KernelStatistics {
        age_ms: (reading.at_ns > 0).then(|| millis(age_of(reading.at_ns))),
        reading,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl From<super::SocketError> for PageError {
    fn from(error: super::SocketError) -> Self {
        Self::System(io::Error::other(error.to_string()))
    }
}
