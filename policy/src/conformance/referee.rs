//! No block starts or comes back that no plan in force permits: caps, limits and budgets, by a second book.
//!
//! Rules: where a group lends room and the subject does, caps and limits permit everything; what they are worth then
//! [`super::precedence`] and the cases on [`super::surplus`] say. A plan is in force from the time at which it was made
//! until the next one was, and for as long after as the subject says that it takes to obey ([`super::Slack::time`]),
//! for a row that runs ahead as long as it takes to stop.
//! A block that leaves by context switch counts towards nothing while it is on its way, which may take as long as the
//! subject says.

use super::run::Run;
use super::{BlockSeen, Change, Slack, Subject};
use crate::contract::{Element, Enforcement};
use crate::ids::{RowId, SmId, TenantId};
use crate::plan::{NO_CAP, Plan, Stop};
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits};
use crate::units::Nanos;
use std::collections::HashMap;

/// The elements that decide whether a block may come.
pub(super) const JUDGED: [Element; 4] = [
    Element::Cap,
    Element::GroupLimit,
    Element::DeviceLimit,
    Element::Budget,
];

/// What is held, by the blocks that were seen.
#[derive(Default)]
pub(super) struct Book {
    on_sm: HashMap<(Option<SmId>, RowId), u32>,
    on_device: HashMap<RowId, u32>,
    started: HashMap<RowId, u64>,
    tenant_on_sm: HashMap<(Option<SmId>, TenantId), Held>,
    tenant: HashMap<TenantId, Held>,
}

/// A block that starts or comes back.
pub(super) struct Coming<'a> {
    pub(super) seen: &'a BlockSeen,
    pub(super) row: RowId,
    pub(super) tenant: TenantId,
    pub(super) block: BlockShape,
}

/// Checks every start of a run.
pub(super) fn watch(run: &Run, subject: &dyn Subject) -> Result<(), String> {
    let plans: Vec<(Nanos, &Plan)> = run.plans().collect();
    let mut book = Book::default();
    for seen in &on_their_way(run, subject.slack(Element::Preemption).time) {
        let Some(row) = run.row_of(seen) else {
            return run.fail(format!("{seen:?} is of a launch that never arrived"));
        };
        let coming = Coming {
            seen,
            row,
            tenant: run.loads[seen.load].tenant,
            block: run.trace.shapes[seen.load],
        };
        match seen.change {
            Change::Ended | Change::SwitchedOut => book.leave(&coming),
            Change::Started | Change::SwitchedIn => {
                for element in JUDGED {
                    judge(run, subject, &plans, (&book, &coming), element)?;
                }
                book.come(&coming);
            }
        }
    }
    Ok(())
}

/// Returns what happened to blocks in order, where those that were switched out have left as early as they may have
/// begun to.
pub(super) fn on_their_way(run: &Run, takes: Nanos) -> Vec<BlockSeen> {
    let mut came = HashMap::new();
    let mut blocks = run.trace.blocks.clone();
    for seen in &mut blocks {
        let name = (seen.load, seen.launch, seen.block);
        match seen.change {
            Change::Started | Change::SwitchedIn => drop(came.insert(name, seen.at)),
            Change::SwitchedOut => {
                let since = came.get(&name).copied().unwrap_or(Nanos(0));
                seen.at = since.max(Nanos(seen.at.0.saturating_sub(takes.0)));
            }
            Change::Ended => {}
        }
    }
    blocks.sort_by_key(|seen| seen.at);
    blocks
}

