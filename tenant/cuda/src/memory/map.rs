//! Which memory stands at which address.
//!
//! Ranges never overlap. A copy or a fill takes the range that it works in with it, so that memory that another thread
//! frees meanwhile lives until the work was submitted.

use crate::context::{CUcontext, Context};
use crate::memory::advice::{Advices, ManagedRange};
use crate::memory::extents::Extents;
use crate::memory::lease::Lease;
use crate::module::CUmodule;
use crate::status::{CudaResult, Status};
use gridmux_tenant::{Adopted, Buffer, GlobalInfo, Pinned};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A piece of memory.
#[derive(Debug)]
pub struct Range {
    /// Its first byte's address.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The context that it belongs to; null for a library's variable.
    pub context: CUcontext,
    /// A number that no other range of the process has (`CU_POINTER_ATTRIBUTE_BUFFER_ID`).
    pub id: u64,
    /// The program asked for memory operations that wait (`CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`); a hint.
    pub is_synchronous: AtomicBool,
    /// Its kind of memory.
    pub memory: Memory,
}

/// The kind of memory of a range.
#[derive(Debug)]
pub enum Memory {
    /// Device memory that the program allocated; dropping it gives it back.
    Device(Buffer),
    /// Device memory of a pool.
    Pooled(Arc<crate::memory::pool::Block>),
    /// Device memory that a graph allocates.
    Graph(Arc<crate::memory::graph::GraphMemory>),
    /// A variable of a module.
    Variable {
        /// The module.
        module: CUmodule,
        /// Of a managed one, which the program has at the same address, the advice that holds.
        managed: Option<Mutex<Advices>>,
    },
    /// Host memory that the device copies to and from directly.
    Pinned(PinnedRange),
    /// The program's own memory, which it registered.
    Registered(Registered),
    /// Device addresses at which kernels reach registered memory.
    Mapped(Arc<Adopted>),
    /// An array's texels.
    Array(Buffer),
    /// Reserved addresses, of which parts are accessible.
    Reserved(Arc<Extents>),
    /// Memory that the program and kernels reach at the same addresses.
    Managed(ManagedRange),
}

/// Pinned memory, and what the program said of it.
#[derive(Debug)]
pub struct PinnedRange {
    /// The memory.
    pub memory: Pinned,
    /// The flags that it was asked for with.
    pub flags: u32,
    /// What it counts for in its pool, if it is of one.
    pub lease: Option<Lease>,
}

/// Memory of the program's own that it registered.
#[derive(Debug, Default)]
pub struct Registered {
    /// The flags that it was registered with.
    pub flags: u32,
    /// The part of the device in it, once the program has asked for its device address.
    pub adopted: Mutex<Option<Arc<Adopted>>>,
}

impl Memory {
    /// Returns whether its addresses are the device's.
    #[must_use]
    pub fn is_device(&self) -> bool {
        match self {
            Self::Device(_)
            | Self::Pooled(_)
            | Self::Graph(_)
            | Self::Variable { .. }
            | Self::Mapped(_)
            | Self::Array(_)
            | Self::Reserved(_)
            | Self::Managed(_) => true,
            Self::Pinned(..) | Self::Registered(_) => false,
        }
    }

    /// Returns whether there is memory at all of some bytes of it.
    fn covers(&self, offset: u64, len: u64) -> bool {
        match self {
            Self::Reserved(extents) => extents.covers(offset, len),
            _ => true,
        }
    }

    /// Returns whether kernels, copies and fills reach it at its addresses.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        match self {
            Self::Pinned(pinned) => pinned.memory.device_address().is_ok(),
            other => other.is_device(),
        }
    }

    /// Returns whether the program sees what is written to it without a copy.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        matches!(
            self,
            Self::Pinned(..)
                | Self::Mapped(_)
                | Self::Managed(_)
                | Self::Variable {
                    managed: Some(_),
                    ..
                }
        )
    }

    /// Returns the advice for managed memory; nothing for other memory.
    #[must_use]
    pub fn advices(&self) -> Option<&Mutex<Advices>> {
        match self {
            Self::Managed(range) => Some(&range.advices),
            Self::Variable { managed, .. } => managed.as_ref(),
            _ => None,
        }
    }
}

impl Range {
    /// Returns how many bytes `address` lies behind the first.
    #[must_use]
    pub fn offset(&self, address: u64) -> u64 {
        address - self.start
    }
}

/// All memory that is known.
#[derive(Debug, Default)]
pub struct MemoryMap {
    ranges: RwLock<BTreeMap<u64, Arc<Range>>>,
}

