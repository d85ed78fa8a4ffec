//! Copies of one dimension, and how every copy is executed: as rows of bytes.
//!
//! Where an address stands says how it is copied: pinned memory directly, in pieces and without waiting; other host
//! memory through the staging memory. An asynchronous copy from such memory returns as soon as the last byte is staged;
//! one to it waits for its end all the same, as NVIDIA documents for pageable memory. A synchronous copy that has an
//! end in host memory returns when it has ended, which is more than NVIDIA promises and what programs count on.

use super::CUdeviceptr;
use super::boxes::CUDA_MEMCPY3D;
use super::map::{Memory, PinnedRange, Range};
use crate::api::driver_api;
use crate::border;
use crate::context::CUcontext;
use crate::context::Context;
use crate::driver::Driver;
use crate::graph::capture;
use crate::graph::work::copy::CopyMemory;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, Stream, usable_stream};
use gridmux_tenant::{ClientError, Mark, Pinned};
use std::ffi::c_void;
use std::sync::Arc;

driver_api! {
    needs Init;
    4000 cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) | cuMemcpy_ptds => at_once::<false, false>;
    4000 cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        | cuMemcpyAsync_ptsz => in_order::<false, false>;
    4000 cuMemcpyPeer(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize,
    ) | cuMemcpyPeer_ptds => peer;
    4000 cuMemcpyPeerAsync(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize,
        stream: CUstream,
    ) | cuMemcpyPeerAsync_ptsz => peer_async;
    3020 cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize)
        | cuMemcpyHtoD_v2_ptds => at_once::<true, false>;
    3020 cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize)
        | cuMemcpyDtoH_v2_ptds => at_once::<false, true>;
    3020 cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize)
        | cuMemcpyDtoD_v2_ptds => at_once::<true, true>;
    3020 cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream)
        | cuMemcpyHtoDAsync_v2_ptsz => in_order::<true, false>;
    3020 cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream)
        | cuMemcpyDtoHAsync_v2_ptsz => in_order::<false, true>;
    3020 cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
        | cuMemcpyDtoDAsync_v2_ptsz => in_order::<true, true>;
}

/// The location of one end of a copy.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// In device memory, which is held until the copy is submitted, should another thread give it back.
    Device(u64, Arc<Range>),
    /// In pinned memory, that far from its beginning.
    Pinned(Arc<Range>, u64),
    /// In host memory that the device does not reach.
    Pageable(u64),
}

impl Location {
    /// Finds out where `len` bytes at an address stand. What is in no range that is known is the program's own memory.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: null, nowhere in the process, beyond the end of an allocation or of the address
    /// space, or more bytes than a process can have.
    pub(super) fn of(driver: &Driver, address: u64, len: u64) -> CudaResult<Self> {
        if address == 0 || isize::try_from(len).is_err() {
            return Err(Status::INVALID_VALUE);
        }
        let Some(range) = driver.memory.span(address, len)? else {
            // Device memory that was given back, or that is another's, looks like the program's own.
            return Self::pageable(address, len);
        };
        match range.memory {
            Memory::Pinned(..) => {
                let offset = range.offset(address);
                Ok(Self::Pinned(range, offset))
            }
            // The program may have unmapped what it registered.
            Memory::Registered(_) => Self::pageable(address, len),
            _ => Ok(Self::Device(address, range)),
        }
    }

    /// Takes `len` bytes at an address as the program's own memory.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: nothing is mapped where they begin or where they end.
    fn pageable(address: u64, len: u64) -> CudaResult<Self> {
        match border::has_ends(address, len) {
            true => Ok(Self::Pageable(address)),
            false => Err(Status::INVALID_VALUE),
        }
    }

    /// Returns the place unless the program's memory begins with a page that cannot be written.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`].
    fn writable(self) -> CudaResult<Self> {
        match self {
            Self::Pageable(address) if !border::is_writable(address) => Err(Status::INVALID_VALUE),
            place => Ok(place),
        }
    }

