//! What `gridmux sim trace` prints.

use crate::commands::sim::When;
use crate::table;
use crate::units::{counted, nanos};
use gridmux_mix::Member;
use gridmux_mix::play::Played;
use gridmux_policy::Class;
use gridmux_policy::metrics::{self, Percentiles};
use serde::Serialize;

/// A replay: all tenants together, and each alone. Times are the modelled device's.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) gpu: String,
    pub(super) sms: u16,
    pub(super) policy: String,
    pub(super) arrivals: When,
    pub(super) tenants: Vec<Tenant>,
    /// System throughput: the sum of time alone over time together; `None`, as the next two, without launches.
    pub(super) stp: Option<f64>,
    /// Average normalised turnaround time: the mean of the slowdowns.
    pub(super) antt: Option<f64>,
    /// Least slowdown over greatest (`StrictF`).
    pub(super) fairness: Option<f64>,
}

/// A tenant of it.
#[derive(Debug, Serialize)]
pub(super) struct Tenant {
    name: String,
    weight: u32,
    class: Class,
    launches: usize,
    /// Recorded launches that failed or have no times.
    left_out: u64,
    /// The file's last line ends in the middle.
    is_cut_off: bool,
    /// From arrival to end, with all tenants together.
    turnaround_ns: Distribution,
    /// The same with the device to itself, under the same policy.
    alone_ns: Distribution,
    /// Mean turnaround together over that alone; `None` without launches.
    slowdown: Option<f64>,
    /// From the first launch of all tenants to its own last end, together and alone.
    span_ns: u64,
    alone_span_ns: u64,
    /// Its part of what all tenants held while it was busy.
    share_got: Option<f64>,
    /// The part that it was entitled to by its weight, up to what it could use.
    share_entitled: Option<f64>,
}

/// A mean and percentiles.
#[derive(Debug, Serialize)]
struct Distribution {
    mean: Option<f64>,
    #[serde(flatten)]
    percentiles: Percentiles,
}

impl Distribution {
    fn of(values: &[u64]) -> Self {
        let sum: f64 = values.iter().map(|value| *value as f64).sum();
        Self {
            mean: (!values.is_empty()).then(|| sum / values.len() as f64),
            percentiles: Percentiles::of(values.to_vec()),
        }
    }
}

impl Tenant {
    /// Puts a tenant's two runs side by side.
    pub(super) fn new(member: &Member, together: &Played, alone: &Played) -> Self {
        let turnaround_ns = Distribution::of(&together.turnaround_ns());
        let alone_ns = Distribution::of(&alone.turnaround_ns());
        let means = turnaround_ns.mean.zip(alone_ns.mean);
        let reading = &together.reading;
        let recording = member.recording();
        let part = |integral: f64| (reading.total > 0.0).then(|| integral / reading.total);
        Self {
            name: member.name.clone(),
            weight: member.weight,
            class: member.class,
            launches: recording.map_or(0, |recording| recording.launches.len()),
            left_out: recording.map_or(0, |recording| recording.left_out),
            is_cut_off: recording.is_some_and(|recording| recording.is_cut_off),
            slowdown: means.map(|(together, alone)| together / alone),
            turnaround_ns,
            alone_ns,
            span_ns: together.end_ns(),
            alone_span_ns: alone.end_ns(),
            share_got: part(reading.held),
            share_entitled: part(reading.entitled),
        }
    }

    /// Returns mean turnaround together over that alone.
    pub(super) fn slowdown(&self) -> Option<f64> {
        self.slowdown
    }

    fn row(&self) -> Vec<String> {
        let percent = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}%", 100.0 * value))
        };
        vec![
            self.name.clone(),
            self.launches.to_string(),
            whole(self.turnaround_ns.mean),
            nanos(self.turnaround_ns.percentiles.p99),
            whole(self.alone_ns.mean),
            ratio(self.slowdown),
            percent(self.share_got),
            percent(self.share_entitled),
        ]
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a rounded figure for display"
)]
fn whole(mean: Option<f64>) -> String {
    nanos(mean.map(|mean| mean.round() as u64))
}

impl Report {
    /// Works out what concerns all tenants.
    pub(super) fn new(
        gpu: (&str, u16),
        policy: &str,
        arrivals: When,
        tenants: Vec<Tenant>,
    ) -> Self {
        let means = tenants
            .iter()
            .filter_map(|tenant| tenant.alone_ns.mean.zip(tenant.turnaround_ns.mean));
        let runs: Vec<(f64, f64)> = means.collect();
        let figure = |of: fn(&[(f64, f64)]) -> f64| (!runs.is_empty()).then(|| of(&runs));
        Self {
            gpu: gpu.0.to_owned(),
            sms: gpu.1,
            policy: policy.to_owned(),
            arrivals,
            stp: figure(metrics::stp),
            antt: figure(metrics::antt),
            fairness: figure(metrics::strict_f),
            tenants,
        }
    }

    /// Returns it as a table for people.
    pub(super) fn text(&self) -> String {
        let headings = [
            "tenant", "launches", "mean", "p99", "alone", "slowdown", "got", "asked",
        ];
        let mut text = format!(
            "{} with {} under {}\nvirtual time from arrival to end\n{}\nSTP {}, ANTT {}, fairness {}\n",
            self.gpu,
            counted(self.sms.into(), "SM"),
            self.policy,
            table::of(&headings, self.tenants.iter().map(Tenant::row)),
            ratio(self.stp),
            ratio(self.antt),
            ratio(self.fairness)
        );
        for tenant in &self.tenants {
            if tenant.left_out > 0 {
                text += &format!(
                    "{}: left out {} that failed or had not ended\n",
                    tenant.name,
                    counted(tenant.left_out, "launch")
                );
            }
            if tenant.is_cut_off {
                text += &format!("{}: the last line of the trace is cut off\n", tenant.name);
            }
        }
        text
    }
}
