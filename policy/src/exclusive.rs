//! One kernel at a time, without preemption: policies without sharing.
//!
//! Rule: a kernel that was given the device keeps it until the launch ends that it was given it for.

use crate::book::{Book, Job};
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Plan, Preemption};
use crate::policy::Policy;
use crate::predict::{Durations, simple_slicing};
use crate::profiles::Profiles;
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// A policy that gives the device to one launch at a time.
#[derive(Debug)]
pub struct Exclusive {
    device: DeviceId,
    book: Book,
    durations: Durations,
    profiles: Profiles,
    /// Makes the key of a runtime in nanoseconds: the least comes first.
    key: fn(f64) -> f64,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    /// The launch that has the device: row and number.
    current: Option<(RowId, u64)>,
}

impl Exclusive {
    /// Returns the policy for one device, with profiles of kernels. The launch goes first whose runtime alone, in
    /// nanoseconds, has the least key.
    #[must_use]
    pub fn new(
        device: DeviceId,
        shape: &DeviceShape,
        profiles: Profiles,
        key: fn(f64) -> f64,
    ) -> Self {
        Self {
            device,
            book: Book::new(shape),
            durations: Durations::default(),
            profiles,
            key,
            heads: Vec::new(),
            rows: Vec::new(),
            current: None,
        }
    }

    /// Returns the runtime of a launch alone in nanoseconds, if anything is known of its kernel.
    fn runtime(&self, job: &Job) -> Option<f64> {
        let info = self.book.row(job.row)?;
        let profile = self.profiles.block_ns(info.profile);
        let block_ns = profile.or_else(|| self.durations.of(job.row))?;
        let resident = self.book.resident_of(job);
        Some(simple_slicing(0.0, job.blocks, resident, block_ns))
    }
}

impl Policy for Exclusive {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        self.durations.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !self.book.take_changed() {
            return false;
        }
        self.book.heads(&mut self.heads);
        let has = |job: &&Job| Some((job.row, job.launch)) == self.current;
        if !self.heads.iter().any(|job| has(&job)) {
            // What is not known comes first, so that it becomes known.
            let known = |job: &Job| self.runtime(job).map_or(f64::NEG_INFINITY, self.key);
            let first = self
                .heads
                .iter()
                .min_by(|one, other| known(one).total_cmp(&known(other)));
            self.current = first.map(|job| (job.row, job.launch));
        }
        self.rows.clear();
        self.rows.extend(self.heads.iter().map(|job| job.row));
        let layout = Layout::checked(self.device);
        let all = whole(&self.book, DispatchOrder::Arrival, Preemption::None);
        let has = |row| self.current.is_some_and(|current| current.0 == row);
        let cap = |_: usize, place: usize| match has(self.rows[place]) {
            true => self.book.row(self.rows[place]).map_or(0, |info| info.most),
            false => 0,
        };
        layout.fill(&self.book, (standing, next), &[all], &self.rows, cap);
        true
    }
}
