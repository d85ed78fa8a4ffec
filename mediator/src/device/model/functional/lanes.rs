//! The operations on the functional device, by lane, and the choice of the one whose turn is next.
//!
//! Each lane runs its operations in order, so that only the first of each lane can have turns. Turns are shared among
//! clients (memory domains). A client's part of the processor is in proportion to the part of the device that the
//! first launches of its lanes would hold together, at least [`LEAST_PART`] and at most 1. Copies and fills hold no
//! part: a GPU has engines of their own for them, so that they are not to slow launches down much, and a client with
//! nothing else has the least part. The lanes of one client take turns.
//!
//! This is stride scheduling: each client has a pass, which grows by the time of its turns divided by its part, and the
//! client of the least pass has the next turn. A new client begins at the pass of the client that had the last turn. A
//! client without work is forgotten once the others have caught up with its pass.

use super::super::transfer::Transfer;
use super::running::Running;
use crate::device::{DomainId, LANES, LaneId, Tag};
use gridmux_policy::units::Nanos;
use std::collections::VecDeque;
use std::time::Duration;

/// Least part of a client, as a fraction of the whole device.
const LEAST_PART: f64 = 1.0 / 8.0;

/// An operation on the device.
pub(super) enum Job {
    /// A launch.
    Launch(Box<Running>),
    /// A copy or fill.
    Transfer(Moving),
}

/// A copy or fill under way.
pub(super) struct Moving {
    pub(super) transfer: Transfer,
    /// Bytes that are done.
    pub(super) done: u64,
    /// When its first byte moved.
    pub(super) start: Option<Nanos>,
}

impl Job {
    /// Makes a copy or fill that has not begun.
    pub(super) fn transfer(transfer: Transfer) -> Self {
        Self::Transfer(Moving {
            transfer,
            done: 0,
            start: None,
        })
    }

    /// Returns the tag that names it in reports.
    pub(super) fn tag(&self) -> Tag {
        match self {
            Self::Launch(launch) => launch.tag(),
            Self::Transfer(moving) => moving.transfer.tag(),
        }
    }

    fn domain(&self) -> DomainId {
        match self {
            Self::Launch(launch) => launch.command().domain,
            Self::Transfer(moving) => moving.transfer.domain(),
        }
    }

    /// Returns the part of the device that it holds.
    fn part(&self) -> f64 {
        match self {
            Self::Launch(launch) => launch.part(),
            Self::Transfer(..) => 0.0,
        }
    }
}

/// A client that has work on the device, or whose pass is ahead of the others'.
#[derive(Debug)]
struct Share {
    domain: DomainId,
    pass: f64,
    /// The client's lane that had the last turn.
    last: u8,
}

/// All lanes.
pub(super) struct FunctionalLanes {
    lanes: Vec<VecDeque<Job>>,
    /// Lanes that hold something, as bits.
    busy: u32,
    shares: Vec<Share>,
    /// The pass of the client that had the last turn.
    pass: f64,
}

impl FunctionalLanes {
    /// Makes empty lanes.
    pub(super) fn new() -> Self {
        let mut lanes = Vec::new();
        lanes.resize_with(LANES, VecDeque::new);
        Self {
            lanes,
            busy: 0,
            shares: Vec::new(),
            pass: 0.0,
        }
    }

    /// Returns whether nothing is on the device.
    pub(super) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Puts an operation behind what its lane holds.
    pub(super) fn push(&mut self, job: Job) {
        let domain = job.domain();
        if !self.shares.iter().any(|share| share.domain == domain) {
            self.shares.push(Share {
                domain,
                pass: self.pass,
                last: 0,
            });
        }
        let lane = job.tag().lane.0;
        if let Some(jobs) = self.lanes.get_mut(usize::from(lane)) {
            jobs.push_back(job);
            self.busy |= 1 << lane;
        }
    }

