//! What the demo prints: one table per policy, or one JSON object.

use super::alone_of;
use super::native::Native;
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
    /// What slowdowns and the policies' metrics are given against: `native`, or `alone` (through the service) where the
    /// device is no model.
    against: &'static str,
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
    /// System throughput: sum of native over together.
    stp: f64,
    /// Average normalised turnaround time: mean of together over native.
    antt: f64,
    /// Least slowdown over greatest.
    fairness: f64,
    /// The same three against the time alone through the service.
    against_alone: Metrics,
    tenants: Vec<TenantReport>,
}

/// The figures of merit of times together against others.
#[derive(Debug, Clone, Copy, Serialize)]
struct Metrics {
    stp: f64,
    antt: f64,
    fairness: f64,
}

/// One tenant under one policy.
#[derive(Debug, Serialize)]
struct TenantReport {
    name: &'static str,
    weight: u32,
    launches: u64,
    /// The results of all runs were right.
    verified: bool,
    /// Time together over native time.
    slowdown: f64,
    /// Time together over time alone through the service.
    slowdown_against_alone: f64,
    share_entitled: f64,
    share_got: f64,
    launch_latency_ns: Latency,
    /// Together with the others.
    duration_ns: u64,
    /// Alone through the service.
    duration_alone_ns: u64,
    /// Alone on the bare device; `None` where the device is no model.
    duration_native_ns: Option<u64>,
}

/// Launch latency: from a launch's submission (its admission) to the start of its first block, device time.
#[derive(Debug, Serialize)]
struct Latency {
    p50: Option<u64>,
    p99: Option<u64>,
}

impl PolicyReport {
    /// Compares a phase together with the native runs and the phases alone.
    pub(super) fn new(
        policy: &str,
        native: &[Native],
        alone: &[Outcome],
        together: &Outcome,
    ) -> Result<Self, Failure> {
        let weights: u32 = ROLES.iter().map(|role| role.weight).sum();
        let mut tenants: Vec<TenantReport> = Vec::new();
        for (role, shared) in ROLES.iter().zip(&together.tenants) {
            let own =
                alone_of(alone, role).ok_or_else(|| anyhow!("{} did not run alone", role.name))?;
            let native = native.iter().find(|native| native.name == role.name);
            tenants.push(TenantReport::new(shared, own, native, weights));
        }
        let Metrics {
            stp,
            antt,
            fairness,
        } = Metrics::of(&tenants, TenantReport::base_ns);
        Ok(Self {
            name: policy.to_owned(),
            stp,
            antt,
            fairness,
            against_alone: Metrics::of(&tenants, |tenant| tenant.duration_alone_ns),
            tenants,
        })
    }
}

impl Metrics {
    fn of(tenants: &[TenantReport], base_ns: impl Fn(&TenantReport) -> u64) -> Self {
        let runs = tenants.iter();
        let runs: Vec<_> = runs
            .map(|tenant| (base_ns(tenant) as f64, tenant.duration_ns as f64))
            .collect();
        Self {
            stp: stp(&runs),
            antt: antt(&runs),
            fairness: strict_f(&runs),
        }
    }
}

impl TenantReport {
    fn new(
        shared: &TenantOutcome,
        own: &TenantOutcome,
        native: Option<&Native>,
        weights: u32,
    ) -> Self {
        let native_ns = native.map(|native| native.duration_ns);
        let base_ns = native_ns.unwrap_or(own.duration_ns);
        let over = |base_ns: u64| shared.duration_ns as f64 / base_ns.max(1) as f64;
        Self {
            name: shared.name,
            weight: shared.weight,
            launches: shared.launches,
            verified: shared.verified && own.verified && native.is_none_or(|n| n.verified),
            slowdown: over(base_ns),
            slowdown_against_alone: over(own.duration_ns),
            share_entitled: shared
                .share_entitled
                .unwrap_or(f64::from(shared.weight) / f64::from(weights.max(1))),
            share_got: shared.share_got.unwrap_or(0.0),
            launch_latency_ns: Latency {
                p50: shared.launch_latency_ns.0,
                p99: shared.launch_latency_ns.1,
            },
            duration_ns: shared.duration_ns,
            duration_alone_ns: own.duration_ns,
            duration_native_ns: native_ns,
        }
    }

    /// Returns the time that the slowdown is given against.
    fn base_ns(&self) -> u64 {
        self.duration_native_ns.unwrap_or(self.duration_alone_ns)
    }
}

impl Report {
    /// Makes the report of all policies; the device is that of the given phase.
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
            against: match phase.is_some_and(|outcome| outcome.is_model) {
                true => "native",
                false => "alone",
            },
            ebpf: phase.is_some() && unavailable.is_none(),
            ebpf_unavailable: unavailable,
            holds_expired,
            policies,
        }
    }

    /// Returns whether every result was right.
    pub(super) fn is_verified(&self) -> bool {
        self.policies
            .iter()
            .flat_map(|policy| &policy.tenants)
            .all(|tenant| tenant.verified)
    }

    /// Returns the report as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("device: {}\n", self.device);
        let source = match &self.ebpf_unavailable {
            None => "eBPF".to_owned(),
            Some(reason) => format!("the mediator (no eBPF: {reason})"),
        };
        let _ = writeln!(
            text,
            "times: {} clock; p50 and p99: launch latency (to the first block), from {source}",
            self.clock
        );
        let verified = match self.is_verified() {
            true => "every result is verified",
            false => "RESULTS OF TENANTS THAT ARE MARKED ARE WRONG",
        };
        let _ = writeln!(text, "{verified}; slowdowns are against {}", self.against);
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
                "\n{}: STP {:.2}, ANTT {:.2}, fairness {:.2} (against alone: STP {:.2})",
                policy.name, policy.stp, policy.antt, policy.fairness, policy.against_alone.stp,
            );
            let headings = [
                "tenant", "weight", "native", "alone", "shared", "slower", "asked", "got", "p50",
                "p99",
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
        let mark = if self.verified { "" } else { " WRONG" };
        vec![
            format!("{}{mark}", self.name),
            self.weight.to_string(),
            time(self.duration_native_ns),
            time(Some(self.duration_alone_ns)),
            time(Some(self.duration_ns)),
            format!("{:.2}x", self.slowdown),
            format!("{:.1}%", self.share_entitled * 100.0),
            format!("{:.1}%", self.share_got * 100.0),
            time(self.launch_latency_ns.p50),
            time(self.launch_latency_ns.p99),
        ]
    }
}

/// Returns a time in three digits.
fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else {
        return "-".to_owned();
    };
    let ns = ns as f64;
    match ns {
        ..100_000.0 => format!("{:.1}us", ns / 1e3),
        100_000.0..1_000_000.0 => format!("{:.0}us", ns / 1e3),
        1_000_000.0..10_000_000.0 => format!("{:.2}ms", ns / 1e6),
        _ => format!("{:.1}ms", ns / 1e6),
    }
}
