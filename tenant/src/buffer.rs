//! Device memory, given back when dropped.

use crate::error::ClientError;
use crate::link::LinkRef;
use gridmux_channel::control::ControlRequest;
use std::rc::Rc;

/// A range of device memory that belongs to this tenant.
///
/// Dropping it waits until nothing is in flight any more, as `cudaFree` does,
/// and gives the memory back.
#[derive(Debug)]
pub struct Buffer {
    link: LinkRef,
    address: u64,
    bytes: u64,
}

impl Buffer {
    pub(crate) fn new(link: LinkRef, address: u64, bytes: u64) -> Self {
        Self {
            link,
            address,
            bytes,
        }
    }

    /// Its first byte's device address, as kernels see it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device address of `len` bytes at `offset`, for an operation over
    /// `link`.
    pub(crate) fn range(&self, link: &LinkRef, offset: u64, len: u64) -> Result<u64, ClientError> {
        if !Rc::ptr_eq(link, &self.link) {
            return Err(ClientError::Foreign("buffer"));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(self.address + offset),
            _ => Err(ClientError::OutOfBounds {
                offset,
                len,
                size: self.bytes,
            }),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut link = self.link.borrow_mut();
        // On a lost connection the mediator has taken the memory back already.
        if link.drain().is_ok() {
            let _ = link.control(&ControlRequest::Free {
                address: self.address,
            });
        }
    }
}
