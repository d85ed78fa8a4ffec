//! Virtual memory: addresses that are reserved, physical memory, and what is mapped where.
//!
//! Rules: nothing of it belongs to a context. Physical memory lives while its handle is held or it is mapped somewhere;
//! a handle that was released works again when it is taken from a mapping. Mappings are for reading and writing, by the
//! device; memory is not shared with other processes. The lock is held while the service is asked, so that what is
//! noted here is what is so there.

use super::CUdeviceptr;
use super::extents::Extents;
use super::map::{Memory, Range};
use super::properties::{CUmemAccessDesc, CUmemLocation};
use crate::api::driver_api;
use crate::border::{self, In, Out};
use crate::context::CUcontext;
use crate::device;
use crate::driver::Driver;
use crate::registry::{Handle, Object, Registry};
use crate::report;
use crate::status::{CudaResult, Status};
use gridmux_tenant::PagingRequest;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, LazyLock};

/// Sizes and addresses are multiples of this many bytes, as on all NVIDIA devices.
const GRANULARITY: usize = 2 << 20;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: c_uint = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_uint = 1;
/// What may be done with a mapping (`CUmemAccess_flags`).
const NO_ACCESS: c_uint = 0;
const READ: c_uint = 1;
const READ_WRITE: c_uint = 3;

/// Physical memory as C holds it.
pub type CUmemGenericAllocationHandle = Handle<Physical>;

static PHYSICAL: LazyLock<Registry<Physical>> = LazyLock::new(Registry::default);

driver_api! {
    needs Init;
    10020 cuMemAddressReserve(
        place: *mut CUdeviceptr, bytes: usize, align: usize, wish: CUdeviceptr, flags: u64,
    ) => reserve;
    10020 cuMemAddressFree(address: CUdeviceptr, bytes: usize) => unreserve;
    10020 cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, bytes: usize, properties: *const CUmemAllocationProp, flags: u64,
    ) => create;
    10020 cuMemRelease(handle: CUmemGenericAllocationHandle) => release;
    10020 cuMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: u64,
    ) => map;
    10020 cuMemUnmap(address: CUdeviceptr, bytes: usize) => unmap;
    10020 cuMemSetAccess(address: CUdeviceptr, bytes: usize, access: *const CUmemAccessDesc, count: usize)
        => set_access;
    10020 cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, address: CUdeviceptr) => get_access;
    10020 cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const CUmemAllocationProp, option: c_uint)
        => get_granularity;
    10020 cuMemGetAllocationPropertiesFromHandle(
        properties: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle,
    ) => get_properties;
    11000 cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, address: *mut c_void) => retain;
}

/// The properties of physical memory (`CUmemAllocationProp`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemAllocationProp {
    kind: c_uint,
    handle_types: c_uint,
    location_kind: c_uint,
    location_id: c_int,
    win32_data: usize,
    /// Compression, remote access, usage.
    flags: [u8; 8],
}

const _: () = assert!(size_of::<CUmemAllocationProp>() == 32);

/// Physical memory of the program's.
#[derive(Debug)]
pub struct Physical {
    handle: CUmemGenericAllocationHandle,
    /// Its number at the service.
    number: u64,
    bytes: u64,
    properties: CUmemAllocationProp,
    uses: Mutex<Uses>,
}

/// What keeps physical memory alive.
#[derive(Debug, Clone, Copy)]
struct Uses {
    /// How often the program holds the handle.
    handles: usize,
    mappings: usize,
}

impl Object for Physical {
    const KIND: u8 = 11;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &PHYSICAL
    }
}

/// Physical memory at addresses.
#[derive(Debug)]
struct Mapping {
    bytes: u64,
    physical: Arc<Physical>,
    is_accessible: bool,
}

/// Reserved addresses.
#[derive(Debug)]
struct Reservation {
    bytes: u64,
    mappings: BTreeMap<u64, Mapping>,
    extents: Arc<Extents>,
}

