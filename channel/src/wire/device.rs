//! Device, region, I/O descriptor and IRQ descriptions (specification,
//! sections `VFIO_USER_DEVICE_GET_INFO` to `VFIO_USER_DEVICE_SET_IRQS`).

use super::{MAX_MESSAGE_FDS, WireError, take};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `VFIO_DEVICE_FLAGS_RESET` and `VFIO_DEVICE_FLAGS_PCI`.
const DEVICE_RESET: u32 = 1;
const DEVICE_PCI: u32 = 1 << 1;
const REGION_READ: u32 = 1;
const REGION_WRITE: u32 = 1 << 1;
const REGION_MMAP: u32 = 1 << 2;
const REGION_CAPS: u32 = 1 << 3;
/// `VFIO_REGION_INFO_CAP_SPARSE_MMAP` of `<linux/vfio.h>`.
const CAP_SPARSE_MMAP: u16 = 1;
const REGION_INFO_BYTES: usize = 32;
const IO_FDS_BYTES: usize = 16;
const SUB_REGION_BYTES: usize = 40;
/// The most sparse areas that we accept in a reply.
const MAX_AREAS: usize = 64;

/// The payload of `VFIO_USER_DEVICE_GET_INFO`, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceInfo {
    /// Size of the full reply payload in bytes.
    pub argsz: u32,
    /// Attributes of the device.
    pub flags: u32,
    /// How many regions it has.
    pub num_regions: u32,
    /// How many IRQ types it has.
    pub num_irqs: u32,
}

impl DeviceInfo {
    /// Returns a PCI device that can be reset.
    #[must_use]
    pub fn new(num_regions: u32, num_irqs: u32) -> Self {
        Self {
            argsz: 16,
            flags: DEVICE_RESET | DEVICE_PCI,
            num_regions,
            num_irqs,
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        Ok(take("device info", payload)?.0)
    }
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

const _: () = assert!(size_of::<RawRegionInfo>() == REGION_INFO_BYTES);

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawSparse {
    id: u16,
    version: u16,
    next: u32,
    nr_areas: u32,
    reserved: u32,
}

/// A part of a region that can be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SparseArea {
    /// Where it starts in the region, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// Description of a region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionDescription {
    /// Its size in bytes; 0 if there is no such region.
    pub size_bytes: u64,
    /// `VFIO_USER_REGION_READ` works.
    pub readable: bool,
    /// `VFIO_USER_REGION_WRITE` works.
    pub writable: bool,
    /// It can be mapped, with the descriptor of the reply.
    pub mappable: bool,
    /// Which parts can be mapped.
    pub areas: Vec<SparseArea>,
}

impl RegionDescription {
    /// Returns a region that is read and written by message.
    #[must_use]
    pub fn accessed(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            readable: true,
            writable: true,
            ..Self::default()
        }
    }

