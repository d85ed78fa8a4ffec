//! Spatial partitioning: every kernel has SMs of its own (SMK, section 6: Spart; Warped-Slicer, section 2: Spatial).
//!
//! The K kernels that work divide the SMs evenly, or in proportion to their tenants' weights; odd SMs go to the kernels
//! that arrived first. Where there are more kernels than SMs, several share one.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::Layout;
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption};
use crate::policy::Policy;
use crate::roster::{Job, Roster};
use crate::shape::DeviceShape;
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "spatial";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

/// SMs of its own for each kernel.
#[derive(Debug)]
pub struct Spatial {
    device: DeviceId,
    roster: Roster,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    groups: Vec<Group>,
}

impl Spatial {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            roster: Roster::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Divides the SMs: each of the first rows, as many as there are SMs, gets a group of at least one.
    fn divide(&mut self) {
        let sms = u64::from(self.roster.shape().sms);
        let owners = self
            .rows
            .len()
            .clamp(1, usize::from(self.roster.shape().sms));
        let owning = &self.rows[..owners.min(self.rows.len())];
        let all_weights = self.roster.weights_of(owning).max(1);
        self.groups.clear();
        let (mut from, mut weights) = (0_u64, 0_u64);
        for place in 0..owners {
            let row = owning.get(place..=place).unwrap_or_default();
            weights += self.roster.weights_of(row);
            let left = (owners - 1 - place) as u64;
            let to = match place + 1 == owners {
                true => sms,
                false => (sms * weights)
                    .div_ceil(all_weights)
                    .clamp(from + 1, sms - left),
            };
            let sm = |at: u64| u16::try_from(at).unwrap_or(u16::MAX);
            self.groups.push(Group {
                sms: SmSet::range(sm(from), sm(to)),
                order: DispatchOrder::Arrival,
                preemption: Preemption::None,
                head_of_line: false,
            });
            from = to;
        }
    }
}

impl Policy for Spatial {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.roster.take_changed() {
            return false;
        }
        self.roster.line_up(&mut self.heads, &mut self.rows);
        self.divide();
        let layout = Layout::checked(self.device);
        let plans = (standing, &mut *next);
        let owners = self.groups.len();
        layout.fill(
            &self.roster,
            plans,
            &self.groups,
            &self.rows,
            |group, place| match place % owners == group {
                true => self
                    .roster
                    .row(self.rows[place])
                    .map_or(NO_CAP, |info| info.most),
                false => 0,
            },
        );
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
