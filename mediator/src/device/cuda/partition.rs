//! A tenant's device memory: one range of addresses, backed with memory from below as it is needed.
//!
//! The range is reserved at its full size when the tenant comes (a power of two in multiples of 4 GiB, so that a later
//! `fence` confines an address with one mask), and costs nothing. Memory is mapped into it in large
//! chunks (CUDA driver API, "Virtual Memory Management"), below the highest allocation, and goes back when the tenant
//! leaves. So tenants with generous limits share the device's memory, and freeing never touches the driver.
//!
//! Rules: a chunk is zeroed before anybody may see it, because it may have been another tenant's; a partition is
//! released ([`Partition::release`]) and not just dropped.

use super::driver::{CudaError, check};
use cudarc::driver::sys::{self, CUdevice, CUdeviceptr, CUmemAllocationProp, CUstream};
use std::mem::MaybeUninit;

/// Least size of a reservation, and the unit of a fence that costs no register.
const LEAST_BYTES: u64 = 4 << 30;
/// Memory is mapped in pieces of at least this size, so that small allocations seldom reach the driver.
const CHUNK_BYTES: u64 = 32 << 20;

/// How to map memory of one device.
#[derive(Clone, Copy)]
pub(super) struct Mapper {
    device: CUdevice,
    granularity: u64,
    /// The control thread's own stream, for zeroing.
    stream: CUstream,
}

// SAFETY: a stream may be used on any thread whose context is current (CUDA driver API, "Stream Management").
unsafe impl Send for Mapper {}

/// Mapped memory.
struct Chunk {
    offset: u64,
    bytes: u64,
}

/// A range of addresses and what is mapped into it.
pub(super) struct Partition {
    base: CUdeviceptr,
    size: u64,
    mapped: u64,
    chunks: Vec<Chunk>,
}

impl Mapper {
    /// Asks the device for its granularity and makes a stream for zeroing.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(device: CUdevice) -> Result<Self, CudaError> {
        let properties = properties(device);
        let mut granularity = 0;
        let which = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: both pointers are to values that live through the call.
        let got = unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, which)
        };
        check("cuMemGetAllocationGranularity", got)?;
        let stream = super::queues::make_stream(0)?;
        Ok(Self {
            device,
            granularity: (granularity as u64).max(1),
            stream,
        })
    }

    /// Fills new memory with zeroes and waits for that.
    fn zero(&self, address: CUdeviceptr, bytes: u64) -> Result<(), CudaError> {
        // SAFETY: the range was just mapped for writing, and nobody else knows of it; the stream lives as long as the
        // process.
        let set = unsafe { sys::cuMemsetD8Async(address, 0, size(bytes), self.stream) };
        check("cuMemsetD8Async", set)?;
        // SAFETY: as above.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.stream)
        })
    }
}