    /// Returns whether it is the device's.
    pub(super) fn is_device(&self) -> bool {
        matches!(self, Self::Device(..))
    }

    /// Returns whether it stands at a device address.
    fn is_reached(&self) -> bool {
        match self {
            Self::Device(..) => true,
            Self::Pinned(range, _) => range.memory.is_reached(),
            Self::Pageable(_) => false,
        }
    }

    /// Returns whether the program sees what is written to it without a copy.
    fn is_seen(&self) -> bool {
        match self {
            Self::Device(_, range) | Self::Pinned(range, _) => range.memory.is_seen(),
            Self::Pageable(_) => true,
        }
    }

    /// Returns its address in this process.
    fn host_address(&self) -> u64 {
        match self {
            Self::Device(address, _) | Self::Pageable(address) => *address,
            Self::Pinned(range, offset) => range.start + offset,
        }
    }
}

/// A number of repetitions, and the distance between two of them.
#[derive(Debug, Clone, Copy)]
pub struct Repeat {
    /// The number of repetitions.
    pub count: usize,
    /// Bytes from one to the next at the target.
    pub to_step: u64,
    /// Bytes from one to the next at the source.
    pub from_step: u64,
}

impl Repeat {
    const ONCE: Self = Self {
        count: 1,
        to_step: 0,
        from_step: 0,
    };
}

/// The bytes of a copy: rows of `len` bytes, repeated to planes, which are repeated. Nothing is empty.
#[derive(Debug, Clone, Copy)]
pub struct Pattern {
    /// Bytes of a row.
    pub len: usize,
    /// Rows of a plane.
    pub rows: Repeat,
    /// Planes.
    pub planes: Repeat,
}

impl Pattern {
    fn one(len: usize) -> Self {
        Self {
            len,
            rows: Repeat::ONCE,
            planes: Repeat::ONCE,
        }
    }

    /// Returns the bytes from the first to the last, both included, at the end whose step `step` picks.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: more than addresses reach.
    pub fn span(&self, step: impl Fn(&Repeat) -> u64) -> CudaResult<u64> {
        let reach = |repeat: &Repeat| step(repeat).checked_mul(repeat.count as u64 - 1);
        let rows = reach(&self.rows).and_then(|rows| rows.checked_add(self.len as u64));
        let sum = reach(&self.planes).and_then(|planes| planes.checked_add(rows?));
        sum.ok_or(Status::INVALID_VALUE)
    }

    /// Takes rows without gaps together, and planes likewise; the spans must have been found.
    #[must_use]
    pub fn joined(mut self) -> Self {
        let is_dense = |repeat: &Repeat, len: usize| {
            repeat.count == 1 || (repeat.to_step == len as u64 && repeat.from_step == len as u64)
        };
        if is_dense(&self.rows, self.len) {
            self.len *= self.rows.count;
            self.rows = self.planes;
            self.planes = Repeat::ONCE;
            if is_dense(&self.rows, self.len) {
                self.len *= self.rows.count;
                self.rows = Repeat::ONCE;
            }
        }
        self
    }

    /// Returns where each row begins, from the target's and the source's first byte.
    pub fn rows(self) -> impl Iterator<Item = (u64, u64)> {
        let Self { rows, planes, .. } = self;
        (0..planes.count as u64).flat_map(move |plane| {
            (0..rows.count as u64).map(move |row| {
                (
                    plane * planes.to_step + row * rows.to_step,
                    plane * planes.from_step + row * rows.from_step,
                )
            })
        })
    }
}

/// How a copy of a graph is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// By the device alone.
    Direct,
    /// From memory of the host that it does not reach.
    FromHost,
    /// To such memory.
    ToHost,
    /// By the host alone.
    OnHost,
}

/// Rows of bytes in memory of the host; numbers alone, so that whoever copies them holds nothing.
#[derive(Debug, Clone)]
pub struct HostRows {
    /// The address of each row.
    rows: Vec<u64>,
    /// Bytes of a row.
    len: usize,
}

