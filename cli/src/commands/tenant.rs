//! `gridmux tenant`: the tenants of a running service, what they asked for and what they got.

use crate::failure::Failure;
use crate::output::Output;
use crate::service::ServiceArgs;
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_mediator::link::TenantStatistics;
use serde::Serialize;

/// Commands on tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Connected tenants: shares, memory, launches, latency
    Show(Show),
}

/// Shows tenants.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Only this tenant
    name: Option<String>,
    /// Tenants that have left as well
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// A tenant as it is printed. Times are of the device's clock, which is virtual on a modelled device.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    id: u32,
    connected: bool,
    pid: i32,
    uid: u32,
    weight: u32,
    share_asked: f64,
    share_got: Option<f64>,
    shared_busy_ns: u64,
    memory_used_bytes: u64,
    memory_limit_bytes: u64,
    launches: u64,
    operations: u64,
    pending: u64,
    failed: u64,
    slices: u64,
    blocks: u64,
    block_ns: u64,
    bytes_copied: u64,
    launch_latency_ns: Latency,
}

/// From a launch's admission to its first block, and to its end.
#[derive(Debug, Serialize)]
struct Latency {
    clock: &'static str,
    source: &'static str,
    start_p50: Option<u64>,
    start_p99: Option<u64>,
    complete_p50: Option<u64>,
    complete_p99: Option<u64>,
}

impl Tenant {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Show(show) => show.run(out),
        }
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let host = self.service.statistics()?.host;
        let clock = if host.device.is_model {
            "virtual"
        } else {
            "device"
        };
        let departed = host
            .departed
            .iter()
            .filter(|_| self.all)
            .map(|tenant| Row::new(tenant, false, clock));
        let rows = departed.chain(
            host.tenants
                .iter()
                .map(|tenant| Row::new(tenant, true, clock)),
        );
        let rows: Vec<Row> = rows
            .filter(|row| self.name.as_ref().is_none_or(|name| *name == row.name))
            .collect();
        if let (Some(name), true) = (&self.name, rows.is_empty()) {
            let connected: Vec<&str> = host
                .tenants
                .iter()
                .map(|t| t.identity.name.as_str())
                .collect();
            let hint = match connected.is_empty() {
                true => "nobody is connected; --all shows tenants that have left".to_owned(),
                false => format!(
                    "connected are: {}; --all shows those that have left",
                    connected.join(", ")
                ),
            };
            return Err(Failure::new(format!("tenant {name:?} is not connected")).hint(hint));
        }
        out.show(&rows, || text(&rows))
    }
}

fn text(rows: &[Row]) -> String {
    const HEADINGS: [&str; 15] = [
        "tenant",
        "id",
        "pid",
        "uid",
        "weight",
        "asked",
        "got",
        "memory",
        "launches",
        "pending",
        "failed",
        "blocks",
        "start p50",
        "start p99",
        "complete p99",
    ];
    table::of(&HEADINGS, rows.iter().map(Row::cells))
}

impl Row {
    fn new(tenant: &TenantStatistics, connected: bool, clock: &'static str) -> Self {
        let (identity, usage, latency) = (&tenant.identity, &tenant.usage, &tenant.latency);
        Self {
            name: identity.name.clone(),
            id: identity.id,
            connected,
            pid: identity.pid,
            uid: identity.uid,
            weight: identity.weight,
            share_asked: tenant.share_asked,
            share_got: usage.share_got,
            shared_busy_ns: usage.shared_busy_ns,
            memory_used_bytes: tenant.memory_used_bytes,
            memory_limit_bytes: identity.memory_limit_bytes,
            launches: latency.count,
            operations: usage.submitted,
            pending: usage.pending,
            failed: usage.failed,
            slices: usage.slices,
            blocks: usage.blocks,
            block_ns: usage.block_ns,
            bytes_copied: usage.bytes_copied,
            launch_latency_ns: Latency {
                clock,
                source: "mediator",
                start_p50: latency.start_p50_ns,
                start_p99: latency.start_p99_ns,
                complete_p50: latency.complete_p50_ns,
                complete_p99: latency.complete_p99_ns,
            },
        }
    }

    fn cells(&self) -> Vec<String> {
        let latency = &self.launch_latency_ns;
        let got = self
            .share_got
            .map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        let left = if self.connected { "" } else { " (left)" };
        vec![
            format!("{}{left}", self.name),
            self.id.to_string(),
            self.pid.to_string(),
            self.uid.to_string(),
            self.weight.to_string(),
            format!("{:.1}%", self.share_asked * 100.0),
            got,
            format!(
                "{}/{}",
                units::bytes(self.memory_used_bytes),
                units::bytes(self.memory_limit_bytes)
            ),
            self.launches.to_string(),
            self.pending.to_string(),
            self.failed.to_string(),
            self.blocks.to_string(),
            units::nanos(latency.start_p50),
            units::nanos(latency.start_p99),
            units::nanos(latency.complete_p99),
        ]
    }
}
