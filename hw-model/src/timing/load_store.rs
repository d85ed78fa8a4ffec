//! The load/store unit: what an access costs, and how its misses find their way back.
//!
//! Rules: the unit takes one instruction at a time and holds it one cycle per cache line (or per conflict-free
//! round of shared memory); a load's registers are unknown until its last sector's time is known; a sector that is
//! on its way already is waited for, not asked for again; stores go through and wait for nothing.

use super::cache::Line;
use super::coalesce::{LineAccess, shared_cycles};
use super::memory_system::{NO_REPLY, Request, RequestKind};
use super::sm::{Epoch, Sm, State, UNKNOWN};
use crate::config::{GpuConfig, SECTOR_BYTES};
use crate::exec::{AUX_PAST_L1, Direction, NONE, Op, Space};
use std::cmp::Reverse;

/// A load some of whose sectors are on their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLoad {
    warp: u32,
    generation: u32,
    writes: [u16; 4],
    /// Misses that have not been answered.
    missing: u32,
    /// Latest time of the sectors known so far.
    at: u64,
}

/// A request in flight, with the loads that wait for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Miss {
    line: u64,
    sectors: u8,
    first_waiter: u32,
    /// The line has a place in L1 where the sectors go.
    cached: bool,
}

/// A link in a miss's list of loads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    load: u32,
    next: u32,
}

/// Bytes of a request without its data.
const HEADER_BYTES: u64 = 32;
/// End of a list of waiters.
const NOBODY: u32 = u32::MAX;

impl Sm {
    /// Accounts for the access that the warp's operation just made.
    pub(super) fn time_access(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        let config = epoch.config;
        let now = self.now;
        if self.access.mask == 0 {
            self.unit_free_at = now + 1;
            self.finish(slot, op, now + 1);
            return;
        }
        match self.access.space {
            Space::Shared => {
                let cycles = u64::from(self.shared_rounds());
                self.unit_free_at = now + cycles;
                self.counters_of(slot).shared_conflict_cycles += cycles - 1;
                self.finish(
                    slot,
                    op,
                    now + cycles - 1 + u64::from(config.shared.latency),
                );
            }
            Space::Local | Space::Constant => {
                // Local memory is laid out so that lanes side by side touch neighbouring words; constants come
                // one address a cycle.
                let cycles = match self.access.space {
                    Space::Local => u64::from(self.access.bytes.div_ceil(4)),
                    _ => self.distinct_addresses(),
                };
                self.unit_free_at = now + cycles;
                self.finish(slot, op, now + cycles - 1 + u64::from(config.l1.latency));
            }
            Space::Global => self.time_global(slot, op, launch, epoch),
        }
    }

    fn shared_rounds(&self) -> u32 {
        let rounds = shared_cycles(&self.access);
        if self.access.direction == Direction::Atomic {
            // A shared atomic is a read and a write.
            rounds * 2
        } else {
            rounds
        }
    }

    fn distinct_addresses(&self) -> u64 {
        let mut addresses = [0; 32];
        let mut count = 0;
        for lane in 0..32 {
            let address = self.access.addresses[lane];
            if self.access.mask >> lane & 1 != 0 && !addresses[..count].contains(&address) {
                addresses[count] = address;
                count += 1;
            }
        }
        count.max(1) as u64
    }

    /// The registers of a load or atomic are there at `at`.
    fn finish(&mut self, slot: u32, op: &Op, at: u64) {
        let entry = &mut self.warps[slot as usize];
        for register in op.writes.iter().take_while(|r| **r != NONE) {
            entry.ready_at[usize::from(*register)] = at;
        }
    }

    fn time_global(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        let config = epoch.config;
        self.lines.split(&self.access);
        let kind = match self.access.direction {
            Direction::Load => RequestKind::Read,
            Direction::Store => RequestKind::Write,
            Direction::Atomic => RequestKind::Atomic,
        };
        if kind == RequestKind::Atomic {
            self.lines.count_turns(&self.access);
        }
        let interval = u64::from(config.l1.line_interval);
        let mut load = Transfer {
            slot,
            launch,
            kind,
            past_l1: kind == RequestKind::Atomic || op.aux & AUX_PAST_L1 != 0,
            writes: op.writes,
            at: self.now,
            known: self.now,
            pending: NOBODY,
        };
        let answered = op.writes[0] != NONE;
        let count = self.lines.as_slice().len();
        let mut sectors = 0;
        for number in 0..count {
            let line = self.lines.as_slice()[number];
            sectors += u64::from(line.sectors.count_ones());
            if answered {
                self.load_line(&line, &mut load, config);
            } else {
                self.send(&line, NO_REPLY, &load, config);
            }
            load.at += interval;
        }
        self.unit_free_at = load.at;
        let counters = self.counters_of(slot);
        counters.global_lines += count as u64;
        counters.global_sectors += sectors;
        if load.pending == NOBODY {
            self.finish(slot, op, load.known);
        } else {
            let pending = self.pending.get(load.pending);
            pending.at = pending.at.max(load.known);
            self.finish(slot, op, UNKNOWN);
        }
    }

