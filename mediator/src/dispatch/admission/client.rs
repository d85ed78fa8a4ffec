//! One client as the dispatcher holds it: its rings, its streams, the kernels and buffers that it may name.
//!
//! Rules: the control thread makes the whole of it (that is where the allocations are), the dispatcher owns it while
//! the client lives, and hands it back to be dropped. Whatever the client names by number is looked up here and nowhere
//! else, so a client cannot reach another's kernel or buffer.

use super::operation::{Operation, OperationTable, Work};
use super::params::ParamPool;
use super::port::TenantPort;
use crate::device::{BufferId, DomainId, KernelLimits, entry_of};
use crate::dispatch::feed::client_accounting::ClientCounters;
use crate::dispatch::ids::{OPERATIONS_PER_CLIENT, OperationId};
use gridmux_channel::ring::RELEASE_STREAMS;
use gridmux_policy::ids::{KernelKey, TenantId};
use gridmux_policy::units::Nanos;
use gridmux_ptx::Kernel;
use gridmux_ptx::forms::Shape;
use std::sync::Arc;

/// Streams per client.
pub const STREAMS_PER_CLIENT: usize = if cfg!(loom) { 2 } else { 32 };
// One bit of `ClientSlot::held` for each, and one word of the rings to release its holds.
const _: () = assert!(STREAMS_PER_CLIENT <= 64 && STREAMS_PER_CLIENT <= RELEASE_STREAMS as usize);
/// Kernel handles per client.
pub const KERNELS_PER_CLIENT: usize = if cfg!(loom) { 2 } else { 4096 };
/// DMA mappings per client.
pub const MAPPINGS_PER_CLIENT: usize = 256;

/// A kernel that a client may launch by its handle.
#[derive(Debug, Clone)]
pub struct ClientKernel {
    /// What is known of it from its text. The control thread keeps a handle for longer, so that none is freed here.
    pub kernel: Arc<Kernel>,
    /// Handle and limits, as the device loaded it.
    pub limits: KernelLimits,
    /// Names the kernel by its text, whichever client loaded it.
    pub key: KernelKey,
    /// It cannot run on the device: its launches are refused.
    pub unusable: bool,
}

impl ClientKernel {
    /// Returns whether its launches have the control block in front of the client's parameters.
    #[must_use]
    pub fn has_control(&self) -> bool {
        entry_of(&self.kernel).is_some_and(|entry| entry.control_bytes() > 0)
    }

    /// Returns how its launches cover the grid.
    #[must_use]
    pub fn covers(&self) -> Shape {
        entry_of(&self.kernel).map_or(Shape::Whole, |entry| entry.shape)
    }
}

/// A client's buffer that copies may use, by the client's own I/O virtual address.
#[derive(Debug, Clone, Copy)]
pub struct Mapping {
    /// First I/O virtual address.
    pub iova: u64,
    /// Length.
    pub bytes: u64,
    /// The registered buffer.
    pub buffer: BufferId,
    /// Copies may write to it.
    pub writable: bool,
}

/// Operations of one stream in order of admission. The front ones are active: they may be handed to the device.
#[derive(Debug)]
pub struct Stream {
    queue: [OperationId; OPERATIONS_PER_CLIENT],
    head: usize,
    len: usize,
    active: usize,
    /// The client has destroyed it; its number is free once it is empty.
    pub closing: bool,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            queue: [OperationId(0); OPERATIONS_PER_CLIENT],
            head: 0,
            len: 0,
            active: 0,
            closing: false,
        }
    }
}

impl Stream {
    /// Returns the operation at the front.
    #[must_use]
    pub fn front(&self) -> Option<OperationId> {
        (self.len > 0).then(|| self.queue[self.head])
    }

    /// Returns the first operation that is not active, and how many are.
    #[must_use]
    pub fn next(&self) -> Option<(OperationId, usize)> {
        (self.active < self.len).then(|| (self.at(self.active), self.active))
    }

    /// Returns the newest active operation.
    #[must_use]
    pub fn last_active(&self) -> Option<OperationId> {
        self.active.checked_sub(1).map(|place| self.at(place))
    }

    /// Returns an active operation by its place.
    #[must_use]
    pub fn active_at(&self, place: usize) -> Option<OperationId> {
        (place < self.active).then(|| self.at(place))
    }

    /// Counts the first operation that was not active as active.
    pub fn activate_next(&mut self) {
        self.active = (self.active + 1).min(self.len);
    }

    /// Appends; the operation table is no larger than the queue, so there is always room.
    pub fn push(&mut self, id: OperationId) {
        debug_assert!(self.len < OPERATIONS_PER_CLIENT);
        self.queue[(self.head + self.len) % OPERATIONS_PER_CLIENT] = id;
        self.len += 1;
    }

    /// Removes the front.
    pub fn pop(&mut self) {
        if self.len > 0 {
            self.head = (self.head + 1) % OPERATIONS_PER_CLIENT;
            self.len -= 1;
            self.active = self.active.saturating_sub(1);
        }
    }

    /// Returns whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, place: usize) -> OperationId {
        self.queue[(self.head + place) % OPERATIONS_PER_CLIENT]
    }
}

/// Whether a client is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    Served,
    /// Nothing of it is admitted or issued any more, because it broke the ring's protocol. It stays in its slot until
    /// the control thread says [`Message::Leave`](super::message::Message::Leave).
    CutOff,
    /// The control thread said so; it goes when nothing of it is in flight.
    Leaving,
}

/// What a client has to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mail {
    /// Nothing.
    None,
    /// It has a completion of this turn, at whose end it is woken.
    Unwoken,
    /// In lockstep: completions lie in its ring that it does not see yet.
    Undelivered,
}