impl HostRows {
    /// Copies the rows to others of the same form.
    pub fn copy_to(&self, to: &Self) {
        for (from, to) in self.rows.iter().zip(&to.rows) {
            copy_on_host(*to, *from, self.len);
        }
    }
}

/// A copy that was checked.
#[derive(Debug)]
pub struct Transfer {
    to: Location,
    from: Location,
    pattern: Pattern,
}

impl Transfer {
    /// Checks a copy of `len` bytes.
    pub(super) fn new(driver: &Driver, to: u64, from: u64, len: usize) -> CudaResult<Self> {
        Self::of_rows(driver, to, from, Pattern::one(len))
    }

    /// Checks a copy of rows.
    pub(super) fn of_rows(
        driver: &Driver,
        to: u64,
        from: u64,
        pattern: Pattern,
    ) -> CudaResult<Self> {
        Ok(Self {
            to: Location::of(driver, to, pattern.span(|repeat| repeat.to_step)?)?.writable()?,
            from: Location::of(driver, from, pattern.span(|repeat| repeat.from_step)?)?,
            pattern: pattern.joined(),
        })
    }

    /// Refuses a copy that has an end in host memory where the function says that it is the device's.
    pub(super) fn check_ends(&self, ends: OnDevice) -> CudaResult {
        if ends.to && !self.to.is_reached() || ends.from && !self.from.is_reached() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(())
    }

    /// Returns whether the end that is written is the device's, and whether that is which is read.
    pub(super) fn are_devices(&self) -> (bool, bool) {
        (self.to.is_device(), self.from.is_device())
    }

    /// Returns whether it reads memory of the host that the device reaches, at a time of its own.
    pub(super) fn reads_pinned(&self) -> bool {
        matches!(self.from, Location::Pinned(..)) || self.from.is_device() && self.from.is_seen()
    }

    /// Returns how a graph executes it.
    #[must_use]
    pub fn route(&self) -> Route {
        match (&self.to, &self.from) {
            (Location::Device(..), Location::Pageable(_)) => Route::FromHost,
            (Location::Pageable(_), Location::Device(..)) => Route::ToHost,
            (Location::Device(..), _) | (_, Location::Device(..)) => Route::Direct,
            _ => Route::OnHost,
        }
    }

    /// Returns how many bytes it copies.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: more than a process can have.
    pub fn bytes(&self) -> CudaResult<u64> {
        let rows = self
            .pattern
            .rows
            .count
            .checked_mul(self.pattern.planes.count);
        let bytes = rows.and_then(|rows| rows.checked_mul(self.pattern.len));
        bytes.map(|bytes| bytes as u64).ok_or(Status::INVALID_VALUE)
    }

    fn host_rows(&self, of: impl Fn((u64, u64)) -> u64) -> HostRows {
        HostRows {
            rows: self.pattern.rows().map(of).collect(),
            len: self.pattern.len,
        }
    }

    /// Returns the rows in memory of the host that it writes.
    #[must_use]
    pub fn to_rows(&self) -> HostRows {
        let start = self.to.host_address();
        self.host_rows(|(to, _)| start + to)
    }

    /// Returns the rows in memory of the host that it reads.
    #[must_use]
    pub fn from_rows(&self) -> HostRows {
        let start = self.from.host_address();
        self.host_rows(|(_, from)| start + from)
    }

    /// Returns its rows one behind the other in memory that is between host and device.
    #[must_use]
    pub fn dense_rows(&self, staging: &Pinned) -> HostRows {
        let start = staging.as_ptr().expose_provenance() as u64;
        let mut rows = self.host_rows(|_| 0);
        for (index, row) in (0..).zip(&mut rows.rows) {
            *row = start + index * self.pattern.len as u64;
        }
        rows
    }

    /// Submits a copy that the device executes alone.
    ///
    /// # Errors
    /// The device was lost.
    pub fn submit_rows(&self, lane: &gridmux_tenant::Stream) -> Result<Option<Mark>, ClientError> {
        let mut last = None;
        for (to, from) in self.pattern.rows() {
            last = self.submit_row(lane, to, from)?.or(last);
        }
        Ok(last)
    }

