//! Arrays: texels in device memory that textures and surfaces are made of, and copies with an end in one.
//!
//! An array is device memory like any other, row after row with a pitch of its own; the program has no address of it,
//! only a handle. Cubes, mipmaps, sparse arrays and compressed formats are not there, which is said on stderr.

use super::CUdeviceptr;
use super::boxes::CUDA_MEMCPY3D;
use super::copy::{self, Transfer};
use super::map::Memory;
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::graph::capture;
use crate::limit;
use crate::registry::{Handle, Object, Registry};
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use gridmux_channel::control::object::{Channel, Image, Shape};
use std::ffi::{c_uint, c_void};
use std::sync::{Arc, LazyLock};

/// An array as C holds it.
pub type CUarray = Handle<Array>;

static ARRAYS: LazyLock<Registry<Array>> = LazyLock::new(Registry::default);

/// The array has layers.
const LAYERED: c_uint = 1;
/// Surfaces may be made of it.
const SURFACE: c_uint = 2;
/// It may be gathered from, as every one here may.
const GATHER: c_uint = 8;
/// It may be drawn to, which nobody here does.
const ATTACHMENT: c_uint = 0x20;
/// All flags that the API has.
const FLAGS: c_uint = 0x1ff;
/// Rows begin at multiples of this many bytes.
const ROW_BYTES: u64 = 32;

driver_api! {
    needs Init;
    3020 cuArrayCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR) => create;
    3020 cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) => get_descriptor;
    2000 cuArrayDestroy(array: CUarray) => destroy;
    3020 cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) => create_spatial;
    3020 cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray)
        => get_spatial_descriptor;
    3020 cuMemcpyDtoA_v2(to: CUarray, to_offset: usize, from: CUdeviceptr, bytes: usize)
        | cuMemcpyDtoA_v2_ptds => copy_in;
    3020 cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, from_offset: usize, bytes: usize)
        | cuMemcpyAtoD_v2_ptds => copy_out;
    3020 cuMemcpyHtoA_v2(to: CUarray, to_offset: usize, from: *const c_void, bytes: usize)
        | cuMemcpyHtoA_v2_ptds => copy_in;
    3020 cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, from_offset: usize, bytes: usize)
        | cuMemcpyAtoH_v2_ptds => copy_out;
    3020 cuMemcpyAtoA_v2(to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize)
        | cuMemcpyAtoA_v2_ptds => copy_across;
    3020 cuMemcpyHtoAAsync_v2(to: CUarray, to_offset: usize, from: *const c_void, bytes: usize, stream: CUstream)
        | cuMemcpyHtoAAsync_v2_ptsz => copy_in_async;
    3020 cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, from_offset: usize, bytes: usize, stream: CUstream)
        | cuMemcpyAtoHAsync_v2_ptsz => copy_out_async;
}

/// A new array of one or two dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_ARRAY_DESCRIPTOR {
    width: usize,
    height: usize,
    format: c_uint,
    channels: c_uint,
}

/// A new array of up to three dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_ARRAY3D_DESCRIPTOR {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

const _: () =
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR>() == 24 && size_of::<CUDA_ARRAY3D_DESCRIPTOR>() == 40);

/// An array of the program's.
#[derive(Debug)]
pub struct Array {
    handle: CUarray,
    context: CUcontext,
    address: u64,
    layout: Layout,
}

/// Texels and their places, as an array was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    asked: CUDA_ARRAY3D_DESCRIPTOR,
    channel: Channel,
    row_bytes: u64,
}

impl Driver {
    /// Destroys the arrays of a context.
    pub(crate) fn forget_arrays(&self, context: CUcontext) {
        drop(ARRAYS.remove_all(|array| array.context() == context));
    }
}

impl Object for Array {
    const KIND: u8 = 10;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &ARRAYS
    }
}

