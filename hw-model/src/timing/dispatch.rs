//! The stock block scheduler: left-over placement from hardware queues, by level.
//!
//! The head of each of the 32 streams is a candidate. Of a level, candidates place their blocks in order of becoming
//! eligible, strictly one after another: the next kernel gets what is left only when every block of the earlier ones
//! was placed. A candidate of a higher level goes before those of lower ones from the moment at which it is eligible,
//! so that it takes the next room that its blocks fit into; nothing that runs is stopped. Where a block of a level does
//! not fit, lower levels wait as well, or, without `launch.priority_holds`, fill the room that it cannot use.
//! Blocks go to SMs in turn (breadth first), one per `block_interval_cycles` over the whole GPU, the first
//! blocks of launches at least `front_end_cycles` apart.
//! Streams share the chip's hardware queues: a launch whose stream has not come to it holds up those of other streams
//! behind it in the same hardware queue (false serialisation, where there is only one).
//! Rules: launches of one stream run one after another; blocks start in ascending order.

use super::launches::Launches;
use super::sm::Sm;
use super::turns::{Threads, Turns};
use crate::config::GpuConfig;
use crate::launch::{HARDWARE_QUEUES, Level};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// A block that was placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) launch: u32,
    pub(crate) at: u64,
}

/// The head of a stream, with blocks left to place; the highest level first, then in order of eligibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    level: Reverse<Level>,
    at: u64,
    serial: u64,
    launch: u32,
    /// Hardware queue.
    hardware: usize,
    /// The front end has taken it.
    has_started: bool,
    /// Its next block did not fit, or too many kernels ran, and nothing was freed since.
    is_waiting: bool,
}

/// Queues and the state of the scheduler.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    queues: Vec<VecDeque<u32>>,
    /// Sorted.
    candidates: Vec<Candidate>,
    /// Launches with blocks left to place, by hardware queue, in order of submission.
    hardware: Vec<VecDeque<u32>>,
    next_sm: usize,
    threads: Threads,
    front_end: Turns,
    placements: Turns,
    /// A candidate that waits holds lower levels back.
    priority_holds: bool,
    kernel_cycles: u64,
    dependent_cycles: u64,
    node_cycles: u64,
    /// Kernels that have started and not ended, and how many there may be.
    running: u32,
    concurrent_kernels: u32,
}

