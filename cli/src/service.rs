//! Asking a running service.

use crate::failure::Failure;
use crate::units;
use clap::{Args, ValueHint};
use gridmux_mediator::link::TenantFacts;
use gridmux_mediator::page::KernelsSnapshot;
use gridmux_mediator::settings::Change;
use gridmux_mediator::supervisor::{
    AdminError, AdminReply, AdminRequest, HostState, ServiceStatistics, ask,
};
use std::io::ErrorKind;
use std::path::PathBuf;

/// The folder of a service's sockets unless its configuration says otherwise.
pub(crate) const DEFAULT_RUN_DIR: &str = "/run/gridmux";

/// Which service.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// Folder of the service's sockets
    #[arg(long, value_name = "DIR", default_value = DEFAULT_RUN_DIR, value_hint = ValueHint::DirPath)]
    pub(crate) run_dir: PathBuf,
}

impl ServiceArgs {
    /// Takes a reading of the service.
    ///
    /// # Errors
    /// Nobody serves there, or it does not answer.
    pub(crate) fn statistics(&self) -> Result<ServiceStatistics, Failure> {
        self.read(&AdminRequest::Statistics)
    }

    /// Takes a reading of the service, its tenants' kernels included.
    ///
    /// # Errors
    /// As for [`ServiceArgs::statistics`].
    pub(crate) fn kernels(&self) -> Result<ServiceStatistics, Failure> {
        self.read(&AdminRequest::Kernels)
    }

    fn read(&self, request: &AdminRequest) -> Result<ServiceStatistics, Failure> {
        match self.ask(request)? {
            AdminReply::Statistics(statistics) => Ok(*statistics),
            _ => Err(unexpected()),
        }
    }

    /// Asks the service something.
    ///
    /// # Errors
    /// As for [`ServiceArgs::statistics`], and what the service refuses.
    pub(crate) fn ask(&self, request: &AdminRequest) -> Result<AdminReply, Failure> {
        ask(&self.run_dir, request).map_err(explain)
    }

    /// Changes a tenant's settings; returns what they are then, and whether a device host obeys them already.
    ///
    /// # Errors
    /// Those of [`Self::ask`].
    pub(crate) fn change_tenant(&self, change: Change) -> Result<(TenantFacts, bool), Failure> {
        match self.ask(&AdminRequest::Change(change))? {
            AdminReply::Tenant { tenant, host_told } => Ok((*tenant, host_told)),
            _ => Err(unexpected()),
        }
    }
}

/// From when a change holds that no device host obeys yet.
pub(crate) const LATER: &str = "from when a device host is up";

/// Makes the failure of an answer to another question.
pub(crate) fn unexpected() -> Failure {
    Failure::new("the service answered something else than was asked")
}

/// Returns, in words, how long an operator's change holds; without a device host, nobody obeys it yet.
pub(crate) fn holds(host_told: bool) -> String {
    let from = match host_told {
        true => String::new(),
        false => format!("{LATER}, "),
    };
    format!("{from}until the configuration is read again or the service ends")
}

/// Makes the failure of a question to a service, with what to do about it.
pub(crate) fn explain(error: AdminError) -> Failure {
    let hint = match &error {
        AdminError::Connect { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => Some(
                "ask as root or the user that runs the service, or, to read statistics alone, as a member of its \
                 operator_group",
            ),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Some("start it with `gridmux serve`, or name its folder with --run-dir")
            }
            _ => None,
        },
        AdminError::Silent
        | AdminError::Long
        | AdminError::Io(_)
        | AdminError::Reply(_)
        | AdminError::Refused(_) => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Age from which figures are said to be old, in milliseconds: a host that serves writes them when it is asked.
pub(crate) const OLD_MS: u64 = 2000;

/// Returns how old a service's figures are, where they are not those of now.
pub(crate) fn age(service: &ServiceStatistics) -> Option<String> {
    let is_fresh = service.host_state == HostState::Up && service.age_ms < OLD_MS;
    let age_ns = service.age_ms.saturating_mul(1_000_000);
    (!is_fresh).then(|| format!("{} old", units::nanos(Some(age_ns))))
}

/// The reading of the tenants' kernels and of the plan, which is taken apart from the other figures.
#[derive(Debug)]
pub(crate) struct KernelReading {
    /// Milliseconds since the device host took it; none where it has taken none.
    pub(crate) age_ms: Option<u64>,
    pub(crate) reading: KernelsSnapshot,
    /// How the device host stands and how old the reading is, where it is not of now.
    pub(crate) stale: Option<[(&'static str, String); 2]>,
}

impl KernelReading {
    /// Takes the reading out of a service's figures, whose age becomes that of the reading.
    pub(crate) fn take(service: &mut ServiceStatistics) -> Self {
        let (age_ms, reading) = match service.kernels.take() {
            Some(kernels) => (kernels.age_ms, kernels.reading),
            None => Default::default(),
        };
        service.age_ms = age_ms.unwrap_or(service.age_ms);
        let age = match age_ms {
            Some(_) => age(service),
            None => Some("none yet".to_owned()),
        };
        let state = host(&service.host_state, service.host_pid);
        Self {
            age_ms,
            reading,
            stale: age.map(|age| [("device host", state), ("figures", age)]),
        }
    }
}

/// Returns how the device host stands.
pub(crate) fn host(state: &HostState, pid: Option<u32>) -> String {
    let pid = pid.map_or_else(String::new, |pid| format!("pid {pid}"));
    match state {
        HostState::Up => pid,
        HostState::Starting => format!("{pid}, starting"),
        HostState::Down {
            why, retry_in_ms, ..
        } => {
            let again = units::nanos(Some(retry_in_ms.saturating_mul(1_000_000)));
            format!("none ({why}; the next one in {again})")
        }
    }
}

/// Checks that a tenant of that name is configured; the failure names those that are.
pub(crate) fn check_name<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Failure> {
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let hint = format!("configured are: {}", known.collect::<Vec<_>>().join(", "));
    Err(Failure::new(format!("there is no tenant {name:?}")).hint(hint))
}