/// Returns the type of a channel by its number in the API (`CUarray_format`).
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there is no such format; [`Status::NOT_SUPPORTED`]: it is not there.
pub fn channel_of(format: c_uint) -> CudaResult<Channel> {
    Ok(match format {
        0x01 => Channel::U8,
        0x02 => Channel::U16,
        0x03 => Channel::U32,
        0x08 => Channel::S8,
        0x09 => Channel::S16,
        0x0a => Channel::S32,
        0x10 => Channel::F16,
        0x20 => Channel::F32,
        // Normalised, block-compressed and video formats.
        0x50..=0x5e | 0x91..=0x9f | 0xa1..=0xa9 | 0xb0..=0xb5 | 0xc0..=0xcb => {
            report::refused("texels of a normalised, compressed or video format are not there");
            return Err(Status::NOT_SUPPORTED);
        }
        _ => return Err(Status::INVALID_VALUE),
    })
}

/// Returns the bytes of a channel.
#[must_use]
pub fn channel_bytes(channel: Channel) -> u64 {
    match channel {
        Channel::U8 | Channel::S8 => 1,
        Channel::U16 | Channel::S16 | Channel::F16 => 2,
        Channel::U32 | Channel::S32 | Channel::F32 => 4,
    }
}

impl Layout {
    /// Checks what was asked for.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: there can be no such array; [`Status::NOT_SUPPORTED`]: it is of a kind that is not
    /// there.
    pub fn of(asked: CUDA_ARRAY3D_DESCRIPTOR) -> CudaResult<Self> {
        let CUDA_ARRAY3D_DESCRIPTOR {
            width,
            height,
            depth,
            flags,
            ..
        } = asked;
        let is_layered = flags & LAYERED != 0;
        let has_shape = width > 0 && (depth == 0 || height > 0 || is_layered);
        let most = match (height, depth) {
            _ if is_layered => [limit::LAYERED, limit::LAYERED, limit::LAYERS],
            (0, _) => [limit::LINE, 0, 0],
            (_, 0) => [limit::PLANE[0], limit::PLANE[1], 0],
            _ => [limit::BOX; 3],
        };
        let sizes = [width, height, depth];
        let fits = sizes.iter().zip(most).all(|(size, most)| *size <= most);
        let is_known = flags & !FLAGS == 0 && [1, 2, 4].contains(&asked.channels);
        if !has_shape || !fits || !is_known || is_layered && depth == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let channel = channel_of(asked.format)?;
        if flags & !(LAYERED | SURFACE | GATHER | ATTACHMENT) != 0 {
            report::refused("cubes and depth, sparse, deferred and video arrays are not there");
            return Err(Status::NOT_SUPPORTED);
        }
        let texel = channel_bytes(channel) * u64::from(asked.channels);
        let row = (width as u64 * texel).next_multiple_of(ROW_BYTES);
        Ok(Self {
            asked,
            channel,
            row_bytes: row,
        })
    }

    /// Returns the bytes of a row's texels.
    #[must_use]
    pub fn width_bytes(&self) -> u64 {
        let texel = channel_bytes(self.channel) * u64::from(self.asked.channels);
        self.asked.width as u64 * texel
    }

    /// Returns the rows of a plane.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.asked.height.max(1)
    }

    /// Returns planes or layers.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.asked.depth.max(1)
    }

    /// Returns the bytes of all rows; `None` where these are more than addresses reach.
    fn bytes(&self) -> Option<u64> {
        let rows = (self.rows() as u64).checked_mul(self.planes() as u64)?;
        self.row_bytes.checked_mul(rows)
    }
}

