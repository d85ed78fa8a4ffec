//! How long the oldest block of a row has run while none has ended: all that is known of an unknown kernel.
//!
//! A block that has run for so long lasts at least as long, and a kernel whose first block does not end is not short.
//!
//! Rule: a row's age counts from its first start, whatever became of the block that started then.

use crate::event::Event;
use crate::ids::RowId;
use crate::units::Nanos;

/// By row: when its first block started.
#[derive(Debug, Default)]
pub struct Ages {
    first: Vec<Option<Nanos>>,
}

impl Ages {
    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::FirstStart { row, at, .. } => {
                if self.first.len() <= row.index() {
                    self.first.resize(row.index() + 1, None);
                }
                self.first[row.index()].get_or_insert(at);
            }
            Event::RowNew { row, .. } | Event::RowGone { row } => {
                if let Some(first) = self.first.get_mut(row.index()) {
                    *first = None;
                }
            }
            Event::Lost { .. } => self.first.fill(None),
            _ => {}
        }
    }

    /// Returns for how many nanoseconds blocks of a row have run; zero before the first starts.
    #[must_use]
    pub fn of(&self, row: RowId, now: Nanos) -> u64 {
        let first = self.first.get(row.index()).copied().flatten();
        first.map_or(0, |first| now.0.saturating_sub(first.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Ages;
    use crate::event::Event;
    use crate::ids::RowId;
    use crate::units::Nanos;

    #[test]
    fn a_row_ages_from_its_first_start_until_it_is_gone() {
        let row = RowId(2);
        let start = |at| Event::FirstStart {
            row,
            launch: at,
            at: Nanos(at),
        };
        let mut ages = Ages::default();
        assert_eq!(ages.of(row, Nanos(50)), 0);
        ages.observe(&start(10));
        ages.observe(&start(40));
        assert_eq!(ages.of(row, Nanos(50)), 40);
        ages.observe(&Event::RowGone { row });
        assert_eq!(ages.of(row, Nanos(60)), 0);
        ages.observe(&start(70));
        assert_eq!(ages.of(row, Nanos(75)), 5, "another row of that number");
    }
}
