//! What an operator is told of rows: how long their blocks last, what they have on the device, and how they go there.
//!
//! Rules: the control thread asks ([`Message::ReadRows`]) with room for the answer, so that nothing is allocated here,
//! and goes on asking until the rows are over; one answer looks at [`LOOKED_AT`] ids and says at most [`READ`] of them,
//! which bounds what a turn spends on it. Nothing here changes state.
//!
//! [`Message::ReadRows`]: crate::dispatch::message::Message::ReadRows

use super::Issuer;
use crate::device::{Device, Level};
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::feed::rows::{LastPiece, Row};
use gridmux_policy::ids::{KernelKey, ProfileKey, RowId, TenantId};
use gridmux_policy::plan::DispatchOrder;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use serde::{Deserialize, Serialize};

/// Rows of one answer at most.
const READ: usize = 64;
/// Ids that are looked at for one answer.
const LOOKED_AT: u32 = 1024;

/// How launches of a row go to the device at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Above the filler: its blocks take the next room that comes free.
    Raised,
    /// At the lowest level, in what those above leave; so goes who is alone, too.
    Filler,
    /// Uncut, at whatever level, because its kernel cannot be cut.
    Whole,
}

/// A reading of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowReading {
    /// Its number.
    pub id: RowId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// The kernel; of a spill row, none in particular.
    pub key: KernelKey,
    /// Under which name its profile is kept.
    pub profile: ProfileKey,
    /// It takes what finds no row of its own, of any kernel and shape.
    pub spill: bool,
    /// What a block takes; of a spill row, what a block of its first launch takes.
    pub block: BlockShape,
    /// Running mean of a block's residence, in nanoseconds; 0 where it is unproven.
    pub mean_ns: u64,
    /// How long a block is predicted to last, in nanoseconds; 0 where nothing is known.
    pub lasts_ns: u64,
    /// A block of it has ended, and no launch has run into its budget since.
    pub is_proven: bool,
    /// Blocks that ended since the row was made.
    pub ended: u64,
    /// Blocks on the device.
    pub live: u32,
    /// Blocks of launches that could go, not yet started.
    pub waiting: u64,
    /// Highest level at which it has pieces on the device.
    pub level: Option<u8>,
    /// How its launches go; none while it has none.
    pub role: Option<Role>,
    /// The piece that was handed over last.
    pub piece: Option<LastPiece>,
}

/// An answer to the control thread, with its room.
#[derive(Debug)]
pub struct RowReadings {
    /// The first id that was not looked at.
    next: RowId,
    /// No row comes after those that were said.
    pub is_over: bool,
    /// Time that the thread that submits takes for a piece, in nanoseconds; 0 where pieces do not wait for each other.
    pub submission_ns: u64,
    /// How long slices of short blocks are to last, in nanoseconds.
    pub slice_ns: u64,
    /// The rows of this answer.
    pub rows: Vec<RowReading>,
}

impl Default for RowReadings {
    fn default() -> Self {
        Self {
            next: RowId(0),
            is_over: false,
            submission_ns: 0,
            slice_ns: 0,
            rows: Vec::with_capacity(READ),
        }
    }
}

impl<D: Device> Issuer<D> {
    /// Says the next rows.
    pub(in crate::dispatch) fn read_rows(
        &self,
        feed: &PolicyFeed,
        readings: &mut RowReadings,
        now: Nanos,
    ) {
        readings.rows.clear();
        readings.submission_ns = self.device.submission().each.0;
        readings.slice_ns = self.slice_ns();
        let end = RowId(readings.next.0.saturating_add(LOOKED_AT));
        for (id, row) in feed.rows.iter_between(readings.next, end) {
            if readings.rows.len() == readings.rows.capacity().min(READ) {
                readings.next = id;
                return;
            }
            readings.rows.push(self.read_row(feed, (id, row), now));
        }
        readings.next = end;
        readings.is_over = end.index() >= feed.rows.ids();
    }

    fn read_row(&self, feed: &PolicyFeed, (id, row): (RowId, &Row), now: Nanos) -> RowReading {
        RowReading {
            id,
            tenant: row.tenant,
            key: row.key,
            profile: row.profile,
            spill: row.spill,
            block: row.block,
            mean_ns: row.block_ns,
            lasts_ns: match row.is_unproven() {
                true => row.predicted_ns,
                false => row.lasts_ns(),
            },
            is_proven: !row.is_unproven(),
            ended: row.ended,
            live: row.live,
            waiting: row.waiting,
            level: self.lanes.level_of(id).map(|level| level.0),
            role: (row.open > 0).then(|| self.role(feed, (id, row), now)),
            piece: row.last_piece,
        }
    }

    fn role(&self, feed: &PolicyFeed, (id, row): (RowId, &Row), now: Nanos) -> Role {
        let level = match feed.policy.plan().order() {
            DispatchOrder::Arrival => self.lanes.level_of(id).unwrap_or(Level::LOWEST),
            DispatchOrder::Rank => self.grades_by_rank(feed, (id, row.tenant), now).0.level,
        };
        match (row.whole_only, level) {
            (true, _) => Role::Whole,
            (false, Level::LOWEST) => Role::Filler,
            (false, _) => Role::Raised,
        }
    }
}
