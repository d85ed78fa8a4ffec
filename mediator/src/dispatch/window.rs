//! How much of a launch goes to the device next, and where.
//!
//! - **Ahead** (a row without competitors): whole if it is predicted to last at most [`WINDOW_NS`], else in windows of
//!   about as much, two on the device in lanes of their own, so that the second fills room while the first drains.
//!   Blocks that last longer than two windows go in parts of a wave. All launches of a tenant together have no more on
//!   the device than such a piece beyond a window or, where that is more, their longest block: a newcomer waits for two
//!   windows and a block at most.
//! - **Capped**, or to be able to stop at once: slices of a sixth of what the row may hold, which is never more than
//!   the device holds at once, in lanes of their own, up to cap and limit; larger ones where its tenant may hold fewer
//!   than six lanes for it, or where blocks end faster than six slices can be submitted. While slices are short against
//!   the latency of a launch, one more goes behind each in its lane: it cannot start before the one in front has ended,
//!   so the cap holds, and its launch costs no time. Half a slice or less on the device, from under a lower cap, holds
//!   up no full one.
//! - **Lent room** ([`super::levels`]): windows as of a row without competitors, shorter while others have work. A row
//!   beside a filler, within cap and limit, has four slices of a quarter of what it may hold or, where its blocks are
//!   short, two that last [`slice_ns`] each: for so long it holds more, and the plan's order makes up for that.
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
//! A slice waits for its launch before its blocks reside. With cap and limit as bounds of what is on the device, short
//! slices would hold less than that on average; so more is handed over ([`ahead_percent`]). A row that lately had a
//! long slice has next to nothing handed over ahead.
//!
//! Where blocks end twice before the tenant's turn at the thread that submits comes again, slices of what cap and limit
//! permit would leave the row's part of the device empty until then. A slice is as much larger
//! ([`between_turns_percent`]), and no other one is queued behind it: for a moment more of its blocks reside than cap
//! and limit say, and over a round as many.
//!
//! Rules: nothing here changes state. Cap and limit bound resident blocks but for what is handed over ahead, for
//! kernels that cannot be cut, which go whole as soon as there is any room, and for windows under way when a plan
//! lowers them. A kernel that cannot be cut and lasts longer than a window makes a newcomer wait for all of its grid.

use super::lanes::Backlog;
use super::operation::LaunchWork;
use super::policy_link::RowView;
use super::rows::Row;
use crate::device::LaneId;
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
/// Most that the unproven rows of a tenant hold together, as a part of the device in percent.
const MOST_UNPROVEN: u64 = 25;
/// Slices that a full row is cut into at most: a slice ends as a whole, and its row holds that much less meanwhile.
const SLICES_PER_ROW: u32 = 6;
/// Slices that last longer have no other one queued behind them: the gap between two does not matter, and what is
/// queued cannot be taken back when a plan lowers the cap.
const SHORT_SLICE_NS: u64 = 50_000;
/// A slice lasts this many times as long as the thread that submits it takes for it, so that submitting costs 2 %.
const SLICE_SUBMISSIONS: u64 = 50;
/// A slice lasts at least this many times as long as it takes from handing a launch over to its first block.
const SLICE_LATENCIES: u64 = 16;
/// Slices of what a row may hold beside a filler: the end of one costs it a quarter.
const LENT_SLICES: u32 = 4;
/// Slices in a lane at once.
const SLICES_PER_LANE: usize = 2;
/// Most that is handed over beyond cap and limit while launches take long against slices, as a part of these in
/// percent.
pub const MOST_AHEAD: u64 = 800;
/// Latencies of a launch that a slice costs beside its own time: the launch's, and the wait until it is noticed that
/// there is room again.
const LATENCIES: u64 = 2;

/// A flight that a piece may be queued behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The lane.
    pub lane: LaneId,
    /// Flights in the lane.
    pub depth: usize,
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
    /// The plan lends room that nobody within cap and limit can use.
    pub lends: bool,
    /// Blocks that its tenant's limit still permits, stretched by [`ahead_percent`].
    pub limit_room: u32,
    /// Whether its tenant has more on the device than its limit, stretched likewise, permits.
    pub over_limit: bool,
    /// Part that may be handed over beyond cap and limit, in percent ([`ahead_percent`], [`between_turns_percent`]).
    pub ahead: u64,
    /// Pieces of it on the device.
    pub in_flight: u16,
    /// Lanes that its tenant may hold for it.
    pub lanes: u32,
    /// Time between two of its pieces where the thread that submits is busy: one piece of every tenant that has a
    /// launch to submit whose blocks are known to end.
    pub round: Nanos,
    /// How long a window lasts.
    pub window_ns: u64,
    /// Work of its tenant's launches on the device.
    pub backlog: Backlog,
    /// The device.
    pub device: &'a DeviceShape,
    /// The stream's operation before it is still on the device, in this lane: it can only follow there.
    pub after: Option<Behind>,
    /// A lane with a slice of this launch that takes another one.
    pub own: Option<Behind>,
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

/// Returns the first window of a row of which no block has ended: a quarter of a block per SM, at least one.
#[must_use]
pub fn probe(sms: u16) -> u32 {
    u32::from(sms / 4).max(1)
}

/// Returns what is handed over beyond cap and limit at most, as a part of these in percent: the ratio of a launch's
/// latency to the row's longest slice lately (Little's law).
#[must_use]
pub fn most_ahead(launch_ns: Option<u64>, slice_ns: u64) -> u64 {
    let latency = launch_ns.unwrap_or(0).saturating_mul(100 * LATENCIES);
    latency
        .checked_div(slice_ns)
        .map_or(0, |percent| percent.min(MOST_AHEAD))
}

