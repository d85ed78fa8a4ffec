//! Texture and surface objects: texels in an array, in rows or in a line of device memory, and how they are read.
//!
//! A handle is what kernels are given; it is the service's, so that it means nothing to other tenants' kernels.
//! References of modules, mipmaps, views, cubes, sRGB and border colours other than zero are not there, which is said
//! on stderr.

use crate::api::driver_api;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::limit;
use crate::memory::array::{Array, CUarray, channel_bytes, channel_of};
use crate::registry;
use crate::report;
use crate::status::{CudaResult, Status};
use gridmux_channel::control::object::{AddressMode, Channel, Image, Object, Sampler, Shape};
use gridmux_tenant::ObjectHandle;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Arc;

/// A texture object as C and kernels hold it.
pub type CUtexObject = u64;
/// A surface object as C and kernels hold it.
pub type CUsurfObject = u64;

driver_api! {
    needs Init;
    5000 cuTexObjectCreate(
        texture: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC, how: *const CUDA_TEXTURE_DESC,
        view: *const CUDA_RESOURCE_VIEW_DESC,
    ) => create_texture;
    5000 cuTexObjectDestroy(texture: CUtexObject) => destroy_texture;
    5000 cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, texture: CUtexObject) => texture_resource;
    5000 cuTexObjectGetTextureDesc(how: *mut CUDA_TEXTURE_DESC, texture: CUtexObject) => texture_sampling;
    5000 cuTexObjectGetResourceViewDesc(view: *mut CUDA_RESOURCE_VIEW_DESC, texture: CUtexObject) => texture_view;
    5000 cuSurfObjectCreate(surface: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) => create_surface;
    5000 cuSurfObjectDestroy(surface: CUsurfObject) => destroy_surface;
    5000 cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, surface: CUsurfObject) => surface_resource;
    11010 cuDeviceGetTexture1DLinearMaxWidth(
        texels: *mut usize, format: c_uint, channels: c_uint, device: CUdevice,
    ) => most_linear_texels;
}

/// Texels (`CUDA_RESOURCE_DESC`): a kind, what the kind asks for, and flags.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_RESOURCE_DESC {
    kind: c_uint,
    of: Resource,
    flags: c_uint,
}

/// What the kinds of texels have in common: a handle or an address, then, of texels in memory, format and sizes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Resource {
    handle: u64,
    format: c_uint,
    channels: c_uint,
    sizes: [usize; 3],
    reserved: [u64; 11],
}

/// How texels are read (`CUDA_TEXTURE_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_TEXTURE_DESC {
    address_modes: [c_uint; 3],
    filter: c_uint,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_uint,
    mipmap_levels: [f32; 3],
    border: [f32; 4],
    reserved: [c_uint; 12],
}

/// Texels read as others (`CUDA_RESOURCE_VIEW_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_RESOURCE_VIEW_DESC {
    format: c_uint,
    sizes: [usize; 3],
    levels_and_layers: [c_uint; 4],
    reserved: [c_uint; 16],
}

const _: () = assert!(
    size_of::<CUDA_RESOURCE_DESC>() == 144
        && size_of::<CUDA_TEXTURE_DESC>() == 104
        && size_of::<CUDA_RESOURCE_VIEW_DESC>() == 112
);

/// Kinds of texels (`CUresourcetype`).
const ARRAY: c_uint = 0;
const MIPMAPS: c_uint = 1;
const LINEAR: c_uint = 2;
const ROWS: c_uint = 3;

/// Flags of a texture (`CU_TRSF_`).
const READ_AS_INTEGER: c_uint = 1;
const NORMALIZED: c_uint = 2;
const SRGB: c_uint = 0x10;
const SEAMLESS: c_uint = 0x40;
const FLAGS: c_uint = 0x73;

/// An object of the program's.
#[derive(Debug)]
struct Known {
    context: CUcontext,
    handle: ObjectHandle,
    resource: CUDA_RESOURCE_DESC,
    /// How a texture is read; nothing for a surface.
    how: Option<CUDA_TEXTURE_DESC>,
}

/// All objects, by handle.
#[derive(Debug, Default)]
struct Objects(RwLock<BTreeMap<u64, Arc<Known>>>);

static OBJECTS: Objects = Objects(RwLock::new(BTreeMap::new()));

