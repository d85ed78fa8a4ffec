//! What a rewrite says of a module's variables that left its text: where each stands in one block of memory, and what
//! that holds at first.
//!
//! Whoever loads the module allocates the block in the tenant's reservation, writes what [`Placed::image`] gives, and
//! puts the block's address into the constant that [`Placed::pointer`] names, before the first launch. The constant is
//! the module's own: no kernel can write it, and no host may ask for it.

use serde::{Deserialize, Serialize};

/// Alignment of the block in bytes, at least: as the driver aligns variables.
pub const BLOCK_ALIGN: u64 = 256;
/// Most bytes of the block: what no reservation has is refused early.
pub const MAX_BLOCK_BYTES: u64 = 1 << 46;
/// Bytes of the constant that holds the block's address.
pub const POINTER_BYTES: u64 = 8;

/// The variables of a module that stand in a block of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Name in the text of the constant in which the block's address is expected, 8 bytes.
    pub pointer: String,
    /// Bytes of the block.
    pub bytes: u64,
    /// What its address has to be a multiple of, a power of two.
    pub align: u64,
    /// The variables, in the order of their places.
    pub variables: Vec<PlacedVariable>,
}

/// A variable in the block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedVariable {
    /// Name.
    pub name: String,
    /// Offset in the block.
    pub offset: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// The first of its bytes; the others are zero.
    pub init: Vec<u8>,
    /// Addresses that it holds at first.
    pub relocations: Vec<PlacedAddress>,
}

/// An address of something in the block, in the initial value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedAddress {
    /// Where in the variable it stands.
    pub at: u64,
    /// Bytes of it that are stored, from 1 to 8.
    pub width: u8,
    /// Bits that it is shifted right by before they are.
    pub shift_bits: u8,
    /// What is addressed, as a distance from the beginning of the block.
    pub target: i64,
}

/// Why a description of placed variables makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacedError {
    /// The block is too large, or not aligned as memory can be.
    #[error("a block of {bytes} bytes at a multiple of {align} for the module's variables")]
    Block {
        /// Its bytes.
        bytes: u64,
        /// Its alignment.
        align: u64,
    },
    /// A variable, or what it holds, does not lie where it should.
    #[error("variable '{0}' does not lie in the block, or its initial value not in it")]
    Variable(String),
}

impl Placed {
    /// Checks that everything lies inside of what it is said to lie in.
    ///
    /// # Errors
    /// [`PlacedError`]: the first thing that does not.
    pub fn check(&self) -> Result<(), PlacedError> {
        let (bytes, align) = (self.bytes, self.align);
        let is_block = bytes <= MAX_BLOCK_BYTES && align.is_power_of_two() && align <= 1 << 20;
        if !is_block {
            return Err(PlacedError::Block { bytes, align });
        }
        let is_inside = |variable: &&PlacedVariable| {
            let end = variable.offset.checked_add(variable.size_bytes);
            let held = |of: &PlacedAddress| {
                let end = of.at.checked_add(u64::from(of.width));
                let is_width = (1..=8).contains(&of.width) && of.shift_bits < 64;
                is_width && end.is_some_and(|end| end <= variable.size_bytes)
            };
            end.is_some_and(|end| end <= bytes)
                && variable.init.len() as u64 <= variable.size_bytes
                && variable.relocations.iter().all(held)
        };
        match self.variables.iter().find(|variable| !is_inside(variable)) {
            Some(variable) => Err(PlacedError::Variable(crate::shown(&variable.name))),
            None => Ok(()),
        }
    }

    /// Returns the parts of the block that are not zero where it begins at that address: offsets and bytes.
    pub fn image(&self, address: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let filled = |variable: &&PlacedVariable| {
            !(variable.init.is_empty() && variable.relocations.is_empty())
        };
        let variables = self.variables.iter().filter(filled);
        variables.map(move |variable| (variable.offset, variable.value(address)))
    }
}

impl PlacedVariable {
    /// Returns its initial value, up to the last byte that is given, in a block at that address.
    fn value(&self, block: u64) -> Vec<u8> {
        let mut value = self.init.clone();
        for held in &self.relocations {
            let at = usize::try_from(held.at).unwrap_or(usize::MAX);
            let end = at.saturating_add(usize::from(held.width));
            if value.len() < end {
                value.resize(end, 0);
            }
            let address = block.wrapping_add_signed(held.target) >> held.shift_bits;
            let bytes = address.to_le_bytes();
            value[at..end].copy_from_slice(&bytes[..usize::from(held.width)]);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::{Placed, PlacedAddress, PlacedVariable};

    fn placed() -> Placed {
        let variable = |name: &str, offset, init: &[u8], relocations| PlacedVariable {
            name: name.to_owned(),
            offset,
            size_bytes: 16,
            align: 8,
            init: init.to_vec(),
            relocations,
        };
        let held = |at, width, shift_bits, target| PlacedAddress {
            at,
            width,
            shift_bits,
            target,
        };
        Placed {
            pointer: "$m1".to_owned(),
            bytes: 48,
            align: 256,
            variables: vec![
                variable("zero", 0, &[], vec![]),
                variable("plain", 16, &[1, 2], vec![]),
                variable(
                    "table",
                    32,
                    &[7],
                    vec![held(8, 8, 0, 17), held(1, 1, 8, -1)],
                ),
            ],
        }
    }

    #[test]
    fn an_image_has_bytes_and_addresses() {
        let placed = placed();
        placed.check().expect("it is right");
        let image: Vec<_> = placed.image(0x1000).collect();
        assert_eq!(image[0], (16, vec![1, 2]));
        let mut table = vec![7, 0x0f, 0, 0, 0, 0, 0, 0];
        table.extend(0x1011_u64.to_le_bytes());
        assert_eq!(image[1], (32, table));
        assert_eq!(image.len(), 2);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let spoiled = |spoil: fn(&mut Placed)| {
            let mut placed = placed();
            spoil(&mut placed);
            placed.check().is_err()
        };
        assert!(spoiled(|p| p.bytes = 40));
        assert!(spoiled(|p| p.bytes = u64::MAX));
        assert!(spoiled(|p| p.align = 24));
        assert!(spoiled(|p| p.variables[1].offset = u64::MAX));
        assert!(spoiled(|p| p.variables[1].init = vec![0; 17]));
        assert!(spoiled(|p| p.variables[2].relocations[0].at = 9));
        assert!(spoiled(|p| p.variables[2].relocations[0].width = 0));
        assert!(spoiled(|p| p.variables[2].relocations[0].shift_bits = 64));
    }
}
