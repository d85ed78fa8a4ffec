//! Several PTX texts in one image: what `cuLinkComplete` gives for more than one, to be linked when it is loaded.
//!
//! ```text
//! 0 u32 magic   4 u32 version, 1   8 u64 bytes of all   16 u64 number of texts   24 u64 bytes of each text …, texts …
//! ```
//!
//! All numbers are little-endian.

use super::{ImageError, MAX_UNPACKED_BYTES, Source};

/// The first bytes of a bundle.
pub const MAGIC: [u8; 4] = *b"\x7fGMX";

const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 24;
/// No bundle has more texts.
const MAX_TEXTS: u64 = 65_536;

/// Returns an image of these texts: one alone is itself, with the zero that ends it.
#[must_use]
pub fn pack(texts: &[Vec<u8>]) -> Vec<u8> {
    if let [text] = texts {
        let mut image = text.clone();
        image.push(0);
        return image;
    }
    let bytes: u64 = texts.iter().map(|text| 8 + text.len() as u64).sum();
    let mut image = Vec::new();
    image.extend(MAGIC);
    image.extend(VERSION.to_le_bytes());
    image.extend((HEADER_BYTES + bytes).to_le_bytes());
    image.extend((texts.len() as u64).to_le_bytes());
    for text in texts {
        image.extend((text.len() as u64).to_le_bytes());
    }
    for text in texts {
        image.extend(text);
    }
    image
}

/// Returns the texts of a bundle.
///
/// # Errors
/// Its lengths contradict each other.
pub fn unpack(source: &(impl Source + ?Sized)) -> Result<Vec<Vec<u8>>, ImageError> {
    let wrong = || ImageError::corrupt("the lengths of a bundle contradict each other");
    let word = |at| source.read_array(at).map(u64::from_le_bytes);
    let version = source.read_array(4).map(u32::from_le_bytes);
    if version != Some(VERSION) {
        return Err(ImageError::corrupt("a bundle of another version"));
    }
    let (bytes, count) = (word(8).ok_or_else(wrong)?, word(16).ok_or_else(wrong)?);
    if bytes > MAX_UNPACKED_BYTES || count == 0 || count > MAX_TEXTS {
        return Err(wrong());
    }
    let mut at = HEADER_BYTES + 8 * count;
    let mut texts = Vec::new();
    for n in 0..count {
        let len = word(HEADER_BYTES + 8 * n).ok_or_else(wrong)?;
        let end = at.checked_add(len).filter(|&end| end <= bytes);
        let end = end.ok_or_else(wrong)?;
        texts.push(source.read(at, len).ok_or_else(wrong)?);
        at = end;
    }
    match at == bytes {
        true => Ok(texts),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};

    #[test]
    fn texts_come_back() {
        let texts = vec![b"one".to_vec(), Vec::new(), b"three\0".to_vec()];
        let image = pack(&texts);
        assert_eq!(unpack(image.as_slice()), Ok(texts));
        for end in 0..image.len() {
            assert!(unpack(&image[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(pack(&[b"one".to_vec()]), b"one\0");
    }
}
