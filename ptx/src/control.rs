//! The control block: the one parameter that every rewritten kernel gets, 64 bytes by value, aligned to 8.
//!
//! It stands behind the kernel's own parameters, so that their offsets stay. Passed by value it lies in the
//! constant bank, where reading it costs no register. The rewriter and whoever launches the kernel agree through
//! the offsets here; the bytes are little-endian, as the GPU's are.

use crate::decode::Function;

/// Size of the control block in bytes.
pub const CONTROL_BYTES: u32 = 64;
/// Alignment of the control block in bytes.
pub const CONTROL_ALIGN: u32 = 8;
/// Offset of [`Control::offset`], three 32-bit words.
pub const OFFSET_AT: u32 = 0;
/// Offset of [`Control::grid`], three 32-bit words.
pub const GRID_AT: u32 = 12;
/// Offset of [`Control::total`].
pub const TOTAL_AT: u32 = 24;
/// Offset of [`Control::chunk`].
pub const CHUNK_AT: u32 = 28;
/// Offset of [`Control::counters`].
pub const COUNTERS_AT: u32 = 32;
/// Offset of [`Control::caps`].
pub const CAPS_AT: u32 = 40;
/// Offset of [`Control::fence_base`].
pub const FENCE_BASE_AT: u32 = 48;
/// Offset of [`Control::fence_mask`].
pub const FENCE_MASK_AT: u32 = 56;

/// Kernels have at most this many bytes of parameters (PTX ISA section 5.1.6.1: 4,352 before `sm_70`'s large
/// parameters, 32,764 with PTX 8.1 and `sm_70` or later).
pub const MAX_PARAMS_BYTES: u32 = 4352;
/// The same for PTX 8.1 or later on `sm_70` or later.
pub const MAX_LARGE_PARAMS_BYTES: u32 = 32_764;

/// What a rewritten kernel reads. Fields that a form does not use are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// Coordinates of the launch's first block in the original grid; added to `%ctaid`.
    pub offset: [u32; 3],
    /// The original grid; what `%nctaid` reads.
    pub grid: [u32; 3],
    /// Blocks of the original grid (`worker`, `gate`).
    pub total: u32,
    /// Blocks that a worker takes at a time.
    pub chunk: u32,
    /// Device address of the instance's counters: next, limit, done, placed.
    pub counters: u64,
    /// Device address of the caps per SM, with the slot masks behind them.
    pub caps: u64,
    /// First address of the tenant's partition (`fence`).
    pub fence_base: u64,
    /// Mask of the bits inside the partition (`fence`).
    pub fence_mask: u64,
}

impl Control {
    /// The bytes that go into the parameter block at [`param_offset`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONTROL_BYTES as usize] {
        let mut out = [0; CONTROL_BYTES as usize];
        let words = self
            .offset
            .iter()
            .chain(&self.grid)
            .chain([&self.total, &self.chunk]);
        for (to, from) in out.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let longs = [self.counters, self.caps, self.fence_base, self.fence_mask];
        for (to, from) in out[COUNTERS_AT as usize..].chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        out
    }
}

/// Where the control block stands in the parameter block of the rewritten kernel: behind the last parameter of the
/// original, aligned to 8.
#[must_use]
pub fn param_offset(original: &Function) -> u32 {
    original.params_bytes.next_multiple_of(CONTROL_ALIGN)
}

#[cfg(test)]
mod tests {
    use super::{
        CAPS_AT, CHUNK_AT, COUNTERS_AT, Control, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, OFFSET_AT,
        TOTAL_AT,
    };

    #[test]
    fn every_field_is_where_its_offset_says() {
        let bytes = Control {
            offset: [1, 2, 3],
            grid: [4, 5, 6],
            total: 7,
            chunk: 8,
            counters: 9,
            caps: 10,
            fence_base: 11,
            fence_mask: 12,
        }
        .to_bytes();
        let word = |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap());
        assert_eq!([0, 4, 8].map(|n| word(OFFSET_AT + n)), [1, 2, 3]);
        assert_eq!([0, 4, 8].map(|n| word(GRID_AT + n)), [4, 5, 6]);
        let rest = [
            TOTAL_AT,
            CHUNK_AT,
            COUNTERS_AT,
            CAPS_AT,
            FENCE_BASE_AT,
            FENCE_MASK_AT,
        ];
        assert_eq!(rest.map(word), [7, 8, 9, 10, 11, 12]);
    }
}
