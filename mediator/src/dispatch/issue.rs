//! The issue pass: which operations go to the device now, and in slices of how many blocks.
//!
//! The plan's cap of a row, times the SMs of its groups, is how many of its blocks may be in flight; a slice ends
//! as a whole on stock hardware, so a row is kept full by several smaller slices in different hardware queues
//! rather than by one large one, and by a few more while launches take long against the slices themselves.
//!
//! Rules: operations go in the plan's fill order, equal ranks in order of admission; under a strict head of line
//! nothing overtakes; a kernel that cannot be sliced goes whole as soon as its row has any room; no tenant takes
//! more hardware queues than its equal part while others have something to issue.

use super::dispatcher::{Active, Dispatcher, wall_ns};
use super::lanes::Flight;
use super::message::Slot;
use super::operation::{LaunchWork, Operation, OperationId, Work};
use super::policy_link::RowView;
use super::port::TenantPort;
use crate::device::{Command, CopyCommand, Device, LANES, LaunchCommand, MemsetCommand, Tag};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_policy::units::Nanos;
use gridmux_ptx::boxes::{Grid, SubBox, next_box};
use gridmux_ptx::control::Control;

/// Slices that a full row is cut into.
const SLICES_PER_ROW: u32 = 6;

/// What came of trying to issue one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// Something was issued.
    Issued,
    /// Its row is exhausted: under a strict head of line nothing overtakes it.
    Blocked,
    /// Its tenant holds its part of the hardware queues; others may go on.
    OverQuota,
    /// The device takes nothing more at present.
    DeviceFull,
}

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn issue(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.sort_active();
        let lanes_each = self.lanes_each();
        let mut worked = false;
        let mut index = 0;
        while index < self.active.len() {
            let active = self.active[index];
            let mut last = Attempt::Issued;
            while last == Attempt::Issued && !self.is_issued(active) {
                last = self.try_issue(active, lanes_each);
                worked |= last == Attempt::Issued;
            }
            if self.is_issued(active) {
                worked = true;
                self.active.remove(index);
                self.finish_if_over(active);
                continue;
            }
            match last {
                Attempt::DeviceFull => break,
                Attempt::Blocked if self.policy.is_head_of_line() => break,
                Attempt::Issued | Attempt::Blocked | Attempt::OverQuota => index += 1,
            }
        }
        worked
    }

    /// Refreshes every operation's place in the plan's fill order.
    fn sort_active(&mut self) {
        self.policy.refresh();
        for active in &mut self.active {
            let Some(operation) = self
                .tenants
                .get(active.slot)
                .and_then(|t| t.operations.get(active.id))
            else {
                continue;
            };
            let rank = match &operation.work {
                Work::Launch(launch) => self.policy.rank(launch.class).saturating_add(1),
                // Copies and markers take no room on an SM; nothing is gained by keeping them back.
                Work::Copy(_) | Work::Memset(_) | Work::Marker => 0,
            };
            active.order = (rank, operation.admitted, active.slot, operation.sequence);
        }
        self.active.sort_unstable_by_key(|active| active.order);
    }

    /// The equal part of the hardware queues for each tenant with something to issue.
    fn lanes_each(&self) -> usize {
        let mut tenants = 0_u64;
        for active in &self.active {
            tenants |= 1 << active.slot.0;
        }
        for index in 0..self.tenants.len() {
            let slot = self.tenants.slot_at(index);
            if self.lanes.held_by(slot) > 0 {
                tenants |= 1 << slot.0;
            }
        }
        (LANES / (tenants.count_ones().max(1) as usize)).max(1)
    }

    fn is_issued(&self, active: Active) -> bool {
        self.tenants
            .get(active.slot)
            .and_then(|tenant| tenant.operations.get(active.id))
            .is_none_or(Operation::is_issued)
    }

    fn finish_if_over(&mut self, active: Active) {
        let over = self
            .tenants
            .get(active.slot)
            .and_then(|tenant| tenant.operations.get(active.id))
            .is_some_and(Operation::is_over);
        if over {
            self.finish(active.slot, active.id);
        }
    }

    fn try_issue(&mut self, active: Active, lanes_each: usize) -> Attempt {
        if self.lanes.free() == 0 {
            return Attempt::DeviceFull;
        }
        if self.lanes.held_by(active.slot) >= lanes_each {
            return Attempt::OverQuota;
        }
        let Some(tenant) = self.tenants.get(active.slot) else {
            return Attempt::Blocked;
        };
        let Some(operation) = tenant.operations.get(active.id) else {
            return Attempt::Blocked;
        };
        match &operation.work {
            Work::Launch(launch) => {
                let mut row = self.policy.row(launch.class);
                row.cap_total = self.classes.in_flight_for(launch.class, row.cap_total);
                let in_flight = self.classes.in_flight(launch.class);
                let Some(slice) = next_slice(launch, row, in_flight) else {
                    return Attempt::Blocked;
                };
                let first_block = launch.issued;
                self.issue_slice(active.slot, active.id, slice, first_block)
            }
            Work::Copy(_) | Work::Memset(_) => self.issue_transfer(active.slot, active.id),
            Work::Marker => Attempt::Blocked,
        }
    }

    fn issue_slice(
        &mut self,
        slot: Slot,
        id: OperationId,
        slice: SubBox,
        first_block: u64,
    ) -> Attempt {
        // A slice holds fewer than 2^32 blocks: larger grids are refused at admission.
        let blocks = u32::try_from(slice.blocks()).unwrap_or(u32::MAX);
        let Some(tag) = self.lanes.take(Flight {
            slot,
            operation: id,
            first_block,
            issued: self.now,
            blocks,
            resident: 0,
        }) else {
            return Attempt::DeviceFull;
        };
        let budget_cycles = self.budget_cycles;
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return Attempt::Blocked;
        };
        let domain = tenant.domain;
        let Some(Operation {
            work: Work::Launch(launch),
            ..
        }) = tenant.operations.get(id)
        else {
            return Attempt::Blocked;
        };
        let mut params = launch.params;
        if let Some(offset) = launch.control_offset {
            write_control(
                &mut params,
                offset,
                &Control {
                    offset: slice.offset,
                    grid: launch.grid,
                    ..Control::default()
                },
            );
        }
        *self.scratch = Command::Launch(LaunchCommand {
            tag,
            domain,
            kernel: launch.kernel,
            grid: slice.dims,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            budget_cycles,
            params,
        });
        if self.device.submit(&self.scratch).is_err() {
            self.lanes.release(tag);
            return Attempt::DeviceFull;
        }
        self.count_issued(slot, id, blocks);
        Attempt::Issued
    }

    fn count_issued(&mut self, slot: Slot, id: OperationId, blocks: u32) {
        let (now, wall_ns) = (self.now, wall_ns());
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        let tenant_id = tenant.tenant;
        tenant.counters.slice();
        let Some(operation) = tenant.operations.get_mut(id) else {
            return;
        };
        operation.in_flight += 1;
        if operation.issued_wall_ns == 0 {
            operation.issued_wall_ns = wall_ns;
        }
        let sequence = operation.sequence;
        if let Work::Launch(launch) = &mut operation.work {
            let first_block = launch.issued;
            launch.issued += u64::from(blocks);
            let (class, handle) = (launch.class, launch.handle);
            self.classes.issued(class, blocks);
            let args = ProbeArgs {
                tenant: tenant_id.0,
                device: self.device_id.0,
                kernel: handle,
                seq: sequence,
                time_ns: now.0,
            };
            probes::slice_start(args, first_block, u64::from(blocks));
        }
    }

    fn issue_transfer(&mut self, slot: Slot, id: OperationId) -> Attempt {
        let Some(tag) = self.lanes.take(Flight {
            slot,
            operation: id,
            first_block: 0,
            issued: self.now,
            blocks: 0,
            resident: 0,
        }) else {
            return Attempt::DeviceFull;
        };
        let wall_ns = wall_ns();
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return Attempt::Blocked;
        };
        let domain = tenant.domain;
        let Some(operation) = tenant.operations.get_mut(id) else {
            return Attempt::Blocked;
        };
        let Some(command) = transfer_command(&operation.work, tag, domain) else {
            return Attempt::Blocked;
        };
        *self.scratch = command;
        if self.device.submit(&self.scratch).is_err() {
            self.lanes.release(tag);
            return Attempt::DeviceFull;
        }
        operation.in_flight += 1;
        operation.issued_wall_ns = wall_ns;
        match &mut operation.work {
            Work::Copy(copy) => copy.issued = true,
            Work::Memset(memset) => memset.issued = true,
            Work::Launch(_) | Work::Marker => {}
        }
        Attempt::Issued
    }

    /// Lets virtual time pass once nobody has anything to add at this instant.
    pub(super) fn give_permit(&mut self) -> bool {
        if !self.device.is_timed() || self.permit_out || !self.lanes.any_busy() {
            return false;
        }
        if !self.policy.is_caught_up() || self.hold.holds(&mut self.tenants, self.wall_now_ns) {
            return false;
        }
        let until = self
            .policy
            .wake_at()
            .filter(|wake| *wake > self.now)
            .unwrap_or(Nanos(u64::MAX));
        *self.scratch = Command::Permit { until };
        self.permit_out = self.device.submit(&self.scratch).is_ok();
        self.permit_out
    }
}

