//! `gridmux workload run`: one workload as a tenant, its results checked.

use super::closed_loop::{self, Timings};
use super::directions::Directions;
use super::lane::Lane;
use super::report::Report;
use crate::failure::Failure;
use crate::output::Output;
use crate::service::DEFAULT_RUN_DIR;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use gridmux_mediator::supervisor::CLIENT_SOCKET;
use gridmux_policy::metrics::Percentiles;
use gridmux_tenant::{CallError, ClientError, ConnectOptions, ControlCode, Gpu};
use gridmux_workloads::{Case, Size, Workload, by_name, workloads};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The hint about a lost connection.
const LOST_HINT: &str = "the service was stopped (start it with `gridmux serve`), or it replaces a device host that \
                         failed (run this again)";
/// The hint where the tenant was taken out of the configuration.
const REMOVED_HINT: &str =
    "`gridmux tenant list` shows the tenants that there are; root adds one to the configuration";

/// Which launches latencies are of, behind the options.
const NOTES: &str = "\
Launch latency is from a launch's submission to the start of its first block, completion latency to the end of its \
last block, on the device's clock. A launch counts as submitted when the one before it in its stream has ended, so that \
the first launch of each stream is left out. Percentiles are values that occurred; `gridmux tenant show` places them in \
bins, of all launches.";

/// Runs a workload.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Run {
    /// Workload (`gridmux workload list`)
    #[arg(value_name = "NAME", value_parser = names(), hide_possible_values = true)]
    name: String,
    /// Folder of the service's sockets
    #[arg(long, value_name = "DIR", default_value = DEFAULT_RUN_DIR, value_hint = ValueHint::DirPath)]
    run_dir: PathBuf,
    /// The service's socket for clients, instead of the one in that folder
    #[arg(long, value_name = "PATH", conflicts_with = "run_dir")]
    socket: Option<PathBuf>,
    /// Tenant to be accounted to, instead of the first one that this process may be
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Problem size
    #[arg(long, value_name = "SIZE", default_value = "small", value_parser = size_parser())]
    size: Size,
    /// Problem size in elements instead; `gridmux workload list` says what they are
    #[arg(long, value_name = "N")]
    elements: Option<u32>,
    /// Seed of the inputs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Streams, each with buffers of its own and one launch in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: u16,
    /// Launches over all streams together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    launches: u64,
    /// Say when everything is set up, hold the clock at a line on stdin, start at another, disconnect at a third
    #[arg(long)]
    wait_go: bool,
    /// Say how many launches have ended, now and then
    #[arg(long)]
    progress: bool,
}

impl Run {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let workload = by_name(&self.name).expect("the parser takes no other name");
        // Made before connecting, so that no clock waits for it.
        let mut params = workload.params(self.size, self.seed);
        params.elements = self.elements.unwrap_or(params.elements);
        let case = workload.case_with(params).map_err(Failure::usage)?;
        let options = ConnectOptions {
            name: format!("gridmux workload {}", workload.name),
            tenant: self.tenant.clone(),
        };
        let socket = self.socket.clone();
        let socket = socket.unwrap_or_else(|| self.run_dir.join(CLIENT_SOCKET));
        let gpu = Gpu::connect_to(&socket, options).map_err(|error| explain(error, &socket))?;
        let tenant = gpu.welcome().tenant.clone();
        let directions = Directions::new(out, self.wait_go, self.progress);
        let report = self.drive(&gpu, workload, &case, directions, out);
        report.map_err(|failure| in_context(failure, &tenant))
    }

    fn drive(
        &self,
        gpu: &Gpu,
        workload: &Workload,
        case: &Case,
        mut directions: Directions<'_>,
        out: &Output,
    ) -> Result<(), Failure> {
        let text = gridmux_workloads::portable(case.ptx);
        let kernel = gpu.module(text.as_bytes())?.kernel(case.entry)?;
        let streams =
            usize::from(self.streams).min(usize::try_from(self.launches).unwrap_or(usize::MAX));
        let mut lanes = Vec::with_capacity(streams);
        for _ in 0..streams {
            lanes.push(Lane::set_up(gpu, &kernel, case)?);
        }
        directions.await_go(gpu)?;
        let launches = self.launches;
        let timings = closed_loop::run(gpu, &mut lanes, launches, |ended| {
            directions.progress(ended, launches)
        })?;
        let mismatch = verify(gpu, case, &lanes)?;
        let report = self.report(gpu, workload, case, mismatch, timings);
        out.show(&report, || report.text())?;
        directions.await_leave()?;
        drop(lanes);
        if report.verified {
            Ok(())
        } else {
            Err(Failure::reported())
        }
    }

    fn report(
        &self,
        gpu: &Gpu,
        workload: &Workload,
        case: &Case,
        mismatch: Option<String>,
        timings: Timings,
    ) -> Report {
        let facts = gpu.facts();
        let none = Percentiles::of(Vec::new());
        let report = Report {
            name: gpu.welcome().tenant.clone(),
            workload: workload.name,
            size: self.size,
            elements: case.params.elements,
            seed: self.seed,
            launches: self.launches,
            streams: self.streams,
            verified: mismatch.is_none(),
            mismatch,
            device: facts.name.clone(),
            clock: if facts.is_model { "virtual" } else { "device" },
            first_start_ns: 0,
            last_end_ns: 0,
            launch_latency_ns: none,
            completion_latency_ns: none,
            latency_ns: none,
            run_ns: none,
        };
        report.with_timings(timings)
    }
}

