//! Admission: from a tenant's submission entry to an operation in one of its streams.
//!
//! Rules: the entry was copied out of shared memory once and only that copy is judged; every number in it is
//! checked against the tenant's own tables and the device's limits before it is used. A refused submission still
//! takes its place in its stream (or in stream 0, when it names none of its own), so that completions come in the
//! order that the tenant expects.

use super::dispatcher::Dispatcher;
use super::message::{Notice, Refusal, Slot};
use super::operation::{CopyWork, LaunchWork, MemsetWork, Operation, Work};
use super::port::TenantPort;
use crate::device::{Device, Direction, PARAM_BYTES, Params};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::entry::BadEntry;
use gridmux_channel::ring::{self, CompletionStatus, SubmissionEntry};
use gridmux_policy::TenantId;
use gridmux_policy::event::Event;
use gridmux_policy::shape::{BlockShape, dominant_share, max_residency};
use gridmux_ptx::boxes::{Grid, check_block};
use gridmux_ptx::control::CONTROL_BYTES;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Admits at most `limit` submissions of a tenant; returns how many.
    pub(super) fn admit_from(&mut self, slot: Slot, limit: usize) -> usize {
        let mut admitted = 0;
        while admitted < limit {
            let Some(tenant) = self.tenants.get_mut(slot) else {
                break;
            };
            if tenant.leaving || !tenant.operations.has_room() {
                break;
            }
            match tenant.port.pop() {
                Ok(Some(entry)) => {
                    // What the control thread promised the tenant before it submitted this (a stream, a mapping, a
                    // kernel) may have arrived after this turn's look at the messages.
                    self.take_messages();
                    self.admit(slot, &entry);
                }
                Ok(None) => break,
                Err(error) => {
                    tenant.leaving = true;
                    tenant.port.close();
                    self.notify(Notice::Corrupt(slot, error));
                    break;
                }
            }
            admitted += 1;
        }
        admitted
    }

    fn admit(&mut self, slot: Slot, entry: &SubmissionEntry) {
        let now = self.now;
        let work = self.decode(slot, entry);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        let stream = match tenant.streams.get(usize::from(entry.stream())) {
            Some(Some(_)) => entry.stream(),
            _ => 0,
        };
        let cookie = entry.cookie();
        let (work, status) = match work {
            Ok(work) => (work, CompletionStatus::Ok),
            Err(refusal) => {
                let tenant = tenant.tenant;
                self.notify(Notice::Refused {
                    tenant,
                    cookie,
                    reason: refusal,
                });
                (Work::Marker, refusal.status())
            }
        };
        let wall_ns = self.wall_now_ns;
        let operation = Operation {
            stream,
            sequence,
            cookie,
            // The stamp is the tenant's and may lie: it is never later than now.
            submitted_wall_ns: entry.submit_ns().min(wall_ns),
            issued_wall_ns: 0,
            admitted: now,
            first_start: None,
            last_end: now,
            in_flight: 0,
            status,
            work,
        };
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        let Some(id) = tenant.operations.insert(&operation) else {
            return;
        };
        let is_first = match &mut tenant.streams[usize::from(stream)] {
            Some(queue) => {
                let empty = queue.front().is_none();
                queue.push(id);
                empty
            }
            None => return,
        };
        tenant.counters.admitted();
        let tenant_id = tenant.tenant;
        if matches!(operation.work, Work::Launch(_)) {
            if !std::mem::replace(&mut tenant.metered, true) {
                self.meter.join(tenant_id, now);
            }
            tenant.open_launches += 1;
            self.meter.set_busy(tenant_id, true, now);
        }
        self.trace_admission(tenant_id.0, &operation);
        self.announce(slot, tenant_id, &operation);
        if is_first {
            self.activate(slot, id);
        }
    }

    /// Tells the policy that a launch arrived; a timed device's arrivals wait for the end of their instant.
    fn announce(&mut self, slot: Slot, tenant: TenantId, operation: &Operation) {
        let Work::Launch(launch) = &operation.work else {
            return;
        };
        let event = Event::Arrive {
            kernel: launch.class,
            tenant,
            launch: operation.sequence,
            blocks: launch.blocks,
            block: self.classes.shape(launch.class),
            at: operation.admitted,
        };
        if self.device.is_timed() {
            self.arrivals
                .push((slot, operation.stream, operation.sequence, event));
        } else {
            self.tell_policy(event);
        }
    }

    fn trace_admission(&self, tenant: u32, operation: &Operation) {
        let kernel = match &operation.work {
            Work::Launch(launch) => launch.handle,
            Work::Copy(_) | Work::Memset(_) | Work::Marker => u32::MAX,
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
        })?;
        let stream = entry.stream();
        let tenant = self.tenants.get_mut(slot).ok_or(Refusal::Stream(stream))?;
        if !matches!(tenant.streams.get(usize::from(stream)), Some(Some(_))) {
            return Err(Refusal::Stream(stream));
        }
        let copy = |direction, copy: &ring::Copy| {
            let (iova, bytes) = (copy.iova, copy.len);
            let needs_write = direction == Direction::FromDevice;
            let found = tenant.find_mapping(iova, bytes, needs_write);
            let (buffer, buffer_offset) = found.ok_or(Refusal::Mapping { iova, bytes })?;
            Ok(Work::Copy(CopyWork {
                direction,
                buffer,
                buffer_offset,
                address: copy.address,
                bytes,
                issued: false,
            }))
        };
        match request {
            ring::Operation::Barrier => Ok(Work::Marker),
            ring::Operation::CopyToDevice(request) => copy(Direction::ToDevice, &request),
            ring::Operation::CopyFromDevice(request) => copy(Direction::FromDevice, &request),
            ring::Operation::Memset {
                address,
                len,
                value,
            } => Ok(Work::Memset(MemsetWork {
                address,
                bytes: len,
                value,
                issued: false,
            })),
            ring::Operation::Launch(request) => self.decode_launch(slot, &request),
        }
    }

    fn decode_launch(&mut self, slot: Slot, request: &ring::Launch) -> Result<Work, Refusal> {
        let handle = request.kernel;
        let unknown = Refusal::Kernel(handle);
        let tenant = self.tenants.get(slot).ok_or(unknown)?;
        let kernel = tenant
            .kernels
            .get(handle as usize)
            .and_then(Option::as_ref)
            .ok_or(unknown)?;
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
        let mut params = Params::EMPTY;
        read_params(
            &tenant.port,
            request,
            kernel.limits.params_bytes,
            &mut params,
        )?;
        let shape = kernel.limits.block_shape(threads, request.shared_bytes);
        self.check_resources(request, shape, kernel.limits.static_shared_bytes)?;
        let (device_kernel, control_offset) = (kernel.limits.id, kernel.control_offset);
        let class = self.classes.claim(slot, handle, shape);
        Ok(Work::Launch(LaunchWork {
            class,
            handle,
            kernel: device_kernel,
            grid: request.grid,
            block,
            dynamic_shared_bytes: request.shared_bytes,
            blocks: grid.blocks(),
            issued: 0,
            share: dominant_share(&self.shape, &shape),
            control_offset,
            params,
        }))
    }

    fn check_resources(
        &self,
        request: &ring::Launch,
        shape: BlockShape,
        static_bytes: u32,
    ) -> Result<(), Refusal> {
        let wants = u64::from(static_bytes) + u64::from(request.shared_bytes);
        let has = u64::from(self.max_shared_bytes_per_block);
        if wants > has {
            return Err(Refusal::SharedMemory { wants, has });
        }
        if max_residency(&self.shape, &shape) == 0 {
            return Err(Refusal::DoesNotFit {
                threads: shape.threads,
                registers: shape.registers,
            });
        }
        Ok(())
    }

    /// Hands an event to the policy; a full queue is made good by [`Event::Lost`] later.
    pub(super) fn tell_policy(&mut self, event: Event) {
        self.policy.tell(event);
    }
}

fn read_params<P: TenantPort>(
    port: &P,
    request: &ring::Launch,
    wants: u32,
    params: &mut Params,
) -> Result<(), Refusal> {
    let has = request.args_len;
    if wants != has {
        return Err(Refusal::Params { wants, has });
    }
    let area = Refusal::ArgumentArea {
        offset: request.args_offset,
        len: wants,
    };
    let total = wants as usize;
    if total > PARAM_BYTES - CONTROL_BYTES as usize {
        return Err(area);
    }
    let bytes = params.resize(total).ok_or(area)?;
    port.read_args(request.args_offset, bytes).map_err(|_| area)
}
