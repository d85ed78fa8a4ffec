//! Tenants' own memory in device memory, and device addresses apart from memory.
//!
//! Rules: what takes long is done without the lock, or in pieces, each under the lock for itself: a file is mapped,
//! sealed and looked through for holes at addresses of its own before it stands in a window; pages that go are let go
//! of first; physical memory that is gone goes to the reaper.
//!
//! What stays: to seal a memfd and to look for holes the kernel waits for the file's lock, which its owner may hold for
//! as long as he likes, by a call that waits for memory which he serves himself. The device goes on then, and the
//! control thread, which serves all clients' requests, does not.

use super::State;
use super::control::{ModelControl, memory_error, model_domain};
use crate::device::{BufferId, DeviceError, DomainId, MOST_HOST_MAPPINGS};
use gridmux_channel::control::PagingRequest;
use gridmux_channel::memory::TenantBuffer;
use gridmux_hw_model::memory::{self, FilePages, Gone, Memory, MemoryError};
use std::sync::Arc;

/// Bytes of memory that are given back to the host at a time.
const GIVEN_BACK_BYTES: u64 = 32 << 20;

// What tenants can have is never refused by the model, but for what waits for the reaper.
const _: () = assert!(MOST_HOST_MAPPINGS <= memory::MOST_MAPPINGS);

/// Returns a refusal of a buffer.
fn unfit(text: &str) -> DeviceError {
    DeviceError::Unfit(text.into())
}

/// Maps the first `bytes` bytes of a buffer at addresses of its own, and sees to it that it keeps them.
fn pages_of(buffer: &TenantBuffer, bytes: u64) -> Result<FilePages, DeviceError> {
    let (file, offset) = buffer.file();
    // It cannot be mapped for writing once it is sealed.
    let pages = FilePages::map(file, offset, bytes).map_err(|error| match error {
        MemoryError::Mappings { .. } => memory_error(bytes, &error),
        other => DeviceError::Unfit(other.to_string()),
    })?;
    let pinned = buffer.pin();
    pinned.map_err(|error| DeviceError::Unfit(error.to_string()))?;
    Ok(pages)
}

/// Does what a request asks of a domain's addresses and memory; returns what it made, and what is gone.
fn paging(
    memory: &mut Memory,
    domain: memory::DomainId,
    request: &PagingRequest,
) -> Result<(u64, Gone), MemoryError> {
    let made = match *request {
        PagingRequest::Reserve { bytes, align } => {
            memory.reserve_addresses(domain, bytes, align)?
        }
        PagingRequest::Create { bytes } => memory.create_physical(domain, bytes)?,
        PagingRequest::Unreserve { address } => {
            memory.free_addresses(domain, address)?;
            0
        }
        PagingRequest::Release { physical } => {
            let gone = memory.release_physical(domain, physical)?;
            return Ok((0, gone));
        }
        PagingRequest::Map {
            address,
            bytes,
            physical,
            offset,
        } => {
            memory.map_physical(domain, address, bytes, (physical, offset))?;
            0
        }
        PagingRequest::Access {
            address,
            bytes,
            is_accessible,
        } => {
            memory.set_access(domain, address, bytes, is_accessible)?;
            0
        }
        PagingRequest::Unmap { address, bytes } => {
            let gone = memory.unmap(domain, address, bytes)?;
            return Ok((0, gone));
        }
    };
    Ok((made, Gone::default()))
}

fn paging_error(error: &MemoryError) -> DeviceError {
    match error {
        MemoryError::OutOfMemory { asked, .. } => memory_error(*asked, error),
        MemoryError::Mappings { .. } => memory_error(0, error),
        MemoryError::OutOfBounds { .. } | MemoryError::NotAllocated { .. } => {
            DeviceError::Object(error.to_string())
        }
        other => DeviceError::Backend(other.to_string()),
    }
}

impl State {
    /// Returns a registered buffer that stands nowhere in device memory yet.
    fn buffer_to_map(&self, buffer: BufferId) -> Result<Arc<TenantBuffer>, DeviceError> {
        if self.mapped.place_of(buffer).is_some() {
            return Err(unfit("it is mapped already"));
        }
        let found = self.buffers.get(&buffer.0).map(Arc::clone);
        found.ok_or_else(|| unfit("it is no such buffer"))
    }
}

