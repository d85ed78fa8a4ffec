//! One reading of everybody's launch and completion latencies, from eBPF's maps or from the mediator, or of preemption
//! latencies, from the mediator.

use crate::failure::Failure;
use crate::service::{ServiceArgs, check_name};
use gridmux_bpf::{Histogram, Kind, read_histograms};
use gridmux_mediator::dispatch::samples::LatencyView;
use gridmux_mediator::link::TenantStatistics;
use gridmux_mediator::supervisor::ServiceStatistics;
use serde::Serialize;
use serde_json::{Value, json};

/// A reading.
#[derive(Debug)]
pub(super) struct Reading {
    /// eBPF's instance; `None` when the mediator measured.
    instance: Option<String>,
    /// Why it was not eBPF.
    reason: Option<String>,
    /// Per tenant and kind.
    pub(super) rows: Vec<Row>,
}

/// One tenant's latency of one kind.
#[derive(Debug)]
pub(super) struct Row {
    /// The tenant's name, or `?` when nobody knows it.
    pub(super) tenant: String,
    /// Its number.
    pub(super) id: u32,
    /// It is configured no more.
    pub(super) is_taken_out: bool,
    device: u16,
    kind: RowKind,
    /// The clock of the times: `virtual`, `device`, or `wall`.
    pub(super) clock: &'static str,
    /// The kind of latency.
    pub(super) measured: Measured,
}

/// What a latency is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum RowKind {
    /// Launches.
    Launch(Kind),
    /// Preemptions.
    Preemption(PreemptionKind),
}

/// The one kind of preemption latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PreemptionKind {
    /// From the decision that others give way to the first block in their room.
    Preemption,
}

/// Latencies.
#[derive(Debug, Clone)]
pub(super) enum Measured {
    /// eBPF's histogram.
    Histogram(Histogram),
    /// The mediator's percentiles, since the service started.
    Percentiles {
        count: u64,
        p50_ns: Option<u64>,
        p99_ns: Option<u64>,
    },
}