    /// Submits the copy of rows that stand one behind the other in `staging` to the device.
    ///
    /// # Errors
    /// The device was lost.
    pub fn submit_from(
        &self,
        lane: &gridmux_tenant::Stream,
        staging: &Pinned,
    ) -> Result<Option<Mark>, ClientError> {
        let (to, len) = (self.to.host_address(), self.pattern.len as u64);
        let mut last = None;
        for (index, (offset, _)) in (0..).zip(self.pattern.rows()) {
            last = Some(lane.copy_from_pinned(staging, index * len, to + offset, len)?);
        }
        Ok(last)
    }

    /// Submits the copy of its rows from the device to `staging`, where they stand one behind the other.
    ///
    /// # Errors
    /// The device was lost.
    pub fn submit_to(
        &self,
        lane: &gridmux_tenant::Stream,
        staging: &Pinned,
    ) -> Result<Option<Mark>, ClientError> {
        let (from, len) = (self.from.host_address(), self.pattern.len as u64);
        let mut last = None;
        for (index, (_, offset)) in (0..).zip(self.pattern.rows()) {
            last = Some(lane.copy_to_pinned(from + offset, staging, index * len, len)?);
        }
        Ok(last)
    }

    /// Submits it, and waits for it if `wait` or if it must.
    pub(super) fn submit(
        &self,
        driver: &'static Driver,
        stream: &Stream,
        wait: bool,
    ) -> Result<(), ClientError> {
        if !self.to.is_device() && !self.from.is_device() {
            stream.finish(driver)?;
            let (to, from) = (self.to.host_address(), self.from.host_address());
            for (to_offset, from_offset) in self.pattern.rows() {
                copy_on_host(to + to_offset, from + from_offset, self.pattern.len);
            }
            return Ok(());
        }
        stream.submit(driver, |lane| self.submit_rows(lane))?;
        // Between places of the device even the synchronous copy returns at once, as documented.
        let waits = wait && (self.to.is_seen() || self.from.is_seen());
        if waits { stream.finish(driver) } else { Ok(()) }
    }

    /// Submits the row that begins that far from each end's first byte. What was copied out of the staging memory has
    /// ended and has no mark.
    fn submit_row(
        &self,
        lane: &gridmux_tenant::Stream,
        to_offset: u64,
        from_offset: u64,
    ) -> Result<Option<Mark>, ClientError> {
        let len = self.pattern.len as u64;
        let mark = match (&self.to, &self.from) {
            (Location::Device(to, _), Location::Device(from, _)) => {
                lane.copy_between(from + from_offset, to + to_offset, len)?
            }
            (Location::Device(to, _), Location::Pinned(range, offset)) => {
                let Memory::Pinned(PinnedRange { memory: pinned, .. }) = &range.memory else {
                    return Ok(None);
                };
                lane.copy_from_pinned(pinned, offset + from_offset, to + to_offset, len)?
            }
            (Location::Pinned(range, offset), Location::Device(from, _)) => {
                let Memory::Pinned(PinnedRange { memory: pinned, .. }) = &range.memory else {
                    return Ok(None);
                };
                lane.copy_to_pinned(from + from_offset, pinned, offset + to_offset, len)?
            }
            (Location::Device(to, _), Location::Pageable(from)) => {
                let from = border::pointer(from + from_offset).cast_const();
                // SAFETY: `Location::of` found the address not null and the bytes no more than a slice has. The program
                // passes memory that it may read and lets alone until the function returns, as the C declaration asks.
                let data = unsafe { std::slice::from_raw_parts(from, self.pattern.len) };
                lane.copy_to_address(to + to_offset, data)?
            }
            (Location::Pageable(to), Location::Device(from, _)) => {
                let to = border::pointer(to + to_offset);
                // SAFETY: as above; the memory is to be written, and used by no other thread until the function
                // returns.
                let out = unsafe { std::slice::from_raw_parts_mut(to, self.pattern.len) };
                lane.copy_from_address(from + from_offset, out)?;
                return Ok(None);
            }
            // Copies on the host are not submitted.
            (
                Location::Pinned(..) | Location::Pageable(_),
                Location::Pinned(..) | Location::Pageable(_),
            ) => {
                return Ok(None);
            }
        };
        Ok(Some(mark))
    }
}

