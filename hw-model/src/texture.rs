//! Texture, sampler and surface objects: what a handle stands for (CUDA C++ Programming Guide, section 3.2.14 and
//! appendix "Texture Fetching"; PTX ISA section 5.3).
//!
//! An image is a rectangle of texels in device memory, row after row. A texture adds how it is sampled. Objects
//! belong to a domain; a handle is good in the kernels of that domain only.
//! Rules: every fetch is checked like any other access, so that freeing an image's memory turns its handles into
//! faults; a `.texref`, `.samplerref` or `.surfref` variable holds a handle, which [`crate::Gpu::bind`] writes.

use crate::memory::DomainId;

/// Type of one channel of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl Channel {
    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }
}

/// Shape of an image; sizes in texels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A buffer: one row that is fetched by index, zero outside (`tex1Dfetch`).
    Buffer {
        /// Texels.
        width: u32,
    },
    /// One row, or `layers` of them.
    OneD {
        /// Texels of a row.
        width: u32,
        /// Rows of a layered image; 0 for a plain one.
        layers: u32,
    },
    /// A rectangle, or `layers` of them.
    TwoD {
        /// Texels of a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Rectangles of a layered image; 0 for a plain one.
        layers: u32,
    },
    /// A box.
    ThreeD {
        /// Texels of a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Rectangles.
        depth: u32,
    },
}

impl Extent {
    /// Texels along x, y, and z or the layers; at least one each.
    #[must_use]
    pub fn sizes(self) -> [u32; 3] {
        match self {
            Self::Buffer { width } => [width, 1, 1],
            Self::OneD { width, layers } => [width, 1, layers.max(1)],
            Self::TwoD {
                width,
                height,
                layers,
            } => [width, height, layers.max(1)],
            Self::ThreeD {
                width,
                height,
                depth,
            } => [width, height, depth],
        }
    }
}

/// Texels in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Address of the first texel, a multiple of a texel's size.
    pub address: u64,
    /// Shape.
    pub extent: Extent,
    /// Bytes from row to row, a multiple of a texel's size; rectangles follow each other without a gap.
    pub row_bytes: u64,
    /// Type of a channel.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
}

impl Image {
    /// Returns the size of a texel in bytes.
    #[must_use]
    pub const fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// Returns the bytes from the first texel to the end of the last one.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let [width, height, depth] = self.extent.sizes();
        let rows = u64::from(height) * u64::from(depth);
        rows.saturating_sub(1)
            .saturating_mul(self.row_bytes)
            .saturating_add(u64::from(width) * u64::from(self.texel_bytes()))
    }
}

/// What a coordinate outside the image means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressMode {
    /// The image repeats; normalised coordinates only, else as `Clamp`.
    Wrap,
    /// The image repeats and is mirrored every other time; normalised coordinates only, else as `Clamp`.
    Mirror,
    /// The nearest texel inside.
    Clamp,
    /// Zero.
    Border,
}

/// How a texture is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// Address mode of each axis.
    pub address_modes: [AddressMode; 3],
    /// Linear interpolation rather than the nearest texel.
    pub linear: bool,
    /// Coordinates run from 0 to 1 rather than over texels.
    pub normalized: bool,
}

/// A texture object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texture {
    /// Texels.
    pub image: Image,
    /// How it is sampled, unless the instruction names a sampler.
    pub sampler: Sampler,
    /// Integers of 8 and 16 bits are read as floats from 0 to 1, or −1 to 1.
    pub normalized_float: bool,
}

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// For `tex`, `tld4` and `txq`.
    Texture(Texture),
    /// For the second operand of `tex` with separate samplers.
    Sampler(Sampler),
    /// For `suld`, `sust`, `sured` and `suq`.
    Surface(Image),
}

impl Object {
    /// Returns the object's image.
    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        match self {
            Self::Texture(texture) => Some(&texture.image),
            Self::Surface(image) => Some(image),
            Self::Sampler(_) => None,
        }
    }
}

/// Why an object was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TextureError {
    /// The domain does not exist (any more).
    #[error("there is no memory domain {}", .0.0)]
    NoDomain(DomainId),
    /// The description makes no sense.
    #[error("the image cannot be used: {0}")]
    Image(&'static str),
    /// The image leaves its allocation.
    #[error("the image's {bytes} bytes at {address:#x} do not lie inside one allocation")]
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// There is no such object, or no such variable.
    #[error("'{0}' is neither a live object nor a reference of the module")]
    NoObject(String),
}

/// The objects of a domain.
#[derive(Debug, Default)]
pub(crate) struct Objects(Vec<Option<Object>>);

/// The upper half of every handle: no device address has it, and zero is no handle.
const HANDLE: u64 = 0x7e78_0000_0000_0000;

impl Objects {
    pub(crate) fn insert(&mut self, object: Object) -> u64 {
        let free = self.0.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(object);
        HANDLE + index as u64
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Object> {
        let index = usize::try_from(handle.checked_sub(HANDLE)?).ok()?;
        self.0.get(index)?.as_ref()
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Object> {
        let index = usize::try_from(handle.checked_sub(HANDLE)?).ok()?;
        self.0.get_mut(index)?.take()
    }
}

/// Returns what is wrong with an image, if anything.
pub(crate) fn complaint(image: &Image) -> Option<&'static str> {
    if !matches!(image.channels, 1 | 2 | 4) {
        return Some("a texel has 1, 2 or 4 channels");
    }
    let texel = u64::from(image.texel_bytes());
    let [width, height, depth] = image.extent.sizes();
    if width == 0 || height == 0 || depth == 0 {
        return Some("every side is at least one texel long");
    }
    if !image.address.is_multiple_of(texel) || !image.row_bytes.is_multiple_of(texel) {
        return Some("address and row length are multiples of a texel's size");
    }
    if u64::from(height) * u64::from(depth) > 1 && image.row_bytes < u64::from(width) * texel {
        return Some("a row is longer than the distance between rows");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Channel, Extent, Image, complaint};

    #[test]
    fn what_makes_no_sense_is_refused_whatever_its_size() {
        let image = |channels, width, row_bytes| Image {
            address: 1 << 36,
            extent: Extent::ThreeD {
                width,
                height: u32::MAX,
                depth: u32::MAX,
            },
            row_bytes,
            channel: Channel::F32,
            channels,
        };
        for channels in [0, 3, 5, 1 << 30, u32::MAX] {
            assert!(complaint(&image(channels, 1, 16)).is_some(), "{channels}");
        }
        assert!(complaint(&image(4, u32::MAX, u64::MAX - 15)).is_none());
        assert_eq!(image(4, u32::MAX, u64::MAX - 15).bytes(), u64::MAX);
        assert!(complaint(&image(4, 0, 16)).is_some() && complaint(&image(4, 2, 16)).is_some());
    }
}
