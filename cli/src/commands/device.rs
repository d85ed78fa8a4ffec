//! `gridmux device`: the device of a running service.

use super::policy;
use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, age, host};
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_mediator::device::{Residency, Timing};
use gridmux_mediator::link::PolicyInForce;
use gridmux_mediator::supervisor::{HostState, ServiceStatistics};
use serde::Serialize;

/// Commands on the device.
#[derive(Debug, Subcommand)]
pub(crate) enum Device {
    /// What it is, which policy it obeys, and what is in use
    Show(Show),
}

/// Shows the device.
#[derive(Debug, Args)]
#[command(after_help = LINES)]
pub(crate) struct Show {
    #[command(flatten)]
    service: ServiceArgs,
}

/// The legend of the lines.
const LINES: &str = "\
Lines:
  policy       the one that was chosen; and the one that decides meanwhile, where
               another one has taken its place, and why
  SMs          of the device or, of a model, as many as it has
  memory       of the device: what tenants hold of it
  time         by the device's clock, since the device host began: virtual on a
               timed model, estimated on a functional one
  residency    how it is known which blocks are on the device: exact, or stamped
               by a part of the blocks when they start and end
  tenants      how many are configured, and their clients; not greeted:
               processes that are connected and no clients yet
  device host  the process that holds the device, and how often it was replaced
  eBPF         measures what `gridmux latency` shows; without it, and always for
               `gridmux tenant show`, the service does that itself
  figures      how old they are, where the device host is silent";

/// A device as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    is_model: bool,
    /// How a model treats time: `timed` or `functional`.
    timing: Option<Timing>,
    /// How it knows which blocks are resident: `exact` or `stamped`.
    residency: Residency,
    sms: u16,
    clock_khz: u32,
    max_threads_per_block: u32,
    max_shared_bytes_per_block: u32,
    memory_bytes: u64,
    memory_used_bytes: u64,
    /// The policy that was chosen.
    policy: String,
    /// The one that decides, and for how long; none while no host has said it.
    policy_in_force: Option<PolicyInForce>,
    /// The failure of the policy, if it failed and another one took its place.
    policy_failure: Option<String>,
    /// Device time: virtual or estimated on a modelled device.
    device_now_ns: u64,
    /// How often a client held the virtual clock for the longest wall time permitted.
    holds_expired: u64,
    /// Tenants configured.
    tenants: usize,
    /// Clients connected.
    clients: usize,
    /// Connections of processes that are no clients: not greeted yet, or reading why they are refused.
    connections_not_greeted: u64,
    service_pid: u32,
    /// None while there is no device host.
    host_pid: Option<u32>,
    host_state: HostState,
    /// Milliseconds since the device host wrote its figures.
    age_ms: u64,
    host_restarts: u32,
    ebpf: bool,
    ebpf_instance: Option<String>,
    ebpf_unavailable: Option<String>,
    /// How old the figures are, in words, where they are not those of now.
    #[serde(skip)]
    age: Option<String>,
}

impl Device {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Show(show) => {
                let shown = Shown::from(show.service.statistics()?);
                out.show(&shown, || shown.text())
            }
        }
    }
}

impl From<ServiceStatistics> for Shown {
    fn from(service: ServiceStatistics) -> Self {
        let age = age(&service);
        let device = service.host.device;
        let clients = service.host.tenants.iter();
        let clients: usize = clients.map(|tenant| tenant.clients.len()).sum();
        Self {
            name: device.name,
            is_model: device.is_model,
            timing: device.timing,
            residency: device.residency,
            sms: device.sms,
            clock_khz: device.clock_khz,
            max_threads_per_block: device.max_threads_per_block,
            max_shared_bytes_per_block: device.max_shared_bytes_per_block,
            memory_bytes: device.memory_bytes,
            memory_used_bytes: service.host.memory_used_bytes,
            policy: service.host.policy,
            policy_in_force: service.host.policy_in_force,
            policy_failure: service.host.policy_failure,
            device_now_ns: service.host.device_now_ns,
            holds_expired: service.host.holds_expired,
            tenants: service.host.tenants.len(),
            clients,
            // Clients that left and still hold something have no connection.
            connections_not_greeted: service.connections.saturating_sub(clients as u64),
            age,
            service_pid: service.pid,
            host_pid: service.host_pid,
            host_state: service.host_state,
            age_ms: service.age_ms,
            host_restarts: service.host_restarts,
            ebpf: service.ebpf_instance.is_some(),
            ebpf_instance: service.ebpf_instance,
            ebpf_unavailable: service.ebpf_unavailable,
        }
    }
}

impl Shown {
    fn policy(&self) -> String {
        let in_force = self.policy_in_force.as_ref();
        let shown = policy::in_force(&self.policy, in_force);
        match &self.policy_failure {
            Some(failure) => format!("{shown}; {} failed: {failure}", self.policy),
            None => shown,
        }
    }

    fn text(&self) -> String {
        let clock = match self.timing {
            Some(Timing::Timed) => "virtual",
            Some(Timing::Functional) => "estimated",
            None => "device",
        };
        let ebpf = match (&self.ebpf_instance, &self.ebpf_unavailable) {
            (Some(instance), _) => format!("instance {instance}"),
            (None, Some(reason)) => format!("not available: {reason}"),
            (None, None) => "not available".to_owned(),
        };
        let used = format!(
            "{} of {} used",
            units::bytes(self.memory_used_bytes),
            units::bytes(self.memory_bytes)
        );
        let lines = [
            ("device", self.name.clone()),
            ("policy", self.policy()),
            (
                "SMs",
                format!("{} at {} MHz", self.sms, self.clock_khz / 1000),
            ),
            ("memory", used),
            (
                "time",
                format!("{} ({clock} clock)", units::nanos(Some(self.device_now_ns))),
            ),
            ("residency", self.residency.to_string()),
            (
                "tenants",
                format!(
                    "{}, {} connected{}",
                    self.tenants,
                    units::counted(self.clients as u64, "client"),
                    match self.connections_not_greeted {
                        0 => String::new(),
                        n => format!(", {} not greeted", units::counted(n, "connection")),
                    }
                ),
            ),
            (
                "device host",
                format!(
                    "{}, {}",
                    host(&self.host_state, self.host_pid),
                    units::counted(self.host_restarts.into(), "restart")
                ),
            ),
            ("service", format!("pid {}", self.service_pid)),
            ("eBPF", ebpf),
        ];
        let age = self.age.iter().map(|age| ("figures", age.clone()));
        table::fields(lines.into_iter().chain(age))
    }
}
