//! What a mix says beside its figures: what of the command means nothing to the policy, and what the policy cannot do
//! with it.

use super::spec::{Source, Spec};
use gridmux_mix::{Member, Pace};
use gridmux_policy::policies::{smk_pw, spatial, warped_slicer};
use gridmux_policy::{Class, PolicyInfo, Samples};

/// Returns a line where a policy cannot divide so few SMs, and what it does then.
pub(super) fn undivided(policy: &str, programs: usize, sms: u16) -> Option<String> {
    let have = match sms {
        1 => "one SM cannot".to_owned(),
        sms => format!("{sms} SMs cannot"),
    };
    let then = match policy {
        spatial::NAME | warped_slicer::NAME if programs > usize::from(sms) => {
            "programs share SMs without a partition, in order of arrival"
        }
        smk_pw::NAME if programs > 1 && sms < 2 => "issue slots are not partitioned",
        _ => return None,
    };
    Some(format!(
        "note: {have} be divided among {programs} programs, and under {policy} {then}; try more, with --sms"
    ))
}

/// Returns a line for the weights, and one for the classes, that mean nothing to a policy.
pub(super) fn ignored(info: &PolicyInfo, specs: &[Spec]) -> Vec<String> {
    let policy = info.name;
    let names = |has: fn(&Spec) -> bool| {
        let names = specs
            .iter()
            .filter(|spec| has(spec))
            .map(|spec| &*spec.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (weighted, classed) = (
        names(|spec| spec.weight != 1),
        names(|spec| spec.class != Class::Normal),
    );
    let mut lines = Vec::new();
    if !info.uses_weights() && !weighted.is_empty() {
        lines.push(format!(
            "note: weights (of {weighted}) have no meaning under {policy}, only ASKED follows from them (`gridmux \
             policy show {policy}`)"
        ));
    }
    if !info.uses_classes() && !classed.is_empty() {
        lines.push(format!(
            "note: classes (of {classed}) have no meaning under {policy} (`gridmux policy show {policy}`)"
        ));
    }
    lines
}

/// Returns a line on the programs whose only launch arrives at their begin, whatever their loop is.
pub(super) fn loops_of_one(specs: &[Spec]) -> Option<String> {
    let has_one = |spec: &&Spec| {
        let is_kernel = !matches!(spec.source, Source::Trace { .. });
        is_kernel && spec.launches == 1 && spec.pace != Pace::Closed(0)
    };
    let names = specs.iter().filter(has_one).map(|spec| &*spec.name);
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| {
        format!(
            "note: `every` and `think` have no effect on {}, with one launch; give more, as launches=20",
            names.join(", ")
        )
    })
}

/// Returns a line on the programs of which the executor has no samples, where the policy needs some.
pub(super) fn unsampled<'a>(
    info: &PolicyInfo,
    programs: usize,
    unsampled: impl Iterator<Item = &'a Member>,
) -> Option<String> {
    let Samples::Needed(without) = info.samples else {
        return None;
    };
    let names: Vec<&str> = unsampled.map(|member| &*member.name).collect();
    if programs < 2 || names.is_empty() {
        return None;
    }
    let policy = info.name;
    Some(format!(
        "note: event has no samples of {}, of which only durations are known, and {policy} needs some: without them, \
         {without} (`gridmux policy show {policy}`)",
        names.join(", ")
    ))
}
