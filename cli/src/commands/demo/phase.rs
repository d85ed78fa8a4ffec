//! One phase: a service, some tenants, from start to end.

use super::pictures::Camera;
use super::roles::Role;
use super::workplace::{Caretaker, Workplace};
use crate::failure::Failure;
use crate::speaker::Speaker;
use anyhow::{Context, anyhow};
use gridmux_bpf::{Kind, TenantHistogram};
use gridmux_mediator::supervisor::{
    AdminReply, AdminRequest, CLIENT_SOCKET, ServiceStatistics, ask,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Wall time for which a tenant that does nothing may hold the virtual clock: a busy machine may keep its process
/// waiting.
const CLOCK_HOLD_MS: u64 = 120_000;

/// The device and the policy of a phase.
pub(super) struct Phase<'a> {
    /// For the progress bars.
    pub(super) title: String,
    /// Device.
    pub(super) device: &'a str,
    /// SMs of a modelled device.
    pub(super) sms: Option<u16>,
    /// Policy.
    pub(super) policy: &'a str,
    /// Where pictures of it go.
    pub(super) pictures: Option<&'a Path>,
}

/// Result of a phase.
pub(super) struct Outcome {
    /// Device, as the service names it.
    pub(super) device: String,
    /// Modelled: the clock is virtual.
    pub(super) is_model: bool,
    /// Why launch latency does not come from eBPF; `None` when it does.
    pub(super) ebpf_unavailable: Option<String>,
    /// How often a tenant held the virtual clock for the longest wall time permitted: with any, figures depend on the
    /// host's speed.
    pub(super) holds_expired: u64,
    /// Tenants, in the order of the roles.
    pub(super) tenants: Vec<TenantOutcome>,
}

/// Result of one tenant in a phase.
pub(super) struct TenantOutcome {
    /// Role.
    pub(super) name: &'static str,
    /// Weight.
    pub(super) weight: u32,
    /// Launches that ended.
    pub(super) launches: u64,
    /// Every result was right.
    pub(super) verified: bool,
    /// From the common start to its last launch's end, device clock.
    pub(super) duration_ns: u64,
    /// Part of what all held while it was busy that it was entitled to.
    pub(super) share_entitled: Option<f64>,
    /// Part of what all held while it was busy that it held.
    pub(super) share_got: Option<f64>,
    /// Median and 99th percentile from submission to first block, device clock.
    pub(super) launch_latency_ns: (Option<u64>, Option<u64>),
}

