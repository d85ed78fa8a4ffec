//! `libnvidia-ml.so.1`: the part of NVIDIA's management library that programs ask before they compute: which devices
//! there are, what they are called and where, their memory, and versions.
//!
//! What it tells is what the CUDA driver library of the process tells, so that both agree, and which processors are
//! near to a device: all. Clocks, temperatures, processes and events are not there: such functions do not exist, which
//! bindings report as `NVML_ERROR_FUNCTION_NOT_FOUND`.
//!
//! Rules: what a program passes is believed as far as the C declaration asks for it; no panic leaves the library.
//!
//! Source: the public header `nvml.h` of CUDA 13 and NVIDIA's NVML API reference.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]

mod driver;
pub mod status;

use driver::Driver;
use parking_lot::Mutex;
use status::{NvmlResult, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The oldest driver with CUDA 13 (CUDA 13.0 release notes, table 3): programs compare versions with numbers.
const DRIVER_VERSION: &str = "580.65.06";
/// Its branch, as the library writes it.
const DRIVER_BRANCH: &str = "r580_65";
/// `CU_DEVICE_ATTRIBUTE_…`: mode of computing; whether memory is checked; numbers of bus, device and domain; compute
/// capability.
const COMPUTE_MODE: c_int = 20;
const ECC: c_int = 32;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;
/// What a device's UUID begins with.
const PREFIX: &str = "GPU-";
/// The version word of `nvmlMemory_v2_t`: its size, and its number in the upper byte.
const MEMORY_2: c_uint = 40 | 2 << 24;
/// Those of `nvmlPciInfoExt_v1_t` and `nvmlSystemDriverBranchInfo_v1_t`.
const PCI_INFO_1: c_uint = 64 | 1 << 24;
const BRANCH_1: c_uint = 84 | 1 << 24;
/// The classes of a device that computes and has no display (PCI code and ID assignment specification).
const CLASS: [c_uint; 2] = [3, 2];
/// `nvmlDeviceArchitecture_t` of a device that the library does not know.
const UNKNOWN_ARCHITECTURE: c_uint = c_uint::MAX;

/// The processors and the nodes of memory that the host has.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
const NODES: &str = "/sys/devices/system/node/online";
/// Bits of a word of theirs.
const WORD_BITS: usize = c_ulong::BITS as usize;

/// The driver library while a program has initialised this one, and how often it did.
static STATE: Mutex<Option<(Driver, u32)>> = Mutex::new(None);

/// A device as C holds it: its number plus one, so that null is none.
type Device = usize;

/// Where a device is (`nvmlPciInfo_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PciInfo {
    short_id: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    /// Ids of device and subsystem: zero, as no such device is sold.
    ids: [c_uint; 2],
    id: [u8; 32],
}

/// Where a device is and what kind it is of (`nvmlPciInfoExt_v1_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PciInfoExt {
    version: c_uint,
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    /// As those of [`PciInfo`].
    ids: [c_uint; 2],
    /// Class and subclass.
    class: [c_uint; 2],
    id: [u8; 32],
}

/// The branch that a driver is of (`nvmlSystemDriverBranchInfo_v1_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BranchInfo {
    version: c_uint,
    branch: [c_char; 80],
}

/// Bytes of memory (`nvmlMemory_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// Bytes of memory, newer form (`nvmlMemory_v2_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memory2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// Calls a function with the driver.
fn with<T>(call: impl FnOnce(&Driver) -> NvmlResult<T>) -> NvmlResult<T> {
    let state = STATE.lock();
    let (driver, _) = state.as_ref().ok_or(Status::UNINITIALIZED)?;
    call(driver)
}

/// Calls a function with the driver and the number of a device.
fn with_device<T>(
    device: Device,
    call: impl FnOnce(&Driver, c_int) -> NvmlResult<T>,
) -> NvmlResult<T> {
    with(|driver| {
        let number = device.checked_sub(1).ok_or(Status::INVALID_ARGUMENT)?;
        let number = c_int::try_from(number).map_err(|_| Status::INVALID_ARGUMENT)?;
        match number < driver.count()? {
            true => call(driver, number),
            false => Err(Status::INVALID_ARGUMENT),
        }
    })
}

