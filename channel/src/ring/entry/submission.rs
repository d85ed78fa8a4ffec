//! The 64-byte submission.
//!
//! A submission is modelled on the AQL packet of HSA: the kernel is a handle
//! of the mediator, the arguments are an offset and a length in the argument
//! area, a 64-bit cookie comes back in the completion. On the wire everything
//! is a raw integer; [`SubmissionEntry::decode`] makes a checked
//! [`Operation`] of it, and nothing else may be acted upon.

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A submission as it stands in the ring. Build it with [`SubmissionEntry::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SubmissionEntry {
    opcode: u8,
    flags: u8,
    stream: u16,
    handle: u32,
    body: [u64; 3],
    args_offset: u32,
    args_len: u32,
    cookie: u64,
    submit_ns: u64,
    reserved: u32,
    /// The queue's.
    turn: u32,
}

const _: () = assert!(size_of::<SubmissionEntry>() == crate::ring::layout::SUBMISSION_BYTES);

/// What a submission asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Run a kernel.
    Launch(Launch),
    /// Copy from a DMA mapping of the tenant to device memory.
    CopyToDevice(Copy),
    /// Copy from device memory to a DMA mapping of the tenant.
    CopyFromDevice(Copy),
    /// Fill device memory with one byte.
    Memset {
        /// The first byte to fill, an address in the tenant's device memory.
        address: u64,
        /// How many bytes to fill.
        len: u64,
        /// The value of each byte.
        value: u8,
    },
    /// Completes when everything submitted before it on the stream has.
    Barrier,
}

/// A kernel launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The kernel, a handle given by the mediator when the module was loaded.
    pub kernel: u32,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u16; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Where the packed parameters stand in the argument area, in bytes.
    pub args_offset: u32,
    /// How many bytes of packed parameters there are.
    pub args_len: u32,
}

/// A copy between the tenant's DMA mappings and its device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Where the bytes stand in the tenant's DMA space.
    pub iova: u64,
    /// Where they stand in device memory.
    pub address: u64,
    /// How many bytes.
    pub len: u64,
}

/// An entry that means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadEntry {
    /// The opcode is not one of ours.
    #[error("opcode {0} is unknown")]
    Opcode(u8),
    /// A flag or reserved field is not zero.
    #[error("a reserved field of the submission is not zero")]
    Reserved,
}

const LAUNCH: u8 = 1;
const COPY_TO_DEVICE: u8 = 2;
const COPY_FROM_DEVICE: u8 = 3;
const MEMSET: u8 = 4;
const BARRIER: u8 = 5;

impl SubmissionEntry {
    /// An entry for `operation` on `stream`; `submit_ns` is `CLOCK_MONOTONIC`
    /// at submission (the mediator clamps it, because a tenant may lie).
    #[must_use]
    pub fn new(operation: Operation, stream: u16, cookie: u64, submit_ns: u64) -> Self {
        let mut entry = Self {
            opcode: BARRIER,
            flags: 0,
            stream,
            handle: 0,
            body: [0; 3],
            args_offset: 0,
            args_len: 0,
            cookie,
            submit_ns,
            reserved: 0,
            turn: 0,
        };
        match operation {
            Operation::Launch(launch) => entry.set_launch(&launch),
            Operation::CopyToDevice(copy) => entry.set_copy(COPY_TO_DEVICE, copy),
            Operation::CopyFromDevice(copy) => entry.set_copy(COPY_FROM_DEVICE, copy),
            Operation::Memset {
                address,
                len,
                value,
            } => {
                entry.opcode = MEMSET;
                entry.handle = u32::from(value);
                entry.body = [0, address, len];
            }
            Operation::Barrier => {}
        }
        entry
    }

    fn set_launch(&mut self, launch: &Launch) {
        let [x, y, z] = launch.grid;
        let [bx, by, bz] = launch.block;
        self.opcode = LAUNCH;
        self.handle = launch.kernel;
        self.body = [
            u64::from(x) | u64::from(y) << 32,
            u64::from(z) | u64::from(launch.shared_bytes) << 32,
            u64::from(bx) | u64::from(by) << 16 | u64::from(bz) << 32,
        ];
        self.args_offset = launch.args_offset;
        self.args_len = launch.args_len;
    }

    fn set_copy(&mut self, opcode: u8, copy: Copy) {
        self.opcode = opcode;
        self.body = [copy.iova, copy.address, copy.len];
    }

    /// What the entry asks for. Sizes, handles and addresses are the
    /// mediator's to check; this checks the form alone.
    ///
    /// # Errors
    /// An unknown opcode, or a reserved field that is not zero.
    pub fn decode(&self) -> Result<Operation, BadEntry> {
        if self.flags != 0 || self.reserved != 0 {
            return Err(BadEntry::Reserved);
        }
        match self.opcode {
            LAUNCH => self.decode_launch(),
            COPY_TO_DEVICE => Ok(Operation::CopyToDevice(self.copy())),
            COPY_FROM_DEVICE => Ok(Operation::CopyFromDevice(self.copy())),
            MEMSET => {
                let value = u8::try_from(self.handle).map_err(|_| BadEntry::Reserved)?;
                Ok(Operation::Memset {
                    address: self.body[1],
                    len: self.body[2],
                    value,
                })
            }
            BARRIER => Ok(Operation::Barrier),
            other => Err(BadEntry::Opcode(other)),
        }
    }

    fn decode_launch(&self) -> Result<Operation, BadEntry> {
        let [xy, z_shared, block] = self.body;
        if block >> 48 != 0 {
            return Err(BadEntry::Reserved);
        }
        Ok(Operation::Launch(Launch {
            kernel: self.handle,
            grid: [low(xy), low(xy >> 32), low(z_shared)],
            block: [low16(block), low16(block >> 16), low16(block >> 32)],
            shared_bytes: low(z_shared >> 32),
            args_offset: self.args_offset,
            args_len: self.args_len,
        }))
    }

    fn copy(&self) -> Copy {
        let [iova, address, len] = self.body;
        Copy { iova, address, len }
    }

    /// The stream that the entry belongs to.
    #[must_use]
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// The tenant's cookie, returned in the completion.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// When the tenant says it submitted, `CLOCK_MONOTONIC` nanoseconds.
    #[must_use]
    pub fn submit_ns(&self) -> u64 {
        self.submit_ns
    }

    /// The entry as the words that travel through the queue.
    #[must_use]
    pub fn to_words(self) -> [u64; 8] {
        zerocopy::transmute!(self)
    }

    /// The entry that the words of a queue hold.
    #[must_use]
    pub fn from_words(words: [u64; 8]) -> Self {
        zerocopy::transmute!(words)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the low half is what is asked for"
)]
fn low(word: u64) -> u32 {
    word as u32
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the low quarter is what is asked for"
)]
fn low16(word: u64) -> u16 {
    word as u16
}

#[cfg(test)]
mod tests {
    use super::{BadEntry, Copy, Launch, Operation, SubmissionEntry};

    fn launch() -> Launch {
        Launch {
            kernel: 7,
            grid: [u32::MAX, 2, 3],
            block: [1024, 1, 64],
            shared_bytes: 48 << 10,
            args_offset: 64,
            args_len: 40,
        }
    }

    #[test]
    fn every_operation_survives_the_words() {
        let copy = Copy {
            iova: 1 << 40,
            address: 1 << 33,
            len: u64::MAX,
        };
        let operations = [
            Operation::Launch(launch()),
            Operation::CopyToDevice(copy),
            Operation::CopyFromDevice(copy),
            Operation::Memset {
                address: 5,
                len: 6,
                value: 255,
            },
            Operation::Barrier,
        ];
        for operation in operations {
            let entry = SubmissionEntry::new(operation, 9, 10, 11);
            let back = SubmissionEntry::from_words(entry.to_words());
            assert_eq!(back.decode(), Ok(operation));
            assert_eq!(
                (back.stream(), back.cookie(), back.submit_ns()),
                (9, 10, 11)
            );
        }
    }

    #[test]
    fn unknown_and_reserved_are_refused() {
        let mut entry = SubmissionEntry::new(Operation::Barrier, 0, 0, 0);
        entry.opcode = 77;
        assert_eq!(entry.decode(), Err(BadEntry::Opcode(77)));
        entry = SubmissionEntry::new(Operation::Launch(launch()), 0, 0, 0);
        entry.body[2] |= 1 << 48;
        assert_eq!(entry.decode(), Err(BadEntry::Reserved));
        entry = SubmissionEntry::new(Operation::Barrier, 0, 0, 0);
        entry.flags = 1;
        assert_eq!(entry.decode(), Err(BadEntry::Reserved));
    }
}
