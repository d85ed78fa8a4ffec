//! `gridmux policy`: the scheduling policies that this build has, and the one that a running service obeys.

mod set;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::service::ServiceArgs;
use crate::table;
use crate::units;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use gridmux_mediator::link::PolicyInForce;
use gridmux_policy::policies::gridmux;
use gridmux_policy::terms::{TERMS, Term};
use gridmux_policy::{
    Element, Enforcement, PolicyInfo, Profile, ProfileFile, ProfileKey, ProfiledDevice, Samples,
    all_policies,
};
use serde::Serialize;
use set::Set;
use std::path::PathBuf;

/// Commands on policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Every policy, with whether it promises weighted shares, and whether it needs samples of kernels
    #[command(
        after_help = "`gridmux policy show NAME` says where a policy comes from and what it does with weights. WEIGHTS \
        is `yes` where shares are promised to follow them, `used` where they count without a promise, and else \
        `no`. PAPER is the paper that a policy follows, by the short name and year under which docs/reproduction.md \
        has it in full.\n\nThe \
        service and `gridmux sim` learn profiles of kernels while they run; sjf, ljf, srtf-zero and gridmux use them. \
        A kernel without a profile is known once a block of it has ended.\n\nSamples say what a kernel does to an SM \
        while it runs: instructions, stalls, traffic. `gridmux sim mix` takes some; a service takes none, because a \
        stock device counts nothing of blocks while they run."
    )]
    List,
    /// One policy: where it comes from, what weights mean to it, which elements of a plan it uses, and how well each
    /// executor holds them. Without NAME: which policy a running service obeys, and for how long
    #[command(
        after_help = "EXECUTOR says who executes: `event` and `model` are those of `gridmux sim mix --on`, `device` is \
        every service, on a GPU or on a modelled one.\n\nSRTF is the paper on preemptive thread block scheduling with \
        online structural runtime prediction, SMK the one on simultaneous multikernel GPUs."
    )]
    Show(Show),
    /// Have a running service obey another policy until the configuration is read again
    Set(Set),
    /// What a service has learnt of kernels: how long their blocks last
    #[command(
        after_help = "The service keeps the file where its configuration says so (`file` in `[profiles]`); `gridmux \
        sim mix --profiles FILE` keeps one too. A profile is of a kernel (its module's text and its name, on the \
        `event` executor the name of a kernel of ours) and a block shape. `blocks` says how many blocks stand behind \
        it, `alone` that no other kernel was on the device meanwhile."
    )]
    Profiles(Profiles),
}

/// Arguments of `policy profiles`.
#[derive(Debug, Args)]
pub(crate) struct Profiles {
    /// File of profiles
    file: PathBuf,
}

/// A file of profiles as it is printed.
#[derive(Debug, Serialize)]
struct ShownProfiles {
    device: ProfiledDevice,
    profiles: Vec<ShownProfile>,
}

/// A profile as it is printed.
#[derive(Debug, Serialize)]
struct ShownProfile {
    /// Sixteen hexadecimal digits.
    key: String,
    #[serde(flatten)]
    profile: Profile,
}

/// Arguments of `policy show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name, as `policy list` prints it; without it, the service is asked
    #[arg(conflicts_with = "run_dir", value_parser = name_parser(), hide_possible_values = true)]
    name: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The policy that a service obeys, as it is printed.
#[derive(Debug, Serialize)]
struct Obeyed {
    /// The policy that was chosen, by the configuration or by an operator since.
    policy: String,
    /// The one that decides, and for how long; none while no host has said it.
    in_force: Option<PolicyInForce>,
    /// The failure of the chosen policy, if it failed and another one took its place.
    failure: Option<String>,
}

/// A policy as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    info: PolicyInfo,
    /// For each element of a plan that the policy uses, how well it is held.
    enforced: Vec<Enforced>,
    /// How well kernels are sampled; none for a policy that looks at no samples.
    sampled: Option<Held>,
    /// What can be switched off; none for a policy that has no such terms.
    terms: Option<Vec<ShownTerm>>,
}

/// A term of policy `gridmux`.
#[derive(Debug, Serialize)]
struct ShownTerm {
    #[serde(flatten)]
    term: Term,
    /// Its value unless another one is set.
    default: String,
}

