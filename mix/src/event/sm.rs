//! One SM: what resides on it, and how it progresses.
//!
//! Blocks of one launch progress together, as a cohort: a block ends when its cohort's progress has come as far as its
//! work. So a change of speed touches each cohort once, however many blocks it has.
//!
//! Rules: progress is brought up to date before anything moves ([`Sm::pass_to`]), and speeds are computed once after
//! everything of an instant has moved ([`Sm::plan_ahead`]).

use super::Uses;
use super::counted::{Counted, Rows};
use super::demand::Demand;
use super::launches::{Launch, Saved};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::{BlockShape, DeviceShape, Room};

/// A block ends when less than this is left of its work, in cycles: rounding of progress.
const NOTHING: f64 = 1e-3;

/// One SM.
#[derive(Debug)]
pub(super) struct Sm {
    pub(super) room: Room,
    pub(super) cohorts: Vec<Cohort>,
    leaving: Vec<Leaving>,
    rows: Rows,
    /// What its residents demanded of DRAM when it was last asked.
    dram: f64,
    /// Time until which progress is counted.
    at: u64,
}

/// The blocks of one launch on one SM.
#[derive(Debug)]
pub(super) struct Cohort {
    pub(super) launch: u32,
    pub(super) row: RowId,
    pub(super) tenant: TenantId,
    pub(super) shape: BlockShape,
    /// One over the number of blocks that an SM holds.
    part: f64,
    pressure: f64,
    sensitivity: f64,
    uses: Uses,
    demand: Demand,
    progress: f64,
    /// Work done in a cycle.
    speed: f64,
    pub(super) blocks: Vec<Resident>,
}

/// A resident block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    pub(super) block: u64,
    /// Its cohort's progress at which it ends.
    ends_at: f64,
    /// When it was placed here.
    since: u64,
    /// Residence before, on any SM.
    before: u64,
}

/// A block on its way out.
#[derive(Debug)]
struct Leaving {
    launch: u32,
    block: u64,
    shape: BlockShape,
    /// When its context is in memory.
    at: u64,
    saved: Saved,
}

/// A block that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) launch: u32,
    pub(super) block: u64,
    /// Residence, on all SMs together.
    pub(super) ran: u64,
}

impl Cohort {
    /// Returns what its blocks do in `cycles`; nothing if nothing is known of their kernel.
    fn counted(&self, cycles: f64) -> Option<Counted> {
        self.uses.is_known().then(|| Counted {
            row: self.row,
            full_cycles: self.speed * cycles * self.resident(),
            block_cycles: cycles * self.blocks.len() as f64,
            uses: self.uses,
        })
    }

    /// Returns its part of as many blocks as the SM holds.
    fn resident(&self) -> f64 {
        self.blocks.len() as f64 * self.part
    }
}

impl Resident {
    /// Returns its residence until now, on all SMs together.
    pub(super) fn ran(&self, now: u64) -> u64 {
        self.before + (now - self.since)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "times of a simulation stay below 2^53 cycles, and are not negative"
)]
impl Sm {
    pub(super) fn new(shape: &DeviceShape) -> Self {
        Self {
            room: Room::empty_sm(shape),
            cohorts: Vec::new(),
            leaving: Vec::new(),
            rows: Rows::default(),
            dram: 0.0,
            at: 0,
        }
    }

    /// Counts progress until now.
    pub(super) fn pass_to(&mut self, now: u64) {
        let cycles = (now - self.at) as f64;
        self.at = now;
        for cohort in &mut self.cohorts {
            cohort.progress += cohort.speed * cycles;
            if let Some(counted) = cohort.counted(cycles) {
                self.rows.add(counted);
            }
        }
    }

    /// Returns what rows of which something is known have done here until now.
    pub(super) fn counted(&self, now: u64) -> Vec<Counted> {
        let mut rows = self.rows.clone();
        let cycles = (now - self.at) as f64;
        let running = self.cohorts.iter().filter_map(|c| c.counted(cycles));
        running.for_each(|counted| rows.add(counted));
        rows.all()
    }

    /// Forgets what a row has done until now.
    pub(super) fn forget_row(&mut self, row: RowId, now: u64) {
        self.pass_to(now);
        self.rows.forget(row);
    }

    /// Returns how much more its residents demand of DRAM than when it was last asked.
    pub(super) fn more_dram(&mut self) -> f64 {
        let demands = self.cohorts.iter().map(|c| c.demand.dram * c.resident());
        let now = demands.sum();
        now - std::mem::replace(&mut self.dram, now)
    }

    /// Computes speeds beside a demand of DRAM, and returns when the next block ends or has left; [`u64::MAX`] for
    /// never.
    pub(super) fn plan_ahead(&mut self, dram: f64) -> u64 {
        let presses = |c: &Cohort| c.pressure * c.demand.issue * c.resident();
        let pressure: f64 = self.cohorts.iter().map(presses).sum();
        let lsu = self
            .cohorts
            .iter()
            .map(|c| c.demand.lsu * c.resident())
            .sum();
        let mut next = f64::INFINITY;
        for at in 0..self.cohorts.len() {
            let own = self.resident_like(at);
            let cohort = &mut self.cohorts[at];
            let demanded = cohort.demand.issue * cohort.resident();
            let others = (pressure - cohort.pressure * demanded).max(0.0);
            let issue = demanded + cohort.sensitivity * others;
            cohort.speed = 1.0 / cohort.demand.stretch(own, (issue, lsu, dram));
            let ends = cohort.blocks.iter().map(|block| block.ends_at);
            let first = ends.fold(f64::INFINITY, f64::min);
            next = next.min((first - cohort.progress) / cohort.speed);
        }
        let ends = match next.is_finite() {
            true => self.at.saturating_add(next.ceil().max(1.0) as u64),
            false => u64::MAX,
        };
        let leaves = self.leaving.iter().map(|leaving| leaving.at).min();
        ends.min(leaves.unwrap_or(u64::MAX))
    }