    /// Takes an operation out, wherever it is.
    pub(super) fn remove(&mut self, tag: Tag) -> Option<Job> {
        let jobs = self.lanes.get_mut(usize::from(tag.lane.0))?;
        let place = jobs.iter().position(|job| job.tag() == tag)?;
        let job = jobs.remove(place);
        if jobs.is_empty() {
            self.busy &= !(1 << tag.lane.0);
        }
        job
    }

    /// Returns the first operation of a lane.
    pub(super) fn first(&mut self, lane: LaneId) -> Option<&mut Job> {
        self.lanes.get_mut(usize::from(lane.0))?.front_mut()
    }

    /// Returns the operations that can have turns.
    fn firsts(&self) -> impl Iterator<Item = (u8, &Job)> {
        firsts_of(&self.lanes, self.busy)
    }

    /// Returns the warps of the launches that can have turns.
    pub(super) fn resident_warps(&self) -> u64 {
        let warps = |job: &Job| match job {
            Job::Launch(launch) => launch.warps(),
            Job::Transfer(..) => 0,
        };
        self.firsts().map(|(_, job)| warps(job)).sum()
    }

    /// Returns the launch that is first in a lane, if it has not begun and the device has room for all that it would
    /// hold.
    pub(super) fn placeable(&mut self, lane: LaneId) -> Option<&mut Running> {
        let begun = |job: &Job| match job {
            Job::Launch(launch) if launch.has_begun() => launch.part(),
            _ => 0.0,
        };
        let held: f64 = self.firsts().map(|(_, job)| begun(job)).sum();
        match self.first(lane)? {
            // Parts of one wave add up to 1 but for rounding.
            Job::Launch(launch) if !launch.has_begun() && held + launch.part() < 1.001 => {
                Some(launch)
            }
            _ => None,
        }
    }

    /// Returns the lane whose turn it is.
    pub(super) fn next(&mut self) -> Option<LaneId> {
        let (lanes, busy, pass) = (&self.lanes, self.busy, self.pass);
        let works = |share: &Share| {
            let mut firsts = firsts_of(lanes, busy);
            firsts.any(|(_, job)| job.domain() == share.domain)
        };
        // A client without work is forgotten once the others have caught up with it.
        self.shares
            .retain(|share| share.pass > pass || works(share));
        let working = self.shares.iter_mut().filter(|share| works(share));
        let share = working.min_by(|a, b| a.pass.total_cmp(&b.pass))?;
        let own = firsts_of(lanes, busy).filter(|(_, job)| job.domain() == share.domain);
        // The next one behind the last, round and round.
        let lane = own
            .map(|(lane, _)| lane)
            .min_by_key(|lane| (*lane <= share.last, *lane))?;
        share.last = lane;
        self.pass = pass.max(share.pass);
        Some(LaneId(lane))
    }

    /// Charges the client whose operation is first in a lane for a turn of that operation.
    pub(super) fn charge(&mut self, lane: LaneId, took: Duration) {
        let Some(domain) = self.first(lane).map(|job| job.domain()) else {
            return;
        };
        let own = self.firsts().filter(|(_, job)| job.domain() == domain);
        let part: f64 = own.map(|(_, job)| job.part()).sum();
        let part = part.clamp(LEAST_PART, 1.0);
        if let Some(share) = self.shares.iter_mut().find(|share| share.domain == domain) {
            // A client that had no work while others did begins at their pass.
            share.pass = share.pass.max(self.pass) + took.as_secs_f64() / part;
        }
    }
}

/// Returns the first operation of each busy lane.
fn firsts_of(lanes: &[VecDeque<Job>], mut busy: u32) -> impl Iterator<Item = (u8, &Job)> {
    std::iter::from_fn(move || {
        let lane = u8::try_from(busy.trailing_zeros()).ok()?;
        busy &= busy.checked_sub(1)?;
        Some((lane, lanes.get(usize::from(lane))?.front()?))
    })
}
