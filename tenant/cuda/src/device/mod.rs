//! Devices: the program sees one, the service's, as far as `CUDA_VISIBLE_DEVICES` lets it.
//!
//! Rule: everything that is told of the device comes from its description ([`Description`]), so that figures agree.

pub mod attributes;

use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use gridmux_tenant::{DeviceFacts, Welcome};
use std::ffi::{c_char, c_int, c_uint};

/// The number of a device (`CUdevice`).
pub type CUdevice = c_int;

/// A device's identity as programs compare it (`CUuuid`).
pub type CUuuid = [u8; 16];

/// The description of the device for the program.
#[derive(Debug)]
pub struct Description {
    /// The mediator's figures.
    pub facts: DeviceFacts,
    /// The memory that the tenant may hold, in bytes, at most that of the device.
    pub memory_bytes: u64,
    uuid: CUuuid,
}

driver_api! {
    needs Init;
    2000 cuDeviceGetCount(count: *mut c_int) => get_count;
    2000 cuDeviceGet(device: *mut CUdevice, ordinal: c_int) => get;
    2000 cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) => get_name;
    9020 cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) => get_uuid;
    11040 cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) => get_uuid;
    10000 cuDeviceGetLuid(luid: *mut c_char, mask: *mut c_uint, device: CUdevice) => get_luid;
    3020 cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) => total_memory;
    2000 cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice) => get_attribute;
    2000 cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice) => get_properties;
    2000 cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) => compute_capability;
    4010 cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: CUdevice) => pci_bus_id;
    4010 cuDeviceGetByPCIBusId(device: *mut CUdevice, id: *const c_char) => by_pci_bus_id;
    4000 cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) => can_access_peer;
}

/// The properties of a device that early versions of the API gave in one structure (`CUdevprop`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs, reason = "the names are those of the C structure")]
pub struct CUdevprop {
    pub max_threads_per_block: c_int,
    pub max_threads_dim: [c_int; 3],
    pub max_grid_size: [c_int; 3],
    pub shared_mem_per_block: c_int,
    pub total_constant_memory: c_int,
    pub simd_width: c_int,
    pub mem_pitch: c_int,
    pub regs_per_block: c_int,
    pub clock_rate: c_int,
    pub texture_align: c_int,
}

impl Description {
    /// Describes the device that the mediator told of.
    #[must_use]
    pub fn new(welcome: &Welcome) -> Self {
        let facts = welcome.device.clone();
        Self {
            memory_bytes: welcome.memory_limit_bytes.min(facts.memory_bytes),
            uuid: uuid_of(&facts.name),
            facts,
        }
    }

    /// Returns the name that programs print.
    fn name(&self) -> String {
        format!("gridmux {}", self.facts.name)
    }
}