impl ModelControl {
    /// Lets a domain's kernels reach the first bytes of a buffer.
    pub(super) fn put_buffer(
        &self,
        domain: DomainId,
        buffer: BufferId,
        bytes: u64,
        counts: bool,
    ) -> Result<u64, DeviceError> {
        let own = model_domain(domain);
        let failed = |error: MemoryError| memory_error(bytes, &error);
        // Its room comes first: once it is sealed it can be mapped no second time.
        let (shared, address) = self.with(|state| {
            let shared = state.buffer_to_map(buffer)?;
            if bytes > shared.size() {
                return Err(unfit("it is shorter than that"));
            }
            if counts {
                state.check_room(bytes)?;
            }
            let reserved = state.gpu.memory_mut().reserve_for_file(own, bytes, counts);
            Ok::<_, DeviceError>((shared, reserved.map_err(failed)?))
        })?;
        let pages = pages_of(&shared, bytes);
        self.with(|state| {
            let memory = state.gpu.memory_mut();
            let mapped =
                pages.and_then(|pages| memory.map_file(own, address, pages).map_err(failed));
            match mapped {
                Ok(()) => state.mapped.insert(buffer, domain, address),
                Err(_) => memory.unreserve_for_file(own, address),
            }
            mapped.map(|()| address)
        })
    }

    /// Puts a buffer in the place of a managed variable.
    pub(super) fn put_variable(
        &self,
        domain: DomainId,
        buffer: BufferId,
        address: u64,
    ) -> Result<(), DeviceError> {
        let own = model_domain(domain);
        let bad = |error: MemoryError| paging_error(&error);
        let (shared, bytes) = self.with(|state| {
            let shared = state.buffer_to_map(buffer)?;
            let bytes = state
                .gpu
                .memory()
                .bytes_to_share(own, address)
                .map_err(bad)?;
            Ok::<_, DeviceError>((shared, bytes))
        })?;
        if shared.size() < bytes {
            return Err(unfit("it is shorter than the variable"));
        }
        let mut pages = pages_of(&shared, bytes)?;
        while self.with(|state| {
            let memory = state.gpu.memory_mut();
            memory.share_piece(own, address, &mut pages).map_err(bad)
        })? {}
        self.with(|state| state.mapped.insert(buffer, domain, address));
        Ok(())
    }

    /// Does what a request asks of a domain's addresses and memory.
    pub(super) fn page(
        &self,
        domain: DomainId,
        request: &PagingRequest,
    ) -> Result<u64, DeviceError> {
        let own = model_domain(domain);
        let failed = |error: MemoryError| paging_error(&error);
        if let PagingRequest::Unmap { address, bytes } = *request {
            let checked = self.with(|state| state.gpu.memory().check_unmap(own, address, bytes));
            checked.map_err(failed)?;
            let emptied = self.in_pieces(bytes, |memory, at, length| {
                memory.let_go(own, address + at, length)
            });
            emptied.map_err(failed)?;
        }
        let (made, gone) = self.with(|state| {
            if let PagingRequest::Create { bytes } = request {
                state.check_room(*bytes)?;
            }
            paging(state.gpu.memory_mut(), own, request).map_err(failed)
        })?;
        if !gone.is_empty() {
            self.reaper.take(gone);
        }
        Ok(made)
    }

    /// Gives the host pages of an allocation back, a piece at a time, so that others can take the lock between two of
    /// them. What a file holds stays.
    pub(super) fn empty(
        &self,
        domain: memory::DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        self.in_pieces(bytes, |memory, at, length| {
            match memory.is_shared(domain, address) {
                true => memory.let_go(domain, address + at, length),
                false => memory.clear(domain, address + at, length),
            }
        })
    }

    /// Does something to the pieces of `bytes` bytes, each under the lock: where it begins, and its length.
    fn in_pieces(
        &self,
        bytes: u64,
        act: impl Fn(&mut Memory, u64, u64) -> Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < bytes {
            let length = (bytes - done).min(GIVEN_BACK_BYTES);
            self.with(|state| act(state.gpu.memory_mut(), done, length))?;
            done += length;
        }
        Ok(())
    }
}
