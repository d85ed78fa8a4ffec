//! The 16-byte header of every message (specification, section "Header") and
//! the commands (section "Commands").

use super::{MAX_MESSAGE_BYTES, WireError, take};
use nix::errno::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The size of a header in bytes.
pub const HEADER_BYTES: usize = 16;

const KIND_MASK: u32 = 0xf;
const KIND_COMMAND: u32 = 0;
const KIND_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// A header as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Chosen by the sender, echoed in the reply.
    pub message_id: u16,
    /// A [`Command`].
    pub command: u16,
    /// The whole message in bytes, header included.
    pub size: u32,
    /// Type, no-reply and error bits.
    pub flags: u32,
    /// An errno value in an error reply.
    pub error: u32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// Whether a message asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// It asks.
    Command,
    /// It answers.
    Reply,
}

impl Header {
    /// Returns the header of a command with `payload` bytes after it.
    #[must_use]
    pub fn command(message_id: u16, command: Command, payload: usize) -> Self {
        Self {
            message_id,
            command: command as u16,
            size: size(payload),
            flags: 0,
            error: 0,
        }
    }

    /// Returns the header of the reply to `self` with `payload` bytes after it.
    #[must_use]
    pub fn reply(&self, payload: usize) -> Self {
        Self {
            size: size(payload),
            flags: KIND_REPLY,
            error: 0,
            ..*self
        }
    }

    /// Returns the header of an error reply to `self`. An errno of zero would say "an
    /// error, but none": it becomes `EIO`.
    #[must_use]
    pub fn error_reply(&self, errno: Errno) -> Self {
        let raw = u32::try_from(errno as i32).ok().filter(|raw| *raw != 0);
        let error = raw.unwrap_or(Errno::EIO as u32);
        Self {
            size: size(0),
            flags: KIND_REPLY | FLAG_ERROR,
            error,
            ..*self
        }
    }

    /// Returns the error reply to the first command of a client, for a service that
    /// closes the connection without reading it: clients number their commands
    /// from 1, and the first is [`Command::Version`].
    #[must_use]
    pub fn turned_away(errno: Errno) -> Self {
        Self::command(1, Command::Version, 0).error_reply(errno)
    }

    /// Reads a header; the size is checked with [`Header::payload_bytes`].
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        Ok(take("header", bytes)?.0)
    }

    /// Returns how many bytes follow the header.
    ///
    /// # Errors
    /// The size is below 16 or over [`MAX_MESSAGE_BYTES`].
    pub fn payload_bytes(&self) -> Result<usize, WireError> {
        let size = self.size as usize;
        match size.checked_sub(HEADER_BYTES) {
            Some(payload) if size <= MAX_MESSAGE_BYTES => Ok(payload),
            _ => Err(WireError::MessageSize(self.size)),
        }
    }

    /// Command or reply.
    ///
    /// # Errors
    /// Neither.
    pub fn kind(&self) -> Result<MessageKind, WireError> {
        match self.flags & KIND_MASK {
            KIND_COMMAND => Ok(MessageKind::Command),
            KIND_REPLY => Ok(MessageKind::Reply),
            other => Err(WireError::Kind(other)),
        }
    }

    /// Returns whether the sender wants no reply.
    #[must_use]
    pub fn no_reply(&self) -> bool {
        self.flags & FLAG_NO_REPLY != 0
    }

    /// Returns the error that a reply reports, if it does; zero reads as `EIO`.
    #[must_use]
    pub fn error(&self) -> Option<Errno> {
        if self.flags & FLAG_ERROR == 0 {
            return None;
        }
        let raw = i32::try_from(self.error).unwrap_or(0);
        match Errno::from_raw(raw) {
            Errno::UnknownErrno => Some(Errno::EIO),
            errno => Some(errno),
        }
    }
}

fn size(payload: usize) -> u32 {
    u32::try_from(payload + HEADER_BYTES).unwrap_or(u32::MAX)
}

/// The commands, with the numbers of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(
    missing_docs,
    reason = "the names are those of the specification's table"
)]
pub enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    DeviceGetInfo = 4,
    DeviceGetRegionInfo = 5,
    DeviceGetRegionIoFds = 6,
    DeviceGetIrqInfo = 7,
    DeviceSetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DmaRead = 11,
    DmaWrite = 12,
    DeviceReset = 13,
    RegionWriteMulti = 15,
    DeviceFeature = 16,
    MigDataRead = 17,
    MigDataWrite = 18,
}

impl TryFrom<u16> for Command {
    type Error = WireError;

    fn try_from(raw: u16) -> Result<Self, WireError> {
        Ok(match raw {
            1 => Self::Version,
            2 => Self::DmaMap,
            3 => Self::DmaUnmap,
            4 => Self::DeviceGetInfo,
            5 => Self::DeviceGetRegionInfo,
            6 => Self::DeviceGetRegionIoFds,
            7 => Self::DeviceGetIrqInfo,
            8 => Self::DeviceSetIrqs,
            9 => Self::RegionRead,
            10 => Self::RegionWrite,
            11 => Self::DmaRead,
            12 => Self::DmaWrite,
            13 => Self::DeviceReset,
            15 => Self::RegionWriteMulti,
            16 => Self::DeviceFeature,
            17 => Self::MigDataRead,
            18 => Self::MigDataWrite,
            other => return Err(WireError::Command(other)),
        })
    }
}
