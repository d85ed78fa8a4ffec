//! Partial context switch: one block leaves an SM with its context, or comes back with it (SMK, section 5.1).
//!
//! Leaving: the block issues no more; what it has in flight ends (its loads and copies are answered, its stores have
//! left; a sleep may be shorter than asked for, so that the switch ends it);
//! then its context goes to memory as write requests, paced so that the SM's own traffic keeps half of the port;
//! then its room is free. Coming back is the mirror image: room is taken, read requests fetch the context, and the
//! warps go on when the last answer is there, on whatever SM that is.
//! The context is the block's registers and shared memory as the occupancy counts them; barriers, program counters
//! and stacks are small against them and travel along. Local memory lies in device memory anyway.
//!
//! Rules: everything happens at the beginning of an epoch, in the SM's own part of it; a held warp never steps; a
//! launch that is dropped takes its moving blocks along, and answers for them are ignored.

use super::coalesce::LineAccess;
use super::launches::LaunchState;
use super::lsu::{Miss, Target};
use super::memory_system::{NO_REPLY, RequestKind};
use super::resident::State;
use super::sm::{Epoch, Sm, SmEvent, UNKNOWN};
use super::sm_faults::{first_alive, overran};
use crate::config::{LINE_BYTES, SECTOR_BYTES};
use crate::exec::{Block, Warp};
use crate::fault::Fault;
use crate::memory::Domain;
use crate::occupancy::BlockNeeds;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::BlockShape;

/// First line of the contexts' memory, beyond global and local memory and code.
const CONTEXT_LINES: u64 = 1 << 52;

/// A block that is not on any SM.
#[derive(Debug)]
pub(crate) struct SavedBlock {
    pub(crate) launch: u32,
    pub(crate) linear: u64,
    needs: BlockNeeds,
    block: Block,
    warps: Vec<(Warp, State)>,
    /// Cycles that it was resident before.
    ran_cycles: u64,
    /// First line of its context in memory.
    area: u64,
    free: bool,
}

// SAFETY: as for `Sm`: the raw pointers inside point into buffers that the block and its warps own, or at parameters
// that stay while their launch does.
unsafe impl Send for SavedBlock {}

/// Returns the bytes of a block's context.
pub(crate) fn context_bytes(needs: &BlockNeeds) -> u64 {
    u64::from(needs.registers) * 4 + u64::from(needs.shared_bytes)
}

#[derive(Debug)]
enum Phase {
    /// What it has in flight ends, at the given cycle where that is known.
    Draining(u64),
    /// Bytes still to be written.
    Saving(u64),
    /// The last write is there at this cycle.
    Leaving(u64),
    /// Bytes still to be asked for, answers still to come, and the time of the latest one.
    Loading {
        bytes: u64,
        answers: u32,
        at: u64,
        saved: Box<SavedBlock>,
    },
}

/// A block on its way.
#[derive(Debug)]
pub(super) struct Moving {
    serial: u32,
    resident: usize,
    launch: u32,
    area: u64,
    free: bool,
    phase: Phase,
}

/// Blocks on their way from or to an SM.
#[derive(Debug, Default)]
pub(super) struct ContextSwitches {
    /// Warp slots that must not issue because their block is leaving, one bit each.
    pub(super) held: u64,
    /// Numbers of the blocks that are leaving, one bit each.
    pub(super) leaving: u64,
    /// Blocks on their way.
    pub(super) moves: Vec<Moving>,
    /// Serial number of the last block that began to move.
    next_move: u32,
}

impl Sm {
    /// Returns the blocks that are here, or coming, and not leaving.
    pub(crate) fn present(&self) -> impl Iterator<Item = Present> {
        let mut taken = self.residency.taken() & !self.context_switches.leaving;
        std::iter::from_fn(move || {
            if taken == 0 {
                return None;
            }
            let resident = &self.residency.blocks[taken.trailing_zeros() as usize];
            taken &= taken - 1;
            Some(Present {
                launch: resident.launch,
                row: resident.row,
                tenant: resident.tenant,
                counted: resident.needs.counted(),
            })
        })
    }

