//! Copies, of one, two and three dimensions.
//!
//! Rules: the kind of a copy says which end is the host's, and is believed, as NVIDIA's library does; for
//! `cudaMemcpyDefault` the driver is asked. In an array places and sizes count texels, and copies between one and
//! memory do so, too.

use crate::api::{DefaultStream, runtime_api};
use crate::array::Volume;
use crate::border::Place;
use crate::current::ready;
use crate::driver::Driver;
use crate::memory::{Extent, Pitched, Told};
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};

/// One end of the driver's copy of two dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanarEnd {
    x_bytes: usize,
    y: usize,
    kind: c_uint,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl PlanarEnd {
    /// Returns an end in memory of a kind that the driver has, rows a pitch apart.
    pub(crate) fn in_memory(start: u64, kind: c_uint, pitch: usize) -> Self {
        Self {
            x_bytes: 0,
            y: 0,
            kind,
            host: start,
            device: start,
            array: 0,
            pitch,
        }
    }

    /// Returns an end in an array, behind so many bytes of a row and rows.
    pub(crate) fn in_array(array: u64, x_bytes: usize, y: usize) -> Self {
        Self {
            x_bytes,
            y,
            kind: ARRAY,
            host: 0,
            device: 0,
            array,
            pitch: 0,
        }
    }
}

/// The driver's copy of two dimensions (`CUDA_MEMCPY2D`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Planar {
    from: PlanarEnd,
    to: PlanarEnd,
    width_bytes: usize,
    height: usize,
}

impl Planar {
    /// Returns a copy of `height` rows of `width_bytes` bytes.
    pub(crate) fn new(from: PlanarEnd, to: PlanarEnd, width_bytes: usize, height: usize) -> Self {
        Self {
            from,
            to,
            width_bytes,
            height,
        }
    }

    /// Copies.
    pub(crate) fn execute(mut self, driver: &Driver, mode: Mode) -> CudaResult {
        let copy = Place::to(&mut self);
        match mode {
            Mode::AtOnce(DefaultStream::Legacy) => driver.cuMemcpy2D_v2(copy),
            Mode::AtOnce(DefaultStream::PerThread) => driver.cuMemcpy2D_v2_ptds(copy),
            Mode::InOrder(stream) => driver.cuMemcpy2DAsync_v2(copy, stream),
        }
    }
}

/// How a copy is executed. The driver refuses the first during a capture, before anything is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// Before the function returns, on this default stream.
    AtOnce(DefaultStream),
    /// In the order of a stream of the driver's.
    InOrder(u64),
}

/// One end of the driver's copy of three dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct SpatialEnd {
    x_bytes: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_uint,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// The driver's copy of three dimensions (`CUDA_MEMCPY3D`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Spatial {
    from: SpatialEnd,
    to: SpatialEnd,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

const _: () = assert!(size_of::<Planar>() == 128 && size_of::<Spatial>() == 200);

/// The direction that addresses say (`cudaMemcpyDefault`).
pub(crate) const BY_ADDRESS: c_int = 4;

/// Where in an array or in rows (`cudaPos`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// A copy of three dimensions (`cudaMemcpy3DParms`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SpatialCopy {
    pub(crate) from_array: u64,
    pub(crate) from_at: Position,
    pub(crate) from: Pitched,
    pub(crate) to_array: u64,
    pub(crate) to_at: Position,
    pub(crate) to: Pitched,
    pub(crate) extent: Extent,
    pub(crate) kind: c_int,
}

runtime_api! {
    cudaMemcpy(to: u64, from: u64, bytes: usize, kind: c_int) | cudaMemcpy_ptds => copy;
    cudaMemcpyAsync(to: u64, from: u64, bytes: usize, kind: c_int, stream: u64)
        | cudaMemcpyAsync_ptsz => copy_async;
    cudaMemcpy2D(
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: c_int,
    ) | cudaMemcpy2D_ptds => planar;
    cudaMemcpy2DAsync(
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: c_int, stream: u64,
    ) | cudaMemcpy2DAsync_ptsz => planar_async;
    cudaMemcpy3D(copy: *const SpatialCopy) | cudaMemcpy3D_ptds => spatial;
    cudaMemcpy3DAsync(copy: *const SpatialCopy, stream: u64) | cudaMemcpy3DAsync_ptsz => spatial_async;
}

