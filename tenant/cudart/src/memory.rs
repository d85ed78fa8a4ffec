//! Memory of the device and of the host, and attributes of pointers.

use crate::api::runtime_api;
use crate::border::Place;
use crate::current::ready;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint, c_void};

/// A place in memory that is rows a pitch apart (`cudaPitchedPtr`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Pitched {
    /// The first byte's address.
    pub(crate) start: u64,
    /// Bytes from row to row.
    pub(crate) pitch: usize,
    /// Bytes of a row.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
}

/// A size: bytes or elements of a row, rows and planes (`cudaExtent`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Bytes of a row; elements where an array is meant.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// Planes.
    pub(crate) depth: usize,
}

/// A pointer's attributes (`cudaPointerAttributes`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    reserved: [u64; RESERVED],
}

/// Words that CUDA 13 has reserved behind a pointer's attributes.
const RESERVED: usize = if cfg!(cuda = "12") { 0 } else { 8 };

/// Kinds of memory: not known, the host's and the device's (`cudaMemoryType`), as the driver numbers them.
const UNREGISTERED: c_uint = 0;
/// The kind of managed memory.
const MANAGED: c_int = 3;

runtime_api! {
    cudaMalloc(address: *mut u64, bytes: usize) => allocate;
    cudaFree(address: u64) => free;
    cudaMallocHost(memory: *mut u64, bytes: usize) => allocate_host;
    cudaHostAlloc(memory: *mut u64, bytes: usize, flags: c_uint) => allocate_host_with;
    cudaFreeHost(memory: u64) => free_host;
    cudaHostRegister(memory: u64, bytes: usize, flags: c_uint) => register;
    cudaHostUnregister(memory: u64) => unregister;
    cudaHostGetFlags(flags: *mut c_uint, memory: u64) => get_flags;
    cudaHostGetDevicePointer(address: *mut u64, memory: u64, flags: c_uint) => device_pointer;
    cudaMallocPitch(address: *mut u64, pitch: *mut usize, width: usize, height: usize) => allocate_pitched;
    cudaMalloc3D(place: *mut Pitched, extent: Extent) => allocate_spatial;
    cudaMemGetInfo(free: *mut usize, total: *mut usize) => get_info;
    cudaPointerGetAttributes(attributes: *mut PointerAttributes, address: u64) => pointer_attributes;
}

/// Bytes of nothing are null, as NVIDIA's library gives them.
fn allocate(address: Place<u64>, bytes: usize) -> CudaResult {
    if bytes == 0 {
        return address.set(0);
    }
    ready()?.cuMemAlloc_v2(address, bytes)
}

fn free(address: u64) -> CudaResult {
    ready()?.cuMemFree_v2(address)
}

fn allocate_host(memory: Place<u64>, bytes: usize) -> CudaResult {
    allocate_host_with(memory, bytes, 0)
}

fn allocate_host_with(memory: Place<u64>, bytes: usize, flags: c_uint) -> CudaResult {
    ready()?.cuMemHostAlloc(memory, bytes, flags)
}

fn free_host(memory: u64) -> CudaResult {
    ready()?.cuMemFreeHost(memory)
}

fn register(memory: u64, bytes: usize, flags: c_uint) -> CudaResult {
    ready()?.cuMemHostRegister_v2(memory, bytes, flags)
}

fn unregister(memory: u64) -> CudaResult {
    ready()?.cuMemHostUnregister(memory)
}

fn get_flags(flags: Place<c_uint>, memory: u64) -> CudaResult {
    ready()?.cuMemHostGetFlags(flags, memory)
}

fn device_pointer(address: Place<u64>, memory: u64, flags: c_uint) -> CudaResult {
    ready()?.cuMemHostGetDevicePointer_v2(address, memory, flags)
}

fn allocate_pitched(
    address: Place<u64>,
    pitch: Place<usize>,
    width: usize,
    height: usize,
) -> CudaResult {
    if width == 0 || height == 0 {
        pitch.set(0)?;
        return address.set(0);
    }
    ready()?.cuMemAllocPitch_v2(address, pitch, width, height, 4)
}

fn allocate_spatial(place: Place<Pitched>, extent: Extent) -> CudaResult {
    let rows = extent.height.checked_mul(extent.depth);
    let (mut start, mut pitch) = (0, 0);
    let places = (Place::to(&mut start), Place::to(&mut pitch));
    allocate_pitched(
        places.0,
        places.1,
        extent.width,
        rows.ok_or(Status::INVALID_VALUE)?,
    )?;
    place.set(Pitched {
        start,
        pitch,
        width: extent.width,
        height: extent.height,
    })
}

fn get_info(free: Place<usize>, total: Place<usize>) -> CudaResult {
    ready()?.cuMemGetInfo_v2(free, total)
}

/// A pointer's attributes as the driver has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// [`UNREGISTERED`], 1 for the host's, 2 for the device's.
    pub(crate) kind: c_uint,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    is_managed: u8,
}

impl Told {
    /// Asks the driver of an address.
    pub(crate) fn of(driver: &Driver, address: u64) -> CudaResult<Self> {
        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _DEVICE_ORDINAL, _DEVICE_POINTER, _HOST_POINTER, _IS_MANAGED.
        let mut attributes: [c_uint; 5] = [2, 9, 3, 4, 8];
        let mut told = Self {
            kind: UNREGISTERED,
            device: -2,
            device_pointer: 0,
            host_pointer: 0,
            is_managed: 0,
        };
        let mut values: [*mut c_void; 5] = [
            (&raw mut told.kind).cast(),
            (&raw mut told.device).cast(),
            (&raw mut told.device_pointer).cast(),
            (&raw mut told.host_pointer).cast(),
            (&raw mut told.is_managed).cast(),
        ];
        driver.cuPointerGetAttributes(
            5,
            Place::first(&mut attributes),
            Place::first(&mut values),
            address,
        )?;
        Ok(told)
    }
}

/// Of an address that is not known, it is the host's own.
fn pointer_attributes(place: Place<PointerAttributes>, address: u64) -> CudaResult {
    let told = Told::of(ready()?, address)?;
    let (device, host_pointer) = match told.kind {
        UNREGISTERED => (-2, address),
        _ => (told.device, told.host_pointer),
    };
    place.set(PointerAttributes {
        kind: match told.is_managed {
            0 => told.kind.cast_signed(),
            _ => MANAGED,
        },
        device,
        device_pointer: told.device_pointer,
        host_pointer,
        reserved: [0; RESERVED],
    })
}
