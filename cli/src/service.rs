//! Asking a running service.

use crate::failure::Failure;
use clap::Args;
use gridmux_mediator::supervisor::{AdminError, AdminReply, AdminRequest, ServiceStatistics, ask};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Where the sockets of a service live unless its configuration says otherwise.
pub(crate) const DEFAULT_RUN_DIR: &str = "/run/gridmux";

/// Which service.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// Folder of the service's sockets
    #[arg(long, value_name = "DIR", default_value = DEFAULT_RUN_DIR)]
    pub(crate) run_dir: PathBuf,
}

impl ServiceArgs {
    /// Takes a reading of the service.
    ///
    /// # Errors
    /// Nobody serves there, or it does not answer.
    pub(crate) fn statistics(&self) -> Result<ServiceStatistics, Failure> {
        match ask(&self.run_dir, &AdminRequest::Statistics) {
            Ok(AdminReply::Statistics(statistics)) => Ok(*statistics),
            Ok(_) => Err(Failure::new(
                "the service answered something else than was asked",
            )),
            Err(error) => Err(explain(error)),
        }
    }
}

fn explain(error: AdminError) -> Failure {
    let hint = match &error {
        AdminError::Connect { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => Some("ask as the user that runs the service"),
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
