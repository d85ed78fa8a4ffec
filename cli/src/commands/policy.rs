//! `gridmux policy`: the scheduling policies that this build has.

use crate::failure::Failure;
use crate::output::Output;
use crate::table;
use clap::Subcommand;
use gridmux_policy::{PolicyInfo, all_policies};

/// Commands on policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Every policy, with where it comes from and whether it promises weighted shares
    List,
}

impl Policy {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::List => out.show(&all_policies(), || {
                table::of(
                    &["policy", "weights", "summary", "source"],
                    all_policies().iter().map(row),
                )
            }),
        }
    }
}

fn row(info: &PolicyInfo) -> Vec<String> {
    let weights = if info.promises_weights { "yes" } else { "no" };
    [info.name, weights, info.summary, info.source]
        .map(ToOwned::to_owned)
        .into()
}
