//! Mixes of recorded CUDA programs under every policy on the event executor.
//!
//! Traces lie in `repro/data/traces`, as `cargo xtask repro record` makes them from the clients in `tests/clients`. A
//! mix is run by `gridmux sim mix`, as anybody runs one.

use crate::context::{Context, On};
use crate::tables::{Figures, Report, Row};
use anyhow::{Context as _, Result, ensure};
use gridmux_policy::all_policies;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const METRICS: [&str; 8] = [
    "stp",
    "antt",
    "worst_antt",
    "fairness",
    "unfairness",
    "overlap",
    "throughput",
    "min_speedup",
];

/// Files of a mix, with the names of its programs.
type Programs = &'static [(&'static str, &'static str)];

/// Mixes.
const MIXES: [(&str, Programs); 3] = [
    (
        "numba trains two networks",
        &[("one", "numba-training"), ("other", "numba-training")],
    ),
    (
        "numba trains a network, numba's tests, Triton's tests",
        &[
            ("training", "numba-training"),
            ("numba", "numba-tests"),
            ("triton", "triton-tests"),
        ],
    ),
    (
        "numba trains four networks",
        &[
            ("a", "numba-training"),
            ("b", "numba-training"),
            ("c", "numba-training"),
            ("d", "numba-training"),
        ],
    ),
];

/// GPU and SMs of the replay. The programs' grids are small, so that on more SMs nobody waits.
const GPU: (&str, &str) = ("h200", "1");

/// What `gridmux sim mix` prints.
#[derive(Deserialize)]
struct Mixed {
    metrics: BTreeMap<String, f64>,
}

/// Runs every mix under every policy; `gridmux` is the program.
pub(crate) fn run(context: &Context, gridmux: &Path) -> Result<Report> {
    let mut tables = Vec::new();
    if context.wants(On::Event) {
        for (name, programs) in MIXES {
            tables.push(table(context, gridmux, name, programs)?);
        }
    }
    Ok(Report {
        paper: "traces",
        tables,
        pictures: Vec::new(),
    })
}

fn table(context: &Context, gridmux: &Path, name: &str, programs: Programs) -> Result<Figures> {
    let program = std::fs::read(gridmux).with_context(|| {
        format!(
            "reading {}; `cargo build -p gridmux` makes it",
            gridmux.display()
        )
    })?;
    let program = crate::store::hash(&program);
    let policies: Vec<&str> = all_policies().iter().map(|info| info.name).collect();
    let metrics = context.parts(
        name,
        &policies,
        |policy| format!("{policy} {programs:?} on {GPU:?}, program {program:016x}"),
        |policy| mix(gridmux, policy, programs),
    )?;
    let oracles = all_policies().iter().filter(|info| info.is_oracle);
    let oracles: Vec<String> = oracles.map(|info| format!("`{}`", info.name)).collect();
    let row = |(policy, metrics): (&&str, BTreeMap<String, f64>)| {
        let figure = |metric: &str| metrics.get(metric).copied().unwrap_or(f64::NAN);
        Row::new(*policy, METRICS, [f64::NAN; 8], METRICS.map(figure))
    };
    Ok(Figures {
        name: format!("Recorded programs: {name}"),
        about: format!(
            "`gridmux sim mix` on `event`, {} with {} SM, {} programs in closed loops. {} know how long kernels \
             last alone, no other policy knows a kernel beforehand.",
            GPU.0,
            GPU.1,
            programs.len(),
            oracles.join(", ")
        ),
        rows: policies.iter().zip(metrics).map(row).collect(),
        ..Figures::default()
    })
}

fn mix(gridmux: &Path, policy: &str, programs: Programs) -> Result<BTreeMap<String, f64>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/traces");
    let mut command = Command::new(gridmux);
    command.args(["-j", "sim", "mix", "--on", "event", "--policy", policy]);
    command.args(["--gpu", GPU.0, "--sms", GPU.1]);
    for (name, file) in programs {
        let file = folder.join(format!("{file}.jsonl"));
        command.arg(format!("{name}={},arrivals=closed", file.display()));
    }
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", gridmux.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "`gridmux sim mix` under {policy} failed: {text}"
    );
    let mixed: Mixed = serde_json::from_str(&text).context("what `gridmux sim mix` printed")?;
    Ok(mixed.metrics)
}
