//! How much of a launch goes to the device next, and where.
//!
//! - **Ahead** (a row without competitors): whole if it is predicted to last at most [`WINDOW_NS`], else in windows of
//!   about as much, two on the device in lanes of their own, so that the second fills room while the first drains.
//!   Blocks that last longer than two windows go in parts of a wave. All launches of a tenant together have no more on
//!   the device than such a piece beyond a window or, where that is more, their longest block, and no more than as much
//!   again behind others in their lanes: a newcomer who comes after them waits for four windows and a block at most.
//! - **Capped**, or to be able to stop at once: four slices of a quarter of what the row may hold, which is at most
//!   what the device holds at once, in lanes of their own, or, where its blocks are short and the plan lends room, two
//!   that last [`slice_ns`] each: for so long it holds more, and the plan's order makes up for that. Where the plan
//!   lends none, as much is handed over besides, in two slices, as waits for its first block ([`starting_percent`]):
//!   where the device is empty enough, that resides at once. A smaller one goes only where fewer are on the device.
//! - **Lent room** ([`super::levels`]): windows as of a row without competitors, shorter while others have work.
//! - **Unproven** (no block of the row has ended, or one ran into its budget since): a small window ([`probe`]) of a
//!   launch; all such rows of a tenant together hold no more than that, or two of them of launches that are no larger,
//!   and at most a quarter of the device. So kernels that never end leave room for others. They slow down others'
//!   blocks nonetheless: they take issue slots of the SMs they are on.
//!
//! A profile of the kernel, learnt from earlier launches of anybody's, says how long blocks last, and no more. It
//! proves nothing: blocks that ended on one input may not end on another, so a row with a profile is as unproven as
//! any, and gets the same small window. What it saves is measuring: once a block has ended, the row's mean begins with
//! the profile and not with that block, which was the first to end and so a short one. A launch that runs into its
//! budget discredits the profile for its row.
//!
//! Rules: nothing here changes state. Cap and limit bound resident blocks but for short slices, for kernels that
//! cannot be cut, which go whole as soon as there is any room, and for windows under way when a plan lowers them. A
//! kernel that cannot be cut and lasts longer than a window makes a newcomer wait for all of its grid.

use super::lanes::Backlog;
use crate::device::LaneId;
use crate::dispatch::admission::operation::LaunchWork;
use crate::dispatch::feed::policy_link::RowView;
use crate::dispatch::feed::rows::{Row, probe};
use crate::dispatch::feed::why::Why;
use gridmux_policy::shape::{DeviceShape, SmUnits};
use gridmux_policy::units::Nanos;

/// Longest time for which a row without competitors is handed to the device at once.
pub const WINDOW_NS: u64 = 190_000;
/// Blocks that last longer go in parts of a wave: a newcomer would wait for two of them.
const LONG_BLOCK_NS: u64 = 2 * WINDOW_NS;
/// Windows of a launch on the device at once, where its blocks are not long.
const WINDOWS: u16 = 2;
/// Most pieces that a wave of long blocks is cut into.
const MOST_PIECES_PER_WAVE: u32 = 16;
/// Least such pieces.
const LEAST_PIECES_PER_WAVE: u32 = 6;
/// Most that the unproven rows of a tenant hold together, as a part of the device in percent.
const MOST_UNPROVEN: u64 = 25;
/// Slices that a capped row has in flight: when one ends, a quarter of its room is idle until the next one starts.
const SLICES: u32 = 4;
/// Most that a row may have on the device beyond cap and limit while its slices wait, in percent of these: so a slice,
/// of which there are two then, holds at most four and a half times what cap and limit permit.
const MOST_STARTING: u64 = 800;
/// A slice lasts this many times as long as the thread that submits it takes for it, so that submitting costs 2 %.
const SLICE_SUBMISSIONS: u64 = 50;
/// A slice lasts at least this many times as long as it takes from handing a launch over to its first block.
const SLICE_LATENCIES: u64 = 16;

/// A flight that a piece may be queued behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The lane.
    pub lane: LaneId,
    /// Blocks of the newest one that are of the same row.
    pub blocks: u32,
}

/// The facts by which a piece is cut.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The launch.
    pub launch: &'a LaunchWork,
    /// Its row.
    pub row: &'a Row,
    /// The row in the plan.
    pub view: RowView,
    /// Neither cap nor limit binds it, and nobody needs it to stop promptly.
    pub is_free: bool,
    /// Blocks that its tenant's limit still permits, stretched by `ahead`.
    pub limit_room: u32,
    /// Whether its tenant has more on the device than its limit, stretched likewise, permits.
    pub over_limit: bool,
    /// Part that may be handed over beyond cap and limit, in percent ([`two_slices_percent`], [`starting_percent`]).
    pub ahead: u64,
    /// Pieces of it on the device.
    pub in_flight: u16,
    /// How long a window lasts.
    pub window_ns: u64,
    /// Work of its tenant's launches on the device.
    pub backlog: Backlog,
    /// The device.
    pub device: &'a DeviceShape,
    /// The stream's operation before it is still on the device, in this lane: it can only follow there.
    pub after: Option<Behind>,
}

