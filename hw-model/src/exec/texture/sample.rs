//! Sampling: which texels a coordinate means, and what they are worth (CUDA C++ Programming Guide, appendix
//! "Texture Fetching").
//!
//! Rules: linear filtering takes weights of eight fractional bits, as the hardware does, and interpolates in double
//! precision; channels that the image lacks are 0, 0 and 1.

use crate::exec::values::round;
use crate::texture::{AddressMode, Channel, Image, Sampler};

/// Two neighbouring texels along one axis and the second one's weight in 256ths; the first is all without a filter.
/// An index of `None` is outside, where texels are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub(crate) texels: [Option<u32>; 2],
    pub(crate) weight: u32,
}

impl Axis {
    pub(super) const ONLY: Self = Self {
        texels: [Some(0), Some(0)],
        weight: 0,
    };

    /// Returns the texel that an integer coordinate names.
    pub(crate) fn integer(at: i64, size: u32, mode: AddressMode) -> Self {
        // Wrap and mirror need normalised coordinates.
        let mode = match mode {
            AddressMode::Border => AddressMode::Border,
            _ => AddressMode::Clamp,
        };
        let texel = resolved(at, size, mode);
        Self {
            texels: [texel, texel],
            weight: 0,
        }
    }

    /// Returns the texels around a float coordinate.
    pub(in crate::exec) fn float(
        x: f32,
        size: u32,
        mode: AddressMode,
        sampler: &Sampler,
        filters: bool,
    ) -> Self {
        let mode = match mode {
            AddressMode::Wrap | AddressMode::Mirror if !sampler.normalized => AddressMode::Clamp,
            mode => mode,
        };
        let x = if x.is_nan() { 0.0 } else { f64::from(x) };
        let x = if sampler.normalized {
            x * f64::from(size)
        } else {
            x
        };
        // Far outside, one texel is like the next.
        let x = x.clamp(-1e9, 1e9);
        #[allow(clippy::cast_possible_truncation, reason = "clamped before")]
        if filters {
            let shifted = ((x - 0.5) * 256.0).round_ties_even() as i64;
            let (at, weight) = (shifted >> 8, shifted & 255);
            Self {
                texels: [resolved(at, size, mode), resolved(at + 1, size, mode)],
                weight: u32::try_from(weight).unwrap_or(0),
            }
        } else {
            let texel = resolved(x.floor() as i64, size, mode);
            Self {
                texels: [texel, texel],
                weight: 0,
            }
        }
    }
}

fn resolved(at: i64, size: u32, mode: AddressMode) -> Option<u32> {
    let size = i64::from(size.max(1));
    let inside = match mode {
        AddressMode::Clamp => at.clamp(0, size - 1),
        AddressMode::Border if (0..size).contains(&at) => at,
        AddressMode::Border => return None,
        AddressMode::Wrap => at.rem_euclid(size),
        AddressMode::Mirror => {
            let at = at.rem_euclid(2 * size);
            at.min(2 * size - 1 - at)
        }
    };
    u32::try_from(inside).ok()
}

/// A texel's four channels, as float or as the bits of integers.
pub(super) type Texel = [f64; 4];

/// Returns channel `index` of a texel's bytes.
fn channel(bytes: &[u8; 16], image: &Image, index: usize, normalized: bool) -> f64 {
    let size = image.channel.bytes() as usize;
    let mut word = [0; 4];
    let from = index * size;
    word[..size].copy_from_slice(&bytes[from..from + size]);
    let word = u32::from_le_bytes(word);
    let spare = 32 - 8 * image.channel.bytes();
    let signed = f64::from((word << spare).cast_signed() >> spare);
    #[allow(clippy::cast_possible_truncation, reason = "a half-precision channel")]
    match image.channel {
        Channel::U8 if normalized => f64::from(word) / 255.0,
        Channel::U16 if normalized => f64::from(word) / 65535.0,
        Channel::S8 if normalized => (signed / 127.0).max(-1.0),
        Channel::S16 if normalized => (signed / 32767.0).max(-1.0),
        Channel::U8 | Channel::U16 | Channel::U32 => f64::from(word),
        Channel::S8 | Channel::S16 | Channel::S32 => signed,
        Channel::F16 => round::half_to_single(word as u16).into(),
        Channel::F32 => f32::from_bits(word).into(),
    }
}

/// Returns the channels of a texel's bytes; those that the image lacks are 0, 0 and 1.
pub(super) fn texel(bytes: &[u8; 16], image: &Image, normalized: bool) -> Texel {
    let mut out = [0.0, 0.0, 0.0, 1.0];
    for (index, place) in out.iter_mut().enumerate().take(image.channels as usize) {
        *place = channel(bytes, image, index, normalized);
    }
    out
}

/// Returns a channel as the destination's bits: float, half precision or an integer.
pub(super) fn as_float(v: f64) -> u32 {
    round::to_single(v).to_bits()
}

/// The bits of an integer channel.
#[allow(
    clippy::cast_possible_truncation,
    reason = "an integer channel of at most 32 bits"
)]
pub(super) fn as_integer(v: f64) -> u32 {
    v as i64 as u32
}