/// Writes a value where a program wants it.
///
/// # Safety
/// The place is null or good for a value.
unsafe fn set<T>(place: *mut T, value: T) -> NvmlResult {
    if place.is_null() || !place.is_aligned() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a text and its end into a buffer of `bytes` bytes.
///
/// # Safety
/// The buffer is null or has so many bytes.
unsafe fn set_text(place: *mut c_char, bytes: c_uint, text: &[u8]) -> NvmlResult {
    if place.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    if text.len() >= bytes as usize {
        return Err(Status::INSUFFICIENT_SIZE);
    }
    // SAFETY: text and end fit, as was checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// Writes how many devices there are and, where the program has room for as many, all of them.
///
/// # Safety
/// The places are null or good for a number, and for as many devices as it says.
unsafe fn set_devices(all: c_uint, count: *mut c_uint, devices: *mut Device) -> NvmlResult {
    if count.is_null() || !count.is_aligned() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: as the caller promises.
    let room = unsafe { count.replace(all) };
    if room != 0 && room < all {
        return Err(Status::INSUFFICIENT_SIZE);
    }
    for index in 0..room.min(all) {
        // SAFETY: as the caller promises.
        unsafe { set(devices.wrapping_add(index as usize), index as Device + 1) }?;
    }
    Ok(())
}

fn begin() -> NvmlResult {
    let mut state = STATE.lock();
    match state.as_mut() {
        Some((_, times)) => *times += 1,
        None => *state = Some((Driver::open()?, 1)),
    }
    Ok(())
}

fn end() -> NvmlResult {
    let mut state = STATE.lock();
    let (_, times) = state.as_mut().ok_or(Status::UNINITIALIZED)?;
    *times -= 1;
    if *times == 0 {
        *state = None;
    }
    Ok(())
}

/// Returns a device's UUID as NVIDIA writes it.
fn uuid_text(uuid: [u8; 16]) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let parts = [
        &uuid[..4],
        &uuid[4..6],
        &uuid[6..8],
        &uuid[8..10],
        &uuid[10..],
    ];
    format!("{PREFIX}{}", parts.map(hex).join("-"))
}

fn pci_info(driver: &Driver, device: c_int) -> NvmlResult<PciInfo> {
    let number = |attribute| {
        driver
            .attribute(attribute, device)
            .map(c_int::cast_unsigned)
    };
    let (domain, bus, device) = (number(PCI_DOMAIN)?, number(PCI_BUS)?, number(PCI_DEVICE)?);
    let filled = |text: String, place: &mut [u8]| {
        place[..text.len()].copy_from_slice(text.as_bytes());
    };
    let (mut short_id, mut id) = ([0; 16], [0; 32]);
    let rest = format!("{:02X}:{:02X}.0", bus & 0xff, device & 0xff);
    filled(format!("{:04X}:{rest}", domain & 0xffff), &mut short_id);
    filled(format!("{domain:08X}:{rest}"), &mut id);
    Ok(PciInfo {
        short_id,
        domain,
        bus,
        device,
        ids: [0; 2],
        id,
    })
}

/// Returns the architecture of a compute capability (`nvmlDeviceArchitecture_t`).
fn architecture(major: c_int, minor: c_int) -> c_uint {
    match (major, minor) {
        (3, _) => 2,
        (5, _) => 3,
        (6, _) => 4,
        (7, 5) => 6,
        (7, _) => 5,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10.., _) => 10,
        _ => UNKNOWN_ARCHITECTURE,
    }
}

