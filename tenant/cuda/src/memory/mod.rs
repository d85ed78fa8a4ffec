//! Memory: of the device, and of the host as far as the device copies to and from it directly.
//!
//! One space of addresses holds both, so that an address says what it is ([`map`]). What is given back is found by its
//! address, whichever context is current, if any is, as NVIDIA's library does it.

pub mod advice;
pub mod allocate;
pub mod array;
pub mod batch;
pub mod boxes;
pub mod copy;
pub mod extents;
pub mod graph;
pub mod host;
pub mod lease;
pub mod managed;
pub mod map;
pub mod moves;
pub mod placed;
pub mod pointer;
pub mod pool;
pub mod properties;
pub mod set;
pub mod virtual_memory;

use crate::context::Context;
use crate::context::current::current;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use map::{Memory, Range};
use std::sync::Arc;

/// An address in device memory (`CUdeviceptr`).
pub type CUdeviceptr = u64;

/// Takes the memory that begins at an address from the program, and returns it with the context that it belonged to.
///
/// # Errors
/// `unknown`: none of which `matches` says so begins there; the fault of its context or of the current one;
/// [`Status::CONTEXT_IS_DESTROYED`]: the current one was.
fn take(
    driver: &Driver,
    start: u64,
    unknown: Status,
    matches: impl Fn(&Memory) -> bool,
) -> CudaResult<(Arc<Range>, Arc<Context>)> {
    match current() {
        Ok(context) => context.check(driver)?,
        Err(Status::INVALID_CONTEXT) => (),
        Err(status) => return Err(status),
    }
    let known = driver.memory.find(start).ok_or(unknown)?;
    let owner = driver.contexts.get(known.context).map_err(|_| unknown)?;
    owner.check(driver)?;
    let taken = driver.memory.remove(start, matches).ok_or(unknown)?;
    Ok((taken, owner))
}
