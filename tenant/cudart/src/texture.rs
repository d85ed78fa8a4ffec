//! Texture and surface objects, in the runtime's words. Handles are the driver's.
//!
//! The structures of CUDA 12 end earlier than those of CUDA 13, whose reserved words and flags they do not have.

use crate::api::runtime_api;
use crate::array::ChannelFormat;
use crate::border::Place;
use crate::current::ready;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};

/// Texels (`cudaResourceDesc`): a kind, what the kind asks for, and flags.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Texels {
    kind: c_int,
    of: Resource,
    #[cfg(cuda = "13")]
    flags: c_uint,
}

/// What the kinds of texels have in common: a handle or an address, then, of texels in memory, format and sizes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Resource {
    handle: u64,
    format: ChannelFormat,
    sizes: [usize; 3],
    #[cfg(cuda = "13")]
    reserved: [u64; 9],
}

/// Texels read as others (`cudaResourceViewDesc`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct View {
    format: c_uint,
    sizes: [usize; 3],
    levels_and_layers: [c_uint; 4],
    #[cfg(cuda = "13")]
    reserved: [c_uint; 16],
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

/// The driver's texels read as others (`CUDA_RESOURCE_VIEW_DESC`), whose formats have the same numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverView {
    format: c_uint,
    sizes: [usize; 3],
    levels_and_layers: [c_uint; 4],
    reserved: [c_uint; 16],
}

#[cfg(cuda = "12")]
const _: () = assert!(size_of::<Texels>() == 64 && size_of::<View>() == 48);
#[cfg(cuda = "13")]
const _: () = assert!(size_of::<Texels>() == 144 && size_of::<View>() == 112);
const _: () = assert!(
    size_of::<Sampling>() == 72
        && size_of::<DriverTexels>() == 144
        && size_of::<DriverSampling>() == 104
        && size_of::<DriverView>() == 112
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
        texture: *mut u64, texels: *const Texels, how: *const Sampling, view: *const View,
    ) => create_texture;
    cudaDestroyTextureObject(texture: u64) => destroy_texture;
    cudaGetTextureObjectResourceDesc(texels: *mut Texels, texture: u64) => texture_texels;
    cudaGetTextureObjectTextureDesc(how: *mut Sampling, texture: u64) => texture_sampling;
    cudaGetTextureObjectResourceViewDesc(view: *mut View, texture: u64) => texture_view;
    cudaCreateSurfaceObject(surface: *mut u64, texels: *const Texels) => create_surface;
    cudaDestroySurfaceObject(surface: u64) => destroy_surface;
    cudaGetSurfaceObjectResourceDesc(texels: *mut Texels, surface: u64) => surface_texels;
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
            #[cfg(cuda = "12")]
            flags: 0,
            #[cfg(cuda = "13")]
            flags: self.flags,
        })
    }

    /// Returns this API's description of the driver's texels.
    fn of(driver: &DriverTexels) -> CudaResult<Self> {
        let kind = driver.kind.cast_signed();
        Ok(Self {
            kind,
            of: Resource {
                handle: driver.handle,
                format: match kind {
                    LINEAR | ROWS => ChannelFormat::of(driver.format, driver.channels)?,
                    _ => ChannelFormat::NONE,
                },
                sizes: driver.sizes,
                #[cfg(cuda = "13")]
                reserved: [0; 9],
            },
            #[cfg(cuda = "13")]
            flags: driver.flags,
        })
    }
}

impl DriverTexels {
    /// Returns a description that says nothing.
    fn empty() -> Self {
        Self {
            kind: 0,
            handle: 0,
            format: 0,
            channels: 0,
            sizes: [0; 3],
            reserved: [0; 11],
            flags: 0,
        }
    }
}

impl View {
    /// Returns the driver's view.
    fn of_driver(&self) -> DriverView {
        DriverView {
            format: self.format,
            sizes: self.sizes,
            levels_and_layers: self.levels_and_layers,
            #[cfg(cuda = "12")]
            reserved: [0; 16],
            #[cfg(cuda = "13")]
            reserved: self.reserved,
        }
    }

