//! What goes to the device, when, at which level and in which pieces.
//!
//! `activate` puts operations into the issue queue ([`queue`]) or the transfer queues ([`transfers`]), `levels` says at
//! which level a row goes, [`window`] cuts a piece, `piece` hands it over into a lane ([`lanes`]), `submission` shares
//! out the thread that submits, `gang` gives blocks that wait for each other their turn, and `preemption` sees who
//! gives way. [`reading`] says all of it to an operator.
//!
//! Rules: it asks the policy's side for plan, rows and accounts, and clients for their operations; it completes
//! nothing.

mod activate;
mod gang;
pub mod lanes;
mod levels;
mod piece;
mod preemption;
pub mod queue;
pub mod reading;
mod submission;
mod transfer_piece;
pub mod transfers;
pub mod window;

pub(super) use piece::Attempt;

use super::feed::PolicyFeed;
use super::feed::why::Why;
use super::ids::{OperationId, Slot};
use crate::device::{Command, Device};
use crate::wall_clock::wall_ns;
use gang::GangTurn;
use gridmux_policy::ids::DeviceId;
use lanes::Lanes;
use queue::IssueQueue;
use transfers::Transfers;
use window::slice_ns;

/// Least time from a launch's submission to its first block that is believed, in nanoseconds: an H200 takes more than
/// twice as long (`gridmux-gpu-check service`, part `latency`).
const LEAST_LATENCY_NS: u64 = 2_000;

/// The dispatcher's part that hands work to the device.
pub(super) struct Issuer<D> {
    pub(super) device: D,
    /// Which device, for traces.
    pub(super) device_id: DeviceId,
    pub(super) lanes: Lanes,
    pub(super) queue: IssueQueue,
    pub(super) transfers: Transfers,
    pub(super) gang: GangTurn,
    /// Why the first in the queue could not go when nothing behind it was tried.
    pub(super) held_by: Why,
    /// Longest time a piece of a launch may run, in core cycles.
    budget_cycles: u64,
    /// Least time seen from handing a piece to an empty lane to its first block's start: the cost of a launch.
    launch_ns: Option<u64>,
    /// Wall time of this turn's launches, once one was made.
    issue_wall_ns: Option<u64>,
    /// How many tenants' parked operations were tried for lent room: whose turn it is.
    tried: usize,
}

impl<D: Device> Issuer<D> {
    /// Makes the issuer of a device, with room for `operations` in its queues.
    pub(super) fn new(
        device: D,
        device_id: DeviceId,
        budget_cycles: u64,
        operations: usize,
    ) -> Self {
        Self {
            lanes: Lanes::new(device.lane_depth()),
            device,
            device_id,
            queue: IssueQueue::with_capacity(operations),
            transfers: Transfers::with_capacity(operations),
            gang: GangTurn::default(),
            held_by: Why::Nothing,
            budget_cycles,
            launch_ns: None,
            issue_wall_ns: None,
            tried: 0,
        }
    }

    /// Begins a turn: hands over the kills that found no room before.
    pub(super) fn begin_turn(&mut self) {
        self.issue_wall_ns = None;
        self.send_kills();
    }

    /// Returns the wall time of handing something over, read once per turn.
    fn issue_wall_ns(&mut self) -> u64 {
        *self.issue_wall_ns.get_or_insert_with(wall_ns)
    }

    /// Returns how long slices of short blocks are to last, in nanoseconds.
    fn slice_ns(&self) -> u64 {
        slice_ns(self.device.submission().each, self.launch_ns)
    }

    /// Returns how long a slice waits before its first block where all that have something queued submit by turns, in
    /// nanoseconds.
    fn slice_waits_ns(&self, feed: &PolicyFeed) -> u64 {
        let turns = match feed.policy.is_head_of_line() {
            true => 1,
            false => u64::from(feed.accounts.queueing.max(1)),
        };
        let submissions = self.device.submission().each * turns;
        self.launch_ns.unwrap_or(0).saturating_add(submissions.0)
    }

    /// Takes note of how long a launch took from being handed over to its first block; returns the least time of all
    /// where that is new. A device takes [`LEAST_LATENCY_NS`] whatever a kernel says of its start.
    pub(super) fn note_latency(&mut self, latency_ns: u64) -> Option<u64> {
        let latency_ns = latency_ns.max(LEAST_LATENCY_NS);
        let least = self
            .launch_ns
            .map_or(latency_ns, |least| least.min(latency_ns));
        (self.launch_ns.replace(least) != Some(least)).then_some(least)
    }

    /// Kills what a client has on the device, or only what belongs to one operation.
    pub(super) fn kill_flights(&mut self, slot: Slot, only: Option<OperationId>) {
        self.lanes.mark_kills(slot, only);
        self.send_kills();
    }

    /// Hands the device the kills that it has not taken yet. While its command queue is full they stay marked, and the
    /// next turn tries again.
    fn send_kills(&mut self) {
        let device = &mut self.device;
        self.lanes
            .send_kills(|tag| device.submit(&Command::Kill(tag), &[]).is_ok());
    }
}
