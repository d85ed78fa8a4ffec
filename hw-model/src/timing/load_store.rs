//! The load/store unit: what an access costs, and how its misses find their way back.
//!
//! Rules: the unit takes one instruction at a time and holds it one cycle per look-up of cache lines (or per
//! conflict-free round of shared memory or of the cache's data); a load's registers are unknown until its last sector's
//! time is known; a sector that is on its way already is waited for, not asked for again; a copy is a load without
//! registers, whose end is counted for its group of copies; stores are sent on and wait for no reply; where a miss
//! takes its line at once (`l1.reserves`), a full set holds the unit until it has room.

use super::cache::{Evicted, Line};
use super::coalesce::{LineAccess, passes, shared_cycles, shared_turns};
use super::copy_groups::Copied;
use super::lsu::{Miss, NOBODY, PendingLoad, Target, Waiter};
use super::memory_system::{NO_REPLY, Request, RequestKind};
use super::resident::State;
use super::sm::{Epoch, Sm, UNKNOWN};
use crate::config::{GpuConfig, L1, SECTOR_BYTES, Shared, WritePolicy};
use crate::exec::{AUX_PAST_L1, Direction, Kind, NONE, Op, Pattern, Space, WRITES};

/// First line of local memory, beyond every window of global memory.
const LOCAL_LINES: u64 = 1 << 50;

impl Sm {
    /// Times the access that the warp's operation just made: how long it holds the unit, and when its registers are
    /// there.
    pub(super) fn time_access(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        let config = epoch.config;
        let now = self.now;
        if self.lsu.access.mask == 0 {
            self.lsu.free_at = now + 1;
            self.finish(slot, op, now + 1);
            return;
        }
        match self.lsu.access.space {
            Space::Shared => {
                let rounds = u64::from(self.shared_rounds(&config.shared));
                self.counters_of(slot).shared_conflict_cycles += rounds - 1;
                let cycles = rounds.max(passes(self.lsu.access.mask, config.sm.load_store_lanes));
                self.lsu.free_at = now + cycles;
                self.finish(
                    slot,
                    op,
                    now + cycles - 1 + u64::from(config.shared.latency),
                );
            }
            Space::Local => {
                self.counters_of(slot).local_accesses += 1;
                self.split_local(slot);
                self.time_lines(slot, op, launch, epoch);
            }
            Space::Constant | Space::Texture => self.time_read_only(slot, op, launch, epoch),
            Space::Global => {
                self.lsu.lines.split(&self.lsu.access);
                self.time_lines(slot, op, launch, epoch);
            }
        }
    }

    fn shared_rounds(&self, shared: &Shared) -> u32 {
        match (self.lsu.access.direction, shared.atomic) {
            (Direction::Atomic, Some(atomic)) => {
                let turns = shared_turns(&self.lsu.access, shared.bank_bytes);
                (atomic.setup + atomic.turn * turns).max(atomic.least)
            }
            // A shared atomic is a read and a write.
            (Direction::Atomic, None) => 2 * shared_cycles(&self.lsu.access, shared.bank_bytes),
            _ => shared_cycles(&self.lsu.access, shared.bank_bytes),
        }
    }

    /// Sets the core cycle `at` in which the registers that the operation writes are there; [`UNKNOWN`] while that is
    /// open.
    fn finish(&mut self, slot: u32, op: &Op, at: u64) {
        let entry = &mut self.warps[slot as usize];
        for register in op.writes.iter().take_while(|r| **r != NONE) {
            entry.ready_at[usize::from(*register)] = at;
        }
    }

    /// Finds the lines of an access to local memory: the same word of all lanes of a warp lies in one line.
    fn split_local(&mut self, slot: u32) {
        let entry = &self.warps[slot as usize];
        let per_thread = u64::from(
            self.residency.blocks[usize::from(entry.block)]
                .block
                .env
                .local_bytes,
        );
        let thread = u64::from(entry.warp.index) * 32;
        let room = per_thread.div_ceil(4).max(1);
        let warps = self.warps.len() as u64;
        let home = LOCAL_LINES + (u64::from(self.id) * warps + u64::from(slot)) * room;
        self.lsu.lines.clear();
        for lane in 0..32_u64 {
            if self.lsu.access.mask >> lane & 1 == 0 {
                continue;
            }
            let first = (thread + lane) * per_thread;
            let offset = self.lsu.access.addresses[(lane & 31) as usize].saturating_sub(first);
            for word in offset / 4..=(offset + u64::from(self.lsu.access.bytes) - 1) / 4 {
                self.lsu.lines.add(home + word, 1 << (lane / 8));
            }
        }
    }

