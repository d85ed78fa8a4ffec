//! Managed memory: the program and kernels reach it at the same addresses, both at any time.
//!
//! A module's managed variables are such memory, too. It is one piece of memory, so that nothing moves: prefetches end
//! at once, advice is kept to be told again ([`Advices`]), and it does not matter to which stream memory is attached,
//! as on a device with `CONCURRENT_MANAGED_ACCESS`. It counts as device memory.

use super::CUdeviceptr;
use super::advice::{Advice, Advices, ManagedRange, Place};
use super::lease::Lease;
use super::map::{Memory, Range};
use super::properties::CUmemLocation;
use crate::api::driver_api;
use crate::border::{AnyOut, FromC, Out};
use crate::context::Context;
use crate::context::current::usable;
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::graph::capture;
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use parking_lot::Mutex;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

/// Attachments: to all streams, to the host, to one stream.
const ATTACH_GLOBAL: c_uint = 1;
const ATTACH_HOST: c_uint = 2;
const ATTACH_SINGLE: c_uint = 4;

driver_api! {
    needs Init;
    6000 cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) => allocate;
    6000 cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint)
        | cuStreamAttachMemAsync_ptsz => attach;
    8000 cuMemPrefetchAsync(address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream)
        | cuMemPrefetchAsync_ptsz => prefetch;
    12020 cuMemPrefetchAsync_v2(
        address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream,
    ) | cuMemPrefetchAsync_v2_ptsz => prefetch_to;
    8000 cuMemAdvise(address: CUdeviceptr, bytes: usize, advice: c_uint, device: CUdevice) => advise;
    12020 cuMemAdvise_v2(address: CUdeviceptr, bytes: usize, advice: c_uint, location: CUmemLocation) => advise_at;
    8000 cuMemRangeGetAttribute(
        data: *mut c_void, data_bytes: usize, attribute: c_uint, address: CUdeviceptr, bytes: usize,
    ) => get_attribute;
    8000 cuMemRangeGetAttributes(
        data: *mut *mut c_void, data_bytes: *mut usize, attributes: *mut c_uint, count: usize, address: CUdeviceptr,
        bytes: usize,
    ) => get_attributes;
}

/// Returns the place that a device number means.
///
/// # Errors
/// [`Status::INVALID_DEVICE`].
fn place_of_device(number: CUdevice) -> CudaResult<Place> {
    match number {
        -1 => Ok(Place::Host),
        number => device::exists(number).map(|()| Place::Device),
    }
}