impl Partition {
    /// Reserves `least` bytes of addresses or more.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn reserve(least: u64) -> Result<Self, CudaError> {
        let bytes = reservation(least);
        let mut base = 0;
        // SAFETY: `base` lives through the call. Alignment to the size is what a mask needs.
        let aligned =
            unsafe { sys::cuMemAddressReserve(&raw mut base, size(bytes), size(bytes), 0, 0) };
        if check("cuMemAddressReserve", aligned).is_err() {
            // SAFETY: as above. A driver that cannot align so far still gives a range; only a fence would mind.
            let any = unsafe { sys::cuMemAddressReserve(&raw mut base, size(bytes), 0, 0, 0) };
            check("cuMemAddressReserve", any)?;
        }
        Ok(Self {
            base,
            size: bytes,
            mapped: 0,
            chunks: Vec::new(),
        })
    }

    /// Returns the first address.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Backs the first `bytes` bytes with memory.
    ///
    /// # Errors
    /// The driver's: most often that the device's memory is exhausted.
    pub(super) fn back(&mut self, bytes: u64, mapper: &Mapper) -> Result<(), CudaError> {
        if bytes <= self.mapped {
            return Ok(());
        }
        let least = (bytes - self.mapped).next_multiple_of(mapper.granularity);
        let room = self.size - self.mapped;
        let ample = least
            .max(CHUNK_BYTES.next_multiple_of(mapper.granularity))
            .min(room);
        match self.map(ample, mapper) {
            Err(_) if ample > least => self.map(least, mapper),
            done => done,
        }
    }

    fn map(&mut self, bytes: u64, mapper: &Mapper) -> Result<(), CudaError> {
        let properties = properties(mapper.device);
        let mut handle = 0;
        // SAFETY: both pointers are to values that live through the call.
        let created =
            unsafe { sys::cuMemCreate(&raw mut handle, size(bytes), &raw const properties, 0) };
        check("cuMemCreate", created)?;
        let address = self.base + self.mapped;
        // SAFETY: the range lies in our reservation, above everything that is mapped, and the handle is new.
        let mapped = check("cuMemMap", unsafe {
            sys::cuMemMap(address, size(bytes), 0, handle, 0)
        });
        // SAFETY: the handle is ours; the mapping keeps the memory from here on.
        let released = check("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
        mapped?;
        // From here on the chunk is on the list, so that `release` unmaps it whatever fails below.
        self.chunks.push(Chunk {
            offset: self.mapped,
            bytes,
        });
        released?;
        let access = sys::CUmemAccessDesc {
            location: properties.location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range was just mapped; one descriptor is given.
        let allowed = unsafe { sys::cuMemSetAccess(address, size(bytes), &raw const access, 1) };
        let ready = check("cuMemSetAccess", allowed).and_then(|()| mapper.zero(address, bytes));
        if let Err(error) = ready {
            if self
                .unmap(&Chunk {
                    offset: self.mapped,
                    bytes,
                })
                .is_ok()
            {
                self.chunks.pop();
            }
            return Err(error);
        }
        self.mapped += bytes;
        Ok(())
    }

    fn unmap(&self, chunk: &Chunk) -> Result<(), CudaError> {
        // SAFETY: the chunk was mapped at this place and is unmapped once; no operation of the tenant is in flight.
        let unmapped = unsafe { sys::cuMemUnmap(self.base + chunk.offset, size(chunk.bytes)) };
        check("cuMemUnmap", unmapped)
    }

    /// Gives memory and addresses back. May wait for the device.
    ///
    /// # Errors
    /// The driver's; what could not be given back stays with the process.
    pub(super) fn release(self) -> Result<(), CudaError> {
        for chunk in &self.chunks {
            self.unmap(chunk)?;
        }
        // SAFETY: nothing is mapped into the reservation any more.
        let freed = unsafe { sys::cuMemAddressFree(self.base, size(self.size)) };
        check("cuMemAddressFree", freed)
    }
}

/// Returns the size in bytes of the reservation for a partition of `least` bytes or more.
fn reservation(least: u64) -> u64 {
    least
        .max(LEAST_BYTES)
        .checked_next_power_of_two()
        .unwrap_or(1 << 63)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn properties(device: CUdevice) -> CUmemAllocationProp {
    // SAFETY: the struct is plain C data for which zeroes are valid: each of its enumerations has a variant 0, its
    // pointer may be null, and CUDA asks that reserved fields be zero.
    let mut properties: CUmemAllocationProp = unsafe { MaybeUninit::zeroed().assume_init() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    properties
}

#[cfg(test)]
mod tests {
    use super::reservation;

    #[test]
    fn reservations_are_powers_of_two_in_multiples_of_4_gib() {
        assert_eq!(reservation(0), 4 << 30);
        assert_eq!(reservation(4 << 30), 4 << 30);
        assert_eq!(reservation((4 << 30) + 1), 8 << 30);
        assert_eq!(reservation(100 << 30), 128 << 30);
    }
}
