//! Arrays: their formats in the runtime's words, and copies with an end in one.
//!
//! An array's handle is the driver's. Offsets in one count bytes along a row and rows; a copy of so many bytes goes on
//! in the next row where one ends.

use crate::api::{DefaultStream, runtime_api};
use crate::border::Place;
use crate::copy::{Ends, Kind, Mode, Planar, PlanarEnd, kind_of};
use crate::current::ready;
use crate::driver::Driver;
use crate::memory::Extent;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};

/// The bits of a texel's channels, and their kind (`cudaChannelFormatDesc`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFormat {
    bits: [c_int; 4],
    kind: c_int,
}

/// The driver's array of up to three dimensions (`CUDA_ARRAY3D_DESCRIPTOR`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Volume {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

/// Kinds of channels (`cudaChannelFormatKind`).
const SIGNED: c_int = 0;
const UNSIGNED: c_int = 1;
const FLOAT: c_int = 2;

/// Formats of the driver's, with the bits and the kind of a channel.
const FORMATS: [(c_uint, c_int, c_int); 8] = [
    (0x01, 8, UNSIGNED),
    (0x02, 16, UNSIGNED),
    (0x03, 32, UNSIGNED),
    (0x08, 8, SIGNED),
    (0x09, 16, SIGNED),
    (0x0a, 32, SIGNED),
    (0x10, 16, FLOAT),
    (0x20, 32, FLOAT),
];

impl ChannelFormat {
    /// The format of what has none of its own (`cudaChannelFormatKindNone`).
    pub(crate) const NONE: Self = Self {
        bits: [0; 4],
        kind: 3,
    };

    /// Returns the driver's format, and how many channels there are.
    ///
    /// # Errors
    /// [`Status::INVALID_CHANNEL_DESCRIPTOR`]: there is no such format.
    pub(crate) fn of_driver(self) -> CudaResult<(c_uint, c_uint)> {
        let [first, ..] = self.bits;
        let channels = self.bits.iter().take_while(|bits| **bits != 0).count();
        let is_even = self.bits[..channels].iter().all(|bits| *bits == first);
        let is_over = self.bits[channels..].iter().all(|bits| *bits == 0);
        let known = FORMATS
            .iter()
            .find(|(_, bits, kind)| (*bits, *kind) == (first, self.kind));
        let channels = [1, 2, 4]
            .into_iter()
            .find(|some| *some as usize == channels);
        match (known, channels) {
            (Some((format, ..)), Some(channels)) if is_even && is_over => Ok((*format, channels)),
            _ => Err(Status::INVALID_CHANNEL_DESCRIPTOR),
        }
    }

    /// Returns what a format of the driver's is.
    ///
    /// # Errors
    /// [`Status::INVALID_CHANNEL_DESCRIPTOR`]: the runtime has no such format.
    pub(crate) fn of(format: c_uint, channels: c_uint) -> CudaResult<Self> {
        let known = FORMATS.iter().find(|(known, ..)| *known == format);
        let (_, bits, kind) = known.ok_or(Status::INVALID_CHANNEL_DESCRIPTOR)?;
        let mut all = [0; 4];
        for one in all.iter_mut().take(channels as usize) {
            *one = *bits;
        }
        Ok(Self {
            bits: all,
            kind: *kind,
        })
    }
}

impl Volume {
    /// Asks the driver of an array.
    pub(crate) fn of(driver: &Driver, array: u64) -> CudaResult<Self> {
        let mut volume = Self {
            width: 0,
            height: 0,
            depth: 0,
            format: 0,
            channels: 0,
            flags: 0,
        };
        driver.cuArray3DGetDescriptor_v2(Place::to(&mut volume), array)?;
        Ok(volume)
    }

    /// Returns the bytes of a texel.
    pub(crate) fn texel_bytes(&self) -> usize {
        let known = FORMATS.iter().find(|(known, ..)| *known == self.format);
        let bits = known.map_or(8, |(_, bits, _)| *bits);
        usize::try_from(bits / 8).unwrap_or(1) * self.channels as usize
    }

    fn width_bytes(&self) -> usize {
        self.width * self.texel_bytes()
    }
}

