//! SMs and memory partitions together: one epoch in two halves, each a job of the crew.
//!
//! Rules: an item of the first half is an SM that has something to do, an item of the second a group of partitions,
//! or the logs of all SMs; small jobs are done by the caller alone, because waking a thread costs more than they
//! take; results never depend on who did what.

use super::exchange::Exchange;
use super::launches::Launches;
use super::memory_system::{Group, Reply, Request, Topology, groups};
use super::sm::{Epoch, Sm};
use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::exec::{Order, WriteLog, apply_all};
use crate::memory::Memory;
use gridmux_policy::ids::RowId;
use gridmux_sync::crew::{Crew, Each};

/// Fewest busy SM cycles of the last epoch, and requests, for which other threads are asked to help: handing work over
/// costs about as much as this many instructions.
const WORTH_SHARING: u32 = 24;

/// The SMs and memory partitions, which are simulated side by side.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) sms: Vec<Sm>,
    groups: Vec<Group>,
    group_next: Vec<Option<u64>>,
    topology: Topology,
    requests: Exchange<Request>,
    replies: Exchange<Reply>,
    crew: Crew,
    order: Order,
    /// SMs with something to do in the epoch.
    active: Vec<u16>,
    /// Of those, the ones that sent requests.
    senders: Vec<u16>,
    /// Other threads are asked to help.
    shares: bool,
}

/// What every SM sees of the device in an epoch.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) config: &'a GpuConfig,
    pub(crate) memory: &'a Memory,
    pub(crate) launches: &'a Launches,
}

// SAFETY: in the first half of an epoch nobody writes launches, parameters or device memory; the raw pointers
// inside are read through only.
unsafe impl Sync for Around<'_> {}