/// The next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its blocks, at least 1.
    pub blocks: u32,
    /// Blocks that count against cap and limit.
    pub charge: u32,
    /// The lane to go behind; `None` for an empty one.
    pub behind: Option<LaneId>,
}

impl Piece {
    /// Returns a piece that goes to an empty lane and counts with all of its blocks.
    const fn fresh(blocks: u32) -> Self {
        Self {
            blocks,
            charge: blocks,
            behind: None,
        }
    }
}

/// Returns how long a slice of short blocks lasts: so long that neither the thread that submits it nor the latency of a
/// launch costs much, where a submission takes `each`.
#[must_use]
pub fn slice_ns(each: Nanos, launch_ns: Option<u64>) -> u64 {
    let latencies = launch_ns.unwrap_or(0).saturating_mul(SLICE_LATENCIES);
    (each * SLICE_SUBMISSIONS).0.max(latencies)
}

/// Returns what a row may have on the device beyond cap and limit, as a part of these in percent: two
/// slices of `slice_ns`.
#[must_use]
pub fn two_slices_percent(slice_ns: u64, row: &Row) -> u64 {
    let two = slice_ns.saturating_mul(200);
    let percent = two.checked_div(row.lasts_ns()).unwrap_or(0);
    percent.saturating_sub(100)
}

/// Returns what a row whose blocks last `block_ns` may have on the device beyond cap and limit, in percent of these, so
/// that on average as much resides as they permit: what waits for its first block, by Little's law, where a slice waits
/// `waits_ns`. Its room is empty for about as long again, from its last block until the next slice is handed over.
/// Blocks that last longer than both have nothing handed over ahead.
#[must_use]
pub fn starting_percent(waits_ns: u64, block_ns: u64) -> u64 {
    let starting = waits_ns.saturating_mul(200);
    match starting.checked_div(block_ns) {
        None | Some(..100) => 0,
        Some(percent) => percent.min(MOST_STARTING),
    }
}

/// Returns in how many slices goes what a row may have with `ahead` percent beyond cap and limit: few where its blocks
/// are short, so that each is worth a submission.
const fn slices(ahead: u64) -> u32 {
    match ahead {
        0 => SLICES,
        _ => 2,
    }
}

