//! Launches, their queues, and which of them may place blocks.
//!
//! Rules: launches of one queue run one after another, in order of arrival; a slot names a launch until the launch is
//! removed; the lists of candidates are made again only after a launch came, went, became ready or placed its last
//! block, after a switch, and for a new plan.

use super::demand::Demand;
use super::kernel::{Blocks, EventKernel, LaunchCounters};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::Plan;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A launch that has not ended.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) number: u64,
    /// Order of arrival.
    pub(super) serial: u64,
    pub(super) row: RowId,
    pub(super) tenant: TenantId,
    pub(super) kernel: Arc<EventKernel>,
    /// What the kernel demands of the device.
    pub(super) demand: Demand,
    pub(super) work: Blocks,
    /// When its first block may start, but for a launch before it in its queue.
    pub(super) ready_at: u64,
    /// Blocks of its kernel that an SM holds.
    pub(super) most: u16,
    pub(super) blocks: u64,
    pub(super) started: u64,
    pub(super) ended: u64,
    /// Switched blocks by number.
    pub(super) saved: BTreeMap<u64, Saved>,
    pub(super) counters: LaunchCounters,
    queue: (TenantId, u32),
}

/// A block that was switched out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saved {
    /// What is left of its work.
    pub(super) work: f64,
    /// Its residence until then.
    pub(super) ran: u64,
    /// Bytes of its context.
    pub(super) bytes: u64,
}

/// What is remembered of a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowCounts {
    /// Blocks that have started.
    pub(super) started: u64,
    /// Blocks that have ended.
    pub(super) ended: u64,
    /// Sum of their residences.
    pub(super) ran: u64,
}

/// All launches.
#[derive(Debug)]
pub(super) struct Launches {
    slots: Vec<Option<Launch>>,
    free: Vec<u32>,
    by_number: HashMap<u64, u32>,
    queues: HashMap<(TenantId, u32), VecDeque<u32>>,
    serial: u64,
    /// Slots of launches with a block to place, in order of arrival and in order of rank.
    by_arrival: Vec<u32>,
    by_rank: Vec<u32>,
    /// When a launch comes into the lists that is the head of its queue and not ready; [`u64::MAX`] for never.
    pub(super) next_ready: u64,
    /// The two lists have to be made again.
    pub(super) stale: bool,
}

impl Launch {
    pub(super) fn new(
        (number, row): (u64, RowId),
        queue: (TenantId, u32),
        (kernel, demand, work): (Arc<EventKernel>, Demand, Blocks),
        (blocks, most): (u64, u16),
        ready_at: u64,
    ) -> Self {
        Self {
            number,
            serial: 0,
            row,
            tenant: queue.0,
            kernel,
            demand,
            work,
            ready_at,
            most,
            blocks,
            started: 0,
            ended: 0,
            saved: BTreeMap::new(),
            counters: LaunchCounters::default(),
            queue,
        }
    }

    /// Returns how many blocks it has that are on no SM and not on their way out.
    pub(super) fn waiting(&self) -> u64 {
        self.blocks - self.started + self.saved.len() as u64
    }
}

impl Default for Launches {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_number: HashMap::new(),
            queues: HashMap::new(),
            serial: 0,
            by_arrival: Vec::new(),
            by_rank: Vec::new(),
            next_ready: u64::MAX,
            stale: false,
        }
    }
}

impl Launches {
    pub(super) fn insert(&mut self, mut launch: Launch) {
        launch.serial = self.serial;
        self.serial += 1;
        self.stale = true;
        let (number, queue) = (launch.number, launch.queue);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[slot as usize] = Some(launch);
        self.by_number.insert(number, slot);
        self.queues.entry(queue).or_default().push_back(slot);
    }

    pub(super) fn slot_of(&self, number: u64) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// Returns the launch in a slot that is in use.
    pub(super) fn get(&self, slot: u32) -> &Launch {
        let launch = self.slots[slot as usize].as_ref();
        launch.expect("a slot is freed after its last block is gone from every SM")
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Launch {
        let launch = self.slots[slot as usize].as_mut();
        launch.expect("a slot is freed after its last block is gone from every SM")
    }

    /// Removes a launch of which nothing is on an SM.
    pub(super) fn remove(&mut self, slot: u32) -> Launch {
        let launch = self.slots[slot as usize].take();
        let launch = launch.expect("a slot is freed once");
        self.free.push(slot);
        self.by_number.remove(&launch.number);
        if let Some(queue) = self.queues.get_mut(&launch.queue) {
            queue.retain(|other| *other != slot);
            if queue.is_empty() {
                self.queues.remove(&launch.queue);
            }
        }
        self.stale = true;
        launch
    }

    /// Has the launch behind one that was removed start no sooner than at a time.
    pub(super) fn follow(&mut self, removed: &Launch, at: u64) {
        let next = self.queues.get(&removed.queue).and_then(|q| q.front());
        if let Some(slot) = next.copied() {
            let launch = self.get_mut(slot);
            if launch.serial > removed.serial {
                launch.ready_at = launch.ready_at.max(at);
            }
        }
    }

    /// Makes the lists of candidates, if they have to be made again: heads of queues that are ready and
    /// have a block to place.
    pub(super) fn sort(&mut self, plan: &Plan, now: u64) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let slots = &self.slots;
        let launch = |slot: u32| slots[slot as usize].as_ref();
        let heads = self
            .queues
            .values()
            .filter_map(|queue| queue.front().copied());
        self.by_arrival.clear();
        let works = |slot: &u32| launch(*slot).is_some_and(|launch| launch.waiting() > 0);
        self.by_arrival.extend(heads.filter(works));
        let ready_at = |slot: &u32| launch(*slot).map_or(0, |launch| launch.ready_at);
        let later = self.by_arrival.iter().map(ready_at);
        self.next_ready = later.filter(|at| *at > now).min().unwrap_or(u64::MAX);
        self.by_arrival.retain(|slot| ready_at(slot) <= now);
        let serial = |slot: &u32| launch(*slot).map(|launch| launch.serial);
        self.by_arrival.sort_unstable_by_key(serial);
        self.by_rank.clone_from(&self.by_arrival);
        let rank = |slot: &u32| launch(*slot).map(|launch| plan.rank(launch.row));
        self.by_rank.sort_by_key(rank);
    }

    /// Returns the candidates in order of rank, or of arrival.
    pub(super) fn candidates(&self, ranked: bool) -> &[u32] {
        match ranked {
            true => &self.by_rank,
            false => &self.by_arrival,
        }
    }
}
