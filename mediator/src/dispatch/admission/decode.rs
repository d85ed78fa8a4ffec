//! From a submission entry to an operation: what is checked, and against what.
//!
//! Rules: the entry was copied out of shared memory once and only that copy is judged; every number in it is checked
//! against the client's own tables and the device's limits before it is used.

use super::Admission;
use super::client::ClientSlot;
use super::message::Refusal;
use super::operation::{
    CopyWork, DeviceCopyWork, LaunchWork, MemsetWork, Told, UnreportedBlocks, Work,
};
use super::params::ParamSlot;
use super::port::TenantPort;
use crate::device::Direction;
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::ids::Slot;
use gridmux_channel::ring::entry::BadEntry;
use gridmux_channel::ring::{self, SubmissionEntry};
use gridmux_launch::boxes::{Grid, check_block};
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use gridmux_ptx::forms::Shape;

impl<P: TenantPort> Admission<P> {
    /// Returns the work that a client's entry asks for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::dispatch) fn decode(
        &mut self,
        feed: &mut PolicyFeed,
        (slot, entry): (Slot, &SubmissionEntry),
    ) -> Result<Work, Refusal> {
        let request = entry.decode().map_err(|error| match error {
            BadEntry::Opcode(opcode) => Refusal::Opcode(opcode),
            BadEntry::Reserved => Refusal::Reserved,
            other => Refusal::Form(other),
        })?;
        let stream = entry.stream();
        let client = self.clients.get_mut(slot).ok_or(Refusal::Stream(stream))?;
        let open = client.stream_mut(stream).is_some_and(|s| !s.closing);
        if !open {
            return Err(Refusal::Stream(stream));
        }
        let copy = |direction, copy: &ring::Copy| {
            let (iova, bytes) = (copy.iova, copy.len);
            let needs_write = direction == Direction::FromDevice;
            let found = client.find_mapping(iova, bytes, needs_write);
            let (buffer, buffer_offset) = found.ok_or(Refusal::Mapping { iova, bytes })?;
            Ok(Work::Copy(CopyWork {
                direction,
                buffer,
                buffer_offset,
                address: copy.address,
                bytes,
                issued: 0,
            }))
        };
        match request {
            ring::Operation::Barrier => Ok(Work::Marker),
            ring::Operation::CopyToDevice(request) => copy(Direction::ToDevice, &request),
            ring::Operation::CopyFromDevice(request) => copy(Direction::FromDevice, &request),
            ring::Operation::CopyOnDevice(request) => Ok(Work::DeviceCopy(DeviceCopyWork {
                from: request.from,
                to: request.to,
                bytes: request.len,
                issued: 0,
            })),
            ring::Operation::Memset(request) => Ok(Work::Memset(MemsetWork {
                address: request.address,
                bytes: request.len,
                value: request.value,
                width: request.width,
                issued: 0,
            })),
            // What is not held any more, or never was, has completed.
            ring::Operation::Wait { cookie } => Ok(match client.operations.by_cookie(cookie) {
                Some(sequence) => Work::Wait { sequence },
                None => Work::Marker,
            }),
            ring::Operation::Hold { count } => Ok(Work::Hold { count }),
            ring::Operation::Launch(request) => self.decode_launch(feed, (slot, &request)),
        }
    }

    fn decode_launch(
        &mut self,
        feed: &mut PolicyFeed,
        (slot, request): (Slot, &ring::Launch),
    ) -> Result<Work, Refusal> {
        let handle = request.kernel;
        let unknown = Refusal::Kernel(handle);
        let client = self.clients.get_mut(slot).ok_or(unknown)?;
        let kernel = client
            .kernels
            .get(handle as usize)
            .and_then(Option::as_ref)
            .ok_or(unknown)?;
        if kernel.unusable {
            return Err(Refusal::Unusable(handle));
        }
        let (limits, key, covers) = (kernel.limits, kernel.key, kernel.covers());
        let has_control = kernel.has_control();
        let is_gang = kernel.kernel.is_gang;
        let params_bytes = kernel.kernel.params_bytes;
        let block = request.block.map(u32::from);
        let grid = Grid(request.grid);
        grid.check()?;
        check_block(block)?;
        if !grid.is_sliceable() {
            return Err(Refusal::TooManyBlocks);
        }
        let (threads, limit) = (block.iter().product(), limits.max_threads_per_block);
        if threads > limit {
            return Err(Refusal::Threads { threads, limit });
        }
        let shape = limits.block_shape(threads, request.shared_bytes);
        let tenant = client.tenant;
        let wants = u64::from(limits.static_shared_bytes) + u64::from(request.shared_bytes);
        let has = u64::from(self.max_shared_bytes_per_block);
        if wants > has {
            return Err(Refusal::SharedMemory { wants, has });
        }
        let wave = wave_of(&feed.shape, &shape)?;
        let blocks = grid.blocks();
        let is_cooperative = request.is_cooperative;
        if is_cooperative && blocks > u64::from(wave) {
            return Err(Refusal::NotAtOnce { blocks, most: wave });
        }
        let params = read_params(client, request, params_bytes)?;
        let whole_only = covers != Shape::Slice;
        let row = feed.claim_row(tenant, (key, &shape), whole_only);
        if let Some(row) = feed.rows.get_mut(row) {
            row.admitted += 1;
        }
        Ok(Work::Launch(LaunchWork {
            row,
            handle,
            key,
            kernel: limits.id,
            grid: request.grid,
            block,
            dynamic_shared_bytes: request.shared_bytes,
            blocks,
            issued: 0,
            shape,
            covers,
            has_control,
            is_cooperative,
            is_gang: (is_gang || is_cooperative) && blocks > 1,
            params,
            told: Told::Nothing,
            preempted: None,
            started: 0,
            wave,
            after: None,
            lanes: 0,
            told_before: 0,
            unreported: UnreportedBlocks::default(),
        }))
    }
}

/// Returns how many blocks of a shape the device holds at once.
fn wave_of(device: &DeviceShape, block: &BlockShape) -> Result<u32, Refusal> {
    match max_residency(device, block) {
        0 => Err(Refusal::DoesNotFit {
            threads: block.threads,
            registers: block.registers,
        }),
        per_sm => Ok(u32::from(per_sm) * u32::from(device.sms)),
    }
}

/// Copies a launch's parameters out of the argument area, once, into a slot of the client's pool.
fn read_params<P: TenantPort>(
    client: &mut ClientSlot<P>,
    request: &ring::Launch,
    wants: u32,
) -> Result<ParamSlot, Refusal> {
    let has = request.args_len;
    if wants != has {
        return Err(Refusal::Params { wants, has });
    }
    let area = Refusal::ArgumentArea {
        offset: request.args_offset,
        len: wants,
    };
    let slot = client.params.take(wants as usize).ok_or(area)?;
    let bytes = client.params.bytes_mut(slot);
    if client.port.read_args(request.args_offset, bytes).is_err() {
        client.params.give_back(slot);
        return Err(area);
    }
    Ok(slot)
}