impl Dispatcher {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        Self {
            queues: (0..HARDWARE_QUEUES)
                .map(|_| VecDeque::with_capacity(64))
                .collect(),
            candidates: Vec::with_capacity(HARDWARE_QUEUES),
            next_sm: 0,
            threads: Threads::new(config.ns_to_cycles(config.launch.submit_ns.into())),
            front_end: Turns::new(config.launch.front_end_cycles.into()),
            placements: Turns::new(config.launch.block_interval_cycles),
            priority_holds: config.launch.priority_holds,
            kernel_cycles: u64::from(config.launch.kernel_cycles),
            dependent_cycles: u64::from(config.launch.dependent_cycles),
            node_cycles: u64::from(config.launch.front_end_cycles),
            hardware: (0..config.launch.hardware_queues)
                .map(|_| VecDeque::with_capacity(64))
                .collect(),
            running: 0,
            concurrent_kernels: config.launch.concurrent_kernels,
        }
    }

    /// Queues a launch at `now`. A node of a graph comes with the launch before it, if its queue has one, so that no
    /// thread submits it.
    pub(crate) fn submit(&mut self, index: u32, launches: &mut Launches, now: u64, is_node: bool) {
        let Some(launch) = launches.get_mut(index) else {
            return;
        };
        let queue = launch.queue;
        let behind = self.queues[queue].back().copied();
        launch.is_dependent = behind.is_some();
        launch.is_node = is_node && launch.is_dependent;
        launch.submitted_at = match launch.is_node {
            true => now,
            false => self.threads.submit(launch.tenant, now),
        };
        let hardware = queue % self.hardware.len();
        self.hardware[hardware].push_back(index);
        self.queues[queue].push_back(index);
        if behind.is_none() {
            self.promote(queue, launches, now);
        }
    }

    /// Lets the head of a queue start at `at`, or as soon as it has come to the GPU.
    fn promote(&mut self, queue: usize, launches: &mut Launches, at: u64) {
        let Some(head) = self.queues[queue].front().copied() else {
            return;
        };
        let Some(launch) = launches.get_mut(head) else {
            return;
        };
        let at = at.max(launch.submitted_at + self.kernel_cycles);
        launch.eligible_at = Some(at);
        self.candidates.push(Candidate {
            level: Reverse(launch.level),
            at,
            serial: launch.serial,
            launch: head,
            hardware: queue % self.hardware.len(),
            has_started: false,
            is_waiting: false,
        });
        self.candidates.sort_unstable();
    }

    /// Notes that a launch ended or was dropped at `now`; its successor comes next.
    pub(crate) fn remove(&mut self, index: u32, launches: &mut Launches, now: u64) {
        let Some(launch) = launches.get(index) else {
            return;
        };
        let queue = launch.queue;
        let hardware = queue % self.hardware.len();
        self.hardware[hardware].retain(|other| *other != index);
        self.running -= u32::from(launch.first_start.is_some());
        let was_head = self.queues[queue].front() == Some(&index);
        self.queues[queue].retain(|other| *other != index);
        self.candidates.retain(|other| other.launch != index);
        self.room_freed();
        let next = self.queues[queue].front();
        let next_is_node = next
            .and_then(|next| launches.get(*next))
            .is_some_and(|next| next.is_node);
        if was_head {
            let gap = match next_is_node {
                true => self.node_cycles,
                false => self.dependent_cycles,
            };
            self.promote(queue, launches, now + gap);
        }
    }

    /// Notes that room was freed.
    pub(crate) fn room_freed(&mut self) {
        for candidate in &mut self.candidates {
            candidate.is_waiting = false;
        }
    }

    /// Heads with blocks left to place and since when they may, for another block scheduler than the stock one.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = (u64, u32)> {
        self.candidates.iter().map(|head| (head.at, head.launch))
    }

    /// Returns the first cycle at which a block can be placed.
    pub(crate) fn next_place_at(&self) -> u64 {
        self.placements.next_at()
    }

    /// Returns the first cycle at which the first block of a launch can be placed.
    pub(crate) fn next_launch_at(&self) -> u64 {
        self.front_end.next_at()
    }

    /// Returns where the search for room begins.
    pub(crate) fn next_sm(&self) -> usize {
        self.next_sm
    }

    /// Notes that another block scheduler placed a block.
    pub(crate) fn placed_at(&mut self, sm: usize, count: usize, at: u64) {
        self.next_sm = (sm + 1) % count;
        self.placements.take(at);
    }

    /// Notes that another block scheduler started a block of a launch at `at`, its `first` one, or its last one.
    pub(crate) fn started(&mut self, index: u32, first: bool, last: bool, at: u64) {
        if first {
            self.running += 1;
            self.front_end.take(at);
        }
        if last {
            self.candidates.retain(|other| other.launch != index);
            for hardware in &mut self.hardware {
                hardware.retain(|other| *other != index);
            }
        }
    }

    /// Returns when the next block could be placed, if nothing is freed before.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.next_candidate(0).map(|(_, at)| at)
    }

    /// Returns the first cycle at which a candidate's next block can be placed.
    fn first_place_of(&self, candidate: &Candidate) -> u64 {
        let at = candidate.at.max(self.placements.next_at());
        match candidate.has_started {
            true => at,
            false => at.max(self.front_end.next_at()),
        }
    }

    /// Returns the candidate that places the next block, and when, not before `now`: of each level's first one at the
    /// head of its hardware queue the earliest, and of several at a time that of the highest level.
    fn next_candidate(&self, now: u64) -> Option<(usize, u64)> {
        let is_head = |head: &Candidate| self.hardware[head.hardware].front() == Some(&head.launch);
        let mut best: Option<(usize, u64)> = None;
        let mut level = None;
        for (place, candidate) in self.candidates.iter().enumerate() {
            if level == Some(candidate.level) || !is_head(candidate) {
                continue;
            }
            level = Some(candidate.level);
            if candidate.is_waiting {
                match self.priority_holds {
                    true => break,
                    false => continue,
                }
            }
            let at = self.first_place_of(candidate).max(now);
            if best.is_none_or(|(_, earliest)| at < earliest) {
                best = Some((place, at));
            }
        }
        best
    }

    /// Places what can be placed between `now` and `end`.
    pub(crate) fn place(
        &mut self,
        sms: &mut [Sm],
        launches: &mut Launches,
        now: u64,
        end: u64,
        placed: &mut Vec<Placement>,
    ) {
        let nsmid = u32::try_from(sms.len()).unwrap_or(u32::MAX);
        while let Some((first, at)) = self.next_candidate(now) {
            if at >= end {
                return;
            }
            let candidate = self.candidates[first];
            let (index, hardware) = (candidate.launch, candidate.hardware);
            let (Some(shape), Some(launch)) =
                (launches.shape(index, nsmid), launches.get_mut(index))
            else {
                self.candidates.remove(first);
                continue;
            };
            if launch.first_start.is_none() && self.running >= self.concurrent_kernels {
                // A kernel that ends makes room for this one.
                self.candidates[first].is_waiting = true;
                continue;
            }
            let count = sms.len();
            let order = (0..count).map(|step| (self.next_sm + step) % count);
            let Some(sm) = order.into_iter().find(|sm| sms[*sm].fits(&launch.needs)) else {
                self.candidates[first].is_waiting = true;
                continue;
            };
            let block = launch.next_block;
            launch.next_block += 1;
            if launch.first_start.is_none() {
                launch.first_start = Some(at);
                self.candidates[first].has_started = true;
                self.running += 1;
                self.front_end.take(at);
            }
            sms[sm].place(launch, index, &shape, block, at);
            placed.push(Placement { launch: index, at });
            self.next_sm = (sm + 1) % count;
            self.placements.take(at);
            if launch.all_placed() {
                self.candidates.remove(first);
                self.hardware[hardware].pop_front();
            }
        }
    }
}
