//! What programs say of pools: the properties that they ask of new ones, and who is to have access to their memory.

use crate::device;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint, c_void};

/// The properties of a new pool (`CUmemPoolProps`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemPoolProps {
    alloc_type: c_uint,
    handle_types: c_uint,
    location_type: c_uint,
    location_id: c_int,
    win32_security: *mut c_void,
    pub(super) max_size: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// The location of memory (`CUmemLocation`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemLocation {
    /// Its kind, as a device or the host.
    pub kind: c_uint,
    /// The number of the device or node.
    pub id: c_int,
}

/// The access that a location has to memory (`CUmemAccessDesc`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemAccessDesc {
    /// The location.
    pub location: CUmemLocation,
    /// What it may do.
    pub flags: c_uint,
}

/// Kinds of memory that pools may be of (`CUmemAllocationType`).
const PINNED: c_uint = 1;
const MANAGED: c_uint = 2;
/// Where a pool's memory may be (`CUmemLocationType`): in no place in particular, on a device, on the host or on one of
/// its nodes, in a part of a device's memory. Only a device can access the memory of a device's pool.
const NOWHERE: c_uint = 0;
pub(super) const ON_DEVICE: c_uint = 1;
const ON_HOST: c_uint = 2;
const ON_HOST_NODE: c_uint = 3;
const IN_PART_OF_DEVICE: c_uint = 6;
/// Reading and writing.
pub(super) const READ_WRITE: c_uint = 3;

/// The kind of memory that a pool is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// The device's.
    Device,
    /// Managed memory, which the program and kernels reach.
    Managed,
    /// Pinned memory of the host.
    Host,
}

impl CUmemPoolProps {
    /// Makes those of memory of the device.
    #[must_use]
    pub fn of_device() -> Self {
        Self {
            alloc_type: PINNED,
            handle_types: 0,
            location_type: ON_DEVICE,
            location_id: 0,
            win32_security: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }

    /// Makes those of memory of a kind at a location.
    #[must_use]
    pub fn of(alloc_type: c_uint, location: CUmemLocation) -> Self {
        Self {
            alloc_type,
            location_type: location.kind,
            location_id: location.id,
            ..Self::of_device()
        }
    }

    /// Returns the numbers of the kind of memory and of the type of its place.
    pub(super) fn place(&self) -> (c_uint, c_uint) {
        (self.alloc_type, self.location_type)
    }

    /// Returns the kind of memory that such a pool is of. All of the host's nodes are the host.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: neither of pinned nor of managed memory, in a place that no pool can have, managed
    /// with a limit, or managed or of the host and shared with other processes; [`Status::NOT_SUPPORTED`]: shared with
    /// other processes, or of a part of a device; [`Status::INVALID_DEVICE`].
    pub fn kind(&self) -> CudaResult<PoolKind> {
        let is_shared = self.handle_types != 0;
        let on_device = |kind| device::exists(self.location_id).map(|()| kind);
        match (self.alloc_type, self.location_type) {
            (MANAGED, _) if is_shared || self.max_size != 0 => Err(Status::INVALID_VALUE),
            (MANAGED, ON_DEVICE) => on_device(PoolKind::Managed),
            (MANAGED, NOWHERE | ON_HOST | ON_HOST_NODE) => Ok(PoolKind::Managed),
            (PINNED, ON_DEVICE) if is_shared => Err(Status::NOT_SUPPORTED),
            (PINNED, ON_DEVICE) => on_device(PoolKind::Device),
            (PINNED, ON_HOST) if is_shared => Err(Status::INVALID_VALUE),
            (PINNED, ON_HOST | ON_HOST_NODE) if !is_shared => Ok(PoolKind::Host),
            (PINNED, ON_HOST_NODE | IN_PART_OF_DEVICE) => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

impl CUmemLocation {
    /// Checks that memory of a pool of a kind can be accessed from here.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]; [`Status::INVALID_DEVICE`].
    pub(super) fn check_access(&self, kind: PoolKind) -> CudaResult {
        match self.kind {
            ON_DEVICE => device::exists(self.id),
            ON_HOST | ON_HOST_NODE if kind != PoolKind::Device => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

impl CUmemAccessDesc {
    /// Checks that memory of a pool of a kind can be accessed so: by the device, or by the host where that reaches it,
    /// and for reading and writing.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]; [`Status::INVALID_DEVICE`].
    pub fn check(&self, kind: PoolKind) -> CudaResult {
        if self.flags != READ_WRITE {
            return Err(Status::INVALID_VALUE);
        }
        self.location.check_access(kind)
    }
}