    /// Returns whether blocks are leaving, so that room will be free.
    pub(crate) fn is_leaving(&self) -> bool {
        self.context_switches.leaving != 0
    }

    /// Returns whether a block is coming back.
    pub(crate) fn is_coming_back(&self) -> bool {
        let loading = |m: &Moving| matches!(m.phase, Phase::Loading { .. });
        self.context_switches.moves.iter().any(loading)
    }

    /// Returns a block of a launch that is coming back.
    pub(super) fn coming_back(&self, launch: u32) -> Option<&SavedBlock> {
        let of_launch = self
            .context_switches
            .moves
            .iter()
            .filter(|m| m.launch == launch);
        of_launch.map(|m| &m.phase).find_map(|phase| match phase {
            Phase::Loading { saved, .. } => Some(&**saved),
            _ => None,
        })
    }

    /// Returns whether a block of these needs would fit, were what is free in one piece.
    pub(crate) fn holds_in_sum(&self, needs: &BlockNeeds) -> bool {
        self.residency.room.fits_in_sum(needs) > 0
    }

    /// Returns how many blocks of these needs would fit once those that are leaving have left, were what is free then
    /// in one piece.
    pub(crate) fn fits_soon(&self, needs: &BlockNeeds) -> u32 {
        let mut room = self.residency.room.clone();
        for (number, resident) in self.residency.blocks.iter().enumerate() {
            if self.context_switches.leaving >> number & 1 != 0 {
                room.give_back(&resident.needs, resident.place);
            }
        }
        room.fits_in_sum(needs)
    }

    /// Returns blocks that run here and could be switched out: number, launch, block, row, tenant and cycle of their
    /// start.
    pub(crate) fn running(&self) -> impl Iterator<Item = Running> {
        let taken = self.residency.taken() & !self.context_switches.leaving;
        let numbers = (0..self.residency.blocks.len()).filter(move |n| taken >> n & 1 != 0);
        let blocks = numbers.filter(|n| self.residency.blocks[*n].kernel.is_some());
        blocks.map(|number| {
            let resident = &self.residency.blocks[number];
            Running {
                number,
                launch: resident.launch,
                linear: resident.linear,
                row: resident.row,
                tenant: resident.tenant,
                started: resident.started,
                needs: resident.needs,
            }
        })
    }

    /// Returns whether both would fit after one of the blocks here was moved; `first` when that one comes back before
    /// the other one takes its room.
    pub(crate) fn would_fit(&self, number: usize, needs: &BlockNeeds, first: bool) -> bool {
        let resident = &self.residency.blocks[number];
        let mut room = self.residency.room.clone();
        room.give_back(&resident.needs, resident.place);
        let (one, other) = if first {
            (&resident.needs, needs)
        } else {
            (needs, &resident.needs)
        };
        room.fits(one) && {
            room.take(one);
            room.fits(other)
        }
    }

    /// Lets a running block begin to leave; its context goes to `area`, at no cost where it is `free`.
    pub(crate) fn switch_out(&mut self, number: usize, area: u64, free: bool) {
        let count = self.residency.blocks[number].needs.warps as usize;
        for at in 0..count {
            let slot = u32::from(self.residency.blocks[number].slots[at]);
            self.context_switches.held |= 1 << slot;
            let entry = &mut self.warps[slot as usize];
            if matches!(entry.state, State::Ready | State::Asleep) {
                entry.state = State::Held;
                self.arbiter.left(slot);
            }
        }
        self.context_switches.leaving |= 1 << number;
        let launch = self.residency.blocks[number].launch;
        self.begin_move(number, launch, area, free, Phase::Draining(0));
    }