    pub(super) fn transfer(&self, slot: u32, launch: u32, op: &Op, kind: RequestKind) -> Transfer {
        Transfer {
            slot,
            launch,
            kind,
            past_l1: false,
            writes: op.writes,
            at: self.now,
            known: self.now,
            pending: NOBODY,
            copy: (op.kind == Kind::Copy).then(|| self.warps[slot as usize].copies.made()),
        }
    }

    /// Notes the core cycle in which the access's registers, or its copy, are there, that of the last sector; leaves it
    /// open while sectors are on their way.
    pub(super) fn conclude(&mut self, slot: u32, op: &Op, load: &Transfer) {
        if let Some(copy) = load.copy {
            let copies = &mut self.warps[slot as usize].copies;
            if load.pending == NOBODY {
                copies.known(copy, load.known);
            } else {
                copies.asked();
            }
        }
        if load.pending == NOBODY {
            self.finish(slot, op, load.known);
        } else {
            let pending = self.lsu.pending.get(load.pending);
            pending.at = pending.at.max(load.known);
            self.finish(slot, op, UNKNOWN);
        }
    }

    /// Times an access to the lines that were found, in global or local memory: looks each line up or sends it on, and
    /// counts it.
    fn time_lines(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        let config = epoch.config;
        let local = self.lsu.access.space == Space::Local;
        let kind = match self.lsu.access.direction {
            Direction::Load => RequestKind::Read,
            Direction::Store => RequestKind::Write,
            Direction::Atomic => RequestKind::Atomic,
        };
        if kind == RequestKind::Atomic {
            self.lsu.lines.count_turns(&self.lsu.access);
        }
        let interval = u64::from(config.l1.line_interval);
        let mut load = self.transfer(slot, launch, op, kind);
        load.past_l1 = kind == RequestKind::Atomic
            || self.lsu.access.late
            || op.aux & AUX_PAST_L1 != 0
            || !(local || config.l1.caches_global);
        let answered = op.writes[0] != NONE || load.copy.is_some();
        let count = self.lsu.lines.as_slice().len();
        // Only a load's look-up finds several lines.
        let together = match kind {
            RequestKind::Read => u64::from(config.l1.tag_lines),
            RequestKind::Write | RequestKind::Atomic => 1,
        };
        let begin = load.at;
        let (mut sectors, mut groups, mut newest) = (0, 0, None);
        for number in 0..count {
            let line = self.lsu.lines.as_slice()[number];
            let group = line.line / together;
            groups += u64::from(newest.replace(group).is_some_and(|other| other != group));
            let scattered = match together {
                1 => groups,
                _ => number as u64 / together + 1,
            };
            load.at = begin + interval * groups.min(scattered);
            sectors += u64::from(line.sectors.count_ones());
            if answered {
                self.load_line(&line, &mut load, epoch);
            } else if local {
                self.store_local(&line, &load, epoch);
            } else {
                if config.l1.write == WritePolicy::Evict || kind == RequestKind::Atomic {
                    self.caches.l1.discard(line.line, line.line, line.sectors);
                }
                self.send(&line, NO_REPLY, &load, epoch);
            }
        }
        load.at += interval;
        self.take_turns(&mut load, &config.l1);
        let passes = passes(self.lsu.access.mask, config.sm.load_store_lanes);
        load.at = load.at.max(self.now + passes);
        if self.lsu.free_at != UNKNOWN {
            self.lsu.free_at = load.at;
        }
        self.hold_unit();
        if kind != RequestKind::Read && !local {
            let there = self.port.free_at() + u64::from(config.l2.latency);
            let entry = &mut self.warps[slot as usize];
            entry.written_at = entry.written_at.max(there);
        }
        let counters = self.counters_of(slot);
        if !local {
            counters.global_lines += count as u64;
            counters.global_sectors += sectors;
        }
        self.conclude(slot, op, &load);
    }

