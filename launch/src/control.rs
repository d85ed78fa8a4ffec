//! The control block that a launch passes to a rewritten kernel, and the fault that the kernel may record.
//!
//! The offsets, and what the kernel does with each field, stand in [`gridmux_ptx::control`].

use crate::stamps::Stamps;
use gridmux_ptx::control::{
    BLOCKS_AT, CHUNK_AT, CONTROL_BYTES, COUNTERS_AT, COUNTERS_BYTES, FAULT_BLOCK_AT, FAULT_KIND_AT,
    FAULT_LINE_AT, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, OFFSET_AT,
};
use gridmux_ptx::forms::fence::{FaultKind, UNKNOWN_BLOCK};
use std::fmt;

/// What one launch covers of the tenant's grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// All of it, as the tenant launched it.
    Whole,
    /// A sub-box of it.
    SubBox {
        /// Coordinates of the first block in the tenant's grid.
        offset: [u32; 3],
        /// The tenant's grid in blocks.
        grid: [u32; 3],
    },
    /// The blocks that its workers take.
    Tickets {
        /// The tenant's grid in blocks.
        grid: [u32; 3],
        /// Blocks of the grid.
        blocks: u32,
        /// Blocks of a ticket.
        chunk: u32,
    },
}

/// Addresses that a fenced kernel is confined to: a power of two of them, aligned to their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// The first address.
    pub base: u64,
    /// Mask of the bits inside the reservation.
    pub mask: u64,
}

impl Reservation {
    /// Writes into a control block where a fenced kernel may go, and the device address of its counters.
    pub fn put(&self, control: &mut [u8; CONTROL_BYTES as usize], counters: u64) {
        let fields = [
            (COUNTERS_AT, counters),
            (FENCE_BASE_AT, self.base),
            (FENCE_MASK_AT, self.mask),
        ];
        for (at, value) in fields {
            let at = at as usize;
            control[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Returns whether it holds all of these bytes.
    #[must_use]
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let last = address.checked_add(bytes.saturating_sub(1));
        let is_inside = |address: u64| address & !self.mask == self.base;
        is_inside(address) && last.is_some_and(is_inside)
    }
}

/// What a rewritten kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// What the launch covers.
    pub cover: Cover,
    /// Device address of the counters; zero where there are none.
    pub counters: u64,
    /// Where a fenced kernel may go.
    pub reservation: Option<Reservation>,
    /// Where blocks of an entry that is stamped write their stamps; none are wanted where it is `None`.
    pub stamps: Option<Stamps>,
}

impl Control {
    /// Returns the control block of a slice that has neither counters nor fence.
    #[must_use]
    pub const fn slice(offset: [u32; 3], grid: [u32; 3]) -> Self {
        Self {
            cover: Cover::SubBox { offset, grid },
            counters: 0,
            reservation: None,
            stamps: None,
        }
    }

    /// Returns the bytes that the kernel reads.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONTROL_BYTES as usize] {
        let mut out = [0; CONTROL_BYTES as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            let at = at as usize;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let mut dims = |at: u32, dims: [u32; 3]| {
            for (at, n) in (at..).step_by(4).zip(dims) {
                put(at, &n.to_le_bytes());
            }
        };
        match self.cover {
            Cover::Whole => {}
            Cover::SubBox { offset, grid } => {
                dims(OFFSET_AT, offset);
                dims(GRID_AT, grid);
            }
            Cover::Tickets {
                grid,
                blocks,
                chunk,
            } => {
                dims(GRID_AT, grid);
                put(BLOCKS_AT, &blocks.to_le_bytes());
                put(CHUNK_AT, &chunk.to_le_bytes());
            }
        }
        put(COUNTERS_AT, &self.counters.to_le_bytes());
        if let Some(reservation) = self.reservation {
            reservation.put(&mut out, self.counters);
        }
        if let Some(stamps) = &self.stamps {
            stamps.put(&mut out);
        }
        out
    }

    /// Returns the parameter block of a rewritten kernel: the control block, then the kernel's own parameters.
    #[must_use]
    pub fn before(&self, own: &[u8]) -> Vec<u8> {
        [&self.to_bytes(), own].concat()
    }
}

/// The first fault that a fenced kernel recorded instead of raising it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedFault {
    /// A [`FaultKind`].
    pub kind: u32,
    /// Line in the original PTX, from 1.
    pub line: u32,
    /// The block, counted x fastest.
    pub block: u32,
}