/// Reads eBPF's maps, or else the mediator's own figures.
pub(super) fn read(
    service: &ServiceArgs,
    instance: Option<&str>,
    tenant: Option<&str>,
) -> Result<Reading, Failure> {
    let statistics = match (service.statistics(), instance) {
        (Ok(statistics), _) => Some(statistics),
        // The maps can be read without the service; only the tenants' names are missing then.
        (Err(_), Some(_)) if tenant.is_none() => None,
        (Err(failure), Some(_)) => {
            let hint = "only the service knows tenants by name; leave the name out to see them all by number";
            return Err(failure.hint(hint));
        }
        (Err(failure), None) => return Err(failure),
    };
    let is_taken_out = match (&statistics, tenant) {
        (Some(statistics), Some(tenant)) => is_taken_out(statistics, tenant)?,
        _ => false,
    };
    let by_mediator = |reason: Option<String>| match tenant.filter(|_| is_taken_out) {
        // It keeps no figures of tenants that it does not have.
        Some(name) => Err(Failure::new(format!(
            "{name} was taken out of the configuration, and its figures are eBPF's alone, which cannot be read: {}",
            reason.as_deref().unwrap_or("the service has no maps")
        ))),
        None => Ok(from_mediator(statistics.as_ref(), reason, tenant)),
    };
    let running = statistics
        .as_ref()
        .and_then(|statistics| statistics.ebpf_instance.clone());
    let Some(name) = instance.map(ToOwned::to_owned).or(running) else {
        let reason = statistics
            .as_ref()
            .and_then(|statistics| statistics.ebpf_unavailable.clone());
        return by_mediator(reason);
    };
    match read_histograms(&name) {
        Ok(histograms) => {
            let clock = statistics.as_ref().map_or("device", clock_of);
            let rows = histograms.into_iter().map(|found| {
                let (tenant, is_taken_out) = name_of(statistics.as_ref(), found.tenant);
                Row {
                    tenant,
                    id: found.tenant,
                    is_taken_out,
                    device: found.device,
                    kind: RowKind::Launch(found.kind),
                    clock: if is_device_time(found.kind) {
                        clock
                    } else {
                        "wall"
                    },
                    measured: Measured::Histogram(found.histogram),
                }
            });
            let rows = rows.filter(|row| row.is_of(tenant)).collect();
            Ok(Reading {
                instance: Some(name),
                reason: None,
                rows,
            })
        }
        Err(error) if instance.is_none() => by_mediator(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a tenant is configured no more.
///
/// # Errors
/// If nobody has or had that name.
fn is_taken_out(statistics: &ServiceStatistics, name: &str) -> Result<bool, Failure> {
    let mut taken_out = statistics.taken_out.iter();
    let tenants = &statistics.host.tenants;
    let known = check_name(name, tenants.iter().map(|tenant| &*tenant.tenant.name));
    match known {
        Err(_) if taken_out.any(|(_, taken_out)| taken_out == name) => Ok(true),
        known => known.map(|()| false),
    }
}

/// Reads preemption latencies.
pub(super) fn read_preemption(
    service: &ServiceArgs,
    tenant: Option<&str>,
) -> Result<Reading, Failure> {
    let statistics = service.statistics()?;
    let tenants = &statistics.host.tenants;
    if let Some(tenant) = tenant {
        check_name(tenant, tenants.iter().map(|tenant| &*tenant.tenant.name))?;
    }
    let rows = tenants.iter().map(|tenant| Row {
        tenant: tenant.tenant.name.clone(),
        id: tenant.tenant.number,
        is_taken_out: false,
        device: 0,
        kind: RowKind::Preemption(PreemptionKind::Preemption),
        clock: clock_of(&statistics),
        measured: Measured::Histogram(tenant.preemption.histogram()),
    });
    let shown = rows.filter(|row| row.is_of(tenant) && row.measured.count() > 0);
    Ok(Reading {
        instance: None,
        reason: None,
        rows: shown.collect(),
    })
}

fn from_mediator(
    statistics: Option<&ServiceStatistics>,
    reason: Option<String>,
    tenant: Option<&str>,
) -> Reading {
    let clock = statistics.map_or("device", clock_of);
    let tenants = statistics
        .into_iter()
        .flat_map(|statistics| &statistics.host.tenants)
        // A tenant that nobody ever was has nothing to show.
        .filter(|tenant| !tenant.clients.is_empty() || tenant.latency.count > 0);
    let rows = tenants
        .flat_map(|tenant| mediators_rows(tenant, clock))
        .filter(|row| row.is_of(tenant))
        .collect();
    Reading {
        instance: None,
        reason,
        rows,
    }
}

fn mediators_rows(tenant: &TenantStatistics, clock: &'static str) -> [Row; 2] {
    let LatencyView {
        count,
        start_p50_ns,
        start_p99_ns,
        complete_p50_ns,
        complete_p99_ns,
    } = tenant.latency;
    let row = |kind, p50_ns, p99_ns| Row {
        tenant: tenant.tenant.name.clone(),
        id: tenant.tenant.number,
        is_taken_out: false,
        device: 0,
        kind: RowKind::Launch(kind),
        clock,
        measured: Measured::Percentiles {
            count,
            p50_ns,
            p99_ns,
        },
    };
    [
        row(Kind::SubmitToStart, start_p50_ns, start_p99_ns),
        row(Kind::SubmitToComplete, complete_p50_ns, complete_p99_ns),
    ]
}

fn clock_of(statistics: &ServiceStatistics) -> &'static str {
    if statistics.host.device.is_model {
        "virtual"
    } else {
        "device"
    }
}

/// Returns the name of a tenant, and whether it was taken out of the configuration.
fn name_of(statistics: Option<&ServiceStatistics>, id: u32) -> (String, bool) {
    let (mut tenants, mut taken_out) = match statistics {
        Some(statistics) => (statistics.host.tenants.iter(), statistics.taken_out.iter()),
        None => Default::default(),
    };
    if let Some(known) = tenants.find(|tenant| tenant.tenant.number == id) {
        return (known.tenant.name.clone(), false);
    }
    match taken_out.find(|(number, _)| *number == id) {
        Some((_, name)) => (name.clone(), true),
        None => ("?".to_owned(), false),
    }
}

fn is_device_time(kind: Kind) -> bool {
    matches!(kind, Kind::SubmitToStart | Kind::SubmitToComplete)
}

impl Reading {
    /// Returns what came since an earlier reading. The mediator's percentiles stay as they are: they cannot be
    /// subtracted.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let rows = self.rows.iter().map(|row| {
            let before = earlier
                .rows
                .iter()
                .find(|e| (e.id, e.device, e.kind) == (row.id, row.device, row.kind));
            let measured = match (&row.measured, before.map(|row| &row.measured)) {
                (Measured::Histogram(now), Some(Measured::Histogram(then))) => {
                    Measured::Histogram(now.since(then))
                }
                (measured, _) => measured.clone(),
            };
            Row {
                tenant: row.tenant.clone(),
                measured,
                ..*row
            }
        });
        let rows = rows.filter(|row| row.measured.count() > 0).collect();
        Self {
            instance: self.instance.clone(),
            reason: self.reason.clone(),
            rows,
        }
    }

    /// Returns who measured, in a line.
    pub(super) fn banner(&self) -> String {
        match (&self.instance, &self.reason) {
            (Some(instance), _) => {
                format!("Latencies of launches, measured by eBPF (instance {instance})")
            }
            (None, Some(reason)) => format!(
                "Latencies of launches, measured by the mediator since the service started ({reason})"
            ),
            (None, None) => {
                "Latencies of launches, measured by the mediator since the service started"
                    .to_owned()
            }
        }
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self, unix_seconds: u64) -> Value {
        json!({
            "time_unix_seconds": unix_seconds,
            "source": if self.instance.is_some() { "ebpf" } else { "mediator" },
            "instance": self.instance,
            "ebpf_unavailable": self.reason,
            "latencies": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn is_of(&self, tenant: Option<&str>) -> bool {
        tenant.is_none_or(|tenant| tenant == self.tenant)
    }

    /// Returns the kind, for people.
    pub(super) fn kind_in_words(&self) -> &'static str {
        match self.kind {
            RowKind::Launch(Kind::SubmitToStart) => "launch latency (submit to start)",
            RowKind::Launch(Kind::SubmitToComplete) => "completion latency (submit to complete)",
            RowKind::Launch(Kind::WallSubmitToStart) => "submit to hand-over",
            RowKind::Preemption(_) => "preemption latency (takeover to first block)",
        }
    }

    /// Returns what its count counts.
    pub(super) fn noun(&self) -> &'static str {
        match self.kind {
            RowKind::Launch(_) => "launch",
            RowKind::Preemption(_) => "takeover",
        }
    }

    fn to_json(&self) -> Value {
        let (p50_ns, p99_ns) = self.measured.percentiles();
        let buckets = match &self.measured {
            Measured::Histogram(histogram) => Some(histogram.nonempty().collect::<Vec<_>>()),
            Measured::Percentiles { .. } => None,
        };
        json!({
            "tenant": self.tenant,
            "id": self.id,
            "is_taken_out": self.is_taken_out,
            "device": self.device,
            "kind": self.kind,
            "clock": self.clock,
            "count": self.measured.count(),
            "p50_ns": p50_ns,
            "p99_ns": p99_ns,
            "buckets": buckets,
        })
    }
}

impl Measured {
    /// Launches.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Histogram(histogram) => histogram.count(),
            Self::Percentiles { count, .. } => *count,
        }
    }

    /// Returns median and 99th percentile.
    pub(super) fn percentiles(&self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::Histogram(histogram) => (histogram.percentile(0.5), histogram.percentile(0.99)),
            Self::Percentiles { p50_ns, p99_ns, .. } => (*p50_ns, *p99_ns),
        }
    }
}
