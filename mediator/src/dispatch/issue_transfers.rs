//! Handing pieces of copies and fills to the device, in the order of [`super::transfers`].

use super::dispatcher::Dispatcher;
use super::issue::Attempt;
use super::lanes::Flight;
use super::operation::Work;
use super::port::TenantPort;
use super::queue::Active;
use super::transfers::{Engine, PIECE_BYTES};
use crate::device::{
    Command, CopyCommand, Device, DeviceCopyCommand, DomainId, Level, MemsetCommand, Tag,
};

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Hands over what the engines have room for; returns whether anything was done.
    pub(super) fn issue_transfers(&mut self) -> bool {
        let mut worked = false;
        for engine in Engine::ALL {
            while let Some(active) = self.transfers.first(engine) {
                match self.is_issued(active) {
                    None => {
                        self.transfers.pop(engine);
                        self.accounts.change(active.tenant, -1, 0);
                        continue;
                    }
                    Some(true) => {
                        worked = true;
                        self.transfers.pop(engine);
                        self.accounts.change(active.tenant, -1, 0);
                        self.activate_more(active.slot, active.stream);
                        self.finish_if_over(active.slot, active.id);
                        continue;
                    }
                    Some(false) if !self.transfers.has_room(engine) => break,
                    Some(false) => {}
                }
                match self.try_issue(active) {
                    Attempt::Issued => worked = true,
                    Attempt::DeviceFull => break,
                    Attempt::Blocked | Attempt::NotItsTurn => {
                        self.transfers.pop(engine);
                        self.accounts.park(active);
                    }
                }
            }
        }
        worked
    }

    /// Hands the next piece of a transfer over.
    pub(super) fn issue_transfer(&mut self, active: Active) -> Attempt {
        let now = self.now;
        let wall_ns = self.issue_wall_ns();
        let Some(account) = self.accounts.get(active.tenant) else {
            return Attempt::NotItsTurn;
        };
        let weight = account.weight;
        let Some(client) = self.clients.get_mut(active.slot) else {
            return Attempt::NotItsTurn;
        };
        let domain = client.domain;
        let Some(operation) = client.operations.get_mut(active.id) else {
            return Attempt::NotItsTurn;
        };
        let engine = operation.work.engine();
        let Some((engine, (all, issued))) = engine.zip(progress(&mut operation.work)) else {
            return Attempt::NotItsTurn;
        };
        let bytes = (all - *issued).min(PIECE_BYTES);
        let flight = Flight {
            transfer: Some((engine, bytes)),
            ..Flight::new((active.slot, active.id), active.tenant, now)
        };
        let Some(tag) = self.lanes.take(flight, Level::LOWEST) else {
            return Attempt::DeviceFull;
        };
        let submitted = command(&operation.work, bytes, tag, domain)
            .is_some_and(|command| self.device.submit(&command, &[]).is_ok());
        if !submitted {
            self.lanes.release(tag, now);
            return Attempt::DeviceFull;
        }
        operation.in_flight += 1;
        if operation.issued_wall_ns == 0 {
            operation.issued_wall_ns = wall_ns;
        }
        if let Some((_, issued)) = progress(&mut operation.work) {
            *issued += bytes;
        }
        self.accounts.change(active.tenant, 0, 1);
        self.transfers
            .handed_over(engine, bytes, active.tenant, weight);
        Attempt::Issued
    }
}

/// Returns a transfer's length and how much of it was handed over, both in bytes.
fn progress(work: &mut Work) -> Option<(u64, &mut u64)> {
    match work {
        Work::Copy(copy) => Some((copy.bytes, &mut copy.issued)),
        Work::DeviceCopy(copy) => Some((copy.bytes, &mut copy.issued)),
        Work::Memset(memset) => Some((memset.bytes, &mut memset.issued)),
        Work::Launch(_) | Work::Marker | Work::Wait { .. } | Work::Hold { .. } => None,
    }
}

fn command(work: &Work, bytes: u64, tag: Tag, domain: DomainId) -> Option<Command> {
    match work {
        Work::Copy(copy) => Some(Command::Copy(CopyCommand {
            tag,
            domain,
            direction: copy.direction,
            buffer: copy.buffer,
            buffer_offset: copy.buffer_offset + copy.issued,
            address: copy.address.checked_add(copy.issued)?,
            bytes,
            rest_bytes: copy.bytes - copy.issued - bytes,
        })),
        Work::DeviceCopy(copy) => Some(Command::DeviceCopy(DeviceCopyCommand {
            tag,
            domain,
            from: copy.from.checked_add(copy.issued)?,
            to: copy.to.checked_add(copy.issued)?,
            bytes,
            rest_bytes: copy.bytes - copy.issued - bytes,
        })),
        Work::Memset(memset) => Some(Command::Memset(MemsetCommand {
            tag,
            domain,
            address: memset.address.checked_add(memset.issued)?,
            bytes,
            rest_bytes: memset.bytes - memset.issued - bytes,
            value: memset.value,
            width: memset.width,
        })),
        Work::Launch(_) | Work::Marker | Work::Wait { .. } | Work::Hold { .. } => None,
    }
}
