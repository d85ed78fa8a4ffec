//! Caps: how many blocks of a row reside on each SM, and how those beyond a lowered cap leave.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Change, Slack, Subject, Verdict};
use crate::contract::Element;
use crate::plan::Preemption;
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a cap holds on each SM of its group",
        needs: &[Element::Cap],
        run: per_group,
    },
    Case {
        name: "a lowered cap without preemption binds new blocks only",
        needs: &[Element::Cap, Element::Preemption],
        run: |subject| lowered(subject, Preemption::None),
    },
    Case {
        name: "blocks beyond a lowered cap drain",
        needs: &[Element::Cap, Element::Preemption],
        run: |subject| lowered(subject, Preemption::Drain),
    },
    Case {
        name: "blocks beyond a lowered cap are switched out and come back",
        needs: &[Element::Cap, Element::Preemption],
        run: |subject| lowered(subject, Preemption::Switch),
    },
    Case {
        name: "where a switch is cheapest, blocks beyond a lowered cap are switched out",
        needs: &[Element::Cap, Element::Preemption],
        run: |subject| lowered(subject, Preemption::Cheapest),
    },
];

/// Returns a failure unless a count is what it should be, or as near as the slack permits.
pub(super) fn near(
    run: &Run,
    what: &str,
    got: i64,
    want: u32,
    slack: &Slack,
) -> Result<(), String> {
    let want = f64::from(want);
    let got = got as f64;
    let most = want * slack.factor + f64::from(slack.blocks);
    let least = want / slack.factor - f64::from(slack.blocks);
    match (least..=most).contains(&got) {
        true => Ok(()),
        false => run.fail(format!("{what}: {got} instead of {least} to {most}")),
    }
}

/// Checks a case of two tenants and two groups: the lower half of the SMs and the rest. Row 0 has caps 1 and 2, row 1
/// has 2 and 1, and both have blocks enough of 4 grains. At 2 grains everything has started that may: with 4 SMs, row 0
/// has 2 × 1 + 2 × 2 = 6 blocks, and so has row 1.
fn per_group(subject: &mut dyn Subject) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let half = sms / 2;
    let mut spec = PlanSpec::at(Nanos(0), sms).row(0, 0, 0).row(1, 1, 0);
    spec.default_cap = 0;
    spec.groups.push(spec.groups[0].clone());
    spec.groups[0].sms = (0, half);
    spec.groups[1].sms = (half, sms);
    spec.rows[0].caps = vec![1, 2];
    spec.rows[1].caps = vec![2, 1];
    let blocks = 4 * u32::from(sms);
    let run = Scene::of(
        vec![spec],
        vec![
            load(0, SMALL, blocks, grain * 4),
            load(1, SMALL, blocks, grain * 4),
        ],
        grain * 40,
    )
    .complete(subject)?;
    let (slack, at) = (subject.slack(Element::Cap), grain * 2);
    let rest = u32::from(sms - half);
    let half = u32::from(half);
    near(
        &run,
        "blocks of row 0",
        run.resident(0, at),
        half + 2 * rest,
        &slack,
    )?;
    near(
        &run,
        "blocks of row 1",
        run.resident(1, at),
        2 * half + rest,
        &slack,
    )?;
    if run.knows_sms() {
        for sm in 0..sms {
            let [one, other] = if u32::from(sm) < half { [1, 2] } else { [2, 1] };
            near(
                &run,
                "blocks of row 0 on an SM",
                run.resident_on(0, at, sm),
                one,
                &slack,
            )?;
            near(
                &run,
                "blocks of row 1 on an SM",
                run.resident_on(1, at, sm),
                other,
                &slack,
            )?;
        }
    }
    Ok(Verdict::Held)
}

/// Checks a case: one row of 6 blocks an SM, each of 8 grains, under a cap of 4, which is 1 from 2 grains to 5 grains,
/// with a budget of 6 blocks an SM in the end but of 4 until 14 grains. So 4 blocks an SM start at once. Without
/// switches all of them stay until they end, after 8 grains: when the cap is 4 again, nothing has moved. With switches
/// 3 of them leave each SM at 2 grains and come back from 5 grains on, although the budget is spent: a block that comes
/// back does not start. They end after about 8 + 3 grains. The other 2 start from 14 grains on.
fn lowered(subject: &mut dyn Subject, preemption: Preemption) -> Result<Verdict, String> {
    let (sms, grain) = (subject.device().sms, subject.grain());
    let each = u32::from(sms);
    let spec = |at, cap, budget| {
        let mut spec = PlanSpec::at(grain * at, sms)
            .row(0, 0, cap)
            .budget(Some(budget));
        spec.default_cap = 0;
        spec.each_group(|group| group.preemption = preemption)
    };
    let (some, all) = (u64::from(4 * each), u64::from(6 * each));
    let run = Scene::of(
        vec![
            spec(0, 4, some),
            spec(2, 1, some),
            spec(5, 4, some),
            spec(14, 4, all),
        ],
        vec![load(0, SMALL, 6 * each, grain * 8)],
        grain * 60,
    )
    .perform(subject)?;
    run.lowered_and_raised(subject, preemption)
}

impl Run {
    /// Checks what must be seen where a cap was lowered and raised again.
    fn lowered_and_raised(
        &self,
        subject: &dyn Subject,
        preemption: Preemption,
    ) -> Result<Verdict, String> {
        let run = self;
        run.all_ended()?;
        let (sms, grain) = (subject.device().sms, subject.grain());
        let each = u32::from(sms);
        let slack = subject.slack(Element::Cap);
        let left = grain * 2 + subject.slack(Element::Preemption).time;
        run.require(
            "the subject's blocks leave within 2 grains",
            left < grain * 4,
        )?;
        near(
            run,
            "blocks at first",
            run.resident(0, grain * 2),
            4 * each,
            &slack,
        )?;
        let switches = preemption.switches() && subject.switches();
        let stay = if switches { 1 } else { 4 };
        for at in [left, grain * 4] {
            let what = format!("blocks at {at} under a cap of 1");
            near(run, &what, run.resident(0, at), stay * each, &slack)?;
        }
        if run.knows_sms() {
            for sm in 0..sms {
                near(
                    run,
                    "blocks on an SM",
                    run.resident_on(0, left, sm),
                    stay,
                    &slack,
                )?;
            }
        }
        let moved = if switches { 3 * each } else { 0 };
        let out = run.count(0, Change::SwitchedOut);
        near(
            run,
            "blocks that left",
            i64::try_from(out).unwrap_or(i64::MAX),
            moved,
            &slack,
        )?;
        run.expect(
            "blocks that came back",
            run.count(0, Change::SwitchedIn),
            out,
        )?;
        let early = run.starts(0).iter().filter(|at| **at < grain * 14).count();
        near(
            run,
            "starts within the first budget",
            i64::try_from(early).unwrap_or(i64::MAX),
            4 * each,
            &subject.slack(Element::Budget),
        )?;
        Ok(Verdict::Held)
    }
}
