//! One admitted submission: what is left of it, what of it is in flight, and what became of it.
//!
//! An operation lives in its tenant's [`OperationTable`], which is allocated once, when the tenant joins; so a
//! tenant can hold at most its own table, and admitting allocates nothing.

use crate::device::{BufferId, DeviceKernelId, Direction, Params};
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::ids::KernelId;
use gridmux_policy::share::Share;
use gridmux_policy::units::Nanos;

/// Operations that one tenant may have admitted and unfinished; further submissions stay in its ring.
pub const OPERATIONS_PER_TENANT: usize = if cfg!(loom) { 4 } else { 128 };

/// Index into an [`OperationTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationId(pub u16);

/// A kernel launch as the tenant asked for it.
#[derive(Clone, Copy)]
pub struct LaunchWork {
    /// The standing row it falls under.
    pub class: KernelId,
    /// Tenant's kernel handle, for traces.
    pub handle: u32,
    /// Device kernel.
    pub kernel: DeviceKernelId,
    /// The whole grid.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Blocks in the grid.
    pub blocks: u64,
    /// Blocks launched so far.
    pub issued: u64,
    /// Dominant share of an SM that one block holds, judged once so that what is placed and retired cancels.
    pub share: Share,
    /// Where the control struct goes in the parameters; `None`: the kernel is launched whole.
    pub control_offset: Option<u32>,
    /// The tenant's parameters, copied once.
    pub params: Params,
}

/// A copy between a tenant's buffer and device memory.
#[derive(Debug, Clone, Copy)]
pub struct CopyWork {
    /// Direction.
    pub direction: Direction,
    /// Registered buffer.
    pub buffer: BufferId,
    /// Offset in it.
    pub buffer_offset: u64,
    /// Device address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// Whether it was handed to the device.
    pub issued: bool,
}

/// A fill of device memory with one byte.
#[derive(Debug, Clone, Copy)]
pub struct MemsetWork {
    /// Device address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// The byte.
    pub value: u8,
    /// Whether it was handed to the device.
    pub issued: bool,
}

/// What an operation does.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "operations live in a preallocated table"
)]
pub enum Work {
    /// Launch.
    Launch(LaunchWork),
    /// Copy.
    Copy(CopyWork),
    /// Fill.
    Memset(MemsetWork),
    /// Nothing: completes when all before it in its stream has.
    Marker,
}

/// One admitted submission.
#[derive(Clone, Copy)]
pub struct Operation {
    /// Tenant's stream.
    pub stream: u16,
    /// Order of admission over all tenants.
    pub sequence: u64,
    /// The tenant's own name for it.
    pub cookie: u64,
    /// Wall time at which the tenant says it submitted (`CLOCK_MONOTONIC`), clamped.
    pub submitted_wall_ns: u64,
    /// Wall time at which its first slice was handed to the device; 0 before.
    pub issued_wall_ns: u64,
    /// Device time of admission.
    pub admitted: Nanos,
    /// Device time of the first block's start.
    pub first_start: Option<Nanos>,
    /// Device time of the last end so far.
    pub last_end: Nanos,
    /// Slices (or copies) in flight.
    pub in_flight: u16,
    /// What became of it so far.
    pub status: CompletionStatus,
    /// What it does.
    pub work: Work,
}

impl Operation {
    /// Whether nothing of it is left to hand to the device.
    #[must_use]
    pub fn is_issued(&self) -> bool {
        if self.status != CompletionStatus::Ok {
            return true;
        }
        match &self.work {
            Work::Launch(launch) => launch.issued >= launch.blocks,
            Work::Copy(copy) => copy.issued,
            Work::Memset(memset) => memset.issued,
            Work::Marker => true,
        }
    }

    /// Whether it can be completed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.in_flight == 0 && self.is_issued()
    }
}

/// A tenant's operations: fixed slots and a stack of free ones.
pub struct OperationTable {
    slots: Box<[Option<Operation>]>,
    free: Vec<OperationId>,
}

impl Default for OperationTable {
    fn default() -> Self {
        let ids = (0..OPERATIONS_PER_TENANT)
            .rev()
            .map(|i| OperationId(u16::try_from(i).unwrap_or(u16::MAX)));
        Self {
            slots: vec![None; OPERATIONS_PER_TENANT].into_boxed_slice(),
            free: ids.collect(),
        }
    }
}

impl OperationTable {
    /// Whether another operation fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Operations held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an operation; `None` when the table is full.
    pub fn insert(&mut self, operation: &Operation) -> Option<OperationId> {
        let id = self.free.pop()?;
        self.slots[usize::from(id.0)] = Some(*operation);
        Some(id)
    }

    /// The operation, if it is still held.
    #[must_use]
    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.slots.get(usize::from(id.0))?.as_ref()
    }

    /// The operation, if it is still held.
    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.slots.get_mut(usize::from(id.0))?.as_mut()
    }

    /// Drops an operation.
    pub fn remove(&mut self, id: OperationId) {
        if self.slots[usize::from(id.0)].take().is_some() {
            // The stack was made with room for every slot, so this never allocates.
            self.free.push(id);
        }
    }

    /// Ids of all held operations.
    pub fn ids(&self) -> impl Iterator<Item = OperationId> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.is_some())
            .filter_map(|(i, _)| Some(OperationId(u16::try_from(i).ok()?)))
    }
}
