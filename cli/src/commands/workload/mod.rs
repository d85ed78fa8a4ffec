//! `gridmux workload`: the benchmark kernels of this build, run as tenants of a service.

mod closed_loop;
mod directions;
mod lane;
mod report;
mod run;

use crate::failure::Failure;
use crate::output::Output;
use crate::table;
use clap::Subcommand;
use gridmux_workloads::{Class, workloads};
use serde::Serialize;

/// Commands on workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Every workload, and what its elements are
    List,
    /// Run one as a tenant of a service, and check its results
    Run(run::Run),
}

/// A workload as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    /// The resource that it needs most.
    class: Class,
    entry: &'static str,
    /// The unit that `--elements` counts.
    elements: &'static str,
}

impl Workload {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::List => list(out),
            Self::Run(run) => run.run(out),
        }
    }
}

fn list(out: &Output) -> Result<(), Failure> {
    let listed = workloads().iter().map(|w| Listed {
        name: w.name,
        summary: w.summary,
        class: w.class,
        entry: w.entry,
        elements: w.elements,
    });
    let listed: Vec<Listed> = listed.collect();
    out.show(&listed, || {
        let rows = listed.iter().map(|w| {
            let class = w.class.to_string();
            [w.name, &class, w.summary, w.elements]
                .map(ToOwned::to_owned)
                .into()
        });
        table::of(&["workload", "class", "summary", "elements"], rows)
    })
}
