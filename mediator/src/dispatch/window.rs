//! How much of a launch goes to the device next, and where.
//!
//! - **Ahead** (a row without competitors): whole if it is predicted to last at most [`WINDOW_NS`], else in windows of
//!   about as much, two on the device in lanes of their own, so that the second fills room while the first drains. A
//!   row of which no block has ended yet begins with a small window ([`probe`]), so that a kernel that never ends
//!   leaves room for others.
//! - **Capped**, or to be able to stop at once: slices of a sixth of what the row may hold, which is never more than
//!   the device holds at once, in lanes of their own, up to cap and limit. While slices
//!   are short against the latency of a launch, one more goes behind each in its lane: it cannot start before the one
//!   in front has ended, so the cap holds, and its launch costs no time.
//!
//! A slice waits for its launch before its blocks reside. With cap and limit as bounds of what is on the device, short
//! slices would hold less than that on average; so more is handed over in the ratio of the launch's latency to the
//! longest slice that the row lately had (Little's law), up to [`MOST_AHEAD`] of cap and limit. A row that lately had a
//! long slice has nothing handed over ahead.
//!
//! Rules: nothing here changes state. Cap and limit bound resident blocks but for what is handed over ahead, for kernels
//! that cannot be cut, which go whole as soon as there is any room, and for windows under way when a plan lowers them.

use super::operation::LaunchWork;
use super::policy_link::RowView;
use super::rows::Row;
use crate::device::Lane;
use gridmux_policy::plan::Stop;
use gridmux_policy::shape::SmUnits;

/// Longest time for which a row without competitors is handed to the device at once (design section 3, step 4).
pub const WINDOW_NS: u64 = 200_000;
/// Windows on the device at once.
const WINDOWS: u16 = 2;
/// Slices that a full row is cut into: a slice ends as a whole, and its row holds that much less meanwhile.
const SLICES_PER_ROW: u32 = 6;
/// Slices that last longer have no other one queued behind them: the gap between two does not matter, and what is
/// queued cannot be taken back when a plan lowers the cap.
const SHORT_SLICE_NS: u64 = 50_000;
/// Slices in a lane at once.
const SLICES_PER_LANE: usize = 2;
/// What may be handed over beyond cap and limit while launches take long against slices, as a part of these, in percent.
pub const MOST_AHEAD: u64 = 300;
/// Latencies of a launch that a slice costs beside its own time: the launch's, and the wait until it is noticed that
/// there is room again.
const LATENCIES: u64 = 2;

/// What a piece may be queued behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The lane.
    pub lane: Lane,
    /// Flights in the lane.
    pub depth: usize,
    /// Blocks of the newest one that are of the same row.
    pub blocks: u32,
}

/// What is known when a piece is cut.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The launch.
    pub launch: &'a LaunchWork,
    /// Its row.
    pub row: &'a Row,
    /// What the plan says of it.
    pub view: RowView,
    /// Blocks that its tenant's limit still permits, stretched by [`ahead_percent`].
    pub limit_room: u32,
    /// What may be handed over beyond cap and limit ([`ahead_percent`]).
    pub ahead: u64,
    /// Pieces of it on the device.
    pub in_flight: u16,
    /// SMs of the device.
    pub sms: u16,
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
    pub behind: Option<Lane>,
}

/// Returns the first window of a row of which no block has ended: a quarter of a block per SM, at least one.
#[must_use]
pub fn probe(sms: u16) -> u32 {
    u32::from(sms / 4).max(1)
}

/// Returns what may be handed over beyond cap and limit, as a part of these in percent, where a launch takes
/// `launch_ns` before its first block and the row's slices take up to `slice_ns`.
#[must_use]
pub fn ahead_percent(launch_ns: Option<u64>, slice_ns: u64) -> u64 {
    match (launch_ns, slice_ns) {
        (None, _) | (_, 0) => 0,
        (Some(launch_ns), slice_ns) => {
            (launch_ns.saturating_mul(100 * LATENCIES) / slice_ns).min(MOST_AHEAD)
        }
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
        let cuts = self.launch.control_offset.is_some();
        if most == 0 || (!cuts && most < whole) {
            return None;
        }
        let piece = match self.is_free() {
            true => self.window(whole, most, cuts),
            false => self.slice(whole, most, cuts),
        }?;
        (piece.blocks > 0).then_some(piece)
    }

    /// Whether neither cap nor limit binds, and nobody needs the row to stop promptly.
    fn is_free(&self) -> bool {
        self.view.stop == Stop::Ahead
            && self.view.limit == SmUnits::MAX
            && self.view.cap_total >= self.launch.wave
    }

    fn window(&self, whole: u32, most: u32, cuts: bool) -> Option<Piece> {
        let wave = self.launch.wave.max(1);
        let size = match self.row.block_ns {
            0 => probe(self.sms),
            block_ns => {
                let waves = u32::try_from(WINDOW_NS / block_ns).unwrap_or(u32::MAX);
                wave.saturating_mul(waves.max(1))
            }
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
            None if self.in_flight >= WINDOWS => None,
            None => Some(fresh(most.min(size))),
        }
    }

    fn slice(&self, whole: u32, most: u32, cuts: bool) -> Option<Piece> {
        let charged = self.row.charged;
        // More than the device holds at once could not be taken back when the row is to stop.
        let cap_total = self.view.cap_total.min(self.launch.wave.max(1));
        let cap = u64::from(cap_total);
        let stretched = cap.saturating_add(cap.saturating_mul(self.ahead) / 100);
        let by_cap = stretched.saturating_sub(charged.into());
        let by_cap = u32::try_from(by_cap).unwrap_or(u32::MAX);
        let room = by_cap.min(self.limit_room);
        if let Some(after) = self.after {
            // It can only go whole, behind its predecessor; what is not more than that needs no room of its own.
            let charge = whole.saturating_sub(after.blocks);
            let fits = most == whole && self.launch.issued == 0 && charge <= room;
            return fits.then_some(Piece {
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
        let allowance = room.min(most);
        let cap = cap_total.min(charged.saturating_add(room));
        let quantum = (cap / SLICES_PER_ROW).max(1);
        if allowance == most && most == whole {
            return Some(fresh(whole));
        }
        if allowance >= quantum {
            return Some(fresh(quantum));
        }
        if charged == 0 {
            return Some(fresh(allowance));
        }
        let short = self.row.slice_ns > 0 && self.row.slice_ns < SHORT_SLICE_NS;
        let own = self.own.filter(|own| short && own.depth < SLICES_PER_LANE);
        own.map(|own| Piece {
            blocks: most.min(own.blocks),
            charge: 0,
            behind: Some(own.lane),
        })
    }
}
