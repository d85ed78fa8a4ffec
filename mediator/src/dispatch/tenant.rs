//! One tenant as the dispatcher holds it: its rings, its streams, the kernels and buffers it may name.
//!
//! Rules: the control thread makes the whole of it (that is where the allocations are), the dispatcher owns it
//! while the tenant lives, and hands it back to be dropped. Whatever the tenant names by number is looked up here
//! and nowhere else, so a tenant cannot reach another's kernel or buffer.

use super::accounting::TenantCounters;
use super::operation::{OPERATIONS_PER_TENANT, OperationId, OperationTable};
use crate::device::{BufferId, DomainId, KernelLimits};
use gridmux_policy::ids::TenantId;
use std::sync::Arc;

/// Streams per tenant.
pub const STREAMS_PER_TENANT: usize = if cfg!(loom) { 2 } else { 32 };
/// Kernel handles per tenant.
pub const KERNELS_PER_TENANT: usize = if cfg!(loom) { 2 } else { 4096 };
/// DMA mappings per tenant.
pub const MAPPINGS_PER_TENANT: usize = 256;

/// A kernel that a tenant may launch by its handle.
#[derive(Debug, Clone, Copy)]
pub struct TenantKernel {
    /// What the device loaded.
    pub limits: KernelLimits,
    /// Where the control struct goes, if the kernel can be sliced.
    pub control_offset: Option<u32>,
}

/// A tenant buffer that copies may use, by the tenant's own I/O virtual address.
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

/// Operations of one stream in order of admission; the front one is the one that may run.
#[derive(Debug)]
pub struct Stream {
    queue: [OperationId; OPERATIONS_PER_TENANT],
    head: usize,
    len: usize,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            queue: [OperationId(0); OPERATIONS_PER_TENANT],
            head: 0,
            len: 0,
        }
    }
}

impl Stream {
    /// The operation at the front.
    #[must_use]
    pub fn front(&self) -> Option<OperationId> {
        (self.len > 0).then(|| self.queue[self.head])
    }

    /// Appends; the operation table is no larger than the queue, so there is always room.
    pub fn push(&mut self, id: OperationId) {
        debug_assert!(self.len < OPERATIONS_PER_TENANT);
        self.queue[(self.head + self.len) % OPERATIONS_PER_TENANT] = id;
        self.len += 1;
    }

    /// Removes the front.
    pub fn pop(&mut self) {
        if self.len > 0 {
            self.head = (self.head + 1) % OPERATIONS_PER_TENANT;
            self.len -= 1;
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// One tenant.
pub struct TenantSlot<P> {
    /// Who.
    pub tenant: TenantId,
    /// Its weight, at least 1.
    pub weight: u32,
    /// Its memory.
    pub domain: DomainId,
    /// Its rings.
    pub port: P,
    /// Kernels by handle.
    pub kernels: Vec<Option<TenantKernel>>,
    /// Buffers.
    pub mappings: Vec<Mapping>,
    /// Streams that exist, by number.
    pub streams: Box<[Option<Stream>]>,
    /// Admitted operations.
    pub operations: OperationTable,
    /// Counters.
    pub counters: Arc<TenantCounters>,
    /// Nothing of it is admitted or issued any more.
    pub leaving: bool,
    /// The control thread said [`super::Message::Leave`]; until then a tenant that was cut off stays in its slot.
    pub told_to_leave: bool,
    /// It has launched something, so the share meter knows it.
    pub metered: bool,
    /// Completions that did not fit into the ring yet block their stream; this says that there are some.
    pub backlog: bool,
    /// Launches admitted and not complete: while there are any the tenant has work, as the share meter sees it. Copies
    /// hold no SM.
    pub open_launches: u32,
}

impl<P> TenantSlot<P> {
    /// A tenant with stream 0 and all of its tables allocated.
    pub fn new(
        tenant: TenantId,
        weight: u32,
        domain: DomainId,
        port: P,
        counters: Arc<TenantCounters>,
    ) -> Self {
        let mut streams: Vec<Option<Stream>> = Vec::with_capacity(STREAMS_PER_TENANT);
        streams.resize_with(STREAMS_PER_TENANT, || None);
        streams[0] = Some(Stream::default());
        Self {
            tenant,
            weight: weight.max(1),
            domain,
            port,
            kernels: Vec::with_capacity(KERNELS_PER_TENANT),
            mappings: Vec::with_capacity(MAPPINGS_PER_TENANT),
            streams: streams.into_boxed_slice(),
            operations: OperationTable::default(),
            counters,
            leaving: false,
            told_to_leave: false,
            metered: false,
            backlog: false,
            open_launches: 0,
        }
    }

    /// The buffer that holds `[iova, iova + bytes)` with the right that is needed, and the offset in it.
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
}
