//! `gridmux tenant`: the tenants of a running service, what they asked for and what they got.

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, check_name};
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_mediator::link::{ClientFacts, TenantStatistics};
use gridmux_policy::Class;
use serde::Serialize;

/// Commands on tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Every configured tenant: class, clients, shares, memory, launches, latency
    List(List),
    /// The same of one tenant or of all, and who their clients are
    Show(Show),
}

/// Lists tenants.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct List {
    #[command(flatten)]
    service: ServiceArgs,
}

/// Shows tenants.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Show {
    /// Only this tenant
    name: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// What the columns are.
const COLUMNS: &str = "\
Columns, over all clients of a tenant since the device host started:
  CLASS     class; (behind): its launches keep ending at their budget, so they
            wait for all others; (waiting): it has launches open and no block
            on the device
  CLIENTS   clients connected now
  WEIGHT    weight of its share
  ASKED     part of the device that its weight entitled it to while it was
            busy; - before any work, and while it waits
  GOT       part that it held of what all tenants held while it was busy;
            - before any work, and while it waits
  MEMORY    device memory in use
  LIMIT     the most that it may use
  LAUNCHES  launches that ended
  PENDING   operations submitted and not ended
  FAILED    operations that failed
  BLOCKS    thread blocks that ran
  P50, P99  launch latency, submission to first block, on the device's clock
            (virtual if modelled)
  END P99   completion latency, submission to the end of the last block, on
            the same clock";

/// A tenant as it is printed: counters are those of all of its clients together. Times are of the device's clock, which
/// is virtual on a modelled device.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    id: u32,
    class: Class,
    weight: u32,
    /// Clients connected.
    clients: usize,
    /// Most clients at once.
    clients_limit: u16,
    /// Its weight over the weights of all connected tenants; `None` of one without clients.
    share_asked: Option<f64>,
    /// Part of what all tenants held while it was busy that its weight entitled it to.
    share_entitled: Option<f64>,
    /// Part of what all tenants held while it was busy that it held.
    share_got: Option<f64>,
    /// SM · nanoseconds that its blocks held, by their dominant share.
    held_sm_ns: f64,
    /// Launches in a row that ended at their budget.
    budget_ends: u64,
    /// Its launches keep ending at their budget, so they run only while no other tenant has one open.
    is_behind: bool,
    /// It has a launch open and no block on the device.
    is_waiting: bool,
    memory_used_bytes: u64,
    memory_limit_bytes: u64,
    launches: u64,
    operations: u64,
    pending: u64,
    /// Operations whose client left before they ended.
    abandoned: u64,
    failed: u64,
    slices: u64,
    blocks: u64,
    block_ns: u64,
    bytes_copied: u64,
    launch_latency_ns: LaunchLatency,
    completion_latency_ns: CompletionLatency,
    connected: Vec<Client>,
}

/// A client as it is printed.
#[derive(Debug, Serialize)]
struct Client {
    id: u32,
    name: String,
    pid: i32,
    uid: u32,
    gid: u32,
    memory_used_bytes: u64,
}

/// From a launch's submission (its admission) to the start of its first block.
#[derive(Debug, Serialize)]
struct LaunchLatency {
    clock: &'static str,
    source: &'static str,
    start_p50: Option<u64>,
    start_p99: Option<u64>,
    /// The completion latency, by the name that it had before.
    complete_p50: Option<u64>,
    complete_p99: Option<u64>,
}

/// From a launch's submission (its admission) to the end of its last block.
#[derive(Debug, Serialize)]
struct CompletionLatency {
    clock: &'static str,
    source: &'static str,
    p50: Option<u64>,
    p99: Option<u64>,
}

impl Tenant {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::List(list) => {
                let rows = rows(&list.service)?;
                out.show(&rows, || text(&rows))
            }
            Self::Show(show) => show.run(out),
        }
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let mut rows = rows(&self.service)?;
        if let Some(name) = &self.name {
            check_name(name, rows.iter().map(|row| &*row.name))?;
            rows.retain(|row| row.name == *name);
        }
        out.show(&rows, || {
            let clients = clients_text(&rows);
            format!("{}\n{clients}", text(&rows))
        })
    }
}

fn rows(service: &ServiceArgs) -> Result<Vec<Row>, Failure> {
    let host = service.statistics()?.host;
    let clock = if host.device.is_model {
        "virtual"
    } else {
        "device"
    };
    let tenants = host.tenants.into_iter();
    Ok(tenants.map(|tenant| Row::new(tenant, clock)).collect())
}