impl Reservation {
    /// Notes which of it, which begins at `start`, is accessible.
    fn note_accessible(&self, start: u64) {
        let mut extents: Vec<(u64, u64)> = Vec::new();
        let accessible = self.mappings.iter().filter(|(_, m)| m.is_accessible);
        for (at, mapping) in accessible {
            let (first, end) = (at - start, at - start + mapping.bytes);
            match extents.last_mut() {
                Some((_, last)) if *last == first => *last = end,
                _ => extents.push((first, end)),
            }
        }
        self.extents.set(extents);
    }

    /// Returns whether mappings fill a range.
    fn is_filled(&self, address: u64, end: u64) -> bool {
        let mut at = address;
        for (start, mapping) in self.mappings.range(address..end) {
            if *start != at {
                return false;
            }
            at += mapping.bytes;
        }
        at == end
    }
}

/// All reservations, by first address.
#[derive(Debug, Default)]
struct Paging(Mutex<BTreeMap<u64, Reservation>>);

static PAGING: Paging = Paging(Mutex::new(BTreeMap::new()));

impl Paging {
    /// Does something with the reservation that a range lies in, which begins at the address that `act` is given.
    fn with<T>(
        &self,
        address: u64,
        bytes: usize,
        act: impl FnOnce(u64, &mut Reservation) -> CudaResult<T>,
    ) -> CudaResult<T> {
        let mut reservations = self.0.lock();
        let found = reservations.range_mut(..=address).next_back();
        let (start, found) = found.ok_or(Status::INVALID_VALUE)?;
        let end = address.checked_add(bytes as u64);
        if end.is_none_or(|end| end > start + found.bytes) {
            return Err(Status::INVALID_VALUE);
        }
        act(*start, found)
    }
}

/// Checks that a size or an address is one of whole units.
fn check_units(number: usize) -> CudaResult {
    match number > 0 && number.is_multiple_of(GRANULARITY) {
        true => Ok(()),
        false => Err(Status::INVALID_VALUE),
    }
}

fn check_range(address: u64, bytes: usize) -> CudaResult {
    check_units(bytes)?;
    check_units(usize::try_from(address).unwrap_or(0))
}