    /// Takes room for a switched block that fits, and begins to fetch its context.
    pub(crate) fn switch_in(&mut self, saved: Box<SavedBlock>, launch: &LaunchState, at: u64) {
        let number = self.residency.take(
            &saved.needs,
            saved.launch,
            (launch.row, launch.tenant),
            saved.linear,
        );
        let resident = &mut self.residency.blocks[number];
        resident.started = at;
        resident.ran_cycles = saved.ran_cycles;
        resident.counters = crate::counters::Counters::default();
        let bytes = context_bytes(&saved.needs);
        resident.counters.switches_in = 1;
        let (launch, area, free) = (saved.launch, saved.area, saved.free);
        let phase = Phase::Loading {
            bytes: if free { 0 } else { bytes },
            answers: 0,
            at,
            saved,
        };
        self.begin_move(number, launch, area, free, phase);
    }

    fn begin_move(&mut self, resident: usize, launch: u32, area: u64, free: bool, phase: Phase) {
        self.context_switches.next_move = self.context_switches.next_move.wrapping_add(1).max(1);
        self.context_switches.moves.push(Moving {
            serial: self.context_switches.next_move,
            resident,
            launch,
            area,
            free,
            phase,
        });
        self.status.next_at = 0;
    }

    /// Forgets the moving blocks of a launch; those that were coming back give up their room here.
    pub(super) fn drop_moves(&mut self, launch: u32, now: u64) {
        while let Some(at) = self
            .context_switches
            .moves
            .iter()
            .position(|m| m.launch == launch)
        {
            let moving = self.context_switches.moves.remove(at);
            if matches!(moving.phase, Phase::Loading { .. }) {
                let row = self.residency.blocks[moving.resident].row;
                let done = self.done_here(moving.resident, now);
                self.count_towards_totals(row, &done);
                self.give_room_back(moving.resident);
            }
        }
    }

    /// Returns when the engine has something to do; [`UNKNOWN`] when it waits for answers.
    pub(super) fn next_move_at(&self) -> u64 {
        let times = self
            .context_switches
            .moves
            .iter()
            .map(|moving| match moving.phase {
                Phase::Draining(at) | Phase::Leaving(at) => at,
                Phase::Saving(_) => self.now,
                Phase::Loading { bytes, answers, .. } if bytes != 0 || answers == 0 => self.now,
                Phase::Loading { .. } => UNKNOWN,
            });
        times.min().unwrap_or(UNKNOWN)
    }

    /// Notes that a part of a context has arrived.
    pub(super) fn context_arrived(&mut self, serial: u32, then: u64) {
        let moving = self
            .context_switches
            .moves
            .iter_mut()
            .find(|m| m.serial == serial);
        if let Some(Phase::Loading { answers, at, .. }) = moving.map(|m| &mut m.phase) {
            *answers -= 1;
            *at = (*at).max(then);
        }
    }

    /// Lets every moving block move on.
    #[cold]
    pub(super) fn move_contexts(&mut self, epoch: &Epoch<'_>) {
        let mut moves = std::mem::take(&mut self.context_switches.moves);
        let mut sendable = epoch.end - epoch.start;
        moves.retain_mut(|moving| !self.move_on(moving, &mut sendable, epoch));
        moves.append(&mut self.context_switches.moves);
        self.context_switches.moves = moves;
    }