    /// Writes the reply for region `index`, for a peer that takes `argsz`
    /// bytes. If that is too little, only the fixed part is written, with the
    /// size that is needed (section "Message sizes").
    #[must_use]
    pub fn encode(&self, index: u32, argsz: u32) -> Vec<u8> {
        let caps = !self.areas.is_empty();
        let cap_bytes = size_of::<RawSparse>() + self.areas.len() * size_of::<SparseArea>();
        let full = REGION_INFO_BYTES + if caps { cap_bytes } else { 0 };
        let mut flags = 0;
        for (set, flag) in [
            (self.readable, REGION_READ),
            (self.writable, REGION_WRITE),
            (self.mappable, REGION_MMAP),
            (caps, REGION_CAPS),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let info = RawRegionInfo {
            argsz: u32_of(full),
            flags,
            index,
            cap_offset: if caps { u32_of(REGION_INFO_BYTES) } else { 0 },
            size: self.size_bytes,
            offset: 0,
        };
        let mut bytes = info.as_bytes().to_vec();
        if caps && argsz as usize >= full {
            let nr_areas = u32_of(self.areas.len());
            let cap = RawSparse {
                id: CAP_SPARSE_MMAP,
                version: 1,
                next: 0,
                nr_areas,
                reserved: 0,
            };
            bytes.extend_from_slice(cap.as_bytes());
            bytes.extend_from_slice(self.areas.as_bytes());
        }
        bytes
    }

    /// Reads a reply, and the size that a full one takes.
    ///
    /// # Errors
    /// Too short, or capabilities outside the payload.
    pub fn parse(payload: &[u8]) -> Result<(Self, u32), WireError> {
        let (info, _) = take::<RawRegionInfo>("region info", payload)?;
        let has = |flag| info.flags & flag != 0;
        let mut description = Self {
            size_bytes: info.size,
            readable: has(REGION_READ),
            writable: has(REGION_WRITE),
            mappable: has(REGION_MMAP),
            areas: Vec::new(),
        };
        if has(REGION_CAPS) && info.argsz as usize <= payload.len() {
            description.areas = parse_areas(payload, info.cap_offset)?;
        }
        Ok((description, info.argsz))
    }
}

/// Walks the capability chain. Each link must lie behind the one before it, so
/// that a circular chain ends.
fn parse_areas(payload: &[u8], first: u32) -> Result<Vec<SparseArea>, WireError> {
    let bad = |value| WireError::Count {
        what: "capability offset",
        value,
    };
    let (mut at, mut before) = (first, 0);
    while at != 0 {
        if at <= before {
            return Err(bad(at));
        }
        let bytes = payload.get(at as usize..).ok_or(bad(at))?;
        let (cap, rest) = take::<RawSparse>("region capability", bytes)?;
        if cap.id == CAP_SPARSE_MMAP {
            let count = cap.nr_areas as usize;
            let fits = WireError::Count {
                what: "sparse area count",
                value: cap.nr_areas,
            };
            let bytes = rest
                .get(..count.saturating_mul(size_of::<SparseArea>()))
                .ok_or(fits)?;
            if count > MAX_AREAS {
                return Err(fits);
            }
            let areas = bytes.chunks(size_of::<SparseArea>());
            return areas.map(|area| Ok(take("sparse area", area)?.0)).collect();
        }
        (before, at) = (at, cap.next);
    }
    Ok(Vec::new())
}

/// The payload of requests that name an index: `argsz`, `flags`, `index`,
/// `count` (regions, I/O descriptors and IRQs share this beginning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IndexQuery {
    /// The most bytes of reply payload that the sender takes.
    pub argsz: u32,
    /// Zero in a request; attributes of an IRQ in a reply.
    pub flags: u32,
    /// Which region or IRQ type.
    pub index: u32,
    /// Zero in a request; how many in a reply.
    pub count: u32,
}

impl IndexQuery {
    /// Reads the request, which may be longer.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        Ok(take("index query", payload)?.0)
    }

    /// Returns the request for the description of region `index`, in the 32-byte form
    /// that the specification asks for.
    #[must_use]
    pub fn region_request(index: u32, argsz: u32) -> Vec<u8> {
        let info = RawRegionInfo {
            argsz,
            flags: 0,
            index,
            cap_offset: 0,
            size: 0,
            offset: 0,
        };
        info.as_bytes().to_vec()
    }
}

/// A part of a region that is written through an eventfd (section
/// `VFIO_USER_DEVICE_GET_REGION_IO_FDS`, ioeventfd form).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IoEventFd {
    /// Where it starts in the region, in bytes.
    pub offset: u64,
    /// How long it is in bytes; 0 if any access size counts.
    pub size: u64,
    /// Which descriptor of the message.
    pub fd_index: u32,
    /// 0: an ioeventfd.
    pub kind: u32,
    /// `KVM_IOEVENTFD_FLAG_*`.
    pub flags: u32,
    /// Reserved.
    pub padding: u32,
    /// The value to match, if a flag says so.
    pub datamatch: u64,
}