/// Returns a version 8 UUID (RFC 9562, section 5.8) that says nothing but which device it is: FNV-1a over its name.
fn uuid_of(name: &str) -> CUuuid {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in b"gridmux ".iter().chain(name.as_bytes()) {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Returns whether `CUDA_VISIBLE_DEVICES` shows the device: unset, or beginning with 0 or the device's UUID.
///
/// NVIDIA documents that the list ends at its first invalid entry.
#[must_use]
pub fn is_visible() -> bool {
    let Ok(list) = std::env::var("CUDA_VISIBLE_DEVICES") else {
        return true;
    };
    let mut entries = list.split(',').map(str::trim);
    let first = entries.next().unwrap_or_default();
    let twice = entries.next() == Some(first);
    (first == "0" || first.starts_with("GPU-")) && !twice
}

/// Returns the driver if `device` is a device.
///
/// # Errors
/// [`Status::INVALID_DEVICE`].
pub fn check(device: CUdevice) -> CudaResult<&'static Driver> {
    exists(device)?;
    Driver::get()
}

/// Returns whether there can be such a device: there is one, number 0.
///
/// # Errors
/// [`Status::INVALID_DEVICE`].
pub fn exists(device: CUdevice) -> CudaResult {
    match device {
        0 => Ok(()),
        _ => Err(Status::INVALID_DEVICE),
    }
}

fn get_count(count: Out<c_int>) -> CudaResult {
    count.set(1);
    Ok(())
}

fn get(device: Out<CUdevice>, ordinal: c_int) -> CudaResult {
    check(ordinal)?;
    device.set(ordinal);
    Ok(())
}

fn get_name(place: Out<c_char>, len: c_int, device: CUdevice) -> CudaResult {
    let name = check(device)?.description.name();
    write_text(place, len, &name)
}

/// Writes a text and a zero into `len` bytes, cut to fit.
fn write_text(place: Out<c_char>, len: c_int, text: &str) -> CudaResult {
    let len = usize::try_from(len).ok().filter(|len| *len > 0);
    let len = len.ok_or(Status::INVALID_VALUE)?;
    let shown = &text.as_bytes()[..text.len().min(len - 1)];
    place.set_bytes(shown);
    Ok(())
}

fn get_uuid(place: Out<CUuuid>, device: CUdevice) -> CudaResult {
    place.set(check(device)?.description.uuid);
    Ok(())
}

fn get_luid(_: Out<c_char>, _: Out<c_uint>, device: CUdevice) -> CudaResult {
    // Locally unique identifiers are a thing of Windows.
    check(device)?;
    Err(Status::NOT_SUPPORTED)
}

fn total_memory(bytes: Out<usize>, device: CUdevice) -> CudaResult {
    let memory = check(device)?.description.memory_bytes;
    bytes.set(usize::try_from(memory).unwrap_or(usize::MAX));
    Ok(())
}

fn get_attribute(value: Out<c_int>, attribute: c_int, device: CUdevice) -> CudaResult {
    let description = &check(device)?.description;
    let number = attributes::value(&description.facts, attribute).ok_or(Status::INVALID_VALUE)?;
    value.set(number);
    Ok(())
}

fn get_properties(place: Out<CUdevprop>, device: CUdevice) -> CudaResult {
    let facts = &check(device)?.description.facts;
    let get = |attribute| attributes::value(facts, attribute).unwrap_or(0);
    place.set(CUdevprop {
        max_threads_per_block: get(1),
        max_threads_dim: [get(2), get(3), get(4)],
        max_grid_size: [get(5), get(6), get(7)],
        shared_mem_per_block: get(8),
        total_constant_memory: get(9),
        simd_width: get(10),
        mem_pitch: get(11),
        regs_per_block: get(12),
        clock_rate: get(13),
        texture_align: get(14),
    });
    Ok(())
}

fn compute_capability(major: Out<c_int>, minor: Out<c_int>, device: CUdevice) -> CudaResult {
    let facts = &check(device)?.description.facts;
    let get = |attribute| attributes::value(facts, attribute).unwrap_or(0);
    major.set(get(75));
    minor.set(get(76));
    Ok(())
}

/// The device stands on no bus of its own, so it takes the first place of the first.
const PCI_BUS_ID: &str = "0000:00:00.0";

fn pci_bus_id(place: Out<c_char>, len: c_int, device: CUdevice) -> CudaResult {
    check(device)?;
    write_text(place, len, PCI_BUS_ID)
}

fn by_pci_bus_id(device: Out<CUdevice>, id: &'static std::ffi::CStr) -> CudaResult {
    let place = id.to_str().ok().and_then(pci_place);
    match place.ok_or(Status::INVALID_VALUE)? {
        [0, 0, 0, 0] => {
            device.set(0);
            Ok(())
        }
        _ => Err(Status::INVALID_DEVICE),
    }
}

/// Reads `[domain:]bus:device[.function]` in hexadecimal; `None` for anything else.
fn pci_place(id: &str) -> Option<[u32; 4]> {
    let number = |text: &str| {
        let is_one = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|_| is_one)
    };
    let (place, function) = match id.split_once('.') {
        Some((place, function)) => (place, number(function)?),
        None => (id, 0),
    };
    let parts: Vec<&str> = place.split(':').collect();
    match parts[..] {
        [domain, bus, device] => Some([number(domain)?, number(bus)?, number(device)?, function]),
        [bus, device] => Some([0, number(bus)?, number(device)?, function]),
        _ => None,
    }
}

fn can_access_peer(can: Out<c_int>, device: CUdevice, peer: CUdevice) -> CudaResult {
    check(device)?;
    check(peer)?;
    can.set(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{pci_place, uuid_of};

    #[test]
    fn places_on_a_bus_are_read_in_all_their_forms() {
        assert_eq!(pci_place("0000:00:00.0"), Some([0, 0, 0, 0]));
        assert_eq!(pci_place("FFFF:1a:02"), Some([0xffff, 0x1a, 2, 0]));
        assert_eq!(pci_place("1a:02.7"), Some([0, 0x1a, 2, 7]));
        for wrong in [
            "",
            "fake:id",
            "1",
            "1:2:3:4",
            "1:2.",
            ":2",
            "+1:2",
            "1:2.3.4",
            "123456789:0",
        ] {
            assert_eq!(pci_place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn uuids_tell_devices_apart() {
        assert_eq!(uuid_of("h200"), uuid_of("h200"));
        assert_ne!(uuid_of("h200"), uuid_of("a100"));
        assert_eq!(uuid_of("h200")[6] >> 4, 8, "the version");
    }
}
