//! Packed payloads, unpacked to the size that their header says and no further.

use super::{ImageError, MAX_UNPACKED_BYTES};
use std::io::Read;

/// The way in which a payload is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    /// One LZ4 block, without a frame.
    Lz4,
    /// A zstd frame.
    Zstd,
}

/// Unpacks a payload.
pub(super) fn unpack(
    packed: Vec<u8>,
    compression: Compression,
    bytes: u64,
) -> Result<Vec<u8>, ImageError> {
    let size = usize::try_from(bytes).ok();
    let Some(size) = size.filter(|_| bytes <= MAX_UNPACKED_BYTES) else {
        return Err(ImageError::corrupt(format!(
            "an entry of {bytes} bytes is over the limit of {MAX_UNPACKED_BYTES}"
        )));
    };
    let unpacked = match compression {
        Compression::None => Some(packed),
        Compression::Lz4 => lz4(&packed, size),
        Compression::Zstd => zstd(&packed, size),
    };
    unpacked
        .filter(|unpacked| unpacked.len() == size)
        .ok_or_else(|| {
            ImageError::corrupt(format!("an entry does not unpack to its {bytes} bytes"))
        })
}

/// Unpacks an LZ4 block. None unpacks to more than 255 times its size, so a false size is found before memory is taken
/// for it.
fn lz4(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    const MOST: usize = 255;
    if size / MOST > packed.len() {
        return None;
    }
    lz4_flex::block::decompress(packed, size).ok()
}

fn zstd(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let stream = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    // One byte more shows that there is too much.
    stream
        .take(size as u64 + 1)
        .read_to_end(&mut unpacked)
        .ok()?;
    Some(unpacked)
}
