//! No block starts or comes back where one of a launch that goes before it had room.
//!
//! Rules: a launch goes before another as the group's order says, by rank and then by arrival or by arrival alone, once
//! it has arrived, is first in its stream, and has a block that is on no SM. It had the room that another one got if
//! its blocks are no larger, as free room need not be in one piece, and the plan permits it one more block there. In a
//! line it need not have room. Where the group lends, one that is beyond cap or limit got room only if no other launch
//! within its own waited, whatever the order and the sizes, and among those beyond theirs the order counts alone.
//! Judged only where the subject holds the order exactly and says where blocks are; a plan
//! that was made at the instant of a start may or may not be in force, and a block that ended or was switched out
//! within [`Subject::observation`] may or may not count towards caps, and may or may not be known to wait.

use super::referee::{Book, Coming, JUDGED};
use super::run::Run;
use super::{BlockSeen, Change, Slack, Subject, referee};
use crate::contract::{Element, Enforcement};
use crate::ids::RowId;
use crate::plan::{DispatchOrder, Plan};
use crate::shape::DeviceShape;
use crate::units::Nanos;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A launch that arrived.
struct Queued {
    load: usize,
    launch: usize,
    row: RowId,
    /// When its first block may start at the latest, if it is alone.
    ready: Nanos,
    /// Blocks that have not started.
    left: u32,
    /// When blocks left that were switched out and are not back, by number.
    away: BTreeMap<u64, Nanos>,
}

/// The device as the blocks that were seen leave it.
struct Scene<'a> {
    run: &'a Run,
    shape: DeviceShape,
    /// In order of arrival.
    queue: Vec<Queued>,
    book: Book,
    /// Blocks that left a short time ago and are in the books still.
    leaving: VecDeque<BlockSeen>,
    /// The same without the blocks that leave from when they may have begun to on, for what is surely beyond a cap.
    least: Book,
    /// The head of a line holds up those behind it to the block.
    lines: bool,
    /// Room is lent where a plan says so.
    lends: bool,
    /// How long ago a block may have left without the subject's knowing.
    lag: Nanos,
}

/// Checks every start of a run.
pub(super) fn watch(run: &Run, subject: &dyn Subject) -> Result<(), String> {
    let exact = |element| subject.enforces(element) == Enforcement::Exact;
    if !exact(Element::Order) || !run.knows_sms() {
        return Ok(());
    }
    let plans: Vec<(Nanos, &Plan)> = run.plans().collect();
    let mut scene = Scene {
        run,
        // Rounding of the instant apart.
        lag: Nanos(subject.observation().0.saturating_sub(1)),
        shape: subject.device(),
        queue: queue(run, subject),
        book: Book::default(),
        leaving: VecDeque::new(),
        least: Book::default(),
        lines: exact(Element::HeadOfLine),
        lends: exact(Element::Surplus),
    };
    let early = referee::on_their_way(run, subject.slack(Element::Preemption).time);
    let mut early = early.iter().peekable();
    for seen in &run.trace.blocks {
        scene.let_go(seen.at);
        if matches!(seen.change, Change::Started | Change::SwitchedIn) {
            while let Some(other) = early.next_if(|other| *other != seen) {
                scene.enter(other);
            }
            let until = |n: usize| plans.get(n + 1).map_or(Nanos::MAX, |next| next.0);
            let in_force = plans.iter().enumerate();
            let mut in_force =
                in_force.filter(|(n, (made, _))| *made <= seen.at && seen.at <= until(*n));
            let passed = in_force.try_fold(None, |_, (_, (_, plan))| {
                scene.passed(plan, seen).map(Some).ok_or(())
            });
            if let Ok(Some((load, launch))) = passed {
                return run.fail(format!(
                    "{seen:?} passes launch {launch} of load {load}, which had room there"
                ));
            }
        }
        scene.take_note(seen);
    }
    Ok(())
}

/// Returns the launches in order of arrival.
fn queue(run: &Run, subject: &dyn Subject) -> Vec<Queued> {
    let latency = Nanos(subject.grain().0 / 20);
    let mut launches = run.trace.launches.clone();
    let arrived = |load: usize, launch: usize| run.loads[load].launches[launch].at;
    launches.sort_by_key(|seen| (arrived(seen.load, seen.launch), seen.number));
    let mut free: HashMap<_, Nanos> = HashMap::new();
    let queued = launches.iter().map(|seen| {
        let load = &run.loads[seen.load];
        let before = free.insert(
            (load.tenant, load.stream),
            seen.end.unwrap_or(Nanos(u64::MAX / 2)),
        );
        let from = arrived(seen.load, seen.launch).max(before.unwrap_or(Nanos(0)));
        Queued {
            load: seen.load,
            launch: seen.launch,
            row: seen.row,
            ready: from + latency,
            left: load.launches[seen.launch].blocks,
            away: BTreeMap::new(),
        }
    });
    queued.collect()
}

