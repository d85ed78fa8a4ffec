//! Copies and fills: which of them goes to the device next.
//!
//! A transfer goes in pieces of at most [`PIECE_BYTES`], and each engine of the device is handed about two pieces at a
//! time, so that the next tenant's transfer waits for those and no more. The tenant of the next piece is found by
//! start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): a piece's start tag is the later of the engine's
//! virtual time and the end tag of its tenant's piece before; an end tag is later than the start tag by the piece's
//! length over the tenant's weight; the least start tag goes first. So tenants that keep an engine busy move bytes in
//! proportion to their weights, however many streams they use, and a tenant that paused has no credit.
//!
//! Rules: tags are looked at again when they come to the front, because their tenant may have sent a piece since; small
//! pieces count as [`LEAST_BYTES`], which is what setting one up costs.

use super::queue::Active;
use crate::dispatch::feed::rows::TENANTS;
use gridmux_policy::ids::TenantId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Longest piece: a whole number of elements of every width.
pub const PIECE_BYTES: u64 = 8 << 20;
/// Bytes that a piece counts at least.
const LEAST_BYTES: u64 = 4096;
/// Virtual time of a byte at weight 1. Tags are wide enough for more bytes than any engine moves.
const SCALE: u128 = 1024;

/// What moves bytes: devices have an engine of its own for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Copies to the device.
    ToDevice,
    /// Copies from the device.
    FromDevice,
    /// Copies and fills on the device.
    OnDevice,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Self; 3] = [Self::ToDevice, Self::FromDevice, Self::OnDevice];
}

/// A transfer with something to hand over, by its start tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    tag: u128,
    active: Active,
}

/// The queue of an engine.
#[derive(Debug)]
struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Start tag of the piece that was handed over last.
    now: u128,
    /// End tag of each tenant's last piece.
    ends: Box<[u128]>,
    /// Bytes on the device.
    bytes: u64,
}

impl Queue {
    fn start_tag(&self, tenant: TenantId) -> u128 {
        let end = self.ends.get(tenant.index()).copied().unwrap_or(0);
        end.max(self.now)
    }
}

/// The queues of all engines.
#[derive(Debug)]
pub struct Transfers {
    queues: [Queue; 3],
}

