//! The numbers by which the dispatcher's parts name clients and operations.

/// Place of a client in the dispatcher's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// Operations that one client may have admitted and unfinished; further submissions stay in its ring.
pub const OPERATIONS_PER_CLIENT: usize = if cfg!(loom) { 4 } else { 128 };

/// Index into an [`OperationTable`](super::admission::operation::OperationTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub u16);

/// Where an operation is: its client, and its index in that client's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationRef {
    /// The client.
    pub slot: Slot,
    /// The operation.
    pub id: OperationId,
}
