//! What happens to single blocks on SMs, as executors report it.
//!
//! Rule: policies are told sums ([`crate::Event::Blocks`]); these are what the sums are made of.

use crate::ids::{RowId, SmId, TenantId};
use crate::units::Cycles;

/// Under which row and for which tenant a launch runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Its row in plans.
    pub row: RowId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
}

impl Standing {
    /// No row and no tenant: what launches run under that no driver names. No plan lists it, so that the default row
    /// binds it.
    pub const NONE: Self = Self {
        row: RowId(u32::MAX),
        tenant: TenantId(u32::MAX),
    };
}

/// What happened to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockChange {
    /// It has room and starts.
    Placed,
    /// It ended after being resident for so long, on all SMs together.
    Retired {
        /// Residence.
        ran: Cycles,
    },
    /// Its context is in memory and its room is free.
    SwitchedOut {
        /// Bytes that were moved.
        bytes: u64,
    },
    /// It has room again, and its context is being fetched.
    SwitchedIn {
        /// Bytes that will be moved.
        bytes: u64,
    },
}

/// One block's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// Time of the event.
    pub at: Cycles,
    /// The SM that the block is on.
    pub sm: SmId,
    /// The row of its launch.
    pub row: RowId,
    /// The launch.
    pub tag: u64,
    /// Number of the block in its grid.
    pub block: u64,
    /// What happened to the block.
    pub change: BlockChange,
}
