//! Even: kernels hold equal parts of every SM (the Even of Warped-Slicer, section 5; Elastic Kernels' equal split).
//!
//! Of K kernels that work each may have as many blocks on an SM as a K-th of each of its resources holds, at least one;
//! with weights, a part in proportion. Nobody gets what another one cannot use.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, NO_CAP, Plan, Preemption};
use crate::policy::Policy;
use crate::roster::{Job, Roster};
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "even";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

/// Equal parts of each SM.
#[derive(Debug)]
pub struct Even {
    device: DeviceId,
    roster: Roster,
    heads: Vec<Job>,
    rows: Vec<RowId>,
}

impl Even {
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

    /// Returns how many blocks of a row its part of an SM holds.
    fn cap(&self, row: RowId, all_weights: u64) -> u16 {
        let Some(info) = self.roster.row(row).filter(|info| !info.spill) else {
            return NO_CAP;
        };
        let weight = u64::from(self.roster.weight(info.tenant));
        let part = |of_sm: u32, each: u32| {
            let part = u64::from(of_sm) * weight / all_weights.max(1);
            part.checked_div(u64::from(each)).unwrap_or(u64::MAX)
        };
        let (shape, block) = (self.roster.shape(), info.block);
        let holds = part(shape.threads, block.threads)
            .min(part(shape.registers, block.registers))
            .min(part(shape.shared_bytes, block.shared_bytes))
            .min(part(shape.blocks, 1));
        u16::try_from(holds)
            .unwrap_or(info.most)
            .clamp(1, info.most.max(1))
    }
}

impl Policy for Even {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_changed() {
            return false;
        }
        self.roster.line_up(&mut self.heads, &mut self.rows);
        let all_weights = self.roster.weights_of(&self.rows);
        let layout = Layout::checked(self.device);
        let all = whole(&self.roster, DispatchOrder::Arrival, Preemption::None);
        let plans = (standing, &mut *next);
        layout.fill(&self.roster, plans, &[all], &self.rows, |_, place| {
            self.cap(self.rows[place], all_weights)
        });
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