impl CUmemAllocationProp {
    /// Checks that there is such memory.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]; [`Status::INVALID_DEVICE`]; [`Status::NOT_SUPPORTED`]: not on the device, or to be
    /// shared with other processes, which is said on stderr.
    fn check(&self) -> CudaResult {
        if self.kind != PINNED {
            return Err(Status::INVALID_VALUE);
        }
        if self.handle_types != 0 {
            report::refused("memory whose handles are shared with other processes is not there");
            return Err(Status::NOT_SUPPORTED);
        }
        match self.location_kind {
            ON_DEVICE => device::exists(self.location_id),
            2..=4 => {
                report::refused("physical memory of the host is not there");
                Err(Status::NOT_SUPPORTED)
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

fn ask(driver: &Driver, request: PagingRequest) -> CudaResult<u64> {
    driver.gpu.paging(request).map_err(|error| {
        let status = Status::from(&error);
        match status {
            Status::NOT_SUPPORTED => report::refused(&error.to_string()),
            _ => report::out_of_memory(&error),
        }
        status
    })
}

fn reserve(
    place: Out<CUdeviceptr>,
    bytes: usize,
    align: usize,
    _wish: CUdeviceptr,
    flags: u64,
) -> CudaResult {
    let driver = Driver::get()?;
    check_units(bytes)?;
    if flags != 0 || align != 0 && !align.is_power_of_two() {
        return Err(Status::INVALID_VALUE);
    }
    let align = align.max(GRANULARITY) as u64;
    let bytes = bytes as u64;
    let mut reservations = PAGING.0.lock();
    let start = ask(driver, PagingRequest::Reserve { bytes, align })?;
    let extents = Arc::new(Extents::default());
    let memory = Memory::Reserved(Arc::clone(&extents));
    driver.memory.add(start, bytes, CUcontext::NULL, memory)?;
    reservations.insert(
        start,
        Reservation {
            bytes,
            mappings: BTreeMap::new(),
            extents,
        },
    );
    place.set(start);
    Ok(())
}

fn unreserve(address: CUdeviceptr, bytes: usize) -> CudaResult {
    let driver = Driver::get()?;
    let mut reservations = PAGING.0.lock();
    let found = reservations.get(&address);
    let is_free =
        found.is_some_and(|found| found.bytes == bytes as u64 && found.mappings.is_empty());
    if !is_free {
        return Err(Status::INVALID_VALUE);
    }
    ask(driver, PagingRequest::Unreserve { address })?;
    reservations.remove(&address);
    let is_reserved = |memory: &Memory| matches!(memory, Memory::Reserved(_));
    drop(driver.memory.remove(address, is_reserved));
    Ok(())
}

fn create(
    place: Out<CUmemGenericAllocationHandle>,
    bytes: usize,
    In(properties): In<CUmemAllocationProp>,
    flags: u64,
) -> CudaResult {
    let driver = Driver::get()?;
    check_units(bytes)?;
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    properties.check()?;
    let bytes = bytes as u64;
    let number = ask(driver, PagingRequest::Create { bytes })?;
    let made = PHYSICAL.add(|handle| Physical {
        handle,
        number,
        bytes,
        properties,
        uses: Mutex::new(Uses {
            handles: 1,
            mappings: 0,
        }),
    });
    let physical = match made {
        Ok(physical) => physical,
        Err(status) => {
            ask(driver, PagingRequest::Release { physical: number })?;
            return Err(status);
        }
    };
    place.set(physical.handle);
    Ok(())
}

impl Physical {
    /// Changes what keeps it alive, and gives it back when nothing does.
    ///
    /// # Errors
    /// What `change` says.
    fn change(&self, driver: &Driver, change: impl FnOnce(&mut Uses) -> CudaResult) -> CudaResult {
        let mut uses = self.uses.lock();
        change(&mut uses)?;
        if uses.handles == 0 && uses.mappings == 0 {
            drop(PHYSICAL.remove(self.handle));
            let physical = self.number;
            ask(driver, PagingRequest::Release { physical })?;
        }
        Ok(())
    }

    /// Returns it if the program holds its handle.
    fn held(self: Arc<Self>) -> CudaResult<Arc<Self>> {
        if self.uses.lock().handles == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(self)
    }
}

fn release(physical: Arc<Physical>) -> CudaResult {
    physical.change(Driver::get()?, |uses| {
        uses.handles = uses.handles.checked_sub(1).ok_or(Status::INVALID_VALUE)?;
        Ok(())
    })
}

fn map(
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    physical: Arc<Physical>,
    flags: u64,
) -> CudaResult {
    let driver = Driver::get()?;
    check_range(address, bytes)?;
    let physical = physical.held()?;
    if flags != 0 || offset != 0 || bytes as u64 > physical.bytes {
        return Err(Status::INVALID_VALUE);
    }
    PAGING.with(address, bytes, |_, reservation| {
        let bytes = bytes as u64;
        let before = reservation.mappings.range(..address + bytes).next_back();
        if before.is_some_and(|(start, mapping)| start + mapping.bytes > address) {
            return Err(Status::INVALID_VALUE);
        }
        let request = PagingRequest::Map {
            address,
            bytes,
            physical: physical.number,
            offset: 0,
        };
        ask(driver, request)?;
        physical.uses.lock().mappings += 1;
        let mapping = Mapping {
            bytes,
            physical,
            is_accessible: false,
        };
        reservation.mappings.insert(address, mapping);
        Ok(())
    })
}

fn unmap(address: CUdeviceptr, bytes: usize) -> CudaResult {
    let driver = Driver::get()?;
    check_range(address, bytes)?;
    PAGING.with(address, bytes, |start, reservation| {
        let (bytes, end) = (bytes as u64, address + bytes as u64);
        if !reservation.is_filled(address, end) {
            return Err(Status::INVALID_VALUE);
        }
        ask(driver, PagingRequest::Unmap { address, bytes })?;
        let mut behind = reservation.mappings.split_off(&address);
        let mut rest = behind.split_off(&end);
        reservation.mappings.append(&mut rest);
        reservation.note_accessible(start);
        for mapping in behind.into_values() {
            mapping.physical.change(driver, |uses| {
                uses.mappings -= 1;
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Returns whether a description asks for access.
///
/// # Errors
/// [`Status::INVALID_VALUE`]; [`Status::INVALID_DEVICE`]; [`Status::NOT_SUPPORTED`]: for reading alone, or not by the
/// device, which is said on stderr.
fn asks_for_access(access: &CUmemAccessDesc) -> CudaResult<bool> {
    match access.location.kind {
        ON_DEVICE => device::exists(access.location.id)?,
        2..=4 => {
            report::refused("the host has no access to mapped physical memory");
            return Err(Status::NOT_SUPPORTED);
        }
        _ => return Err(Status::INVALID_VALUE),
    }
    match access.flags {
        NO_ACCESS => Ok(false),
        READ_WRITE => Ok(true),
        READ => {
            report::refused("mappings for reading alone are not there");
            Err(Status::NOT_SUPPORTED)
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

fn set_access(
    address: CUdeviceptr,
    bytes: usize,
    access: *const CUmemAccessDesc,
    count: usize,
) -> CudaResult {
    let driver = Driver::get()?;
    check_range(address, bytes)?;
    if count == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the program passes that many descriptions, which it lets alone until the function returns, as the C
    // declaration asks.
    let access = unsafe { border::slice(access, count)? };
    let mut is_accessible = false;
    for one in access {
        is_accessible = asks_for_access(one)?;
    }
    PAGING.with(address, bytes, |start, reservation| {
        let (bytes, end) = (bytes as u64, address + bytes as u64);
        if !reservation.is_filled(address, end) {
            return Err(Status::INVALID_VALUE);
        }
        let request = PagingRequest::Access {
            address,
            bytes,
            is_accessible,
        };
        ask(driver, request)?;
        for (_, mapping) in reservation.mappings.range_mut(address..end) {
            mapping.is_accessible = is_accessible;
        }
        reservation.note_accessible(start);
        Ok(())
    })
}

/// Does something with the mapping that an address lies in, and that begins at the address that `act` is given.
fn with_mapping<T>(
    address: u64,
    act: impl FnOnce(u64, &Mapping) -> CudaResult<T>,
) -> CudaResult<T> {
    PAGING.with(address, 1, |_, reservation| {
        let found = reservation.mappings.range(..=address).next_back();
        let found = found.filter(|(start, mapping)| address - **start < mapping.bytes);
        let (start, mapping) = found.ok_or(Status::INVALID_VALUE)?;
        act(*start, mapping)
    })
}

/// Returns where the piece of memory begins that an address of a range lies in, and its size in bytes: of reserved
/// addresses what is mapped there, else the range.
pub fn piece(range: &Range, address: u64) -> (u64, u64) {
    let mapping = match range.memory {
        Memory::Reserved(_) => {
            with_mapping(address, |start, mapping| Ok((start, mapping.bytes))).ok()
        }
        _ => None,
    };
    mapping.unwrap_or((range.start, range.bytes))
}

fn get_access(
    flags: Out<u64>,
    In(location): In<CUmemLocation>,
    address: CUdeviceptr,
) -> CudaResult {
    Driver::get()?;
    if location.kind != ON_DEVICE {
        return Err(Status::INVALID_VALUE);
    }
    device::exists(location.id)?;
    with_mapping(address, |_, mapping| {
        flags.set(match mapping.is_accessible {
            true => READ_WRITE.into(),
            false => NO_ACCESS.into(),
        });
        Ok(())
    })
}

fn get_granularity(
    bytes: Out<usize>,
    In(properties): In<CUmemAllocationProp>,
    option: c_uint,
) -> CudaResult {
    if option > 1 {
        return Err(Status::INVALID_VALUE);
    }
    properties.check()?;
    bytes.set(GRANULARITY);
    Ok(())
}

fn get_properties(place: Out<CUmemAllocationProp>, physical: Arc<Physical>) -> CudaResult {
    place.set(physical.held()?.properties);
    Ok(())
}

/// Gives the handle of what is mapped at an address, which is held once more.
fn retain(place: Out<CUmemGenericAllocationHandle>, address: *mut c_void) -> CudaResult {
    Driver::get()?;
    with_mapping(address.addr() as u64, |_, mapping| {
        mapping.physical.uses.lock().handles += 1;
        place.set(mapping.physical.handle);
        Ok(())
    })
}
