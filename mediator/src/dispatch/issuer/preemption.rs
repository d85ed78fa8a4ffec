//! Preemption as it is seen: who gave way, for how long, and how long the other one waited for the room.
//!
//! A piece that goes to the device above another tenant's blocks preempts these: the hardware gives it the room that
//! comes free next. Its *preemption latency* is from that decision to its first block. A launch that has begun is
//! preempted from the first block of such a piece, while blocks of its own wait below, or from when the plan has it
//! give room up, until a block of it starts again.
//!
//! Rule: a piece counts once, at its first block; where nothing of others was on the device below it, it preempts
//! nobody.

use super::Issuer;
use super::lanes::Flight;
use crate::device::{Device, LANES, Level, MOST_DEPTH};
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::admission::operation::Work;
use crate::dispatch::feed::accounts::Accounts;
use crate::dispatch::ids::OperationRef;
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;

impl<D: Device> Issuer<D> {
    /// Returns whether a piece of a tenant takes room from others that are on the device below a level.
    pub(super) fn preempts(&self, level: Level, tenant: TenantId) -> bool {
        let mut below = self
            .lanes
            .first_flights()
            .filter(|(other, _)| *other < level);
        level > Level::LOWEST && below.any(|(_, flight)| flight.tenant != tenant)
    }

    /// Takes note of the first block of a piece that preempts others.
    pub(in crate::dispatch) fn note_preemption<P>(
        &self,
        clients: &mut ClientTable<P>,
        accounts: &Accounts,
        (level, flight): (Level, &Flight),
        at: Nanos,
    ) {
        let latency = at - flight.issued;
        if let Some(account) = accounts.get(flight.tenant) {
            account.counters.preemption_latency().add(latency.0);
        }
        let mut victims = [None; LANES * MOST_DEPTH];
        let waiting = self.lanes.waiting().filter(|(below, _)| *below < level);
        let others = waiting.filter(|(_, other)| other.tenant != flight.tenant);
        for ((_, other), place) in others.zip(&mut victims) {
            *place = Some(other.op);
        }
        for op in victims.into_iter().flatten() {
            self.note_preempted(clients, op, latency, at);
        }
    }

    /// Records that a launch that has begun is preempted; `latency` is the preemption latency of the piece that takes
    /// its room, 0 where there is none yet.
    pub(super) fn note_preempted<P>(
        &self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        latency: Nanos,
        at: Nanos,
    ) {
        self.change_preempted(clients, op, (Some(at), at), |args, left, _| {
            probes::preempt(args, left, latency.0);
        });
    }

    /// Takes note that a block of a launch started, if that was preempted.
    pub(in crate::dispatch) fn note_resumed<P>(
        &self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        at: Nanos,
    ) {
        self.change_preempted(clients, op, (None, at), |args, left, since| {
            probes::resume(args, left, (at - since).0);
        });
    }

    fn change_preempted<P>(
        &self,
        clients: &mut ClientTable<P>,
        op: OperationRef,
        (preempted, at): (Option<Nanos>, Nanos),
        tell: impl FnOnce(ProbeArgs, u64, Nanos),
    ) {
        let Some((tenant, operation)) = clients.operation_mut(op) else {
            return;
        };
        let Work::Launch(launch) = &mut operation.work else {
            return;
        };
        if launch.started == 0 || launch.preempted.is_some() == preempted.is_some() {
            return;
        }
        let since = std::mem::replace(&mut launch.preempted, preempted);
        let left = launch.blocks - launch.started;
        let args = operation.probe_args(tenant, self.device_id, at.0);
        tell(args, left, since.unwrap_or(at));
    }
}
