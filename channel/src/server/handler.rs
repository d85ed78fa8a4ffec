//! What a device does when its tenant asks: the trait that the mediator
//! implements.
//!
//! Everything passed in was bounded by the codec and is otherwise as hostile
//! as the tenant that sent it. An `Err` becomes an error reply.

use crate::wire::device::{DeviceInfo, IrqSet, RegionDescription};
use crate::wire::transfer::{DmaMap, DmaUnmap};
use nix::errno::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A part of a region that the tenant writes through an eventfd of ours.
#[derive(Debug, Clone, Copy)]
pub struct IoFd<'a> {
    /// Where it starts in the region, in bytes.
    pub offset: u64,
    /// How long it is in bytes.
    pub size: u64,
    /// The eventfd.
    pub fd: BorrowedFd<'a>,
}

/// A device, as one tenant sees it.
pub trait Handler {
    /// Returns what the device is.
    fn device_info(&self) -> DeviceInfo;

    /// Returns what region `region` is ([`crate::regions::describe`] knows ours).
    ///
    /// # Errors
    /// `EINVAL` if there is no such region.
    fn region_info(&self, region: u32) -> Result<RegionDescription, Errno>;

    /// Returns the memory of a mappable region.
    fn region_fd(&self, region: u32) -> Option<BorrowedFd<'_>>;

    /// Returns the eventfds of a region.
    ///
    /// # Errors
    /// `EINVAL` if it has none.
    fn io_fds(&self, region: u32) -> Result<Vec<IoFd<'_>>, Errno>;

    /// Fills `data` from the region.
    ///
    /// # Errors
    /// `EINVAL` outside the region, or whatever the region says.
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Writes `data` to the region.
    ///
    /// # Errors
    /// `EINVAL` outside the region, or whatever the region says.
    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// Maps tenant memory; without a descriptor the range is known but cannot
    /// be reached ([`crate::memory::TenantBuffer::new`] checks the memory).
    ///
    /// # Errors
    /// `EEXIST` over an existing mapping, or what is wrong with the memory.
    fn dma_map(&mut self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno>;

    /// Unmaps exactly one mapping; no access to it may be under way afterwards.
    ///
    /// # Errors
    /// `ENOENT` if there is no such mapping, `EBUSY` while it is in use.
    fn dma_unmap(&mut self, request: &DmaUnmap) -> Result<(), Errno>;

    /// Returns how many interrupts an IRQ type has and its flags. Native tenants are
    /// woken by futex, so a device may have none.
    ///
    /// # Errors
    /// `EINVAL` if there is no such type.
    fn irq_info(&self, index: u32) -> Result<IrqInfo, Errno> {
        let _ = index;
        Err(Errno::EINVAL)
    }

    /// Sets up interrupts.
    ///
    /// # Errors
    /// `EINVAL` if there is no such type or it cannot do that.
    fn set_irqs(&mut self, request: &IrqSet, data: &[u8], fds: Vec<OwnedFd>) -> Result<(), Errno> {
        let _ = (request, data, fds);
        Err(Errno::EINVAL)
    }

    /// Brings the device back to where it was after connecting.
    ///
    /// # Errors
    /// The device cannot be reset now.
    fn reset(&mut self) -> Result<(), Errno>;
}

/// An IRQ type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IrqInfo {
    /// `VFIO_IRQ_INFO_*` of `<linux/vfio.h>`.
    pub flags: u32,
    /// How many interrupts it has.
    pub count: u32,
}