fn judge(
    run: &Run,
    subject: &dyn Subject,
    plans: &[(Nanos, &Plan)],
    (book, coming): (&Book, &Coming<'_>),
    element: Element,
) -> Result<(), String> {
    if let Enforcement::No(_) = subject.enforces(element) {
        return Ok(());
    }
    let at = coming.seen.at;
    let slack = subject.slack(element);
    // Its own rounding of the instant, at least.
    let since = Nanos(at.0.saturating_sub(slack.time.0.max(1)));
    let mut in_force = Vec::new();
    for (n, (made, plan)) in plans.iter().enumerate() {
        let over = plans.get(n + 1).map_or(Nanos::MAX, |next| next.0);
        let ahead = match plan.stop(coming.row) {
            Stop::Ahead => subject.slack(Element::Stop).time,
            Stop::Checked => Nanos(0),
        };
        if *made <= at && over + ahead >= since {
            in_force.push(*plan);
        }
    }
    let shape = subject.device();
    let lends = !matches!(subject.enforces(Element::Surplus), Enforcement::No(_));
    let permits = |plan: &&Plan| {
        let here = match coming.seen.sm {
            Some(sm) => plan.lends_on(sm),
            None => plan.lends(),
        };
        let is_lent = lends && here && element != Element::Budget;
        is_lent || book.permits(plan, &shape, coming, element, &slack)
    };
    if in_force.is_empty() || in_force.iter().any(permits) {
        return Ok(());
    }
    run.fail(format!(
        "{} of {} is exceeded by {:?}",
        element.name(),
        coming.row,
        coming.seen
    ))
}

impl Book {
    pub(super) fn come(&mut self, coming: &Coming<'_>) {
        let (sm, row, tenant) = (coming.seen.sm, coming.row, coming.tenant);
        *self.on_sm.entry((sm, row)).or_default() += 1;
        *self.on_device.entry(row).or_default() += 1;
        let on_sm = self.tenant_on_sm.entry((sm, tenant)).or_default();
        on_sm.add(&coming.block, 1);
        self.tenant.entry(tenant).or_default().add(&coming.block, 1);
        if coming.seen.change == Change::Started {
            *self.started.entry(row).or_default() += 1;
        }
    }

    pub(super) fn leave(&mut self, coming: &Coming<'_>) {
        let (sm, row, tenant) = (coming.seen.sm, coming.row, coming.tenant);
        *self.on_sm.entry((sm, row)).or_default() -= 1;
        *self.on_device.entry(row).or_default() -= 1;
        let on_sm = self.tenant_on_sm.entry((sm, tenant)).or_default();
        on_sm.remove(&coming.block, 1);
        self.tenant
            .entry(tenant)
            .or_default()
            .remove(&coming.block, 1);
    }

    /// Returns whether a plan lets the block come, as far as one element goes.
    pub(super) fn permits(
        &self,
        plan: &Plan,
        shape: &DeviceShape,
        coming: &Coming<'_>,
        element: Element,
        slack: &Slack,
    ) -> bool {
        let (sm, row, tenant) = (coming.seen.sm, coming.row, coming.tenant);
        let held = |held: Option<&Held>| {
            let mut held = held.copied().unwrap_or_default();
            held.add(&coming.block, 1);
            held
        };
        match element {
            Element::Cap => match sm {
                Some(sm) => {
                    let cap = plan.on_sm(sm, row).cap;
                    let has = self.on_sm.get(&(Some(sm), row)).copied().unwrap_or(0);
                    cap == NO_CAP || has < stretched(cap.into(), slack)
                }
                None => {
                    let has = self.on_device.get(&row).copied().unwrap_or(0);
                    has < stretched(plan.cap_total(row), slack)
                }
            },
            Element::GroupLimit => {
                let limit = sm
                    .and_then(|sm| plan.group_of(sm))
                    .zip(plan.limit_place(tenant));
                let limit = limit.map_or(SmUnits::MAX, |(group, place)| {
                    plan.group_limit(group.0.into(), place)
                });
                within(
                    held(self.tenant_on_sm.get(&(sm, tenant))),
                    limit,
                    shape,
                    coming,
                    slack,
                )
            }
            Element::DeviceLimit => {
                let limit = plan.device_limit(tenant);
                within(held(self.tenant.get(&tenant)), limit, shape, coming, slack)
            }
            Element::Budget => {
                let started = self.started.get(&row).copied().unwrap_or(0);
                let more = u64::from(slack.blocks);
                coming.seen.change == Change::SwitchedIn
                    || plan.budget(row).is_none_or(|most| started < most + more)
            }
            _ => true,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a bound, which saturates")]
fn stretched(cap: u32, slack: &Slack) -> u32 {
    ((f64::from(cap) * slack.factor) as u32).saturating_add(slack.blocks)
}

/// What is held with the block is within a limit and the slack.
#[allow(clippy::cast_possible_truncation, reason = "a bound, which saturates")]
fn within(
    held: Held,
    limit: SmUnits,
    shape: &DeviceShape,
    coming: &Coming<'_>,
    slack: &Slack,
) -> bool {
    let mut more = Held::default();
    more.add(&coming.block, slack.blocks);
    let limit = SmUnits((limit.0 as f64 * slack.factor) as u64).plus(more.dominant(shape));
    held.dominant(shape) <= limit
}
