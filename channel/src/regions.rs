//! The regions of a gridmux device, as both ends see them.
//!
//! | region | contents | access |
//! |---|---|---|
//! | 0 | page 0: read-only facts; page 1: the doorbell | read, write; doorbell also as ioeventfd |
//! | 1 | the control mailbox ([`crate::control`]) | write a request, read its reply |
//! | 2 | the rings ([`crate::ring`]) | mapped, a sealed memfd |
//!
//! The device reports the nine regions of a PCI device (`VFIO_PCI_NUM_REGIONS`
//! in `<linux/vfio.h>`), because stock vfio-user clients ask for each of them;
//! those that are not listed have size 0.

use crate::wire::device::{RegionDescription, SparseArea};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A page, the unit of the layout of region 0 and of DMA mappings, in bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Facts and the doorbell.
pub const REGION_FACTS: u32 = 0;
/// The control mailbox.
pub const REGION_CONTROL: u32 = 1;
/// The rings.
pub const REGION_RINGS: u32 = 2;
/// How many regions the device reports (`VFIO_PCI_NUM_REGIONS`).
pub const REGION_COUNT: u32 = 9;
/// Where the doorbell stands in region 0, in bytes.
pub const DOORBELL_OFFSET_BYTES: u64 = PAGE_BYTES;
/// The size of region 0 in bytes.
pub const REGION_FACTS_BYTES: u64 = 2 * PAGE_BYTES;
/// The size of region 1 in bytes: the largest reply and its length prefix.
pub const REGION_CONTROL_BYTES: u64 = crate::control::MAX_REPLY_BYTES as u64 + 4;

/// Describes one region of a device whose rings take `rings_bytes`.
///
/// Unused regions below [`REGION_COUNT`] are described with size 0; an index
/// beyond it gives `None`.
#[must_use]
pub fn describe(region: u32, rings_bytes: u64) -> Option<RegionDescription> {
    let description = match region {
        REGION_FACTS => RegionDescription::accessed(REGION_FACTS_BYTES),
        REGION_CONTROL => RegionDescription::accessed(REGION_CONTROL_BYTES),
        REGION_RINGS => RegionDescription {
            size_bytes: rings_bytes,
            readable: false,
            writable: false,
            mappable: true,
            areas: vec![SparseArea {
                offset: 0,
                size: rings_bytes,
            }],
        },
        other if other < REGION_COUNT => RegionDescription::default(),
        _ => return None,
    };
    Some(description)
}

/// What region 0 starts with. Tenants that speak the mailbox get the same and
/// more from `Hello`; this is for those that only read registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Facts {
    /// "gridmux1" in little endian.
    pub magic: u64,
    /// The version of regions and rings, 1.
    pub version: u32,
    /// How many streaming multiprocessors the device has.
    pub sms: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// The most threads of a block.
    pub max_threads_per_block: u32,
    /// The most shared memory of a block in bytes.
    pub shared_bytes_per_block: u32,
    /// 1 if the device is the SM model.
    pub is_model: u32,
    /// Core clock in kilohertz.
    pub clock_khz: u64,
    /// Device memory in bytes.
    pub memory_bytes: u64,
}

impl Facts {
    /// Returns the facts of a device.
    #[must_use]
    pub fn new(device: &crate::control::DeviceFacts) -> Self {
        Self {
            magic: crate::ring::layout::MAGIC,
            version: crate::ring::layout::VERSION,
            sms: device.sms,
            warp_size: device.warp_size,
            max_threads_per_block: device.max_threads_per_block,
            shared_bytes_per_block: device.shared_bytes_per_block,
            is_model: u32::from(device.is_model),
            clock_khz: device.clock_khz,
            memory_bytes: device.memory_bytes,
        }
    }

    /// Copies what a tenant reads at `offset` of region 0; beyond the facts it
    /// is zero.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(rest) = self.as_bytes().get(start..) {
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
        }
    }
}
