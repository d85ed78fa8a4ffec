//! How long a kernel runs: predictions from the structure of its grid (SRTF, sections 3 and 4).
//!
//! A kernel alone runs in waves of as many blocks as reside, so its runtime follows from the duration of one block
//! ([`simple_slicing`], equation 2). Execution is cut into slices at every arrival and every end of
//! a kernel, because residency and co-runners change there; within a slice the duration of a block is taken as constant.
//!
//! Rule: durations of a slice are pooled over its blocks and SMs, as the first block to end is shorter than most.

use crate::event::Event;
use crate::ids::RowId;

/// Returns the runtime of a kernel that was active for so long and has `left` of its blocks to end (SRTF, equation 2).
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    reason = "grids are far below 2^53 blocks"
)]
pub fn simple_slicing(active: f64, left: u64, resident: u64, t: f64) -> f64 {
    active + left as f64 * t / resident.max(1) as f64
}

/// Durations of rows' blocks, by slice.
#[derive(Debug, Default)]
pub struct Durations {
    rows: Vec<Slice>,
}

/// The slice of a row that runs.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    ended: u64,
    ran_ns: u64,
    /// Mean duration of the newest slice in which a block ended.
    known: Option<f64>,
}

impl Durations {
    /// Takes note of an event.
    #[allow(
        clippy::cast_precision_loss,
        reason = "durations are far below 2^53 ns"
    )]
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Blocks {
                row, ended, ran_ns, ..
            } if ended > 0 => {
                let slice = self.slice(row);
                slice.ended += u64::from(ended);
                slice.ran_ns = slice.ran_ns.saturating_add(ran_ns);
                slice.known = Some(slice.ran_ns as f64 / slice.ended as f64);
            }
            Event::RowNew { row, .. } | Event::RowGone { row } => {
                *self.slice(row) = Slice::default();
            }
            Event::Arrive { .. } | Event::Ended { .. } => self.reslice(),
            _ => {}
        }
    }

    /// Returns the mean duration in nanoseconds of a row's blocks in its newest slice in which one ended.
    #[must_use]
    pub fn of(&self, row: RowId) -> Option<f64> {
        self.rows.get(row.index())?.known
    }

    fn reslice(&mut self) {
        for slice in &mut self.rows {
            (slice.ended, slice.ran_ns) = (0, 0);
        }
    }

    fn slice(&mut self, row: RowId) -> &mut Slice {
        if self.rows.len() <= row.index() {
            self.rows.resize(row.index() + 1, Slice::default());
        }
        &mut self.rows[row.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::{Durations, simple_slicing};
    use crate::event::Event;
    use crate::ids::{GroupId, RowId};
    use crate::units::Nanos;

    fn ended(n: u32, ran_ns: u64) -> Event {
        Event::Blocks {
            row: RowId(1),
            group: GroupId(0),
            launch: 0,
            started: 0,
            ended: n,
            ran_ns,
            at: Nanos(0),
        }
    }

    #[test]
    fn equations_by_hand() {
        assert!((simple_slicing(100.0, 30, 10, 50.0) - 250.0).abs() < 1e-9);
    }

    #[test]
    fn a_slice_begins_anew_and_keeps_what_was_known_until_a_block_ends() {
        let mut durations = Durations::default();
        assert_eq!(durations.of(RowId(1)), None);
        durations.observe(&ended(2, 300));
        durations.observe(&ended(1, 300));
        assert_eq!(durations.of(RowId(1)), Some(200.0), "pooled");
        let at = Nanos(0);
        let (row, launch) = (RowId(0), 7);
        durations.observe(&Event::Ended { row, launch, at });
        assert_eq!(durations.of(RowId(1)), Some(200.0));
        durations.observe(&ended(1, 50));
        assert_eq!(durations.of(RowId(1)), Some(50.0));
        durations.observe(&Event::RowGone { row: RowId(1) });
        assert_eq!(durations.of(RowId(1)), None);
    }
}
