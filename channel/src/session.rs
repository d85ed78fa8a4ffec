//! The tenant's end of a vfio-user connection: one command at a time, blocking.
//!
//! The tenant trusts the mediator with its data, but still checks every reply,
//! so that a version mismatch is an error and not nonsense.

use crate::control::{ControlCodecError, ControlError, ControlReply, ControlRequest};
use crate::memory::Protection;
use crate::regions::{self, REGION_CONTROL};
use crate::socket;
use crate::wire::device::{DeviceInfo, IndexQuery, IoEventFd, RegionDescription};
use crate::wire::transfer::{DmaMap, DmaUnmap, RegionAccess};
use crate::wire::version::Version;
use crate::wire::{Command, HEADER_BYTES, Header, MAX_TRANSFER_BYTES, MessageKind, WireError};
use nix::errno::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Turned away: the user's processes connect too often.
pub const TOO_OFTEN: Errno = Errno::EAGAIN;
/// Turned away: there is no room for one more connection.
pub const TOO_MANY: Errno = Errno::EUSERS;
/// Turned away: there is no device, and nobody knows for how long.
pub const NO_DEVICE: Errno = Errno::ENODEV;

/// The first read of a reply asks for this much, which is all of most.
const FIRST_READ_BYTES: usize = 4096;