fn copy_on_host(to: u64, from: u64, len: usize) {
    let (to, from) = (border::pointer(to), border::pointer(from).cast_const());
    // SAFETY: `Location::of` found both in this process. The program passes memory that it may read and write and lets
    // alone until the function returns, as the C declaration asks; `copy` allows overlap.
    unsafe { std::ptr::copy(from, to, len) };
}

/// Which ends of a copy a function says are the device's. The other ends may be anywhere, because host and device share
/// one space of addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnDevice {
    pub(super) to: bool,
    pub(super) from: bool,
}

#[allow(
    clippy::too_many_arguments,
    reason = "the parameters of the copies of the API, together"
)]
fn copy(
    ends: OnDevice,
    to: u64,
    from: u64,
    bytes: usize,
    default: DefaultStream,
    stream: CUstream,
    wait: bool,
) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let copy = Transfer::new(driver, to, from, bytes)?;
    copy.check_ends(ends)?;
    let (to_device, from_device) = copy.are_devices();
    let node = || CUDA_MEMCPY3D::line((from, from_device), (to, to_device), bytes);
    if is_captured(&context, &stream, wait, node)? {
        return Ok(());
    }
    run(driver, &context, &stream, &copy, wait)
}

/// Adds a copy to the capture of its stream; false if there is none. One that the program waits for cannot be.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: the program would wait; as [`capture::of`].
pub(super) fn is_captured(
    context: &Context,
    stream: &Stream,
    wait: bool,
    copy: impl FnOnce() -> CUDA_MEMCPY3D,
) -> CudaResult<bool> {
    if wait {
        return capture::check_wait(stream).map(|()| false);
    }
    let Some(captured) = capture::of(stream)? else {
        return Ok(false);
    };
    captured.add(CopyMemory::new(copy(), context.handle())?)?;
    Ok(true)
}

/// Submits a copy; a fault that it meets is the context's.
pub(super) fn run(
    driver: &'static Driver,
    context: &Context,
    stream: &Stream,
    copy: &Transfer,
    wait: bool,
) -> CudaResult {
    copy.submit(driver, stream, wait)
        .map_err(|error| context.fail(&error))?;
    if !wait {
        return Ok(());
    }
    driver.write_printed();
    context.check(driver)
}

/// Copies before it returns. `TO` and `FROM` say which ends are the device's; the others may be anywhere.
fn at_once<const TO: bool, const FROM: bool>(
    default: DefaultStream,
    to: u64,
    from: u64,
    bytes: usize,
) -> CudaResult {
    let ends = OnDevice { to: TO, from: FROM };
    copy(ends, to, from, bytes, default, CUstream::NULL, true)
}

/// Copies in the order of a stream; the ends are as in [`at_once`].
fn in_order<const TO: bool, const FROM: bool>(
    default: DefaultStream,
    to: u64,
    from: u64,
    bytes: usize,
    stream: CUstream,
) -> CudaResult {
    let ends = OnDevice { to: TO, from: FROM };
    copy(ends, to, from, bytes, default, stream, false)
}

/// Copies between contexts. There is one device, so the peer is the device itself.
fn peer(
    default: DefaultStream,
    to: CUdeviceptr,
    _: Arc<Context>,
    from: CUdeviceptr,
    _: Arc<Context>,
    bytes: usize,
) -> CudaResult {
    at_once::<true, true>(default, to, from, bytes)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn peer_async(
    default: DefaultStream,
    to: CUdeviceptr,
    _: Arc<Context>,
    from: CUdeviceptr,
    _: Arc<Context>,
    bytes: usize,
    stream: CUstream,
) -> CudaResult {
    in_order::<true, true>(default, to, from, bytes, stream)
}
