//! Tenants' limits: what all rows of a tenant hold together, on the device and on each SM.

use super::run::{Run, SMALL, Scene, load};
use super::script::PlanSpec;
use super::{Case, Slack, Subject, Verdict};
use crate::contract::Element;
use crate::ids::TenantId;
use crate::plan::{NO_CAP, Preemption};
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits};
use crate::units::Nanos;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "rows of a tenant hold its device limit together",
        needs: &[Element::DeviceLimit],
        run: |subject| together(subject, true),
    },
    Case {
        name: "rows of a tenant hold its limit on each SM together",
        needs: &[Element::GroupLimit],
        run: |subject| together(subject, false),
    },
    Case {
        name: "beyond a lowered limit the worst rank leaves first",
        needs: &[Element::GroupLimit, Element::Preemption],
        run: |subject| lowered(subject, false),
    },
    Case {
        name: "beyond a lowered device limit the worst rank leaves first",
        needs: &[Element::DeviceLimit, Element::Preemption],
        run: |subject| lowered(subject, true),
    },
];

/// Threads of a block of a second shape.
const WIDE: u32 = 2 * SMALL;

/// Returns the dominant share of blocks given as (threads, count), as far as threads and slots go.
fn units(shape: &DeviceShape, blocks: &[(u32, u32)]) -> SmUnits {
    let mut held = Held::default();
    for (threads, n) in blocks {
        let block = BlockShape::of_threads(*threads);
        held.add(&block, *n);
    }
    held.dominant(shape)
}

/// Checks a case: two rows of tenant 0, of small and of wide blocks, without caps, and one of tenant 1 without a limit,
/// which comes last in rank. Tenant 0 may hold as much as one small and one wide block take, on each SM or that many
/// times on the device. Blocks stay for 4 grains. At 2 grains tenant 0 can hold no small block more, whatever mixture
/// it holds, and tenant 1 has at least a block on each SM.
fn together(subject: &mut dyn Subject, device: bool) -> Result<Verdict, String> {
    let (shape, grain) = (subject.device(), subject.grain());
    let each = u32::from(shape.sms);
    let one = units(&shape, &[(SMALL, 1), (WIDE, 1)]);
    let all = units(&shape, &[(SMALL, each), (WIDE, each)]);
    let (on_device, on_sm) = if device {
        (all, SmUnits::MAX)
    } else {
        (SmUnits::MAX, one)
    };
    let mut spec = PlanSpec::at(Nanos(0), shape.sms)
        .row(0, 0, NO_CAP)
        .row(1, 0, NO_CAP)
        .row(2, 1, NO_CAP)
        .limit(TenantId(0), on_device, on_sm);
    spec.default_cap = 0;
    let mut loads = vec![
        load(0, SMALL, 5 * each, grain * 4),
        load(0, WIDE, 5 * each, grain * 4),
        load(1, SMALL, 3 * each, grain * 4),
    ];
    loads[1].stream = 7;
    let run = Scene::of(vec![spec], loads, grain * 100).complete(subject)?;
    let at = grain * 2;
    let full = |count: [i64; 2], limit: SmUnits, slack: &Slack| {
        let mut held = Held::default();
        for (load, n) in count.into_iter().enumerate() {
            held.add(&run.trace.shapes[load], u32::try_from(n).unwrap_or(0));
        }
        let more = held.room_within(&shape, limit, &run.trace.shapes[0]);
        run.require(
            &format!("{count:?} blocks leave room for {more}"),
            more <= slack.blocks,
        )
    };
    if device {
        let count = [0, 1].map(|load| run.resident(load, at));
        full(count, all, &subject.slack(Element::DeviceLimit))?;
    } else if run.knows_sms() {
        for sm in 0..shape.sms {
            let count = [0, 1].map(|load| run.resident_on(load, at, sm));
            full(count, one, &subject.slack(Element::GroupLimit))?;
        }
    }
    let other = run.resident(2, at);
    run.require(
        &format!("tenant 1 has room, and holds {other} blocks"),
        other >= i64::from(each),
    )?;
    Ok(Verdict::Held)
}

/// Checks a case: two rows of tenant 0 with 2 blocks an SM each, of 12 grains: row 0, which came first, has rank 1, row
/// 1 has rank 0 and wide blocks. From 2 grains on the tenant may hold what 2 wide blocks take, on each SM or that many
/// times on the device. So everything of row 0 leaves and row 1 stays. From 6 grains on all come back.
fn lowered(subject: &mut dyn Subject, device: bool) -> Result<Verdict, String> {
    if !subject.switches() {
        return Ok(Verdict::Skipped("blocks cannot leave before their end"));
    }
    let (shape, grain) = (subject.device(), subject.grain());
    let each = u32::from(shape.sms);
    let spec = |at, limited: bool| {
        let (on_device, on_sm) = match (limited, device) {
            (false, _) => (SmUnits::MAX, SmUnits::MAX),
            (true, true) => (units(&shape, &[(WIDE, 2 * each)]), SmUnits::MAX),
            (true, false) => (SmUnits::MAX, units(&shape, &[(WIDE, 2)])),
        };
        let mut spec = PlanSpec::at(grain * at, shape.sms)
            .row(0, 1, 2)
            .row(1, 0, 2)
            .limit(TenantId(0), on_device, on_sm);
        spec.default_cap = 0;
        spec.each_group(|group| group.preemption = Preemption::Switch)
    };
    let mut loads = vec![
        load(0, SMALL, 2 * each, grain * 12),
        load(0, WIDE, 2 * each, grain * 12),
    ];
    loads[1].stream = 7;
    let run = Scene::of(
        vec![spec(0, false), spec(2, true), spec(6, false)],
        loads,
        grain * 60,
    )
    .complete(subject)?;
    let left = grain * 2 + subject.slack(Element::Preemption).time;
    let both = |run: &Run, at| [0, 1].map(|load| run.resident(load, at));
    let two = i64::from(2 * each);
    run.expect("blocks before", both(&run, grain * 2), [two, two])?;
    run.expect("blocks under the limit", both(&run, left), [0, two])?;
    run.expect("blocks long after", both(&run, grain * 5), [0, two])?;
    run.expect("blocks that are back", both(&run, grain * 9), [two, two])?;
    Ok(Verdict::Held)
}