/// An element of a plan, and how well it is held.
#[derive(Debug, Serialize)]
struct Enforced {
    element: Element,
    #[serde(flatten)]
    held: Held,
}

/// How well each executor does something.
#[derive(Debug, Serialize)]
struct Held {
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
                table::of(
                    &["policy", "weights", "samples", "paper", "summary"],
                    all_policies().iter().map(row),
                )
            }),
            Self::Show(show) => show.run(out),
            Self::Set(set) => set.run(out),
            Self::Profiles(profiles) => profiles.run(out),
        }
    }
}

impl Profiles {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let file = ProfileFile::open(&self.file)?;
        let shown = |(key, profile): &(ProfileKey, Profile)| ShownProfile {
            key: format!("{:016x}", key.0),
            profile: *profile,
        };
        let shown = ShownProfiles {
            profiles: file.profiles.iter().map(shown).collect(),
            device: file.device,
        };
        out.show(&shown, || shown.text())
    }
}

impl ShownProfiles {
    fn text(&self) -> String {
        let row = |shown: &ShownProfile| {
            let profile = &shown.profile;
            let alone = if profile.alone { "yes" } else { "no" };
            vec![
                shown.key.clone(),
                units::nanos(Some(profile.whole_ns())),
                profile.blocks.to_string(),
                alone.to_owned(),
            ]
        };
        let headings = ["profile", "block lasts", "blocks", "alone"];
        let table = table::of(&headings, self.profiles.iter().map(row));
        format!("learnt on {}\n\n{table}", self.device)
    }
}

impl Obeyed {
    fn text(&self) -> String {
        let shown = in_force(&self.policy, self.in_force.as_ref());
        let mut fields = vec![("policy", self.policy.clone()), ("in force", shown)];
        let failure = self.failure.clone();
        fields.extend(failure.map(|failure| ("failure", failure)));
        table::fields(fields)
    }
}

/// Returns which policy decides and for how long, where `chosen` is the one that is to.
pub(super) fn in_force(chosen: &str, in_force: Option<&PolicyInForce>) -> String {
    match in_force {
        Some(in_force) => {
            let time = units::nanos(Some(in_force.for_ms.saturating_mul(1_000_000)));
            format!("{} for {time}", in_force.name)
        }
        None => format!("{chosen}, as soon as there is a device host"),
    }
}

impl Show {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let Some(name) = &self.name else {
            let host = self.service.statistics()?.host;
            let obeyed = Obeyed {
                policy: host.policy,
                in_force: host.policy_in_force,
                failure: host.policy_failure,
            };
            return out.show(&obeyed, || obeyed.text());
        };
        let found = all_policies().iter().find(|info| info.name == name);
        let info = found.expect("the parser takes no other name");
        let enforced = |element: &Element| Enforced {
            element: *element,
            held: Held {
                event: gridmux_mix::event::enforces(*element),
                model: gridmux_hw_model::plan::enforces(*element),
                device: gridmux_mediator::dispatch::enforces(*element),
            },
        };
        let sampled = || Held {
            event: gridmux_mix::event::samples(),
            model: gridmux_hw_model::plan::samples(),
            device: gridmux_mediator::dispatch::samples(),
        };
        let shown = Shown {
            info: *info,
            enforced: info.uses.iter().map(enforced).collect(),
            sampled: (info.samples != Samples::Unused).then(sampled),
            terms: (info.name == gridmux::NAME).then(terms),
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
            paper,
            weights,
            class,
            samples,
            ..
        } = self.info;
        let promise = match self.info.promises_weights {
            true => "promised",
            false => "no promise",
        };
        let without = samples.without();
        let without = without.map_or_else(String::new, |what| format!("; without them, {what}"));
        let head = table::fields([
            ("policy", name.to_owned()),
            ("summary", summary.to_owned()),
            ("source", source.to_owned()),
            ("paper", paper.to_owned()),
            ("weights", format!("{promise}: {weights}")),
            ("class", class.to_owned()),
            ("samples", format!("{}{without}", samples.name())),
        ]);
        let headings = ["element", "executor", "how it is held"];
        let row = |element: &str, executor: &str, held: &Enforcement| {
            vec![element.to_owned(), executor.to_owned(), held.to_string()]
        };
        let elements = self.enforced.iter().map(|of| (of.element.name(), &of.held));
        let sampled = self.sampled.iter().map(|held| ("samples", held));
        let rows = elements.chain(sampled).flat_map(|(name, held)| {
            [
                row(name, "event", &held.event),
                row("", "model", &held.model),
                row("", "device", &held.device),
            ]
        });
        format!(
            "{head}\n\n{}{}",
            table::of(&headings, rows),
            self.terms_text()
        )
    }

    /// Returns the terms as a table; nothing where there are none.
    fn terms_text(&self) -> String {
        let Some(terms) = &self.terms else {
            return String::new();
        };
        let row = |shown: &ShownTerm| {
            let Term { name, summary, .. } = shown.term;
            vec![name.to_owned(), shown.default.clone(), summary.to_owned()]
        };
        let table = table::of(&["term", "default", "what it does"], terms.iter().map(row));
        format!(
            "\n\n{table}\n\n`gridmux sim mix --without TERM` switches one off, `--bound X` sets the bound."
        )
    }
}

