//! Textures and surfaces: sampling, and reads and writes of texels.
//!
//! Rule: coordinates outside are what the texture's or the instruction's mode says, never an access outside the
//! texels.

pub(super) mod fetch;
pub(super) mod sample;
pub(super) mod surface;
