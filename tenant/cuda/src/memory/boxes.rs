//! Copies of two and three dimensions, between places in memory that are rows a pitch apart, and arrays.
//!
//! An array is device memory whose pitch it knows itself, so that a copy that names one becomes a copy of rows.

use super::CUdeviceptr;
use super::copy::{self, OnDevice, Pattern, Repeat, Transfer};
use crate::api::driver_api;
use crate::attribute::memory_type::{ARRAY, DEVICE, HOST, UNIFIED};
use crate::border::{self, In};
use crate::context::current::usable;
use crate::device::attributes::MOST_PITCH;
use crate::driver::Driver;
use crate::memory::array::{Array, CUarray};
use crate::registry::Object;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use std::ffi::{c_uint, c_void};

driver_api! {
    needs Init;
    3020 cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D) | cuMemcpy2D_v2_ptds => planar;
    3020 cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D) | cuMemcpy2DUnaligned_v2_ptds => planar_of_any_pitch;
    3020 cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream)
        | cuMemcpy2DAsync_v2_ptsz => planar_async;
    3020 cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D) | cuMemcpy3D_v2_ptds => spatial;
    3020 cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream)
        | cuMemcpy3DAsync_v2_ptsz => spatial_async;
}

/// One end of a copy of two dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct PlanarEnd {
    x_bytes: usize,
    y: usize,
    kind: c_uint,
    host: *const c_void,
    device: CUdeviceptr,
    array: *const c_void,
    pitch: usize,
}

/// A copy of two dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY2D {
    from: PlanarEnd,
    to: PlanarEnd,
    width_bytes: usize,
    height: usize,
}

/// One end of a copy of three dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct SpatialEnd {
    x_bytes: usize,
    y: usize,
    z: usize,
    /// The level of a mipmapped array.
    level: usize,
    kind: c_uint,
    host: *const c_void,
    device: CUdeviceptr,
    array: *const c_void,
    reserved: *const c_void,
    pitch: usize,
    /// Rows from one plane to the next.
    height: usize,
}

/// A copy of three dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY3D {
    from: SpatialEnd,
    to: SpatialEnd,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

const _: () = assert!(size_of::<CUDA_MEMCPY2D>() == 128 && size_of::<CUDA_MEMCPY3D>() == 200);

impl From<PlanarEnd> for SpatialEnd {
    fn from(end: PlanarEnd) -> Self {
        Self {
            x_bytes: end.x_bytes,
            y: end.y,
            z: 0,
            level: 0,
            kind: end.kind,
            host: end.host,
            device: end.device,
            array: end.array,
            reserved: std::ptr::null(),
            pitch: end.pitch,
            height: 0,
        }
    }
}

impl From<CUDA_MEMCPY2D> for CUDA_MEMCPY3D {
    fn from(copy: CUDA_MEMCPY2D) -> Self {
        Self {
            from: copy.from.into(),
            to: copy.to.into(),
            width_bytes: copy.width_bytes,
            height: copy.height,
            depth: 1,
        }
    }
}

/// An end as it is copied: the address of its first byte, and the bytes from row to row and from plane to plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    start: u64,
    row: u64,
    plane: u64,
}

/// A copy as it is executed.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The address of the first byte that is written.
    pub to: u64,
    /// The address of the first byte that is read.
    pub from: u64,
    /// The pattern of bytes from there on.
    pub pattern: Pattern,
    /// The ends that must be the device's.
    ends: OnDevice,
}

impl SpatialEnd {
    /// Lays out an end of a copy that has `size` bytes, rows and planes.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: an array; [`Status::INVALID_VALUE`]: an unknown kind, a row or a plane that
    /// overlaps the next, or addresses beyond the end of all.
    fn grid(&self, size: [usize; 3]) -> CudaResult<Grid> {
        let base = match self.kind {
            HOST => self.host.expose_provenance() as u64,
            DEVICE | UNIFIED => self.device,
            ARRAY => return Err(Status::NOT_SUPPORTED),
            _ => return Err(Status::INVALID_VALUE),
        };
        if base == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let [width, height, depth] = size;
        let overlaps = |step: usize, first: usize, len: usize| {
            first.checked_add(len).is_none_or(|end| step < end)
        };
        // What is never stepped over may be left out.
        if (height > 1 || depth > 1 || self.pitch != 0) && overlaps(self.pitch, self.x_bytes, width)
            || (depth > 1 || self.height != 0) && overlaps(self.height, self.y, height)
        {
            return Err(Status::INVALID_VALUE);
        }
        let grid = || {
            let plane = self.pitch.checked_mul(self.height)?;
            let skipped = self.z.checked_mul(plane)?;
            let skipped = skipped.checked_add(self.y.checked_mul(self.pitch)?)?;
            let skipped = skipped.checked_add(self.x_bytes)? as u64;
            Some(Grid {
                start: base.checked_add(skipped)?,
                row: self.pitch as u64,
                plane: plane as u64,
            })
        };
        grid().ok_or(Status::INVALID_VALUE)
    }
}