    /// Extends the time for which an access holds the unit where the data of a load, or the lanes of an atomic
    /// operation, take longer than the look-ups; a load's data come later, too.
    fn take_turns(&self, load: &mut Transfer, l1: &L1) {
        if load.kind == RequestKind::Read && l1.bytes_per_cycle != 0 {
            let rounds = self.data_rounds(l1.bytes_per_cycle);
            if load.known > self.now {
                let there = self.now + rounds - 1 + u64::from(l1.latency);
                load.known = load.known.max(there);
            }
            load.at = load.at.max(self.now + rounds);
        }
        if load.kind == RequestKind::Atomic && l1.atomic_lanes != 0 {
            let lanes = self.lsu.access.mask.count_ones().div_ceil(l1.atomic_lanes);
            let turns = self
                .lsu
                .lines
                .as_slice()
                .iter()
                .map(|line| line.turns)
                .max();
            let turns = u64::from(turns.unwrap_or(1));
            load.at = load.at.max(self.now + u64::from(lanes) + turns);
        }
    }

    /// Returns the core cycles that the data of a load take: those of banks of four bytes, or those in which
    /// `bytes_per_cycle` bytes each are moved, whichever are more.
    fn data_rounds(&self, bytes_per_cycle: u32) -> u64 {
        let access = &self.lsu.access;
        let lanes = match access.pattern {
            Pattern::Uniform => 1,
            Pattern::Contiguous | Pattern::Scattered => access.mask.count_ones(),
        };
        let moved = (lanes * access.bytes).div_ceil(bytes_per_cycle);
        let lines = u32::try_from(self.lsu.lines.as_slice().len()).unwrap_or(u32::MAX);
        let rounds = match access.space {
            // Words of local memory lie side by side for the threads of a warp, and not where their offsets say.
            Space::Local => lines,
            // Words of one line lie in banks of their own.
            _ if access.bytes <= 4 && lines == 1 => 1,
            _ => shared_cycles(access, 4),
        };
        u64::from(rounds.max(moved))
    }

    /// Keeps a store to local memory in L1 until its line is evicted (write-back), or sends it to L2 where its set has
    /// no room.
    fn store_local(&mut self, line: &LineAccess, load: &Transfer, epoch: &Epoch<'_>) {
        let Some((entry, evicted)) = self.caches.l1.find_or_insert(line.line, line.line) else {
            self.send(line, NO_REPLY, load, epoch);
            return;
        };
        entry.valid |= line.sectors;
        entry.dirty |= line.sectors;
        self.write_back(evicted, load, epoch);
    }

    /// Sends the dirty sectors of an evicted line of local memory to L2.
    fn write_back(&mut self, evicted: Option<Evicted>, load: &Transfer, epoch: &Epoch<'_>) {
        if let Some(evicted) = evicted {
            let gone = LineAccess::new(evicted.line, evicted.dirty);
            let kind = RequestKind::Write;
            self.send(&gone, NO_REPLY, &Transfer { kind, ..*load }, epoch);
        }
    }

