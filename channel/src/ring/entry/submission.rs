//! The 64-byte submission.
//!
//! A submission is modelled on the AQL packet of HSA: the kernel is a handle
//! of the mediator, the arguments are an offset and a length in the argument
//! area, a 64-bit cookie comes back in the completion. On the wire everything
//! is a raw integer; [`SubmissionEntry::decode`] makes a checked
//! [`Operation`] of it, and nothing else may be acted upon. A field that an
//! operation does not use is zero, and the mediator refuses any other value.
//!
//! | opcode | operation | `handle` | `body` | arguments |
//! |---|---|---|---|---|
//! | 1 | launch | kernel | grid x, y; grid z, shared bytes; block | offset, length |
//! | 2, 3 | copy to, from the device | – | DMA address, device address, bytes | – |
//! | 4 | memset | value | width in bytes, address, bytes | – |
//! | 5 | barrier | – | – | – |
//! | 6 | copy on the device | – | from, to, bytes | – |
//! | 7 | wait | – | cookie | – |
//! | 8 | hold | – | count | – |
//!
//! A launch has one flag, bit 0: all of its blocks reside at once (a
//! cooperative launch).

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

/// The operation that a submission asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Run a kernel.
    Launch(Launch),
    /// Copy from a DMA mapping of the tenant to device memory.
    CopyToDevice(Copy),
    /// Copy from device memory to a DMA mapping of the tenant.
    CopyFromDevice(Copy),
    /// Copy within device memory.
    CopyOnDevice(DeviceCopy),
    /// Fill device memory with one value.
    Memset(Memset),
    /// Completes when everything submitted before it on the stream has.
    Barrier,
    /// Completes when everything submitted before it on the stream has, and so
    /// has what the same client submitted earlier, on whatever stream, under
    /// `cookie`. A cookie that is not pending counts as completed.
    Wait {
        /// The cookie of the earlier submission.
        cookie: u64,
    },
    /// Ends when all before it in its stream has ended and the tenant has
    /// released this many holds of the stream
    /// ([`super::super::client::ClientRings::release`]), so that something on
    /// the host takes place between what stands before and what stands behind.
    Hold {
        /// How many holds of the stream are released when this one is.
        count: u64,
    },
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
    /// Its blocks reside all at once, so that they may wait for each other, and
    /// have a barrier (CUDA's cooperative launch).
    pub is_cooperative: bool,
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

/// A copy from device memory to device memory. What it writes where the two
/// ranges overlap is undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceCopy {
    /// The device address of the first byte to read.
    pub from: u64,
    /// The device address of the first byte to write.
    pub to: u64,
    /// How many bytes.
    pub len: u64,
}

/// A fill of device memory with one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memset {
    /// The first byte to fill, an address in the tenant's device memory that
    /// is a multiple of the width.
    pub address: u64,
    /// How many bytes to fill, a multiple of the width.
    pub len: u64,
    /// The value of each element; it fits the width.
    pub value: u32,
    /// The size of an element.
    pub width: Width,
}

/// The size of an element of a memset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 8 bits.
    One,
    /// 16 bits.
    Two,
    /// 32 bits.
    Four,
}

impl Width {
    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    fn from_bytes(bytes: u64) -> Option<Self> {
        [Self::One, Self::Two, Self::Four]
            .into_iter()
            .find(|width| u64::from(width.bytes()) == bytes)
    }

    /// Returns the greatest value of an element.
    #[must_use]
    pub fn max_value(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }
}

impl Memset {
    /// Checks the form: address and length are multiples of the width, the
    /// value fits it.
    ///
    /// # Errors
    /// The field that does not fit.
    pub fn check(&self) -> Result<(), BadEntry> {
        let Self {
            address,
            len,
            value,
            width,
        } = *self;
        if value > width.max_value() {
            return Err(BadEntry::Value {
                value,
                width: width.bytes(),
            });
        }
        let unit = u64::from(width.bytes());
        if !address.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(BadEntry::Misaligned {
                address,
                len,
                width: width.bytes(),
            });
        }
        Ok(())
    }
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
    /// A memset of elements of a size that there is not.
    #[error("a memset of elements of {0} bytes; there are 1, 2 and 4")]
    Width(u64),
    /// A memset value that does not fit its elements.
    #[error("the value {value:#x} does not fit the {width} bytes of a memset's elements")]
    Value {
        /// The value.
        value: u32,
        /// The size of an element in bytes.
        width: u32,
    },
    /// A memset that does not consist of whole, aligned elements.
    #[error(
        "a memset of {len} bytes at {address:#x} does not consist of aligned elements of {width} bytes"
    )]
    Misaligned {
        /// The first byte's device address.
        address: u64,
        /// How many bytes.
        len: u64,
        /// The size of an element in bytes.
        width: u32,
    },
}

