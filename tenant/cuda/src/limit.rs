//! The sizes that textures, surfaces and arrays may have, and where their texels may stand.
//!
//! The most texels along an axis, and the most layers, are those of compute capability 7.0 and above (CUDA programming
//! guide, technical specifications per compute capability).

/// Of an array of one dimension.
pub(crate) const LINE: usize = 131_072;
/// Of one of two, along x and y.
pub(crate) const PLANE: [usize; 2] = [131_072, 65_536];
/// Of one of three, along each axis.
pub(crate) const BOX: usize = 16_384;
/// Of one with layers, along x and y.
pub(crate) const LAYERED: usize = 32_768;
/// Layers.
pub(crate) const LAYERS: usize = 2048;
/// The most texels of a line in memory.
pub(crate) const MOST_LINEAR: usize = 1 << 28;
/// The most texels of a row, rows, and bytes from row to row, in memory.
pub(crate) const MOST_ROWS: [usize; 3] = [131_072, 65_000, 2_097_120];
/// Addresses of texels in memory are multiples of this.
pub(crate) const ALIGNMENT: u64 = 512;
/// So are bytes from row to row of this.
pub(crate) const PITCH_ALIGNMENT: usize = 32;
