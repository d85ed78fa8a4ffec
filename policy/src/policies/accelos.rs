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
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Stop};
use crate::policy::Policy;
use crate::roster::{Job, Roster};
use crate::shape::{BlockShape, DeviceShape};
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

    fn block(&self, row: RowId) -> BlockShape {
        let info = self.roster.row(row);
        info.map_or_else(BlockShape::default, |info| info.block)
    }

    /// Returns how many blocks of a row its part of the device holds: `min(T/(K w), L/(K m), R/(K r))`.
    fn part(&self, row: RowId, all_weights: u64) -> u64 {
        let Some(info) = self.roster.row(row) else {
            return 0;
        };
        let (shape, block) = (self.roster.shape(), info.block);
        let weight = u64::from(self.roster.weight(info.tenant));
        let holds = |of_sm: u32, each: u32| {
            let all = u64::from(of_sm) * u64::from(shape.sms) * weight / all_weights.max(1);
            all.checked_div(u64::from(each)).unwrap_or(u64::MAX)
        };
        holds(shape.threads, block.threads)
            .min(holds(shape.registers, block.registers))
            .min(holds(shape.shared_bytes, block.shared_bytes))
            .min(holds(shape.blocks, 1))
            .max(1)
    }

    /// Gives each row its part, and then what is left over.
    fn divide(&mut self) {
        let all_weights = self.roster.weights_of(&self.rows);
        let sms = usize::from(self.roster.shape().sms);
        self.spread.begin(self.roster.shape(), self.rows.len());
        let mut first = 0;
        for place in 0..self.rows.len() {
            let row = self.rows[place];
            let (block, part) = (self.block(row), self.part(row, all_weights));
            let placed = self.spread.place_in_turn(place, &block, (first, part));
            // The next row's odd blocks go where this one's did not.
            first = (first + usize::try_from(placed).unwrap_or(0)) % sms;
        }
        let mut fits = true;
        while std::mem::take(&mut fits) {
            for place in 0..self.rows.len() {
                let block = self.block(self.rows[place]);
                fits |= self.spread.place_in_turn(place, &block, (0, 1)) > 0;
            }
        }
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
        self.roster.heads(&mut self.heads);
        self.rows.clear();
        self.rows.extend(self.heads.iter().map(|job| job.row));
        self.divide();
        self.spread.groups(DispatchOrder::Arrival, &mut self.groups);
        let layout = Layout {
            device: self.device,
            stop: Stop::Checked,
            default_cap: 1,
            wake_at: None,
        };
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