runtime_api! {
    cudaMallocArray(
        array: *mut u64, format: *const ChannelFormat, width: usize, height: usize, flags: c_uint,
    ) => allocate;
    cudaMalloc3DArray(array: *mut u64, format: *const ChannelFormat, extent: Extent, flags: c_uint)
        => allocate_spatial;
    cudaFreeArray(array: u64) => free;
    cudaGetChannelDesc(format: *mut ChannelFormat, array: u64) => get_format;
    cudaArrayGetInfo(format: *mut ChannelFormat, extent: *mut Extent, flags: *mut c_uint, array: u64) => get_info;
    cudaMemcpyToArray(to: u64, x: usize, y: usize, from: u64, bytes: usize, kind: c_int)
        | cudaMemcpyToArray_ptds => copy_in;
    cudaMemcpyToArrayAsync(to: u64, x: usize, y: usize, from: u64, bytes: usize, kind: c_int, stream: u64)
        | cudaMemcpyToArrayAsync_ptsz => copy_in_async;
    cudaMemcpyFromArray(to: u64, from: u64, x: usize, y: usize, bytes: usize, kind: c_int)
        | cudaMemcpyFromArray_ptds => copy_out;
    cudaMemcpyFromArrayAsync(to: u64, from: u64, x: usize, y: usize, bytes: usize, kind: c_int, stream: u64)
        | cudaMemcpyFromArrayAsync_ptsz => copy_out_async;
    cudaMemcpyArrayToArray(
        to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, bytes: usize, kind: c_int,
    ) | cudaMemcpyArrayToArray_ptds => copy_across;
    cudaMemcpy2DToArray(
        to: u64, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int,
    ) | cudaMemcpy2DToArray_ptds => rows_in;
    cudaMemcpy2DToArrayAsync(
        to: u64, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int, stream: u64,
    ) | cudaMemcpy2DToArrayAsync_ptsz => rows_in_async;
    cudaMemcpy2DFromArray(
        to: u64, pitch: usize, from: u64, x: usize, y: usize, width: usize, height: usize, kind: c_int,
    ) | cudaMemcpy2DFromArray_ptds => rows_out;
    cudaMemcpy2DFromArrayAsync(
        to: u64, pitch: usize, from: u64, x: usize, y: usize, width: usize, height: usize, kind: c_int, stream: u64,
    ) | cudaMemcpy2DFromArrayAsync_ptsz => rows_out_async;
    cudaMemcpy2DArrayToArray(
        to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, width: usize, height: usize,
        kind: c_int,
    ) | cudaMemcpy2DArrayToArray_ptds => rows_across;
}

/// `cudaCreateChannelDesc` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    kind: c_int,
) -> ChannelFormat {
    ChannelFormat {
        bits: [x, y, z, w],
        kind,
    }
}

fn allocate(
    array: Place<u64>,
    format: Place<ChannelFormat>,
    width: usize,
    height: usize,
    flags: c_uint,
) -> CudaResult {
    let extent = Extent {
        width,
        height,
        depth: 0,
    };
    allocate_spatial(array, format, extent, flags)
}

fn allocate_spatial(
    array: Place<u64>,
    format: Place<ChannelFormat>,
    extent: Extent,
    flags: c_uint,
) -> CudaResult {
    let driver = ready()?;
    let (format, channels) = format.get()?.of_driver()?;
    let mut volume = Volume {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        channels,
        flags,
    };
    driver.cuArray3DCreate_v2(array, Place::to(&mut volume))
}

/// Null is no error, as documented.
fn free(array: u64) -> CudaResult {
    match array {
        0 => Ok(()),
        array => ready()?.cuArrayDestroy(array),
    }
}

fn get_format(format: Place<ChannelFormat>, array: u64) -> CudaResult {
    let volume = Volume::of(ready()?, array)?;
    format.set(ChannelFormat::of(volume.format, volume.channels)?)
}

fn get_info(
    format: Place<ChannelFormat>,
    extent: Place<Extent>,
    flags: Place<c_uint>,
    array: u64,
) -> CudaResult {
    let volume = Volume::of(ready()?, array)?;
    format.set_if(ChannelFormat::of(volume.format, volume.channels)?)?;
    extent.set_if(Extent {
        width: volume.width,
        height: volume.height,
        depth: volume.depth,
    })?;
    flags.set_if(volume.flags)
}

/// A place in an array: bytes along a row, and rows.
#[derive(Debug, Clone, Copy)]
struct Spot {
    array: u64,
    x: usize,
    y: usize,
}

impl Spot {
    fn end(self) -> PlanarEnd {
        PlanarEnd::in_array(self.array, self.x, self.y)
    }
}

/// Copies rows.
fn rows(
    driver: &Driver,
    (to, from): (PlanarEnd, PlanarEnd),
    (width, height): (usize, usize),
    mode: Mode,
) -> CudaResult {
    match width == 0 || height == 0 {
        true => Ok(()),
        false => Planar::new(from, to, width, height).execute(driver, mode),
    }
}