impl Driver {
    /// Forgets the textures and surfaces of a context.
    pub(crate) fn forget_textures(&self, context: CUcontext) {
        let mut gone = Vec::new();
        OBJECTS.0.write().retain(|_, known| {
            let goes = known.context == context;
            if goes {
                gone.push(Arc::clone(known));
            }
            !goes
        });
        // Ending one speaks to the mediator, which no lock is held for.
        drop(gone);
    }
}

impl Objects {
    fn add(&self, known: Known) -> u64 {
        let bits = known.handle.bits();
        self.0.write().insert(bits, Arc::new(known));
        bits
    }

    fn get(&self, handle: u64, is_texture: bool) -> CudaResult<Arc<Known>> {
        let known = self.0.read().get(&handle).map(Arc::clone);
        let known = known.filter(|known| known.how.is_some() == is_texture);
        known.ok_or(Status::INVALID_VALUE)
    }

    fn remove(&self, handle: u64, is_texture: bool) -> CudaResult {
        self.get(handle, is_texture)?;
        let removed = self.0.write().remove(&handle);
        removed.map(drop).ok_or(Status::INVALID_VALUE)
    }
}

fn absent(what: &str) -> Status {
    report::refused(what);
    Status::NOT_SUPPORTED
}

impl CUDA_RESOURCE_DESC {
    /// Returns the array that it names.
    fn array(&self, driver: &Driver) -> CudaResult<Arc<Array>> {
        let array = <Array as registry::Object>::find(driver, CUarray::from_bits(self.of.handle));
        array.map_err(|_| Status::INVALID_VALUE)
    }