/// One client.
pub struct ClientSlot<P> {
    /// Its number, unique while the service runs.
    pub number: u32,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// Its memory.
    pub domain: DomainId,
    /// Its rings.
    pub port: P,
    /// What is counted of it for accounts.
    pub counters: Arc<ClientCounters>,
    /// Kernels by handle.
    pub kernels: Vec<Option<ClientKernel>>,
    /// Buffers.
    pub mappings: Vec<Mapping>,
    /// Streams that exist, by number.
    pub streams: Box<[Option<Stream>]>,
    /// Admitted operations.
    pub operations: OperationTable,
    /// Parameters of admitted launches.
    pub params: ParamPool,
    /// Whether it is served.
    pub presence: Presence,
    /// What it has to be told of.
    pub mail: Mail,
    /// Whether a completion did not fit into its ring; it blocks its stream.
    pub backlog: bool,
    /// Operations that wait for one of another stream.
    pub waits: u16,
    /// Streams whose first operation is a hold that is not released, as bits.
    pub held: u64,
    /// On a virtual clock: nothing of it is admitted before, because what it did last has cost it time.
    pub ready_at: Nanos,
    /// A control operation of it waits for a fence or for the end of a stream.
    pub postponed: bool,
    /// The turn of the dispatcher in which it was last found active.
    pub seen: u64,
    /// Fences that wait for the operations admitted before them: the number that the control thread gave, and the
    /// sequence number below which everything must have ended.
    pub fences: Vec<(u64, u64)>,
}

impl<P> ClientSlot<P> {
    /// Makes a client with stream 0 and all of its tables allocated.
    pub fn new(number: u32, tenant: TenantId, domain: DomainId, port: P) -> Self {
        let mut streams: Vec<Option<Stream>> = Vec::with_capacity(STREAMS_PER_CLIENT);
        streams.resize_with(STREAMS_PER_CLIENT, || None);
        streams[0] = Some(Stream::default());
        Self {
            number,
            tenant,
            domain,
            port,
            counters: Arc::default(),
            kernels: Vec::with_capacity(KERNELS_PER_CLIENT),
            mappings: Vec::with_capacity(MAPPINGS_PER_CLIENT),
            streams: streams.into_boxed_slice(),
            operations: OperationTable::default(),
            params: ParamPool::default(),
            presence: Presence::Served,
            mail: Mail::None,
            backlog: false,
            waits: 0,
            held: 0,
            ready_at: Nanos(0),
            postponed: false,
            seen: 0,
            fences: Vec::with_capacity(16),
        }
    }

    /// Returns the buffer that holds `[iova, iova + bytes)` with the right that is needed, and the offset in it.
    #[must_use]
    pub fn find_mapping(
        &self,
        iova: u64,
        bytes: u64,
        needs_write: bool,
    ) -> Option<(BufferId, u64)> {
        self.mappings.iter().find_map(|m| {
            let offset = iova.checked_sub(m.iova)?;
            let fits = offset.checked_add(bytes)? <= m.bytes && (m.writable || !needs_write);
            fits.then_some((m.buffer, offset))
        })
    }

    /// Returns whether operations of it are admitted and issued.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.presence == Presence::Served
    }

    /// Returns a stream that exists.
    pub fn stream_mut(&mut self, number: u16) -> Option<&mut Stream> {
        self.streams.get_mut(usize::from(number))?.as_mut()
    }

    /// Returns whether a fence is not reached yet, or a stream is to end that is not empty.
    #[must_use]
    pub fn has_ending(&self) -> bool {
        !self.fences.is_empty() || self.streams.iter().flatten().any(|stream| stream.closing)
    }

    /// Takes out a fence that nothing holds up any more; returns the number that the control thread gave.
    pub fn take_met_fence(&mut self) -> Option<u64> {
        if self.fences.is_empty() {
            return None;
        }
        let held = self.operations.ids();
        let sequences = held.filter_map(|id| Some(self.operations.get(id)?.sequence));
        let oldest = sequences.min();
        let met = |fence: &(u64, u64)| oldest.is_none_or(|oldest| oldest >= fence.1);
        let place = self.fences.iter().position(met)?;
        Some(self.fences.remove(place).0)
    }

    /// Returns whether another submission can be admitted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.is_served() && self.operations.has_room() && self.params.has_room()
    }
}

impl<P: TenantPort> ClientSlot<P> {
    /// Returns stream and operation of a hold that is first in its stream and may end.
    #[must_use]
    pub fn released_hold(&self) -> Option<(u16, OperationId)> {
        let mut held = self.held;
        while held != 0 {
            let number = u16::try_from(held.trailing_zeros()).ok()?;
            held &= held - 1;
            let stream = self.streams.get(usize::from(number))?.as_ref();
            let Some(id) = stream.and_then(Stream::front) else {
                continue;
            };
            let operation = self.operations.get(id);
            if operation.is_some_and(|operation| self.may_end(operation)) {
                return Some((number, id));
            }
        }
        None
    }

    /// Returns whether an operation is a hold that its client has released, or whose stream it has destroyed.
    #[must_use]
    pub fn may_end(&self, operation: &Operation) -> bool {
        let Work::Hold { count } = operation.work else {
            return false;
        };
        let stream = self.streams.get(usize::from(operation.stream));
        let closing = stream.is_none_or(|s| s.as_ref().is_none_or(|stream| stream.closing));
        closing || self.port.released(operation.stream) >= count
    }

    /// Returns whether a hold may end.
    #[must_use]
    pub fn has_released(&self) -> bool {
        self.released_hold().is_some()
    }
}
