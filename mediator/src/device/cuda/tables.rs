//! What the dispatcher must find by number when it submits: kernels, buffers, and the tenants' allocations.
//!
//! The control thread publishes a new [`Tables`] at every change; the dispatcher reads the newest without a lock and
//! without waiting ([`gridmux_sync::publish`], explored there by loom). The parts that did not change are shared.
//!
//! Rules: numbers are never used twice, so a late command cannot reach another tenant's. Modules and buffers are freed
//! by the control thread alone: it keeps a handle of each, moves it to a list when the tenant gives the thing up, and
//! frees it when that handle is the last ([`std::sync::Arc::try_unwrap`], whose Acquire pairs with the Release of the
//! dispatcher's drop).

use super::allocator::Range;
use super::buffer::HostBuffer;
use super::module::Module;
use crate::device::{DomainId, KernelLimits};
use cudarc::driver::sys::CUfunction;
use gridmux_sync::publish::Stamped;
use std::collections::HashMap;
use std::sync::Arc;

/// A kernel's handle in the driver.
#[derive(Clone, Copy)]
pub(super) struct Function(pub(super) CUfunction);

// SAFETY: a function handle may be used on any thread whose context is current (CUDA driver API, "Module Management").
unsafe impl Send for Function {}
// SAFETY: as above; the handle itself is never written.
unsafe impl Sync for Function {}

/// A loaded kernel.
#[derive(Clone)]
pub(super) struct KernelEntry {
    /// The memory domain that it belongs to.
    pub(super) domain: DomainId,
    /// What the driver calls it.
    pub(super) function: Function,
    /// What a launch must know.
    pub(super) limits: KernelLimits,
    /// Keeps it loaded.
    pub(super) module: Arc<Module>,
}

/// What an operation in flight holds.
pub(super) enum Keep {
    /// Nothing.
    Nothing,
    /// The module of its kernel.
    Module(#[allow(dead_code, reason = "held, not read")] Arc<Module>),
    /// The buffer it copies from or to.
    Buffer(#[allow(dead_code, reason = "held, not read")] Arc<HostBuffer>),
}

/// One state of everything.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// By kernel number.
    pub(super) kernels: Arc<HashMap<u32, KernelEntry>>,
    /// By buffer number.
    pub(super) buffers: Arc<HashMap<u32, Arc<HostBuffer>>>,
    /// By domain number: its allocations in ascending order.
    pub(super) allocations: Arc<HashMap<u32, Arc<[Range]>>>,
}

impl Stamped for Tables {
    fn stamp(&mut self, _epoch: u64) {}
}

impl Tables {
    /// Whether a range of device memory lies inside one allocation of a domain.
    pub(super) fn holds(&self, domain: DomainId, address: u64, bytes: u64) -> bool {
        let Some(ranges) = self.allocations.get(&domain.0) else {
            return false;
        };
        let after = ranges.partition_point(|range| range.start <= address);
        after > 0 && ranges[after - 1].holds(address, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, Tables};
    use crate::device::DomainId;
    use std::sync::Arc;

    #[test]
    fn only_whole_ranges_inside_one_own_allocation_are_held() {
        let ranges: Arc<[Range]> = Arc::new([
            Range {
                start: 0x1000,
                bytes: 0x100,
            },
            Range {
                start: 0x1100,
                bytes: 0x100,
            },
        ]);
        let tables = Tables {
            allocations: Arc::new([(7, ranges)].into_iter().collect()),
            ..Tables::default()
        };
        let (own, other) = (DomainId(7), DomainId(8));
        assert!(tables.holds(own, 0x1000, 0x100));
        assert!(tables.holds(own, 0x1180, 0x80));
        assert!(
            !tables.holds(own, 0x10ff, 2),
            "over the edge of two allocations"
        );
        assert!(!tables.holds(own, 0x1180, 0x81));
        assert!(!tables.holds(own, 0xfff, 1));
        assert!(!tables.holds(own, u64::MAX, u64::MAX));
        assert!(!tables.holds(other, 0x1000, 1));
    }
}
