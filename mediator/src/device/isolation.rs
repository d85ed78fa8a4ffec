//! What keeps tenants' kernels out of each other's memory on one device.
//!
//! With the fence all clients of a device share one context, as on a GPU, and each has a *reservation* there: a power
//! of two of addresses, to which the compiler confines its kernels. The contract with the code that maps memory is in
//! [`gridmux_ptx::forms::fence`]; what the device does for it, and no other part of the service has to know: it writes
//! reservation and counters into the control block of a fenced launch, and reads the counters when that has ended.

use gridmux_channel::ring::CompletionStatus;
use gridmux_launch::RecordedFault;
use gridmux_ptx::forms::fence::{FaultKind, FenceMode};
use serde::{Deserialize, Serialize};

/// What keeps tenants' kernels out of each other's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Nothing that the service does: on a GPU all kernels reach all memory, on a model each client has an address
    /// space of its own.
    #[default]
    Shared,
    /// The fence.
    Fenced,
}

/// What becomes of kernels that cannot be fenced where others are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfenceable {
    /// They cannot be launched.
    #[default]
    Refused,
    /// They run as they are, and reach the memory of all.
    Shared,
}

/// How the kernels of a module are fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// How addresses are confined.
    pub mode: FenceMode,
    /// What becomes of the others.
    pub unfenceable: Unfenceable,
}

/// Returns how a launch ended that recorded a fault.
#[must_use]
pub fn status_of(fault: &RecordedFault) -> CompletionStatus {
    match FaultKind::from_number(fault.kind) {
        // The address of what it calls is wrong.
        Some(FaultKind::IndirectCall) => CompletionStatus::MemoryFault,
        _ => CompletionStatus::Trap,
    }
}
