//! The service, its configuration, and the libraries beside this program.

use super::check::{Check, Verdict};
use crate::commands::run::{Place, places};
use crate::commands::serve::{self, DEFAULT_CONFIG};
use crate::service::{ServiceArgs, age, host};
use crate::units;
use gridmux_mediator::supervisor::{
    AdminError, AdminReply, AdminRequest, HostState, ServiceStatistics, ask,
};
use std::io::ErrorKind;
use std::path::Path;

const ABOUT: &str = "service";
const RESTART: &str = "systemctl restart gridmux";

/// Asks the service how it stands; gives what it said, too.
pub(super) fn service(args: &ServiceArgs) -> (Vec<Check>, Option<ServiceStatistics>) {
    match ask(&args.run_dir, &AdminRequest::Statistics) {
        Ok(AdminReply::Statistics(statistics)) => {
            let mut checks = vec![standing(&statistics)];
            if let Some(why) = &statistics.ebpf_unavailable {
                let message = format!("its latencies are measured without eBPF: {why}");
                checks.push(Check::warning(ABOUT, message, "run the service as root"));
            }
            (checks, Some(*statistics))
        }
        Ok(_) => {
            let message = "it answered something else than was asked: it is of another version";
            (vec![Check::failure(ABOUT, message, RESTART)], None)
        }
        Err(error) => (vec![unreachable(&error, &args.run_dir)], None),
    }
}

fn unreachable(error: &AdminError, run_dir: &Path) -> Check {
    let source = match error {
        AdminError::Connect { source, .. } => Some(source.kind()),
        _ => None,
    };
    match source {
        Some(ErrorKind::NotFound) => Check::warning(
            ABOUT,
            format!("none runs at {}", run_dir.display()),
            "systemctl start gridmux, or gridmux serve; --run-dir names another folder",
        ),
        Some(ErrorKind::ConnectionRefused) => Check::failure(
            ABOUT,
            format!(
                "the one at {} has ended and left its socket",
                run_dir.display()
            ),
            RESTART,
        ),
        Some(ErrorKind::PermissionDenied) => {
            Check::warning(ABOUT, error.to_string(), "sudo gridmux doctor")
        }
        _ => Check::failure(ABOUT, format!("it is wedged: {error}"), RESTART),
    }
}

/// Says how the device host stands, and how old its figures are.
fn standing(statistics: &ServiceStatistics) -> Check {
    let state = host(&statistics.host_state, statistics.host_pid);
    let told = format!(
        "process {}, {}, policy {}, device host {state}",
        statistics.pid, statistics.host.device.name, statistics.host.policy
    );
    let old = units::nanos(Some(statistics.age_ms.saturating_mul(1_000_000)));
    match (&statistics.host_state, age(statistics)) {
        (HostState::Up, None) => Check::ok(ABOUT, format!("{told}; figures are {old} old")),
        (HostState::Up, Some(age)) => Check::failure(
            ABOUT,
            format!("{told}; the host is silent, and figures are {age}"),
            RESTART,
        ),
        (HostState::Starting, _) => Check::warning(ABOUT, told, "wait until the device host is up"),
        (HostState::Down { .. }, _) => Check::failure(ABOUT, told, "journalctl -u gridmux"),
    }
}

/// Looks at the configuration as `gridmux serve --check` does: the one that was named, else that of the service that
/// runs, else the default one; gives its device, too.
pub(super) fn configuration(
    named: Option<&Path>,
    running: Option<&ServiceStatistics>,
) -> (Vec<Check>, String) {
    const ABOUT: &str = "configuration";
    let default = Path::new(DEFAULT_CONFIG);
    let is_running = running.is_some();
    let file = match (named, running) {
        (Some(named), _) => named,
        (None, Some(running)) => match &running.config {
            Some(file) => file,
            None => {
                let message = "the service runs without a file; options say everything";
                return (vec![Check::ok(ABOUT, message)], String::new());
            }
        },
        (None, None) if default.exists() => default,
        (None, None) => {
            let message = format!("{DEFAULT_CONFIG} is not there; options say everything");
            return (vec![Check::ok(ABOUT, message)], String::new());
        }
    };
    let remedy = format!("gridmux serve --check --config {}", file.display());
    let (config, findings) = match serve::examine(file) {
        Ok(examined) => examined,
        Err(failure) => {
            return (
                vec![Check::failure(ABOUT, failure.line(), remedy)],
                String::new(),
            );
        }
    };
    // Where the service runs its folder is taken, as it has to be.
    let is_wrong = |of: &&serve::Finding| match of.verdict {
        serve::Verdict::Ok => false,
        serve::Verdict::Warning => !(is_running && of.key == "run_dir"),
        serve::Verdict::Error => true,
    };
    let wrong = findings.iter().filter(is_wrong).map(|of| {
        let message = format!("{}: {}", of.key, of.message);
        match of.verdict {
            serve::Verdict::Error => Check::failure(ABOUT, message, &*remedy),
            _ => Check::warning(ABOUT, message, &*remedy),
        }
    });
    let mut checks: Vec<Check> = wrong.collect();
    if checks.iter().all(|of| of.verdict != Verdict::Failure) {
        let tenants = units::counted(config.tenants.len() as u64, "tenant");
        let message = format!("{} is right, with {tenants}", file.display());
        checks.insert(0, Check::ok(ABOUT, message));
    }
    (checks, config.device.kind)
}

/// Looks for the libraries that `gridmux run` gives to programs.
pub(super) fn libraries() -> Check {
    const ABOUT: &str = "libraries";
    let (places, remedy) = match places() {
        Ok(found) => found,
        Err(failure) => return Check::failure(ABOUT, failure.line(), "mount -t proc proc /proc"),
    };
    let missing: Vec<&str> = places
        .iter()
        .filter(|place| place.file.is_none())
        .map(|place| place.name)
        .collect();
    match places.first() {
        Some(Place {
            file: Some(driver), ..
        }) if missing.is_empty() => {
            Check::ok(ABOUT, format!("{} and those beside it", driver.display()))
        }
        _ => Check::warning(
            ABOUT,
            format!(
                "not beside this program, so that `gridmux run` lacks them: {}",
                missing.join(", ")
            ),
            remedy,
        ),
    }
}
