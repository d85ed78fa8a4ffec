//! Copies and fills of device memory: a range check, and then bytes in pieces.
//!
//! Rules: bytes are copied once, between a tenant's buffer and device memory; a transfer whose range is not inside an
//! allocation moves nothing; a piece is short, so that other threads can take the lock between two of them. Device
//! memory that is the tenant's own, mapped for kernels, changes at any time: its bytes go by way of a copy of ours.

use super::State;
use crate::device::{CopyCommand, DeviceCopyCommand, Direction, DomainId, MemsetCommand, Tag};
use gridmux_channel::memory::TenantBuffer;
use gridmux_channel::ring::Width;
use gridmux_hw_model::memory;
use std::sync::Arc;

/// Bytes of one piece: a whole number of elements of every width.
const PIECE_BYTES: u64 = 1 << 20;

/// A copy or fill.
#[derive(Debug, Clone, Copy)]
pub(super) enum Transfer {
    Copy(CopyCommand),
    DeviceCopy(DeviceCopyCommand),
    Memset(MemsetCommand),
}

impl Transfer {
    /// Returns its name in reports.
    pub(super) fn tag(&self) -> Tag {
        match self {
            Self::Copy(copy) => copy.tag,
            Self::DeviceCopy(copy) => copy.tag,
            Self::Memset(memset) => memset.tag,
        }
    }

    /// Returns whose memory it touches.
    pub(super) fn domain(&self) -> DomainId {
        match self {
            Self::Copy(copy) => copy.domain,
            Self::DeviceCopy(copy) => copy.domain,
            Self::Memset(memset) => memset.domain,
        }
    }

    /// Returns its length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copy(copy) => copy.bytes,
            Self::DeviceCopy(copy) => copy.bytes,
            Self::Memset(memset) => memset.bytes,
        }
    }

    /// Checks that the device's ends lie inside allocations of the tenant, with what follows behind.
    ///
    /// # Errors
    /// The range that does not, and why.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let all = u64::saturating_add;
        match self {
            Self::Copy(copy) => check_range(
                state,
                copy.domain,
                copy.address,
                all(copy.bytes, copy.rest_bytes),
            ),
            Self::DeviceCopy(copy) => {
                let bytes = all(copy.bytes, copy.rest_bytes);
                check_range(state, copy.domain, copy.from, bytes)
                    .and_then(|()| check_range(state, copy.domain, copy.to, bytes))
            }
            Self::Memset(memset) => {
                let bytes = all(memset.bytes, memset.rest_bytes);
                check_range(state, memset.domain, memset.address, bytes)
            }
        }
    }

    /// Moves the piece that begins at byte `done`; returns its length, which is 0 behind the last one.
    ///
    /// # Errors
    /// The buffer or the device memory is gone, or the kernel refused.
    pub(super) fn move_piece(&self, state: &mut State, done: u64) -> Result<u64, String> {
        let length = (self.bytes() - done.min(self.bytes())).min(PIECE_BYTES);
        if length == 0 {
            return Ok(0);
        }
        let domain = state.memory_of(self.domain());
        let device = |error: memory::MemoryError| error.to_string();
        match self {
            Self::Copy(copy) => {
                let (address, offset) = (copy.address + done, copy.buffer_offset + done);
                if let Some((owner, start)) = state.mapped.place_of(copy.buffer)
                    && owner == copy.domain
                {
                    // Kernels reach the buffer, so that it is device memory itself.
                    let (from, to) = match copy.direction {
                        Direction::ToDevice => (start + offset, address),
                        Direction::FromDevice => (address, start + offset),
                    };
                    let moved = state.gpu.memory_mut().copy_within(domain, from, to, length);
                    moved.map_err(device)?;
                    return Ok(length);
                }
                let buffer = state.buffers.get(&copy.buffer.0).map(Arc::clone);
                let buffer = buffer.ok_or("the buffer was unmapped before the copy started")?;
                move_bytes(
                    state,
                    domain,
                    &buffer,
                    copy.direction,
                    (address, offset, length),
                )?;
            }
            Self::DeviceCopy(copy) => {
                let memory = state.gpu.memory_mut();
                let moved = memory.copy_within(domain, copy.from + done, copy.to + done, length);
                moved.map_err(device)?;
            }
            Self::Memset(memset) => {
                fill(state, domain, memset, done, length).map_err(device)?;
            }
        }
        Ok(length)
    }

    /// Moves everything.
    ///
    /// # Errors
    /// As [`Transfer::check`] and [`Transfer::move_piece`].
    pub(super) fn move_all(&self, state: &mut State) -> Result<(), String> {
        self.check(state)?;
        let mut done = 0;
        loop {
            match self.move_piece(state, done)? {
                0 => return Ok(()),
                moved => done += moved,
            }
        }
    }
}