/// The next slice of a launch: as much as its row allows, in the sizes that keep the row full.
fn next_slice(launch: &LaunchWork, row: RowView, in_flight: u32) -> Option<SubBox> {
    let left = launch.blocks - launch.issued;
    let whole = u32::try_from(left).unwrap_or(u32::MAX);
    let most = if launch.control_offset.is_none() || row.is_uncapped {
        if row.cap_total == 0 || (in_flight >= row.cap_total && !row.is_uncapped) {
            return None;
        }
        whole
    } else {
        let allowance = row
            .cap_total
            .saturating_sub(in_flight)
            .min(row.budget.unwrap_or(u32::MAX));
        // What fits under the cap as it is goes in one piece: a slice costs a launch.
        let quantum = (row.cap_total / SLICES_PER_ROW).max(1);
        if allowance == 0 || (allowance < quantum.min(whole) && in_flight > 0) {
            return None;
        }
        if whole <= allowance {
            whole
        } else {
            quantum.min(allowance)
        }
    };
    Some(next_box(Grid(launch.grid), launch.issued, most.max(1)))
}

fn transfer_command(work: &Work, tag: Tag, domain: crate::device::DomainId) -> Option<Command> {
    match work {
        Work::Copy(copy) => Some(Command::Copy(CopyCommand {
            tag,
            domain,
            direction: copy.direction,
            buffer: copy.buffer,
            buffer_offset: copy.buffer_offset,
            address: copy.address,
            bytes: copy.bytes,
        })),
        Work::Memset(memset) => Some(Command::Memset(MemsetCommand {
            tag,
            domain,
            address: memset.address,
            bytes: memset.bytes,
            value: memset.value,
        })),
        Work::Launch(_) | Work::Marker => None,
    }
}

/// Appends the control struct to the tenant's parameters, at the offset that the rewriter chose.
fn write_control(params: &mut crate::device::Params, offset: u32, control: &Control) {
    let bytes = control.to_bytes();
    let start = offset as usize;
    // The offset follows the tenant's own parameters, which are at most 4096 bytes, so there is always room.
    if let Some(all) = params.resize(start + bytes.len()) {
        all[start..].copy_from_slice(&bytes);
    }
}