/// Returns the place that a location means. All of the host's nodes are the host.
///
/// # Errors
/// [`Status::INVALID_VALUE`]; [`Status::INVALID_DEVICE`].
pub(super) fn place_of_location(location: CUmemLocation) -> CudaResult<Place> {
    match location.kind {
        1 => device::exists(location.id).map(|()| Place::Device),
        2..=4 => Ok(Place::Host),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn allocate(place: Out<CUdeviceptr>, bytes: usize, flags: c_uint) -> CudaResult {
    let (driver, context) = usable()?;
    if bytes == 0 || ![ATTACH_GLOBAL, ATTACH_HOST].contains(&flags) {
        return Err(Status::INVALID_VALUE);
    }
    capture::check_unsafe()?;
    place.set(make(driver, &context, bytes as u64, None)?);
    Ok(())
}

/// Makes managed memory, of a pool if there is a lease, and returns its address.
///
/// # Errors
/// [`Status::OUT_OF_MEMORY`]; [`Status::NOT_SUPPORTED`]: the device has none.
pub(super) fn make(
    driver: &Driver,
    context: &Context,
    bytes: u64,
    lease: Option<Lease>,
) -> CudaResult<CUdeviceptr> {
    let memory = driver.gpu.managed(bytes).map_err(|error| {
        report::managed(&error);
        Status::from(error)
    })?;
    let start = memory.address();
    let range = ManagedRange {
        memory,
        advices: Mutex::default(),
        lease,
    };
    let memory = Memory::Managed(range);
    driver.memory.add_to(context, start, bytes, memory)?;
    Ok(start)
}

/// Returns the managed memory that some bytes lie in, and where they begin and end in it.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there are none, or they are not all in one allocation of managed memory.
pub(super) fn span(
    driver: &Driver,
    address: u64,
    bytes: usize,
) -> CudaResult<(Arc<Range>, u64, u64)> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let range = driver.memory.span(address, bytes as u64)?;
    let range = range.filter(|range| range.memory.advices().is_some());
    let range = range.ok_or(Status::INVALID_VALUE)?;
    let first = range.offset(address);
    Ok((range, first, first + bytes as u64))
}

fn change(address: u64, bytes: usize, change: impl Fn(&mut Advice)) -> CudaResult {
    let (driver, _) = usable()?;
    let (range, first, end) = span(driver, address, bytes)?;
    if let Some(advices) = range.memory.advices() {
        advices.lock().change(first, end, change);
    }
    Ok(())
}

/// Checks an attachment. Memory that is accessed from everywhere at any time need not be attached.
fn attach(
    default: DefaultStream,
    stream: CUstream,
    address: CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> CudaResult {
    let (driver, _, on) = usable_stream(default, stream)?;
    let range = driver.memory.find(address).ok_or(Status::INVALID_VALUE)?;
    let is_whole = bytes == 0 || range.start == address && range.bytes == bytes as u64;
    let is_known = [ATTACH_GLOBAL, ATTACH_HOST, ATTACH_SINGLE].contains(&flags);
    let to_none = flags == ATTACH_SINGLE && stream == CUstream::NULL;
    if !is_whole || !is_known || to_none || range.memory.advices().is_none() {
        return Err(Status::INVALID_VALUE);
    }
    capture::refuse_in(&on)
}

fn prefetch(
    default: DefaultStream,
    address: CUdeviceptr,
    bytes: usize,
    to: CUdevice,
    stream: CUstream,
) -> CudaResult {
    prefetch_at(default, address, bytes, place_of_device(to), stream)
}

fn prefetch_to(
    default: DefaultStream,
    address: CUdeviceptr,
    bytes: usize,
    to: CUmemLocation,
    flags: c_uint,
    stream: CUstream,
) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    prefetch_at(default, address, bytes, place_of_location(to), stream)
}

/// Notes a prefetch, which has nothing to move.
fn prefetch_at(
    default: DefaultStream,
    address: CUdeviceptr,
    bytes: usize,
    to: CudaResult<Place>,
    stream: CUstream,
) -> CudaResult {
    let (_, _, stream) = usable_stream(default, stream)?;
    let to = to?;
    capture::refuse_in(&stream)?;
    change(address, bytes, |advice| advice.prefetched_to = Some(to))
}

fn advise(address: CUdeviceptr, bytes: usize, advice: c_uint, device: CUdevice) -> CudaResult {
    advise_for(address, bytes, advice, || place_of_device(device))
}

fn advise_at(
    address: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    location: CUmemLocation,
) -> CudaResult {
    advise_for(address, bytes, advice, || place_of_location(location))
}

/// Keeps an advice. The place means nothing where an advice is not about one.
fn advise_for(
    address: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    place: impl Fn() -> CudaResult<Place>,
) -> CudaResult {
    match advice {
        1 | 2 => change(address, bytes, |all| all.read_mostly = advice == 1),
        3 => {
            let place = place()?;
            change(address, bytes, |all| all.preferred = Some(place))
        }
        4 => change(address, bytes, |all| all.preferred = None),
        5 | 6 => {
            let place = place()?;
            change(address, bytes, |all| match place {
                Place::Device => all.by_device = advice == 5,
                Place::Host => all.by_host = advice == 5,
            })
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Writes the value of an attribute into `data_bytes` bytes. Where the bytes asked about do not agree it is that of no
/// advice.
fn write_attribute(
    advices: &Advices,
    (first, end): (u64, u64),
    attribute: c_uint,
    data: AnyOut,
    data_bytes: usize,
) -> CudaResult {
    let place = |of: fn(&Advice) -> Option<Place>| advices.common(first, end, of).flatten();
    let (preferred, last) = (
        place(|advice| advice.preferred),
        place(|advice| advice.prefetched_to),
    );
    // Written with the byte order of the machine, as four bytes each.
    let value = match attribute {
        1 => c_int::from(advices.common(first, end, |advice| advice.read_mostly) == Some(true)),
        2 => Place::number(preferred),
        3 => return write_accessors(advices, (first, end), data, data_bytes),
        4 => Place::number(last),
        5 => Place::kind(preferred).cast_signed(),
        6 => Place::number(preferred).max(0),
        7 => Place::kind(last).cast_signed(),
        8 => Place::number(last).max(0),
        _ => return Err(Status::INVALID_VALUE),
    };
    if data_bytes != 4 {
        return Err(Status::INVALID_VALUE);
    }
    data.of()?.set(value);
    Ok(())
}

/// Writes the devices that were said to access all of the bytes, and numbers of no device behind them.
fn write_accessors(
    advices: &Advices,
    (first, end): (u64, u64),
    data: AnyOut,
    data_bytes: usize,
) -> CudaResult {
    if data_bytes == 0 || !data_bytes.is_multiple_of(4) {
        return Err(Status::INVALID_VALUE);
    }
    let by_all = |of: fn(&Advice) -> bool| advices.common(first, end, of) == Some(true);
    let device = by_all(|advice| advice.by_device).then_some(Place::Device);
    let host = by_all(|advice| advice.by_host).then_some(Place::Host);
    let mut known = device.into_iter().chain(host);
    let places = data.of::<c_int>()?;
    for index in 0..data_bytes / 4 {
        places.set_at(index, Place::number(known.next()));
    }
    Ok(())
}

fn get_attribute(
    data: AnyOut,
    data_bytes: usize,
    attribute: c_uint,
    address: CUdeviceptr,
    bytes: usize,
) -> CudaResult {
    let (driver, _) = usable()?;
    let (range, first, end) = span(driver, address, bytes)?;
    let advices = range.memory.advices().ok_or(Status::INVALID_VALUE)?;
    write_attribute(&advices.lock(), (first, end), attribute, data, data_bytes)
}

fn get_attributes(
    data: Out<*mut c_void>,
    data_bytes: Out<usize>,
    attributes: Out<c_uint>,
    count: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> CudaResult {
    if count == 0 {
        return Err(Status::INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: the program passes a place of that many bytes for each attribute, as the C declaration asks.
        let place = unsafe { AnyOut::from_c(data.get_at(index))? };
        let (len, attribute) = (data_bytes.get_at(index), attributes.get_at(index));
        get_attribute(place, len, attribute, address, bytes)?;
    }
    Ok(())
}
