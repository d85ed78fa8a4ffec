//! `gridmux demo`: what gridmux is for, in one command.
//!
//! Three tenants, each a process of its own, share one GPU: `serving` with many short kernels, `training` with long
//! compute kernels, `analytics` bound by memory. Each runs *native* first, which is alone on the bare device without
//! mediator, then alone through the service, then all three together under each policy; every result is checked against
//! the host's reference. Slowdowns compare the time of the same work together and native.
//!
//! Rules: every phase has a service of its own, so that nothing is carried over; tenants start at one instant of
//! virtual time and stay connected until all have ended, so that shares are measured over exactly the time in which all
//! three had work.

mod native;
mod phase;
mod pictures;
mod report;
mod roles;
mod workplace;

use super::policy::name_parser;
use crate::failure::Failure;
use crate::offer::devices;
use crate::output::{Output, note};
use clap::Args;
use gridmux_mediator::config::Config;
use indicatif::{MultiProgress, ProgressDrawTarget};
use phase::{Outcome, Phase};
use report::{PolicyReport, Report};
use roles::{ROLES, Role};
use std::path::{Path, PathBuf};
use workplace::Caretaker;

/// Three tenants share a GPU, alone and together under two policies; takes a minute or two on two cores.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Device: model:NAME or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "model:h200", value_parser = devices(),
          hide_possible_values = true)]
    device: String,
    /// For a modelled device: this many of its SMs
    #[arg(long, value_name = "N", default_value_t = 8)]
    sms: u16,
    /// Policies to compare, separated by commas or each with its own --policy
    #[arg(
        long = "policy",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = name_parser(),
        default_values = ["fifo", "gridmux"]
    )]
    policies: Vec<String>,
    /// Part of the work, in percent; with little, programs may be over before a policy knows their kernels
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    work: u64,
    /// Take pictures of the last policy's phase, for the documents, into this folder
    #[arg(long, value_name = "DIR", hide = true)]
    pictures: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(self, out: &Output) -> Result<(), Failure> {
        self.check()?;
        // Before the progress bars, which start a thread.
        let caretaker = Caretaker::begin()?;
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let roles = ROLES.map(|role| role.with_work(self.work));
        let mut native = Vec::new();
        for role in &roles {
            announce(&bars, &format!("{} native", role.name));
            let found = native::run(role, &self.device, self.sms(), &bars)?;
            native.extend(found);
        }
        let mut alone = Vec::new();
        for role in &roles {
            let title = format!("{} alone", role.name);
            announce(&bars, &title);
            let phase = self.phase(&title, "fifo");
            alone.push(phase.run(std::slice::from_ref(role), &caretaker, &bars)?);
        }
        let mut policies = Vec::new();
        let mut together = Vec::new();
        for policy in &self.policies {
            let title = format!("together, {policy}");
            announce(&bars, &title);
            let is_last = self.policies.last() == Some(policy);
            let phase = Phase {
                pictures: self.pictures.as_deref().filter(|_| is_last),
                ..self.phase(&title, policy)
            };
            let outcome = phase.run(&roles, &caretaker, &bars)?;
            policies.push(PolicyReport::new(policy, &native, &alone, &outcome)?);
            together.push(outcome);
        }
        let last = together.last().or(alone.last());
        let expired = alone
            .iter()
            .chain(&together)
            .map(|phase| phase.holds_expired)
            .sum();
        let report = Report::new(last, expired, policies);
        out.show(&report, || report.text())?;
        if report.is_verified() {
            Ok(())
        } else {
            Err(Failure::new("a result is wrong"))
        }
    }

    /// Checks the configuration of every phase together, before the first one runs.
    fn check(&self) -> Result<(), Failure> {
        for policy in &self.policies {
            let phase = self.phase("", policy);
            let text = phase.config(Path::new("/"), "demo", &ROLES);
            // Everything in it that can be wrong was said by an option.
            Config::parse(&text).map_err(Failure::usage)?;
        }
        Ok(())
    }

    /// Returns the SMs of a modelled device.
    fn sms(&self) -> Option<u16> {
        self.device.starts_with("model:").then_some(self.sms)
    }

    fn phase<'a>(&'a self, title: &str, policy: &'a str) -> Phase<'a> {
        Phase {
            title: title.to_owned(),
            device: &self.device,
            sms: self.sms(),
            policy,
            pictures: None,
        }
    }
}

/// Says which phase begins where stderr is no terminal, so that no bars are shown there.
fn announce(bars: &MultiProgress, title: &str) {
    if bars.is_hidden() {
        // Progress that nobody can see stops nothing.
        note(&format!("demo: {title}"));
    }
}

/// Returns the outcome of a role in the phase in which it ran alone.
fn alone_of<'a>(alone: &'a [Outcome], role: &Role) -> Option<&'a phase::TenantOutcome> {
    alone
        .iter()
        .flat_map(|outcome| &outcome.tenants)
        .find(|tenant| tenant.name == role.name)
}