impl Machine {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let topology = Topology::new(config);
        let (sms, count) = (usize::from(config.sm.count), topology.groups());
        Self {
            sms: (0..config.sm.count).map(|id| Sm::new(config, id)).collect(),
            groups: groups(config, &topology),
            group_next: vec![None; count],
            topology,
            requests: Exchange::new(sms, count),
            replies: Exchange::new(count, sms),
            crew: Crew::new(1),
            order: Order::with_capacity(4096),
            active: Vec::with_capacity(sms),
            senders: Vec::with_capacity(sms),
            shares: false,
        }
    }

    /// Lets `threads` threads work from now on, the caller's included; zero counts as one.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        if self.crew.threads() != threads.max(1) {
            self.crew = Crew::new(threads);
        }
    }

    /// Returns the first cycle at which something can happen without new blocks.
    pub(crate) fn next_event(&mut self) -> Option<u64> {
        let sms = self.sms.iter_mut().map(|sm| sm.status().next_at).min();
        let sms = sms.filter(|at| *at != u64::MAX);
        let groups = self.group_next.iter().flatten().copied().min();
        [sms, groups].into_iter().flatten().min()
    }

    /// Counters that the memory side moved for a launch of a row, taken away; each SM's part is its own from now on.
    pub(crate) fn take_tally(&mut self, launch: u32, row: RowId) -> Counters {
        let mut sum = Counters::default();
        for group in &mut self.groups {
            for (sm, counters) in group.tally.take(launch) {
                self.sms[sm].count_towards_totals(row, &counters);
                sum += counters;
            }
        }
        sum
    }

    /// Forgets what the memory side did for an earlier launch of this number after its end.
    pub(crate) fn forget_tally(&mut self, launch: u32) {
        for group in &mut self.groups {
            group.tally.take(launch).for_each(drop);
        }
    }

    /// Returns what the memory side has moved for an SM's launches that have not ended, with their numbers.
    pub(crate) fn tally_of_sm(&self, sm: u16) -> impl Iterator<Item = &(u32, Counters)> {
        self.groups
            .iter()
            .flat_map(move |group| group.tally.of_sm(sm))
    }

    /// Runs both halves.
    pub(crate) fn run(&mut self, around: Around<'_>, start: u64, end: u64) {
        self.active.clear();
        let mut work = 0;
        for (id, sm) in (0..).zip(&mut self.sms) {
            let status = sm.status();
            if status.next_at < end || status.wrote || status.starts {
                self.active.push(id);
                // A block that starts fills its warps' registers.
                work += status.busy_cycles + 8 * u32::from(status.starts);
            }
        }
        self.shares = work >= WORTH_SHARING;
        self.run_sms(around, start, end);
        self.run_groups(end);
    }

    fn run_sms(&mut self, around: Around<'_>, start: u64, end: u64) {
        let Self {
            sms,
            groups,
            topology,
            requests,
            replies,
            crew,
            active,
            shares,
            ..
        } = self;
        let epoch = Shared(Epoch {
            config: around.config,
            memory: around.memory,
            launches: around.launches,
            topology,
            groups,
            requests,
            replies,
            start,
            end,
        });
        let each = Each::new(sms);
        let run = |item: usize| {
            // SAFETY: the SMs in `active` differ, and each item is run once.
            let sm = unsafe { each.get(usize::from(active[item])) };
            sm.run(epoch.get());
        };
        if *shares {
            crew.run(active.len(), &run);
        } else {
            (0..active.len()).for_each(run);
        }
    }

    fn run_groups(&mut self, end: u64) {
        let Self {
            sms,
            groups,
            group_next,
            requests,
            replies,
            crew,
            order,
            active,
            senders,
            shares,
            ..
        } = self;
        senders.clear();
        let mut wrote = false;
        for id in active.iter() {
            let status = sms[usize::from(*id)].status();
            wrote |= status.wrote;
            if std::mem::take(&mut status.sent) != 0 {
                senders.push(*id);
            }
        }
        let idle = |next: &Option<u64>| next.is_none_or(|at| at >= end);
        if senders.is_empty() && !wrote && group_next.iter().all(idle) {
            return;
        }
        let worth = *shares && senders.len() > 2;
        {
            let logs = Each::new(std::slice::from_mut(sms));
            let orders = Each::new(std::slice::from_mut(order));
            let parts = Each::new(groups);
            let next = Each::new(group_next);
            let (senders, active) = (&*senders, &*active);
            let (requests, replies) = (&*requests, &*replies);
            let run = |item: usize| {
                if item == 0 {
                    if wrote {
                        // SAFETY: only item 0 touches SMs and the order.
                        let (sms, order) = unsafe { (logs.get(0), orders.get(0)) };
                        apply_logs(sms, active, order);
                    }
                    return;
                }
                // SAFETY: group `item - 1` is this item's own.
                let (group, next) = unsafe { (parts.get(item - 1), next.get(item - 1)) };
                group.serve(item - 1, end, senders, requests, replies);
                *next = group.next_event();
            };
            let count = parts.count() + 1;
            if worth {
                crew.run(count, &run);
            } else {
                (0..count).for_each(run);
            }
        }
        for (number, group) in groups.iter().enumerate() {
            for (word, bits) in group.answered.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    let id = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let status = sms[id].status();
                    status.answered |= 1 << number;
                    status.next_at = status.next_at.min(group.first_reply);
                }
            }
        }
    }
}

/// Applies the epoch's writes of all SMs.
fn apply_logs(sms: &mut [Sm], active: &[u16], order: &mut Order) {
    let wrote = |sm: &mut Sm| sm.status().wrote;
    // Up to this many SMs the list of logs needs no storage of its own.
    let mut logs: smallvec::SmallVec<[(u16, &mut WriteLog); 160]> = smallvec::SmallVec::new();
    let mut rest = sms;
    let mut passed = 0;
    for id in active {
        let (head, tail) = rest.split_at_mut(usize::from(*id) + 1 - passed);
        passed = usize::from(*id) + 1;
        rest = tail;
        if let Some(sm) = head.last_mut()
            && wrote(sm)
        {
            logs.push((*id, sm.log()));
        }
    }
    apply_all(&mut logs, order);
}

/// An epoch that several threads read.
struct Shared<'a>(Epoch<'a>);

// SAFETY: as for `Around`; the boxes are reached by one thread each, and groups are read through only.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    fn get(&self) -> &Epoch<'a> {
        &self.0
    }
}
