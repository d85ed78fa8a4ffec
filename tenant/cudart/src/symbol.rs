//! Variables of the program's on the device, named by their shadows on the host.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::copy::{self, Kind};
use crate::current::ready;
use crate::registration;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_void};

runtime_api! {
    cudaGetSymbolAddress(address: *mut u64, symbol: *const c_void) => get_address;
    cudaGetSymbolSize(bytes: *mut usize, symbol: *const c_void) => get_size;
    cudaMemcpyToSymbol(symbol: *const c_void, from: u64, bytes: usize, offset: usize, kind: c_int)
        | cudaMemcpyToSymbol_ptds => copy_to;
    cudaMemcpyFromSymbol(to: u64, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int)
        | cudaMemcpyFromSymbol_ptds => copy_from;
    cudaMemcpyToSymbolAsync(
        symbol: *const c_void, from: u64, bytes: usize, offset: usize, kind: c_int, stream: u64,
    ) | cudaMemcpyToSymbolAsync_ptsz => copy_to_async;
    cudaMemcpyFromSymbolAsync(
        to: u64, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int, stream: u64,
    ) | cudaMemcpyFromSymbolAsync_ptsz => copy_from_async;
}

fn get_address(address: Place<u64>, symbol: Place<c_void>) -> CudaResult {
    address.set(registration::variable(ready()?, symbol.as_ptr().addr())?.0)
}

fn get_size(bytes: Place<usize>, symbol: Place<c_void>) -> CudaResult {
    bytes.set(registration::variable(ready()?, symbol.as_ptr().addr())?.1)
}

/// Returns the address of so many bytes of a variable, for a copy of a kind that one to or from it may have besides
/// that between places of the device.
fn part_for(
    symbol: Place<c_void>,
    (bytes, offset): (usize, usize),
    kind: c_int,
    allowed: Kind,
) -> CudaResult<u64> {
    let kind = Kind::of(kind)?;
    if ![allowed, Kind::DeviceToDevice, Kind::Default].contains(&kind) {
        return Err(Status::INVALID_MEMCPY_DIRECTION);
    }
    part(symbol, bytes, offset)
}

/// Returns the address of so many bytes of a variable.
pub(crate) fn part(symbol: Place<c_void>, bytes: usize, offset: usize) -> CudaResult<u64> {
    let (address, size) = registration::variable(ready()?, symbol.as_ptr().addr())?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(address + offset as u64),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn copy_to(
    default: DefaultStream,
    symbol: Place<c_void>,
    from: u64,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let to = part_for(symbol, (bytes, offset), kind, Kind::HostToDevice)?;
    copy::copy(default, to, from, bytes, kind)
}

fn copy_from(
    default: DefaultStream,
    to: u64,
    symbol: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let from = part_for(symbol, (bytes, offset), kind, Kind::DeviceToHost)?;
    copy::copy(default, to, from, bytes, kind)
}

fn copy_to_async(
    default: DefaultStream,
    symbol: Place<c_void>,
    from: u64,
    bytes: usize,
    offset: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let to = part_for(symbol, (bytes, offset), kind, Kind::HostToDevice)?;
    copy::copy_async(default, to, from, bytes, kind, stream)
}

fn copy_from_async(
    default: DefaultStream,
    to: u64,
    symbol: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let from = part_for(symbol, (bytes, offset), kind, Kind::DeviceToHost)?;
    copy::copy_async(default, to, from, bytes, kind, stream)
}
