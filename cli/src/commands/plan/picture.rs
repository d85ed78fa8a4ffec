//! The picture of a plan: a line for each row, a column for each SM.
//!
//! Rule: a column that stands for several SMs shows the most that the row may hold on one of them.

use super::{Cell, Row, Shown};

/// Most columns of a line.
const COLUMNS: usize = 60;
/// None, then eighths of the blocks that fit.
const LEVELS: [char; 9] = ['.', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Shown {
    /// Returns the lines, each with its row's number; nothing for a plan without groups or rows.
    pub(super) fn picture(&self) -> Vec<String> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        let width = self.rows.iter().map(|row| row.row.to_string().len());
        let width = width.max().unwrap_or_default();
        let line = |row: &Row| {
            let cells: String = self.columns(row).into_iter().collect();
            format!("{:<width$} |{cells}|", row.row)
        };
        self.rows.iter().map(line).collect()
    }

    fn columns(&self, row: &Row) -> Vec<char> {
        let mut levels = vec![0; usize::from(self.sms)];
        for (group, cell) in self.groups.iter().zip(&row.cells) {
            let level = level(*cell, row.fits);
            for (first, last) in &group.sms {
                let sms = usize::from(*first)..=usize::from(*last);
                if let Some(of_group) = levels.get_mut(sms) {
                    of_group.fill(level);
                }
            }
        }
        let each = levels.len().div_ceil(COLUMNS).max(1);
        let columns = levels.chunks(each);
        columns
            .map(|sms| LEVELS[sms.iter().copied().max().unwrap_or(0)])
            .collect()
    }
}

/// Returns how many eighths of the blocks that fit a cell permits; at least one where it permits a block.
fn level(cell: Cell, fits: Option<u16>) -> usize {
    let fits = usize::from(fits.unwrap_or(u16::MAX)).max(1);
    match cell.cap {
        None => 8,
        Some(cap) => (usize::from(cap) * 8).div_ceil(fits).min(8),
    }
}