impl Scene<'_> {
    /// Returns the load and place of a launch that goes before a block that comes and had room where it comes.
    fn passed(&self, plan: &Plan, seen: &BlockSeen) -> Option<(usize, usize)> {
        let sm = seen.sm?;
        let group = plan
            .group_of(sm)
            .map(|id| &plan.groups()[usize::from(id.0)]);
        let ranked = group.is_some_and(|group| group.order == DispatchOrder::Rank);
        let in_line = self.lines && group.is_some_and(|group| group.head_of_line);
        let at = self.place_of(seen)?;
        let rank = |queued: &Queued| match ranked {
            true => plan.rank(queued.row),
            false => 0,
        };
        let key = (rank(&self.queue[at]), at);
        let lends = self.lends && plan.lends_on(sm);
        let is_lent = lends && !self.may(plan, (&self.least, &JUDGED), (seen, &self.queue[at]));
        let rules = match is_lent {
            true => &[Element::Budget][..],
            false => &JUDGED,
        };
        let mut waiting = self.queue.iter().enumerate().filter(|(other, queued)| {
            *other != at
                && queued.ready <= seen.at
                && (queued.left > 0 || self.is_away(queued, seen.at))
        });
        let first = waiting.find(|(other, queued)| {
            let may = |rules| self.may(plan, (&self.book, rules), (seen, queued));
            let is_before = (rank(queued), *other) < key;
            let had_room = in_line || self.is_smaller(queued.load, seen.load) && may(rules);
            is_before && had_room || is_lent && !in_line && may(&JUDGED)
        });
        first.map(|(_, queued)| (queued.load, queued.launch))
    }

    /// Returns whether a block of a launch waits to come back, and the subject knows.
    fn is_away(&self, queued: &Queued, now: Nanos) -> bool {
        queued.away.values().any(|since| *since + self.lag <= now)
    }

    /// Returns whether the blocks of a load take no more than those of another one.
    fn is_smaller(&self, load: usize, than: usize) -> bool {
        let (block, than) = (self.run.trace.shapes[load], self.run.trace.shapes[than]);
        block.threads <= than.threads
            && block.registers <= than.registers
            && block.shared_bytes <= than.shared_bytes
    }

    /// Returns whether some rules of a plan let a launch have a block more where another one's came.
    fn may(
        &self,
        plan: &Plan,
        (book, rules): (&Book, &[Element]),
        (seen, queued): (&BlockSeen, &Queued),
    ) -> bool {
        let would = BlockSeen {
            load: queued.load,
            launch: queued.launch,
            change: match self.is_away(queued, seen.at) {
                true => Change::SwitchedIn,
                false => Change::Started,
            },
            ..*seen
        };
        let coming = self.coming(&would, queued.row);
        let exact = Slack::exact(Nanos(0));
        let permits = |element| book.permits(plan, &self.shape, &coming, element, &exact);
        rules.iter().copied().all(permits)
    }

    fn coming<'a>(&self, seen: &'a BlockSeen, row: RowId) -> Coming<'a> {
        Coming {
            seen,
            row,
            tenant: self.run.loads[seen.load].tenant,
            block: self.run.trace.shapes[seen.load],
        }
    }

    /// Enters what happened to a block, once it has begun to leave if it leaves, into the book of what there is at
    /// least.
    fn enter(&mut self, seen: &BlockSeen) {
        let Some(at) = self.place_of(seen) else {
            return;
        };
        let coming = self.coming(seen, self.queue[at].row);
        match seen.change {
            Change::Started | Change::SwitchedIn => self.least.come(&coming),
            Change::Ended | Change::SwitchedOut => self.least.leave(&coming),
        }
    }

    /// Takes blocks that left longer ago than the lag out of the books.
    fn let_go(&mut self, now: Nanos) {
        let lag = self.lag;
        while let Some(left) = self.leaving.pop_front_if(|left| left.at + lag <= now) {
            let Some(at) = self.place_of(&left) else {
                continue;
            };
            let coming = self.coming(&left, self.queue[at].row);
            self.book.leave(&coming);
        }
    }

    fn take_note(&mut self, seen: &BlockSeen) {
        let Some(at) = self.place_of(seen) else {
            return;
        };
        let queued = &mut self.queue[at];
        match seen.change {
            Change::Started => queued.left -= 1,
            Change::SwitchedOut => drop(queued.away.insert(seen.block, seen.at)),
            Change::SwitchedIn => drop(queued.away.remove(&seen.block)),
            Change::Ended => {}
        }
        if matches!(seen.change, Change::Ended | Change::SwitchedOut) {
            self.leaving.push_back(*seen);
            return;
        }
        let row = queued.row;
        let coming = self.coming(seen, row);
        self.book.come(&coming);
    }

    fn place_of(&self, seen: &BlockSeen) -> Option<usize> {
        let is_it = |queued: &Queued| (queued.load, queued.launch) == (seen.load, seen.launch);
        self.queue.iter().position(is_it)
    }
}