    /// Looks one line up in L1 and asks for the sectors that are missing; asks for all where the access goes past L1.
    pub(super) fn load_line(&mut self, line: &LineAccess, load: &mut Transfer, epoch: &Epoch<'_>) {
        if load.past_l1 {
            self.ask(line, line.sectors, false, load, epoch);
            return;
        }
        let config = epoch.config;
        let latency = u64::from(config.l1.latency);
        let found = self.caches.l1.find_or_insert(line.line, line.line);
        let Some((entry, evicted)) = found else {
            // Every line of the set waits for a fill, so these sectors come without a place in the cache.
            self.counters_of(load.slot).l1_miss_sectors += u64::from(line.sectors.count_ones());
            self.ask(line, line.sectors, false, load, epoch);
            if config.l1.reserves {
                self.lsu.crowded = Some(line.line);
                self.lsu.free_at = UNKNOWN;
            }
            return;
        };
        let hit = entry.valid & line.sectors;
        let coming = entry.pending & line.sectors & !hit;
        let mut missing = line.sectors & !hit & !coming;
        let waiting = entry.waiting;
        if hit != 0 {
            load.known = load.known.max((load.at + latency).max(entry.ready_at));
        }
        if missing != 0 && !config.l1.sectored {
            missing = !entry.valid & !entry.pending & 0xf;
        }
        self.write_back(evicted, load, epoch);
        let counters = self.counters_of(load.slot);
        counters.l1_hit_sectors += u64::from((hit | coming).count_ones());
        counters.l1_reserved_sectors += u64::from(coming.count_ones());
        counters.l1_miss_sectors += u64::from((line.sectors & !hit & !coming).count_ones());
        let mut last = NOBODY;
        for (sector, miss) in waiting.into_iter().enumerate() {
            if coming >> sector & 1 != 0 && miss != last {
                self.join(miss, load, config);
                last = miss;
            }
        }
        if missing != 0 {
            self.ask(line, missing, true, load, epoch);
        }
    }

    /// Sends a request for sectors and lets the load wait for it; `cached` says that they go to L1.
    fn ask(
        &mut self,
        line: &LineAccess,
        sectors: u8,
        cached: bool,
        load: &mut Transfer,
        epoch: &Epoch<'_>,
    ) {
        let target = if cached { Target::L1 } else { Target::Loads };
        let miss = self.lsu.misses.take(Miss::new(line.line, sectors, target));
        self.lsu.misses_in_flight += 1;
        if self.lsu.misses_in_flight >= epoch.config.l1.mshrs {
            // The last miss register is taken: the unit waits until a reply frees one.
            self.lsu.free_at = UNKNOWN;
        }
        if cached && let Some(entry) = self.caches.l1.find(line.line, line.line) {
            entry.pending |= sectors;
            for sector in (0..4).filter(|sector| sectors >> sector & 1 != 0) {
                entry.waiting[sector] = miss;
            }
        }
        self.join(miss, load, epoch.config);
        self.send(&LineAccess { sectors, ..*line }, miss, load, epoch);
    }

    /// Adds a load that waits for no request yet to those that are pending, and returns its number.
    pub(super) fn wait_alone(&mut self, load: &Transfer) -> u32 {
        self.lsu.pending.take(PendingLoad {
            warp: load.slot,
            generation: self.warps[load.slot as usize].generation,
            writes: load.writes,
            missing: 0,
            at: 0,
            code: false,
            copy: load.copy,
        })
    }

    fn join(&mut self, miss: u32, load: &mut Transfer, config: &GpuConfig) {
        if load.pending == NOBODY {
            load.pending = self.wait_alone(load);
        }
        self.wait_for(miss, load.pending);
        let entry = self.lsu.misses.get(miss);
        entry.joined += 1;
        if entry.joined >= config.l1.merges {
            // No further load can wait for this request, and the unit does not look past the next one.
            self.lsu.free_at = UNKNOWN;
        }
    }

    /// Makes a load wait for one more request.
    pub(super) fn wait_for(&mut self, miss: u32, load: u32) {
        self.lsu.pending.get(load).missing += 1;
        let next = self.lsu.misses.get(miss).first_waiter;
        let waiter = self.lsu.waiters.take(Waiter { load, next });
        self.lsu.misses.get(miss).first_waiter = waiter;
    }

    pub(super) fn send(
        &mut self,
        line: &LineAccess,
        miss: u32,
        load: &Transfer,
        epoch: &Epoch<'_>,
    ) {
        self.send_line(line, miss, (load.launch, load.kind, load.at), epoch);
    }