/// Returns what is wrong with the outputs of the first stream that is wrong. Every stream has run.
///
/// All of them are read before any is judged: the host's own arithmetic takes its time, for which no clock has to wait,
/// and what is submitted after it would come at a time that depends on the host.
fn verify(gpu: &Gpu, case: &Case, lanes: &[Lane<'_>]) -> Result<Option<String>, Failure> {
    let outputs: Result<Vec<_>, _> = lanes.iter().map(Lane::read_outputs).collect();
    let outputs = outputs?;
    gpu.think();
    for (stream, outputs) in outputs.iter().enumerate() {
        if let Err(mismatch) = case.verify(outputs) {
            return Ok(Some(format!("stream {stream}: {mismatch}")));
        }
    }
    Ok(None)
}

/// Returns the parser of an argument that names a workload: it knows all of them.
fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(workloads().iter().map(|workload| workload.name))
}

/// Returns the parser of an argument that is a size: it knows all of them.
fn size_parser() -> impl TypedValueParser<Value = Size> {
    PossibleValuesParser::new(Size::ALL.map(Size::name)).try_map(|name| name.parse::<Size>())
}

/// Adds to a connection that failed what to do about it, which depends on who refused it.
fn explain(error: ClientError, socket: &Path) -> Failure {
    if socket
        .file_name()
        .is_some_and(|name| name == "control.sock")
    {
        let message = format!("{} is the operators' socket", socket.display());
        return Failure::new(message).hint("clients connect to gridmux.sock beside it");
    }
    let hint = match &error {
        ClientError::Call(CallError::Connect { error, .. }) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Some("start it with `gridmux serve`, or name its folder with --run-dir")
            }
            ErrorKind::PermissionDenied => Some(
                "run it as the user that runs the service, or give a tenant of the configuration a rule (`user`, \
                 `group` or `cgroup`) that this user meets",
            ),
            _ => None,
        },
        ClientError::Call(CallError::Control(refusal)) => match refusal.code {
            ControlCode::Denied => Some("name a tenant that you may be with --tenant, or none"),
            ControlCode::NotWelcome => Some(
                "who may be a tenant is said by the rules (`user`, `group`, `cgroup`) in the service's configuration",
            ),
            ControlCode::Limit => Some("try again when a client has left"),
            ControlCode::Version => Some("use the `gridmux` that the service was started with"),
            _ => None,
        },
        _ => None,
    };
    let names_socket = matches!(&error, ClientError::Call(CallError::Connect { .. }));
    let failure = match names_socket {
        true => Failure::from(error),
        false => lost(anyhow::Error::from(error))
            .context(format!("connecting to {}", socket.display()))
            .into(),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Replaces the client library's text for a lost connection by one for users of the command; returns other errors
/// unchanged.
fn lost(error: anyhow::Error) -> anyhow::Error {
    let reason = match error.downcast_ref::<ClientError>() {
        Some(ClientError::DeviceLost(reason)) => reason.to_string(),
        Some(ClientError::Call(CallError::Closed)) => "the service closed it".to_owned(),
        Some(ClientError::Call(CallError::Socket(errno))) => errno.desc().to_owned(),
        _ => return error,
    };
    anyhow::anyhow!("the connection to the service was lost: {reason}")
}

fn in_context(failure: Failure, tenant: &str) -> Failure {
    let Some(error) = failure.error else {
        return failure;
    };
    let of_loss = match error.downcast_ref::<ClientError>() {
        Some(error) if error.is_removed() => Some(REMOVED_HINT),
        Some(error) if error.is_lost() => Some(LOST_HINT),
        _ => None,
    };
    let hint = failure.hint.or_else(|| of_loss.map(str::to_owned));
    let error = if error.is::<crate::output::StdoutFailed>() {
        error
    } else {
        lost(error).context(format!("tenant {tenant}"))
    };
    Failure {
        error: Some(error),
        hint,
        code: failure.code,
    }
}