/// Moves `length` bytes between a device address and an offset of a buffer.
fn move_bytes(
    state: &mut State,
    domain: memory::DomainId,
    buffer: &TenantBuffer,
    direction: Direction,
    (address, offset, length): (u64, u64, u64),
) -> Result<(), String> {
    let device = |error: memory::MemoryError| error.to_string();
    let memory = state.gpu.memory_mut();
    let mut copied = match memory.is_shared(domain, address) {
        true => vec![0; usize::try_from(length).unwrap_or(0)],
        false => Vec::new(),
    };
    let moved = match (direction, copied.is_empty()) {
        (Direction::ToDevice, true) => {
            let target = memory.bytes_mut(domain, address, length);
            buffer.read_at(offset, target.map_err(device)?)
        }
        (Direction::FromDevice, true) => {
            let source = memory.bytes(domain, address, length);
            buffer.write_at(offset, source.map_err(device)?)
        }
        (Direction::ToDevice, false) => {
            let read = buffer.read_at(offset, &mut copied);
            read.map_err(|error| error.to_string())?;
            return memory.write(domain, address, &copied).map_err(device);
        }
        (Direction::FromDevice, false) => {
            memory.read(domain, address, &mut copied).map_err(device)?;
            buffer.write_at(offset, &copied)
        }
    };
    moved.map_err(|error| error.to_string())
}

/// Fills `length` bytes of device memory, from byte `done` of the fill on.
fn fill(
    state: &mut State,
    domain: memory::DomainId,
    memset: &MemsetCommand,
    done: u64,
    length: u64,
) -> Result<(), memory::MemoryError> {
    let memory = state.gpu.memory_mut();
    let address = memset.address + done;
    let [a, b, c, d] = memset.value.to_le_bytes();
    match memset.width {
        Width::One => memory.fill(domain, address, length, a),
        Width::Two => memory.fill_with(domain, address, length, [a, b]),
        Width::Four => memory.fill_with(domain, address, length, [a, b, c, d]),
    }
}

/// Checks that the device's end of a copy or memset lies inside one allocation of the tenant.
///
/// # Errors
/// The range, and why it does not.
fn check_range(state: &State, domain: DomainId, address: u64, bytes: u64) -> Result<(), String> {
    if state.context.is_some() {
        let checked = match bytes {
            0 => Ok(()),
            _ => state.check_own(domain, address, bytes),
        };
        return checked
            .map_err(|why| format!("{bytes} bytes at device address {address:#x}: {why}"));
    }
    let domain = memory::DomainId(domain.0);
    let found = state.gpu.memory().allocation_at(domain, address);
    let inside = found.is_some_and(|allocation| {
        let end = address.checked_add(bytes);
        end.is_some_and(|end| end <= allocation.end())
    });
    if inside || bytes == 0 {
        return Ok(());
    }
    let why = match found {
        Some(_) => "it leaves its allocation".to_owned(),
        None => match state.gpu.memory().read(domain, address, &mut [0]) {
            Err(error) => error.to_string(),
            Ok(()) => "it is not allocated".to_owned(),
        },
    };
    Err(format!(
        "{bytes} bytes at device address {address:#x}: {why}"
    ))
}
