//! The DMA mappings of one tenant: which of its memory stands at which address
//! of its DMA space, and what the device may do with it.
//!
//! Ranges never overlap, and an access lies within one of them.

use super::{MAX_MAPPINGS, MemoryError, Protection, TenantBuffer};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The DMA mappings of one tenant, by address.
#[derive(Debug, Default)]
pub struct DmaTable {
    mappings: BTreeMap<u64, Mapping>,
}

#[derive(Debug)]
struct Mapping {
    size: u64,
    protection: Protection,
    /// None for a range that was mapped without a descriptor, as QEMU does for
    /// ROMs and BARs: it is known, but cannot be reached.
    buffer: Option<TenantBuffer>,
}

impl DmaTable {
    /// Maps `size` bytes at `iova`, backed by `fd` from `offset` on, or by
    /// nothing that can be reached if there is no descriptor.
    ///
    /// # Errors
    /// Overlap, a limit, or whatever is wrong with the memory.
    pub fn map(
        &mut self,
        iova: u64,
        size: u64,
        offset: u64,
        protection: Protection,
        fd: Option<OwnedFd>,
    ) -> Result<(), MemoryError> {
        if size == 0 || iova.checked_add(size).is_none() {
            return Err(MemoryError::Size {
                what: "mapping size",
                value: size,
            });
        }
        if self.overlaps(iova, size) {
            return Err(MemoryError::Overlap { iova, len: size });
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            return Err(MemoryError::TooMany);
        }
        let buffer = fd
            .map(|fd| TenantBuffer::new(fd, offset, size, protection))
            .transpose()?;
        self.mappings.insert(
            iova,
            Mapping {
                size,
                protection,
                buffer,
            },
        );
        Ok(())
    }

    /// Removes the mapping that is exactly `iova`, `size`.
    ///
    /// # Errors
    /// There is no such mapping.
    pub fn unmap(&mut self, iova: u64, size: u64) -> Result<(), MemoryError> {
        match self.mappings.get(&iova) {
            Some(mapping) if mapping.size == size => {
                self.mappings.remove(&iova);
                Ok(())
            }
            _ => Err(MemoryError::NotMapped { iova, len: size }),
        }
    }

    /// Removes every mapping, as a reset does.
    pub fn clear(&mut self) {
        self.mappings.clear();
    }

    /// Returns the buffer and the offset in it of `len` bytes at `iova`, which must
    /// lie within one mapping that allows `needed`.
    ///
    /// # Errors
    /// Not mapped, not within one mapping, or without the right.
    pub fn resolve(
        &self,
        iova: u64,
        len: u64,
        needed: Protection,
    ) -> Result<(&TenantBuffer, u64), MemoryError> {
        let missing = MemoryError::NotMapped { iova, len };
        let Some((start, mapping)) = self.mappings.range(..=iova).next_back() else {
            return Err(missing);
        };
        let allowed = mapping.protection;
        let within = (iova - start)
            .checked_add(len)
            .is_some_and(|end| end <= mapping.size);
        if !within || (needed.read && !allowed.read) || (needed.write && !allowed.write) {
            return Err(missing);
        }
        let buffer = mapping.buffer.as_ref().ok_or(missing)?;
        Ok((buffer, iova - start))
    }

    /// Copies tenant memory at `iova` into `out`.
    ///
    /// # Errors
    /// As [`DmaTable::resolve`], or the kernel refused.
    pub fn read_at(&self, iova: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let needed = Protection {
            read: true,
            write: false,
        };
        let (buffer, offset) = self.resolve(iova, out.len() as u64, needed)?;
        buffer.read_at(offset, out)
    }

    /// Copies `data` to tenant memory at `iova`.
    ///
    /// # Errors
    /// As [`DmaTable::resolve`], or the kernel refused.
    pub fn write_at(&self, iova: u64, data: &[u8]) -> Result<(), MemoryError> {
        let needed = Protection {
            read: false,
            write: true,
        };
        let (buffer, offset) = self.resolve(iova, data.len() as u64, needed)?;
        buffer.write_at(offset, data)
    }

    fn overlaps(&self, iova: u64, size: u64) -> bool {
        let last = self.mappings.range(..iova + size).next_back();
        last.is_some_and(|(start, mapping)| start + mapping.size > iova)
    }
}
