//! Region accesses and DMA mappings (specification, sections
//! `VFIO_USER_REGION_READ`, `VFIO_USER_REGION_WRITE`, `VFIO_USER_DMA_MAP` and
//! `VFIO_USER_DMA_UNMAP`).

use super::{MAX_TRANSFER_BYTES, WireError, take};
use crate::memory::Protection;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const DMA_READABLE: u32 = 1;
const DMA_WRITABLE: u32 = 1 << 1;

/// The head of a region access; in a write request and a read reply `count`
/// bytes of data follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RegionAccess {
    /// Where the access starts in the region, in bytes.
    pub offset: u64,
    /// Which region.
    pub region: u32,
    /// How many bytes.
    pub count: u32,
}

impl RegionAccess {
    /// Reads a read request.
    ///
    /// # Errors
    /// Too short, or a count over [`MAX_TRANSFER_BYTES`].
    pub fn parse_read(payload: &[u8]) -> Result<Self, WireError> {
        let (access, _) = take::<Self>("region access", payload)?;
        access.checked()
    }

    /// Reads a write request or a read reply and its data.
    ///
    /// # Errors
    /// Too short, a count over [`MAX_TRANSFER_BYTES`], or less data than that.
    pub fn parse_data(payload: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let (access, rest) = take::<Self>("region access", payload)?;
        let access = access.checked()?;
        let data = rest.get(..access.count as usize).ok_or(access.wrong())?;
        Ok((access, data))
    }

    fn checked(self) -> Result<Self, WireError> {
        if self.count as usize > MAX_TRANSFER_BYTES {
            return Err(self.wrong());
        }
        Ok(self)
    }

    fn wrong(&self) -> WireError {
        WireError::Count {
            what: "transfer count",
            value: self.count,
        }
    }
}

/// The payload of `VFIO_USER_DMA_MAP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DmaMap {
    /// Size of this structure in bytes.
    pub argsz: u32,
    /// Bit 0: readable; bit 1: writable.
    pub flags: u32,
    /// Where the mapping starts in the descriptor's file, in bytes.
    pub offset: u64,
    /// Where it starts in the DMA space.
    pub address: u64,
    /// How long it is in bytes.
    pub size: u64,
}

impl DmaMap {
    /// Returns a request for a mapping.
    #[must_use]
    pub fn new(address: u64, size: u64, offset: u64, protection: Protection) -> Self {
        let read = if protection.read { DMA_READABLE } else { 0 };
        let write = if protection.write { DMA_WRITABLE } else { 0 };
        Self {
            argsz: 32,
            flags: read | write,
            offset,
            address,
            size,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        Ok(take("DMA map", payload)?.0)
    }

    /// Returns what the device may do to it.
    #[must_use]
    pub fn protection(&self) -> Protection {
        Protection {
            read: self.flags & DMA_READABLE != 0,
            write: self.flags & DMA_WRITABLE != 0,
        }
    }
}

/// The payload of `VFIO_USER_DMA_UNMAP`, which is also its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DmaUnmap {
    /// The most bytes of reply payload that the sender takes.
    pub argsz: u32,
    /// Unused.
    pub flags: u32,
    /// Where the mapping starts in the DMA space.
    pub address: u64,
    /// How long it is in bytes.
    pub size: u64,
}

impl DmaUnmap {
    /// Reads a request.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        Ok(take("DMA unmap", payload)?.0)
    }
}