    /// Returns the part of as many blocks as the SM holds that the blocks of a cohort's kernel are.
    fn resident_like(&self, at: usize) -> f64 {
        let uses = self.cohorts[at].uses;
        let alike = self.cohorts.iter().filter(|cohort| cohort.uses == uses);
        alike.map(Cohort::resident).sum()
    }

    /// Takes a block that has ended, the one with the lowest number first of the first cohort that has any.
    pub(super) fn take_ended(&mut self, now: u64) -> Option<Ended> {
        for at in 0..self.cohorts.len() {
            let cohort = &mut self.cohorts[at];
            let done = cohort.progress + NOTHING;
            let ended = (0..).zip(&cohort.blocks).filter(|(_, b)| b.ends_at <= done);
            let Some((place, _)) = ended.min_by_key(|(_, block)| block.block) else {
                continue;
            };
            let resident = cohort.blocks.swap_remove(place);
            let launch = cohort.launch;
            self.room.give_back(&cohort.shape);
            self.drop_if_empty(at);
            return Some(Ended {
                launch,
                block: resident.block,
                ran: resident.ran(now),
            });
        }
        None
    }

    /// Takes a block whose context is in memory by now: its launch, its number and what is left of it.
    pub(super) fn take_left(&mut self, now: u64) -> Option<(u32, u64, Saved)> {
        let at = self.leaving.iter().position(|leaving| leaving.at <= now)?;
        let left = self.leaving.remove(at);
        self.room.give_back(&left.shape);
        Some((left.launch, left.block, left.saved))
    }

    /// Returns whether blocks are on their way out.
    pub(super) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns how many blocks of a shape fit once those on their way out have left.
    pub(super) fn fits_soon(&self, block: &BlockShape) -> u32 {
        let mut room = self.room;
        let leaving = self.leaving.iter();
        leaving.for_each(|leaving| room.give_back(&leaving.shape));
        room.fits(block)
    }

    /// Places a block with `work` left, which begins after `delay`. The delay passes like work, at the speed of the
    /// block's cohort.
    pub(super) fn place(
        &mut self,
        (slot, launch): (u32, &Launch),
        block: u64,
        (work, delay): (f64, f64),
        before: u64,
    ) {
        let shape = launch.kernel.block;
        self.room.take(&shape, 1);
        let at = self.cohorts.iter().position(|cohort| cohort.launch == slot);
        let at = at.unwrap_or_else(|| {
            self.cohorts.push(Cohort {
                launch: slot,
                row: launch.row,
                tenant: launch.tenant,
                shape,
                part: 1.0 / f64::from(launch.most),
                pressure: launch.kernel.pressure,
                sensitivity: launch.kernel.sensitivity,
                uses: launch.kernel.uses,
                demand: launch.demand,
                progress: 0.0,
                speed: 1.0,
                blocks: Vec::with_capacity(usize::from(launch.most)),
            });
            self.cohorts.len() - 1
        });
        let cohort = &mut self.cohorts[at];
        cohort.blocks.push(Resident {
            block,
            ends_at: cohort.progress + delay + work,
            since: self.at,
            before,
        });
    }

    /// Has a running block leave: it progresses no more, and holds its room until its context is in memory.
    pub(super) fn switch_out(&mut self, slot: u32, block: u64, cycles: f64, bytes: u64) {
        let Some(at) = self.cohorts.iter().position(|cohort| cohort.launch == slot) else {
            return;
        };
        let cohort = &mut self.cohorts[at];
        let Some(place) = cohort.blocks.iter().position(|b| b.block == block) else {
            return;
        };
        let resident = cohort.blocks.swap_remove(place);
        self.leaving.push(Leaving {
            launch: slot,
            block,
            shape: cohort.shape,
            at: self.at.saturating_add(cycles.ceil() as u64),
            saved: Saved {
                work: resident.ends_at - cohort.progress,
                ran: resident.ran(self.at),
                bytes,
            },
        });
        self.drop_if_empty(at);
    }

    /// Removes the blocks of a launch, those on their way out included; returns how many of them counted.
    pub(super) fn drop_launch(&mut self, slot: u32) -> u32 {
        let mut counted = 0;
        if let Some(at) = self.cohorts.iter().position(|cohort| cohort.launch == slot) {
            let cohort = self.cohorts.swap_remove(at);
            for _ in &cohort.blocks {
                self.room.give_back(&cohort.shape);
                counted += 1;
            }
        }
        let room = &mut self.room;
        self.leaving.retain(|leaving| {
            let stays = leaving.launch != slot;
            if !stays {
                room.give_back(&leaving.shape);
            }
            stays
        });
        counted
    }

    /// Returns how many blocks of a row count.
    pub(super) fn blocks_of(&self, row: RowId) -> u32 {
        let own = self.cohorts.iter().filter(|cohort| cohort.row == row);
        own.map(|cohort| u32::try_from(cohort.blocks.len()).unwrap_or(u32::MAX))
            .sum()
    }

    fn drop_if_empty(&mut self, at: usize) {
        if self.cohorts[at].blocks.is_empty() {
            self.cohorts.swap_remove(at);
        }
    }
}
