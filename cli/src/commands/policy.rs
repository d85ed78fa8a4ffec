//! `gridmux policy`: the scheduling policies that this build has.

use crate::failure::Failure;
use crate::output::Output;
use crate::table;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use gridmux_policy::{Element, Enforcement, PolicyInfo, all_policies};
use serde::Serialize;

/// Commands on policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Every policy, with whether it promises weighted shares
    #[command(
        after_help = "`gridmux policy show NAME` says where a policy comes from and what it does with weights.\n\nOnly `cargo xtask repro srtf` gives sjf, ljf and \
        srtf-zero profiles of the kernels. Elsewhere they know a kernel once a block of it has ended."
    )]
    List,
    /// One policy: where it comes from, what weights mean to it, which elements of a plan it uses, and how well each
    /// executor holds them
    #[command(
        after_help = "SRTF is the paper on preemptive thread block scheduling with online structural runtime \
        prediction, SMK the one on simultaneous multikernel GPUs."
    )]
    Show(Show),
}

/// Arguments of `policy show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name, as `policy list` prints it
    name: String,
}

/// A policy as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    info: PolicyInfo,
    /// How well each element that the policy uses is held.
    enforced: Vec<Enforced>,
}

/// How well one element of a plan is held.
#[derive(Debug, Serialize)]
struct Enforced {
    element: Element,
    /// By the event executor, which simulates blocks by their durations.
    event: Enforcement,
    /// By the SM model's plan mode: the papers' hardware.
    model: Enforcement,
    /// By the service on a stock device.
    device: Enforcement,
}

impl Policy {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::List => out.show(&all_policies(), || {
                table::within(
                    table::TERMINAL,
                    &["policy", "weights", "summary"],
                    all_policies().iter().map(row),
                )
            }),
            Self::Show(show) => show.run(out),
        }
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let found = all_policies().iter().find(|info| info.name == self.name);
        let Some(info) = found else {
            let known: Vec<&str> = all_policies().iter().map(|info| info.name).collect();
            let hint = format!("known policies: {}", known.join(", "));
            return Err(
                Failure::new(format!("there is no policy named {:?}", self.name)).hint(hint),
            );
        };
        let enforced = |element: &Element| Enforced {
            element: *element,
            event: gridmux_policy::executor::enforces(*element),
            model: gridmux_hw_model::plan::enforces(*element),
            device: gridmux_mediator::dispatch::enforces(*element),
        };
        let shown = Shown {
            info: *info,
            enforced: info.uses.iter().map(enforced).collect(),
        };
        out.show(&shown, || shown.text())
    }
}

impl Shown {
    fn text(&self) -> String {
        let PolicyInfo {
            name,
            summary,
            source,
            weights,
            ..
        } = self.info;
        let promise = match self.info.promises_weights {
            true => "promised",
            false => "no promise",
        };
        let mut text = format!(
            "policy   {name}\nsummary  {summary}\nsource   {source}\nweights  {promise}: {weights}\n\n"
        );
        for row in &self.enforced {
            let name = row.element.name();
            text += &format!(
                "{name}\n  event   {}\n  model   {}\n  device  {}\n",
                row.event, row.model, row.device
            );
        }
        text
    }
}

/// Returns the parser of an argument that names a policy: it knows all of them.
pub(super) fn name_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(all_policies().iter().map(|info| info.name))
}

fn row(info: &PolicyInfo) -> Vec<String> {
    let weights = if info.promises_weights { "yes" } else { "no" };
    [info.name, weights, info.summary]
        .map(ToOwned::to_owned)
        .into()
}
