//! Elastic Kernels: kernels are merged before they start, with sizes that do not change (the baseline of accelOS,
//! sections 2.1 and 7.3; Pai et al., ASPLOS 2013).
//!
//! When the device is free, the launches that wait are merged in order of arrival, as many as an SM holds one block of
//! each. Each is sized to what fits on an SM beside one block of each other one (MPMax, the best of Elastic Kernels'
//! ways to divide an SM by SRTF, section 5.2.2). Sizes do not change until the last of them ends, and launches that
//! arrive wait until then. [`super::mpmax`] is the same with sizes that follow arrivals and ends.

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
pub const NAME: &str = "elastic";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

/// Static merges.
#[derive(Debug)]
pub struct Elastic {
    device: DeviceId,
    roster: Roster,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    /// The merged launches, by row and number, with their caps.
    merged: Vec<(RowId, u64, u16)>,
}

impl Elastic {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            roster: Roster::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            merged: Vec::new(),
        }
    }

    /// Merges the launches that wait.
    fn merge(&mut self) {
        self.merged.clear();
        let shape = self.roster.shape();
        let mut room = Room::empty_sm(shape);
        for job in &self.heads {
            let Some(info) = self.roster.row(job.row) else {
                continue;
            };
            if !(self.merged.is_empty() || room.holds(&info.block)) {
                break;
            }
            room.take(&info.block, 1);
            self.merged.push((job.row, job.launch, 1));
        }
        for (row, _, cap) in &mut self.merged {
            let Some(info) = self.roster.row(*row) else {
                continue;
            };
            let mut beside = room;
            beside.give_back(&info.block);
            *cap = u16::try_from(beside.fits(&info.block)).unwrap_or(info.most);
        }
    }

    fn cap(&self, row: RowId) -> u16 {
        let found = self.merged.iter().find(|merged| merged.0 == row);
        let spill = self.roster.row(row).is_some_and(|info| info.spill);
        match found {
            Some(_) if spill => NO_CAP,
            Some(merged) => merged.2,
            None => 0,
        }
    }
}

impl Policy for Elastic {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_changed() {
            return false;
        }
        self.roster.heads(&mut self.heads);
        // A row whose merged launch has ended takes no part with its next one.
        let heads = &self.heads;
        self.merged.retain(|merged| {
            let same = |job: &Job| (job.row, job.launch) == (merged.0, merged.1);
            heads.iter().any(same)
        });
        if self.merged.is_empty() {
            self.merge();
        }
        self.rows.clear();
        self.rows.extend(self.heads.iter().map(|job| job.row));
        let layout = Layout::checked(self.device);
        let all = whole(&self.roster, DispatchOrder::Arrival, Preemption::None);
        let plans = (standing, &mut *next);
        layout.fill(&self.roster, plans, &[all], &self.rows, |_, place| {
            self.cap(self.rows[place])
        });
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