/// Writes a bit for each processor, or each node of memory, that the host has, as a list in the system's files tells
/// them: a modelled device is near to all. What does not fit is left out.
///
/// # Safety
/// The place is null or good for that many words.
unsafe fn set_all(list: &str, words: *mut c_ulong, count: c_uint) -> NvmlResult {
    if words.is_null() || !words.is_aligned() || count == 0 {
        return Err(Status::INVALID_ARGUMENT);
    }
    let list = fs::read_to_string(list).map_err(|_| Status::UNKNOWN)?;
    // SAFETY: as the caller promises.
    unsafe { words.write_bytes(0, count as usize) };
    for number in numbers(&list).filter(|number| number / WORD_BITS < count as usize) {
        // SAFETY: as the caller promises; the word is one of them.
        unsafe { *words.add(number / WORD_BITS) |= 1 << (number % WORD_BITS) };
    }
    Ok(())
}

/// Returns the numbers of a list as `0-3,8`; what is no number is left out.
fn numbers(list: &str) -> impl Iterator<Item = usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten()
}

/// Returns the device for which a description is what is asked for.
fn find(is_it: impl Fn(&Driver, c_int) -> NvmlResult<bool>) -> NvmlResult<Device> {
    with(|driver| {
        for number in 0..driver.count()? {
            if is_it(driver, number)? {
                return Ok(number.cast_unsigned() as Device + 1);
            }
        }
        Err(Status::NOT_FOUND)
    })
}

/// Returns a string of a program's.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn text_of<'a>(text: *const c_char) -> NvmlResult<&'a [u8]> {
    if text.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Declares functions of the API. Bodies may use the program's pointers as the C declarations allow.
