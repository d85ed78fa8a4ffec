//! A partition that does not change: the blocks of each tenant on every SM, as an oracle says.

use gridmux_policy::book::{Book, Job};
use gridmux_policy::layout::{Layout, whole};
use gridmux_policy::{
    DeviceId, DeviceShape, DispatchOrder, Event, NO_CAP, Nanos, Plan, Policy, Preemption, RowId,
};

/// Blocks of each tenant on an SM, by its number, as long as several have work; one alone has all of it, unless it is
/// the only one there is.
#[derive(Debug)]
pub(crate) struct Fixed {
    device: DeviceId,
    book: Book,
    blocks: Vec<u16>,
    heads: Vec<Job>,
    rows: Vec<RowId>,
}

impl Fixed {
    /// Returns the policy for one device.
    pub(crate) fn new(device: DeviceId, shape: &DeviceShape, blocks: &[u16]) -> Self {
        Self {
            device,
            book: Book::new(shape),
            blocks: blocks.to_vec(),
            heads: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl Policy for Fixed {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.book.take_changed() {
            return false;
        }
        self.book.line_up(&mut self.heads, &mut self.rows);
        let shares = self.rows.len() == self.blocks.len();
        let cap = |_: usize, place: usize| {
            let row = self.book.row(self.rows[place]);
            let own = row.and_then(|row| self.blocks.get(row.tenant.index()));
            match (row, own) {
                (Some(_), Some(blocks)) if shares => *blocks,
                (Some(row), _) => row.most,
                (None, _) => NO_CAP,
            }
        };
        let all = whole(&self.book, DispatchOrder::Arrival, Preemption::None);
        let layout = Layout::checked(self.device);
        layout.fill(&self.book, (standing, next), &[all], &self.rows, cap);
        true
    }
}
