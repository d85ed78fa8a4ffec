//! Policies that divide the device among the rows that have launches open, anew whenever a launch arrives or ends.
//!
//! A [`Division`] is how such a policy divides; [`Dividing`] makes a policy of it.

use crate::book::{Book, Job, TenantRecord};
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Group, Plan, Preemption};
use crate::policy::Policy;
use crate::shape::{DeviceShape, SmUnits};
use crate::units::Nanos;

/// Rows with open launches, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Lined<'a> {
    /// What is known of them.
    pub book: &'a Book,
    /// The oldest open launch of each.
    pub heads: &'a [Job],
    /// Their numbers.
    pub rows: &'a [RowId],
}

/// A way to divide a device.
pub trait Division: Default + Send {
    /// Divides the device among rows. `groups` holds one group of all SMs, filled in order of arrival; a division by
    /// SMs puts its own groups in the place of it.
    fn divide(&mut self, lined: &Lined<'_>, groups: &mut Vec<Group>);

    /// Returns the cap on a group's SMs of the row at a place in the line.
    fn cap(&self, lined: &Lined<'_>, group: usize, place: usize) -> u16;

    /// Returns what the rows of a tenant that has several in the line may hold together; nothing where their caps alone
    /// bind them.
    fn limit(&self, _lined: &Lined<'_>, _tenant: &TenantRecord) -> Option<SmUnits> {
        None
    }
}

/// A policy that divides the device. Blocks are never taken off an SM.
#[derive(Debug)]
pub struct Dividing<D> {
    device: DeviceId,
    book: Book,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    groups: Vec<Group>,
    division: D,
}

impl<D: Division> Dividing<D> {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            book: Book::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            groups: Vec::new(),
            division: D::default(),
        }
    }
}

impl<D: Division> Policy for Dividing<D> {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.book.take_changed() {
            return false;
        }
        self.book.line_up(&mut self.heads, &mut self.rows);
        let lined = Lined {
            book: &self.book,
            heads: &self.heads,
            rows: &self.rows,
        };
        self.groups.clear();
        let all = whole(lined.book, DispatchOrder::Arrival, Preemption::None);
        self.groups.push(all);
        self.division.divide(&lined, &mut self.groups);
        let cap = |group: usize, place: usize| self.division.cap(&lined, group, place);
        let limit = |tenant: &TenantRecord| self.division.limit(&lined, tenant);
        let plans = (standing, next);
        let layout = Layout::checked(self.device);
        layout.fill_limited(lined.book, plans, &self.groups, lined.rows, cap, limit);
        true
    }
}