impl Transfers {
    /// Makes empty queues with room for `capacity` transfers each; more make them grow.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let queue = || Queue {
            waiting: BinaryHeap::with_capacity(capacity),
            now: 0,
            ends: vec![0; TENANTS].into_boxed_slice(),
            bytes: 0,
        };
        Self {
            queues: [queue(), queue(), queue()],
        }
    }

    /// Adds a transfer.
    pub fn push(&mut self, engine: Engine, active: Active) {
        let queue = &mut self.queues[engine as usize];
        let tag = queue.start_tag(active.tenant);
        queue.waiting.push(Reverse(Waiting { tag, active }));
    }

    /// Returns the transfer whose piece is next.
    pub fn first(&mut self, engine: Engine) -> Option<Active> {
        let queue = &mut self.queues[engine as usize];
        loop {
            let Waiting { tag, active } = queue.waiting.peek()?.0;
            let fresh = queue.start_tag(active.tenant);
            if fresh <= tag {
                return Some(active);
            }
            // Its tenant sent a piece since, or the engine's time has passed it by.
            queue.waiting.pop();
            queue.waiting.push(Reverse(Waiting { tag: fresh, active }));
        }
    }

    /// Removes the transfer that [`Transfers::first`] returned.
    pub fn pop(&mut self, engine: Engine) {
        self.queues[engine as usize].waiting.pop();
    }

    /// Removes every transfer of a tenant, and forgets its tags; returns how many transfers there were.
    pub fn remove(&mut self, tenant: TenantId) -> usize {
        let removed = self.queues.iter_mut().map(|queue| {
            if let Some(end) = queue.ends.get_mut(tenant.index()) {
                *end = 0;
            }
            let before = queue.waiting.len();
            queue
                .waiting
                .retain(|entry| entry.0.active.tenant != tenant);
            before - queue.waiting.len()
        });
        removed.sum()
    }

    /// Returns whether an engine may be handed another piece.
    #[must_use]
    pub fn has_room(&self, engine: Engine) -> bool {
        self.queues[engine as usize].bytes <= PIECE_BYTES
    }

    /// Takes note of a piece that was handed over.
    pub fn handed_over(&mut self, engine: Engine, bytes: u64, tenant: TenantId, weight: u32) {
        let queue = &mut self.queues[engine as usize];
        let start = queue.start_tag(tenant);
        queue.now = start;
        queue.bytes += bytes;
        let length = u128::from(bytes.max(LEAST_BYTES)) * SCALE / u128::from(weight.max(1));
        if let Some(end) = queue.ends.get_mut(tenant.index()) {
            *end = start + length;
        }
    }

    /// Takes note of a piece that has ended.
    pub fn ended(&mut self, engine: Engine, bytes: u64) {
        let queue = &mut self.queues[engine as usize];
        queue.bytes = queue.bytes.saturating_sub(bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Engine, PIECE_BYTES, Transfers};
    use crate::dispatch::ids::{OperationId, Slot};
    use crate::dispatch::issuer::queue::Active;
    use gridmux_policy::ids::TenantId;
    use gridmux_policy::units::Nanos;

    fn active(tenant: u32, stream: u16) -> Active {
        Active {
            rank: 0,
            admitted: Nanos(0),
            slot: Slot(u16::try_from(tenant).unwrap()),
            stream,
            sequence: u64::from(stream),
            id: OperationId(stream),
            tenant: TenantId(tenant),
        }
    }

    /// Serves pieces of 1 MiB one after another; returns how many each tenant got.
    fn serve(transfers: &mut Transfers, weights: &[u32], pieces: usize) -> Vec<usize> {
        let mut got = vec![0; weights.len()];
        for _ in 0..pieces {
            let next = transfers.first(Engine::ToDevice).unwrap();
            transfers.pop(Engine::ToDevice);
            let tenant = next.tenant.index();
            transfers.handed_over(Engine::ToDevice, 1 << 20, next.tenant, weights[tenant]);
            transfers.ended(Engine::ToDevice, 1 << 20);
            transfers.push(Engine::ToDevice, next);
            got[tenant] += 1;
        }
        got
    }

    #[test]
    fn bytes_are_in_proportion_to_weights_however_many_streams_there_are() {
        let mut transfers = Transfers::with_capacity(8);
        for stream in 0..5 {
            transfers.push(Engine::ToDevice, active(0, stream));
        }
        transfers.push(Engine::ToDevice, active(1, 0));
        let got = serve(&mut transfers, &[1, 3], 400);
        assert!(got[1].abs_diff(300) <= 2, "{got:?}");
    }

    #[test]
    fn bytes_are_in_proportion_after_more_bytes_than_64_bits_count() {
        let mut transfers = Transfers::with_capacity(8);
        let all = u64::MAX;
        for tenant in [0, 1] {
            transfers.handed_over(Engine::ToDevice, all, TenantId(tenant), 1);
            transfers.ended(Engine::ToDevice, all);
            transfers.push(Engine::ToDevice, active(tenant, 0));
        }
        let got = serve(&mut transfers, &[1, 3], 400);
        assert!(got[1].abs_diff(300) <= 2, "{got:?}");
    }

    #[test]
    fn a_tenant_that_comes_late_has_neither_credit_nor_debt() {
        let mut transfers = Transfers::with_capacity(8);
        transfers.push(Engine::ToDevice, active(0, 0));
        serve(&mut transfers, &[1, 1], 100);
        transfers.push(Engine::ToDevice, active(1, 0));
        let got = serve(&mut transfers, &[1, 1], 100);
        assert!(got[0].abs_diff(50) <= 1, "{got:?}");
    }

    #[test]
    fn an_engine_has_about_two_pieces_and_engines_are_apart() {
        let mut transfers = Transfers::with_capacity(8);
        let tenant = TenantId(0);
        assert!(transfers.has_room(Engine::FromDevice));
        transfers.handed_over(Engine::FromDevice, PIECE_BYTES, tenant, 1);
        assert!(transfers.has_room(Engine::FromDevice));
        transfers.handed_over(Engine::FromDevice, 1, tenant, 1);
        assert!(!transfers.has_room(Engine::FromDevice) && transfers.has_room(Engine::OnDevice));
        transfers.ended(Engine::FromDevice, PIECE_BYTES);
        assert!(transfers.has_room(Engine::FromDevice));
    }
}
