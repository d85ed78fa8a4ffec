//! Clients and what comes from them: their rings, streams and operations, the control thread's messages, and the clock
//! that clients may hold.
//!
//! [`port`] reads a ring, `decode` checks an entry and makes an operation ([`operation`]) of it, [`client`] and
//! [`clients`] keep it, `doorbells` says whose ring is looked at, [`clock`] decides when virtual time may pass, and
//! [`message`] is all that the control thread and the dispatcher say to each other.
//!
//! Rules: what a client wrote is copied once and the copy checked. It hands nothing to the device and completes
//! nothing.

pub mod client;
pub mod clients;
pub mod clock;
mod control_link;
mod decode;
mod doorbells;
pub mod message;
pub mod operation;
pub mod params;
pub mod port;

pub use control_link::ControlLink;
pub use doorbells::Doorbells;

use super::ids::Slot;
use clients::{CLIENTS, ClientTable};
use clock::VirtualClock;
use control_link::Outbox;
use std::sync::Arc;

/// Whether submissions are still admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// They are.
    Open,
    /// No more; what is on the device is waited for.
    Stopping,
    /// No more, and nothing is waited for.
    CutOff,
}

/// The dispatcher's part that takes in what clients submit.
pub(super) struct Admission<P> {
    pub(super) outbox: Outbox<P>,
    pub(super) clients: ClientTable<P>,
    pub(super) clock: VirtualClock,
    pub(super) service: Service,
    /// Most shared memory of a block in bytes.
    max_shared_bytes_per_block: u32,
    /// Sequence number of the operation that was admitted last.
    pub(super) sequence: u64,
    /// A ring had more than a turn admits.
    pub(super) more_to_admit: bool,
    /// Hot client at which the next turn begins to look at rings.
    pub(super) next_ring: usize,
    /// Rings looked at in a row that had nothing.
    pub(super) quiet_rings: usize,
    bells: Option<Arc<dyn Doorbells>>,
    /// Wall time in nanoseconds at which it was last asked which doorbells rang.
    asked_wall_ns: u64,
    rung: Vec<Slot>,
    /// Whether a doorbell rang in this turn. Its client is asked for no doorbell any more, so that the thread must not
    /// sleep before it has armed that one anew, even where the client had nothing to do.
    pub(super) has_rung: bool,
    pub(super) slot_scratch: Vec<Slot>,
}

impl<P> Admission<P> {
    /// Makes the part without clients.
    pub(super) fn new(
        link: Arc<ControlLink<P>>,
        clock: VirtualClock,
        max_shared_bytes_per_block: u32,
    ) -> Self {
        Self {
            outbox: Outbox::new(link),
            clients: ClientTable::default(),
            clock,
            service: Service::Open,
            max_shared_bytes_per_block,
            sequence: 0,
            more_to_admit: false,
            next_ring: 0,
            quiet_rings: 0,
            bells: None,
            asked_wall_ns: 0,
            rung: Vec::with_capacity(CLIENTS),
            has_rung: false,
            slot_scratch: Vec::with_capacity(CLIENTS),
        }
    }

    /// Returns whether a ring is still to be looked at before all have been found quiet.
    pub(super) fn is_looking(&self) -> bool {
        self.quiet_rings < self.clients.hot()
    }
}