impl RecordedFault {
    /// Returns the fault that the counters hold, if there was one.
    #[must_use]
    pub fn of(counters: &[u8; COUNTERS_BYTES as usize]) -> Option<Self> {
        let word = |at: u32| {
            let at = at as usize;
            u32::from_le_bytes([
                counters[at],
                counters[at + 1],
                counters[at + 2],
                counters[at + 3],
            ])
        };
        let fault = Self {
            kind: word(FAULT_KIND_AT),
            line: word(FAULT_LINE_AT),
            block: word(FAULT_BLOCK_AT),
        };
        (fault.kind != 0).then_some(fault)
    }
}

impl fmt::Display for RecordedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FaultKind::from_number(self.kind) {
            Some(kind) => write!(f, "{}, PTX line {}", kind.name(), self.line)?,
            None => write!(f, "kind {}, PTX line {}", self.kind, self.line)?,
        }
        match self.block {
            UNKNOWN_BLOCK => f.write_str(", in a function"),
            block => write!(f, ", block {block}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Control, Cover, RecordedFault, Reservation};
    use gridmux_ptx::control::{
        BLOCKS_AT, CHUNK_AT, COUNTERS_AT, COUNTERS_BYTES, FAULT_BLOCK_AT, FAULT_KIND_AT,
        FAULT_LINE_AT, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, OFFSET_AT,
    };

    fn word(bytes: &[u8], at: u32) -> u32 {
        u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap())
    }

    fn long(bytes: &[u8], at: u32) -> u64 {
        u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap())
    }

    #[test]
    fn every_field_is_where_its_offset_says() {
        let slice = Control::slice([1, 2, 3], [4, 5, 6]).to_bytes();
        assert_eq!([0, 4, 8].map(|n| word(&slice, OFFSET_AT + n)), [1, 2, 3]);
        assert_eq!([0, 4, 8].map(|n| word(&slice, GRID_AT + n)), [4, 5, 6]);
        assert!(slice[BLOCKS_AT as usize..].iter().all(|byte| *byte == 0));

        let worker = Control {
            cover: Cover::Tickets {
                grid: [4, 5, 6],
                blocks: 120,
                chunk: 8,
            },
            counters: 9,
            reservation: Some(Reservation { base: 11, mask: 12 }),
            stamps: None,
        }
        .to_bytes();
        assert_eq!([0, 4, 8].map(|n| word(&worker, OFFSET_AT + n)), [0; 3]);
        assert_eq!([0, 4, 8].map(|n| word(&worker, GRID_AT + n)), [4, 5, 6]);
        assert_eq!([BLOCKS_AT, CHUNK_AT].map(|at| word(&worker, at)), [120, 8]);
        let longs = [COUNTERS_AT, FENCE_BASE_AT, FENCE_MASK_AT];
        assert_eq!(longs.map(|at| long(&worker, at)), [9, 11, 12]);
    }

    #[test]
    fn the_control_block_comes_first() {
        let control = Control::slice([0; 3], [1, 1, 1]);
        let params = control.before(&[7; 12]);
        assert_eq!(params[..64], control.to_bytes());
        assert_eq!(params[64..], [7; 12]);
    }

    #[test]
    fn a_fault_is_read_from_the_counters() {
        let mut counters = [0; COUNTERS_BYTES as usize];
        assert_eq!(RecordedFault::of(&counters), None);
        for (at, value) in [
            (FAULT_KIND_AT, 1_u32),
            (FAULT_LINE_AT, 12),
            (FAULT_BLOCK_AT, 5),
        ] {
            counters[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        }
        let fault = RecordedFault::of(&counters).expect("one was recorded");
        assert_eq!(fault.to_string(), "trap, PTX line 12, block 5");
        let elsewhere = RecordedFault {
            kind: 77,
            block: u32::MAX,
            ..fault
        };
        assert_eq!(elsewhere.to_string(), "kind 77, PTX line 12, in a function");
    }
}