impl Array {
    /// Returns the context that it belongs to.
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// Returns the device address of its first texel.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the bytes from row to row.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.layout.row_bytes
    }

    /// Returns the places of its texels.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns whether surfaces may be made of it.
    #[must_use]
    pub fn is_for_surfaces(&self) -> bool {
        self.layout.asked.flags & SURFACE != 0
    }

    /// Returns its texels as an image.
    #[must_use]
    pub fn image(&self) -> Image {
        let asked = &self.layout.asked;
        let is_layered = asked.flags & LAYERED != 0;
        let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        Image {
            address: self.address,
            shape: match (asked.height, asked.depth) {
                (0, _) => Shape::OneD,
                (_, depth) if depth > 0 && !is_layered => Shape::ThreeD,
                _ => Shape::TwoD,
            },
            size: [asked.width, asked.height, asked.depth].map(size),
            layers: if is_layered { size(asked.depth) } else { 0 },
            row_bytes: self.layout.row_bytes,
            channel: self.layout.channel,
            channels: asked.channels,
        }
    }

    /// Returns where `bytes` bytes from `offset` on stand in an array of one row.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it has several, or they go beyond its end.
    fn part(&self, offset: usize, bytes: usize) -> CudaResult<u64> {
        let end = offset.checked_add(bytes).ok_or(Status::INVALID_VALUE)? as u64;
        let is_row = self.layout.rows() == 1 && self.layout.planes() == 1;
        if !is_row || end > self.layout.width_bytes() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(self.address + offset as u64)
    }
}

fn create(place: Out<CUarray>, In(asked): In<CUDA_ARRAY_DESCRIPTOR>) -> CudaResult {
    let spatial = CUDA_ARRAY3D_DESCRIPTOR {
        width: asked.width,
        height: asked.height,
        depth: 0,
        format: asked.format,
        channels: asked.channels,
        flags: 0,
    };
    create_spatial(place, In(spatial))
}

fn create_spatial(place: Out<CUarray>, In(asked): In<CUDA_ARRAY3D_DESCRIPTOR>) -> CudaResult {
    let (driver, context) = usable()?;
    let layout = Layout::of(asked)?;
    let bytes = layout.bytes().ok_or(Status::OUT_OF_MEMORY)?;
    capture::check_unsafe()?;
    let buffer = driver.allocate(bytes)?;
    let address = buffer.address();
    let memory = Memory::Array(buffer);
    driver.memory.add_to(&context, address, bytes, memory)?;
    let made = ARRAYS.add(|handle| Array {
        handle,
        context: context.handle(),
        address,
        layout,
    });
    let array = made.inspect_err(|_| forget(driver, address))?;
    place.set(array.handle);
    Ok(())
}

fn forget(driver: &Driver, address: u64) {
    let is_array = |memory: &Memory| matches!(memory, Memory::Array(_));
    drop(driver.memory.remove(address, is_array));
}

fn destroy(array: CUarray) -> CudaResult {
    let driver = Driver::get()?;
    capture::check_unsafe()?;
    let array = ARRAYS.remove(array)?;
    forget(driver, array.address);
    Ok(())
}

fn get_descriptor(place: Out<CUDA_ARRAY_DESCRIPTOR>, array: Arc<Array>) -> CudaResult {
    let asked = &array.layout.asked;
    place.set(CUDA_ARRAY_DESCRIPTOR {
        width: asked.width,
        height: asked.height,
        format: asked.format,
        channels: asked.channels,
    });
    Ok(())
}

fn get_spatial_descriptor(place: Out<CUDA_ARRAY3D_DESCRIPTOR>, array: Arc<Array>) -> CudaResult {
    place.set(array.layout.asked);
    Ok(())
}

/// An end of a copy: an address, or that many bytes into an array of one row.
enum End {
    At(u64),
    In(Arc<Array>, usize),
}

impl End {
    /// Returns where its `bytes` bytes stand.
    fn address(&self, bytes: usize) -> CudaResult<u64> {
        match self {
            Self::At(address) => Ok(*address),
            Self::In(array, offset) => array.part(*offset, bytes),
        }
    }
}

