//! A round: a service of its own with some tenants, a client of each, all begun together, and what both say of it.

use super::client::CLIENT;
use super::job::{Clock, Job, Report, Work};
use super::process::Process;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Wall time for which a client may hold a modelled device's clock, in milliseconds: all that it has to do until it
/// waits again, on a busy machine.
const CLOCK_HOLD_MS: u32 = 60_000;

/// What rounds are run with.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The service's command.
    pub gridmux: PathBuf,
    /// gridmux's driver library.
    pub libcuda: PathBuf,
    /// The system's driver library, for programs without the service.
    pub library: OsString,
    /// The device that the service shares: `cuda:N` or `model:NAME`.
    pub device: String,
    /// SMs of a modelled device.
    pub sms: u16,
    /// What keeps tenants apart (`device.isolation`).
    pub isolation: &'static str,
    /// When the running part is to be over.
    pub deadline: Instant,
}

/// A tenant of a round with its one client.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The tenant's name, unique in the round.
    pub tenant: String,
    /// Its weight.
    pub weight: u32,
    /// Its class.
    pub class: &'static str,
    /// What its client runs.
    pub work: Work,
}

impl Seat {
    /// Returns a tenant of weight 1 and the class `normal`.
    #[must_use]
    pub fn new(tenant: impl Into<String>, work: Work) -> Self {
        Self {
            tenant: tenant.into(),
            weight: 1,
            class: "normal",
            work,
        }
    }

    /// Returns whether it runs until the command to stop.
    const fn is_endless(&self) -> bool {
        matches!(self.work, Work::Endless { ns: None, .. })
    }

    /// Returns whether every single stamp is wanted.
    const fn leaves_stamps(&self) -> bool {
        matches!(self.work, Work::Endless { ns: Some(_), .. })
    }
}

/// What a tenant's client and the service say of it.
#[derive(Debug, Clone)]
pub struct Told {
    /// The client's report.
    pub report: Report,
    /// Where it left the stamps of its blocks, if its work is endless and has a time.
    pub stamps: PathBuf,
    /// The tenant as `gridmux tenant show` has it; null without a service.
    pub tenant: Value,
}

/// What came of a round.
#[derive(Debug)]
pub struct Round {
    /// The report of each seat.
    pub told: Vec<Told>,
    /// How often a client held a modelled device's clock for too long: with any, figures depend on the host.
    pub holds_expired: u64,
    /// Holds the files; they go with the round.
    _folder: tempfile::TempDir,
}

impl Bench {
    /// Returns whether the device is a model.
    #[must_use]
    pub fn is_model(&self) -> bool {
        self.device.starts_with("model:")
    }

    /// Returns how the device's time passes.
    #[must_use]
    pub fn clock(&self) -> Clock {
        match self.is_model() {
            true => Clock::Lockstep,
            false => Clock::Real,
        }
    }

    /// Runs clients as tenants of a service under a policy.
    ///
    /// # Errors
    /// The service or a client fails, or the part's time is over.
    pub fn round(&self, policy: &str, seats: &[Seat]) -> anyhow::Result<Round> {
        let folder = folder()?;
        let service = self.serve(policy, seats, folder.path())?;
        let socket = folder.path().join("gridmux.sock");
        let mut clients = Vec::new();
        for seat in seats {
            let mut client = self.client(seat, folder.path(), |command| {
                command
                    .arg(&self.libcuda)
                    .env("GRIDMUX_SOCKET", &socket)
                    .env("GRIDMUX_TENANT", &seat.tenant);
            })?;
            client.expect("ready")?;
            clients.push(client);
        }
        let reports = follow(seats, &mut clients)?;
        for client in clients {
            client.end()?;
        }
        let [tenants, device] = [self.ask("tenant", &folder)?, self.ask("device", &folder)?];
        service.terminate()?;
        let told = seats.iter().zip(reports).map(|(seat, report)| {
            let rows = tenants.as_array().into_iter().flatten();
            let row = rows.clone().find(|row| row["name"] == *seat.tenant);
            Told {
                report,
                stamps: stamps_of(seat, folder.path()),
                tenant: row.cloned().unwrap_or_default(),
            }
        });
        Ok(Round {
            told: told.collect(),
            holds_expired: device["holds_expired"].as_u64().unwrap_or(0),
            _folder: folder,
        })
    }

    /// Runs one client straight on the device, through the system's driver library.
    ///
    /// # Errors
    /// As [`Bench::round`].
    pub fn native(&self, work: &Work) -> anyhow::Result<Report> {
        let folder = folder()?;
        let seats = [Seat::new("native", work.clone())];
        let mut client = self.client(&seats[0], folder.path(), |command| {
            command.arg(&self.library);
        })?;
        client.expect("ready")?;
        let mut clients = [client];
        let report = follow(&seats, &mut clients)?.into_iter().next();
        let [client] = clients;
        client.end()?;
        report.context("a client that reports nothing")
    }

