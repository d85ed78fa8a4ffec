//! A partition that does not change: the blocks of each tenant on every SM, as an oracle says.

use gridmux_policy::book::{Book, Job};
use gridmux_policy::layout::{Layout, whole};
use gridmux_policy::{
    DeviceId, DeviceShape, DispatchOrder, Event, NO_CAP, Nanos, Plan, Policy, Preemption, RowId,
};

/// Caps each tenant's blocks on an SM while every tenant has work; otherwise nobody is capped.
#[derive(Debug)]
pub(crate) struct Fixed {
    device: DeviceId,
    book: Book,
    /// By tenant's number.
    blocks: Vec<u16>,
    /// Cap of a row that is not listed yet.
    default_cap: u16,
    heads: Vec<Job>,
    rows: Vec<RowId>,
}

impl Fixed {
    /// Returns the policy for one device; a row that is not listed yet may have `default_cap` blocks on each SM.
    pub(crate) fn new(
        device: DeviceId,
        shape: &DeviceShape,
        blocks: Vec<u16>,
        default_cap: u16,
    ) -> Self {
        Self {
            device,
            book: Book::new(shape),
            blocks,
            default_cap,
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
        let layout = Layout {
            default_cap: self.default_cap,
            ..Layout::checked(self.device)
        };
        layout.fill(&self.book, (standing, next), &[all], &self.rows, cap);
        true
    }
}
