//! Rows that launch again as soon as a launch has ended: most programs are such loops.
//!
//! If a loop's room went to others between two launches, or at the end of each, their blocks would have to leave again
//! at once. So a loop keeps the room of a whole launch until nothing has come of it for [`HOLD`].
//!
//! Rule: a row is a loop while launches come before the one before has ended, or within [`HOLD`] of its end.

use crate::event::Event;
use crate::ids::RowId;
use crate::units::Nanos;

/// How long a loop keeps its room: about what it costs to have blocks leave and come back.
pub const HOLD: Nanos = Nanos(10_000);

/// Launches of a row that are open together before they count as a queue: a program that waits for each launch, or for
/// each other one, needs room for a whole one.
const BACKLOG: u32 = 4;

/// The launches of rows, as far as loops show in them.
#[derive(Debug, Default)]
pub struct Loops {
    rows: Vec<LaunchHistory>,
}

/// The launches of one row.
#[derive(Clone, Copy, Debug, Default)]
struct LaunchHistory {
    open: u32,
    /// Blocks of its newest launch.
    blocks: u64,
    /// When it last had an open launch.
    ended: Option<Nanos>,
    loops: bool,
}

impl Loops {
    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Arrive {
                row, blocks, at, ..
            } => {
                let row = self.row(row);
                let soon = row.ended.is_some_and(|ended| at <= ended + HOLD);
                row.loops = row.open > 0 || soon;
                row.blocks = blocks;
                row.open = row.open.saturating_add(1);
            }
            Event::Ended { row, at, .. } => {
                let row = self.row(row);
                row.open = row.open.saturating_sub(1);
                row.ended = Some(at);
            }
            Event::Counters {
                row, open_launches, ..
            } => self.row(row).open = open_launches,
            Event::RowNew { row, .. } | Event::RowGone { row } => {
                *self.row(row) = LaunchHistory::default();
            }
            Event::Lost { .. } => self.rows.fill(LaunchHistory::default()),
            _ => {}
        }
    }

    /// Returns whether a row's launches queue up.
    #[must_use]
    pub fn queues(&self, row: RowId) -> bool {
        let row = self.rows.get(row.index());
        row.is_some_and(|row| row.open >= BACKLOG)
    }

    /// Returns how many blocks a loop has in a launch; nothing for a row that is none.
    #[must_use]
    pub fn blocks(&self, row: RowId) -> Option<u64> {
        let row = self.rows.get(row.index())?;
        row.loops.then_some(row.blocks)
    }

    /// Returns the loops without a launch that keep their room: row, blocks of a launch, and until when.
    pub fn held(&self, now: Nanos) -> impl Iterator<Item = (RowId, u64, Nanos)> + '_ {
        let rows = (0..).map(RowId).zip(&self.rows);
        rows.filter_map(move |(id, row)| {
            let until = row.ended? + HOLD;
            let held = row.loops && row.open == 0 && now < until;
            held.then_some((id, row.blocks, until))
        })
    }

    fn row(&mut self, row: RowId) -> &mut LaunchHistory {
        if self.rows.len() <= row.index() {
            self.rows.resize(row.index() + 1, LaunchHistory::default());
        }
        &mut self.rows[row.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::{HOLD, Loops};
    use crate::event::Event;
    use crate::ids::RowId;
    use crate::units::Nanos;

    const ROW: RowId = RowId(1);

    fn launch(loops: &mut Loops, from: u64, to: u64) {
        let (launch, blocks) = (from, 7);
        loops.observe(&Event::Arrive {
            row: ROW,
            launch,
            blocks,
            at: Nanos(from),
        });
        loops.observe(&Event::Ended {
            row: ROW,
            launch,
            at: Nanos(to),
        });
    }

    #[test]
    fn a_row_is_a_loop_while_launches_follow_soon() {
        let mut loops = Loops::default();
        let hold = HOLD.0;
        launch(&mut loops, 0, 100);
        assert_eq!(loops.blocks(ROW), None, "one launch");
        assert_eq!(loops.held(Nanos(101)).count(), 0);
        launch(&mut loops, 100 + hold, 200 + hold);
        assert_eq!(loops.blocks(ROW), Some(7));
        let held: Vec<_> = loops.held(Nanos(200 + hold)).collect();
        assert_eq!(held, [(ROW, 7, Nanos(200 + 2 * hold))]);
        assert_eq!(loops.held(Nanos(200 + 2 * hold)).count(), 0);
        launch(&mut loops, 300 + 3 * hold, 400 + 3 * hold);
        assert_eq!(loops.blocks(ROW), None, "it came too late");
    }
}
