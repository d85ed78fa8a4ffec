//! Fills of device memory with one value.

use super::CUdeviceptr;
use super::map::Range;
use crate::api::driver_api;
use crate::border;
use crate::driver::Driver;
use crate::graph::capture;
use crate::graph::work::fill::{FillMemory, FillParams};
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use gridmux_tenant::{ClientError, Mark, Width};
use std::ffi::{c_uchar, c_uint, c_ushort};
use std::sync::Arc;

driver_api! {
    needs Init;
    3020 cuMemsetD8_v2(to: CUdeviceptr, value: c_uchar, count: usize) | cuMemsetD8_v2_ptds => bytes;
    3020 cuMemsetD16_v2(to: CUdeviceptr, value: c_ushort, count: usize) | cuMemsetD16_v2_ptds => halves;
    3020 cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize) | cuMemsetD32_v2_ptds => words;
    3020 cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream)
        | cuMemsetD8Async_ptsz => bytes_async;
    3020 cuMemsetD16Async(to: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream)
        | cuMemsetD16Async_ptsz => halves_async;
    3020 cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream)
        | cuMemsetD32Async_ptsz => words_async;
    3020 cuMemsetD2D8_v2(to: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize)
        | cuMemsetD2D8_v2_ptds => byte_rows;
    3020 cuMemsetD2D16_v2(to: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize)
        | cuMemsetD2D16_v2_ptds => half_rows;
    3020 cuMemsetD2D32_v2(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize)
        | cuMemsetD2D32_v2_ptds => word_rows;
    3020 cuMemsetD2D8Async(
        to: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream,
    ) | cuMemsetD2D8Async_ptsz => byte_rows_async;
    3020 cuMemsetD2D16Async(
        to: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream,
    ) | cuMemsetD2D16Async_ptsz => half_rows_async;
    3020 cuMemsetD2D32Async(
        to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream,
    ) | cuMemsetD2D32Async_ptsz => word_rows_async;
}

/// The target of a fill: rows of elements, a pitch apart.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// The address of the first.
    pub to: u64,
    /// Bytes from the start of a row to that of the next.
    pub pitch: usize,
    /// Elements of a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// A fill as it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The number of pieces.
    pub count: usize,
    /// Bytes of a piece.
    pub len: u64,
    /// Bytes from the first to the last.
    pub span: u64,
}

impl Rows {
    fn one(to: u64, count: usize) -> Self {
        Self {
            to,
            pitch: 0,
            width: count,
            height: 1,
        }
    }

    /// Lays out a fill with elements of `unit` bytes; nothing if there are none.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: unaligned elements, rows that overlap, or more bytes than addresses reach.
    pub fn layout(&self, unit: usize) -> CudaResult<Option<Layout>> {
        if self.width == 0 || self.height == 0 {
            return Ok(None);
        }
        let row = self.width.checked_mul(unit).ok_or(Status::INVALID_VALUE)?;
        let is_aligned = self.to.is_multiple_of(unit as u64)
            && (self.height == 1 || self.pitch.is_multiple_of(unit));
        if !is_aligned || self.height > 1 && self.pitch < row {
            return Err(Status::INVALID_VALUE);
        }
        let behind = self.pitch.checked_mul(self.height - 1);
        let span = behind.and_then(|behind| behind.checked_add(row));
        let span = span.ok_or(Status::INVALID_VALUE)? as u64;
        // Rows without gaps are one.
        let (count, len) = match self.pitch == row {
            true => (1, span),
            false => (self.height, row as u64),
        };
        Ok(Some(Layout { count, len, span }))
    }
}

/// A fill that was checked, of memory that was found.
#[derive(Debug)]
pub struct Fill {
    rows: Rows,
    layout: Layout,
    value: u32,
    width: Width,
    /// Held until the fill is submitted, should another thread give it back.
    held: Arc<Range>,
}

/// Rows in memory of the host to be filled; numbers alone, so that whoever does it holds nothing.
#[derive(Debug, Clone, Copy)]
pub struct HostFill {
    rows: Rows,
    layout: Layout,
    value: u32,
    width: Width,
}

