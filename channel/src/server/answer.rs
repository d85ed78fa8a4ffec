//! One command in, one answer out: the dispatch from the codec to the handler.

use super::handler::Handler;
use crate::wire::device::{IndexQuery, IoEventFd, IrqSet};
use crate::wire::transfer::{DmaMap, DmaUnmap, RegionAccess};
use crate::wire::version::Version;
use crate::wire::{Command, MAX_MESSAGE_FDS};
use nix::errno::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use zerocopy::IntoBytes;

/// The payload of a successful reply.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) payload: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

impl Answer {
    fn bytes(payload: impl Into<Vec<u8>>) -> Self {
        Self {
            payload: payload.into(),
            fds: Vec::new(),
        }
    }
}

pub(super) fn version(payload: &[u8]) -> Result<Answer, Errno> {
    let agreed = Version::parse(payload).and_then(|proposed| proposed.negotiate());
    Ok(Answer::bytes(agreed.map_err(|_| Errno::EINVAL)?.encode()))
}

/// Executes `command`. Descriptors that it does not take are closed.
pub(super) fn command(
    command: Command,
    payload: &[u8],
    fds: Vec<OwnedFd>,
    handler: &mut impl Handler,
) -> Result<Answer, Errno> {
    let most = match command {
        Command::DmaMap => 1,
        Command::DeviceSetIrqs => MAX_MESSAGE_FDS,
        _ => 0,
    };
    if fds.len() > most {
        return Err(Errno::EINVAL);
    }
    match command {
        Command::DmaMap => dma_map(payload, fds, handler),
        Command::DmaUnmap => dma_unmap(payload, handler),
        Command::DeviceGetInfo => Ok(Answer::bytes(handler.device_info().as_bytes())),
        Command::DeviceGetRegionInfo => region_info(payload, handler),
        Command::DeviceGetRegionIoFds => io_fds(payload, handler),
        Command::DeviceGetIrqInfo => irq_info(payload, handler),
        Command::DeviceSetIrqs => set_irqs(payload, fds, handler),
        Command::RegionRead => region_read(payload, handler),
        Command::RegionWrite => region_write(payload, handler),
        Command::DeviceReset => handler.reset().map(|()| Answer::default()),
        // Server-to-client commands, and optional ones that we do not offer.
        _ => Err(Errno::ENOSYS),
    }
}

fn dma_map(payload: &[u8], fds: Vec<OwnedFd>, handler: &mut impl Handler) -> Result<Answer, Errno> {
    let request = DmaMap::parse(payload).map_err(|_| Errno::EINVAL)?;
    handler.dma_map(&request, fds.into_iter().next())?;
    Ok(Answer::default())
}

fn dma_unmap(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let request = DmaUnmap::parse(payload).map_err(|_| Errno::EINVAL)?;
    handler.dma_unmap(&request)?;
    Ok(Answer::bytes(request.as_bytes()))
}

fn region_info(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let query = IndexQuery::parse(payload).map_err(|_| Errno::EINVAL)?;
    let description = handler.region_info(query.index)?;
    let full = description.encode(query.index, u32::MAX).len();
    let mut answer = Answer::bytes(description.encode(query.index, query.argsz));
    // A peer that asked for too little asks again: the descriptor goes with
    // the full reply alone.
    if description.mappable && answer.payload.len() == full {
        let fd = handler.region_fd(query.index).ok_or(Errno::EIO)?;
        answer.fds.push(duplicate(fd)?);
    }
    Ok(answer)
}

fn io_fds(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let query = IndexQuery::parse(payload).map_err(|_| Errno::EINVAL)?;
    if query.flags != 0 || query.count != 0 {
        return Err(Errno::EINVAL);
    }
    let list = handler.io_fds(query.index)?;
    let list = &list[..list.len().min(MAX_MESSAGE_FDS)];
    let wire: Vec<IoEventFd> = (0..)
        .zip(list)
        .map(|(i, io)| IoEventFd::new(io.offset, io.size, i))
        .collect();
    let full = IoEventFd::encode_all(query.index, u32::MAX, &wire).len();
    let mut answer = Answer::bytes(IoEventFd::encode_all(query.index, query.argsz, &wire));
    if answer.payload.len() == full {
        answer.fds = list
            .iter()
            .map(|io| duplicate(io.fd))
            .collect::<Result<_, _>>()?;
    }
    Ok(answer)
}

fn irq_info(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let query = IndexQuery::parse(payload).map_err(|_| Errno::EINVAL)?;
    let info = handler.irq_info(query.index)?;
    let reply = IndexQuery {
        argsz: 16,
        flags: info.flags,
        index: query.index,
        count: info.count,
    };
    Ok(Answer::bytes(reply.as_bytes()))
}

fn set_irqs(
    payload: &[u8],
    fds: Vec<OwnedFd>,
    handler: &mut impl Handler,
) -> Result<Answer, Errno> {
    let (request, data) = IrqSet::parse(payload).map_err(|_| Errno::EINVAL)?;
    handler.set_irqs(&request, data, fds)?;
    Ok(Answer::default())
}

fn region_read(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let access = RegionAccess::parse_read(payload).map_err(|_| Errno::EINVAL)?;
    check_bounds(&access, handler)?;
    let head = size_of::<RegionAccess>();
    let mut reply = vec![0; head + access.count as usize];
    reply[..head].copy_from_slice(access.as_bytes());
    handler.region_read(access.region, access.offset, &mut reply[head..])?;
    Ok(Answer::bytes(reply))
}

fn region_write(payload: &[u8], handler: &mut impl Handler) -> Result<Answer, Errno> {
    let (access, data) = RegionAccess::parse_data(payload).map_err(|_| Errno::EINVAL)?;
    check_bounds(&access, handler)?;
    handler.region_write(access.region, access.offset, data)?;
    Ok(Answer::bytes(access.as_bytes()))
}

fn check_bounds(access: &RegionAccess, handler: &impl Handler) -> Result<(), Errno> {
    let size = handler.region_info(access.region)?.size_bytes;
    match access.offset.checked_add(u64::from(access.count)) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    fd.try_clone_to_owned()
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EMFILE as i32)))
}