/// Returns what may be handed over beyond cap and limit, as a part of these in percent, so that as much as they permit
/// resides on average: by how much what counted against them was more than what resided, within [`most_ahead`].
#[must_use]
pub fn ahead_percent(launch_ns: Option<u64>, row: &Row) -> u64 {
    let absent_ns = row.charged_ns.saturating_sub(row.resided_ns);
    let measured = absent_ns.saturating_mul(100) / row.resided_ns.max(1);
    measured.min(most_ahead(launch_ns, row.slice_ns))
}

/// Returns what may be handed over beyond cap and limit where a row's blocks end twice before its tenant's turn at the
/// thread that submits comes again, as a part of these in percent: one piece then holds as much block-time as cap and
/// limit permit in a round.
#[must_use]
pub fn between_turns_percent(round: Nanos, row: &Row) -> u64 {
    let percent = round.0.saturating_mul(100).checked_div(row.lasts_ns());
    match percent {
        Some(percent) if percent >= 200 => (percent - 100).min(MOST_AHEAD),
        _ => 0,
    }
}

/// Returns how long a slice lasts beside a filler: so long that neither the thread that submits it nor the latency of a
/// launch costs much, where a submission takes `each`.
#[must_use]
pub fn slice_ns(each: Nanos, launch_ns: Option<u64>) -> u64 {
    let latencies = launch_ns.unwrap_or(0).saturating_mul(SLICE_LATENCIES);
    (each * SLICE_SUBMISSIONS).0.max(latencies)
}

/// Returns what a row may have on the device beside a filler beyond cap and limit, as a part of these in percent: two
/// slices of `slice_ns`.
#[must_use]
pub fn two_slices_percent(slice_ns: u64, row: &Row) -> u64 {
    let two = slice_ns.saturating_mul(200);
    let percent = two.checked_div(row.lasts_ns()).unwrap_or(0);
    percent.saturating_sub(100)
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
        let cuts = self.launch.control_offset.is_some();
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

    /// Returns how many blocks of the row may count against its cap, with those that are handed over ahead.
    fn stretched_cap(&self) -> u64 {
        // What does not reside at once cannot be taken back when the row is to stop.
        let cap = u64::from(self.view.cap_total.min(self.launch.wave.max(1)));
        cap.saturating_add(cap.saturating_mul(self.ahead) / 100)
    }

    fn window(&self, whole: u32, most: u32, cuts: bool) -> Option<Piece> {
        let block_ns = self.row.lasts_ns();
        // One condition for pieces of all sizes, so that none waits for ever while smaller ones go.
        let enough_ns = self.window_ns.max(block_ns).max(self.backlog.block_ns);
        if self.backlog.work_ns > enough_ns {
            return None;
        }
        let size = match block_ns {
            // More would say no sooner how long its blocks last.
            0 if self.in_flight > 0 => 0,
            0 => {
                let probe = probe(self.device.sms);
                // What is no larger teaches as much and holds no more.
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
        let fresh = |blocks| Piece {
            blocks,
            charge: blocks,
            behind: None,
        };
        match self.after {
            Some(after) if in_one => Some(Piece {
                behind: Some(after.lane),
                ..fresh(whole)
            }),
            Some(_) => None,
            None if in_one => Some(fresh(whole)),
            None if self.in_flight >= windows => None,
            None => Some(fresh(most.min(size))),
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
        let (least, most) = (wave / MOST_PIECES_PER_WAVE, wave / SLICES_PER_ROW);
        part.clamp(least, most).max(1)
    }

    /// Returns how many slices what the row may hold is cut into: no more than can be submitted while one runs.
    fn slices(&self) -> u32 {
        if self.lends {
            // What is stretched is two slices, else an end of one costs the row a quarter.
            return match self.ahead {
                0 => LENT_SLICES,
                _ => 2,
            };
        }
        let submitted = self.row.block_ns.checked_div(self.round.0);
        let submitted = submitted.map_or(SLICES_PER_ROW, |count| {
            u32::try_from(count).unwrap_or(SLICES_PER_ROW)
        });
        self.lanes.min(submitted).clamp(1, SLICES_PER_ROW)
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
        let fresh = |blocks| Piece {
            blocks,
            charge: blocks,
            behind: None,
        };
        if !cuts {
            return (room > 0).then(|| fresh(whole));
        }
        let most_charged = charged.saturating_add(room);
        let part = most_charged.div_ceil(self.slices());
        let (allowance, quantum) = match self.row.block_ns {
            0 => (room.min(most).min(self.unproven_room(1)), 1),
            _ => (room.min(most), part.max(1)),
        };
        if allowance == most && most == whole {
            return Some(fresh(whole));
        }
        if allowance >= quantum {
            return Some(fresh(quantum));
        }
        if over || (charged > 0 && self.row.is_unproven()) {
            return None;
        }
        // What is left of slices that a lower cap made small would be followed by as small ones for ever.
        if charged <= quantum / 2 {
            return Some(fresh(allowance));
        }
        let short = self.row.slice_ns > 0 && self.row.slice_ns < SHORT_SLICE_NS;
        let queues = short && !self.lends && between_turns_percent(self.round, self.row) == 0;
        let own = self.own.filter(|own| queues && own.depth < SLICES_PER_LANE);
        own.map(|own| Piece {
            blocks: most.min(own.blocks),
            charge: 0,
            behind: Some(own.lane),
        })
    }
}
