//! Textures and surfaces: what a tenant asks to be made of texels in its device memory.
//!
//! A handle stands for one in the tenant's kernels, as a parameter of 64 bits.

use serde::{Deserialize, Serialize};

/// The type of one channel of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Channel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

/// The shape of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A row that is fetched by index.
    Buffer,
    /// A row, or layers of them.
    OneD,
    /// A rectangle, or layers of them.
    TwoD,
    /// A box.
    ThreeD,
}

/// Texels in device memory, row after row; rectangles follow each other without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The first texel's device address.
    pub address: u64,
    /// Its shape.
    pub shape: Shape,
    /// Texels along x, y and z; what its shape does not have is not looked at.
    pub size: [u32; 3],
    /// Layers; 0 for an image without.
    pub layers: u32,
    /// Bytes from row to row.
    pub row_bytes: u64,
    /// The type of a channel.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
}

/// What a coordinate outside the image means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressMode {
    /// The image repeats.
    Wrap,
    /// The image repeats, mirrored every other time.
    Mirror,
    /// The nearest texel inside.
    Clamp,
    /// Zero.
    Border,
}

/// How a texture is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampler {
    /// The address mode of each axis.
    pub address_modes: [AddressMode; 3],
    /// Linear interpolation rather than the nearest texel.
    pub linear: bool,
    /// Coordinates run from 0 to 1 rather than over texels.
    pub normalized: bool,
    /// Integers of 8 and 16 bits are read as floats from 0 to 1, or -1 to 1.
    pub normalized_float: bool,
}

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// A texture: texels and how they are sampled.
    Texture(Image, Sampler),
    /// A surface.
    Surface(Image),
}