const _: () = assert!(size_of::<IoEventFd>() == SUB_REGION_BYTES);

impl IoEventFd {
    /// Returns an eventfd that any write of `size` bytes at `offset` signals.
    #[must_use]
    pub fn new(offset: u64, size: u64, fd_index: u32) -> Self {
        Self {
            offset,
            size,
            fd_index,
            kind: 0,
            flags: 0,
            padding: 0,
            datamatch: 0,
        }
    }

    /// Writes the reply for region `index`; only the fixed part if `argsz` is
    /// too little.
    #[must_use]
    pub fn encode_all(index: u32, argsz: u32, list: &[Self]) -> Vec<u8> {
        let full = IO_FDS_BYTES + size_of_val(list);
        let head = IndexQuery {
            argsz: u32_of(full),
            flags: 0,
            index,
            count: u32_of(list.len()),
        };
        let mut bytes = head.as_bytes().to_vec();
        if argsz as usize >= full {
            bytes.extend_from_slice(list.as_bytes());
        }
        bytes
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// Too short, or more entries than follow.
    pub fn parse_all(payload: &[u8]) -> Result<Vec<Self>, WireError> {
        let (head, rest) = take::<IndexQuery>("region io fds", payload)?;
        let wrong = WireError::Count {
            what: "sub-region count",
            value: head.count,
        };
        if head.count as usize > MAX_MESSAGE_FDS {
            return Err(wrong);
        }
        let bytes = rest
            .get(..head.count as usize * SUB_REGION_BYTES)
            .ok_or(wrong)?;
        bytes
            .chunks(SUB_REGION_BYTES)
            .map(|chunk| Ok(take("sub-region", chunk)?.0))
            .collect()
    }
}

/// The head of `VFIO_USER_DEVICE_SET_IRQS`; `data` follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IrqSet {
    /// Size of the request payload in bytes.
    pub argsz: u32,
    /// `VFIO_IRQ_SET_*` of `<linux/vfio.h>`.
    pub flags: u32,
    /// Which IRQ type.
    pub index: u32,
    /// The first sub-index.
    pub start: u32,
    /// How many sub-indices.
    pub count: u32,
}

impl IrqSet {
    /// Reads the head and the data after it.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), WireError> {
        take("irq set", payload)
    }
}

fn u32_of(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{IoEventFd, RegionDescription, SparseArea};

    #[test]
    fn a_region_with_areas_survives_the_wire() {
        let areas = vec![
            SparseArea {
                offset: 0,
                size: 4096,
            },
            SparseArea {
                offset: 8192,
                size: 1,
            },
        ];
        let region = RegionDescription {
            size_bytes: 1 << 20,
            mappable: true,
            areas,
            ..Default::default()
        };
        let bytes = region.encode(2, 1000);
        let (parsed, argsz) = RegionDescription::parse(&bytes).unwrap();
        assert_eq!((parsed, argsz as usize), (region.clone(), bytes.len()));
        let short = region.encode(2, 32);
        assert_eq!(short.len(), 32);
        assert_eq!(
            RegionDescription::parse(&short).unwrap().1 as usize,
            bytes.len()
        );
    }

    #[test]
    fn a_circular_capability_chain_ends() {
        let areas = vec![SparseArea {
            offset: 0,
            size: 4096,
        }];
        let region = RegionDescription {
            areas,
            ..RegionDescription::accessed(4096)
        };
        let mut bytes = region.encode(0, 1000);
        bytes[32] = 9;
        bytes[36] = 32;
        assert!(RegionDescription::parse(&bytes).is_err());
    }

    #[test]
    fn io_descriptors_survive_the_wire() {
        let list = [IoEventFd::new(4096, 4, 0)];
        let bytes = IoEventFd::encode_all(0, 56, &list);
        assert_eq!(IoEventFd::parse_all(&bytes).unwrap(), list);
        assert!(IoEventFd::parse_all(&bytes[..bytes.len() - 1]).is_err());
    }
}