impl MemoryMap {
    /// Adds memory.
    ///
    /// # Errors
    /// [`Status::HOST_MEMORY_ALREADY_REGISTERED`]: part of it is there.
    pub fn add(&self, start: u64, bytes: u64, context: CUcontext, memory: Memory) -> CudaResult {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let mut ranges = self.ranges.write();
        let end = start.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        let last = ranges.range(..end).next_back();
        if last.is_some_and(|(_, range)| range.start + range.bytes > start) {
            return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let range = Arc::new(Range {
            start,
            bytes,
            context,
            // Relaxed: the number is all that counts.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            is_synchronous: AtomicBool::new(false),
            memory,
        });
        ranges.insert(start, range);
        Ok(())
    }

    /// Adds memory that ends with its context.
    ///
    /// # Errors
    /// As [`MemoryMap::add`]; the context was destroyed.
    pub fn add_to(&self, context: &Context, start: u64, bytes: u64, memory: Memory) -> CudaResult {
        context.grow(|| self.add(start, bytes, context.handle(), memory))
    }

    /// Adds a variable of a module; one of no bytes has no address.
    pub fn add_variable(&self, context: CUcontext, module: CUmodule, global: &GlobalInfo) {
        if global.bytes > 0 {
            // A module's variables are forgotten before the mediator can give their addresses to another, so that
            // nothing overlaps.
            let managed = global.is_managed.then(Mutex::default);
            let memory = Memory::Variable { module, managed };
            let _ = self.add(global.address, global.bytes, context, memory);
        }
    }

    /// Returns the memory that an address lies in.
    #[must_use]
    #[inline]
    pub fn find(&self, address: u64) -> Option<Arc<Range>> {
        let ranges = self.ranges.read();
        let (_, range) = ranges.range(..=address).next_back()?;
        let offset = range.offset(address);
        let is_there = offset < range.bytes && range.memory.covers(offset, 1);
        is_there.then(|| Arc::clone(range))
    }

    /// Returns the memory that `len` bytes at an address lie in: `None` if the address is in none.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: they begin in one and go beyond its end.
    #[inline]
    pub fn span(&self, address: u64, len: u64) -> CudaResult<Option<Arc<Range>>> {
        let Some(range) = self.find(address) else {
            return Ok(None);
        };
        let offset = range.offset(address);
        if len > range.bytes - offset || !range.memory.covers(offset, len) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Some(range))
    }

    /// Returns the memory that the device reaches and that `len` bytes at an address lie in.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: they are not all in one allocation that it reaches.
    #[inline]
    pub fn device_span(&self, address: u64, len: u64) -> CudaResult<Arc<Range>> {
        let range = self.span(address, len)?;
        let range = range.filter(|range| range.memory.is_reached());
        range.ok_or(Status::INVALID_VALUE)
    }

    /// Removes the range that begins at an address, if `matches` says so, and returns it.
    pub fn remove(&self, start: u64, matches: impl Fn(&Memory) -> bool) -> Option<Arc<Range>> {
        let mut ranges = self.ranges.write();
        if !matches(&ranges.get(&start)?.memory) {
            return None;
        }
        ranges.remove(&start)
    }

    /// Forgets everything that belongs to a context.
    pub fn forget_context(&self, context: CUcontext) {
        self.forget(|range| range.context == context);
    }

    /// Forgets the variables of a module.
    pub fn forget_module(&self, module: CUmodule) {
        self.forget(
            |range| matches!(range.memory, Memory::Variable { module: of, .. } if of == module),
        );
    }

    fn forget(&self, matches: impl Fn(&Range) -> bool) {
        let mut forgotten = Vec::new();
        self.ranges.write().retain(|_, range| {
            let goes = matches(range);
            if goes {
                forgotten.push(Arc::clone(range));
            }
            !goes
        });
        for range in &forgotten {
            if let Memory::Pooled(block) = &range.memory {
                block.given_back();
            }
        }
        // Giving memory back speaks to the mediator, which no lock is held for.
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, MemoryMap, Registered};
    use crate::context::CUcontext;
    use crate::status::Status;

    #[test]
    fn an_address_finds_the_range_that_it_lies_in() {
        let map = MemoryMap::default();
        let registered = || Memory::Registered(Registered::default());
        let add = |start, bytes| map.add(start, bytes, CUcontext::NULL, registered());
        assert_eq!(add(0x1000, 0x100), Ok(()));
        assert_eq!(add(0x1100, 0x100), Ok(()));
        for overlapping in [(0xfff, 2), (0x10ff, 1), (0x800, 0x2000), (0x1180, 1)] {
            let refused = add(overlapping.0, overlapping.1);
            assert_eq!(refused, Err(Status::HOST_MEMORY_ALREADY_REGISTERED));
        }
        assert_eq!(map.find(0x10ff).map(|range| range.start), Some(0x1000));
        assert_eq!(map.find(0x1100).map(|range| range.start), Some(0x1100));
        assert!(map.find(0x1200).is_none() && map.find(0xfff).is_none());
        assert_eq!(map.span(0x1080, 0x81).err(), Some(Status::INVALID_VALUE));
        assert!(map.span(0x1080, 0x80).is_ok_and(|range| range.is_some()));
        assert!(map.span(0x1080, u64::MAX).is_err());
        assert!(map.device_span(0x1000, 1).is_err(), "it is the host's");
    }
}
