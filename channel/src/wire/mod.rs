//! The vfio-user codec: bytes to messages and back, for any bytes at all.
//!
//! The source is QEMU's "vfio-user Protocol Specification"
//! (`docs/interop/vfio-user.rst`); each structure names its section. All
//! integers are of the host's endianness, as the specification says.
//!
//! On the wire everything is a raw integer; enums come from `TryFrom`, and no
//! function here panics, whatever the bytes.

pub mod device;
pub mod header;
pub mod transfer;
pub mod version;

pub use header::{Command, HEADER_BYTES, Header, MessageKind};

use thiserror::Error;

/// The most bytes of a message that carries no region data.
pub const MAX_PLAIN_BYTES: usize = 64 << 10;
/// The most bytes of region data in one message (`max_data_xfer_size`).
pub const MAX_TRANSFER_BYTES: usize = 1 << 20;
/// The most bytes of any message, header included.
pub const MAX_MESSAGE_BYTES: usize = MAX_PLAIN_BYTES + MAX_TRANSFER_BYTES;
/// The most descriptors of one message (`max_msg_fds`).
pub const MAX_MESSAGE_FDS: usize = 8;

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The payload is shorter than the structure.
    #[error("{what} takes {expected} bytes, the message carries {actual}")]
    Short {
        /// Which structure.
        what: &'static str,
        /// Its size in bytes.
        expected: usize,
        /// Bytes that were there.
        actual: usize,
    },
    /// The size in the header is below the header or over the limit.
    #[error("message size {0} is below the header's 16 bytes or over the limit")]
    MessageSize(u32),
    /// The message type is neither command nor reply.
    #[error("message type {0} is neither command nor reply")]
    Kind(u32),
    /// The command is not in the specification.
    #[error("command {0} is unknown")]
    Command(u16),
    /// The version data is no NUL-terminated JSON of the specified form.
    #[error("version data: {0}")]
    Version(&'static str),
    /// A count does not fit what follows or is over the limit.
    #[error("{what} of {value} does not fit the message")]
    Count {
        /// Which count.
        what: &'static str,
        /// Its value.
        value: u32,
    },
}

/// Reads a structure from the start of `bytes`, and gives the rest.
fn take<'a, T: zerocopy::FromBytes>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(T, &'a [u8]), WireError> {
    let short = WireError::Short {
        what,
        expected: size_of::<T>(),
        actual: bytes.len(),
    };
    let (head, rest) = bytes.split_at_checked(size_of::<T>()).ok_or(short)?;
    let value = T::read_from_bytes(head).map_err(|_| short)?;
    Ok((value, rest))
}