/// Errors of the tenant's end.
#[derive(Debug, Error)]
pub enum CallError {
    /// The socket cannot be reached.
    #[error("cannot connect to {path}: {error}{advice}", advice = advice(error))]
    Connect {
        /// The socket's path.
        path: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The mediator closed the connection, or it broke.
    #[error("the mediator closed the connection; reconnect")]
    Closed,
    /// The socket failed.
    #[error("the mediator's socket failed: {0}")]
    Socket(#[from] Errno),
    /// The mediator refused a command.
    #[error("the mediator refused {command:?}: {errno}{}", why(*command, *errno))]
    Refused {
        /// Which command.
        command: Command,
        /// The error that it answered with.
        errno: Errno,
    },
    /// A reply that is none.
    #[error("the mediator's reply makes no sense: {0}; do the versions fit?")]
    Wire(#[from] WireError),
    /// A reply of another kind than was asked for.
    #[error("the mediator's reply to {0:?} is of the wrong kind; do the versions fit?")]
    Unexpected(&'static str),
    /// A control message that cannot be coded.
    #[error(transparent)]
    Codec(#[from] ControlCodecError),
    /// The mediator refused a request, with its reason.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl CallError {
    /// Returns whether the mediator could not take another mapping with memory.
    #[must_use]
    pub fn is_out_of_mappings(&self) -> bool {
        let Self::Refused { command, errno } = self else {
            return false;
        };
        let is_lack = matches!(errno, Errno::ENOSPC | Errno::EMFILE | Errno::ENOMEM);
        *command == Command::DmaMap && is_lack
    }
}

/// Returns what a socket that cannot be opened suggests, as the end of a sentence.
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => "; is `gridmux serve` running?",
        ErrorKind::PermissionDenied => "; no tenant of the service has a rule for this user",
        _ => "",
    }
}

/// Returns what a connection that was turned away unheard suggests, as the end
/// of a sentence.
fn why(command: Command, errno: Errno) -> &'static str {
    match (command, errno) {
        (Command::Version, TOO_OFTEN) => {
            "; this user's processes connect too often (limits.connects_per_second): try again later"
        }
        (Command::Version, TOO_MANY) => {
            "; it has as many connections as it takes (limits.clients): try again later"
        }
        (Command::Version, NO_DEVICE) => {
            "; its device does not come up, and its log says why: try again later"
        }
        (Command::DmaMap, Errno::ENOSPC | Errno::EMFILE) => {
            "; a client may have 255 pinned buffers, and a tenant's clients as many descriptors as are its part: make \
             fewer and larger ones"
        }
        (Command::DmaMap, Errno::ENOMEM) => "; there is no more memory for pinned buffers",
        _ => "",
    }
}

/// A negotiated connection to the mediator.
#[derive(Debug)]
pub struct Session {
    socket: UnixStream,
    next_id: u16,
    fds: Vec<OwnedFd>,
}

impl Session {
    /// Connects to the socket at `path` and negotiates the version.
    ///
    /// # Errors
    /// Nobody listens there, or the versions do not fit.
    pub fn connect(path: &Path) -> Result<Self, CallError> {
        let socket = UnixStream::connect(path).map_err(|error| CallError::Connect {
            path: path.display().to_string(),
            error,
        })?;
        Self::over(socket)
    }

    /// Negotiates over a connected, blocking socket.
    ///
    /// # Errors
    /// The versions do not fit.
    pub fn over(socket: UnixStream) -> Result<Self, CallError> {
        let mut session = Self {
            socket,
            next_id: 0,
            fds: Vec::new(),
        };
        let reply = session.call(Command::Version, &Version::ours().encode(), &[])?;
        Version::parse(&reply)?.negotiate()?;
        Ok(session)
    }

    /// Executes one command and returns the payload of its reply; descriptors
    /// that came with it are kept for [`Session::take_fds`].
    ///
    /// # Errors
    /// The command was refused, or the connection broke.
    pub fn call(
        &mut self,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, CallError> {
        self.next_id = self.next_id.wrapping_add(1);
        let header = Header::command(self.next_id, command, payload.len());
        match self.send(&[header.as_bytes(), payload].concat(), fds) {
            // A mediator that turns a client away says why before it closes.
            Ok(()) | Err(CallError::Closed) => {}
            Err(error) => return Err(error),
        }
        self.fds.clear();
        let mut bytes = vec![0; HEADER_BYTES];
        self.receive(&mut bytes)?;
        let reply = Header::parse(&bytes)?;
        let mut body = vec![0; reply.payload_bytes()?];
        self.receive(&mut body)?;
        if reply.message_id != self.next_id || reply.kind()? != MessageKind::Reply {
            return Err(CallError::Unexpected("a command"));
        }
        match reply.error() {
            Some(errno) => Err(CallError::Refused { command, errno }),
            None => Ok(body),
        }
    }

    /// Returns the descriptors that came with the last reply.
    pub fn take_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }

    /// Returns what the device is.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn device_info(&mut self) -> Result<DeviceInfo, CallError> {
        let payload = self.call(
            Command::DeviceGetInfo,
            &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[],
        )?;
        Ok(DeviceInfo::parse(&payload)?)
    }

    /// Returns what a region is, and its memory if it can be mapped.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn region_info(
        &mut self,
        region: u32,
    ) -> Result<(RegionDescription, Option<OwnedFd>), CallError> {
        let mut argsz = 512;
        for _ in 0..2 {
            let request = IndexQuery::region_request(region, argsz);
            let payload = self.call(Command::DeviceGetRegionInfo, &request, &[])?;
            let (description, needed) = RegionDescription::parse(&payload)?;
            if needed <= argsz {
                return Ok((description, self.take_fds().into_iter().next()));
            }
            argsz = needed;
        }
        Err(CallError::Unexpected("region info"))
    }

    /// Returns the eventfd of region 0's doorbell.
    ///
    /// # Errors
    /// As [`Session::call`]; the device has none.
    pub fn doorbell(&mut self) -> Result<OwnedFd, CallError> {
        let query = IndexQuery {
            argsz: 512,
            flags: 0,
            index: regions::REGION_FACTS,
            count: 0,
        };
        let payload = self.call(Command::DeviceGetRegionIoFds, query.as_bytes(), &[])?;
        let list = IoEventFd::parse_all(&payload)?;
        let missing = CallError::Unexpected("the doorbell");
        let bell = list
            .iter()
            .find(|io| io.offset == regions::DOORBELL_OFFSET_BYTES);
        let index = bell.ok_or(missing)?.fd_index as usize;
        self.take_fds()
            .into_iter()
            .nth(index)
            .ok_or(CallError::Unexpected("the doorbell"))
    }