    /// Sends a request of kind `kind` for a line's sectors, on behalf of `launch` and not before core cycle `at`.
    pub(super) fn send_line(
        &mut self,
        line: &LineAccess,
        miss: u32,
        (launch, kind, at): (u32, RequestKind, u64),
        epoch: &Epoch<'_>,
    ) {
        let config = epoch.config;
        let payload = match kind {
            RequestKind::Read => 0,
            RequestKind::Write | RequestKind::Atomic => {
                u64::from(line.sectors.count_ones()) * SECTOR_BYTES
            }
        };
        let (departs, number) = self.port.send(&config.interconnect, payload, at);
        let home = epoch.topology.home(line.line);
        if kind != RequestKind::Read {
            self.heed(&home, epoch);
        }
        let request = Request {
            arrive: departs + u64::from(config.interconnect.latency),
            line: line.line,
            key: home.key,
            local: home.local,
            number,
            miss,
            launch,
            sm: self.id,
            partition: home.partition,
            slice: home.slice,
            sectors: line.sectors,
            turns: line.slice_turns,
            kind,
        };
        self.status.sent |= 1 << home.group;
        // SAFETY: in this half of the epoch the boxes from this SM are this call's own.
        unsafe {
            epoch
                .requests
                .of(usize::from(self.id), usize::from(home.group))
        }
        .push(request);
    }

    /// Takes the reply to miss `number` in core cycle `at`: fills the cache that the sectors are for, if any, and
    /// completes the loads that waited for nothing else; a context's sectors go to its context switch.
    pub(super) fn fill(&mut self, number: u32, at: u64, epoch: &Epoch<'_>) {
        let miss = *self.lsu.misses.get(number);
        self.lsu.misses.give_back(number);
        let home = match miss.target {
            Target::Context(moving) => {
                self.context_arrived(moving, at);
                return;
            }
            Target::Loads => None,
            Target::L1 => self.caches.l1.find(miss.line, miss.line),
            Target::Constants => self.caches.constants.find(miss.line, miss.line),
            Target::Code => self
                .front
                .as_mut()
                .and_then(|front| front.cache.find(miss.line, miss.line)),
        };
        if let Some(entry) = home {
            settle(entry, &miss, number, at);
        }
        if matches!(miss.target, Target::Loads | Target::L1) {
            self.lsu.misses_in_flight -= 1;
            self.release_unit(at, epoch.config);
        }
        let mut next = miss.first_waiter;
        while next != NOBODY {
            let waiter = *self.lsu.waiters.get(next);
            self.lsu.waiters.give_back(next);
            next = waiter.next;
            let load = self.lsu.pending.get(waiter.load);
            load.at = load.at.max(at);
            load.missing -= 1;
            if load.missing == 0 {
                let load = *load;
                self.lsu.pending.give_back(waiter.load);
                self.complete(&load, epoch);
            }
        }
    }

    fn complete(&mut self, load: &PendingLoad, epoch: &Epoch<'_>) {
        let entry = &mut self.warps[load.warp as usize];
        if entry.generation != load.generation {
            // The block is gone; its registers, too.
            return;
        }
        for register in load.writes.iter().take_while(|r| **r != NONE) {
            entry.ready_at[usize::from(*register)] = load.at;
        }
        if let Some(copy) = load.copy {
            entry.copies.answered(copy, load.at);
            self.arrivals.answered(load.warp, copy.number, load.at);
        }
        let blocked = entry.state == State::Blocked;
        if load.code {
            self.supplied(load.warp, load.at);
        }
        if blocked {
            self.schedule(load.warp, epoch);
        }
    }
}

/// What a warp's access to global memory has come to so far.
pub(super) struct Transfer {
    slot: u32,
    launch: u32,
    kind: RequestKind,
    pub(super) past_l1: bool,
    writes: [u16; WRITES],
    /// When the line at hand is worked on.
    at: u64,
    /// Latest time of the sectors that were there.
    pub(super) known: u64,
    pub(super) pending: u32,
    /// Which of the warp's asynchronous copies it is.
    copy: Option<Copied>,
}

/// Marks the sectors of an answered miss as present, except those that no longer wait for this miss because the line's
/// place was given away meanwhile.
fn settle(entry: &mut Line, miss: &Miss, number: u32, at: u64) {
    let mine = (0..4)
        .filter(|sector| entry.waiting[*sector] == number)
        .fold(0_u8, |bits, sector| bits | 1 << sector);
    let filled = miss.sectors & entry.pending & mine;
    entry.pending &= !filled;
    entry.valid |= filled;
    entry.ready_at = entry.ready_at.max(at);
}
