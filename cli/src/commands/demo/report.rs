//! What the demo prints: one table per policy, or one JSON object.

use super::alone_of;
use super::phase::{Outcome, TenantOutcome};
use super::roles::ROLES;
use crate::failure::Failure;
use crate::table;
use anyhow::anyhow;
use gridmux_policy::metrics::{antt, stp, strict_f};
use serde::Serialize;
use std::fmt::Write as _;

/// The whole report; its form is kept stable for scripts.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    device: String,
    /// Clock of durations, slowdowns and launch latencies.
    clock: &'static str,
    /// Launch latencies come from eBPF.
    ebpf: bool,
    /// Why not.
    ebpf_unavailable: Option<String>,
    /// How often a tenant held the virtual clock for the longest wall time permitted, over all phases.
    holds_expired: u64,
    policies: Vec<PolicyReport>,
}

/// One policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyReport {
    name: String,
    /// System throughput: sum of alone over together.
    stp: f64,
    /// Average normalised turnaround time: mean of together over alone.
    antt: f64,
    /// Least slowdown over greatest.
    fairness: f64,
    tenants: Vec<TenantReport>,
}

/// One tenant under one policy.
#[derive(Debug, Serialize)]
struct TenantReport {
    name: &'static str,
    weight: u32,
    launches: u64,
    verified: bool,
    /// Time together over time alone.
    slowdown: f64,
    share_asked: f64,
    share_got: f64,
    launch_latency_ns: Latency,
    duration_ns: u64,
    duration_alone_ns: u64,
}

/// Launch latency: from a launch's submission (its admission) to the start of its first block, device time.
#[derive(Debug, Serialize)]
struct Latency {
    p50: Option<u64>,
    p99: Option<u64>,
}

impl PolicyReport {
    /// Compares a phase together with the phases alone.
    pub(super) fn new(
        policy: &str,
        alone: &[Outcome],
        together: &Outcome,
    ) -> Result<Self, Failure> {
        let weights: u32 = ROLES.iter().map(|role| role.weight).sum();
        let mut tenants = Vec::new();
        let mut runs = Vec::new();
        for (role, shared) in ROLES.iter().zip(&together.tenants) {
            let own =
                alone_of(alone, role).ok_or_else(|| anyhow!("{} did not run alone", role.name))?;
            let report = TenantReport::new(shared, own, weights);
            #[allow(clippy::cast_precision_loss, reason = "ratios for a report")]
            runs.push((own.duration_ns as f64, shared.duration_ns as f64));
            tenants.push(report);
        }
        Ok(Self {
            name: policy.to_owned(),
            stp: stp(&runs),
            antt: antt(&runs),
            fairness: strict_f(&runs),
            tenants,
        })
    }
}

impl TenantReport {
    #[allow(clippy::cast_precision_loss, reason = "ratios for a report")]
    fn new(shared: &TenantOutcome, own: &TenantOutcome, weights: u32) -> Self {
        Self {
            name: shared.name,
            weight: shared.weight,
            launches: shared.launches,
            verified: shared.verified && own.verified,
            slowdown: shared.duration_ns as f64 / own.duration_ns.max(1) as f64,
            share_asked: shared
                .share_asked
                .unwrap_or(f64::from(shared.weight) / f64::from(weights.max(1))),
            share_got: shared.share_got.unwrap_or(0.0),
            launch_latency_ns: Latency {
                p50: shared.launch_latency_ns.0,
                p99: shared.launch_latency_ns.1,
            },
            duration_ns: shared.duration_ns,
            duration_alone_ns: own.duration_ns,
        }
    }
}

impl Report {
    /// The report of all policies; the device is that of the given phase.
    pub(super) fn new(
        phase: Option<&Outcome>,
        holds_expired: u64,
        policies: Vec<PolicyReport>,
    ) -> Self {
        let unavailable = phase.and_then(|outcome| outcome.ebpf_unavailable.clone());
        Self {
            device: phase.map_or_else(String::new, |outcome| outcome.device.clone()),
            clock: if phase.is_some_and(|outcome| outcome.is_model) {
                "virtual"
            } else {
                "device"
            },
            ebpf: phase.is_some() && unavailable.is_none(),
            ebpf_unavailable: unavailable,
            holds_expired,
            policies,
        }
    }

    /// Whether every result was right.
    pub(super) fn is_verified(&self) -> bool {
        self.policies
            .iter()
            .flat_map(|policy| &policy.tenants)
            .all(|tenant| tenant.verified)
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("device: {}\n", self.device);
        let source = match &self.ebpf_unavailable {
            None => "eBPF".to_owned(),
            Some(reason) => format!("the mediator (no eBPF: {reason})"),
        };
        let _ = writeln!(
            text,
            "times: {} clock; launch latency (submission to first block) from {source}",
            self.clock
        );
        if self.holds_expired > 0 {
            let _ = writeln!(
                text,
                "{} times a tenant kept the clock waiting for too long: figures depend on the host's speed",
                self.holds_expired
            );
        }
        for policy in &self.policies {
            let _ = writeln!(
                text,
                "\n{}: STP {:.2}, ANTT {:.2}, fairness {:.2}",
                policy.name, policy.stp, policy.antt, policy.fairness
            );
            let headings = [
                "tenant",
                "weight",
                "launches",
                "verified",
                "slowdown",
                "asked",
                "got",
                "latency p50",
                "latency p99",
            ];
            text.push_str(&table::of(
                &headings,
                policy.tenants.iter().map(TenantReport::cells),
            ));
            text.push('\n');
        }
        text
    }
}

impl TenantReport {
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.weight.to_string(),
            self.launches.to_string(),
            if self.verified {
                "yes".into()
            } else {
                "NO".into()
            },
            format!("{:.2}x", self.slowdown),
            format!("{:.1}%", self.share_asked * 100.0),
            format!("{:.1}%", self.share_got * 100.0),
            micros(self.launch_latency_ns.p50),
            micros(self.launch_latency_ns.p99),
        ]
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn micros(ns: Option<u64>) -> String {
    ns.map_or_else(
        || "-".to_owned(),
        |ns| format!("{:.1} us", ns as f64 / 1000.0),
    )
}