    /// Reads `count` bytes of a region.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn region_read(
        &mut self,
        region: u32,
        offset: u64,
        count: u32,
    ) -> Result<Vec<u8>, CallError> {
        let access = RegionAccess {
            offset,
            region,
            count,
        };
        let payload = self.call(Command::RegionRead, access.as_bytes(), &[])?;
        let (echoed, data) = RegionAccess::parse_data(&payload)?;
        if echoed.count != count {
            return Err(CallError::Unexpected("a region read"));
        }
        Ok(data.to_vec())
    }

    /// Writes `data` to a region.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), CallError> {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let access = RegionAccess {
            offset,
            region,
            count,
        };
        self.call(
            Command::RegionWrite,
            &[access.as_bytes(), data].concat(),
            &[],
        )?;
        Ok(())
    }

    /// Maps `size` bytes of `fd` from `offset` on at `iova` of the DMA space.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn dma_map(
        &mut self,
        iova: u64,
        size: u64,
        offset: u64,
        protection: Protection,
        fd: BorrowedFd<'_>,
    ) -> Result<(), CallError> {
        let request = DmaMap::new(iova, size, offset, protection);
        self.call(Command::DmaMap, request.as_bytes(), &[fd])?;
        Ok(())
    }

    /// Unmaps what was mapped at `iova`.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn dma_unmap(&mut self, iova: u64, size: u64) -> Result<(), CallError> {
        let request = DmaUnmap {
            argsz: 24,
            flags: 0,
            address: iova,
            size,
        };
        self.call(Command::DmaUnmap, request.as_bytes(), &[])?;
        Ok(())
    }

    /// Resets the device.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn reset(&mut self) -> Result<(), CallError> {
        self.call(Command::DeviceReset, &[], &[])?;
        Ok(())
    }

    /// Executes one request of the control mailbox.
    ///
    /// # Errors
    /// [`CallError::Control`] with the mediator's reason, or as
    /// [`Session::call`].
    pub fn control(&mut self, request: &ControlRequest) -> Result<ControlReply, CallError> {
        self.region_write(REGION_CONTROL, 0, &request.encode()?)?;
        let mut pause = Duration::from_micros(50);
        loop {
            let bytes = self.read_reply()?;
            if !bytes.is_empty() {
                return match ControlReply::decode(&bytes)? {
                    ControlReply::Error(error) => Err(error.into()),
                    reply => Ok(reply),
                };
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// Returns the reply as it stands in the mailbox; empty while it is not there.
    fn read_reply(&mut self) -> Result<Vec<u8>, CallError> {
        let first = u32::try_from(FIRST_READ_BYTES).unwrap_or(u32::MAX);
        let mut bytes = self.region_read(REGION_CONTROL, 0, first)?;
        let mut head = [0; 4];
        head.copy_from_slice(&bytes[..4]);
        let len = u32::from_ne_bytes(head) as usize;
        if len > crate::control::MAX_REPLY_BYTES {
            return Err(CallError::Unexpected("a control request"));
        }
        let total = len + 4;
        while bytes.len() < total {
            let step = u32::try_from((total - bytes.len()).min(MAX_TRANSFER_BYTES));
            let next =
                self.region_read(REGION_CONTROL, bytes.len() as u64, step.unwrap_or(u32::MAX))?;
            bytes.extend_from_slice(&next);
        }
        bytes.truncate(total);
        bytes.drain(..4);
        Ok(bytes)
    }

    /// Returns whether the mediator has closed the connection. It does not block.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(0) | Err(_) => false,
            Ok(_) => fds[0]
                .revents()
                .is_some_and(|events| events.intersects(ended)),
        }
    }

    fn send(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), CallError> {
        let mut sent = 0;
        let mut fds = fds;
        while sent < bytes.len() {
            match socket::send(self.socket.as_fd(), &bytes[sent..], fds) {
                Ok(count) => {
                    sent += count;
                    fds = &[];
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(CallError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), CallError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            match socket::receive(self.socket.as_fd(), rest, &mut self.fds) {
                Ok(received) if received.bytes == 0 => return Err(CallError::Closed),
                Ok(received) => filled += received.bytes,
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET) => return Err(CallError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
