//! Handing pieces of copies and fills to the device, in the order of [`super::transfers`].

use super::Issuer;
use super::lanes::Flight;
use super::piece::Attempt;
use super::queue::Active;
use super::transfers::PIECE_BYTES;
use crate::device::{
    Command, CopyCommand, Device, DeviceCopyCommand, DomainId, Level, MemsetCommand, Tag,
};
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::admission::operation::Work;
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::feed::why::Why;
use gridmux_policy::units::Nanos;

impl<D: Device> Issuer<D> {
    /// Hands the next piece of a transfer over.
    pub(super) fn issue_transfer<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        active: Active,
        now: Nanos,
    ) -> Attempt {
        let wall_ns = self.issue_wall_ns();
        let client = clients.get_mut(active.slot);
        let Some((account, client)) = feed.accounts.get(active.tenant).zip(client) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let (weight, domain) = (account.weight, client.domain);
        let Some(operation) = client.operations.get_mut(active.id) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let engine = operation.work.engine();
        let Some((engine, (all, issued))) = engine.zip(progress(&mut operation.work)) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let bytes = (all - *issued).min(PIECE_BYTES);
        let flight = Flight {
            transfer: Some((engine, bytes)),
            ..Flight::new(active.op(), active.tenant, now)
        };
        let Some(tag) = self.lanes.take(flight, Level::LOWEST) else {
            return Attempt::DeviceFull(Why::Queues);
        };
        let submitted = command(&operation.work, bytes, tag, domain)
            .is_some_and(|command| self.device.submit(&command, &[]).is_ok());
        if !submitted {
            self.lanes.release(tag);
            return Attempt::DeviceFull(Why::Queues);
        }
        operation.note_issued_piece(wall_ns);
        if let Some((_, issued)) = progress(&mut operation.work) {
            *issued += bytes;
        }
        feed.accounts.change(active.tenant, 0, 1);
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
