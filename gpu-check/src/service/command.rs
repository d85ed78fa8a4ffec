//! The commands `service`, which runs the parts, and `service-client`, which is a client of theirs.

use super::bench::{Bench, Seat};
use super::job::{Job, Stamped, Work};
use super::{Desk, PARTS, ServicePart, client};
use crate::cuda::Cubins;
use crate::finding::{End, Finding, PartReport};
use crate::lab::Scale;
use crate::parts;
use crate::progress::{self, Each};
use crate::runner::{self, Settings};
use anyhow::{Context, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The part that tells of the device, in front of all others.
const DEVICE: &str = "device";
/// What it finds out.
const ABOUT_DEVICE: &str = "what the driver says of itself and of the device";
/// A modelled device of a run that names none: this one, with so few SMs that a quick run takes seconds.
const MODEL: &str = "model:h200";
const MODEL_SMS: u16 = 4;

/// Run gridmux's service on a device and measure it through its clients, programs that know nothing of it: what
/// mediation costs, latencies beside batch tenants, shares by the stamps of all blocks beside what the service says,
/// STP and ANTT of mixes under three policies, and whether a hostile tenant is kept off. It prints findings as lines of
/// JSON, and the document as the last one; on a card it takes less than six minutes
#[derive(Debug, clap::Args)]
pub struct Service {
    /// The device that the service shares: cuda:N, or model:NAME for a modelled one, whose clock stands still while
    /// clients compute
    #[arg(long, value_name = "DEVICE", default_value = MODEL)]
    device: String,
    /// SMs of a modelled device [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sms: Option<u16>,
    /// The service's command [default: gridmux beside this program]
    #[arg(long, value_name = "PATH")]
    gridmux: Option<PathBuf>,
    /// gridmux's driver library [default: libcuda.so beside this program]
    #[arg(long, value_name = "PATH")]
    libcuda: Option<PathBuf>,
    /// The system's driver library, for what runs straight on a card
    #[arg(long, value_name = "PATH", default_value = "libcuda.so.1")]
    library: OsString,
    /// How large the work is [default: full on a card, quick over a model]
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// Run this part only, behind the one that tells of the device; may be given several times
    #[arg(long, value_name = "NAME", value_parser = part_name())]
    part: Vec<&'static str>,
    /// Write the document to this file, too, at the beginning and anew behind each part
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Begin no part, and end the running one, when this many seconds are over, at most a day
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 350,
        value_parser = clap::value_parser!(u64).range(..=86_400)
    )]
    seconds: u64,
}

/// Run a job as a client.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Client {
    /// What is to be run, as JSON
    #[arg(long, value_name = "JSON", value_parser = job)]
    job: Job,
    /// The driver library
    #[arg(long, value_name = "PATH")]
    library: OsString,
}

/// Returns the parser of a part's name.
fn part_name() -> impl TypedValueParser<Value = &'static str> {
    let names = PossibleValuesParser::new(PARTS.iter().map(|part| part.name));
    names.try_map(|name| {
        by_name(&name)
            .map(|part| part.name)
            .ok_or("there is no such part")
    })
}

/// Returns the part of that name.
fn by_name(name: &str) -> Option<&'static ServicePart> {
    PARTS.iter().find(|part| part.name == name)
}

/// Reads a job.
fn job(text: &str) -> serde_json::Result<Job> {
    serde_json::from_str(text)
}

impl Client {
    /// Runs the job.
    ///
    /// # Errors
    /// The driver's, or nobody says what is to be done.
    pub fn run(&self) -> anyhow::Result<()> {
        client::run(&self.library, &self.job)
    }
}

