//! A fat binary's container: entries for several architectures, of which the device's best PTX is taken.
//!
//! The layout is known from the files that nvcc writes (13.5 and earlier), little-endian throughout:
//!
//! ```text
//! container   0 u32 magic   4 u16 version, 1   6 u16 bytes of this header   8 u64 bytes of the entries
//! entry       0 u16 kind: 1 PTX, 2 ELF, 256 several entries packed together
//!             4 u32 bytes of this header       8 u64 bytes of the payload, with padding
//!            16 u32 bytes packed, or 0        28 u32 architecture: 80 for sm_80
//!            40 u64 flags                     56 u64 bytes unpacked
//! packed     64 u32 number of records         68 u32 bytes of the table, these eight included
//! record      0 u16 kind   4 u32 offset in the unpacked payload   8 u64 bytes   28 u32 architecture   40 u64 flags
//! ```
//!
//! Where a card would take machine code that is there for it, and all PTX is for later devices, as in packages that
//! bring machine code for many, the earliest of that PTX stands in for the machine code: both were made from one
//! source. It says of itself which architecture it is for (`CU_FUNC_ATTRIBUTE_PTX_VERSION`), which libraries choose
//! launches by.
//!
//! Flags: 0x2000 LZ4, 0x8000 zstd, 0x10_0000 for its own architecture only (`sm_90a`), 0x20_0000 for its family
//! (`sm_100f`).

use super::compression::{Compression, unpack};
use super::target::{self, Reach, Target};
use super::{Capability, ImageError, Source};

/// The first bytes of a container.
pub const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

const CONTAINER_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 64;
/// No header of an entry is longer.
const MAX_ENTRY_HEADER_BYTES: u64 = 64 << 10;
/// No container has more entries, and no packed entry more records.
const MAX_ENTRIES: usize = 4096;

const KIND_PTX: u16 = 1;
const KIND_PACKED: u16 = 256;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_OWN: u64 = 0x10_0000;
const FLAG_FAMILY: u64 = 0x20_0000;

/// One entry, or one of several that are packed together.
#[derive(Debug, Clone, Copy)]
struct Entry {
    is_ptx: bool,
    target: Target,
    payload: Payload,
    /// Offset and length in the unpacked payload; all of it where there is none.
    within: Option<(u64, u64)>,
}

/// The range of an entry's bytes.
#[derive(Debug, Clone, Copy)]
struct Payload {
    offset: u64,
    bytes: u64,
    compression: Compression,
    unpacked_bytes: u64,
}

/// A header's fields by their offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.0.get(at..at + N).and_then(|b| b.try_into().ok());
        bytes.unwrap_or([0; N])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn target(&self) -> Target {
        let flags = self.u64(40);
        Target {
            number: self.u32(28),
            reach: match flags {
                _ if flags & FLAG_OWN != 0 => Reach::Own,
                _ if flags & FLAG_FAMILY != 0 => Reach::Family,
                _ => Reach::Later,
            },
        }
    }

    fn compression(&self) -> Result<Compression, ImageError> {
        let flags = self.u64(40);
        match (self.u32(16), flags & FLAG_LZ4, flags & FLAG_ZSTD) {
            (0, 0, 0) => Ok(Compression::None),
            (1.., FLAG_LZ4, 0) => Ok(Compression::Lz4),
            (1.., 0, FLAG_ZSTD) => Ok(Compression::Zstd),
            _ => Err(ImageError::corrupt(format!(
                "an entry is packed in an unknown way (flags {flags:#x})"
            ))),
        }
    }
}

/// Returns the PTX in the container at the source's start that fits the device best.
///
/// # Errors
/// It holds none that the device runs or that stands in for such, or its lengths contradict each other; as
/// [`target::check`].
pub fn ptx(source: &(impl Source + ?Sized), device: Capability) -> Result<Vec<u8>, ImageError> {
    let entries = entries(source)?;
    let texts = || entries.iter().filter(|entry| entry.is_ptx);
    let fitting = texts().filter(|entry| entry.target.runs_on(device));
    let best = fitting.max_by_key(|entry| entry.target);
    let has_machine_code = || {
        let mut code = entries.iter().filter(|entry| !entry.is_ptx);
        code.any(|entry| entry.target.is_machine_code_of(device))
    };
    let stand_in = || {
        let later = texts().filter(|entry| entry.target.reach == Reach::Later);
        later
            .min_by_key(|entry| entry.target)
            .filter(|_| has_machine_code())
    };
    let Some(taken) = best.or_else(stand_in) else {
        let names = |ptx| {
            let of_kind = entries.iter().filter(|entry| entry.is_ptx == ptx);
            let mut found: Vec<Target> = of_kind.map(|entry| entry.target).collect();
            found.sort_unstable();
            found.dedup();
            found.into_iter().map(Target::name).collect()
        };
        return Err(match texts().next() {
            Some(_) => ImageError::OtherTargets {
                found: names(true),
                device,
            },
            None => ImageError::NoPtx {
                found: names(false),
                device,
            },
        });
    };
    let short = || ImageError::corrupt("an entry ends behind the end of its container");
    let Payload {
        offset,
        bytes,
        compression,
        unpacked_bytes,
    } = taken.payload;
    let packed = source.read(offset, bytes).ok_or_else(short)?;
    let mut text = unpack(packed, compression, unpacked_bytes)?;
    if let Some((start, len)) = taken.within {
        text = text.as_slice().read(start, len).ok_or_else(short)?;
    }
    // Text ends with a zero, and is padded with some.
    let text = text.as_slice().text().unwrap_or_default();
    if text.is_empty() {
        return Err(ImageError::corrupt("a PTX entry is empty"));
    }
    target::check(&text, best.map_or(target::ANY_DEVICE, |_| device))?;
    Ok(text)
}