/// Which end is the host's (`cudaMemcpyKind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// The driver finds it out.
    Default,
}

/// The greatest pitch of a copy in bytes, as on all NVIDIA devices.
const MOST_PITCH: usize = 0x7fff_ffff;

/// The driver's kinds of memory (`CUmemorytype`).
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;

/// Which end of a copy is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The one that is read.
    From,
    /// The one that is written.
    To,
}

/// Returns the driver's kind of memory of one end of a copy whose other end is an array.
///
/// # Errors
/// [`Status::INVALID_MEMCPY_DIRECTION`]: a kind in which the array would be the host's, or no kind; the driver's.
pub(crate) fn kind_of(driver: &Driver, kind: c_int, address: u64, end: Ends) -> CudaResult<c_uint> {
    let kind = Kind::of(kind)?;
    match (kind, end) {
        (Kind::HostToHost, _)
        | (Kind::DeviceToHost, Ends::From)
        | (Kind::HostToDevice, Ends::To) => return Err(Status::INVALID_MEMCPY_DIRECTION),
        _ => {}
    }
    let (from, to) = kind.ends(driver, address, address)?;
    Ok(match end {
        Ends::From => from,
        Ends::To => to,
    })
}

impl Kind {
    pub(crate) fn of(number: c_int) -> CudaResult<Self> {
        Ok(match number {
            0 => Self::HostToHost,
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Default,
            _ => return Err(Status::INVALID_MEMCPY_DIRECTION),
        })
    }

    /// Returns the driver's kinds of memory of both ends, of `from` first.
    fn ends(self, driver: &Driver, from: u64, to: u64) -> CudaResult<(c_uint, c_uint)> {
        let told = |address| Ok(Told::of(driver, address)?.kind.max(HOST));
        Ok(match self {
            Self::HostToHost => (HOST, HOST),
            Self::HostToDevice => (HOST, DEVICE),
            Self::DeviceToHost => (DEVICE, HOST),
            Self::DeviceToDevice => (DEVICE, DEVICE),
            Self::Default => (told(from)?, told(to)?),
        })
    }
}

pub(crate) fn copy(
    default: DefaultStream,
    to: u64,
    from: u64,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    let driver = ready()?;
    let kind = Kind::of(kind)?;
    if bytes == 0 {
        return Ok(());
    }
    match (kind, default) {
        (Kind::HostToDevice, DefaultStream::Legacy) => driver.cuMemcpyHtoD_v2(to, from, bytes),
        (Kind::DeviceToHost, DefaultStream::Legacy) => driver.cuMemcpyDtoH_v2(to, from, bytes),
        (Kind::DeviceToDevice, DefaultStream::Legacy) => driver.cuMemcpyDtoD_v2(to, from, bytes),
        (_, DefaultStream::Legacy) => driver.cuMemcpy(to, from, bytes),
        (Kind::HostToDevice, _) => driver.cuMemcpyHtoD_v2_ptds(to, from, bytes),
        (Kind::DeviceToHost, _) => driver.cuMemcpyDtoH_v2_ptds(to, from, bytes),
        (Kind::DeviceToDevice, _) => driver.cuMemcpyDtoD_v2_ptds(to, from, bytes),
        _ => driver.cuMemcpy_ptds(to, from, bytes),
    }
}

