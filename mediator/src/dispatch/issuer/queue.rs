//! The issue queue: operations that may go to the device, best first.
//!
//! Rules: the order is the plan's rank, then device time of admission, then client, stream and place in the stream, so
//! that the wall-clock order in which submissions of one instant were found has no say. What cannot go now is parked
//! at its tenant's account and comes back when something of that tenant ends, a round of submissions ends or a plan
//! comes; so a turn looks at what can go, not at what is there. An entry whose operation is gone is recognised by its
//! sequence number.

use crate::dispatch::ids::{OperationId, OperationRef, Slot};
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation that still has something to hand to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Active {
    /// Rank in the plan's order plus 1; 0 for what takes no room on an SM.
    pub rank: u32,
    /// Device time of admission.
    pub admitted: Nanos,
    /// The client.
    pub slot: Slot,
    /// The client's stream.
    pub stream: u16,
    /// Order of admission over all clients.
    pub sequence: u64,
    /// The operation.
    pub id: OperationId,
    /// The tenant.
    pub tenant: TenantId,
}

impl Active {
    /// Returns which operation it is.
    #[must_use]
    pub fn op(&self) -> OperationRef {
        let (slot, id) = (self.slot, self.id);
        OperationRef { slot, id }
    }
}

/// Operations in order.
#[derive(Debug)]
pub struct IssueQueue {
    heap: BinaryHeap<Reverse<Active>>,
    scratch: Vec<Active>,
}

impl IssueQueue {
    /// Makes a queue with room for `capacity` operations; more make it grow.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(capacity),
            scratch: Vec::with_capacity(capacity),
        }
    }

    /// Returns the first operation.
    #[must_use]
    pub fn first(&self) -> Option<Active> {
        self.heap.peek().map(|entry| entry.0)
    }

    /// Removes the first operation.
    pub fn pop(&mut self) {
        self.heap.pop();
    }

    /// Adds an operation.
    pub fn push(&mut self, active: Active) {
        self.heap.push(Reverse(active));
    }

    /// Removes every operation of a tenant; returns how many there were.
    pub fn remove(&mut self, tenant: TenantId) -> usize {
        let before = self.heap.len();
        self.heap.retain(|entry| entry.0.tenant != tenant);
        before - self.heap.len()
    }

    /// Gives every operation a new rank.
    pub fn rank_anew(&mut self, mut rank: impl FnMut(&Active) -> u32) {
        self.scratch.clear();
        self.scratch.extend(self.heap.drain().map(|entry| entry.0));
        for active in &mut self.scratch {
            active.rank = rank(active);
        }
        self.heap.extend(self.scratch.drain(..).map(Reverse));
    }

    /// Returns whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