/// Returns the pieces of `bytes` bytes that begin at a spot of rows of `row` bytes: the spot, how many bytes lie before
/// the piece, its width and its height.
fn pieces(spot: Spot, row: usize, bytes: usize) -> CudaResult<Vec<(Spot, usize, usize, usize)>> {
    if row == 0 || spot.x >= row {
        return Err(Status::INVALID_VALUE);
    }
    let (mut pieces, mut at, mut done) = (Vec::new(), spot, 0);
    while done < bytes {
        let left = bytes - done;
        let (width, height) = match at.x {
            0 if left >= row => (row, left / row),
            x => (left.min(row - x), 1),
        };
        pieces.push((at, done, width, height));
        done += width * height;
        let y = at.y.checked_add(height).ok_or(Status::INVALID_VALUE)?;
        at = Spot { x: 0, y, ..at };
    }
    Ok(pieces)
}

/// Copies so many bytes between a spot and memory, in the direction that `end`, the memory's, says.
fn run(
    spot: Spot,
    memory: u64,
    bytes: usize,
    (kind, end): (c_int, Ends),
    mode: Mode,
) -> CudaResult {
    let driver = ready()?;
    let kind = kind_of(driver, kind, memory, end)?;
    let row = Volume::of(driver, spot.array)?.width_bytes();
    for (at, before, width, height) in pieces(spot, row, bytes)? {
        let start = memory.checked_add(before as u64);
        let start = start.ok_or(Status::INVALID_VALUE)?;
        let other = PlanarEnd::in_memory(start, kind, width);
        let ends = match end {
            Ends::From => (at.end(), other),
            Ends::To => (other, at.end()),
        };
        rows(driver, ends, (width, height), mode)?;
    }
    Ok(())
}

/// Copies rows between a spot and memory whose rows are a pitch apart, in the direction that `end`, the memory's, says.
fn run_rows(
    spot: Spot,
    (memory, pitch): (u64, usize),
    size: (usize, usize),
    (kind, end): (c_int, Ends),
    mode: Mode,
) -> CudaResult {
    let driver = ready()?;
    let kind = kind_of(driver, kind, memory, end)?;
    if size.0 > pitch {
        return Err(Status::INVALID_PITCH);
    }
    let other = PlanarEnd::in_memory(memory, kind, pitch);
    let ends = match end {
        Ends::From => (spot.end(), other),
        Ends::To => (other, spot.end()),
    };
    rows(driver, ends, size, mode)
}

