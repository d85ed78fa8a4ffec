//! The terms of policy `gridmux` that can be switched off, by the names that users give them.

use crate::plan::Preemption;
use crate::policies::gridmux::Settings;
use serde::Serialize;

/// A term of the policy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Term {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Switches it off.
    #[serde(skip)]
    pub switch_off: fn(&mut Settings),
    /// Returns its value; none where it is switched off.
    #[serde(skip)]
    pub value: fn(&Settings) -> Option<String>,
}

/// Every term that can be switched off.
pub const TERMS: [Term; 7] = [
    Term {
        name: "profiles",
        summary: "profiles say how long kernels take that have not run yet",
        switch_off: |settings| settings.uses_profiles = false,
        value: |settings| settings.uses_profiles.then(|| "yes".to_owned()),
    },
    Term {
        name: "sharing",
        summary: "launches share with the first one, of those that wait for DRAM only one",
        switch_off: |settings| {
            settings.share_within = None;
            settings.pairs = false;
        },
        value: |settings| {
            let within = settings.share_within?;
            Some(format!(
                "up to {within} times as long where the device counts no uses"
            ))
        },
    },
    Term {
        name: "pairs",
        summary: "two programs of which not both wait for DRAM stay within their parts",
        switch_off: |settings| settings.pairs = false,
        value: |settings| settings.pairs.then(|| "yes".to_owned()),
    },
    Term {
        name: "samples",
        summary: "blocks of an unknown kernel run at once while it waits",
        switch_off: |settings| settings.samples = 0,
        value: |settings| {
            let blocks = settings.samples;
            (blocks > 0).then(|| format!("{blocks} block{}", if blocks == 1 { "" } else { "s" }))
        },
    },
    Term {
        name: "hand-over",
        summary: "blocks in the way leave before they have ended",
        switch_off: |settings| settings.hand_over = Preemption::None,
        value: |settings| match settings.hand_over {
            Preemption::None => None,
            Preemption::Cheapest => Some("the cheapest way".to_owned()),
            other => Some(format!("{other:?}").to_lowercase()),
        },
    },
    Term {
        name: "guard",
        summary: "who held more of the device than its weight's part, by more than this, comes last",
        switch_off: |settings| settings.guard = None,
        value: |settings| settings.guard.map(|ns| format!("{} ms", ns / 1e6)),
    },
    Term {
        name: "bound",
        summary: "a launch that would be slowed down beyond this comes first",
        switch_off: |settings| settings.bound = None,
        value: |settings| settings.bound.map(|bound| format!("{bound} times")),
    },
];

#[cfg(all(test, not(loom)))]
mod tests {
    use super::TERMS;
    use crate::plan::Preemption;
    use crate::policies::gridmux::Settings;

    #[test]
    fn every_setting_of_the_policy_is_switched_off_by_a_term() {
        // A setting that is new is missed here first.
        let off = |settings: &Settings| {
            let Settings {
                profiles: _,
                uses_profiles,
                share_within,
                pairs,
                samples,
                hand_over,
                guard,
                bound,
            } = settings;
            [
                !uses_profiles,
                share_within.is_none(),
                !pairs,
                *samples == 0,
                *hand_over == Preemption::None,
                guard.is_none(),
                bound.is_none(),
            ]
        };
        assert_eq!(off(&Settings::default()), [false; 7]);
        for (place, term) in TERMS.iter().enumerate() {
            let mut settings = Settings::default();
            assert!((term.value)(&settings).is_some(), "{}", term.name);
            (term.switch_off)(&mut settings);
            assert_eq!((term.value)(&settings), None, "{}", term.name);
            let mut due = [false; 7];
            due[place] = true;
            // Without sharing pairs do not share either.
            due[2] |= term.name == "sharing";
            assert_eq!(off(&settings), due, "{}", term.name);
        }
    }
}