/// Reads the headers of all entries.
fn entries(source: &(impl Source + ?Sized)) -> Result<Vec<Entry>, ImageError> {
    let header = source.read(0, CONTAINER_BYTES);
    let header = header.ok_or_else(|| ImageError::corrupt("a container without a header"))?;
    let fields = Fields(&header);
    let (version, header_bytes) = (fields.u16(4), u64::from(fields.u16(6)));
    if version != 1 || header_bytes < CONTAINER_BYTES {
        return Err(ImageError::corrupt(format!(
            "a container of version {version} with a header of {header_bytes} bytes"
        )));
    }
    let end = header_bytes.checked_add(fields.u64(8));
    let end = end.ok_or_else(|| ImageError::corrupt("a container without an end"))?;
    let mut entries = Vec::new();
    let mut at = header_bytes;
    while at < end {
        at = entry(source, at, end, &mut entries)?;
        if entries.len() > MAX_ENTRIES {
            let text = format!("more than {MAX_ENTRIES} entries in a container");
            return Err(ImageError::corrupt(text));
        }
    }
    Ok(entries)
}

/// Reads the header at `at`; gives the place of the next one.
fn entry(
    source: &(impl Source + ?Sized),
    at: u64,
    end: u64,
    entries: &mut Vec<Entry>,
) -> Result<u64, ImageError> {
    let short = || ImageError::corrupt("an entry ends behind the end of its container");
    let header = source.read(at, ENTRY_BYTES).ok_or_else(short)?;
    let fields = Fields(&header);
    let header_bytes = u64::from(fields.u32(4));
    if !(ENTRY_BYTES..=MAX_ENTRY_HEADER_BYTES).contains(&header_bytes) {
        let text = format!("an entry with a header of {header_bytes} bytes");
        return Err(ImageError::corrupt(text));
    }
    let stored = fields.u64(8);
    let offset = at + header_bytes;
    let next = offset.checked_add(stored).filter(|&next| next <= end);
    let next = next.ok_or_else(short)?;
    let kind = fields.u16(0);
    if kind != KIND_PTX && kind != KIND_PACKED {
        // What is no PTX is not unpacked, so it does not matter how that is done.
        entries.push(Entry {
            is_ptx: false,
            target: fields.target(),
            payload: Payload {
                offset,
                bytes: stored,
                compression: Compression::None,
                unpacked_bytes: stored,
            },
            within: None,
        });
        return Ok(next);
    }
    let compression = fields.compression()?;
    let packed = u64::from(fields.u32(16));
    if packed > stored {
        return Err(short());
    }
    let (bytes, unpacked_bytes) = match compression {
        Compression::None => (stored, stored),
        _ => (packed, fields.u64(56)),
    };
    let payload = Payload {
        offset,
        bytes,
        compression,
        unpacked_bytes,
    };
    if kind == KIND_PTX {
        entries.push(Entry {
            is_ptx: true,
            target: fields.target(),
            payload,
            within: None,
        });
    } else {
        let header = source.read(at, header_bytes).ok_or_else(short)?;
        records(&header, payload, entries)?;
    }
    Ok(next)
}

/// Reads the table of entries that are packed together.
fn records(header: &[u8], payload: Payload, entries: &mut Vec<Entry>) -> Result<(), ImageError> {
    const TABLE: usize = 64;
    /// The last field that is read ends here.
    const LEAST_RECORD_BYTES: usize = 48;
    let wrong = || ImageError::corrupt("the table of a packed entry has another length");
    let fields = Fields(header);
    let (count, bytes) = (fields.u32(TABLE) as usize, fields.u32(TABLE + 4) as usize);
    let table = header.get(TABLE + 8..).filter(|_| bytes >= 8);
    let table = table
        .and_then(|table| table.get(..bytes - 8))
        .ok_or_else(wrong)?;
    if count == 0
        || count > MAX_ENTRIES
        || table.len() % count != 0
        || table.len() / count < LEAST_RECORD_BYTES
    {
        return Err(wrong());
    }
    for record in table.chunks_exact(table.len() / count) {
        let fields = Fields(record);
        entries.push(Entry {
            is_ptx: fields.u16(0) == KIND_PTX,
            target: fields.target(),
            payload,
            within: Some((u64::from(fields.u32(4)), fields.u64(8))),
        });
    }
    Ok(())
}