impl SpatialEnd {
    /// Makes the end of a copy of one row.
    fn of_line(address: u64, is_device: bool, len: usize) -> Self {
        let host = border::pointer(address).cast_const().cast();
        Self {
            x_bytes: 0,
            y: 0,
            z: 0,
            level: 0,
            kind: if is_device { DEVICE } else { HOST },
            host: if is_device { std::ptr::null() } else { host },
            device: if is_device { address } else { 0 },
            array: std::ptr::null(),
            reserved: std::ptr::null(),
            pitch: len,
            height: 1,
        }
    }

    /// Makes the end of a copy of one row in an array.
    fn of_array(array: CUarray, x_bytes: usize) -> Self {
        Self {
            x_bytes,
            kind: ARRAY,
            array: border::pointer(array.bits()).cast_const().cast(),
            ..Self::of_line(0, true, 0)
        }
    }

    /// Puts an array's memory in the place of the array, of which `size` bytes, rows and planes are copied.
    ///
    /// # Errors
    /// [`Status::INVALID_HANDLE`]: there is no such array; [`Status::INVALID_VALUE`]: they go beyond its end.
    fn in_memory(mut self, driver: &Driver, size: [usize; 3]) -> CudaResult<Self> {
        if self.kind != ARRAY {
            return Ok(self);
        }
        let array = Array::find(driver, CUarray::from_bits(self.array.addr() as u64))?;
        let layout = array.layout();
        let width = usize::try_from(layout.width_bytes()).unwrap_or(usize::MAX);
        let firsts = [self.x_bytes, self.y, self.z];
        let ends = [width, layout.rows(), layout.planes()];
        let mut axes = firsts.into_iter().zip(size).zip(ends);
        let fits = axes
            .all(|((first, size), end)| first.checked_add(size).is_some_and(|last| last <= end));
        if !fits {
            return Err(Status::INVALID_VALUE);
        }
        self.kind = DEVICE;
        self.device = array.address();
        self.pitch = usize::try_from(array.row_bytes()).unwrap_or(usize::MAX);
        self.height = layout.rows();
        Ok(self)
    }
}

impl CUDA_MEMCPY3D {
    /// Makes the copy of one row, between addresses that are the device's or not.
    #[must_use]
    pub fn line(from: (u64, bool), to: (u64, bool), len: usize) -> Self {
        Self {
            from: SpatialEnd::of_line(from.0, from.1, len),
            to: SpatialEnd::of_line(to.0, to.1, len),
            width_bytes: len,
            height: 1,
            depth: 1,
        }
    }

    /// Puts an array in the place of the end that is written, from a byte of its one row on.
    #[must_use]
    pub(super) fn into_array(mut self, array: CUarray, x_bytes: usize) -> Self {
        self.to = SpatialEnd::of_array(array, x_bytes);
        self
    }

    /// Puts an array in the place of the end that is read, from a byte of its one row on.
    #[must_use]
    pub(super) fn out_of_array(mut self, array: CUarray, x_bytes: usize) -> Self {
        self.from = SpatialEnd::of_array(array, x_bytes);
        self
    }

    /// Returns the kinds of memory of its ends, that of the source first.
    #[must_use]
    pub fn kinds(&self) -> (c_uint, c_uint) {
        (self.from.kind, self.to.kind)
    }

    /// Returns the bytes of a row, the rows and the planes.
    #[must_use]
    pub fn size(&self) -> [usize; 3] {
        [self.width_bytes, self.height, self.depth]
    }

    /// Returns whether it copies one row.
    #[must_use]
    pub fn is_line(&self) -> bool {
        self.height == 1 && self.depth == 1
    }

    /// Returns whether another copies as many bytes, rows and planes, as far from each other.
    #[must_use]
    pub fn has_form_of(&self, other: &Self) -> bool {
        let steps = |copy: &Self| {
            let [from, to] = [&copy.from, &copy.to].map(|end| (end.pitch, end.height));
            (from, to)
        };
        self.size() == other.size() && steps(self) == steps(other)
    }

    /// Returns the copy with the memory of its arrays.
    fn in_memory(mut self, driver: &Driver) -> CudaResult<Self> {
        let size = [self.width_bytes, self.height, self.depth];
        self.from = self.from.in_memory(driver, size)?;
        self.to = self.to.in_memory(driver, size)?;
        Ok(self)
    }

    /// Checks it and finds its memory; nothing if it copies nothing.
    ///
    /// # Errors
    /// As [`CUDA_MEMCPY3D::layout`]; [`Status::INVALID_VALUE`]: an end is not where it says, or nowhere, or goes beyond
    /// the end of an array; [`Status::INVALID_HANDLE`]: there is no such array.
    pub fn transfer(&self, driver: &Driver) -> CudaResult<Option<Transfer>> {
        let Some(layout) = self.in_memory(driver)?.layout()? else {
            return Ok(None);
        };
        let transfer = Transfer::of_rows(driver, layout.to, layout.from, layout.pattern)?;
        transfer.check_ends(layout.ends)?;
        Ok(Some(transfer))
    }

