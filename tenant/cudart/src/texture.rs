//! Texture and surface objects, in the runtime's words. Handles are the driver's.

use crate::api::runtime_api;
use crate::array::ChannelFormat;
use crate::border::Place;
use crate::current::ready;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint, c_void};

/// Texels (`cudaResourceDesc`): a kind, what the kind asks for, and flags.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Texels {
    kind: c_int,
    of: Resource,
    flags: c_uint,
}

/// What the kinds of texels have in common: a handle or an address, then, of texels in memory, format and sizes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Resource {
    handle: u64,
    format: ChannelFormat,
    sizes: [usize; 3],
    reserved: [u64; 9],
}

/// How texels are read (`cudaTextureDesc`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    address_modes: [c_int; 3],
    filter: c_int,
    read_mode: c_int,
    srgb: c_int,
    border: [f32; 4],
    normalized: c_int,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    mipmap_levels: [f32; 3],
    trilinear_off: c_int,
    seamless: c_int,
}

/// The driver's texels (`CUDA_RESOURCE_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverTexels {
    kind: c_uint,
    handle: u64,
    format: c_uint,
    channels: c_uint,
    sizes: [usize; 3],
    reserved: [u64; 11],
    flags: c_uint,
}

/// How the driver reads them (`CUDA_TEXTURE_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverSampling {
    address_modes: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    mipmap_levels: [f32; 3],
    border: [f32; 4],
    reserved: [c_int; 12],
}

const _: () = assert!(
    size_of::<Texels>() == 144
        && size_of::<Sampling>() == 72
        && size_of::<DriverTexels>() == 144
        && size_of::<DriverSampling>() == 104
);

/// Kinds of texels (`cudaResourceType`), as the driver numbers them.
const LINEAR: c_int = 2;
const ROWS: c_int = 3;

/// The driver's flags (`CU_TRSF_`).
const READ_AS_INTEGER: c_uint = 1;
const NORMALIZED: c_uint = 2;
const SRGB: c_uint = 0x10;
const TRILINEAR_OFF: c_uint = 0x20;
const SEAMLESS: c_uint = 0x40;

runtime_api! {
    cudaCreateTextureObject(
        texture: *mut u64, texels: *const Texels, how: *const Sampling, view: *const c_void,
    ) => create_texture;
    cudaDestroyTextureObject(texture: u64) => destroy_texture;
    cudaCreateSurfaceObject(surface: *mut u64, texels: *const Texels) => create_surface;
    cudaDestroySurfaceObject(surface: u64) => destroy_surface;
    cudaDeviceGetTexture1DLinearMaxWidth(texels: *mut usize, format: *const ChannelFormat, device: c_int)
        => most_linear_texels;
}

impl Texels {
    /// Returns the driver's description.
    fn of_driver(&self) -> CudaResult<DriverTexels> {
        let (format, channels) = match self.kind {
            LINEAR | ROWS => self.of.format.of_driver()?,
            _ => (0, 0),
        };
        Ok(DriverTexels {
            kind: self.kind.cast_unsigned(),
            handle: self.of.handle,
            format,
            channels,
            sizes: self.of.sizes,
            reserved: [0; 11],
            flags: self.flags,
        })
    }
}

impl Sampling {
    /// Returns how the driver reads texels so.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no such way.
    fn of_driver(&self) -> CudaResult<DriverSampling> {
        // Elements as they are, or integers as floats from 0 to 1.
        if !(0..=1).contains(&self.read_mode) {
            return Err(Status::INVALID_VALUE);
        }
        let mut flags = 0;
        for (is_set, flag) in [
            (self.read_mode == 0, READ_AS_INTEGER),
            (self.normalized != 0, NORMALIZED),
            (self.srgb != 0, SRGB),
            (self.trilinear_off != 0, TRILINEAR_OFF),
            (self.seamless != 0, SEAMLESS),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        Ok(DriverSampling {
            address_modes: self.address_modes,
            filter: self.filter,
            flags,
            anisotropy: self.anisotropy,
            mipmap_filter: self.mipmap_filter,
            mipmap_levels: self.mipmap_levels,
            border: self.border,
            reserved: [0; 12],
        })
    }
}

fn create_texture(
    texture: Place<u64>,
    texels: Place<Texels>,
    how: Place<Sampling>,
    view: Place<c_void>,
) -> CudaResult {
    let driver = ready()?;
    let mut texels = texels.get()?.of_driver()?;
    let mut how = how.get()?.of_driver()?;
    driver.cuTexObjectCreate(texture, Place::to(&mut texels), Place::to(&mut how), view)
}

/// Null is no error, as documented.
fn destroy_texture(texture: u64) -> CudaResult {
    match texture {
        0 => Ok(()),
        texture => ready()?.cuTexObjectDestroy(texture),
    }
}

fn create_surface(surface: Place<u64>, texels: Place<Texels>) -> CudaResult {
    let driver = ready()?;
    let mut texels = texels.get()?.of_driver()?;
    driver.cuSurfObjectCreate(surface, Place::to(&mut texels))
}

fn destroy_surface(surface: u64) -> CudaResult {
    match surface {
        0 => Ok(()),
        surface => ready()?.cuSurfObjectDestroy(surface),
    }
}

fn most_linear_texels(
    texels: Place<usize>,
    format: Place<ChannelFormat>,
    device: c_int,
) -> CudaResult {
    let driver = ready()?;
    let (format, channels) = format.get()?.of_driver()?;
    driver.cuDeviceGetTexture1DLinearMaxWidth(texels, format, channels, device)
}
