//! The tables in which the dispatcher looks up by number when it submits: kernels, buffers, tenants' allocations.
//!
//! The control thread publishes a new [`Tables`] at every change; the dispatcher reads the newest without a lock and
//! without waiting ([`gridmux_sync::publish`], explored there by loom). The parts that did not change are shared.
//!
//! Rules: numbers are never used twice, so a late command cannot reach another tenant's. Modules and buffers are freed
//! by the control thread alone: it keeps a handle of each, moves it to a list when the tenant gives the thing up, and
//! frees it when that handle is the last ([`std::sync::Arc::try_unwrap`], whose Acquire pairs with the Release of the
//! dispatcher's drop).

use super::allocator::Range;
use super::arguments::Places;
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
    /// The driver's handle.
    pub(super) function: Function,
    /// Limits that a launch must keep.
    pub(super) limits: KernelLimits,
    /// Where its parameters stand in a launch's.
    pub(super) places: Places,
    /// Its blocks write stamps.
    pub(super) stamps: bool,
    /// Keeps it loaded.
    pub(super) module: Arc<Module>,
}

/// References that an operation in flight holds, so that their objects stay loaded and mapped.
#[derive(Default)]
#[allow(dead_code, reason = "held, not read")]
pub(super) struct Keep {
    /// The module of its kernel, or those of the variables that it copies from and to.
    pub(super) modules: [Option<Arc<Module>>; 2],
    /// The buffer that it copies from or to.
    pub(super) buffer: Option<Arc<HostBuffer>>,
}

/// A variable of a loaded module.
#[derive(Clone)]
pub(super) struct Variable {
    /// Where it is.
    pub(super) range: Range,
    /// Keeps it loaded.
    pub(super) module: Arc<Module>,
}

/// The object in which a range of a tenant's device memory lies.
pub(super) enum AddressOwner {
    /// An allocation.
    Allocation,
    /// A variable of this module.
    Variable(Arc<Module>),
}

impl AddressOwner {
    /// Returns the module that an operation on it must hold.
    pub(super) fn module(self) -> Option<Arc<Module>> {
        match self {
            Self::Allocation => None,
            Self::Variable(module) => Some(module),
        }
    }
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
    /// By domain number: the variables of its modules in ascending order.
    pub(super) variables: Arc<HashMap<u32, Arc<[Variable]>>>,
}

impl Stamped for Tables {
    fn stamp(&mut self, _epoch: u64) {}
}

impl Tables {
    /// Finds the allocation or the variable of a domain inside which a range of device memory lies.
    pub(super) fn find(&self, domain: DomainId, address: u64, bytes: u64) -> Option<AddressOwner> {
        let none: &[Range] = &[];
        let ranges = self.allocations.get(&domain.0).map_or(none, |all| all);
        if last_at(ranges, address, |range| range).is_some_and(|range| range.holds(address, bytes))
        {
            return Some(AddressOwner::Allocation);
        }
        let variables = self.variables.get(&domain.0)?;
        let variable = last_at(variables, address, |variable| &variable.range)?;
        let is_inside = variable.range.holds(address, bytes);
        is_inside.then(|| AddressOwner::Variable(Arc::clone(&variable.module)))
    }
}

/// Returns the last of some things in ascending order that starts at an address or below it.
fn last_at<T>(all: &[T], address: u64, range: impl Fn(&T) -> &Range) -> Option<&T> {
    let after = all.partition_point(|one| range(one).start <= address);
    after.checked_sub(1).map(|at| &all[at])
}

#[cfg(test)]
mod tests {
    use super::{AddressOwner, Module, Range, Tables, Variable};
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
        let holds = |domain, address, bytes| tables.find(domain, address, bytes).is_some();
        assert!(holds(own, 0x1000, 0x100));
        assert!(holds(own, 0x1180, 0x80));
        assert!(!holds(own, 0x10ff, 2), "over the edge of two allocations");
        assert!(!holds(own, 0x1180, 0x81));
        assert!(!holds(own, 0xfff, 1));
        assert!(!holds(own, u64::MAX, u64::MAX));
        assert!(!holds(other, 0x1000, 1));
    }

    #[test]
    fn variables_are_held_with_their_module_by_their_own_domain() {
        let module = Arc::new(Module::none());
        let variable = |start| Variable {
            range: Range { start, bytes: 4 },
            module: Arc::clone(&module),
        };
        let variables: Arc<[Variable]> = Arc::new([variable(0x2000), variable(0x2004)]);
        let tables = Tables {
            variables: Arc::new([(7, variables)].into_iter().collect()),
            ..Tables::default()
        };
        let found = tables.find(DomainId(7), 0x2004, 4);
        assert!(matches!(found, Some(AddressOwner::Variable(of)) if Arc::ptr_eq(&of, &module)));
        for (domain, address, bytes) in [
            (7, 0x2000, 8),
            (7, 0x1fff, 1),
            (7, 0x2008, 1),
            (8, 0x2000, 4),
        ] {
            assert!(
                tables.find(DomainId(domain), address, bytes).is_none(),
                "{address:#x}"
            );
        }
    }
}
