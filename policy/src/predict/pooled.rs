//! Durations of blocks pooled over SMs, by slice: what policies use, which see events and not single blocks.
//!
//! Rules: durations of a slice are pooled over its blocks and SMs, as the first block to end is shorter than most; in a
//! slice kernels share SMs or they do not ([`Durations::share`]), and a block that began before it counts, as in the
//! paper.

use crate::event::Event;
use crate::ids::RowId;

/// Durations of rows' blocks, by slice.
#[derive(Debug, Default)]
pub struct Durations {
    rows: Vec<Slice>,
    /// Kernels share SMs in the slices that run.
    share: bool,
}

/// The slice of a row that runs.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    ended: u64,
    ran_ns: u64,
    /// Mean duration of the newest slice in which a block ended.
    known: Option<f64>,
    /// The same of the newest one in which kernels shared no SM.
    exclusive: Option<f64>,
}

impl Durations {
    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Blocks {
                row, ended, ran_ns, ..
            } if ended > 0 => {
                let share = self.share;
                let slice = self.slice(row);
                slice.ended += u64::from(ended);
                slice.ran_ns = slice.ran_ns.saturating_add(ran_ns);
                slice.known = Some(slice.ran_ns as f64 / slice.ended as f64);
                if !share {
                    slice.exclusive = slice.known;
                }
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

    /// Returns the same of slices in which kernels shared no SM or, if no block has ended in such a one, of any.
    #[must_use]
    pub fn exclusive(&self, row: RowId) -> Option<f64> {
        let slice = self.rows.get(row.index())?;
        slice.exclusive.or(slice.known)
    }

    /// Says whether kernels share SMs from now on. Where that changes, a slice begins.
    pub fn share(&mut self, share: bool) {
        if share != self.share {
            self.share = share;
            self.reslice();
        }
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
    use super::Durations;
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

    #[test]
    fn what_is_exclusive_stays_while_kernels_share() {
        let mut durations = Durations::default();
        durations.share(true);
        durations.observe(&ended(1, 300));
        assert_eq!(durations.exclusive(RowId(1)), Some(300.0), "none is");
        durations.share(false);
        durations.observe(&ended(1, 100));
        durations.share(true);
        durations.observe(&ended(2, 800));
        assert_eq!(durations.of(RowId(1)), Some(400.0));
        assert_eq!(durations.exclusive(RowId(1)), Some(100.0));
        durations.share(false);
        assert_eq!(durations.exclusive(RowId(1)), Some(100.0));
    }
}
