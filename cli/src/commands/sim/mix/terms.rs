//! What a command changes of policy `gridmux`: terms that are off, and the bound.

use crate::failure::Failure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use gridmux_policy::policies::gridmux::{NAME, Settings};
use gridmux_policy::terms::TERMS;
use std::collections::BTreeMap;

/// The term that `--bound` sets.
const BOUND: &str = "bound";
/// Greatest bound that can be set.
const MOST_BOUND: f64 = 1e6;

/// Changes of the policy.
#[derive(Debug, Args)]
pub(super) struct Terms {
    /// Term of policy gridmux that is off; may be repeated (`gridmux policy show gridmux`)
    #[arg(long, value_name = "TERM", value_parser = PossibleValuesParser::new(TERMS.map(|term| term.name)))]
    pub(super) without: Vec<String>,
    /// Slowdown beyond which policy gridmux has launches come first [default: 8]
    #[arg(long, value_name = "X", value_parser = bound)]
    pub(super) bound: Option<f64>,
}

impl Terms {
    /// Checks that what is changed goes together, and with a policy.
    ///
    /// # Errors
    /// Wrong usage.
    pub(super) fn check(&self, policy: &str) -> Result<(), Failure> {
        if policy != NAME && self.changes() {
            return Err(Failure::usage(format!(
                "--without and --bound change policy {NAME}, and the policy is {policy}"
            ))
            .hint(format!("run the mix with --policy {NAME}")));
        }
        if self.bound.is_some() && self.without.iter().any(|name| name == BOUND) {
            return Err(Failure::usage(
                "--without bound and --bound do not go together: leave one out",
            ));
        }
        Ok(())
    }

    /// Returns the settings of `gridmux` where they are not the usual ones.
    pub(super) fn settings(&self) -> Option<Settings> {
        self.changes().then(|| {
            let mut settings = Settings::default();
            let is_off = |name: &str| self.without.iter().any(|off| off == name);
            for term in TERMS.iter().filter(|term| is_off(term.name)) {
                (term.switch_off)(&mut settings);
            }
            settings.bound = self.bound.or(settings.bound);
            settings
        })
    }

    /// Returns for each term whether it is on; none for another policy.
    pub(super) fn on(&self, policy: &str) -> Option<BTreeMap<&'static str, bool>> {
        let settings = self.settings().unwrap_or_default();
        let terms = TERMS.map(|term| (term.name, (term.value)(&settings).is_some()));
        (policy == NAME).then(|| terms.into())
    }

    /// Returns what is changed, as a line of text; nothing where nothing is.
    pub(super) fn text(&self) -> String {
        let without = match &self.without[..] {
            [] => None,
            names => Some(format!("without {}", names.join(", "))),
        };
        let bound = self.bound.map(|bound| format!("bound {bound}"));
        let parts: Vec<String> = without.into_iter().chain(bound).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("{}\n", parts.join("; ")),
        }
    }

    fn changes(&self) -> bool {
        !self.without.is_empty() || self.bound.is_some()
    }
}

fn bound(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1.0..=MOST_BOUND).contains(number));
    number.ok_or_else(|| format!("give a slowdown from 1 to {MOST_BOUND}, as 4"))
}