impl Fill {
    /// Checks a fill of memory of the device, or of the host where the device reaches it.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: nothing to fill; as [`Rows::layout`]; there is no such memory.
    pub fn new(driver: &Driver, rows: Rows, value: u32, width: Width) -> CudaResult<Self> {
        let layout = rows.layout(width.bytes() as usize)?;
        let layout = layout.ok_or(Status::INVALID_VALUE)?;
        let held = driver.memory.span(rows.to, layout.span)?;
        let held = held.ok_or(Status::INVALID_VALUE)?;
        Ok(Self {
            rows,
            layout,
            value,
            width,
            held,
        })
    }

    /// Returns whether the device reaches the memory.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.held.memory.is_reached()
    }

    /// Submits a fill of memory that the device reaches.
    ///
    /// # Errors
    /// The device was lost.
    pub fn submit(&self, lane: &gridmux_tenant::Stream) -> Result<Option<Mark>, ClientError> {
        let mut mark = None;
        for index in 0..self.layout.count {
            let to = self.rows.to + (index * self.rows.pitch) as u64;
            mark = Some(lane.fill_address(to, self.layout.len, self.value, self.width)?);
        }
        Ok(mark)
    }

    /// Returns a fill of the host's memory.
    #[must_use]
    pub fn host_rows(&self) -> HostFill {
        HostFill {
            rows: self.rows,
            layout: self.layout,
            value: self.value,
            width: self.width,
        }
    }
}

impl HostFill {
    /// Does it.
    pub fn fill(&self) {
        let bytes = self.value.to_le_bytes();
        let element = &bytes[..self.width.bytes() as usize];
        let len = usize::try_from(self.layout.len).unwrap_or(0);
        for index in 0..self.layout.count {
            let to = border::pointer(self.rows.to + (index * self.rows.pitch) as u64);
            for (at, byte) in (0..len).zip(element.iter().cycle()) {
                // SAFETY: `Fill::new` found the memory in this process, pinned or registered; the program lets it be
                // until the graph was executed, and gives it back after that.
                unsafe { to.add(at).write(*byte) };
            }
        }
    }
}

/// Fills on a stream, or on the default one before it returns.
fn fill(
    rows: Rows,
    value: u32,
    width: Width,
    default: DefaultStream,
    stream: Option<CUstream>,
) -> CudaResult {
    let is_synchronous = stream.is_none();
    let (driver, context, stream) = usable_stream(default, stream.unwrap_or(CUstream::NULL))?;
    if rows.width == 0 || rows.height == 0 {
        return Ok(());
    }
    let fill = Fill::new(driver, rows, value, width)?;
    if !fill.is_reached() {
        return Err(Status::INVALID_VALUE);
    }
    if let Some(captured) = capture::of(&stream)? {
        let params = FillParams {
            to: rows.to,
            pitch: rows.pitch,
            value,
            element_bytes: width.bytes(),
            width: rows.width,
            height: rows.height,
        };
        let node = FillMemory::new(params, context.handle())?;
        return captured.add(node).map(drop);
    }
    stream.submit(driver, |lane| fill.submit(lane))?;
    // Of memory that the program sees the function returns when it is filled, as documented.
    if is_synchronous && fill.held.memory.is_seen() {
        stream
            .finish(driver)
            .map_err(|error| context.fail(&error))?;
    }
    Ok(())
}

macro_rules! fills {
    ($($value:ty, $width:ident: $line:ident $line_async:ident $rows:ident $rows_async:ident;)*) => {$(
        fn $line(default: DefaultStream, to: CUdeviceptr, value: $value, count: usize) -> CudaResult {
            fill(Rows::one(to, count), value.into(), Width::$width, default, None)
        }

        fn $line_async(
            default: DefaultStream,
            to: CUdeviceptr,
            value: $value,
            count: usize,
            stream: CUstream,
        ) -> CudaResult {
            fill(Rows::one(to, count), value.into(), Width::$width, default, Some(stream))
        }

        fn $rows(
            default: DefaultStream,
            to: CUdeviceptr,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
        ) -> CudaResult {
            let rows = Rows { to, pitch, width, height };
            fill(rows, value.into(), Width::$width, default, None)
        }

        fn $rows_async(
            default: DefaultStream,
            to: CUdeviceptr,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
            stream: CUstream,
        ) -> CudaResult {
            let rows = Rows { to, pitch, width, height };
            fill(rows, value.into(), Width::$width, default, Some(stream))
        }
    )*};
}

fills! {
    c_uchar, One: bytes bytes_async byte_rows byte_rows_async;
    c_ushort, Two: halves halves_async half_rows half_rows_async;
    c_uint, Four: words words_async word_rows word_rows_async;
}
