//! gridmux's service, seen from its clients: what mediation costs, how long a latency tenant waits beside batch
//! tenants, what tenants get of the device beside what the service says, how well policies run mixes, and whether a
//! hostile tenant is kept off.
//!
//! A part runs **rounds** ([`bench`]): a service with some tenants, started by the command that is named to it, and a
//! process for each client ([`client`]) that reaches the device through gridmux's driver library and runs a
//! job ([`job`]). What counts is what blocks stamp themselves; what the service says stands beside it. Over a modelled
//! device the clock stands still while clients compute, so that figures repeat.
//!
//! Rules:
//! - Of the service only its command is known, and what that prints.
//! - How fast a device or a policy is, is a figure. That the service counts what a tenant holds as its blocks do, and
//!   that results are right, is checked, the former over the model alone.

pub mod bench;
pub mod client;
pub mod command;
mod hostile;
mod isolation;
pub mod job;
mod latency;
mod mixes;
mod native;
mod process;
mod programs;
mod shares;
mod stamped;
mod timeline;

use crate::finding::Finding;
use crate::lab::Scale;
use anyhow::Context;
use bench::{Bench, Seat};
use job::{Report, Work};
use serde_json::Value;
use std::fmt::Display;

/// An experiment on the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServicePart {
    /// Its name on the command line and in documents.
    pub name: &'static str,
    /// What it finds out, in one line.
    pub about: &'static str,
    /// Its time limit in seconds of wall time.
    pub limit_s: u64,
    /// Does it.
    pub run: fn(&mut Desk<'_>) -> anyhow::Result<()>,
}

/// Every experiment, in the order of a run; the part about the device comes before them.
pub(crate) const PARTS: &[ServicePart] = &[
    native::PART,
    latency::PART,
    shares::PART,
    mixes::PART,
    isolation::PART,
];

/// Blocks of 256 threads that an SM holds.
const PER_SM: u32 = 8;

/// What a part is given: how rounds are run, a scale, and a place for its findings.
pub(crate) struct Desk<'a> {
    /// Runs rounds.
    pub bench: &'a Bench,
    /// The size of launches.
    pub scale: Scale,
    /// SMs of the device.
    pub sms: u32,
    /// Where findings go.
    pub sink: &'a mut dyn FnMut(Finding),
}

impl Desk<'_> {
    /// Reports whether something is as it should be; the detail says what was seen.
    fn check(&mut self, name: impl Into<String>, passed: bool, detail: impl Display) {
        (self.sink)(Finding::Check {
            name: name.into(),
            passed,
            detail: detail.to_string(),
        });
    }

    /// Reports a measured value; one that is not finite is skipped.
    fn figure(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        (self.sink)(Finding::measured(name.into(), value, unit, None));
    }

    /// Reports what somebody says.
    fn fact(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        (self.sink)(Finding::Fact {
            name: name.into(),
            value: value.into(),
        });
    }

    /// Reports median, 99th percentile and greatest of times in nanoseconds, as microseconds.
    fn percentiles(&mut self, name: &str, ns: &[f64]) {
        for (which, part) in [("p50", 0.5), ("p99", 0.99), ("most", 1.0)] {
            let value = percentile(ns, part).unwrap_or(f64::NAN);
            self.figure(format!("{name}: {which}"), value / 1e3, "us");
        }
    }

    /// Runs a work straight on the device. A modelled one is reached through the service alone; there, what stands in
    /// for straight is a service under `fifo`, which hands launches on as they come.
    fn straight(&mut self, name: &str, work: &Work) -> anyhow::Result<Report> {
        match self.bench.is_model() {
            true => self.alone(name, "fifo", work),
            false => self.bench.native(work),
        }
    }

    /// Runs a work as the one tenant of a service under a policy.
    fn alone(&mut self, name: &str, policy: &str, work: &Work) -> anyhow::Result<Report> {
        let seats = [Seat::new("alone", work.clone())];
        let round = self.bench.round(policy, &seats)?;
        self.check_clock(&format!("{name}, {policy}"), round.holds_expired);
        let told = round.told.into_iter().next();
        Ok(told.context("a round without a client")?.report)
    }

    /// Checks that no client held a modelled device's clock for too long in a round.
    fn check_clock(&mut self, round: &str, holds_expired: u64) {
        if holds_expired > 0 {
            let detail = format!("{holds_expired} holds of the clock took too long");
            self.check(format!("{round}: figures repeat"), false, detail);
        }
    }
}

/// Returns the value that at least `part` of the values do not exceed; `None` of none.
fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil().max(1.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is at least one and at most the number of values"
    )]
    sorted.get(rank as usize - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
