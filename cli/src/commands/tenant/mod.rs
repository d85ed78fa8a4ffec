//! `gridmux tenant`: the tenants of a running service, what they asked for and what they got.

pub(super) mod pause;
mod set;
pub(super) mod why;

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, age, check_name, host};
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::link::{ClientFacts, TenantStatistics};
use gridmux_mediator::supervisor::HostState;
use gridmux_policy::Class;
use pause::Pause;
use serde::Serialize;
use set::Set;
use why::Answer;

/// Commands on tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Every configured tenant: class, clients, shares, memory, launches, latency
    List(List),
    /// The same of one tenant or of all, and who their clients are
    Show(Show),
    /// Change a tenant's weight, class or limits until the configuration is read again
    Set(Set),
    /// Hold a tenant's launches back until it is resumed or the service ends
    Pause(Pause),
    /// Let a tenant go on that was paused
    Resume(Pause),
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
#[command(after_help = format!("{COLUMNS}\n\n{CLIENT_COLUMNS}"))]
pub(crate) struct Show {
    /// Only this tenant
    name: Option<String>,
    /// Say in a sentence for each what binds it now (a cap, its limit, the order, submission, memory, a gang, a pause,
    /// nothing), and since when
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The legend of the columns.
const COLUMNS: &str = "\
Columns. What is counted is counted over all clients of a tenant since the
service started, device hosts that were replaced included. Memory is in bytes
with binary prefixes (1.0KiB is 1024B). Times are in ns, us, ms or s of the
device's clock, which is virtual on a modelled device and estimated on a
functional one.
  TENANT    its name in the configuration
  CLASS     class; (behind): its launches keep ending at their budget, so they
            wait for all others; (waiting): it has launches open and no block
            on the device; (paused): an operator holds it back
  CLIENTS   processes that are connected now, or left and still hold something
  WEIGHT    weight of its share, relative to the others', 1 to 1000
  ASKED     percent of what all held while it was busy that it was entitled
            to: by its weight, up to what it could use; - before a block of
            its kernels has ended, and while it waits
  GOT       percent that it held of what all tenants held while it was busy,
            each by the resource that it holds most of; - as for ASKED. ASKED
            and GOT count each tenant's own busy time, so that they do not add
            up to 100 %
  SLOWER    how many times longer its work took while it was busy than it
            would have alone, since the device's host started; - before any.
            While no other tenant has a launch open that is 1; the rest is
            estimated from what its blocks held and how long they took: for two
            tenants with known kernels on a modelled device on average within
            5 % of the truth, up to 1.4 times as much with several streams, and
            as little as a third of it for one that is starved to a twentieth
            (`cargo xtask bench slowdown`)
  MEMORY    device memory that its clients hold now, together
  LIMIT     the most that they may hold together
  LAUNCHES  launches of kernels that ended without an error
  PENDING   launches, copies and fills that were submitted and have not ended
  FAILED    those that ended with an error
  ABANDONED those whose client left, or whose device host was replaced, before
            they ended
  BLOCKS    thread blocks that ran
  P50, P99  median and 99th percentile of launch latency: from submission to
            the start of the first block
  END P99   99th percentile of completion latency: from submission to the end
            of the last block
Latencies are of all launches without an error, measured by the service itself
(`gridmux latency` reads them from eBPF where the service is root). They are
kept in bins whose width is at most an eighth of their lower end: a percentile
is placed inside its bin, between the least and the greatest latency.";

/// The legend of the columns of clients.
const CLIENT_COLUMNS: &str = "\
Columns of the clients:
  CLIENT    its number, unique while the service runs
  TENANT    the tenant that it is accounted to
  NAME      what it calls itself
  PID, UID  its process and that process's user, as the kernel says
  MEMORY    device memory that it holds now";

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
    share_by_weight: Option<f64>,
    /// Part of what all tenants held while it was busy that it was entitled to.
    share_entitled: Option<f64>,
    /// How many times longer its work took than it would have alone, estimated while others had launches open.
    slowdown: Option<f64>,
    /// Part of what all tenants held while it was busy that it held.
    share_got: Option<f64>,
    /// SM · nanoseconds that its blocks held, by their dominant share.
    held_sm_ns: f64,
    /// Launches that ended at their budget and are not made good by others.
    budget_ends: u64,
    /// Its launches keep ending at their budget, so they run only while no other tenant has one open.
    is_behind: bool,
    /// It has a launch open and no block on the device.
    is_waiting: bool,
    /// Whether an operator has paused it.
    state: TenantState,
    /// What binds it.
    binds: Why,
    /// For how long that has been so, in milliseconds of wall time.
    bound_for_ms: Option<u64>,
    memory_used_bytes: u64,
    memory_limit_bytes: u64,
    launches: u64,
    operations: u64,
    pending: u64,
    /// Operations whose client left, or whose device host was replaced, before they ended.
    abandoned: u64,
    failed: u64,
    slices: u64,
    blocks: u64,
    block_ns: u64,
    bytes_copied: u64,
    launch_latency_ns: LaunchLatency,
    completion_latency_ns: CompletionLatency,
    connected: Vec<Client>,
    /// Milliseconds since the device host wrote these figures.
    age_ms: u64,
    host_state: HostState,
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
                let reading = Reading::take(&list.service)?;
                out.show(&reading.rows, || reading.text())
            }
            Self::Show(show) => show.run(out),
            Self::Set(set) => set.run(out),
            Self::Pause(pause) => pause.run(TenantState::Paused, out),
            Self::Resume(pause) => pause.run(TenantState::Running, out),
        }
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let mut reading = Reading::take(&self.service)?;
        if let Some(name) = &self.name {
            check_name(name, reading.rows.iter().map(|row| &*row.name))?;
            reading.rows.retain(|row| row.name == *name);
        }
        if self.why {
            let age = reading.stale.as_ref().map(|[_, (_, age)]| age.as_str());
            let answers: Vec<Answer<'_>> = reading.rows.iter().map(Answer::of).collect();
            let text = || {
                answers
                    .iter()
                    .map(|answer| answer.text(age))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            return match &answers[..] {
                [one] if self.name.is_some() => out.show(one, text),
                all => out.show(&all, text),
            };
        }
        out.show(&reading.rows, || {
            let clients = clients_text(&reading.rows);
            format!("{}\n{clients}", reading.text())
        })
    }
}