    /// Returns whether one block moves on as far as it can in this epoch; true when it is done.
    fn move_on(&mut self, moving: &mut Moving, sendable: &mut u64, epoch: &Epoch<'_>) -> bool {
        let now = epoch.start;
        if let Phase::Draining(at) = &mut moving.phase {
            *at = self.drained_at(moving.resident, now);
            if *at > now {
                return false;
            }
            let bytes = context_bytes(&self.residency.blocks[moving.resident].needs);
            moving.phase = Phase::Saving(if moving.free { 0 } else { bytes });
        }
        if let Phase::Saving(mut bytes) = moving.phase {
            let all = context_bytes(&self.residency.blocks[moving.resident].needs);
            while bytes != 0 && *sendable != 0 {
                let line = moving.area + (all - bytes) / LINE_BYTES;
                let part = bytes.min(LINE_BYTES);
                let took = self.send_context(line, part, NO_REPLY, moving, epoch);
                *sendable = sendable.saturating_sub(took * 2);
                bytes -= part;
                let counters = &mut self.residency.blocks[moving.resident].counters;
                counters.context_written_bytes += part;
            }
            moving.phase = Phase::Saving(bytes);
            if bytes == 0 {
                let there = self.port.free_at() + u64::from(epoch.config.l2.latency);
                moving.phase = Phase::Leaving(if moving.free { now } else { there });
            }
        }
        match &mut moving.phase {
            Phase::Leaving(at) if *at <= now => {
                self.leave(moving, now);
                true
            }
            Phase::Loading { .. } => self.load(moving, sendable, epoch),
            _ => false,
        }
    }

    fn load(&mut self, moving: &mut Moving, sendable: &mut u64, epoch: &Epoch<'_>) -> bool {
        loop {
            let Phase::Loading {
                bytes,
                answers,
                at,
                saved,
            } = &mut moving.phase
            else {
                return false;
            };
            if *bytes == 0 {
                if *answers != 0 {
                    return false;
                }
                self.come_back(moving.resident, saved, *at, epoch);
                return true;
            }
            if *sendable == 0 {
                return false;
            }
            let part = (*bytes).min(LINE_BYTES);
            let line = moving.area + (context_bytes(&saved.needs) - *bytes) / LINE_BYTES;
            *bytes -= part;
            *answers += 1;
            let counters = &mut self.residency.blocks[moving.resident].counters;
            counters.context_read_bytes += part;
            let miss = self
                .lsu
                .misses
                .take(Miss::new(0, 0, Target::Context(moving.serial)));
            let took = self.send_context(line, part, miss, moving, epoch);
            *sendable = sendable.saturating_sub(took * 2);
        }
    }

    /// Sends one line of a context; gives the port's time for it.
    fn send_context(
        &mut self,
        line: u64,
        bytes: u64,
        miss: u32,
        moving: &Moving,
        epoch: &Epoch<'_>,
    ) -> u64 {
        let sectors = bytes.div_ceil(SECTOR_BYTES);
        let sectors = u8::try_from((1_u32 << sectors) - 1).unwrap_or(0xf);
        let access = LineAccess::new(CONTEXT_LINES + line, sectors);
        let kind = if miss == NO_REPLY {
            RequestKind::Write
        } else {
            RequestKind::Read
        };
        let from = self.port.free_at().max(epoch.start);
        self.send_line(&access, miss, (moving.launch, kind, epoch.start), epoch);
        // A read's answer takes the other way, as long as a write's data takes this one.
        let network = &epoch.config.interconnect;
        let answer = (u64::from(network.header_bytes) + bytes)
            .div_ceil(u64::from(network.reply_bytes_per_cycle));
        (self.port.free_at() - from).max(if miss == NO_REPLY { 1 } else { answer })
    }

    /// Returns when a held block has nothing in flight; [`UNKNOWN`] while a load is not answered.
    fn drained_at(&self, number: usize, now: u64) -> u64 {
        let resident = &self.residency.blocks[number];
        let slots = resident.slots[..resident.needs.warps as usize].iter();
        let warps = slots.map(|slot| &self.warps[usize::from(*slot)]);
        warps.fold(now, |latest, entry| {
            let registers = entry.ready_at.iter().copied().max().unwrap_or(0);
            let memory = entry.written_at.max(entry.copies.all_at());
            let mut at = latest.max(registers).max(memory);
            if entry.state == State::Held && entry.not_before != entry.slept_until {
                at = at.max(entry.not_before);
            }
            at
        })
    }

