//! First in, first out: what stock hardware does.
//!
//! Every kernel may fill the device; free room goes to the launch that arrived first. Left over ([`NAME`]), the next
//! launch takes what the first one cannot use (Left-Over in Warped-Slicer, section 2); strictly ([`STRICT`]), nobody
//! passes a launch that has blocks to start (SRTF, section 5.2.1).

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption, Stop};
use crate::policy::Policy;
use crate::roster::Roster;
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// Name of the left-over policy.
pub const NAME: &str = "fifo";
/// Name of the strict policy.
pub const STRICT: &str = "fifo-strict";
/// The elements of a plan that the left-over policy uses.
pub const USES: &[Element] = &[Element::Order];
/// The elements of a plan that the strict policy uses.
pub const STRICT_USES: &[Element] = &[Element::Order, Element::HeadOfLine];

/// Order of arrival, maximum residency.
#[derive(Debug)]
pub struct Fifo {
    device: DeviceId,
    strict: bool,
    roster: Roster,
    rows: Vec<RowId>,
}

impl Fifo {
    /// Returns the left-over policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            strict: false,
            roster: Roster::new(shape),
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
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_rows_changed() {
            return false;
        }
        let layout = Layout {
            device: self.device,
            stop: Stop::Ahead,
            default_cap: NO_CAP,
        };
        let all = Group {
            head_of_line: self.strict,
            ..whole(&self.roster, DispatchOrder::Arrival, Preemption::None)
        };
        self.rows.clear();
        self.rows.extend(self.roster.rows().map(|(row, _)| row));
        let most = |_: usize, place: usize| {
            let info = self.roster.row(self.rows[place]);
            info.map_or(NO_CAP, |info| info.most)
        };
        let plans = (standing, &mut *next);
        layout.fill(&self.roster, plans, &[all], &self.rows, most);
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