macro_rules! nvml_api {
    (@one $symbol:ident ($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        #[doc = concat!("`", stringify!($symbol), "` of NVML.")]
        ///
        /// # Safety
        /// What its C declaration asks of the arguments.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[allow(unused_unsafe, reason = "some functions use no pointer")]
        pub unsafe extern "C" fn $symbol($($arg: $type),*) -> u32 {
            // SAFETY: the program's pointers are what the C declaration asks for.
            let call = || -> NvmlResult { unsafe { $body } };
            match catch_unwind(AssertUnwindSafe(call)) {
                Ok(Ok(())) => 0,
                Ok(Err(status)) => status.0,
                Err(_) => Status::UNKNOWN.0,
            }
        }
    };
    ($([$($symbol:ident)+] $parameters:tt $body:block)*) => {$($(
        nvml_api! { @one $symbol $parameters $body }
    )+)*};
}

nvml_api! {
    [nvmlInit nvmlInit_v2]() { begin() }
    [nvmlInitWithFlags](_flags: c_uint) { begin() }
    [nvmlShutdown]() { end() }
    [nvmlSystemGetDriverVersion](text: *mut c_char, bytes: c_uint) {
        with(|_| set_text(text, bytes, DRIVER_VERSION.as_bytes()))
    }
    [nvmlSystemGetNVMLVersion](text: *mut c_char, bytes: c_uint) {
        with(|driver| {
            let version = format!("{}.{DRIVER_VERSION}", driver.version()? / 1000);
            set_text(text, bytes, version.as_bytes())
        })
    }
    [nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2](version: *mut c_int) {
        with(|driver| set(version, driver.version()?))
    }
    [nvmlSystemGetDriverBranch](info: *mut BranchInfo, bytes: c_uint) {
        if info.is_null() || !info.is_aligned() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if (*info).version != BRANCH_1 {
            return Err(Status::ARGUMENT_VERSION_MISMATCH);
        }
        // The program says how long the text may be, in a place that has 80 bytes.
        let bytes = bytes.min(80);
        with(|_| set_text((&raw mut (*info).branch).cast(), bytes, DRIVER_BRANCH.as_bytes()))
    }
    [nvmlSystemGetProcessName](process: c_uint, text: *mut c_char, bytes: c_uint) {
        with(|_| {
            let path = fs::read_link(format!("/proc/{process}/exe")).map_err(|_| Status::NOT_FOUND)?;
            set_text(text, bytes, path.as_os_str().as_bytes())
        })
    }
    [nvmlSystemGetTopologyGpuSet](_processor: c_uint, count: *mut c_uint, devices: *mut Device) {
        with(|driver| set_devices(driver.count()?.cast_unsigned(), count, devices))
    }
    [nvmlUnitGetCount](count: *mut c_uint) {
        with(|_| set(count, 0))
    }
    [nvmlDeviceGetCount nvmlDeviceGetCount_v2](count: *mut c_uint) {
        with(|driver| set(count, driver.count()?.cast_unsigned()))
    }
    [nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2](index: c_uint, device: *mut Device) {
        with_device((index as Device).saturating_add(1), |_, number| {
            set(device, number.cast_unsigned() as Device + 1)
        })
    }
    [nvmlDeviceGetHandleByUUID](uuid: *const c_char, device: *mut Device) {
        // NVIDIA's library finds a device without the prefix, too, as cuda-core passes it.
        let asked = text_of(uuid)?;
        let is_it = |driver: &Driver, number| {
            let known = uuid_text(driver.uuid(number)?);
            Ok([known.as_str(), &known[PREFIX.len()..]].iter().any(|known| known.as_bytes() == asked))
        };
        set(device, find(is_it)?)
    }
    [nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2](id: *const c_char, device: *mut Device) {
        let asked = text_of(id)?.to_ascii_uppercase();
        let is_it = |driver: &Driver, number| {
            let known = pci_info(driver, number)?;
            Ok([&known.id[..], &known.short_id[..]].iter().any(|id| id.split(|byte| *byte == 0).next() == Some(&asked)))
        };
        set(device, find(is_it)?)
    }
    [nvmlDeviceGetIndex nvmlDeviceGetMinorNumber](device: Device, index: *mut c_uint) {
        with_device(device, |_, number| set(index, number.cast_unsigned()))
    }
    [nvmlDeviceGetName](device: Device, name: *mut c_char, bytes: c_uint) {
        with_device(device, |driver, number| set_text(name, bytes, &driver.name(number)?))
    }
    [nvmlDeviceGetUUID](device: Device, uuid: *mut c_char, bytes: c_uint) {
        with_device(device, |driver, number| set_text(uuid, bytes, uuid_text(driver.uuid(number)?).as_bytes()))
    }
    [nvmlDeviceGetPciInfoExt](device: Device, info: *mut PciInfoExt) {
        if info.is_null() || !info.is_aligned() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if (*info).version != PCI_INFO_1 {
            return Err(Status::ARGUMENT_VERSION_MISMATCH);
        }
        with_device(device, |driver, number| {
            let PciInfo { domain, bus, device, ids, id, .. } = pci_info(driver, number)?;
            set(info, PciInfoExt { version: PCI_INFO_1, domain, bus, device, ids, class: CLASS, id })
        })
    }
    // A modelled device has neither number nor brand, fans, parts or a display, and its modes are not the program's to
    // set.
    [nvmlDeviceGetSerial](device: Device, _text: *mut c_char, _bytes: c_uint) {
        with_device(device, |_, _| Err(Status::NOT_SUPPORTED))
    }
    [nvmlDeviceGetBrand nvmlDeviceGetNumFans nvmlDeviceGetDisplayMode nvmlDeviceGetDisplayActive
        nvmlDeviceGetPersistenceMode nvmlDeviceGetVirtualizationMode
        nvmlDeviceGetMaxMigDeviceCount](device: Device, place: *mut c_uint) {
        with_device(device, |_, _| set(place, 0))
    }
    [nvmlDeviceSetPersistenceMode nvmlDeviceSetComputeMode](device: Device, _mode: c_uint) {
        with_device(device, |_, _| Err(Status::NO_PERMISSION))
    }
    // None that it shares more with than the host.
    [nvmlDeviceGetTopologyNearestGpus](device: Device, _level: c_uint, count: *mut c_uint, _devices: *mut Device) {
        with_device(device, |_, _| set(count, 0))
    }
    [nvmlDeviceGetCpuAffinity](device: Device, count: c_uint, words: *mut c_ulong) {
        with_device(device, |_, _| set_all(PROCESSORS, words, count))
    }
    [nvmlDeviceGetCpuAffinityWithinScope](device: Device, count: c_uint, words: *mut c_ulong, _scope: c_uint) {
        with_device(device, |_, _| set_all(PROCESSORS, words, count))
    }
    [nvmlDeviceGetMemoryAffinity](device: Device, count: c_uint, words: *mut c_ulong, _scope: c_uint) {
        with_device(device, |_, _| set_all(NODES, words, count))
    }
    [nvmlDeviceGetPciInfo_v3](device: Device, info: *mut PciInfo) {
        with_device(device, |driver, number| set(info, pci_info(driver, number)?))
    }
    [nvmlDeviceGetCudaComputeCapability](device: Device, major: *mut c_int, minor: *mut c_int) {
        with_device(device, |driver, number| {
            set(major, driver.attribute(MAJOR, number)?)?;
            set(minor, driver.attribute(MINOR, number)?)
        })
    }
    [nvmlDeviceGetArchitecture](device: Device, place: *mut c_uint) {
        with_device(device, |driver, number| {
            let (major, minor) = (driver.attribute(MAJOR, number)?, driver.attribute(MINOR, number)?);
            set(place, architecture(major, minor))
        })
    }
    [nvmlDeviceGetComputeMode](device: Device, mode: *mut c_uint) {
        with_device(device, |driver, number| {
            set(mode, driver.attribute(COMPUTE_MODE, number)?.cast_unsigned())
        })
    }
    [nvmlDeviceGetEccMode](device: Device, now: *mut c_uint, next: *mut c_uint) {
        with_device(device, |driver, number| {
            let is_on = driver.attribute(ECC, number)?.cast_unsigned();
            set(now, is_on)?;
            set(next, is_on)
        })
    }
    [nvmlDeviceGetMemoryInfo](device: Device, memory: *mut Memory) {
        with_device(device, |driver, number| {
            let (free, total) = driver.memory(number)?;
            let (free, total) = (free as u64, total as u64);
            set(memory, Memory { total, free, used: total.saturating_sub(free) })
        })
    }
    [nvmlDeviceGetMemoryInfo_v2](device: Device, memory: *mut Memory2) {
        if memory.is_null() || !memory.is_aligned() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if (*memory).version != MEMORY_2 {
            return Err(Status::ARGUMENT_VERSION_MISMATCH);
        }
        with_device(device, |driver, number| {
            let (free, total) = driver.memory(number)?;
            let (free, total) = (free as u64, total as u64);
            let used = total.saturating_sub(free);
            set(memory, Memory2 { version: MEMORY_2, total, reserved: 0, free, used })
        })
    }
}

/// `nvmlErrorString` of NVML.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is that of the C API")]
pub extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    status::text(code)
}

