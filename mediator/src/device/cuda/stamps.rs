//! The records in which blocks stamp when they ran: page-locked memory of the host that the GPU writes, some for each
//! slot of each lane, made once.
//!
//! Rules: only the launch in a slot writes its records, and its end is seen before the slot has another one, so that
//! they are cleared while nothing writes them. A kernel that is not fenced can reach them, its own and others':
//! what is read is bounded by what else is known of the launch ([`super::flights`]).

use super::driver::{CudaError, check};
use super::flights::LaneSlot;
use crate::device::{LANES, MOST_DEPTH};
use cudarc::driver::sys;
use gridmux_launch::StampRecord;
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// Records of a slot. A launch with more blocks than they stand for at one in 16 is sampled more thinly.
pub(super) const RECORDS: u32 = 64;

/// The records of all slots.
pub(super) struct StampMemory {
    host: *const StampRecord,
    /// Where the GPU has them.
    device: u64,
}

impl StampMemory {
    /// Allocates the records, all empty, in the current context. They live as long as the process.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new() -> Result<Self, CudaError> {
        let bytes = LANES * MOST_DEPTH * RECORDS as usize * size_of::<StampRecord>();
        let (mut host, mut device) = (ptr::null_mut::<c_void>(), 0);
        // SAFETY: both results live through the calls; the memory that the second one is asked about was allocated by
        // the first one for that; `bytes` bytes were allocated at `host`, and nobody else has them yet.
        unsafe {
            let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
            check(
                "cuMemHostAlloc",
                sys::cuMemHostAlloc(&raw mut host, bytes, flags),
            )?;
            ptr::write_bytes(host.cast::<u8>(), 0, bytes);
            check(
                "cuMemHostGetDevicePointer",
                sys::cuMemHostGetDevicePointer_v2(&raw mut device, host, 0),
            )?;
        }
        Ok(Self {
            host: host.cast_const().cast(),
            device,
        })
    }

    /// Returns the records of a slot.
    pub(super) fn of(&self, at: LaneSlot) -> &[StampRecord] {
        let first = first_of(at);
        // SAFETY: there are as many records for each slot of each lane, of which there are as many as `first_of`
        // numbers; all were zeroed, which is a record; they are atomics, so the GPU may write them meanwhile;
        // page-locked memory is aligned to pages, and it is never freed.
        unsafe { slice::from_raw_parts(self.host.add(first), RECORDS as usize) }
    }

    /// Returns the device address of a slot's records.
    pub(super) fn address(&self, at: LaneSlot) -> u64 {
        self.device + (first_of(at) * size_of::<StampRecord>()) as u64
    }
}

/// Returns the number of a slot's first record.
fn first_of(at: LaneSlot) -> usize {
    let slot = usize::from(at.slot) % MOST_DEPTH;
    (usize::from(at.lane.0) % LANES * MOST_DEPTH + slot) * RECORDS as usize
}
