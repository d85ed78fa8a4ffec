//! accelOS: kernels hold equal parts of the device's resources (accelOS, section 3).
//!
//! Of K kernels that work each may have as many blocks on the device as a K-th of its threads, registers, shared memory
//! and block slots holds, at least one; with weights, a part in proportion. What is left over then is filled block by
//! block, kernel after kernel, until nothing fits. Parts are found anew whenever a launch arrives or ends.
//!
//! The paper's kernels fetch virtual groups in chunks of up to eight where groups are short (section 6.4). Chunks are a
//! matter of the form in which a kernel runs, not of the plan.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::Layout;
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption};
use crate::policy::Policy;
use crate::roster::{Job, Roster};
use crate::shape::DeviceShape;
use crate::spread::Spread;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "accelos";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

/// Equal parts of the device.
#[derive(Debug)]
pub struct AccelOs {
    device: DeviceId,
    roster: Roster,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    spread: Spread,
    groups: Vec<Group>,
}

impl AccelOs {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            roster: Roster::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            spread: Spread::default(),
            groups: Vec::new(),
        }
    }

    /// Gives each row its part, and then what is left over.
    fn divide(&mut self) {
        let everything = |_: usize| u64::MAX;
        self.spread.begin(self.roster.shape(), self.rows.len());
        self.spread.give_parts(&self.roster, &self.rows, everything);
        self.spread.fill_up(&self.roster, &self.rows, everything);
    }
}

impl Policy for AccelOs {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_changed() {
            return false;
        }
        self.roster.line_up(&mut self.heads, &mut self.rows);
        self.divide();
        let how = (DispatchOrder::Arrival, Preemption::None);
        self.spread.groups(how, &mut self.groups);
        let layout = Layout::checked(self.device);
        let plans = (standing, &mut *next);
        layout.fill(
            &self.roster,
            plans,
            &self.groups,
            &self.rows,
            |group, place| {
                let spill = |row| self.roster.row(row).is_some_and(|info| info.spill);
                match spill(self.rows[place]) {
                    true => NO_CAP,
                    false => self.spread.cap(group, place),
                }
            },
        );
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