    /// Removes a block whose context is in memory, and frees its room.
    fn leave(&mut self, moving: &Moving, at: u64) {
        let number = moving.resident;
        let mut counters = self.done_here(number, at);
        counters.switches_out = 1;
        let resident = &mut self.residency.blocks[number];
        let (needs, row) = (resident.needs, resident.row);
        let block = std::mem::replace(&mut resident.block, Block::new());
        let slots = resident.slots;
        let warps = slots[..needs.warps as usize].iter().map(|slot| {
            let entry = &mut self.warps[usize::from(*slot)];
            (std::mem::take(&mut entry.warp), entry.state)
        });
        let saved = Box::new(SavedBlock {
            launch: resident.launch,
            linear: resident.linear,
            needs,
            block,
            warps: warps.collect(),
            ran_cycles: resident.ran_cycles + counters.block_cycles,
            area: moving.area,
            free: moving.free,
        });
        self.count_towards_totals(row, &counters);
        self.events.push(SmEvent::Saved {
            at,
            counters,
            saved,
        });
        self.free(number);
    }

    /// Lets a block whose context has arrived go on where it stopped.
    fn come_back(&mut self, number: usize, saved: &mut SavedBlock, at: u64, epoch: &Epoch<'_>) {
        self.carve_out(epoch);
        let Some(launch) = epoch.launches.get(saved.launch) else {
            return;
        };
        let resident = &mut self.residency.blocks[number];
        resident.block = std::mem::replace(&mut saved.block, Block::new());
        resident.block.env.smid = u32::from(self.id);
        resident.kernel = Some(launch.kernel.clone());
        // All warps have their slots before the first one goes on: what it does may concern the others.
        for (index, (warp, state)) in (0..).zip(saved.warps.drain(..)) {
            let slot = self.take_slot(number, index, launch, at);
            let entry = &mut self.warps[slot as usize];
            entry.warp = warp;
            entry.state = state;
            if state == State::AtBarrier {
                self.arbiter.at_barrier(slot);
            }
        }
        for index in 0..saved.needs.warps as usize {
            let slot = u32::from(self.residency.blocks[number].slots[index]);
            if !matches!(
                self.warps[slot as usize].state,
                State::AtBarrier | State::Stopped
            ) {
                self.schedule(slot, epoch);
            }
        }
    }
}

/// A block that runs on an SM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    pub(crate) number: usize,
    pub(crate) launch: u32,
    pub(crate) linear: u64,
    pub(crate) row: RowId,
    pub(crate) tenant: TenantId,
    pub(crate) started: u64,
    pub(crate) needs: BlockNeeds,
}

/// A block that counts towards caps and limits of its SM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) launch: u32,
    pub(crate) row: RowId,
    pub(crate) tenant: TenantId,
    /// What it takes, as plans count it.
    pub(crate) counted: BlockShape,
}

impl SavedBlock {
    /// Returns whether what it takes from an SM.
    pub(crate) fn fits(&self, sm: &Sm) -> bool {
        sm.fits(&self.needs)
    }

    /// Returns the fault of its launch when that ran too long.
    pub(crate) fn overrun(&self, launch: &LaunchState, domain: &Domain) -> Option<Box<Fault>> {
        let (warp, _) = self.warps.get(first_alive(&self.block))?;
        overran(launch, &self.block, warp, domain)
    }

    /// Returns the bytes that its way takes.
    pub(crate) fn moved_bytes(&self) -> u64 {
        if self.free {
            0
        } else {
            context_bytes(&self.needs)
        }
    }

    /// Lines that its context takes in memory.
    pub(crate) fn area_lines(&self) -> u64 {
        context_bytes(&self.needs).div_ceil(LINE_BYTES)
    }

    /// Returns the first line of its context in memory.
    pub(crate) fn area(&self) -> u64 {
        self.area
    }
}