    /// Looks one line up and asks for what is missing.
    fn load_line(&mut self, line: &LineAccess, load: &mut Transfer, config: &GpuConfig) {
        if load.past_l1 {
            self.ask(line, line.sectors, None, load, config);
            return;
        }
        let latency = u64::from(config.l1.latency);
        let found = self.l1.find_or_insert(line.line, line.line);
        let Some((entry, _)) = found else {
            // Every line of the set waits for a fill, so these sectors come without a place in the cache.
            self.counters_of(load.slot).l1_miss_sectors += u64::from(line.sectors.count_ones());
            self.ask(line, line.sectors, None, load, config);
            return;
        };
        let hit = entry.valid & line.sectors;
        let coming = entry.pending & line.sectors;
        let missing = line.sectors & !hit & !coming;
        let waiting = entry.waiting;
        if hit != 0 {
            load.known = load.known.max((load.at + latency).max(entry.ready_at));
        }
        let counters = self.counters_of(load.slot);
        counters.l1_hit_sectors += u64::from((hit | coming).count_ones());
        counters.l1_miss_sectors += u64::from(missing.count_ones());
        let mut last = NOBODY;
        for (sector, miss) in waiting.into_iter().enumerate() {
            if coming >> sector & 1 != 0 && miss != last {
                self.join(miss, load);
                last = miss;
            }
        }
        if missing != 0 {
            self.ask(line, missing, Some(missing), load, config);
        }
    }

    /// Sends a request for sectors and lets the load wait for it; `place` names the sectors that go to L1.
    fn ask(
        &mut self,
        line: &LineAccess,
        sectors: u8,
        place: Option<u8>,
        load: &mut Transfer,
        config: &GpuConfig,
    ) {
        self.wait_for_miss_register(load, config);
        let miss = self.misses.take(Miss {
            line: line.line,
            sectors,
            first_waiter: NOBODY,
            cached: place.is_some(),
        });
        self.misses_in_flight += 1;
        if let Some(place) = place
            && let Some(entry) = self.l1.find(line.line, line.line)
        {
            entry.pending |= place;
            for sector in (0..4).filter(|sector| place >> sector & 1 != 0) {
                entry.waiting[sector] = miss;
            }
        }
        self.join(miss, load);
        self.send(&LineAccess { sectors, ..*line }, miss, load, config);
    }

    /// Stalls the unit until one of the miss registers is free.
    fn wait_for_miss_register(&mut self, load: &mut Transfer, config: &GpuConfig) {
        while self.fills.peek().is_some_and(|Reverse(at)| *at <= load.at) {
            self.fills.pop();
        }
        let used = self.misses_in_flight as usize + self.fills.len();
        if used >= config.l1.mshrs as usize
            && let Some(Reverse(at)) = self.fills.pop()
        {
            load.at = load.at.max(at);
        }
    }

    fn join(&mut self, miss: u32, load: &mut Transfer) {
        if load.pending == NOBODY {
            load.pending = self.pending.take(PendingLoad {
                warp: load.slot,
                generation: self.warps[load.slot as usize].generation,
                writes: load.writes,
                missing: 0,
                at: 0,
            });
        }
        self.pending.get(load.pending).missing += 1;
        let next = self.misses.get(miss).first_waiter;
        let waiter = self.waiters.take(Waiter {
            load: load.pending,
            next,
        });
        self.misses.get(miss).first_waiter = waiter;
    }

    fn send(&mut self, line: &LineAccess, miss: u32, load: &Transfer, config: &GpuConfig) {
        let payload = match load.kind {
            RequestKind::Read => 0,
            RequestKind::Write | RequestKind::Atomic => {
                u64::from(line.sectors.count_ones()) * SECTOR_BYTES
            }
        };
        let cycles = (HEADER_BYTES + payload)
            .div_ceil(u64::from(config.interconnect.request_bytes_per_cycle));
        let depart = load.at.max(self.port_free_at);
        self.port_free_at = depart + cycles;
        self.requests.push(Request {
            arrive: depart + u64::from(config.interconnect.latency),
            line: line.line,
            sectors: line.sectors,
            turns: line.turns,
            kind: load.kind,
            sm: self.id,
            miss,
            launch: load.launch,
        });
    }

    /// A reply: fills L1 and wakes the loads that waited for nothing else.
    pub(crate) fn fill(&mut self, number: u32, at: u64) {
        let miss = *self.misses.get(number);
        self.misses.give_back(number);
        self.misses_in_flight -= 1;
        self.fills.push(Reverse(at));
        if miss.cached
            && let Some(entry) = self.l1.find(miss.line, miss.line)
        {
            settle(entry, &miss, number, at);
        }
        let mut next = miss.first_waiter;
        while next != NOBODY {
            let waiter = *self.waiters.get(next);
            self.waiters.give_back(next);
            next = waiter.next;
            let load = self.pending.get(waiter.load);
            load.at = load.at.max(at);
            load.missing -= 1;
            if load.missing == 0 {
                let load = *load;
                self.pending.give_back(waiter.load);
                self.complete(&load);
            }
        }
    }

    fn complete(&mut self, load: &PendingLoad) {
        let entry = &mut self.warps[load.warp as usize];
        if entry.generation != load.generation {
            // The block is gone; its registers, too.
            return;
        }
        for register in load.writes.iter().take_while(|r| **r != NONE) {
            entry.ready_at[usize::from(*register)] = load.at;
        }
        if entry.state == State::Blocked {
            self.schedule(load.warp);
        }
    }
}

/// What a warp's access to global memory has come to so far.
struct Transfer {
    slot: u32,
    launch: u32,
    kind: RequestKind,
    past_l1: bool,
    writes: [u16; 4],
    /// When the line at hand is worked on.
    at: u64,
    /// Latest time of the sectors that were there.
    known: u64,
    pending: u32,
}

/// Marks the sectors of an answered miss as present, unless the line was given to others meanwhile.
fn settle(entry: &mut Line, miss: &Miss, number: u32, at: u64) {
    let mine = (0..4)
        .filter(|sector| entry.waiting[*sector] == number)
        .fold(0_u8, |bits, sector| bits | 1 << sector);
    let filled = miss.sectors & entry.pending & mine;
    entry.pending &= !filled;
    entry.valid |= filled;
    entry.ready_at = entry.ready_at.max(at);
}