/// Copies `bytes` bytes to an end from another.
fn run(
    default: DefaultStream,
    (to, from): (End, End),
    bytes: usize,
    stream: Option<CUstream>,
) -> CudaResult {
    let wait = stream.is_none();
    let addresses = (to.address(bytes)?, from.address(bytes)?);
    let (driver, context, stream) = usable_stream(default, stream.unwrap_or(CUstream::NULL))?;
    if bytes == 0 {
        return Ok(());
    }
    let transfer = Transfer::new(driver, addresses.0, addresses.1, bytes)?;
    let node = || {
        let kinds = transfer.are_devices();
        let line = CUDA_MEMCPY3D::line((addresses.1, kinds.1), (addresses.0, kinds.0), bytes);
        let line = match &to {
            End::At(_) => line,
            End::In(array, offset) => line.into_array(array.handle, *offset),
        };
        match &from {
            End::At(_) => line,
            End::In(array, offset) => line.out_of_array(array.handle, *offset),
        }
    };
    if copy::is_captured(&context, &stream, wait, node)? {
        return Ok(());
    }
    copy::run(driver, &context, &stream, &transfer, wait)
}

fn copy_in(
    default: DefaultStream,
    to: Arc<Array>,
    to_offset: usize,
    from: u64,
    bytes: usize,
) -> CudaResult {
    run(
        default,
        (End::In(to, to_offset), End::At(from)),
        bytes,
        None,
    )
}

fn copy_out(
    default: DefaultStream,
    to: u64,
    from: Arc<Array>,
    from_offset: usize,
    bytes: usize,
) -> CudaResult {
    run(
        default,
        (End::At(to), End::In(from, from_offset)),
        bytes,
        None,
    )
}

fn copy_across(
    default: DefaultStream,
    to: Arc<Array>,
    to_offset: usize,
    from: Arc<Array>,
    from_offset: usize,
    bytes: usize,
) -> CudaResult {
    let ends = (End::In(to, to_offset), End::In(from, from_offset));
    run(default, ends, bytes, None)
}

fn copy_in_async(
    default: DefaultStream,
    to: Arc<Array>,
    to_offset: usize,
    from: u64,
    bytes: usize,
    stream: CUstream,
) -> CudaResult {
    let ends = (End::In(to, to_offset), End::At(from));
    run(default, ends, bytes, Some(stream))
}

fn copy_out_async(
    default: DefaultStream,
    to: u64,
    from: Arc<Array>,
    from_offset: usize,
    bytes: usize,
    stream: CUstream,
) -> CudaResult {
    let ends = (End::At(to), End::In(from, from_offset));
    run(default, ends, bytes, Some(stream))
}

#[cfg(test)]
mod tests {
    use super::{CUDA_ARRAY3D_DESCRIPTOR, LAYERED, Layout, channel_of};
    use crate::status::Status;

    const PLANE: CUDA_ARRAY3D_DESCRIPTOR = CUDA_ARRAY3D_DESCRIPTOR {
        width: 5,
        height: 3,
        depth: 0,
        format: 0x20,
        channels: 2,
        flags: 0,
    };

    #[test]
    fn an_array_has_a_shape_and_a_format_or_there_is_none() {
        let plane = Layout::of(PLANE).expect("a plane");
        let sizes = (
            plane.width_bytes(),
            plane.row_bytes,
            plane.rows(),
            plane.planes(),
        );
        assert_eq!(sizes, (40, 64, 3, 1));
        assert_eq!(plane.bytes(), Some(192));
        let refused = |asked| Layout::of(asked).map(|_| ()).unwrap_err();
        for bad in [
            CUDA_ARRAY3D_DESCRIPTOR { width: 0, ..PLANE },
            CUDA_ARRAY3D_DESCRIPTOR {
                channels: 3,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                format: 0x04,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                format: u32::MAX,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                flags: 1 << 20,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                flags: LAYERED,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                height: 0,
                depth: 4,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                width: usize::MAX,
                ..PLANE
            },
        ] {
            assert_eq!(refused(bad), Status::INVALID_VALUE, "{bad:?}");
        }
        for absent in [
            CUDA_ARRAY3D_DESCRIPTOR {
                flags: 4,
                height: 5,
                depth: 6,
                ..PLANE
            },
            CUDA_ARRAY3D_DESCRIPTOR {
                format: 0xb0,
                ..PLANE
            },
        ] {
            assert_eq!(refused(absent), Status::NOT_SUPPORTED, "{absent:?}");
        }
        assert!(channel_of(0).is_err());
    }
}
