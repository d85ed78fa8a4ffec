//! The lanes as CUDA streams, one for each level, and a start and an end event for each lane, all made when the device
//! is opened.
//!
//! A stream's priority is given when it is made (CUDA driver API, cuStreamCreateWithPriority), so that a lane has one
//! for each level that the device distinguishes; it holds one operation at a time, in the stream of its level.
//!
//! Rules: nothing here blocks: work is enqueued and events are asked, never waited for. Only the dispatcher's thread
//! calls in here after the device was opened; the context becomes current there at the first call.

use super::clock::{Anchor, milliseconds};
use super::driver::{Context, CudaError, check, wrapped};
use super::flights::{Queues, Work};
use crate::device::{LANES, LaneId, Level, MOST_LEVELS};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags};
use gridmux_channel::ring::Width;
use gridmux_policy::units::Nanos;
use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

/// One hardware queue and its marks.
#[derive(Clone, Copy)]
struct StreamLane {
    /// By level; what the device does not distinguish repeats the highest.
    streams: [CUstream; MOST_LEVELS],
    start: CUevent,
    end: CUevent,
}

/// All lanes and the clock.
pub(super) struct StreamQueues {
    context: Context,
    is_bound: bool,
    opened: Instant,
    lanes: [StreamLane; LANES],
    levels: u8,
    anchor: Anchor,
    anchor_event: CUevent,
    /// The next anchor's event; free to be recorded while `asked` is `None`.
    next_event: CUevent,
    /// When the next anchor was recorded, while its end has not been seen.
    asked: Option<Nanos>,
}

// SAFETY: streams and events may be used on any thread whose context is current (CUDA driver API, "Stream Management",
// "Event Management"); `bind` makes it so.
unsafe impl Send for StreamQueues {}

/// Returns a stream of a priority that waits for no other.
pub(super) fn make_stream(priority: i32) -> Result<CUstream, CudaError> {
    let mut stream = ptr::null_mut();
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: `stream` lives through the call.
    check("cuStreamCreateWithPriority", unsafe {
        sys::cuStreamCreateWithPriority(&raw mut stream, flags, priority)
    })?;
    Ok(stream)
}

/// Returns the priorities of the levels, the lowest first: they go from 0 down.
fn priorities() -> Result<Vec<i32>, CudaError> {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: both live through the call.
    check("cuCtxGetStreamPriorityRange", unsafe {
        sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)
    })?;
    Ok((greatest..=least).rev().take(MOST_LEVELS).collect())
}

fn make_event() -> Result<CUevent, CudaError> {
    wrapped(
        "cuEventCreate",
        result::event::create(CUevent_flags::CU_EVENT_DEFAULT),
    )
}

