//! Reports of the device: what they mean for slices, operations, accounting, the policy and the tenant.

use super::dispatcher::Dispatcher;
use super::message::{Notice, Slot};
use super::operation::{Operation, OperationId, Work};
use super::port::TenantPort;
use super::samples::LaunchSample;
use crate::device::{Command, Device, Outcome, Report, Tag};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::{CompletionEntry, CompletionStatus, PushError};
use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn take_reports(&mut self) -> bool {
        let mut worked = false;
        while let Some(report) = self.device.poll() {
            worked = true;
            match report {
                Report::Placed { tag, blocks, at } => self.placed(tag, blocks, at),
                Report::Retired {
                    tag,
                    blocks,
                    ran,
                    at,
                } => self.retired(tag, blocks, ran, at),
                Report::Ended {
                    tag,
                    start,
                    end,
                    outcome,
                } => self.ended(tag, start, end, outcome),
                Report::Paused { at } => {
                    self.now = self.now.max(at);
                    self.permit_out = false;
                    self.tick(at);
                }
            }
        }
        worked
    }

    /// Tells the policy that the time it asked to be woken at has come.
    fn tick(&mut self, at: Nanos) {
        if self.policy.wake_at().is_some_and(|wake| wake <= at) {
            self.tell_policy(Event::Timer { at });
        }
    }

    fn placed(&mut self, tag: Tag, blocks: u32, at: Nanos) {
        self.now = self.now.max(at);
        let Some(flight) = self.lanes.get_mut(tag) else {
            return;
        };
        flight.resident += blocks;
        let (slot, id) = (flight.slot, flight.operation);
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        let tenant_id = tenant.tenant;
        let Some(operation) = tenant.operations.get_mut(id) else {
            return;
        };
        operation.first_start.get_or_insert(at);
        if let Work::Launch(launch) = &operation.work {
            let (kernel, share, launch) = (launch.class, launch.share, operation.sequence);
            self.meter.placed(tenant_id, share, blocks, at);
            self.tell_policy(Event::Placed {
                kernel,
                launch,
                n: blocks,
                at,
            });
        }
    }

    fn retired(&mut self, tag: Tag, blocks: u32, ran: Nanos, at: Nanos) {
        self.now = self.now.max(at);
        let Some(flight) = self.lanes.get_mut(tag) else {
            return;
        };
        let blocks = blocks.min(flight.resident);
        flight.resident -= blocks;
        let (slot, id) = (flight.slot, flight.operation);
        self.count_retired(slot, id, blocks, ran, at);
    }

    fn count_retired(&mut self, slot: Slot, id: OperationId, blocks: u32, ran: Nanos, at: Nanos) {
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        tenant.counters.retired(blocks, ran);
        let tenant_id = tenant.tenant;
        let Some(Operation {
            work: Work::Launch(launch),
            sequence,
            ..
        }) = tenant.operations.get(id)
        else {
            return;
        };
        let (kernel, share, launch) = (launch.class, launch.share, *sequence);
        self.meter.retired(tenant_id, share, blocks, at);
        self.tell_policy(Event::Retired {
            kernel,
            launch,
            n: blocks,
            ran_sum_ns: ran.0,
            at,
        });
    }

    fn ended(&mut self, tag: Tag, start: Nanos, end: Nanos, outcome: Outcome) {
        self.now = self.now.max(end);
        let Some(flight) = self.lanes.release(tag) else {
            return;
        };
        if flight.resident > 0 {
            // A killed or failed slice: its blocks vanish with it.
            self.count_retired(
                flight.slot,
                flight.operation,
                flight.resident,
                Nanos(0),
                end,
            );
        }
        let Some(tenant) = self.tenants.get_mut(flight.slot) else {
            return;
        };
        let tenant_id = tenant.tenant;
        let Some(operation) = tenant.operations.get_mut(flight.operation) else {
            return;
        };
        operation.in_flight -= 1;
        let first = operation.first_start.get_or_insert(start);
        *first = (*first).min(start);
        operation.last_end = operation.last_end.max(end);
        let cookie = operation.cookie;
        let fresh_failure = match outcome {
            Outcome::Failed(status) if operation.status == CompletionStatus::Ok => {
                operation.status = status;
                true
            }
            Outcome::Failed(_) | Outcome::Done | Outcome::Killed => false,
        };
        let sequence = operation.sequence;
        let over = operation.is_over();
        match &operation.work {
            Work::Launch(launch) => {
                let class = launch.class;
                let handle = launch.handle;
                let times = (outcome == Outcome::Done).then_some((flight.issued, start, end));
                self.classes.ended(class, flight.blocks, times);
                let args = ProbeArgs {
                    tenant: tenant_id.0,
                    device: self.device_id.0,
                    kernel: handle,
                    seq: sequence,
                    time_ns: end.0,
                };
                probes::slice_end(args, flight.first_block, u64::from(flight.blocks));
            }
            Work::Copy(copy) => {
                let bytes = copy.bytes;
                tenant.counters.copied(bytes);
            }
            Work::Memset(_) | Work::Marker => {}
        }
        if fresh_failure {
            self.notify(Notice::Failed {
                tenant: tenant_id,
                cookie,
                tag,
            });
            self.kill_slices(flight.slot, flight.operation);
        }
        if over {
            self.finish(flight.slot, flight.operation);
        }
        self.finish_leave(flight.slot);
    }

    fn kill_slices(&mut self, slot: Slot, id: OperationId) {
        let mut tags = [None; crate::device::LANES];
        for (place, tag) in tags.iter_mut().zip(self.lanes.tags_of(slot)) {
            *place = Some(tag);
        }
        for tag in tags.into_iter().flatten() {
            if self
                .lanes
                .get_mut(tag)
                .is_some_and(|flight| flight.operation == id)
            {
                self.kill(tag);
            }
        }
    }

    fn kill(&mut self, tag: Tag) {
        *self.scratch = Command::Kill(tag);
        // A full command queue only delays: the slice then ends by itself or by its budget.
        let _ = self.device.submit(&self.scratch);
    }

    /// Completes an operation that is over, if its tenant has room for the completion, and lets the next operation
    /// of its stream go.
    pub(super) fn finish(&mut self, slot: Slot, id: OperationId) {
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        let Some(operation) = tenant.operations.get(id) else {
            return;
        };
        let operation = *operation;
        if tenant.leaving {
            return;
        }
        let start = operation.first_start.unwrap_or(operation.last_end);
        let entry = CompletionEntry::new(
            operation.cookie,
            operation.status,
            start.0,
            operation.last_end.0,
        );
        match tenant.port.complete(entry) {
            Ok(()) => {}
            Err(PushError::Corrupt(why)) => {
                tenant.leaving = true;
                tenant.port.close();
                self.notify(Notice::Corrupt(slot, why));
                return;
            }
            Err(_) => {
                tenant.backlog = true;
                return;
            }
        }
        tenant.port.wake();
        self.hold.completed(slot);
        tenant.operations.remove(id);
        // A launch that failed before all of it was issued is still on the list; its id may be used again at once.
        self.active
            .retain(|active| (active.slot, active.id) != (slot, id));
        tenant
            .counters
            .completed(operation.status == CompletionStatus::Ok);
        let tenant_id = tenant.tenant;
        let next = tenant.streams[usize::from(operation.stream)]
            .as_mut()
            .and_then(|stream| {
                stream.pop();
                stream.front()
            });
        if matches!(operation.work, Work::Launch(_)) {
            tenant.open_launches -= 1;
            if tenant.open_launches == 0 {
                self.meter.set_busy(tenant_id, false, self.now);
            }
        }
        self.publish_shares();
        self.record(slot, &operation);
        if let Some(next) = next {
            self.activate(slot, next);
        }
    }

    fn record(&mut self, slot: Slot, operation: &Operation) {
        let Some(tenant) = self.tenants.get(slot) else {
            return;
        };
        let tenant_id = tenant.tenant;
        let kernel = match &operation.work {
            Work::Launch(launch) => launch.handle,
            Work::Copy(_) | Work::Memset(_) | Work::Marker => u32::MAX,
        };
        let start = operation.first_start.unwrap_or(operation.last_end);
        let to_start = start - operation.admitted;
        let to_complete = operation.last_end - operation.admitted;
        let args = ProbeArgs {
            tenant: tenant_id.0,
            device: self.device_id.0,
            kernel,
            seq: operation.sequence,
            time_ns: operation.last_end.0,
        };
        probes::complete(args, to_start.0, to_complete.0);
        let Work::Launch(launch) = &operation.work else {
            return;
        };
        self.tell_policy(Event::Ended {
            kernel: launch.class,
            launch: operation.sequence,
            at: operation.last_end,
        });
        if operation.status != CompletionStatus::Ok {
            return;
        }
        let Some(tenant) = self.tenants.get(slot) else {
            return;
        };
        self.samples.record(
            &tenant.counters,
            &LaunchSample {
                tenant: tenant_id,
                device: self.device_id,
                submit_to_start: to_start,
                submit_to_complete: to_complete,
                wall_submit_to_issue_ns: operation
                    .issued_wall_ns
                    .saturating_sub(operation.submitted_wall_ns),
            },
        );
    }

    fn publish_shares(&mut self) {
        let all_busy = Nanos(self.meter.all_busy_ns());
        for index in 0..self.tenants.len() {
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            if let Some(tenant) = self.tenants.get(slot) {
                tenant
                    .counters
                    .share(self.meter.share_of(tenant.tenant), all_busy);
            }
        }
    }

    /// Tries again to hand over completions that found the tenant's ring full.
    pub(super) fn flush_backlogs(&mut self) -> bool {
        let mut worked = false;
        for index in 0..self.tenants.len() {
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            let Some(tenant) = self.tenants.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut tenant.backlog) {
                continue;
            }
            for stream in 0..tenant.streams.len() {
                let Some(tenant) = self.tenants.get(slot) else {
                    break;
                };
                let front = tenant.streams[stream]
                    .as_ref()
                    .and_then(super::tenant::Stream::front);
                let over =
                    front.filter(|id| tenant.operations.get(*id).is_some_and(Operation::is_over));
                if let Some(id) = over {
                    let before = tenant.operations.len();
                    self.finish(slot, id);
                    worked |= self
                        .tenants
                        .get(slot)
                        .is_some_and(|t| t.operations.len() < before);
                }
            }
        }
        worked
    }

    /// Stops serving a tenant and kills what it has in flight.
    pub(super) fn begin_leave(&mut self, slot: Slot) {
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        tenant.leaving = true;
        tenant.told_to_leave = true;
        self.active.retain(|active| active.slot != slot);
        // The policy must not hear of an arrival after it heard that the tenant left.
        self.arrivals.retain(|(arrived, _, _, _)| *arrived != slot);
        let mut tags = [None; crate::device::LANES];
        for (place, tag) in tags.iter_mut().zip(self.lanes.tags_of(slot)) {
            *place = Some(tag);
        }
        for tag in tags.into_iter().flatten() {
            self.kill(tag);
        }
        self.finish_leave(slot);
    }

    /// Hands a leaving tenant back to the control thread once nothing of it is in flight.
    fn finish_leave(&mut self, slot: Slot) {
        let told = self
            .tenants
            .get(slot)
            .is_some_and(|tenant| tenant.told_to_leave);
        if !told || self.lanes.held_by(slot) > 0 {
            return;
        }
        let Some(tenant) = self.tenants.remove(slot) else {
            return;
        };
        self.classes.release(slot);
        self.hold.release(slot);
        self.meter.leave(tenant.tenant, self.now);
        self.tell_policy(Event::TenantLeft {
            tenant: tenant.tenant,
        });
        self.publish_shares();
        self.notify(Notice::Gone(slot, tenant));
    }
}
