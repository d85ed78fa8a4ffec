//! `gridmux doctor`: what gridmux needs of this machine, how the service stands, and which programs go past it.
//!
//! Rules: nothing is made, started or changed; each check is one line, and one that is not right comes with the line
//! that mends it; what other processes say of themselves, names and paths, is shown and never believed or obeyed. A
//! failure is what keeps a service from working as it is configured; what only takes something away is a warning.

mod check;
mod machine;
mod nvidia;
mod ours;
mod processes;
mod service;
mod watch;

use crate::failure::Failure;
use crate::output::Output;
use crate::service::ServiceArgs;
use crate::units;
use check::{Check, Verdict};
use clap::{Args, ValueHint};
use gridmux_mediator::supervisor::ServiceStatistics;
use ours::Ours;
use processes::{Process, Scan};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Looks at the machine.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Doctor {
    /// Configuration of the service [default: that of the one that runs; where none does /etc/gridmux/gridmux.toml, if
    /// it exists]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Instead, watch for this many seconds which programs call a driver library that is not gridmux's
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds, conflicts_with = "config")]
    watch: Option<Duration>,
    /// A library that is gridmux's too, as one of another installation; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ours: Vec<PathBuf>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// What is found, and how.
const NOTES: &str = "\
A program goes past the service where it has a driver library mapped (libcuda.so*, libnvidia-*) that is none of the \
files beside this program, or a file /dev/nvidia* open or mapped. The service's own processes are left out. Only root \
sees the processes of others.

--watch needs root and a build with eBPF programs. It puts probes on the functions of such \
libraries that launch kernels, allocate device memory and copy, and counts calls by process until the time is over. A \
call that is probed costs its program more, and so do the calls of the device host of a service on a GPU, which uses \
the same library: look for as short as will do. With -j each program that is found is a line, and so is the \
summary at the end.

Exit status: 0 where nothing fails, warnings or not; 1 where a check fails.";

/// All that was found.
#[derive(Debug, Serialize)]
struct Report {
    /// Nothing fails.
    ok: bool,
    checks: Vec<Check>,
    /// Processes that use a GPU, or could, and not through gridmux.
    bypassing: Vec<Process>,
}

impl Doctor {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let ours = Ours::find(&self.ours)?;
        if let Some(time) = self.watch {
            let own = || pids_of(service::service(&self.service).1.as_ref());
            return watch::run(time, &ours, &own, out);
        }
        let report = self.report(&ours);
        out.show(&report, || report.text())?;
        match report.ok {
            true => Ok(()),
            false => Err(Failure::reported()),
        }
    }

    fn report(&self, ours: &Ours) -> Report {
        let mut checks = machine::checks();
        let (found, statistics) = service::service(&self.service);
        let (configuration, device) =
            service::configuration(self.config.as_deref(), statistics.as_ref());
        let on_model = statistics.as_ref().map(|of| of.host.device.is_model);
        let wants_gpu = on_model.map_or_else(|| device.starts_with("cuda:"), |is_model| !is_model);
        checks.push(nvidia::driver(wants_gpu));
        checks.extend(found);
        checks.extend(configuration);
        checks.push(service::libraries());
        let scan = processes::scan(ours, &pids_of(statistics.as_ref()));
        checks.extend(bypassing(&scan));
        Report {
            ok: checks.iter().all(|of| of.verdict != Verdict::Failure),
            checks,
            bypassing: scan.found,
        }
    }
}

/// Returns the service's own processes, which may use the driver.
fn pids_of(statistics: Option<&ServiceStatistics>) -> Vec<u32> {
    let of = statistics.into_iter();
    of.flat_map(|of| [Some(of.pid), of.host_pid].into_iter().flatten())
        .collect()
}

/// Says who goes past the service.
fn bypassing(scan: &Scan) -> Vec<Check> {
    const ABOUT: &str = "bypass";
    let mut checks: Vec<Check> = scan
        .found
        .iter()
        .map(|process| {
            let remedy = match process.libraries.is_empty() {
                true => "a daemon of the driver's or a display server may do so; what computes: gridmux run -- COMMAND",
                false => "end it, and start it as a tenant: gridmux run -- COMMAND",
            };
            Check::warning(ABOUT, process.in_words(), remedy)
        })
        .collect();
    if scan.unread > 0 {
        let message = format!("processes that may not be looked at: {}", scan.unread);
        let remedy = "ask as root, outside of containers, with CAP_SYS_PTRACE; of a process that is ending nobody may";
        checks.push(Check::warning(ABOUT, message, remedy));
    }
    if let Some(failure) = &scan.failure {
        let message = format!("not every process could be looked at: {failure}");
        checks.push(Check::warning(
            ABOUT,
            message,
            "ulimit -n 4096, or ask as root",
        ));
    }
    if checks.is_empty() {
        let said = format!(
            "none of {} processes uses a GPU past gridmux",
            scan.looked_at
        );
        checks.push(Check::ok(ABOUT, said));
    }
    checks
}

impl Report {
    fn text(&self) -> String {
        check::text(&self.checks)
    }
}
