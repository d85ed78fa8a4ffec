//! Just-in-time MPMax: every kernel leaves room for one block of each co-runner (SRTF, section 5.2.2).
//!
//! A kernel's cap is what fits on an SM beside one block of each other kernel that works; within the caps, room goes to
//! the launch that arrived first. Caps are found anew whenever a launch arrives or ends.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, NO_CAP, Plan, Preemption};
use crate::policy::Policy;
use crate::roster::{Job, Roster};
use crate::shape::{DeviceShape, Room};
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "mpmax";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

/// One block of each co-runner set aside.
#[derive(Debug)]
pub struct MpMax {
    device: DeviceId,
    roster: Roster,
    heads: Vec<Job>,
    rows: Vec<RowId>,
}

impl MpMax {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            roster: Roster::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Returns what fits on an SM of a row's blocks when one block of each other row is set aside, at least one.
    fn cap(&self, row: RowId, all: &Room) -> u16 {
        let Some(info) = self.roster.row(row).filter(|info| !info.spill) else {
            return NO_CAP;
        };
        let mut room = *all;
        room.give_back(&info.block);
        u16::try_from(room.fits(&info.block))
            .unwrap_or(NO_CAP)
            .clamp(1, info.most.max(1))
    }
}

impl Policy for MpMax {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_changed() {
            return false;
        }
        self.roster.line_up(&mut self.heads, &mut self.rows);
        let mut room = Room::empty_sm(self.roster.shape());
        for info in self.rows.iter().filter_map(|row| self.roster.row(*row)) {
            room.take(&info.block, 1);
        }
        let layout = Layout::checked(self.device);
        let all = whole(&self.roster, DispatchOrder::Arrival, Preemption::None);
        let plans = (standing, &mut *next);
        layout.fill(&self.roster, plans, &[all], &self.rows, |_, place| {
            self.cap(self.rows[place], &room)
        });
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
