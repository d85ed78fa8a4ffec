//! No block starts or comes back where one of a launch that goes before it had room.
//!
//! Rules: a launch goes before another as the group's order says, by rank and then by arrival or by arrival alone, once
//! it has arrived, is first in its stream, and has a block that is on no SM. It had the room that another one got if
//! its blocks are no larger, as free room need not be in one piece, and the plan permits it one more block there. In a
//! line it need not have room. Judged only where the subject holds the order exactly and says where blocks are; a plan
//! that was made at the instant of a start may or may not be in force, and a block that ended or was switched out
//! within [`Subject::observation`] may or may not count towards caps, and may or may not be known to wait.

use super::referee::{Book, Coming, JUDGED};
use super::run::Run;
use super::{BlockSeen, Change, Slack, Subject};
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
    /// The head of a line holds up those behind it to the block.
    lines: bool,
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
        lines: exact(Element::HeadOfLine),
    };
    for seen in &run.trace.blocks {
        scene.let_go(seen.at);
        if matches!(seen.change, Change::Started | Change::SwitchedIn) {
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
        let mut waiting = self.queue.iter().enumerate().filter(|(other, queued)| {
            queued.ready <= seen.at
                && (queued.left > 0 || self.is_away(queued, seen.at))
                && (rank(queued), *other) < key
        });
        let first = waiting.find(|(_, queued)| in_line || self.has_room(plan, seen, queued));
        first.map(|(_, queued)| (queued.load, queued.launch))
    }

    /// Returns whether a block of a launch waits to come back, and the subject knows.
    fn is_away(&self, queued: &Queued, now: Nanos) -> bool {
        queued.away.values().any(|since| *since + self.lag <= now)
    }

    /// Returns whether a launch might have had a block more on an SM.
    fn has_room(&self, plan: &Plan, seen: &BlockSeen, queued: &Queued) -> bool {
        let block = self.run.trace.shapes[queued.load];
        let got = self.run.trace.shapes[seen.load];
        let is_smaller = block.threads <= got.threads
            && block.registers <= got.registers
            && block.shared_bytes <= got.shared_bytes;
        let would = BlockSeen {
            load: queued.load,
            launch: queued.launch,
            change: match self.is_away(queued, seen.at) {
                true => Change::SwitchedIn,
                false => Change::Started,
            },
            ..*seen
        };
        let coming = Coming {
            seen: &would,
            row: queued.row,
            tenant: self.run.loads[queued.load].tenant,
            block,
        };
        let exact = Slack::exact(Nanos(0));
        let may = |element| {
            self.book
                .permits(plan, &self.shape, &coming, element, &exact)
        };
        is_smaller && JUDGED.into_iter().all(may)
    }

    /// Takes blocks that left longer ago than the lag out of the books.
    fn let_go(&mut self, now: Nanos) {
        let lag = self.lag;
        while let Some(left) = self.leaving.pop_front_if(|left| left.at + lag <= now) {
            let Some(at) = self.place_of(&left) else {
                continue;
            };
            let block = self.run.trace.shapes[left.load];
            self.book.leave(&Coming {
                seen: &left,
                row: self.queue[at].row,
                tenant: self.run.loads[left.load].tenant,
                block,
            });
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
        let block = self.run.trace.shapes[seen.load];
        self.book.come(&Coming {
            seen,
            row,
            tenant: self.run.loads[seen.load].tenant,
            block,
        });
    }

    fn place_of(&self, seen: &BlockSeen) -> Option<usize> {
        let is_it = |queued: &Queued| (queued.load, queued.launch) == (seen.load, seen.launch);
        self.queue.iter().position(is_it)
    }
}