#[cfg(test)]
mod tests {
    use super::{
        BRANCH_1, BranchInfo, MEMORY_2, Memory2, PCI_INFO_1, PciInfo, PciInfoExt, architecture,
        numbers, uuid_text,
    };

    #[test]
    fn structures_are_those_of_the_header() {
        assert_eq!(size_of::<PciInfo>(), 68);
        assert_eq!(size_of::<Memory2>(), (MEMORY_2 & 0xff_ffff) as usize);
        assert_eq!(size_of::<PciInfoExt>(), (PCI_INFO_1 & 0xff_ffff) as usize);
        assert_eq!(size_of::<BranchInfo>(), (BRANCH_1 & 0xff_ffff) as usize);
    }

    #[test]
    fn architectures_are_those_of_the_header() {
        let known = [(6, 1), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (12, 0)];
        let known = known.map(|(major, minor)| architecture(major, minor));
        assert_eq!(known, [4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(architecture(2, 0), u32::MAX);
    }

    #[test]
    fn lists_are_those_of_the_system() {
        let numbers = |list| numbers(list).collect::<Vec<_>>();
        assert_eq!(numbers("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(numbers("0\n"), [0]);
        assert_eq!(numbers("\n"), [0; 0]);
    }

    #[test]
    fn uuids_are_written_as_nvidia_does() {
        let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        assert_eq!(uuid_text(uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