    /// Starts the service and waits until it is ready.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn serve(
        &self,
        policy: &str,
        seats: &[Seat],
        folder: &Path,
    ) -> anyhow::Result<Process> {
        let config = folder.join("gridmux.toml");
        std::fs::write(&config, self.config(policy, seats, folder))?;
        let mut command = Command::new(&self.gridmux);
        command.args(["-j", "serve", "--config"]).arg(&config);
        let mut service = Process::start("service", &mut command, folder, self.deadline)?;
        service.expect("ready")?;
        Ok(service)
    }

    /// Returns why the service would not start for these tenants, if so.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(super) fn refuses(&self, policy: &str, seats: &[Seat]) -> anyhow::Result<Option<String>> {
        let folder = folder()?;
        let config = folder.path().join("gridmux.toml");
        std::fs::write(&config, self.config(policy, seats, folder.path()))?;
        let asked = Command::new(&self.gridmux)
            .args(["-j", "serve", "--check", "--config"])
            .arg(&config)
            .output()
            .context("gridmux cannot be started")?;
        let said = String::from_utf8_lossy(&asked.stdout);
        Ok((!asked.status.success()).then(|| said.trim().to_owned()))
    }

    /// Returns the text of the service's configuration.
    fn config(&self, policy: &str, seats: &[Seat], folder: &Path) -> String {
        let instance = format!("check-{}", std::process::id());
        let mut text = format!(
            "schema_version = 1\nrun_dir = {folder:?}\ninstance = {instance:?}\npolicy = {policy:?}\n\
             [limits]\nclock_hold_ms = {CLOCK_HOLD_MS}\n[device]\nkind = {:?}\nisolation = {:?}\n",
            self.device, self.isolation
        );
        // Writing to a string does not fail.
        if self.is_model() {
            let _ = writeln!(text, "clock = \"lockstep\"\nsms = {}", self.sms);
        }
        for seat in seats {
            let _ = writeln!(
                text,
                "[[tenant]]\nname = {:?}\nweight = {}\nclass = {:?}",
                seat.tenant, seat.weight, seat.class
            );
        }
        text
    }

    /// Starts a client; `with` adds the driver library and what that needs.
    fn client(
        &self,
        seat: &Seat,
        folder: &Path,
        with: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Process> {
        let job = Job {
            clock: self.clock(),
            work: seat.work.clone(),
            stamps: seat.leaves_stamps().then(|| stamps_of(seat, folder)),
        };
        let program = std::env::current_exe().context("this program has no path")?;
        let mut command = Command::new(program);
        command
            .args([CLIENT, "--job", &serde_json::to_string(&job)?, "--library"])
            .env("CUDA_MODULE_LOADING", "EAGER")
            .env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
        with(&mut command);
        Process::start(&seat.tenant, &mut command, folder, self.deadline)
    }

    /// Asks the service about its tenants or its device.
    fn ask(&self, what: &str, folder: &tempfile::TempDir) -> anyhow::Result<Value> {
        let asked = Command::new(&self.gridmux)
            .args(["-j", what, "show", "--run-dir"])
            .arg(folder.path())
            .output()
            .context("gridmux cannot be started")?;
        let said = String::from_utf8_lossy(&asked.stderr);
        ensure!(asked.status.success(), "gridmux {what} show: {said}");
        serde_json::from_slice(&asked.stdout).with_context(|| format!("gridmux {what} show"))
    }
}

/// Lets clients that are ready begin together, ends the endless ones when all others have ended, and hears all.
fn follow(seats: &[Seat], clients: &mut [Process]) -> anyhow::Result<Vec<Report>> {
    for client in &mut *clients {
        client.say("hold");
        client.expect("held")?;
    }
    for client in &mut *clients {
        client.say("go");
    }
    let is_endless = |at: usize| seats[at].is_endless();
    for at in (0..seats.len()).filter(|at| !is_endless(*at)) {
        clients[at].expect("ran")?;
    }
    for at in (0..seats.len()).filter(|at| is_endless(*at)) {
        clients[at].say("stop");
    }
    for at in (0..seats.len()).filter(|at| is_endless(*at)) {
        clients[at].expect("ran")?;
    }
    let mut reports = Vec::new();
    for client in &mut *clients {
        client.say("finish");
        reports.push(serde_json::from_value(client.expect("report")?)?);
    }
    Ok(reports)
}

/// Returns where a client leaves its stamps.
fn stamps_of(seat: &Seat, folder: &Path) -> PathBuf {
    folder.join(format!("{}.stamps", seat.tenant))
}

/// Makes the folder of a round. A socket's path is at most 107 bytes, so the folder's is short.
fn folder() -> anyhow::Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("gmc").tempdir();
    made.context("a temporary folder")
}