pub(crate) fn copy_async(
    default: DefaultStream,
    to: u64,
    from: u64,
    bytes: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let (driver, stream) = (ready()?, default.resolve(stream));
    match Kind::of(kind)? {
        _ if bytes == 0 => Ok(()),
        Kind::HostToDevice => driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream),
        Kind::DeviceToHost => driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream),
        Kind::DeviceToDevice => driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream),
        Kind::HostToHost | Kind::Default => driver.cuMemcpyAsync(to, from, bytes, stream),
    }
}

/// Two places in rows, and how many bytes of how many rows.
struct Rows {
    to: (u64, usize),
    from: (u64, usize),
    width: usize,
    height: usize,
}

impl Rows {
    /// Returns the driver's copy.
    fn copy(&self, driver: &Driver, kind: c_int) -> CudaResult<Planar> {
        let (from, to) = Kind::of(kind)?.ends(driver, self.from.0, self.to.0)?;
        for pitch in [self.from.1, self.to.1] {
            if self.width > pitch || pitch > MOST_PITCH {
                return Err(Status::INVALID_PITCH);
            }
        }
        let end = |(start, pitch), kind| PlanarEnd::in_memory(start, kind, pitch);
        let (from, to) = (end(self.from, from), end(self.to, to));
        Ok(Planar::new(from, to, self.width, self.height))
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn planar(
    default: DefaultStream,
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> CudaResult {
    let rows = Rows {
        to: (to, to_pitch),
        from: (from, from_pitch),
        width,
        height,
    };
    let driver = ready()?;
    let copy = rows.copy(driver, kind)?;
    match width == 0 || height == 0 {
        true => Ok(()),
        false => copy.execute(driver, Mode::AtOnce(default)),
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn planar_async(
    default: DefaultStream,
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let rows = Rows {
        to: (to, to_pitch),
        from: (from, from_pitch),
        width,
        height,
    };
    let driver = ready()?;
    let copy = rows.copy(driver, kind)?;
    match width == 0 || height == 0 {
        true => Ok(()),
        false => copy.execute(driver, Mode::InOrder(default.resolve(stream))),
    }
}

impl SpatialEnd {
    fn of_line(start: u64, kind: c_uint, bytes: usize) -> Self {
        Self {
            x_bytes: 0,
            y: 0,
            z: 0,
            level: 0,
            kind,
            host: start,
            device: start,
            array: 0,
            reserved: 0,
            pitch: bytes,
            height: 1,
        }
    }

    /// Returns its array, if it is in one.
    fn array(&self) -> Option<u64> {
        (self.kind == ARRAY).then_some(self.array)
    }

    /// Returns where it is in rows; in an array it counts texels of that many bytes.
    fn place(&self, texel: usize) -> (Pitched, Position) {
        let start = match self.kind {
            HOST => self.host,
            ARRAY => 0,
            _ => self.device,
        };
        let rows = Pitched {
            start,
            pitch: self.pitch,
            width: self.pitch,
            height: self.height,
        };
        let at = Position {
            x: match self.array() {
                None => self.x_bytes,
                Some(_) => self.x_bytes / texel,
            },
            y: self.y,
            z: self.z,
        };
        (rows, at)
    }
}

impl Spatial {
    /// Returns the copy of one row.
    ///
    /// # Errors
    /// [`Status::INVALID_MEMCPY_DIRECTION`]; the driver's.
    pub(crate) fn line(
        driver: &Driver,
        to: u64,
        from: u64,
        bytes: usize,
        kind: c_int,
    ) -> CudaResult<Self> {
        let kinds = Kind::of(kind)?.ends(driver, from, to)?;
        Ok(Self {
            from: SpatialEnd::of_line(from, kinds.0, bytes),
            to: SpatialEnd::of_line(to, kinds.1, bytes),
            width_bytes: bytes,
            height: 1,
            depth: 1,
        })
    }

    /// Returns the copy of nothing.
    #[must_use]
    pub(crate) fn empty() -> Self {
        let end = SpatialEnd::of_line(0, HOST, 0);
        Self {
            from: end,
            to: end,
            width_bytes: 0,
            height: 0,
            depth: 0,
        }
    }
}

impl SpatialCopy {
    /// Returns this API's copy, which counts texels where an end is in an array, and bytes if that has gone meanwhile.
    #[must_use]
    pub(crate) fn of(copy: &Spatial) -> Self {
        let arrays = (copy.from.array(), copy.to.array());
        let texel = arrays.0.or(arrays.1).and_then(|array| {
            let volume = Volume::of(Driver::get().ok()?, array).ok()?;
            Some(volume.texel_bytes().max(1))
        });
        let texel = texel.unwrap_or(1);
        let ((from, from_at), (to, to_at)) = (copy.from.place(texel), copy.to.place(texel));
        Self {
            from_array: arrays.0.unwrap_or(0),
            from_at,
            from,
            to_array: arrays.1.unwrap_or(0),
            to_at,
            to,
            extent: Extent {
                width: copy.width_bytes / texel,
                height: copy.height,
                depth: copy.depth,
            },
            kind: match (copy.from.kind, copy.to.kind) {
                (HOST, HOST) => 0,
                (HOST, DEVICE | ARRAY) => 1,
                (DEVICE | ARRAY, HOST) => 2,
                (DEVICE | ARRAY, DEVICE | ARRAY) => 3,
                _ => BY_ADDRESS,
            },
        }
    }

    /// Returns the driver's copy.
    ///
    /// # Errors
    /// [`Status::INVALID_MEMCPY_DIRECTION`]; [`Status::INVALID_PITCH`]; the driver's.
    pub(crate) fn copy(&self, driver: &Driver) -> CudaResult<Spatial> {
        let texel = match [self.from_array, self.to_array] {
            [0, 0] => None,
            [0, array] | [array, _] => Some(Volume::of(driver, array)?.texel_bytes()),
        };
        let (from, to) = Kind::of(self.kind)?.ends(driver, self.from.start, self.to.start)?;
        // That of an array is its own.
        let pitches = [
            (self.from_array, self.from.pitch),
            (self.to_array, self.to.pitch),
        ];
        let is_too_long = |(array, pitch): &(u64, usize)| *array == 0 && *pitch > MOST_PITCH;
        if pitches.iter().any(is_too_long) {
            return Err(Status::INVALID_PITCH);
        }
        let bytes = |texels: usize| {
            let bytes = texels.checked_mul(texel.unwrap_or(1));
            bytes.ok_or(Status::INVALID_VALUE)
        };
        let end = |array: u64, memory: &Pitched, at: &Position, kind| {
            Ok(SpatialEnd {
                x_bytes: if array == 0 { at.x } else { bytes(at.x)? },
                y: at.y,
                z: at.z,
                level: 0,
                kind: if array == 0 { kind } else { ARRAY },
                host: memory.start,
                device: memory.start,
                array,
                reserved: 0,
                pitch: memory.pitch,
                height: memory.height,
            })
        };
        Ok(Spatial {
            from: end(self.from_array, &self.from, &self.from_at, from)?,
            to: end(self.to_array, &self.to, &self.to_at, to)?,
            width_bytes: bytes(self.extent.width)?,
            height: self.extent.height,
            depth: self.extent.depth,
        })
    }
}

pub(crate) fn spatial(default: DefaultStream, copy: Place<SpatialCopy>) -> CudaResult {
    let driver = ready()?;
    let mut copy = copy.get()?.copy(driver)?;
    match default {
        DefaultStream::Legacy => driver.cuMemcpy3D_v2(Place::to(&mut copy)),
        DefaultStream::PerThread => driver.cuMemcpy3D_v2_ptds(Place::to(&mut copy)),
    }
}

pub(crate) fn spatial_async(
    default: DefaultStream,
    copy: Place<SpatialCopy>,
    stream: u64,
) -> CudaResult {
    let driver = ready()?;
    let mut copy = copy.get()?.copy(driver)?;
    driver.cuMemcpy3DAsync_v2(Place::to(&mut copy), default.resolve(stream))
}
