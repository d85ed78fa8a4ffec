//! Admission: from a tenant's submission entry to an operation in one of its streams.
//!
//! Rules: the entry was copied out of shared memory once and only that copy is judged; every number in it is
//! checked against the tenant's own tables and the device's limits before it is used. A refused submission still
//! takes its place in its stream (or in stream 0, when it names none of its own), so that completions come in the
//! order that the tenant expects.

use super::dispatcher::Dispatcher;
use super::message::{Notice, Refusal, Slot};
use super::operation::{CopyWork, LaunchWork, Operation, Verdict, Work};
use super::port::TenantPort;
use crate::device::{Device, Direction, PARAM_BYTES, Params};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::{Opcode, Status, SubmissionEntry};
use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;

/// Bytes of a rewritten kernel's control struct.
const CONTROL_BYTES: usize = 64;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Admits at most `limit` submissions of a tenant; returns how many.
    pub(super) fn admit_from(&mut self, slot: Slot, limit: usize) -> usize {
        let mut admitted = 0;
        while admitted < limit {
            let Some(tenant) = self.tenants.get_mut(slot) else { break };
            if tenant.leaving || !tenant.operations.has_room() {
                break;
            }
            match tenant.port.pop() {
                Ok(Some(entry)) => self.admit(slot, &entry),
                Ok(None) => break,
                Err(error) => {
                    tenant.leaving = true;
                    self.notify(Notice::Corrupt(slot, error.summary()));
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
        let Some(tenant) = self.tenants.get_mut(slot) else { return };
        let stream = match tenant.streams.get(usize::from(entry.stream)) {
            Some(Some(_)) => entry.stream,
            _ => 0,
        };
        let (work, verdict) = match work {
            Ok(work) => (work, Verdict::Good),
            Err(refusal) => {
                let cookie = entry.cookie;
                let tenant_id = tenant.tenant;
                self.notify(Notice::Refused { tenant: tenant_id, cookie, reason: refusal });
                (Work::Marker, Verdict::Refused(Status::Invalid as u32))
            }
        };
        let wall_ns = self.wall_now_ns;
        let operation = Operation {
            stream,
            sequence,
            cookie: entry.cookie,
            // The stamp is the tenant's and may lie: it is never later than now.
            submitted_wall_ns: entry.submit_ns.min(wall_ns),
            issued_wall_ns: 0,
            admitted: now,
            first_start: None,
            last_end: now,
            in_flight: 0,
            verdict,
            work,
        };
        let Some(tenant) = self.tenants.get_mut(slot) else { return };
        let Some(id) = tenant.operations.insert(&operation) else { return };
        let was_empty = match &mut tenant.streams[usize::from(stream)] {
            Some(queue) => {
                let empty = queue.front().is_none();
                queue.push(id);
                empty
            }
            None => return,
        };
        tenant.counters.admitted();
        let tenant_id = tenant.tenant;
        if !tenant.busy {
            tenant.busy = true;
            self.meter.set_busy(tenant_id, true, now);
        }
        self.trace_admission(tenant_id.0, &operation);
        if let Work::Launch(launch) = &operation.work {
            let event = Event::Arrive {
                kernel: launch.class,
                tenant: tenant_id,
                launch: sequence,
                blocks: launch.blocks,
                block: self.classes.shape(launch.class),
                at: now,
            };
            self.tell_policy(event);
        }
        if was_empty {
            self.activate(slot, id, sequence);
        }
    }

    fn trace_admission(&self, tenant: u32, operation: &Operation) {
        let kernel = match &operation.work {
            Work::Launch(launch) => launch.handle,
            Work::Copy(_) | Work::Marker => u32::MAX,
        };
        let args = |time_ns| ProbeArgs { tenant, device: self.device_id.0, kernel, seq: operation.sequence, time_ns };
        probes::submit(args(operation.submitted_wall_ns));
        probes::admit(args(operation.admitted.0));
    }

    fn decode(&mut self, slot: Slot, entry: &SubmissionEntry) -> Result<Work, Refusal> {
        let opcode = Opcode::try_from(entry.opcode).map_err(|_| Refusal::Opcode(entry.opcode))?;
        let tenant = self.tenants.get_mut(slot).ok_or(Refusal::Stream(entry.stream))?;
        if !matches!(tenant.streams.get(usize::from(entry.stream)), Some(Some(_))) {
            return Err(Refusal::Stream(entry.stream));
        }
        match opcode {
            Opcode::Barrier => Ok(Work::Marker),
            Opcode::CopyToDevice | Opcode::CopyFromDevice => {
                let copy = entry.copy();
                let (buffer, buffer_offset) = tenant
                    .find_mapping(copy.iova, copy.bytes)
                    .ok_or(Refusal::Mapping { iova: copy.iova, bytes: copy.bytes })?;
                let direction = if opcode == Opcode::CopyToDevice {
                    Direction::ToDevice
                } else {
                    Direction::FromDevice
                };
                let address = copy.device_address;
                Ok(Work::Copy(CopyWork { direction, buffer, buffer_offset, address, bytes: copy.bytes, issued: false }))
            }
            Opcode::Launch => self.decode_launch(slot, entry),
        }
    }

    fn decode_launch(&mut self, slot: Slot, entry: &SubmissionEntry) -> Result<Work, Refusal> {
        let launch = entry.launch();
        let tenant = self.tenants.get_mut(slot).ok_or(Refusal::Stream(entry.stream))?;
        let handle = launch.kernel;
        let kernel = usize::try_from(handle)
            .ok()
            .and_then(|i| tenant.kernels.get(i)?.as_ref())
            .ok_or(Refusal::Kernel(handle))?;
        let block = launch.block.map(u32::from);
        let blocks = check_grid(launch.grid)?;
        let threads = check_block(block, kernel.loaded.max_threads_per_block)?;
        let wants = kernel.loaded.params_bytes;
        if wants != u32::from(launch.args_len) {
            return Err(Refusal::Params { wants, has: u32::from(launch.args_len) });
        }
        let mut params = Params::EMPTY;
        let total = usize::try_from(wants).unwrap_or(usize::MAX);
        let area = Refusal::ArgumentArea { offset: launch.args_offset, len: wants };
        if total > PARAM_BYTES - CONTROL_BYTES {
            return Err(area);
        }
        let bytes = params.resize(total).ok_or(area)?;
        tenant.port.read_args(launch.args_offset, bytes).map_err(|_| area)?;
        let shape = kernel.loaded.block_shape(threads, launch.dynamic_shared_bytes.min(1 << 24));
        let limits = &self.shape;
        if u64::from(shape.shared_bytes) > u64::from(limits.shared_bytes) {
            return Err(Refusal::SharedMemory { wants: shape.shared_bytes.into(), has: limits.shared_bytes.into() });
        }
        if u64::from(shape.registers) > u64::from(limits.registers) {
            return Err(Refusal::Registers { wants: shape.registers.into(), has: limits.registers.into() });
        }
        let (device_kernel, control_offset, class) = (kernel.loaded.id, kernel.control_offset, kernel.class);
        let class = self.classes.claim(class, slot, shape).ok_or(Refusal::Classes(self.classes.capacity()))?;
        if let Some(Some(kernel)) = self.tenants.get_mut(slot).and_then(|t| t.kernels.get_mut(handle as usize)) {
            kernel.class = Some(class);
        }
        Ok(Work::Launch(LaunchWork {
            class,
            handle,
            kernel: device_kernel,
            grid: launch.grid,
            block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            blocks,
            issued: 0,
            control_offset,
            params,
        }))
    }

    /// Hands an event to the policy; a full queue is made good by [`Event::Lost`] later.
    pub(super) fn tell_policy(&mut self, event: Event) {
        self.policy.tell(event);
    }

    /// Device time now, as far as the dispatcher knows.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }
}

fn check_grid(grid: [u32; 3]) -> Result<u64, Refusal> {
    let [x, y, z] = grid;
    if x == 0 || y == 0 || z == 0 || x > 0x7fff_ffff || y > 65535 || z > 65535 {
        return Err(Refusal::Grid(x, y, z));
    }
    let blocks = u64::from(x) * u64::from(y) * u64::from(z);
    if blocks >= 1 << 32 { Err(Refusal::TooManyBlocks(x, y, z)) } else { Ok(blocks) }
}

fn check_block(block: [u32; 3], max_threads: u32) -> Result<u32, Refusal> {
    let [x, y, z] = block;
    let refusal = Refusal::Block(x, y, z, max_threads);
    if x == 0 || y == 0 || z == 0 || x > 1024 || y > 1024 || z > 64 {
        return Err(refusal);
    }
    let threads = x * y * z;
    if threads > max_threads { Err(refusal) } else { Ok(threads) }
}