/// Returns who has what in one table, and what came of it in another.
fn text(rows: &[Row]) -> String {
    let holds = [
        "tenant", "class", "clients", "weight", "asked", "got", "memory", "limit",
    ];
    let work = [
        "tenant", "launches", "pending", "failed", "blocks", "p50", "p99", "end p99",
    ];
    let [holds, work] = [
        table::of(&holds, rows.iter().map(Row::holds)),
        table::of(&work, rows.iter().map(Row::work)),
    ];
    format!("{holds}\n\n{work}")
}

fn clients_text(rows: &[Row]) -> String {
    const HEADINGS: [&str; 6] = ["client", "tenant", "name", "pid", "uid", "memory"];
    let of = |row: &Row| {
        let tenant = row.name.clone();
        let cells = move |client: &Client| {
            vec![
                client.id.to_string(),
                tenant.clone(),
                client.name.clone(),
                client.pid.to_string(),
                client.uid.to_string(),
                units::bytes(client.memory_used_bytes),
            ]
        };
        row.connected.iter().map(cells).collect::<Vec<_>>()
    };
    let clients: Vec<Vec<String>> = rows.iter().flat_map(of).collect();
    if clients.is_empty() {
        return "(no clients)\n".to_owned();
    }
    table::of(&HEADINGS, clients)
}

impl From<ClientFacts> for Client {
    fn from(client: ClientFacts) -> Self {
        Self {
            id: client.id,
            name: client.name,
            pid: client.credentials.pid,
            uid: client.credentials.uid,
            gid: client.credentials.gid,
            memory_used_bytes: client.memory_used_bytes,
        }
    }
}

impl Row {
    fn new(tenant: TenantStatistics, clock: &'static str) -> Self {
        let TenantStatistics {
            tenant: facts,
            clients,
            usage,
            latency,
            ..
        } = tenant;
        Self {
            name: facts.name,
            id: facts.number,
            class: facts.class,
            weight: facts.weight,
            clients: clients.len(),
            clients_limit: facts.clients_limit,
            share_asked: (!clients.is_empty()).then_some(tenant.share_asked),
            connected: clients.into_iter().map(Client::from).collect(),
            share_got: usage.share_got,
            share_entitled: usage.share_entitled,
            held_sm_ns: usage.held_sm_ns,
            budget_ends: usage.budget_ends,
            is_behind: usage.is_behind,
            is_waiting: usage.is_waiting,
            memory_used_bytes: tenant.memory_used_bytes,
            memory_limit_bytes: facts.memory_limit_bytes,
            launches: latency.count,
            operations: usage.submitted,
            pending: usage.pending,
            abandoned: usage.abandoned,
            failed: usage.failed,
            slices: usage.slices,
            blocks: usage.blocks,
            block_ns: usage.block_ns,
            bytes_copied: usage.bytes_copied,
            launch_latency_ns: LaunchLatency {
                clock,
                source: "mediator",
                start_p50: latency.start_p50_ns,
                start_p99: latency.start_p99_ns,
                complete_p50: latency.complete_p50_ns,
                complete_p99: latency.complete_p99_ns,
            },
            completion_latency_ns: CompletionLatency {
                clock,
                source: "mediator",
                p50: latency.complete_p50_ns,
                p99: latency.complete_p99_ns,
            },
        }
    }

    fn holds(&self) -> Vec<String> {
        // Shares of a tenant that waits say nothing of the present.
        let percent = |share: Option<f64>| match share.filter(|_| !self.is_waiting) {
            Some(share) => format!("{:.1}%", share * 100.0),
            None => "-".to_owned(),
        };
        // A tenant whose launches keep ending at their budget runs while the others have nothing to do.
        let class = match (self.is_behind, self.is_waiting) {
            (true, _) => format!("{} (behind)", self.class),
            (false, true) => format!("{} (waiting)", self.class),
            (false, false) => self.class.to_string(),
        };
        vec![
            self.name.clone(),
            class,
            self.clients.to_string(),
            self.weight.to_string(),
            percent(self.share_entitled),
            percent(self.share_got),
            units::bytes(self.memory_used_bytes),
            units::bytes(self.memory_limit_bytes),
        ]
    }

    fn work(&self) -> Vec<String> {
        let latency = &self.launch_latency_ns;
        vec![
            self.name.clone(),
            self.launches.to_string(),
            self.pending.to_string(),
            self.failed.to_string(),
            self.blocks.to_string(),
            units::nanos(latency.start_p50),
            units::nanos(latency.start_p99),
            units::nanos(self.completion_latency_ns.p99),
        ]
    }
}