    /// Returns this API's form of the driver's view.
    fn of(driver: &DriverView) -> Self {
        Self {
            format: driver.format,
            sizes: driver.sizes,
            levels_and_layers: driver.levels_and_layers,
            #[cfg(cuda = "13")]
            reserved: driver.reserved,
        }
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

    /// Returns this API's description of how the driver reads texels.
    fn of(driver: &DriverSampling) -> Self {
        let has = |flag| c_int::from(driver.flags & flag != 0);
        Self {
            address_modes: driver.address_modes,
            filter: driver.filter,
            read_mode: 1 - has(READ_AS_INTEGER),
            srgb: has(SRGB),
            border: driver.border,
            normalized: has(NORMALIZED),
            anisotropy: driver.anisotropy,
            mipmap_filter: driver.mipmap_filter,
            mipmap_levels: driver.mipmap_levels,
            trilinear_off: has(TRILINEAR_OFF),
            seamless: has(SEAMLESS),
        }
    }
}

fn create_texture(
    texture: Place<u64>,
    texels: Place<Texels>,
    how: Place<Sampling>,
    view: Place<View>,
) -> CudaResult {
    let driver = ready()?;
    let mut texels = texels.get()?.of_driver()?;
    let mut how = how.get()?.of_driver()?;
    let mut ours = match view.is_none() {
        true => None,
        false => Some(view.get()?.of_driver()),
    };
    let view = ours.as_mut().map_or(Place::NONE, Place::to);
    driver.cuTexObjectCreate(texture, Place::to(&mut texels), Place::to(&mut how), view)
}

fn texture_texels(place: Place<Texels>, texture: u64) -> CudaResult {
    let mut told = DriverTexels::empty();
    ready()?.cuTexObjectGetResourceDesc(Place::to(&mut told), texture)?;
    place.set(Texels::of(&told)?)
}

fn texture_sampling(place: Place<Sampling>, texture: u64) -> CudaResult {
    let mut told = DriverSampling {
        address_modes: [0; 3],
        filter: 0,
        flags: 0,
        anisotropy: 0,
        mipmap_filter: 0,
        mipmap_levels: [0.0; 3],
        border: [0.0; 4],
        reserved: [0; 12],
    };
    ready()?.cuTexObjectGetTextureDesc(Place::to(&mut told), texture)?;
    place.set(Sampling::of(&told))
}

fn texture_view(place: Place<View>, texture: u64) -> CudaResult {
    let mut told = DriverView {
        format: 0,
        sizes: [0; 3],
        levels_and_layers: [0; 4],
        reserved: [0; 16],
    };
    ready()?.cuTexObjectGetResourceViewDesc(Place::to(&mut told), texture)?;
    place.set(View::of(&told))
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

fn surface_texels(place: Place<Texels>, surface: u64) -> CudaResult {
    let mut told = DriverTexels::empty();
    ready()?.cuSurfObjectGetResourceDesc(Place::to(&mut told), surface)?;
    place.set(Texels::of(&told)?)
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

#[cfg(test)]
mod tests {
    use super::{Sampling, Texels};
    use crate::array::ChannelFormat;

    #[test]
    fn texels_and_how_they_are_read_go_to_the_driver_and_back() {
        let texels = Texels {
            kind: super::LINEAR,
            of: super::Resource {
                handle: 0x1000,
                format: ChannelFormat::of(0x20, 2).expect("a format"),
                sizes: [128, 0, 0],
                #[cfg(cuda = "13")]
                reserved: [0; 9],
            },
            #[cfg(cuda = "13")]
            flags: 0,
        };
        let there = texels.of_driver().expect("such texels");
        let back = Texels::of(&there).expect("such texels");
        assert_eq!((there.kind, there.format, there.channels), (2, 0x20, 2));
        assert_eq!(back.of.sizes, texels.of.sizes);
        assert_eq!(back.of.format, texels.of.format);
        let how = Sampling {
            address_modes: [0, 1, 2],
            filter: 1,
            read_mode: 1,
            srgb: 0,
            border: [0.0; 4],
            normalized: 1,
            anisotropy: 3,
            mipmap_filter: 0,
            mipmap_levels: [0.0; 3],
            trilinear_off: 1,
            seamless: 0,
        };
        let there = how.of_driver().expect("such a way");
        assert_eq!(there.flags, super::NORMALIZED | super::TRILINEAR_OFF);
        assert_eq!(format!("{:?}", Sampling::of(&there)), format!("{how:?}"));
    }
}
