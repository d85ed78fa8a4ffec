//! Memory that graphs allocate and give back.
//!
//! The memory is taken when the node that allocates it is made, so that its address is known and stays. It is there as
//! long as a graph has the node, and beyond that until the program has given back what the last launch allocated; what
//! is told to programs is whether it is **allocated**, which launches and releases change in the order in which they
//! are submitted.
//!
//! Rules: what nothing refers to any more is kept until it is much, until somebody needs room, or until the program
//! asks for it ([`trim`]). It is not given to another graph meanwhile: work that was submitted may use it still, and
//! giving memory back to the mediator waits for that.

use super::map::Memory;
use crate::context::Context;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use gridmux_tenant::Buffer;
use parking_lot::Mutex;
use std::sync::Arc;

/// Sizes are multiples of this many bytes, as those of pools.
const UNIT_BYTES: u64 = 512;
/// So many bytes are kept at most of what nothing refers to.
const MOST_KEPT_BYTES: u64 = 64 << 20;

/// Memory that a node allocates.
#[derive(Debug)]
pub struct GraphMemory {
    /// Nothing while it is dropped.
    buffer: Option<Buffer>,
    address: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_allocated: bool,
    /// Nodes that allocate it, in graphs and executable graphs.
    nodes: usize,
    /// The graph that gives it back, while there are nodes that do.
    freed_by: Option<FreedBy>,
    /// How many nodes do.
    free_nodes: usize,
}

/// A graph that gives memory back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreedBy {
    /// The one that allocates it.
    Own,
    /// Another.
    Other,
}

/// A node's part in memory; when the last goes and the memory is not allocated, its address is nobody's.
#[derive(Debug)]
pub struct Share(Arc<GraphMemory>);

/// A node's part in giving memory back: while there is one the memory is given back by its graph.
#[derive(Debug)]
pub struct FreeShare(Arc<GraphMemory>);

/// What all graphs have.
#[derive(Debug)]
struct Kept {
    /// What nothing refers to any more.
    unused: Vec<Buffer>,
    unused_bytes: u64,
    /// Bytes of everything.
    now: u64,
    /// The most there were since each of two marks was reset.
    most: [u64; 2],
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    unused: Vec::new(),
    unused_bytes: 0,
    now: 0,
    most: [0; 2],
});

impl GraphMemory {
    /// Takes memory for a node.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: of no bytes; [`Status::OUT_OF_MEMORY`]; the context was destroyed.
    pub fn take(driver: &Driver, context: &Context, bytes: usize) -> CudaResult<Share> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let bytes = (bytes as u64).checked_next_multiple_of(UNIT_BYTES);
        let bytes = bytes.ok_or(Status::OUT_OF_MEMORY)?;
        if KEPT.lock().unused_bytes.saturating_add(bytes) > MOST_KEPT_BYTES {
            trim(driver);
        }
        let buffer = driver.allocate(bytes)?;
        let address = buffer.address();
        let mut kept = KEPT.lock();
        kept.now += bytes;
        kept.most = kept.most.map(|most| most.max(kept.now));
        drop(kept);
        let memory = Arc::new(Self {
            buffer: Some(buffer),
            address,
            state: Mutex::new(State {
                nodes: 1,
                ..State::default()
            }),
        });
        let share = Share(Arc::clone(&memory));
        let memory = Memory::Graph(memory);
        driver.memory.add_to(context, address, bytes, memory)?;
        Ok(share)
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns whether a launch allocated it and nothing has given it back.
    #[must_use]
    pub fn is_allocated(&self) -> bool {
        self.state.lock().is_allocated
    }

    /// Notes that a launch that allocates it, or gives it back, was submitted.
    pub fn set_allocated(&self, is_allocated: bool) {
        self.change(|state| state.is_allocated = is_allocated);
    }

    /// Gives it back outside of graphs.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is not allocated, or its own graph gives it back.
    pub fn release(&self) -> CudaResult {
        self.change(|state| {
            if !state.is_allocated || state.freed_by == Some(FreedBy::Own) {
                return Err(Status::INVALID_VALUE);
            }
            state.is_allocated = false;
            Ok(())
        })
    }

    /// Notes that a graph gives it back, the one that allocates it or another, as long as the share is there.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: a graph of the other kind does already.
    pub fn share_free(self: &Arc<Self>, is_own: bool) -> CudaResult<FreeShare> {
        let by = match is_own {
            true => FreedBy::Own,
            false => FreedBy::Other,
        };
        let mut state = self.state.lock();
        if state.freed_by.is_some_and(|other| other != by) {
            return Err(Status::INVALID_VALUE);
        }
        state.freed_by = Some(by);
        state.free_nodes += 1;
        Ok(FreeShare(Arc::clone(self)))
    }

    /// Changes the state; what no node has and is not allocated is no memory of the program's any more.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let done = act(&mut state);
        let is_over = state.nodes == 0 && !state.is_allocated;
        drop(state);
        if is_over && let Ok(driver) = Driver::get() {
            let is_this = |memory: &Memory| match memory {
                Memory::Graph(memory) => std::ptr::eq(&raw const **memory, self),
                _ => false,
            };
            drop(driver.memory.remove(self.address, is_this));
        }
        done
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            let mut kept = KEPT.lock();
            kept.unused_bytes += buffer.bytes();
            kept.unused.push(buffer);
        }
    }
}

impl Share {
    /// Returns the memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<GraphMemory> {
        &self.0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.change(|state| state.nodes -= 1);
    }
}

impl FreeShare {
    /// Returns the memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<GraphMemory> {
        &self.0
    }
}

impl Drop for FreeShare {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.free_nodes -= 1;
        if state.free_nodes == 0 {
            state.freed_by = None;
        }
    }
}

/// Returns the memory that a node allocates at an address.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: none does.
pub fn find(driver: &Driver, address: u64) -> CudaResult<Arc<GraphMemory>> {
    let range = driver.memory.find(address);
    let range = range.filter(|range| range.start == address);
    match range.as_deref().map(|range| &range.memory) {
        Some(Memory::Graph(memory)) => Ok(Arc::clone(memory)),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Gives what nothing refers to back to the device.
pub fn trim(_: &Driver) {
    let mut kept = KEPT.lock();
    let unused = std::mem::take(&mut kept.unused);
    kept.now -= std::mem::take(&mut kept.unused_bytes);
    drop(kept);
    // Waits for what was submitted, which no lock is held for.
    drop(unused);
}

/// Returns whether anything is kept that nothing refers to.
pub(super) fn keeps_unused() -> bool {
    !KEPT.lock().unused.is_empty()
}

/// Returns the bytes of everything that graphs have.
#[must_use]
pub fn bytes_now() -> u64 {
    KEPT.lock().now
}

/// Returns the most bytes there were since a mark, 0 or 1, was reset.
#[must_use]
pub fn bytes_most(mark: usize) -> u64 {
    KEPT.lock().most[mark]
}

/// Resets a mark, 0 or 1.
pub fn reset_most(mark: usize) {
    let mut kept = KEPT.lock();
    kept.most[mark] = kept.now;
}