/// Returns the terms of policy `gridmux` as it is.
fn terms() -> Vec<ShownTerm> {
    let settings = gridmux::Settings::default();
    let shown = |term: &Term| ShownTerm {
        term: *term,
        default: (term.value)(&settings).unwrap_or_else(|| "off".to_owned()),
    };
    TERMS.iter().map(shown).collect()
}

/// Says on stderr which elements of a policy's plans an executor does not hold at all.
pub(super) fn note_unheld(policy: &str, executor: &str, enforces: fn(Element) -> Enforcement) {
    for line in unheld(policy, executor, enforces) {
        note(&line);
    }
}

/// Returns a line for each element of a policy's plans that an executor does not hold at all; it says where
/// `sim mix --on model` does.
pub(super) fn unheld(
    policy: &str,
    executor: &str,
    enforces: fn(Element) -> Enforcement,
) -> Vec<String> {
    let info = all_policies().iter().find(|info| info.name == policy);
    let uses = info.map_or(&[][..], |info| info.uses);
    let is_unheld = |element: &&Element| matches!(enforces(**element), Enforcement::No(_));
    let line = |element: &Element| {
        let of = match element {
            Element::Weight => "issue quotas are".to_owned(),
            other => format!("{} is", other.name()),
        };
        let elsewhere = match gridmux_hw_model::plan::enforces(*element) {
            Enforcement::No(_) => "",
            _ => "; `gridmux sim mix --on model` does that",
        };
        format!("note: {of} not enforced {executor}{elsewhere} (`gridmux policy show {policy}`)")
    };
    uses.iter().filter(is_unheld).map(line).collect()
}

/// Says on stderr what a policy that needs samples does under a service, which takes none.
pub(super) fn note_unsampled(policy: &str) {
    if let Some(without) = unsampled(policy) {
        note(&format!(
            "note: no samples are taken by a service, so under {policy} {without}; `gridmux sim mix` takes some \
             (`gridmux policy show {policy}`)"
        ));
    }
}

/// Returns what a policy does under a service if it needs samples, where a service takes none.
pub(super) fn unsampled(policy: &str) -> Option<&'static str> {
    let takes_none = matches!(gridmux_mediator::dispatch::samples(), Enforcement::No(_));
    let info = all_policies().iter().find(|info| info.name == policy)?;
    match info.samples {
        Samples::Needed(without) if takes_none => Some(without),
        Samples::Needed(_) | Samples::Useful(_) | Samples::Unused => None,
    }
}

/// Returns the parser of an argument that names a policy: it knows all of them.
pub(super) fn name_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(all_policies().iter().map(|info| info.name))
}

fn row(info: &PolicyInfo) -> Vec<String> {
    let weights = match (info.promises_weights, info.uses_weights()) {
        (true, _) => "yes",
        (false, true) => "used",
        (false, false) => "no",
    };
    let samples = info.samples.name();
    [info.name, weights, samples, info.paper, info.summary]
        .map(ToOwned::to_owned)
        .into()
}
