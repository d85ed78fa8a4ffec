//! A client's device memory: allocations, memory of its own that its kernels reach, textures and surfaces.
//!
//! Rules: what counts is held against what all clients of the tenant may hold together. What is given back is the
//! client's no more at once, and freed when no operation under way can use it.

use super::deferred::Release;
use super::{Session, device_error};
use crate::device::{DeviceError, HostMappings};
use gridmux_channel::control::object::Object;
use gridmux_channel::control::{
    ControlCode, ControlError, ControlReply, ControlRequest, PagingRequest,
};
use gridmux_channel::regions::PAGE_BYTES;

/// Allocations per client.
const ALLOCATIONS: usize = 1 << 20;
/// Ranges of a client's own memory that its kernels reach at once.
const MAPPED: usize = 4096;
/// Textures and surfaces of a client at once.
const OBJECTS: usize = 8192;
/// Every allocation is rounded up to a multiple of this many bytes.
const ALLOCATION_BYTES: u64 = 256;

impl Session {
    /// Allocates device memory, within what all clients of the tenant may hold. Where only memory is in the way that
    /// was given back and is still in use, the answer waits until it is free.
    pub(super) fn alloc(&mut self, bytes: u64) -> Result<Option<ControlReply>, ControlError> {
        if bytes == 0 {
            let text = "an allocation of 0 bytes holds nothing; ask for at least 1";
            return Err(ControlError::new(ControlCode::BadRequest, text));
        }
        // What is freed and not released yet counts too, so that a loop of both is bounded.
        if self.allocations.len() + self.deferred.len() >= ALLOCATIONS {
            let text = format!("{ALLOCATIONS} allocations exist; free some");
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        let member = self.member()?;
        let device = &*self.parts.device;
        let rounded = bytes.checked_next_multiple_of(ALLOCATION_BYTES);
        let rounded = rounded.unwrap_or(u64::MAX);
        let room = member.account.check_room(device, rounded);
        let address = room
            .map_err(|text| ControlError::new(ControlCode::OutOfMemory, text))
            .and_then(|()| device.alloc(member.domain, bytes).map_err(device_error));
        match address {
            Ok(address) => {
                self.allocations.insert(address, rounded);
                Ok(Some(ControlReply::Allocated { address }))
            }
            Err(error) if error.code == ControlCode::OutOfMemory && !self.deferred.is_empty() => {
                self.postpone(ControlRequest::Alloc { bytes });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets the client's kernels reach a buffer of its own.
    pub(super) fn map_memory(
        &mut self,
        iova: u64,
        bytes: u64,
        counts: bool,
    ) -> Result<Option<ControlReply>, ControlError> {
        let limit = |text| Err(ControlError::new(ControlCode::Limit, text));
        if self.own.len() >= MAPPED {
            return limit(format!(
                "{MAPPED} buffers are mapped for kernels; free some"
            ));
        }
        if self.allocations.len() + self.deferred.len() >= ALLOCATIONS {
            return limit(format!("{ALLOCATIONS} allocations exist; free some"));
        }
        let mapping = self.mappings.get(&iova);
        let mapping = mapping.filter(|m| m.writable && (1..=m.size).contains(&bytes));
        let Some((buffer, _)) = mapping.and_then(|m| m.buffer.as_ref()) else {
            let text = format!(
                "{bytes} bytes at DMA address {iova:#x} are not the beginning of a mapping that the device may write"
            );
            return Err(ControlError::new(ControlCode::BadIova, text));
        };
        let (member, device) = (self.member()?, &*self.parts.device);
        let whole = bytes.next_multiple_of(PAGE_BYTES);
        let (rounded, uncounted_bytes) = match counts {
            true => (whole, 0),
            false => (0, whole),
        };
        let more = HostMappings {
            uncounted_bytes,
            ..HostMappings::RANGE
        };
        let room = match counts {
            true => member.account.check_room(device, rounded),
            false => Ok(()),
        };
        let room = room.and_then(|()| member.account.check_mappings(device, more));
        let address = room
            .map_err(|text| ControlError::new(ControlCode::OutOfMemory, text))
            .and_then(|()| {
                let mapped = device.map_buffer(member.domain, *buffer, bytes, counts);
                mapped.map_err(device_error)
            });
        match address {
            Ok(address) => {
                self.allocations.insert(address, rounded);
                self.own.insert(address, iova);
                self.set_for_kernels(iova, true);
                Ok(Some(ControlReply::Allocated { address }))
            }
            Err(error) if error.code == ControlCode::OutOfMemory && !self.deferred.is_empty() => {
                self.postpone(ControlRequest::MapMemory {
                    iova,
                    bytes,
                    counts,
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts a buffer of the client's own in the place of a managed variable.
    pub(super) fn map_variable(
        &mut self,
        iova: u64,
        address: u64,
    ) -> Result<ControlReply, ControlError> {
        let mapping = self.mappings.get(&iova).filter(|mapping| mapping.writable);
        let Some((buffer, _)) = mapping.and_then(|mapping| mapping.buffer.as_ref()) else {
            let text = format!("no mapping that the device may write begins at {iova:#x}");
            return Err(ControlError::new(ControlCode::BadIova, text));
        };
        let (member, device) = (self.member()?, &*self.parts.device);
        let room = member.account.check_mappings(device, HostMappings::RANGE);
        room.map_err(|text| ControlError::new(ControlCode::Limit, text))?;
        let mapped = device.map_variable(member.domain, *buffer, address);
        mapped.map_err(device_error)?;
        self.set_for_kernels(iova, true);
        Ok(ControlReply::Done)
    }

    /// Takes note whether kernels reach the buffer that is mapped there.
    fn set_for_kernels(&mut self, iova: u64, is_for_kernels: bool) {
        if let Some(mapping) = self.mappings.get_mut(&iova) {
            mapping.is_for_kernels = is_for_kernels;
        }
    }

    /// Takes an allocation from the client at once, and frees it when no operation under way can use it any more.
    pub(super) fn free(&mut self, address: u64) -> Result<ControlReply, ControlError> {
        let Some(bytes) = self.allocations.remove(&address) else {
            return Err(device_error(DeviceError::BadAddress { address }));
        };
        if let Some(iova) = self.own.remove(&address) {
            self.set_for_kernels(iova, false);
        }
        self.defer(Release::Memory { address, bytes });
        Ok(ControlReply::Done)
    }

    /// Sets device addresses and memory apart. What an operation under way uses and loses, it finds inaccessible.
    pub(super) fn paging(
        &mut self,
        request: PagingRequest,
    ) -> Result<Option<ControlReply>, ControlError> {
        let (member, device) = (self.member()?, &*self.parts.device);
        let room = match request {
            PagingRequest::Create { bytes } => {
                let mappings = member
                    .account
                    .check_mappings(device, HostMappings::PHYSICAL);
                mappings.and_then(|()| member.account.check_room(device, bytes))
            }
            PagingRequest::Map { .. } => member.account.check_mappings(device, HostMappings::RANGE),
            _ => Ok(()),
        };
        let done = room
            .map_err(|text| ControlError::new(ControlCode::OutOfMemory, text))
            .and_then(|()| device.paging(member.domain, &request).map_err(device_error));
        match done {
            Ok(made) => Ok(Some(match request {
                PagingRequest::Reserve { .. } => ControlReply::Allocated { address: made },
                PagingRequest::Create { .. } => ControlReply::Object { handle: made },
                _ => ControlReply::Done,
            })),
            Err(error) if error.code == ControlCode::OutOfMemory && !self.deferred.is_empty() => {
                self.postpone(ControlRequest::Paging(request));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a texture or a surface of the client's memory.
    pub(super) fn create_object(&mut self, object: &Object) -> Result<ControlReply, ControlError> {
        if self.objects.len() + self.deferred.objects() >= OBJECTS {
            let text = format!("{OBJECTS} textures and surfaces exist; destroy some");
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        let domain = self.member()?.domain;
        let made = self.parts.device.create_object(domain, object);
        let handle = made.map_err(device_error)?;
        self.objects.insert(handle);
        Ok(ControlReply::Object { handle })
    }

    /// Takes a texture or a surface from the client; it ends when no operation under way can use it any more.
    pub(super) fn destroy_object(&mut self, handle: u64) -> Result<ControlReply, ControlError> {
        if !self.objects.remove(&handle) {
            let text = format!("{handle:#x} is no texture or surface of this client");
            return Err(ControlError::new(ControlCode::NotFound, text));
        }
        self.defer(Release::Object(handle));
        Ok(ControlReply::Done)
    }
}