/// Succeeds for the kinds of a copy between two arrays.
///
/// # Errors
/// [`Status::INVALID_MEMCPY_DIRECTION`].
fn check_across(kind: c_int) -> CudaResult {
    match Kind::of(kind)? {
        Kind::DeviceToDevice | Kind::Default => Ok(()),
        _ => Err(Status::INVALID_MEMCPY_DIRECTION),
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn copy_in_async(
    default: DefaultStream,
    to: u64,
    x: usize,
    y: usize,
    from: u64,
    bytes: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let spot = Spot { array: to, x, y };
    let mode = Mode::InOrder(default.resolve(stream));
    run(spot, from, bytes, (kind, Ends::From), mode)
}

fn copy_in(
    default: DefaultStream,
    to: u64,
    x: usize,
    y: usize,
    from: u64,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    let spot = Spot { array: to, x, y };
    let mode = Mode::AtOnce(default);
    run(spot, from, bytes, (kind, Ends::From), mode)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn copy_out_async(
    default: DefaultStream,
    to: u64,
    from: u64,
    x: usize,
    y: usize,
    bytes: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let spot = Spot { array: from, x, y };
    let mode = Mode::InOrder(default.resolve(stream));
    run(spot, to, bytes, (kind, Ends::To), mode)
}

fn copy_out(
    default: DefaultStream,
    to: u64,
    from: u64,
    x: usize,
    y: usize,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    let spot = Spot { array: from, x, y };
    let mode = Mode::AtOnce(default);
    run(spot, to, bytes, (kind, Ends::To), mode)
}

/// Copies between arrays whose rows are as long, or within rows.
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn copy_across(
    default: DefaultStream,
    to: u64,
    to_x: usize,
    to_y: usize,
    from: u64,
    from_x: usize,
    from_y: usize,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    let driver = ready()?;
    check_across(kind)?;
    let row = Volume::of(driver, from)?.width_bytes();
    let target_row = Volume::of(driver, to)?.width_bytes();
    let source = Spot {
        array: from,
        x: from_x,
        y: from_y,
    };
    let fits_rows = bytes <= row.saturating_sub(from_x) && bytes <= target_row.saturating_sub(to_x);
    if !fits_rows && (row != target_row || from_x != to_x) {
        return Err(Status::INVALID_VALUE);
    }
    for (at, _, width, height) in pieces(source, row, bytes)? {
        let y = to_y
            .checked_add(at.y - from_y)
            .ok_or(Status::INVALID_VALUE)?;
        let x = if at.y == from_y { to_x } else { 0 };
        let target = Spot { array: to, x, y };
        let ends = (target.end(), at.end());
        rows(driver, ends, (width, height), Mode::AtOnce(default))?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn rows_in_async(
    default: DefaultStream,
    to: u64,
    x: usize,
    y: usize,
    from: u64,
    pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let spot = Spot { array: to, x, y };
    let mode = Mode::InOrder(default.resolve(stream));
    run_rows(
        spot,
        (from, pitch),
        (width, height),
        (kind, Ends::From),
        mode,
    )
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn rows_in(
    default: DefaultStream,
    to: u64,
    x: usize,
    y: usize,
    from: u64,
    pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> CudaResult {
    let spot = Spot { array: to, x, y };
    let mode = Mode::AtOnce(default);
    run_rows(
        spot,
        (from, pitch),
        (width, height),
        (kind, Ends::From),
        mode,
    )
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn rows_out_async(
    default: DefaultStream,
    to: u64,
    pitch: usize,
    from: u64,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    kind: c_int,
    stream: u64,
) -> CudaResult {
    let spot = Spot { array: from, x, y };
    let mode = Mode::InOrder(default.resolve(stream));
    run_rows(spot, (to, pitch), (width, height), (kind, Ends::To), mode)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn rows_out(
    default: DefaultStream,
    to: u64,
    pitch: usize,
    from: u64,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> CudaResult {
    let spot = Spot { array: from, x, y };
    let mode = Mode::AtOnce(default);
    run_rows(spot, (to, pitch), (width, height), (kind, Ends::To), mode)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn rows_across(
    default: DefaultStream,
    to: u64,
    to_x: usize,
    to_y: usize,
    from: u64,
    from_x: usize,
    from_y: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> CudaResult {
    let driver = ready()?;
    check_across(kind)?;
    let target = Spot {
        array: to,
        x: to_x,
        y: to_y,
    };
    let source = Spot {
        array: from,
        x: from_x,
        y: from_y,
    };
    let ends = (target.end(), source.end());
    rows(driver, ends, (width, height), Mode::AtOnce(default))
}

#[cfg(test)]
mod tests {
    use super::{ChannelFormat, FLOAT, SIGNED, Spot, UNSIGNED, pieces};

    #[test]
    fn a_format_has_channels_of_one_size_and_goes_to_the_driver_and_back() {
        let format = |bits, kind| ChannelFormat { bits, kind };
        for (bits, kind, driver) in [
            ([32, 0, 0, 0], FLOAT, (0x20, 1)),
            ([8, 8, 8, 8], UNSIGNED, (0x01, 4)),
            ([16, 16, 0, 0], SIGNED, (0x09, 2)),
            ([16, 0, 0, 0], FLOAT, (0x10, 1)),
        ] {
            let one = format(bits, kind);
            assert_eq!(one.of_driver(), Ok(driver));
            assert_eq!(ChannelFormat::of(driver.0, driver.1), Ok(one));
        }
        for (bits, kind) in [
            ([0; 4], FLOAT),
            ([8, 0, 0, 0], FLOAT),
            ([8, 8, 8, 0], UNSIGNED),
            ([8, 16, 0, 0], UNSIGNED),
            ([8, 0, 8, 0], UNSIGNED),
            ([64, 0, 0, 0], SIGNED),
            ([8, 0, 0, 0], 3),
            ([-8, 0, 0, 0], SIGNED),
        ] {
            assert!(format(bits, kind).of_driver().is_err(), "{bits:?} {kind}");
        }
    }

    #[test]
    fn bytes_go_on_in_the_next_row() {
        let spot = Spot {
            array: 1,
            x: 6,
            y: 2,
        };
        let parts: Vec<_> = pieces(spot, 10, 29)
            .expect("inside")
            .into_iter()
            .map(|(at, before, width, height)| (at.x, at.y, before, width, height))
            .collect();
        assert_eq!(parts, [(6, 2, 0, 4, 1), (0, 3, 4, 10, 2), (0, 5, 24, 5, 1)]);
        assert!(pieces(spot, 6, 1).is_err() && pieces(spot, 0, 1).is_err());
    }
}
