//! Tenant buffers as the copy engine reaches them: mapped once, and pinned where that is allowed.
//!
//! Rules: the mapping is shared with a hostile tenant, so no Rust reference to its bytes is ever made; only the copy
//! engine (or the driver, for memory that is not pinned) touches them, by pointer. The length is sealed, so an access
//! within it never leaves the file; a hole that the tenant punched reads as zeroes. Pinning takes the host's memory
//! away from everybody, so the control thread allows it only within a budget.

use super::driver::{CudaError, check};
use crate::device::DeviceError;
use cudarc::driver::sys;
use gridmux_channel::memory::TenantBuffer;
use memmap2::{MmapOptions, MmapRaw};
use std::ffi::c_void;
use std::os::fd::AsRawFd;

/// A tenant's buffer in our address space.
pub(super) struct HostBuffer {
    map: MmapRaw,
    is_writable: bool,
    is_pinned: bool,
}

impl HostBuffer {
    /// Maps a buffer, for writing too where its descriptor permits, and pins it if `pin` says so and the driver agrees.
    pub(super) fn map(buffer: &TenantBuffer, pin: bool) -> Result<Self, DeviceError> {
        let (file, offset) = buffer.file();
        let length = usize::try_from(buffer.size())
            .map_err(|_| DeviceError::Backend("the buffer exceeds the address space".into()))?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(length);
        let (map, is_writable) = match options.map_raw(file.as_raw_fd()) {
            Ok(map) => (map, true),
            // A descriptor that is open for reading alone can serve as the source of copies.
            Err(_) => (
                options
                    .map_raw_read_only(file.as_raw_fd())
                    .map_err(|error| {
                        DeviceError::Backend(format!(
                            "mapping a tenant buffer of {length} bytes: {error}"
                        ))
                    })?,
                false,
            ),
        };
        let mut mapped = Self {
            map,
            is_writable,
            is_pinned: false,
        };
        if pin {
            mapped.pin();
        }
        Ok(mapped)
    }

    /// Registers the mapping with the driver; a refusal leaves it as it is: copies then take an extra pass.
    fn pin(&mut self) {
        let flags = if self.is_writable {
            0
        } else {
            sys::CU_MEMHOSTREGISTER_READ_ONLY
        };
        let start = self.map.as_mut_ptr().cast::<c_void>();
        // SAFETY: the range is a mapping of ours that lives until `release`, which takes the registration back first.
        let registered = unsafe { sys::cuMemHostRegister_v2(start, self.map.len(), flags) };
        match check("cuMemHostRegister", registered) {
            Ok(()) => self.is_pinned = true,
            Err(error) => tracing::debug!(%error, "a tenant buffer is not pinned"),
        }
    }

    /// Length in bytes.
    pub(super) fn len_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Returns the bytes that it keeps pinned.
    pub(super) fn pinned_bytes(&self) -> u64 {
        if self.is_pinned { self.len_bytes() } else { 0 }
    }

    /// Returns whether the device may write it.
    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Pointer to `bytes` bytes at `offset`; `None` when they are not all inside.
    pub(super) fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        offset
            .checked_add(bytes)
            .filter(|end| *end <= self.len_bytes())?;
        let offset = usize::try_from(offset).ok()?;
        Some(self.map.as_mut_ptr().wrapping_add(offset))
    }

    /// Takes the registration back and unmaps.
    ///
    /// # Errors
    /// The driver's; the mapping is kept then, because the device may still reach it.
    pub(super) fn release(self) -> Result<(), CudaError> {
        if self.is_pinned {
            let start = self.map.as_mut_ptr().cast::<c_void>();
            // SAFETY: `pin` registered this very range, and the caller holds the only handle, so no copy uses it.
            let taken_back = check("cuMemHostUnregister", unsafe {
                sys::cuMemHostUnregister(start)
            });
            if taken_back.is_err() {
                std::mem::forget(self);
            }
            return taken_back;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::HostBuffer;
    use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
    use std::os::fd::AsFd;

    fn buffer(bytes: u64) -> TenantBuffer {
        let memfd = SealedMemfd::create("test", bytes).unwrap();
        let protection = Protection {
            read: true,
            write: true,
        };
        let fd = memfd.as_fd().try_clone_to_owned().unwrap();
        TenantBuffer::new(fd, 0, bytes, protection).unwrap()
    }

    #[test]
    fn the_mapping_is_the_tenants_memory_and_bounded() {
        let tenants = buffer(8192);
        tenants.write_at(4096, b"hello").unwrap();
        let mapped = HostBuffer::map(&tenants, false).unwrap();
        assert_eq!(mapped.len_bytes(), 8192);
        assert!(mapped.is_writable() && mapped.pinned_bytes() == 0);
        assert_eq!(mapped.at(4096, 4097), None);
        assert_eq!(mapped.at(u64::MAX, 2), None);
        let start = mapped.at(4096, 5).unwrap();
        // SAFETY: `at` says that 5 bytes lie there, and nobody writes them meanwhile.
        let seen = unsafe { std::slice::from_raw_parts(start, 5) };
        assert_eq!(seen, b"hello");
        mapped.release().unwrap();
    }
}