impl Service {
    /// Runs the parts; returns whether all is well.
    ///
    /// # Errors
    /// The programs are not where they should be, or the document cannot be written.
    pub fn run(&self) -> anyhow::Result<bool> {
        let bench = Bench {
            gridmux: beside(self.gridmux.as_deref(), "gridmux", "--gridmux")?,
            libcuda: beside(self.libcuda.as_deref(), "libcuda.so", "--libcuda")?,
            library: self.library.clone(),
            device: self.device.clone(),
            sms: self.sms.unwrap_or(MODEL_SMS),
            isolation: "shared",
            deadline: Instant::now() + Duration::from_secs(self.seconds),
        };
        let default = match bench.is_model() {
            true => Scale::Quick,
            false => Scale::Full,
        };
        let scale = self.scale.unwrap_or(default);
        let parts = PARTS
            .iter()
            .filter(|part| self.part.is_empty() || self.part.contains(&part.name));
        let parts: Vec<_> = parts.collect();
        let names = parts.iter().map(|part| (part.name, part.about));
        let names: Vec<_> = [(DEVICE, ABOUT_DEVICE)].into_iter().chain(names).collect();
        let mut sms = None;
        progress::follow(scale, &names, self.out.as_deref(), |at, each| {
            let Some(at) = at.checked_sub(1) else {
                let report = tell_device(&bench, each)?;
                sms = sms_of(&report);
                return Ok(report);
            };
            match sms {
                Some(sms) => run(parts[at], &bench, (scale, sms), each),
                // Nothing can be run on a device that cannot be asked.
                None => Ok(PartReport::not_begun(parts[at].name)),
            }
        })
    }
}

/// Returns the path of a program's companion: where it is said to be, or beside this program.
fn beside(named: Option<&Path>, file: &str, option: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("this program has no path")?;
    let path = named.map_or_else(|| program.with_file_name(file), Path::to_owned);
    ensure!(
        path.is_file(),
        "there is no {}; say with {option} PATH where it is (`cargo xtask gpu-check --service` builds it)",
        path.display()
    );
    Ok(path)
}

/// Runs a part in this process; its clients and its service are processes of their own.
fn run(
    part: &ServicePart,
    bench: &Bench,
    (scale, sms): (Scale, u32),
    each: Each<'_>,
) -> anyhow::Result<PartReport> {
    let start = Instant::now();
    if bench.deadline <= start {
        return Ok(PartReport::not_begun(part.name));
    }
    let limit = start + Duration::from_secs(part.limit_s);
    let bench = Bench {
        deadline: bench.deadline.min(limit),
        ..bench.clone()
    };
    let (mut findings, mut unheard) = (Vec::new(), Ok(()));
    let mut sink = |finding: Finding| {
        if unheard.is_ok() {
            unheard = each(&finding);
        }
        findings.push(finding);
    };
    let mut desk = Desk {
        bench: &bench,
        scale,
        sms,
        sink: &mut sink,
    };
    let ended = (part.run)(&mut desk);
    unheard?;
    let end = match ended {
        Ok(()) => End::Done,
        Err(_) if Instant::now() >= bench.deadline => End::TimedOut {
            limit_s: start.elapsed().as_secs(),
        },
        Err(error) => End::Failed {
            error: format!("{error:#}"),
        },
    };
    Ok(PartReport {
        part: part.name.to_owned(),
        end,
        seconds: start.elapsed().as_secs_f64(),
        findings,
    })
}

/// Tells of the device: through the system's driver library, or of a modelled one through the service.
fn tell_device(bench: &Bench, each: Each<'_>) -> anyhow::Result<PartReport> {
    let part = parts::by_name(DEVICE).context("there is no part that tells of the device")?;
    let mut settings = Settings {
        library: bench.library.clone(),
        scale: Scale::Quick,
        cubins: Cubins::new(None, None),
        deadline: bench.deadline,
        variables: Vec::new(),
    };
    let shared = Finding::Fact {
        name: "shared by the service".to_owned(),
        value: json!({"device": bench.device, "clock": bench.clock()}),
    };
    each(&shared)?;
    let mut report = match bench.is_model() {
        false => runner::run(part, &settings, each)?,
        true => {
            let folder = tempfile::tempdir().context("a temporary folder")?;
            // Its client is the part, which is none of ours.
            let seat = Seat::new(
                "device",
                Work::Burst {
                    kernel: Stamped::even(1, 0),
                    streams: 1,
                    launches: 1,
                },
            );
            let service = bench.serve("fifo", &[seat], folder.path())?;
            settings.library = bench.libcuda.clone().into();
            let socket = folder.path().join("gridmux.sock");
            settings.variables = vec![("GRIDMUX_SOCKET", socket.into())];
            let report = runner::run(part, &settings, each)?;
            service.terminate()?;
            report
        }
    };
    report.findings.insert(0, shared);
    Ok(report)
}

/// Returns how many SMs the device has, as its part has found out.
fn sms_of(report: &PartReport) -> Option<u32> {
    let value = |finding: &Finding| match finding {
        Finding::Fact { name, value } if name == "sms" => Value::as_u64(value),
        _ => None,
    };
    u32::try_from(report.findings.iter().find_map(value)?).ok()
}