impl Situation<'_> {
    /// Returns the next piece, or `None` where nothing can go now.
    #[must_use]
    pub fn next_piece(&self) -> Option<Piece> {
        let budget = self.view.budget;
        let may_start = budget.map_or(u64::MAX, |most| most.saturating_sub(self.row.starts));
        let left = self.launch.blocks - self.launch.issued;
        let whole = u32::try_from(left).unwrap_or(u32::MAX);
        let most = u32::try_from(left.min(may_start)).unwrap_or(u32::MAX);
        let cuts = self.launch.may_be_cut();
        if most == 0 || (!cuts && most < whole) {
            return None;
        }
        let piece = match self.is_free {
            true => self.window(whole, most, cuts),
            false => self.slice(whole, most, cuts),
        }?;
        (piece.blocks > 0).then_some(piece)
    }

    /// Returns whether a launch that has begun and gets nothing now is to give room up under the plan, or has none
    /// left.
    #[must_use]
    pub fn is_preempted(&self) -> bool {
        let over = self.over_limit || u64::from(self.row.charged) > self.stretched_cap();
        !self.is_free && self.launch.issued > 0 && (over || self.in_flight == 0)
    }

    /// Returns why there is no next piece.
    #[must_use]
    pub fn why_no_piece(&self) -> Why {
        let has_starts = self.view.budget.is_none_or(|most| most > self.row.starts);
        if !has_starts {
            return Why::Cap;
        }
        if self.is_free {
            return match self.row.block_ns {
                0 => Why::Unproven,
                _ => Why::Nothing,
            };
        }
        let by_cap = self.stretched_cap().saturating_sub(self.row.charged.into());
        // Where both bind, the cap is the kernel's part of the limit.
        if self.over_limit || u64::from(self.limit_room) <= by_cap {
            return Why::Limit;
        }
        match self.row.is_unproven() && by_cap > 0 {
            true => Why::Unproven,
            false => Why::Cap,
        }
    }

    /// Returns how many blocks of the row may count against its cap, with those that are handed over ahead.
    fn stretched_cap(&self) -> u64 {
        // What does not reside at once cannot be taken back when the row is to stop: so nothing but what is on its way
        // goes beyond a wave.
        let cap = u64::from(self.view.cap_total.min(self.launch.wave.max(1)));
        cap.saturating_add(cap.saturating_mul(self.ahead) / 100)
    }

    fn window(&self, whole: u32, most: u32, cuts: bool) -> Option<Piece> {
        let block_ns = self.row.lasts_ns();
        // One condition for pieces of all sizes, so that none waits for ever while smaller ones go.
        let enough_ns = self.window_ns.max(block_ns).max(self.backlog.block_ns);
        // What is behind others in their lanes keeps no other stream's first launch from room that is free.
        let ahead_ns = match self.after {
            Some(_) => self.backlog.work_ns,
            None => self.backlog.first_ns,
        };
        if ahead_ns > enough_ns {
            return None;
        }
        let size = match block_ns {
            // One probe is enough to learn how long blocks last.
            0 if self.in_flight > 0 => 0,
            0 => {
                let probe = probe(self.device.sms);
                // Two launches as small as a probe may run together.
                let windows = if whole <= probe { WINDOWS } else { 1 };
                probe.min(self.unproven_room(windows))
            }
            _ => self.window_blocks(block_ns),
        };
        if size == 0 {
            return None;
        }
        let windows = match block_ns > LONG_BLOCK_NS {
            true => u16::MAX,
            false => WINDOWS,
        };
        let in_one = most == whole && (whole <= size || !cuts) && self.launch.issued == 0;
        match self.after {
            Some(after) if in_one => Some(Piece {
                behind: Some(after.lane),
                ..Piece::fresh(whole)
            }),
            Some(_) => None,
            None if in_one => Some(Piece::fresh(whole)),
            None if self.in_flight >= windows => None,
            None => Some(Piece::fresh(most.min(size))),
        }
    }

    /// Returns how many blocks of unproven rows the tenant may add: at least one while it has none.
    fn unproven_room(&self, windows: u16) -> u32 {
        let limit = SmUnits::ONE.times(self.device.sms.into());
        let limit = limit.percent(MOST_UNPROVEN);
        let held = &self.backlog.unproven;
        let room = held.room_within(self.device, limit, &self.launch.shape);
        let most = u32::from(windows) * probe(self.device.sms);
        let left = most.saturating_sub(u32::try_from(held.blocks()).unwrap_or(u32::MAX));
        room.min(left).max(u32::from(held.blocks() == 0))
    }

    /// Returns the blocks of a window of a row whose blocks take `block_ns`.
    fn window_blocks(&self, block_ns: u64) -> u32 {
        let wave = self.launch.wave.max(1);
        if block_ns <= LONG_BLOCK_NS {
            let waves = u32::try_from(self.window_ns / block_ns).unwrap_or(u32::MAX);
            return wave.saturating_mul(waves.max(1));
        }
        let part = u64::from(wave) * WINDOW_NS / block_ns;
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        let (least, most) = (wave / MOST_PIECES_PER_WAVE, wave / LEAST_PIECES_PER_WAVE);
        part.clamp(least, most).max(1)
    }

    fn slice(&self, whole: u32, most: u32, cuts: bool) -> Option<Piece> {
        let charged = self.row.charged;
        let stretched = self.stretched_cap();
        let by_cap = stretched.saturating_sub(charged.into());
        let by_cap = u32::try_from(by_cap).unwrap_or(u32::MAX);
        let room = by_cap.min(self.limit_room);
        let over = self.over_limit || u64::from(charged) > stretched;
        if let Some(after) = self.after {
            // It can only go whole, behind its predecessor; what is not more than that needs no room of its own.
            let charge = whole.saturating_sub(after.blocks);
            let is_whole = most == whole && self.launch.issued == 0;
            let fits = !over && u64::from(whole) <= stretched && charge <= room;
            return (is_whole && fits).then_some(Piece {
                blocks: whole,
                charge,
                behind: Some(after.lane),
            });
        }
        if !cuts {
            return (room > 0).then(|| Piece::fresh(whole));
        }
        let most_charged = charged.saturating_add(room);
        let slices = slices(self.ahead);
        let part = most_charged.div_ceil(slices);
        let (allowance, quantum) = match self.row.block_ns {
            0 => (room.min(most).min(self.unproven_room(1)), 1),
            _ => (room.min(most), part.max(1)),
        };
        if allowance == most && most == whole {
            return Some(Piece::fresh(whole));
        }
        if allowance >= quantum {
            return Some(Piece::fresh(quantum));
        }
        if over || (charged > 0 && self.row.is_unproven()) {
            return None;
        }
        // Were there no end of small ones, the thread that submits would have no end of work.
        (self.row.slices < slices).then(|| Piece::fresh(allowance))
    }
}
