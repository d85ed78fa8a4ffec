//! Textures and surfaces: sampling, and reads and writes of texels.
//!
//! Rule: a coordinate outside the image is handled as the texture's or the instruction's mode says, and never reaches
//! memory outside the texels.

pub(super) mod fetch;
pub(super) mod sample;
pub(super) mod surface;
