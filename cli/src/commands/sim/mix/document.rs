//! What `sim mix` prints for programs: the report, what was given, and what was said. docs/measuring.md says what each
//! field means.

use super::Mix;
use gridmux_mix::MixReport;
use serde::Serialize;
use std::collections::BTreeMap;

/// A report in JSON.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    /// The version of this program.
    version: &'static str,
    #[serde(flatten)]
    report: &'a MixReport,
    /// For each term of policy `gridmux` whether it is on; none for another policy.
    terms: Option<BTreeMap<&'static str, bool>>,
    given: &'a Given,
    /// Every note and hint, in the order in which stderr got them.
    notes: Vec<String>,
}

/// The workloads and options of the command, with the usual values of what was not given.
#[derive(Debug, Serialize)]
pub(super) struct Given {
    workloads: Vec<String>,
    policy: String,
    without: Vec<String>,
    bound: Option<f64>,
    gpu: String,
    set: Vec<String>,
    sms: Option<u16>,
    profiles: Option<String>,
    seed: u64,
    threads: u16,
    budget: u64,
}

impl Given {
    pub(super) fn of(mix: &Mix) -> Self {
        let profiles = mix.profiles.as_ref();
        Self {
            workloads: mix
                .workloads
                .iter()
                .map(|spec| spec.given.clone())
                .collect(),
            policy: mix.policy.clone(),
            without: mix.terms.without.clone(),
            bound: mix.terms.bound,
            gpu: mix.gpu.clone(),
            set: mix.changes.given().to_vec(),
            sms: mix.sms,
            profiles: profiles.map(|file| file.display().to_string()),
            seed: mix.seed,
            threads: mix.threads,
            budget: mix.budget,
        }
    }
}

impl<'a> Document<'a> {
    pub(super) fn new(
        report: &'a MixReport,
        terms: Option<BTreeMap<&'static str, bool>>,
        (given, notes): (&'a Given, Vec<String>),
    ) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            report,
            terms,
            given,
            notes,
        }
    }
}
