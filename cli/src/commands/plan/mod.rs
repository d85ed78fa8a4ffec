//! `gridmux plan`: the plan in force in a running service, as tables and as a picture.
//!
//! Rules: what is shown is one reading of the device host, taken when the service was asked: the plan is the one in
//! force when the reading ended, and a row that is newer has no names; the picture is drawn from the same figures as
//! the tables.

mod picture;
mod text;

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{KernelReading, ServiceArgs};
use clap::{Args, Subcommand};
use gridmux_mediator::page::{KernelSnapshot, PlanGroup, PlanRowSnapshot, PlanSnapshot};
use gridmux_mediator::supervisor::{HostState, ServiceStatistics};
use gridmux_policy::plan::Stop;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// Commands on the plan.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Its groups of SMs, and what each kernel may hold on each
    Show(Show),
}

/// Shows the plan.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Show {
    /// Show it again after this many seconds, again and again, until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    watch: Option<u32>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The legend of the columns.
const COLUMNS: &str = "\
The policy makes plans and the service obeys the newest one. A plan divides the
SMs into groups and says of each row (a kernel of a tenant with blocks of one
shape, as in `gridmux kernel show`) how many of its blocks may reside on each SM
of a group. On a device whose SMs cannot be chosen, a row is held to the sum.

Columns of the groups:
  GROUP       its number
  SMS         its SMs
  ORDER       rank: free room goes to the row of the lowest rank; arrival: to
              the launch that came first. (head of line): the first that waits
              holds up all behind it
  PREEMPTION  how blocks leave that are too many. none: they do not, caps bind
              new blocks; drain: as they end; switch: their contexts go to
              memory; cheapest: whichever costs less
  SURPLUS     idle: room that nobody within a cap can use stays empty; lend: it
              goes to rows beyond their caps until these are waited for
Columns of the rows:
  RANK        place in the order, lowest first
  ROW, TENANT, KERNEL
              as in `gridmux kernel show`
  STOP        checked: it is handed over block by block, so that it stops
              within about one; ahead: up to a window of work
  BUDGET      number of its block up to which blocks may start; - for no limit
  G0, G1, ... blocks on each SM of the group, of those that fit: 3/8; *: as many
              as fit; w5: a share of issue slots
The picture has a column for each SM (or for several, where there are more than
60): . for none, ▁ to █ for an eighth to all of the blocks that fit.";

/// What is said of the plan.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    policy: String,
    epoch: u64,
    sms: u16,
    /// When the policy wants to be woken, in nanoseconds of the device's clock.
    wake_ns: Option<u64>,
    /// Blocks on each SM of a row that the plan does not list; none for no limit.
    default_cap: Option<u16>,
    default_stop: Stop,
    groups: Vec<PlanGroup>,
    rows: Vec<Row>,
    /// The plan lists more rows than are shown.
    has_more: bool,
    limits: Vec<Limit>,
    /// Milliseconds since the device host took this reading; none where it has taken none.
    age_ms: Option<u64>,
    host_state: HostState,
    /// How the device host stands and how old the figures are, where they are not those of now.
    #[serde(skip)]
    stale: Option<[(&'static str, String); 2]>,
}

/// A row of the plan, as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    rank: u32,
    row: u32,
    /// Its tenant; none where the row came after the reading of kernels.
    tenant: Option<String>,
    kernel: Option<String>,
    stop: Stop,
    budget: Option<u64>,
    /// Blocks of it that an empty SM holds.
    fits: Option<u16>,
    cells: Vec<Cell>,
}

/// What a row may hold on a group.
#[derive(Debug, Clone, Copy, Serialize)]
struct Cell {
    /// Blocks on each SM; none for no limit.
    cap: Option<u16>,
    /// Share of issue slots; none for no quota.
    weight: Option<u16>,
}

/// A tenant's limit.
#[derive(Debug, Serialize)]
struct Limit {
    tenant: String,
    /// The largest of its shares of resources over the device, in SMs; none for no limit.
    device_sms: Option<f64>,
}

impl Plan {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let Self::Show(show) = self;
        let Some(seconds) = show.watch else {
            let shown = Shown::new(show.service.kernels()?);
            return out.show(&shown, || shown.text());
        };
        loop {
            let shown = Shown::new(show.service.kernels()?);
            match out.is_json() {
                true => out.line(&shown)?,
                false => out.show(&shown, || shown.text() + "\n\n")?,
            }
            std::thread::sleep(Duration::from_secs(seconds.into()));
        }
    }
}

/// Returns what `gridmux plan show` says of a reading.
pub(super) fn text_of(service: ServiceStatistics) -> String {
    Shown::new(service).text()
}

impl Shown {
    fn new(mut service: ServiceStatistics) -> Self {
        let KernelReading {
            age_ms,
            reading,
            stale,
        } = KernelReading::take(&mut service);
        let in_force = service.host.policy_in_force.as_ref();
        let policy = in_force.map_or(&service.host.policy, |policy| &policy.name);
        let tenants = &service.host.tenants;
        let name_of = |id: u32| {
            let tenant = tenants.iter().find(|of| of.tenant.number == id);
            tenant.map_or_else(|| id.to_string(), |of| of.tenant.name.clone())
        };
        let PlanSnapshot {
            epoch,
            sms,
            wake_ns,
            groups,
            rows,
            has_more,
            limits,
            default_cap,
            default_stop,
        } = reading.plan;
        let kernels = reading.kernels.iter();
        let kernels: HashMap<u32, &KernelSnapshot> =
            kernels.map(|kernel| (kernel.row.id.0, kernel)).collect();
        let row = |row: PlanRowSnapshot| Row::new(&row, kernels.get(&row.row.0).copied());
        Self {
            policy: policy.clone(),
            epoch,
            sms,
            wake_ns,
            default_cap,
            default_stop,
            rows: rows.into_iter().map(row).collect(),
            groups,
            has_more,
            limits: limits
                .into_iter()
                .map(|limit| Limit {
                    tenant: name_of(limit.tenant),
                    device_sms: limit.device_milli_sms.map(|sms| sms as f64 / 1e3),
                })
                .collect(),
            age_ms,
            stale,
            host_state: service.host_state,
        }
    }
}

impl Row {
    fn new(row: &PlanRowSnapshot, kernel: Option<&KernelSnapshot>) -> Self {
        let cell = |&(cap, weight): &(Option<u16>, Option<u16>)| Cell { cap, weight };
        let facts = kernel.and_then(|kernel| kernel.kernel.as_ref());
        Self {
            rank: row.rank,
            row: row.row.0,
            tenant: kernel.map(|kernel| kernel.tenant.clone()),
            kernel: facts.map(|facts| facts.name.clone()),
            stop: row.stop,
            budget: row.budget,
            fits: kernel.map(|kernel| kernel.fits),
            cells: row.cells.iter().map(cell).collect(),
        }
    }
}
