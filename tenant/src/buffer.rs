//! Device memory: allocations that are given back when the last view of them
//! is dropped, and the variables of modules.

use crate::error::ClientError;
use crate::link::LinkRef;
use crate::module::Loaded;
use gridmux_channel::control::ControlRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A range of device memory that belongs to this tenant: a whole allocation, a
/// part of one ([`Buffer::slice`]), or a module's variable
/// ([`crate::Module::global`]). A clone names the same memory.
///
/// A buffer keeps what it lies in alive. Dropping the last buffer of an
/// allocation waits until what was submitted before has ended, as `cudaFree`
/// does, and gives the memory back.
#[derive(Debug, Clone)]
pub struct Buffer {
    owner: Owner,
    address: u64,
    bytes: u64,
}

#[derive(Debug, Clone)]
enum Owner {
    Allocation(Arc<Allocation>),
    Module(Arc<Loaded>),
}

#[derive(Debug)]
struct Allocation {
    link: LinkRef,
    address: u64,
    /// Nothing that was submitted uses it.
    is_idle: AtomicBool,
}

impl Owner {
    fn link(&self) -> &LinkRef {
        match self {
            Self::Allocation(allocation) => &allocation.link,
            Self::Module(module) => module.link(),
        }
    }
}

impl Buffer {
    pub(crate) fn allocation(link: LinkRef, address: u64, bytes: u64) -> Self {
        Self {
            owner: Owner::Allocation(Arc::new(Allocation {
                link,
                address,
                is_idle: AtomicBool::new(false),
            })),
            address,
            bytes,
        }
    }

    pub(crate) fn variable(module: Arc<Loaded>, address: u64, bytes: u64) -> Self {
        Self {
            owner: Owner::Module(module),
            address,
            bytes,
        }
    }

    /// Returns the device address of its first byte, as kernels see it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says that everything that used the memory has ended, so that giving it back need not wait for what else was
    /// submitted.
    pub fn nothing_uses_it(&self) {
        if let Owner::Allocation(allocation) = &self.owner {
            // Relaxed: dropping the last reference comes after this, and orders it.
            allocation.is_idle.store(true, Ordering::Relaxed);
        }
    }

    /// Returns its `len` bytes from `offset` on, as a buffer of their own that keeps
    /// the memory alive.
    ///
    /// # Errors
    /// [`ClientError::OutOfBounds`]: they are not all inside.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Self, ClientError> {
        Ok(Self {
            owner: self.owner.clone(),
            address: self.inside(offset, len)?,
            bytes: len,
        })
    }

    /// Returns the device address of `len` bytes at `offset`, for an operation over
    /// `link`.
    pub(crate) fn range(&self, link: &LinkRef, offset: u64, len: u64) -> Result<u64, ClientError> {
        if !Arc::ptr_eq(link, self.owner.link()) {
            return Err(ClientError::Foreign("buffer"));
        }
        self.inside(offset, len)
    }

    fn inside(&self, offset: u64, len: u64) -> Result<u64, ClientError> {
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

impl Drop for Allocation {
    fn drop(&mut self) {
        // On a lost connection the mediator has taken the memory back already; a child of the process that connected
        // has nothing to give back.
        // Relaxed: see `Buffer::nothing_uses_it`.
        if self.is_idle.load(Ordering::Relaxed) || self.link.drain().is_ok() {
            // Textures and surfaces of it first.
            let _ = self.link.destroy_dropped();
            let _ = self.link.control(&ControlRequest::Free {
                address: self.address,
            });
        }
    }
}
