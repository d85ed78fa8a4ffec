//! What must hold for the values, counts, sizes and flags that a program passes as arguments.
//!
//! The first byte of a case picks a part of the API, the rest are its values ([`Values`]). Pointers are real ones or
//! null: a wild one is the program's own fault. For each part the files below say once more, and in numbers that cannot
//! overflow, what is allowed.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_ptr_alignment,
    reason = "numbers of any size are cut to those of the API, and structures are read as programs lay them out"
)]

mod copies;
mod figures;
mod graphs;
mod launches;
mod memory;
mod options;

type Part = fn(&mut Values<'_>);

/// The parts of the API.
const PARTS: [Part; 15] = [
    launches::launch_shapes,
    launches::launch_attributes,
    launches::packed_parameters,
    launches::listed_parameters,
    options::jit_options,
    copies::planar_copies,
    copies::spatial_copies,
    memory::fills,
    memory::pitched_memory,
    memory::known_memory,
    memory::pools,
    figures::stream_attributes,
    figures::device_figures,
    figures::entry_points,
    graphs::graph_shapes,
];

/// Checks that what a program passes is taken as documented or refused with the code for it, and that nothing panics.
pub fn arguments(case: &[u8]) {
    let Some((part, rest)) = case.split_first() else {
        return;
    };
    PARTS[usize::from(*part) % PARTS.len()](&mut Values(rest));
}

/// The bytes of a case, read as values; zeros follow the last.
struct Values<'a>(&'a [u8]);

impl Values<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(self.0.len().min(N));
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.bytes();
        byte
    }

    /// Less than `end`.
    fn below(&mut self, end: u8) -> usize {
        usize::from(self.byte() % end)
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Returns true once in eight times.
    fn seldom(&mut self) -> bool {
        self.byte().is_multiple_of(8)
    }

    /// Reads a number of any size, more often than not a small one or one next to a power of two.
    fn wide(&mut self) -> u64 {
        let near = |values: &mut Self| {
            let power = 1_u64 << (values.byte() % 64);
            power.wrapping_add_signed(i64::from(values.byte().cast_signed()) / 16)
        };
        match self.byte() % 6 {
            0 => self.byte().into(),
            1 => u16::from_le_bytes(self.bytes()).into(),
            2 => u32::from_le_bytes(self.bytes()).into(),
            3 => u64::from_le_bytes(self.bytes()),
            4 => near(self),
            _ => u64::MAX - u64::from(self.byte()),
        }
    }

    fn word(&mut self) -> u32 {
        self.wide() as u32
    }

    fn words<const N: usize>(&mut self) -> [u32; N] {
        std::array::from_fn(|_| self.word())
    }

    fn size(&mut self) -> usize {
        self.wide() as usize
    }

    /// Reads a structure of the C API, of numbers that this case gives for its words of eight bytes.
    ///
    /// # Safety
    /// `T` is of integers and pointers alone, is no larger than 32 such words, and nobody follows its pointers.
    unsafe fn structure<T: Copy>(&mut self) -> T {
        assert!(size_of::<T>() <= 256);
        let words: [u64; 32] = std::array::from_fn(|_| self.wide());
        // SAFETY: the words are no fewer bytes, and every pattern of them is a `T`.
        unsafe { words.as_ptr().cast::<T>().read_unaligned() }
    }
}
