//! A session as the vfio-user server sees it: regions, and mappings of the client's own memory.
//!
//! Rules: the codec has checked the form of each message; ranges are checked here. A mapping that is removed is unknown
//! to new operations at once, and registered with the device until those under way have ended. One that kernels reach
//! is registered no more at once, because operations under way find it in device memory.

use super::deferred::Release;
use super::{DmaMapping, Session};
use crate::dispatch::client::MAPPINGS_PER_CLIENT;
use crate::dispatch::message::Message;
use crate::host::parts::BUFFERS_OF_A_STRANGER;
use gridmux_channel::Errno;
use gridmux_channel::control::CONTROL_VERSION;
use gridmux_channel::memory::{MAX_MAPPINGS, TenantBuffer};
use gridmux_channel::regions::{
    self, DOORBELL_OFFSET_BYTES, PAGE_BYTES, REGION_CONTROL, REGION_COUNT, REGION_FACTS,
    REGION_RINGS,
};
use gridmux_channel::server::{Handler, IoFd};
use gridmux_channel::wire::device::{DeviceInfo, RegionDescription};
use gridmux_channel::wire::transfer::{DmaMap, DmaUnmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

impl Handler for Session {
    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(REGION_COUNT, 0)
    }

    fn region_info(&self, region: u32) -> Result<RegionDescription, Errno> {
        regions::describe(region, self.parts.rings_bytes).ok_or(Errno::EINVAL)
    }

    fn region_fd(&self, region: u32) -> Option<BorrowedFd<'_>> {
        (region == REGION_RINGS).then(|| self.parts.rings_memfd.as_fd())
    }

    fn io_fds(&self, region: u32) -> Result<Vec<IoFd<'_>>, Errno> {
        if region != REGION_FACTS {
            return Ok(Vec::new());
        }
        Ok(vec![IoFd {
            offset: DOORBELL_OFFSET_BYTES,
            size: 4,
            fd: self.parts.doorbell.as_fd(),
        }])
    }

    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        match region {
            REGION_CONTROL => {
                self.was_told |= self.is_turned_away;
                self.mailbox.read(offset, data)
            }
            REGION_FACTS => {
                let facts = self.parts.device.facts();
                let words = [
                    u32::from_le_bytes(*b"gmux"),
                    CONTROL_VERSION,
                    facts.sms.into(),
                    facts.clock_khz,
                ];
                let page: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (index, byte) in data.iter_mut().enumerate() {
                    *byte = start
                        .checked_add(index)
                        .and_then(|i| page.get(i))
                        .copied()
                        .unwrap_or(0);
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        match region {
            // A doorbell written through the socket instead of its eventfd.
            REGION_FACTS if offset == DOORBELL_OFFSET_BYTES => {
                self.parts.outbound.wake();
                Ok(())
            }
            REGION_CONTROL => {
                let request = self.mailbox.write(offset, data)?;
                // A new request takes the place of one that waited.
                (self.postponed, self.hello) = (None, None);
                if let Some(request) = request {
                    self.execute_and_answer(request);
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn dma_map(&mut self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno> {
        let (iova, size) = (request.address, request.size);
        let end = iova
            .checked_add(size)
            .filter(|_| size > 0)
            .ok_or(Errno::EINVAL)?;
        let overlaps = self
            .mappings
            .range(..end)
            .next_back()
            .is_some_and(|(start, m)| start + m.size > iova);
        if overlaps {
            return Err(Errno::EEXIST);
        }
        if !(iova | size | request.offset).is_multiple_of(PAGE_BYTES) {
            return Err(Errno::EINVAL);
        }
        let with_memory = self
            .mappings
            .values()
            .filter(|m| m.buffer.is_some())
            .count();
        if self.mappings.len() >= MAX_MAPPINGS
            || (fd.is_some() && with_memory >= MAPPINGS_PER_CLIENT)
        {
            return Err(Errno::ENOSPC);
        }
        if !self.parts.may_join() {
            return Err(Errno::EPERM);
        }
        if fd.is_some() && self.deferred.buffers() >= MAPPINGS_PER_CLIENT {
            return Err(Errno::ENOSPC);
        }
        let most_of_a_stranger = !self.is_welcome() && with_memory >= BUFFERS_OF_A_STRANGER;
        if fd.is_some() && most_of_a_stranger {
            return Err(Errno::EPERM);
        }
        let protection = request.protection();
        let mut buffer = None;
        if let Some(fd) = fd {
            let shared = TenantBuffer::new(fd, request.offset, size, protection)
                .map_err(|error| error.errno())?;
            let shared = Arc::new(shared.charged_to(Arc::clone(&self.parts.pages)));
            let account = self.member.as_ref().map(|member| &member.account);
            if account.is_some_and(|account| !account.take_descriptors(1)) {
                return Err(Errno::EMFILE);
            }
            let registered = self.parts.device.register_buffer(Arc::clone(&shared));
            let id = registered.map_err(|_| {
                if let Some(account) = account {
                    account.give_descriptors_back(1);
                }
                Errno::ENOMEM
            })?;
            buffer = Some((id, shared));
        }
        let mapping = DmaMapping {
            size,
            writable: protection.write,
            buffer,
            is_for_kernels: false,
        };
        // Before the client is welcome the dispatcher does not know it; it learns of the mappings with the client.
        if self.is_welcome()
            && let Some(known) = mapping.for_dispatcher(iova)
        {
            let message = Message::AddMapping(self.parts.slot, known);
            self.parts.outbound.tell(message);
        }
        self.mappings.insert(iova, mapping);
        Ok(())
    }

    fn dma_unmap(&mut self, request: &DmaUnmap) -> Result<(), Errno> {
        match self.mappings.get(&request.address) {
            Some(mapping) if mapping.size == request.size => {}
            _ => return Err(Errno::ENOENT),
        }
        if let Some(DmaMapping {
            buffer: Some((buffer, _)),
            is_for_kernels,
            ..
        }) = self.mappings.remove(&request.address)
        {
            if self.is_welcome() {
                let message = Message::RemoveMapping(self.parts.slot, buffer);
                self.parts.outbound.tell(message);
            }
            match &self.member {
                Some(_) if !is_for_kernels => self.defer(Release::Buffer(buffer)),
                member => {
                    self.parts.device.unregister_buffer(buffer);
                    if let Some(member) = member {
                        member.account.give_descriptors_back(1);
                    }
                }
            }
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Errno> {
        // A reset would have to wait for the device; a tenant that wants one connects anew.
        Err(Errno::EOPNOTSUPP)
    }
}