impl Phase<'_> {
    /// Runs the phase.
    pub(super) fn run(
        &self,
        roles: &[Role],
        caretaker: &Caretaker,
        bars: &MultiProgress,
    ) -> Result<Outcome, Failure> {
        let folder = Workplace::new(caretaker)?;
        let instance = format!("demo-{}", std::process::id());
        let config = folder.path().join("gridmux.toml");
        std::fs::write(&config, self.config(folder.path(), &instance, roles))
            .context("writing a configuration")?;
        let mut service = Speaker::start(
            "the service",
            ["serve".as_ref(), "--config".as_ref(), config.as_os_str()],
        )?;
        folder.add(service.process());
        service.expect("ready")?;
        let mut tenants = Vec::new();
        for role in roles {
            let mut tenant = Speaker::start(role.name, self.arguments(role, folder.path()))?;
            folder.add(tenant.process());
            tenant.expect("ready")?;
            tenants.push(tenant);
        }
        // All hold the clock before any of them starts.
        for tenant in &mut tenants {
            tenant.say("hold")?;
            tenant.expect("held")?;
        }
        let started_ns = statistics(folder.path())?.host.device_now_ns;
        for tenant in &mut tenants {
            tenant.say("go")?;
        }
        let camera = match self.pictures {
            Some(into) => Some(Camera::begin(folder.path(), into)?),
            None => None,
        };
        let results = self.follow(roles, &mut tenants, bars)?;
        camera.map_or(Ok(()), Camera::end)?;
        let statistics = statistics(folder.path())?;
        let outcome = Self::outcome(roles, &results, &statistics, started_ns)?;
        for tenant in &mut tenants {
            tenant.say("leave")?;
        }
        drop(tenants);
        service.end()?;
        Ok(outcome)
    }

    /// Returns the text of the service's configuration.
    pub(super) fn config(&self, folder: &Path, instance: &str, roles: &[Role]) -> String {
        let mut text = format!(
            "schema_version = 1\nrun_dir = {folder:?}\ninstance = {instance:?}\npolicy = {:?}\n\
             [limits]\nclock_hold_ms = {CLOCK_HOLD_MS}\n[device]\nkind = {:?}\n",
            self.policy, self.device
        );
        // A GPU has its own clock.
        if self.device.starts_with("model:") {
            text += "clock = \"lockstep\"\n";
        }
        if let Some(sms) = self.sms {
            let _ = writeln!(text, "sms = {sms}");
        }
        for role in roles {
            let _ = writeln!(
                text,
                "[[tenant]]\nname = {:?}\nweight = {}",
                role.name, role.weight
            );
        }
        text
    }

    fn arguments(&self, role: &Role, folder: &Path) -> Vec<String> {
        let socket = folder.join(CLIENT_SOCKET).display().to_string();
        let numbers = [
            ("--socket", socket),
            ("--tenant", role.name.to_owned()),
            ("--elements", role.elements.to_string()),
            ("--streams", role.streams.to_string()),
            ("--launches", role.launches.to_string()),
        ];
        let mut arguments: Vec<String> =
            vec!["workload".into(), "run".into(), role.workload.into()];
        arguments.extend(
            numbers
                .into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]),
        );
        arguments.extend(["--wait-go".to_owned(), "--progress".to_owned()]);
        arguments
    }

    /// Shows the tenants' progress until each has told its result.
    fn follow(
        &self,
        roles: &[Role],
        tenants: &mut [Speaker],
        bars: &MultiProgress,
    ) -> Result<Vec<Value>, Failure> {
        let style = style()?;
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (role, tenant) in roles.iter().zip(tenants) {
                let bar = bars.add(ProgressBar::new(role.launches).with_style(style.clone()));
                bar.set_prefix(self.title.clone());
                bar.set_message(role.name);
                threads.push(scope.spawn(move || follow_one(tenant, &bar)));
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Value, Failure>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::new("a thread of the demo panicked")))
            };
            threads.into_iter().map(join).collect()
        })
    }

    fn outcome(
        roles: &[Role],
        results: &[Value],
        statistics: &ServiceStatistics,
        started_ns: u64,
    ) -> Result<Outcome, Failure> {
        let histograms = match &statistics.ebpf_instance {
            Some(instance) => {
                Some(gridmux_bpf::read_histograms(instance).context("reading eBPF's histograms")?)
            }
            None => None,
        };
        let mut tenants = Vec::new();
        for (role, result) in roles.iter().zip(results) {
            let found = statistics
                .host
                .tenants
                .iter()
                .find(|tenant| tenant.tenant.name == role.name);
            let seen = found.ok_or_else(|| anyhow!("the service does not know {}", role.name))?;
            let number = |key: &str| result[key].as_u64().unwrap_or(0);
            tenants.push(TenantOutcome {
                name: role.name,
                weight: role.weight,
                launches: number("launches"),
                verified: result["verified"].as_bool().unwrap_or(false),
                duration_ns: number("last_end_ns").saturating_sub(started_ns),
                share_entitled: seen.usage.share_entitled,
                share_got: seen.usage.share_got,
                launch_latency_ns: match &histograms {
                    Some(histograms) => percentiles(histograms, seen.tenant.number),
                    None => (seen.latency.start_p50_ns, seen.latency.start_p99_ns),
                },
            });
        }
        Ok(Outcome {
            device: statistics.host.device.name.clone(),
            is_model: statistics.host.device.is_model,
            ebpf_unavailable: statistics.ebpf_unavailable.clone(),
            holds_expired: statistics.host.holds_expired,
            tenants,
        })
    }
}

/// Returns how progress bars look.
pub(super) fn style() -> Result<ProgressStyle, Failure> {
    let template = "{prefix:>24} {msg:<10} [{bar:32}] {pos}/{len} launches";
    let style = ProgressStyle::with_template(template)
        .map_err(|error| anyhow!("progress style: {error}"))?;
    Ok(style.progress_chars("=> "))
}

fn percentiles(histograms: &[TenantHistogram], tenant: u32) -> (Option<u64>, Option<u64>) {
    let found = histograms
        .iter()
        .find(|h| h.tenant == tenant && h.kind == Kind::SubmitToStart);
    found.map_or((None, None), |h| {
        (h.histogram.percentile(0.5), h.histogram.percentile(0.99))
    })
}

fn follow_one(tenant: &mut Speaker, bar: &ProgressBar) -> Result<Value, Failure> {
    loop {
        let line = tenant.hear()?;
        match line.get("progress").and_then(Value::as_u64) {
            Some(done) => bar.set_position(done),
            None => {
                bar.finish();
                return Ok(line);
            }
        }
    }
}

fn statistics(run_dir: &Path) -> Result<ServiceStatistics, Failure> {
    match ask(run_dir, &AdminRequest::Statistics)? {
        AdminReply::Statistics(statistics) => Ok(*statistics),
        _ => Err(Failure::new(
            "the service answered something else than was asked",
        )),
    }
}