/// The service's answer about its tenants.
struct Reading {
    rows: Vec<Row>,
    /// How the device host stands and how old the figures are, where they are not those of now.
    stale: Option<[(&'static str, String); 2]>,
}

impl Reading {
    fn take(service: &ServiceArgs) -> Result<Self, Failure> {
        let statistics = service.statistics()?;
        let clock = if statistics.host.device.is_model {
            "virtual"
        } else {
            "device"
        };
        let (age_ms, pid) = (statistics.age_ms, statistics.host_pid);
        let age = age(&statistics);
        let state = statistics.host_state;
        let stale = age.map(|age| [("device host", host(&state, pid)), ("figures", age)]);
        let tenants = statistics.host.tenants.into_iter();
        Ok(Self {
            rows: tenants
                .map(|tenant| Row::new(tenant, clock, (age_ms, &state)))
                .collect(),
            stale,
        })
    }

    /// Returns who has what in one table, and what came of it in another.
    fn text(&self) -> String {
        let holds = [
            "tenant", "class", "clients", "weight", "asked", "got", "slower", "memory", "limit",
        ];
        let work = [
            "tenant",
            "launches",
            "pending",
            "failed",
            "abandoned",
            "blocks",
            "p50",
            "p99",
            "end p99",
        ];
        let [holds, work] = [
            table::of(&holds, self.rows.iter().map(Row::holds)),
            table::of(&work, self.rows.iter().map(Row::work)),
        ];
        match &self.stale {
            Some(stale) => format!("{}\n\n{holds}\n\n{work}", table::fields(stale.clone())),
            None => format!("{holds}\n\n{work}"),
        }
    }
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
    fn new(
        tenant: TenantStatistics,
        clock: &'static str,
        (age_ms, host_state): (u64, &HostState),
    ) -> Self {
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
            share_by_weight: (!clients.is_empty()).then_some(tenant.share_by_weight),
            connected: clients.into_iter().map(Client::from).collect(),
            share_got: usage.share_got,
            share_entitled: usage.share_entitled,
            slowdown: usage.slowdown,
            held_sm_ns: usage.held_sm_ns,
            budget_ends: usage.budget_ends,
            is_behind: usage.is_behind,
            is_waiting: usage.is_waiting,
            state: facts.state,
            binds: usage.binding.why,
            bound_for_ms: tenant.bound_for_ms,
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
            age_ms,
            host_state: host_state.clone(),
        }
    }

    fn holds(&self) -> Vec<String> {
        // Shares of a tenant that waits say nothing of the present.
        let percent = |share: Option<f64>| match share.filter(|_| !self.is_waiting) {
            Some(share) => format!("{:.1}%", share * 100.0),
            None => "-".to_owned(),
        };
        // A tenant whose launches keep ending at their budget runs while the others have nothing to do.
        let note = match (self.state, self.is_behind, self.is_waiting) {
            (TenantState::Paused, _, _) => " (paused)",
            (TenantState::Running, true, _) => " (behind)",
            (TenantState::Running, false, true) => " (waiting)",
            (TenantState::Running, false, false) => "",
        };
        let class = format!("{}{note}", self.class);
        vec![
            self.name.clone(),
            class,
            self.clients.to_string(),
            self.weight.to_string(),
            percent(self.share_entitled),
            percent(self.share_got),
            self.slowdown
                .map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.2}x")),
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
            self.abandoned.to_string(),
            self.blocks.to_string(),
            units::nanos(latency.start_p50),
            units::nanos(latency.start_p99),
            units::nanos(self.completion_latency_ns.p99),
        ]
    }
}