impl StreamQueues {
    /// Makes the streams and events, and the first anchor.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(context: Context, opened: Instant) -> Result<Self, CudaError> {
        let priorities = priorities()?;
        let mut made = Vec::with_capacity(LANES);
        for _ in 0..LANES {
            let mut streams = [ptr::null_mut(); MOST_LEVELS];
            for (place, priority) in priorities.iter().enumerate() {
                streams[place..].fill(make_stream(*priority)?);
            }
            made.push(StreamLane {
                streams,
                start: make_event()?,
                end: make_event()?,
            });
        }
        let Ok(lanes) = <[StreamLane; LANES]>::try_from(made) else {
            unreachable!("as many were made as the array has");
        };
        let mut queues = Self {
            context,
            is_bound: false,
            opened,
            lanes,
            levels: u8::try_from(priorities.len()).unwrap_or(1).max(1),
            anchor: Anchor { at: Nanos(0) },
            anchor_event: make_event()?,
            next_event: make_event()?,
            asked: None,
        };
        queues.record(queues.anchor_event, queues.lanes[0].streams[0])?;
        // SAFETY: the event was made above. This is the only wait, before there is a tenant.
        wrapped("cuEventSynchronize", unsafe {
            result::event::synchronize(queues.anchor_event)
        })?;
        queues.anchor.at = queues.now();
        Ok(queues)
    }

    /// Returns how many levels the device distinguishes.
    pub(super) fn levels(&self) -> u8 {
        self.levels
    }

    /// Makes the context current on the dispatcher's thread, once.
    fn bind(&mut self) -> Result<(), CudaError> {
        if !self.is_bound {
            self.context.bind()?;
            self.is_bound = true;
        }
        Ok(())
    }

    fn record(&self, event: CUevent, stream: CUstream) -> Result<(), CudaError> {
        // SAFETY: both were made in `new` and live as long as the process.
        wrapped("cuEventRecord", unsafe {
            result::event::record(event, stream)
        })
    }

    /// Returns whether an event has happened.
    fn has_happened(&self, event: CUevent) -> Result<bool, CudaError> {
        // SAFETY: the event was made in `new` and lives as long as the process.
        match unsafe { sys::cuEventQuery(event) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    fn elapsed_ms(&self, from: CUevent, to: CUevent) -> Result<f32, CudaError> {
        // SAFETY: both events were made in `new`, with timing, and both have happened, as every caller has asked.
        wrapped("cuEventElapsedTime", unsafe {
            result::event::elapsed(from, to)
        })
    }

    /// Takes the next anchor over once it has happened.
    fn renew_anchor(&mut self) -> Result<(), CudaError> {
        if let Some(asked) = self.asked
            && self.has_happened(self.next_event)?
        {
            let elapsed = self.elapsed_ms(self.anchor_event, self.next_event)?;
            self.anchor = self.anchor.next(elapsed, asked, self.now());
            std::mem::swap(&mut self.anchor_event, &mut self.next_event);
            self.asked = None;
        }
        Ok(())
    }

    fn put(&self, stream: CUstream, work: &Work<'_>) -> Result<(), CudaError> {
        match *work {
            Work::Launch {
                function,
                grid,
                block,
                dynamic_shared_bytes,
                params,
                ..
            } => {
                let mut size = params.len();
                // CUDA driver API, cuLaunchKernel: pairs of a name and a value, then END.
                let mut extra = [
                    named(sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT),
                    params.as_ptr().cast_mut().cast::<c_void>(),
                    named(sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT),
                    (&raw mut size).cast::<c_void>(),
                    named(sys::CU_LAUNCH_PARAM_END_AS_INT),
                ];
                // SAFETY: the function's module is loaded, because the flight that is about to begin holds it; the
                // driver copies the parameters before it returns.
                check("cuLaunchKernel", unsafe {
                    sys::cuLaunchKernel(
                        function.0,
                        grid[0],
                        grid[1],
                        grid[2],
                        block[0],
                        block[1],
                        block[2],
                        dynamic_shared_bytes,
                        stream,
                        ptr::null_mut(),
                        extra.as_mut_ptr(),
                    )
                })
            }
            Work::ToDevice {
                address,
                host,
                bytes,
            } => {
                // SAFETY: the caller checked both ranges; the flight holds the host buffer until the copy has ended,
                // and the device range is backed as long as its tenant has anything in flight.
                check("cuMemcpyHtoDAsync", unsafe {
                    sys::cuMemcpyHtoDAsync_v2(address, host.cast::<c_void>(), size(bytes), stream)
                })
            }
            Work::FromDevice {
                address,
                host,
                bytes,
            } => {
                // SAFETY: as above, and the host mapping is writable.
                check("cuMemcpyDtoHAsync", unsafe {
                    sys::cuMemcpyDtoHAsync_v2(host.cast::<c_void>(), address, size(bytes), stream)
                })
            }
            Work::OnDevice { from, to, bytes } => {
                // SAFETY: the caller checked both ranges, which are backed as long as their tenant has anything in
                // flight.
                check("cuMemcpyDtoDAsync", unsafe {
                    sys::cuMemcpyDtoDAsync_v2(to, from, size(bytes), stream)
                })
            }
            Work::Fill {
                address,
                bytes,
                value,
                width,
            } => fill(stream, address, bytes, value, width),
        }
    }
}

impl Queues for StreamQueues {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn enqueue(&mut self, lane: LaneId, work: &Work<'_>) -> Result<(), CudaError> {
        self.bind()?;
        let StreamLane {
            streams,
            start,
            end,
        } = self.lanes[usize::from(lane.0)];
        let level = match work {
            Work::Launch { level, .. } => *level,
            _ => Level::LOWEST,
        };
        let stream = streams[usize::from(level.0).min(MOST_LEVELS - 1)];
        if self.asked.is_none() {
            let now = self.now();
            if self.anchor.is_old(now) {
                // The lane is empty, so the anchor happens at once.
                self.record(self.next_event, stream)?;
                self.asked = Some(now);
            }
        }
        self.record(start, stream)?;
        let is_empty = matches!(
            work,
            Work::ToDevice { bytes: 0, .. }
                | Work::FromDevice { bytes: 0, .. }
                | Work::OnDevice { bytes: 0, .. }
                | Work::Fill { bytes: 0, .. }
        );
        if !is_empty {
            self.put(stream, work)?;
        }
        self.record(end, stream)
    }

    fn started_at(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError> {
        self.bind()?;
        let start = self.lanes[usize::from(lane.0)].start;
        if !self.has_happened(start)? {
            return Ok(None);
        }
        self.renew_anchor()?;
        let elapsed = self.elapsed_ms(self.anchor_event, start)?;
        Ok(Some(self.anchor.time(elapsed, self.now())))
    }

    fn took(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError> {
        let StreamLane { start, end, .. } = self.lanes[usize::from(lane.0)];
        if !self.has_happened(end)? {
            return Ok(None);
        }
        self.elapsed_ms(start, end)
            .map(|elapsed| Some(milliseconds(elapsed)))
    }
}

/// Enqueues a fill of device memory with elements of one, two or four bytes.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the channel's codec has checked that the value fits the width"
)]
fn fill(
    stream: CUstream,
    address: u64,
    bytes: u64,
    value: u32,
    width: Width,
) -> Result<(), CudaError> {
    let count = size(bytes / u64::from(width.bytes()));
    // SAFETY: the caller of `put` checked the range, which is backed as long as its tenant has anything in flight; the
    // codec checked that it consists of aligned elements.
    unsafe {
        match width {
            Width::One => check(
                "cuMemsetD8Async",
                sys::cuMemsetD8Async(address, value as u8, count, stream),
            ),
            Width::Two => check(
                "cuMemsetD16Async",
                sys::cuMemsetD16Async(address, value as u16, count, stream),
            ),
            Width::Four => check(
                "cuMemsetD32Async",
                sys::cuMemsetD32Async(address, value, count, stream),
            ),
        }
    }
}

/// Returns a name in an `extra` list, which goes in place of a pointer.
fn named(name: u32) -> *mut c_void {
    ptr::without_provenance_mut(name as usize)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