    /// Returns the texels.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: there can be no such ones; [`Status::NOT_SUPPORTED`]: they are of a kind that is not
    /// there.
    fn image(&self, driver: &Driver) -> CudaResult<Image> {
        if self.flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        match self.kind {
            ARRAY => Ok(self.array(driver)?.image()),
            MIPMAPS => Err(absent("mipmaps are not there")),
            LINEAR | ROWS => self.in_memory(),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Returns texels in a line or in rows of device memory.
    fn in_memory(&self) -> CudaResult<Image> {
        let Resource {
            handle: address,
            format,
            channels,
            sizes: [first, height, pitch],
            ..
        } = self.of;
        let channel = channel_of(format)?;
        if ![1, 2, 4].contains(&channels)
            || address == 0
            || !address.is_multiple_of(limit::ALIGNMENT)
        {
            return Err(Status::INVALID_VALUE);
        }
        let texel = channel_bytes(channel) * u64::from(channels);
        let is_line = self.kind == LINEAR;
        let (width, height) = match is_line {
            true => (first / usize::try_from(texel).unwrap_or(1), 1),
            false => (first, height),
        };
        let [most_width, most_height, most_pitch] = limit::MOST_ROWS;
        let fits = match is_line {
            true => (1..=limit::MOST_LINEAR).contains(&width),
            false => {
                (1..=most_width).contains(&width)
                    && (1..=most_height).contains(&height)
                    && pitch <= most_pitch
                    && pitch.is_multiple_of(limit::PITCH_ALIGNMENT)
                    && pitch as u64 >= width as u64 * texel
            }
        };
        if !fits {
            return Err(Status::INVALID_VALUE);
        }
        let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        Ok(Image {
            address,
            shape: if is_line { Shape::Buffer } else { Shape::TwoD },
            size: [size(width), size(height), 0],
            layers: 0,
            row_bytes: if is_line {
                width as u64 * texel
            } else {
                pitch as u64
            },
            channel,
            channels,
        })
    }
}

impl CUDA_TEXTURE_DESC {
    /// Returns how texels of a type of channel are read.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]; [`Status::NOT_SUPPORTED`]: a way that is not there.
    fn sampler(&self, channel: Channel) -> CudaResult<Sampler> {
        if self.flags & !FLAGS != 0 || self.filter > 1 {
            return Err(Status::INVALID_VALUE);
        }
        if self.flags & SRGB != 0 {
            return Err(absent("sRGB textures are not there"));
        }
        if self.flags & SEAMLESS != 0 {
            return Err(absent("cubes are not there"));
        }
        if self.border.iter().any(|value| *value != 0.0) && self.address_modes.contains(&3) {
            return Err(absent("border colours other than zero are not there"));
        }
        let is_integer = !matches!(channel, Channel::F16 | Channel::F32);
        let is_small = is_integer && !matches!(channel, Channel::U32 | Channel::S32);
        let reads_floats = !is_integer || is_small && self.flags & READ_AS_INTEGER == 0;
        let linear = self.filter == 1;
        if linear && !reads_floats {
            return Err(Status::INVALID_VALUE);
        }
        let mut address_modes = [AddressMode::Clamp; 3];
        for (mode, number) in address_modes.iter_mut().zip(self.address_modes) {
            *mode = match number {
                0 => AddressMode::Wrap,
                1 => AddressMode::Clamp,
                2 => AddressMode::Mirror,
                3 => AddressMode::Border,
                _ => return Err(Status::INVALID_VALUE),
            };
        }
        Ok(Sampler {
            address_modes,
            linear,
            normalized: self.flags & NORMALIZED != 0,
            normalized_float: is_small && self.flags & READ_AS_INTEGER == 0,
        })
    }
}

fn make(
    place: &Out<u64>,
    object: Object,
    resource: CUDA_RESOURCE_DESC,
    how: Option<CUDA_TEXTURE_DESC>,
) -> CudaResult {
    let (driver, context) = usable()?;
    let handle = driver.gpu.object(object).map_err(|error| {
        let status = Status::from(&error);
        if status == Status::NOT_SUPPORTED {
            report::refused(&error.to_string());
        }
        status
    })?;
    place.set(OBJECTS.add(Known {
        context: context.handle(),
        handle,
        resource,
        how,
    }));
    Ok(())
}

fn create_texture(
    place: Out<CUtexObject>,
    In(resource): In<CUDA_RESOURCE_DESC>,
    how: Option<In<CUDA_TEXTURE_DESC>>,
    view: Option<In<CUDA_RESOURCE_VIEW_DESC>>,
) -> CudaResult {
    let (driver, _) = usable()?;
    let In(how) = how.ok_or(Status::INVALID_VALUE)?;
    let image = resource.image(driver)?;
    if view.is_some() {
        return Err(match resource.kind {
            ARRAY => absent("views of texels as others are not there"),
            _ => Status::INVALID_VALUE,
        });
    }
    let sampler = how.sampler(image.channel)?;
    make(&place, Object::Texture(image, sampler), resource, Some(how))
}

fn create_surface(place: Out<CUsurfObject>, In(resource): In<CUDA_RESOURCE_DESC>) -> CudaResult {
    let (driver, _) = usable()?;
    if resource.kind != ARRAY || resource.flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let array = resource.array(driver)?;
    if !array.is_for_surfaces() {
        return Err(Status::INVALID_VALUE);
    }
    make(&place, Object::Surface(array.image()), resource, None)
}

fn destroy_texture(texture: CUtexObject) -> CudaResult {
    Driver::get()?;
    OBJECTS.remove(texture, true)
}

fn destroy_surface(surface: CUsurfObject) -> CudaResult {
    Driver::get()?;
    OBJECTS.remove(surface, false)
}

fn texture_resource(place: Out<CUDA_RESOURCE_DESC>, texture: CUtexObject) -> CudaResult {
    Driver::get()?;
    place.set(OBJECTS.get(texture, true)?.resource);
    Ok(())
}

fn surface_resource(place: Out<CUDA_RESOURCE_DESC>, surface: CUsurfObject) -> CudaResult {
    Driver::get()?;
    place.set(OBJECTS.get(surface, false)?.resource);
    Ok(())
}

fn texture_sampling(place: Out<CUDA_TEXTURE_DESC>, texture: CUtexObject) -> CudaResult {
    Driver::get()?;
    let known = OBJECTS.get(texture, true)?;
    place.set(known.how.ok_or(Status::INVALID_VALUE)?);
    Ok(())
}

/// Refuses: no texture has a view.
fn texture_view(_: Out<CUDA_RESOURCE_VIEW_DESC>, texture: CUtexObject) -> CudaResult {
    Driver::get()?;
    OBJECTS.get(texture, true)?;
    Err(Status::INVALID_VALUE)
}

fn most_linear_texels(
    texels: Out<usize>,
    format: c_uint,
    channels: c_uint,
    device: CUdevice,
) -> CudaResult {
    device::check(device)?;
    channel_of(format)?;
    if ![1, 2, 4].contains(&channels) {
        return Err(Status::INVALID_VALUE);
    }
    texels.set(limit::MOST_LINEAR);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        AddressMode, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, Channel, LINEAR, ROWS, Resource, Shape,
    };
    use crate::status::Status;

    const TEXTURE: CUDA_TEXTURE_DESC = CUDA_TEXTURE_DESC {
        address_modes: [0, 1, 3],
        filter: 0,
        flags: 0,
        anisotropy: 0,
        mipmap_filter: 0,
        mipmap_levels: [0.0; 3],
        border: [0.0; 4],
        reserved: [0; 12],
    };

    fn memory(kind: u32, sizes: [usize; 3]) -> CUDA_RESOURCE_DESC {
        CUDA_RESOURCE_DESC {
            kind,
            of: Resource {
                handle: 1 << 30,
                format: 0x20,
                channels: 2,
                sizes,
                reserved: [0; 11],
            },
            flags: 0,
        }
    }

    #[test]
    fn texels_in_memory_have_sizes_and_places() {
        let line = memory(LINEAR, [801, 0, 0]).in_memory().expect("a line");
        assert_eq!(
            (line.shape, line.size[0], line.row_bytes),
            (Shape::Buffer, 100, 800)
        );
        let rows = memory(ROWS, [5, 3, 64]).in_memory().expect("rows");
        assert_eq!(
            (rows.shape, rows.size, rows.row_bytes),
            (Shape::TwoD, [5, 3, 0], 64)
        );
        let refused = |resource: CUDA_RESOURCE_DESC| resource.in_memory().map(|_| ()).unwrap_err();
        for bad in [
            memory(LINEAR, [7, 0, 0]),
            memory(LINEAR, [usize::MAX, 0, 0]),
            memory(ROWS, [0, 3, 64]),
            memory(ROWS, [5, 0, 64]),
            memory(ROWS, [9, 3, 64]),
            memory(ROWS, [5, 3, 48]),
            memory(ROWS, [5, 65_001, 64]),
            memory(ROWS, [usize::MAX, 3, usize::MAX & !31]),
        ] {
            assert_eq!(refused(bad), Status::INVALID_VALUE, "{bad:?}");
        }
        let mut bad = memory(LINEAR, [800, 0, 0]);
        bad.of.handle += 256;
        assert_eq!(refused(bad), Status::INVALID_VALUE, "not aligned");
        bad = memory(LINEAR, [800, 0, 0]);
        bad.of.channels = 3;
        assert_eq!(refused(bad), Status::INVALID_VALUE, "three channels");
    }

    #[test]
    fn what_is_read_depends_on_format_and_flags() {
        let small = TEXTURE.sampler(Channel::U8).expect("a way to read");
        assert!(small.normalized_float && !small.normalized && !small.linear);
        let modes = [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Border];
        assert_eq!(small.address_modes, modes);
        let integer = CUDA_TEXTURE_DESC {
            flags: 3,
            ..TEXTURE
        };
        let read = integer.sampler(Channel::S16).expect("a way to read");
        assert!(!read.normalized_float && read.normalized);
        assert!(
            !TEXTURE
                .sampler(Channel::U32)
                .expect("integers")
                .normalized_float
        );
        assert!(
            !TEXTURE
                .sampler(Channel::F16)
                .expect("floats")
                .normalized_float
        );
        let linear = CUDA_TEXTURE_DESC {
            filter: 1,
            ..TEXTURE
        };
        assert!(linear.sampler(Channel::F32).is_ok() && linear.sampler(Channel::U8).is_ok());
        assert_eq!(
            linear.sampler(Channel::U32).err(),
            Some(Status::INVALID_VALUE)
        );
        for bad in [
            CUDA_TEXTURE_DESC {
                filter: 2,
                ..TEXTURE
            },
            CUDA_TEXTURE_DESC {
                flags: 4,
                ..TEXTURE
            },
            CUDA_TEXTURE_DESC {
                address_modes: [0, 4, 0],
                ..TEXTURE
            },
        ] {
            assert_eq!(bad.sampler(Channel::F32).err(), Some(Status::INVALID_VALUE));
        }
        for absent in [
            CUDA_TEXTURE_DESC {
                flags: 0x10,
                ..TEXTURE
            },
            CUDA_TEXTURE_DESC {
                flags: 0x40,
                ..TEXTURE
            },
            CUDA_TEXTURE_DESC {
                border: [1.0; 4],
                ..TEXTURE
            },
        ] {
            assert_eq!(
                absent.sampler(Channel::F32).err(),
                Some(Status::NOT_SUPPORTED)
            );
        }
    }
}
