//! First in, first out: what stock hardware does.
//!
//! Every kernel may fill the device; free room goes to the launch that arrived first. Left over ([`NAME`]), the next
//! launch takes what the first one cannot use (Left-Over in Warped-Slicer, section 2); strictly ([`STRICT`]), nobody
//! passes a launch that has blocks to start (SRTF, section 5.2.1).

use crate::book::Book;
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption, Stop};
use crate::policy::{NO_CLASS, Policy, PolicyInfo, Samples};
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// Name of the left-over policy.
pub const NAME: &str = "fifo";
/// Name of the strict policy.
pub const STRICT: &str = "fifo-strict";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "launches fill the device in order of arrival; the next takes what is left over",
    source: "stock hardware; Left-Over of Warped-Slicer section 2",
    paper: "none",
    promises_weights: false,
    weights: "they have no meaning: launches go in order of arrival, whosever they are",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[Element::Order],
    make: |device, shape, _| Box::new(Fifo::new(device, shape)),
};
/// What the strict policy is.
pub const STRICT_INFO: PolicyInfo = PolicyInfo {
    name: STRICT,
    summary: "launches fill the device strictly in order of arrival",
    source: "stock hardware; the baseline of SRTF section 5.2.1",
    paper: "none",
    promises_weights: false,
    weights: "they have no meaning: launches go in order of arrival, whosever they are",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[Element::Order, Element::HeadOfLine],
    make: |device, shape, _| Box::new(Fifo::strict(device, shape)),
};

/// Order of arrival, maximum residency.
#[derive(Debug)]
pub struct Fifo {
    device: DeviceId,
    strict: bool,
    book: Book,
    rows: Vec<RowId>,
}

impl Fifo {
    /// Returns the left-over policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            strict: false,
            book: Book::new(shape),
            rows: Vec::new(),
        }
    }

    /// Returns the strict policy for one device.
    #[must_use]
    pub fn strict(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            strict: true,
            ..Self::new(device, shape)
        }
    }
}

impl Policy for Fifo {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.book.take_rows_changed() {
            return false;
        }
        let layout = Layout {
            device: self.device,
            stop: Stop::Ahead,
            stop_alone: Stop::Ahead,
            default_cap: NO_CAP,
        };
        let all = Group {
            head_of_line: self.strict,
            ..whole(&self.book, DispatchOrder::Arrival, Preemption::None)
        };
        self.rows.clear();
        self.rows.extend(self.book.rows().map(|(row, _)| row));
        let most = |_: usize, place: usize| {
            let info = self.book.row(self.rows[place]);
            info.map_or(NO_CAP, |info| info.most)
        };
        let plans = (standing, &mut *next);
        layout.fill(&self.book, plans, &[all], &self.rows, most);
        true
    }
}