    /// Lays the copy out, whose ends are in memory; nothing if it copies nothing.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: an array; [`Status::INVALID_VALUE`]: a level of one, an unknown kind of memory, a row
    /// or a plane that overlaps the next, or addresses beyond the end of all.
    pub fn layout(&self) -> CudaResult<Option<Layout>> {
        let size = [self.width_bytes, self.height, self.depth];
        if self.from.level != 0 || self.to.level != 0 {
            return Err(Status::INVALID_VALUE);
        }
        if size.contains(&0) {
            return Ok(None);
        }
        let (to, from) = (self.to.grid(size)?, self.from.grid(size)?);
        let pattern = Pattern {
            len: self.width_bytes,
            rows: Repeat {
                count: self.height,
                to_step: to.row,
                from_step: from.row,
            },
            planes: Repeat {
                count: self.depth,
                to_step: to.plane,
                from_step: from.plane,
            },
        };
        let ends = OnDevice {
            to: self.to.kind == DEVICE,
            from: self.from.kind == DEVICE,
        };
        Ok(Some(Layout {
            to: to.start,
            from: from.start,
            pattern,
            ends,
        }))
    }
}

/// Copies with pitches of which the device has an attribute that says how long they may be.
fn run(copy: &CUDA_MEMCPY3D, default: DefaultStream, stream: CUstream, wait: bool) -> CudaResult {
    // That of an array is its own.
    let is_too_long = |end: &SpatialEnd| end.kind != ARRAY && end.pitch as u64 > MOST_PITCH;
    if is_too_long(&copy.from) || is_too_long(&copy.to) {
        usable()?;
        return Err(Status::INVALID_VALUE);
    }
    run_any(copy, default, stream, wait)
}

fn run_any(
    copy: &CUDA_MEMCPY3D,
    default: DefaultStream,
    stream: CUstream,
    wait: bool,
) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    let Some(transfer) = copy.transfer(driver)? else {
        return Ok(());
    };
    if copy::is_captured(&context, &stream, wait, || *copy)? {
        return Ok(());
    }
    copy::run(driver, &context, &stream, &transfer, wait)
}

fn planar(default: DefaultStream, In(copy): In<CUDA_MEMCPY2D>) -> CudaResult {
    run(&copy.into(), default, CUstream::NULL, true)
}

fn planar_of_any_pitch(default: DefaultStream, In(copy): In<CUDA_MEMCPY2D>) -> CudaResult {
    run_any(&copy.into(), default, CUstream::NULL, true)
}

fn planar_async(
    default: DefaultStream,
    In(copy): In<CUDA_MEMCPY2D>,
    stream: CUstream,
) -> CudaResult {
    run(&copy.into(), default, stream, false)
}

fn spatial(default: DefaultStream, In(copy): In<CUDA_MEMCPY3D>) -> CudaResult {
    run(&copy, default, CUstream::NULL, true)
}

fn spatial_async(
    default: DefaultStream,
    In(copy): In<CUDA_MEMCPY3D>,
    stream: CUstream,
) -> CudaResult {
    run(&copy, default, stream, false)
}

#[cfg(test)]
mod tests {
    use super::{ARRAY, DEVICE, Grid, SpatialEnd};
    use crate::status::Status;

    fn end() -> SpatialEnd {
        SpatialEnd {
            x_bytes: 3,
            y: 2,
            z: 1,
            level: 0,
            kind: DEVICE,
            host: std::ptr::null(),
            device: 1000,
            array: std::ptr::null(),
            reserved: std::ptr::null(),
            pitch: 16,
            height: 8,
        }
    }

    #[test]
    fn an_end_begins_behind_the_planes_rows_and_bytes_that_it_skips() {
        let grid = Grid {
            start: 1000 + 8 * 16 + 2 * 16 + 3,
            row: 16,
            plane: 128,
        };
        assert_eq!(end().grid([13, 6, 4]), Ok(grid));
        let refused = Err(Status::INVALID_VALUE);
        assert_eq!(end().grid([14, 1, 1]), refused, "a row overlaps the next");
        assert_eq!(end().grid([13, 7, 2]), refused, "a plane overlaps the next");
        assert_eq!(end().grid([usize::MAX, 1, 1]), refused);
        let far = SpatialEnd {
            z: usize::MAX,
            ..end()
        };
        assert_eq!(far.grid([1, 1, 1]), refused);
        let null = SpatialEnd { device: 0, ..end() };
        assert_eq!(null.grid([1, 1, 1]), refused);
    }

    #[test]
    fn steps_that_are_not_taken_may_be_left_out() {
        let line = SpatialEnd {
            y: 0,
            z: 0,
            pitch: 0,
            height: 0,
            ..end()
        };
        assert_eq!(line.grid([100, 1, 1]).map(|grid| grid.start), Ok(1003));
        assert_eq!(line.grid([100, 2, 1]), Err(Status::INVALID_VALUE));
        assert_eq!(line.grid([100, 1, 2]), Err(Status::INVALID_VALUE));
        let array = SpatialEnd {
            kind: ARRAY,
            ..line
        };
        assert_eq!(array.grid([1, 1, 1]), Err(Status::NOT_SUPPORTED));
    }
}
