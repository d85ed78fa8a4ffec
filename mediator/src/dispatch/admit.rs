//! Admission: from a client's submission entry to an operation in one of its streams.
//!
//! Rules: the entry was copied out of shared memory once and only that copy is judged; every number in it is checked
//! against the client's own tables and the device's limits before it is used. A refused submission still takes its
//! place in its stream (or in stream 0, when it names none of its own), so that completions come in the order that the
//! client expects. On a virtual clock nothing is admitted while time passes: the clock is stopped first, so that every
//! submission is dated with the time at which it can be acted upon.

use super::client::ClientSlot;
use super::dispatcher::Dispatcher;
use super::ids::Slot;
use super::message::{Notice, Refusal};
use super::operation::{
    CopyWork, DeviceCopyWork, LaunchWork, MemsetWork, Operation, Told, UnreportedBlocks, Work,
};
use super::params::ParamSlot;
use super::port::TenantPort;
use crate::device::{Command, Device, Direction, LANES};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::entry::BadEntry;
use gridmux_channel::ring::{self, CompletionStatus, SubmissionEntry};
use gridmux_launch::boxes::{Grid, check_block};
use gridmux_policy::shape::{BlockShape, max_residency};

/// Submissions admitted of one client in one turn, so that no client can keep the dispatcher to itself.
const ADMIT_PER_TURN: usize = 32;
/// Rings looked at in one turn; the next turn goes on behind them. As many as there are lanes: what else is admitted in
/// this turn waits anyway.
const RINGS_PER_TURN: usize = LANES;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Looks at the rings of every hot client.
    pub(super) fn admit_all(&mut self) -> bool {
        let mut worked = false;
        self.more_to_admit = false;
        for _ in 0..self.clients.hot().min(RINGS_PER_TURN) {
            // Admission looks at the messages, so a client may leave, and the list shrink, while we go along it.
            let Some(slot) = self.clients.hot_at(self.next_ring).or_else(|| {
                self.next_ring = 0;
                self.clients.hot_at(0)
            }) else {
                break;
            };
            self.next_ring += 1;
            let found = match self.permit_out {
                true => self.stop_clock_for(slot),
                false => self.release_holds(slot) | (self.admit_from(slot, ADMIT_PER_TURN) > 0),
            };
            self.quiet_rings = if found { 0 } else { self.quiet_rings + 1 };
            worked |= found;
        }
        worked
    }

    /// Asks for the end of a permit when a client has submitted something.
    fn stop_clock_for(&mut self, slot: Slot) -> bool {
        let now = self.now;
        let waits = |client: &mut ClientSlot<P>| {
            client.has_released()
                || client.has_room() && client.ready_at <= now && client.port.has_work()
        };
        if self.pause_asked || !self.clients.get_mut(slot).is_some_and(waits) {
            return false;
        }
        self.pause_asked = self.device.submit(&Command::Pause, &[]).is_ok();
        self.pause_asked
    }

    /// Admits what a client has submitted, at most `most` submissions; returns how many.
    pub(super) fn admit_from(&mut self, slot: Slot, most: usize) -> usize {
        if self.stopping {
            return 0;
        }
        let mut admitted = 0;
        while admitted < most {
            let now = self.now;
            let Some(client) = self.clients.get_mut(slot) else {
                break;
            };
            if !client.has_room() || client.ready_at > now {
                break;
            }
            match client.port.pop() {
                Ok(Some(entry)) => {
                    client.seen = self.turn;
                    // What the control thread promised the client before it submitted this (a stream, a mapping, a
                    // kernel) may have arrived after this turn's look at the messages.
                    self.take_messages();
                    self.admit(slot, &entry);
                }
                Ok(None) => return admitted,
                Err(error) => {
                    client.leaving = true;
                    client.port.close();
                    self.notify(Notice::Corrupt(slot, error));
                    break;
                }
            }
            admitted += 1;
        }
        self.more_to_admit |= admitted == most;
        admitted
    }

    fn admit(&mut self, slot: Slot, entry: &SubmissionEntry) {
        let now = self.now;
        let work = self.decode(slot, entry);
        self.next_sequence += 1;
        let sequence = self.next_sequence;
        let wall_ns = self.wall_now_ns;
        self.clock.acted(slot);
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let stream = match client.stream_mut(entry.stream()) {
            Some(stream) if !stream.closing => entry.stream(),
            _ => 0,
        };
        let cookie = entry.cookie();
        let (work, status) = match work {
            Ok(work) => (work, CompletionStatus::Ok),
            Err(reason) => {
                self.notify(Notice::Refused {
                    slot,
                    cookie,
                    reason,
                });
                (Work::Marker, reason.status())
            }
        };
        let operation = Operation {
            stream,
            sequence,
            cookie,
            // The stamp is the client's and may lie: it is never later than now.
            submitted_wall_ns: entry.submit_ns().min(wall_ns),
            issued_wall_ns: 0,
            admitted: now,
            first_start: None,
            last_end: now,
            in_flight: 0,
            status,
            deferred: false,
            work,
        };
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        // `has_room` was asked before the entry was taken.
        let Some(id) = client.operations.insert(&operation) else {
            return;
        };
        if let Some(queue) = client.stream_mut(stream) {
            queue.push(id);
        }
        client.waits += u16::from(matches!(work, Work::Wait { .. }));
        let tenant = client.tenant;
        if let Some(account) = self.accounts.get(tenant) {
            let is_launch = matches!(work, Work::Launch(_));
            account.counters.admitted(is_launch);
        }
        self.trace_admission(tenant.0, &operation);
        self.activate_more(slot, stream);
    }

    fn trace_admission(&self, tenant: u32, operation: &Operation) {
        let kernel = match &operation.work {
            Work::Launch(launch) => launch.handle,
            _ => u32::MAX,
        };
        let args = |time_ns| ProbeArgs {
            tenant,
            device: self.device_id.0,
            kernel,
            seq: operation.sequence,
            time_ns,
        };
        probes::submit(args(operation.submitted_wall_ns));
        probes::admit(args(operation.admitted.0));
    }

    fn decode(&mut self, slot: Slot, entry: &SubmissionEntry) -> Result<Work, Refusal> {
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
            ring::Operation::Launch(request) => self.decode_launch(slot, &request),
        }
    }

    fn decode_launch(&mut self, slot: Slot, request: &ring::Launch) -> Result<Work, Refusal> {
        let handle = request.kernel;
        let unknown = Refusal::Kernel(handle);
        let client = self.clients.get_mut(slot).ok_or(unknown)?;
        let kernel = client
            .kernels
            .get(handle as usize)
            .and_then(Option::as_ref)
            .copied()
            .ok_or(unknown)?;
        if kernel.unusable {
            return Err(Refusal::Unusable(handle));
        }
        let block = request.block.map(u32::from);
        let grid = Grid(request.grid);
        grid.check()?;
        check_block(block)?;
        if !grid.is_sliceable() {
            return Err(Refusal::TooManyBlocks);
        }
        let (threads, limit) = (block.iter().product(), kernel.limits.max_threads_per_block);
        if threads > limit {
            return Err(Refusal::Threads { threads, limit });
        }
        let shape = kernel.limits.block_shape(threads, request.shared_bytes);
        let tenant = client.tenant;
        let wave = self.check_resources(request, shape, kernel.limits.static_shared_bytes)?;
        let client = self.clients.get_mut(slot).ok_or(unknown)?;
        let params = read_params(client, request, kernel.limits.params_bytes)?;
        let whole_only = kernel.control_offset.is_none();
        let row = self.claim_row(tenant, kernel.key, &shape, whole_only);
        if let Some(row) = self.rows.get_mut(row) {
            row.admitted += 1;
        }
        Ok(Work::Launch(LaunchWork {
            row,
            handle,
            kernel: kernel.limits.id,
            grid: request.grid,
            block,
            dynamic_shared_bytes: request.shared_bytes,
            blocks: grid.blocks(),
            issued: 0,
            shape,
            control_offset: kernel.control_offset,
            params,
            told: Told::Nothing,
            preempted: None,
            started: 0,
            wave,
            after: None,
            lanes: 0,
            unreported: UnreportedBlocks::default(),
        }))
    }

    /// Returns how many blocks of a shape the device holds at once.
    fn check_resources(
        &self,
        request: &ring::Launch,
        shape: BlockShape,
        static_bytes: u32,
    ) -> Result<u32, Refusal> {
        let wants = u64::from(static_bytes) + u64::from(request.shared_bytes);
        let has = u64::from(self.max_shared_bytes_per_block);
        if wants > has {
            return Err(Refusal::SharedMemory { wants, has });
        }
        match max_residency(&self.shape, &shape) {
            0 => Err(Refusal::DoesNotFit {
                threads: shape.threads,
                registers: shape.registers,
            }),
            per_sm => Ok(u32::from(per_sm) * u32::from(self.shape.sms)),
        }
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
