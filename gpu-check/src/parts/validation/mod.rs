//! The kernels of `hw-model/validation`, measured as the files there have it: each figure with its class and run, so
//! that a file can be made of them.
//!
//! Rules: a time is the difference of two runs of different lengths, the fastest of some of each, so that launch and
//! first touch cancel, except `empty-launch` and `read-after-write`; cycles are that time by the clock that one SM has
//! right after ([`bench::ValidationBench::mhz`]).

mod bench;
mod launches;
mod loops;
mod memory;
mod sgemm;

use super::Part;
use crate::finding::Validation;
use crate::lab::Lab;
use bench::ValidationBench;
use serde_json::{Map, Value};

pub(super) const PART: Part = Part {
    name: "validation",
    about: "the validation kernels of the SM model: latencies, rates, bandwidths, launches",
    usual_s: 62,
    limit_s: 180,
    run,
};

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let bench = ValidationBench::new(lab)?;
    loops::run(lab, &bench)?;
    memory::run(lab, &bench)?;
    launches::run(lab, &bench)?;
    sgemm::run(lab, &bench)
}

/// What a figure is of: its class, its kernel and the kernel's parameters.
#[derive(Debug, Clone)]
struct MeasuredRun {
    class: &'static str,
    kernel: &'static str,
    parameters: Vec<(&'static str, Value)>,
}

impl MeasuredRun {
    fn new(class: &'static str, kernel: &'static str) -> Self {
        Self {
            class,
            kernel,
            parameters: Vec::new(),
        }
    }

    /// Adds a parameter.
    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Reports a value; what is no positive number was too short to be measured.
    fn report(&self, lab: &mut Lab<'_>, value: f64, unit: &str) {
        let mut name = self.kernel.to_owned();
        let mut run = Map::new();
        run.insert("kernel".to_owned(), self.kernel.into());
        for (parameter, value) in &self.parameters {
            let shown = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            name += &format!(" {parameter}={shown}");
            run.insert((*parameter).to_owned(), value.clone());
        }
        if !(value.is_finite() && value > 0.0) {
            lab.skipped(name, format!("{value} {unit}: too short to be measured"));
            return;
        }
        let class = self.class.to_owned();
        lab.validation(name, value, unit, Validation { class, run });
    }
}