const LAUNCH: u8 = 1;
const COPY_TO_DEVICE: u8 = 2;
const COPY_FROM_DEVICE: u8 = 3;
const MEMSET: u8 = 4;
const BARRIER: u8 = 5;
const COPY_ON_DEVICE: u8 = 6;
const WAIT: u8 = 7;
const HOLD: u8 = 8;

/// The flag of a launch whose blocks reside all at once.
const COOPERATIVE: u8 = 1;

impl SubmissionEntry {
    /// Returns an entry for `operation` on `stream`; `submit_ns` is `CLOCK_MONOTONIC`
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
            Operation::CopyOnDevice(copy) => {
                entry.opcode = COPY_ON_DEVICE;
                entry.body = [copy.from, copy.to, copy.len];
            }
            Operation::Memset(memset) => {
                entry.opcode = MEMSET;
                entry.handle = memset.value;
                entry.body = [memset.width.bytes().into(), memset.address, memset.len];
            }
            Operation::Barrier => {}
            Operation::Wait { cookie } => {
                entry.opcode = WAIT;
                entry.body = [cookie, 0, 0];
            }
            Operation::Hold { count } => {
                entry.opcode = HOLD;
                entry.body = [count, 0, 0];
            }
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
        self.flags = match launch.is_cooperative {
            true => COOPERATIVE,
            false => 0,
        };
    }

    fn set_copy(&mut self, opcode: u8, copy: Copy) {
        self.opcode = opcode;
        self.body = [copy.iova, copy.address, copy.len];
    }

    /// Returns what the entry asks for. Handles, addresses and sizes are the
    /// mediator's to check; this checks the form alone.
    ///
    /// # Errors
    /// An unknown opcode, a field that is not zero though the operation does
    /// not use it, or a memset that does not consist of whole elements.
    pub fn decode(&self) -> Result<Operation, BadEntry> {
        let has_args = self.args_offset != 0 || self.args_len != 0;
        let [first, second, third] = self.body;
        let unused = match self.opcode {
            LAUNCH => third >> 48 != 0,
            COPY_TO_DEVICE | COPY_FROM_DEVICE | COPY_ON_DEVICE => self.handle != 0 || has_args,
            MEMSET => has_args,
            BARRIER => self.handle != 0 || self.body != [0; 3] || has_args,
            WAIT | HOLD => self.handle != 0 || second != 0 || third != 0 || has_args,
            other => return Err(BadEntry::Opcode(other)),
        };
        let flags = match self.opcode {
            LAUNCH => COOPERATIVE,
            _ => 0,
        };
        if unused || self.flags & !flags != 0 || self.reserved != 0 {
            return Err(BadEntry::Reserved);
        }
        Ok(match self.opcode {
            LAUNCH => self.decode_launch(),
            COPY_TO_DEVICE => Operation::CopyToDevice(self.copy()),
            COPY_FROM_DEVICE => Operation::CopyFromDevice(self.copy()),
            COPY_ON_DEVICE => Operation::CopyOnDevice(DeviceCopy {
                from: first,
                to: second,
                len: third,
            }),
            MEMSET => {
                let memset = Memset {
                    address: second,
                    len: third,
                    value: self.handle,
                    width: Width::from_bytes(first).ok_or(BadEntry::Width(first))?,
                };
                memset.check()?;
                Operation::Memset(memset)
            }
            WAIT => Operation::Wait { cookie: first },
            HOLD => Operation::Hold { count: first },
            _ => Operation::Barrier,
        })
    }

    fn decode_launch(&self) -> Operation {
        let [xy, z_shared, block] = self.body;
        Operation::Launch(Launch {
            kernel: self.handle,
            grid: [low(xy), low(xy >> 32), low(z_shared)],
            block: [low16(block), low16(block >> 16), low16(block >> 32)],
            shared_bytes: low(z_shared >> 32),
            args_offset: self.args_offset,
            args_len: self.args_len,
            is_cooperative: self.flags & COOPERATIVE != 0,
        })
    }

    fn copy(&self) -> Copy {
        let [iova, address, len] = self.body;
        Copy { iova, address, len }
    }

    /// Returns the stream that the entry belongs to.
    #[must_use]
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// Returns the tenant's cookie, returned in the completion.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Returns when the tenant says it submitted, `CLOCK_MONOTONIC` nanoseconds.
    #[must_use]
    pub fn submit_ns(&self) -> u64 {
        self.submit_ns
    }

    /// Returns the entry as the words that travel through the queue.
    #[must_use]
    pub fn to_words(self) -> [u64; 8] {
        zerocopy::transmute!(self)
    }

    /// Returns the entry that the words of a queue hold.
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
    use super::{BadEntry, Copy, DeviceCopy, Launch, Memset, Operation, SubmissionEntry, Width};

    fn launch() -> Launch {
        Launch {
            kernel: 7,
            grid: [u32::MAX, 2, 3],
            block: [1024, 1, 64],
            shared_bytes: 48 << 10,
            args_offset: 64,
            args_len: 40,
            is_cooperative: false,
        }
    }

    fn memset(address: u64, len: u64, value: u32, width: Width) -> Operation {
        Operation::Memset(Memset {
            address,
            len,
            value,
            width,
        })
    }

    fn refusal(operation: Operation) -> BadEntry {
        SubmissionEntry::new(operation, 0, 0, 0)
            .decode()
            .unwrap_err()
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
            Operation::Launch(Launch {
                is_cooperative: true,
                ..launch()
            }),
            Operation::CopyToDevice(copy),
            Operation::CopyFromDevice(copy),
            Operation::CopyOnDevice(DeviceCopy {
                from: 1 << 33,
                to: 1 << 34,
                len: 5,
            }),
            memset(5, 6, 255, Width::One),
            memset(6, 8, 0xffff, Width::Two),
            memset(8, 12, u32::MAX, Width::Four),
            Operation::Barrier,
            Operation::Wait { cookie: u64::MAX },
            Operation::Hold { count: u64::MAX },
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
        for flags in [2, 3, 0x80] {
            entry = SubmissionEntry::new(Operation::Launch(launch()), 0, 0, 0);
            entry.flags = flags;
            assert_eq!(entry.decode(), Err(BadEntry::Reserved));
        }
        entry = SubmissionEntry::new(Operation::Barrier, 0, 0, 0);
        entry.flags = 1;
        assert_eq!(entry.decode(), Err(BadEntry::Reserved));
    }
    #[test]
    fn a_memset_consists_of_whole_elements() {
        for width in [Width::Two, Width::Four] {
            let unit = u64::from(width.bytes());
            for (address, len) in [(1, unit), (unit, 1), (unit + 1, unit + 1)] {
                assert!(matches!(
                    refusal(memset(address, len, 0, width)),
                    BadEntry::Misaligned { .. }
                ));
            }
        }
        assert!(matches!(
            refusal(memset(0, 0, 256, Width::One)),
            BadEntry::Value {
                value: 256,
                width: 1
            }
        ));
        assert!(matches!(
            refusal(memset(0, 0, 1 << 16, Width::Two)),
            BadEntry::Value { .. }
        ));
        let mut entry = SubmissionEntry::new(memset(0, 0, 0, Width::One), 0, 0, 0);
        for width in [0, 3, 8, u64::MAX] {
            entry.body[0] = width;
            assert_eq!(entry.decode(), Err(BadEntry::Width(width)));
        }
    }

    #[test]
    fn a_field_that_is_not_used_is_zero() {
        let copy = Copy {
            iova: 1,
            address: 2,
            len: 3,
        };
        let on_device = DeviceCopy {
            from: 1,
            to: 2,
            len: 3,
        };
        let operations = [
            Operation::CopyToDevice(copy),
            Operation::CopyFromDevice(copy),
            Operation::CopyOnDevice(on_device),
            memset(0, 0, 0, Width::One),
            Operation::Barrier,
            Operation::Wait { cookie: 1 },
            Operation::Hold { count: 1 },
        ];
        for operation in operations {
            let good = SubmissionEntry::new(operation, 3, 4, 5);
            let mut spoilt = vec![good; 3];
            spoilt[0].args_offset = 8;
            spoilt[1].args_len = 8;
            spoilt[2].reserved = 1;
            if !matches!(operation, Operation::Memset(_)) {
                spoilt.push(SubmissionEntry { handle: 1, ..good });
            }
            let first = match operation {
                Operation::Barrier => 0,
                Operation::Wait { .. } | Operation::Hold { .. } => 1,
                _ => 3,
            };
            for word in first..3 {
                let mut entry = good;
                entry.body[word] = 1;
                spoilt.push(entry);
            }
            for entry in spoilt {
                assert_eq!(entry.decode(), Err(BadEntry::Reserved), "{entry:?}");
            }
        }
    }
}
