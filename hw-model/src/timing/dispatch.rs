//! The stock block scheduler: left-over placement from hardware queues.
//!
//! The head of each of the 32 streams is a candidate; candidates place their blocks in order of becoming eligible,
//! strictly one after another: the next kernel gets what is left only when every block of the earlier ones was
//! placed. Blocks go to SMs in turn (breadth first), one per `block_interval_cycles` over the whole GPU.
//! Streams share the chip's hardware queues: a launch whose stream has not come to it holds up those of other streams
//! behind it in the same hardware queue (false serialisation, where there is only one).
//! Rules: launches of one stream run one after another; blocks start in ascending order.

use super::launches::Launches;
use super::sm::Sm;
use crate::config::GpuConfig;
use crate::launch::HARDWARE_QUEUES;
use std::collections::VecDeque;

/// A block that was placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) launch: u32,
    pub(crate) at: u64,
}

/// Queues and the state of the scheduler.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    queues: Vec<VecDeque<u32>>,
    /// Heads with blocks left to place, in order of eligibility: since when, serial, launch, hardware queue.
    candidates: Vec<(u64, u64, u32, usize)>,
    /// Launches with blocks left to place, by hardware queue, in order of submission.
    hardware: Vec<VecDeque<u32>>,
    next_sm: usize,
    next_place_at: u64,
    /// The first candidate did not fit and nothing was freed since.
    full: bool,
    kernel_cycles: u64,
    dependent_cycles: u64,
    block_interval: u64,
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
            next_place_at: 0,
            full: false,
            kernel_cycles: u64::from(config.launch.kernel_cycles),
            dependent_cycles: u64::from(config.launch.dependent_cycles),
            block_interval: u64::from(config.launch.block_interval_cycles),
            hardware: (0..config.launch.hardware_queues)
                .map(|_| VecDeque::with_capacity(64))
                .collect(),
            running: 0,
            concurrent_kernels: config.launch.concurrent_kernels,
        }
    }

    /// Queues a launch at `now`.
    pub(crate) fn submit(&mut self, index: u32, launches: &mut Launches, now: u64) {
        let Some(launch) = launches.get_mut(index) else {
            return;
        };
        let queue = launch.queue;
        launch.is_dependent = !self.queues[queue].is_empty();
        let hardware = queue % self.hardware.len();
        self.hardware[hardware].push_back(index);
        self.queues[queue].push_back(index);
        if self.queues[queue].len() == 1 {
            self.promote(queue, launches, now + self.kernel_cycles);
        }
    }

    /// The head of a queue may start at `at`.
    fn promote(&mut self, queue: usize, launches: &mut Launches, at: u64) {
        let Some(head) = self.queues[queue].front().copied() else {
            return;
        };
        let Some(launch) = launches.get_mut(head) else {
            return;
        };
        launch.eligible_at = Some(at);
        let hardware = queue % self.hardware.len();
        self.candidates.push((at, launch.serial, head, hardware));
        self.candidates.sort_unstable();
        self.full = false;
    }

    /// A launch ended or was dropped at `now`; its successor comes next.
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
        self.candidates.retain(|(_, _, other, _)| *other != index);
        self.full = false;
        if was_head {
            self.promote(queue, launches, now + self.dependent_cycles);
        }
    }

    /// Room was freed.
    pub(crate) fn room_freed(&mut self) {
        self.full = false;
    }

    /// Heads with blocks left to place and since when they may, for another block scheduler than the stock one.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = (u64, u32)> {
        self.candidates
            .iter()
            .map(|(at, _, index, _)| (*at, *index))
    }

    /// First cycle at which a block can be placed.
    pub(crate) fn next_place_at(&self) -> u64 {
        self.next_place_at
    }

    /// Where the search for room begins.
    pub(crate) fn next_sm(&self) -> usize {
        self.next_sm
    }

    /// Another block scheduler placed a block.
    pub(crate) fn placed_at(&mut self, sm: usize, count: usize, at: u64) {
        self.next_sm = (sm + 1) % count;
        self.next_place_at = at + self.block_interval;
    }

    /// Another block scheduler started a block of a launch, its `first` one, or its last one.
    pub(crate) fn started(&mut self, index: u32, first: bool, last: bool) {
        self.running += u32::from(first);
        if last {
            self.candidates.retain(|(_, _, other, _)| *other != index);
            for hardware in &mut self.hardware {
                hardware.retain(|other| *other != index);
            }
        }
    }

    /// When the next block could be placed, if nothing is freed before.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let (at, ..) = self.candidates[self.next_candidate()?];
        (!self.full).then_some(at.max(self.next_place_at))
    }

    /// The first candidate at the head of its hardware queue.
    fn next_candidate(&self) -> Option<usize> {
        self.candidates
            .iter()
            .position(|(_, _, index, hardware)| self.hardware[*hardware].front() == Some(index))
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
        while !self.full {
            let Some(first) = self.next_candidate() else {
                return;
            };
            let (eligible_at, _, index, hardware) = self.candidates[first];
            let at = eligible_at.max(self.next_place_at).max(now);
            if at >= end {
                return;
            }
            let (Some(shape), Some(launch)) =
                (launches.shape(index, nsmid), launches.get_mut(index))
            else {
                self.candidates.remove(first);
                continue;
            };
            if launch.first_start.is_none() && self.running >= self.concurrent_kernels {
                // A kernel that ends makes room for this one.
                self.full = true;
                return;
            }
            let count = sms.len();
            let order = (0..count).map(|step| (self.next_sm + step) % count);
            let Some(sm) = order.into_iter().find(|sm| sms[*sm].fits(&launch.needs)) else {
                self.full = true;
                return;
            };
            let block = launch.next_block;
            launch.next_block += 1;
            self.running += u32::from(launch.first_start.is_none());
            launch.first_start.get_or_insert(at);
            sms[sm].place(launch, index, &shape, block, at);
            placed.push(Placement { launch: index, at });
            self.next_sm = (sm + 1) % count;
            self.next_place_at = at + self.block_interval;
            if launch.all_placed() {
                self.candidates.remove(first);
                self.hardware[hardware].pop_front();
            }
        }
    }
}
