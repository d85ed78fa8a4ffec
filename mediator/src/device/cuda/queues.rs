//! The lanes as CUDA streams, one for each level, and a start and an end event for each of their slots, all made when
//! the device is opened.
//!
//! A stream's priority is given when it is made (CUDA driver API, cuStreamCreateWithPriority), so that a lane has one
//! for each level that the device distinguishes; what it holds at a time is all in the stream of its level. Events say
//! only whether they have happened: those that keep times cost several times as much.
//!
//! Rules: nothing here blocks: work is enqueued and events are asked, never waited for. Only the dispatcher's thread
//! calls in here after the device was opened; the context becomes current there at the first call.

use super::arguments::Arguments;
use super::driver::{Context, CudaError, EVENT_RECORD, check, wrapped};
use super::flights::{LaneSlot, Queues, Work};
use super::stamps::StampMemory;
use crate::device::{LANES, Level, MOST_DEPTH, MOST_LEVELS};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags};
use gridmux_channel::ring::Width;
use gridmux_launch::{StampRecord, Stamps};
use gridmux_policy::units::Nanos;
use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

/// One hardware queue and its marks.
#[derive(Clone, Copy)]
struct StreamLane {
    /// By level; what the device does not distinguish repeats the highest.
    streams: [CUstream; MOST_LEVELS],
    /// By slot.
    starts: [CUevent; MOST_DEPTH],
    ends: [CUevent; MOST_DEPTH],
}

/// All lanes and the clock.
pub(super) struct StreamQueues {
    context: Context,
    is_bound: bool,
    opened: Instant,
    lanes: [StreamLane; LANES],
    levels: u8,
    arguments: Arguments,
    stamps: StampMemory,
}

// SAFETY: streams and events may be used on any thread whose context is current (CUDA driver API, "Stream Management",
// "Event Management"); `bind` makes it so. The pointers of `arguments` are written anew before each use.
// Those of `stamps` are to memory that lives as long as the process, and of which only atomics are made.
unsafe impl Send for StreamQueues {}

/// Returns the device's time: that of the host since it was opened.
pub(super) fn since(opened: Instant) -> Nanos {
    Nanos(u64::try_from(opened.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

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
        result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING),
    )
}

fn make_events() -> Result<[CUevent; MOST_DEPTH], CudaError> {
    let mut events = [ptr::null_mut(); MOST_DEPTH];
    for event in &mut events {
        *event = make_event()?;
    }
    Ok(events)
}

impl StreamQueues {
    /// Makes the streams and events.
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
                starts: make_events()?,
                ends: make_events()?,
            });
        }
        let Ok(lanes) = <[StreamLane; LANES]>::try_from(made) else {
            unreachable!("as many were made as the array has");
        };
        Ok(Self {
            context,
            is_bound: false,
            opened,
            lanes,
            levels: u8::try_from(priorities.len()).unwrap_or(1).max(1),
            arguments: Arguments::new(),
            stamps: StampMemory::new()?,
        })
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
        wrapped(EVENT_RECORD, unsafe {
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

    fn put(&mut self, at: LaneSlot, stream: CUstream, work: &Work<'_>) -> Result<(), CudaError> {
        match *work {
            Work::Launch {
                function,
                grid,
                block,
                dynamic_shared_bytes,
                is_cooperative,
                params,
                places,
                stamps,
                ..
            } => {
                let call = match is_cooperative {
                    true => "cuLaunchCooperativeKernel",
                    false => "cuLaunchKernel",
                };
                let stamps = stamps.map(|sampling| {
                    let records = self.stamps.of(at).iter();
                    let count = sampling.records() as usize;
                    records.take(count).for_each(StampRecord::clear);
                    let address = self.stamps.address(at);
                    Stamps { address, sampling }
                });
                let Some(arguments) = self.arguments.of(params, places, stamps) else {
                    let code = CUresult::CUDA_ERROR_INVALID_VALUE;
                    return Err(CudaError { call, code });
                };
                // SAFETY: the function's module is loaded, because the flight that is about to begin holds it. There is
                // a pointer for each parameter that its text declares, to bytes of the declared size, which is also the
                // driver's, as was checked when the module was loaded; the driver copies them before it returns.
                check(call, unsafe {
                    match is_cooperative {
                        true => sys::cuLaunchCooperativeKernel(
                            function.0,
                            grid[0],
                            grid[1],
                            grid[2],
                            block[0],
                            block[1],
                            block[2],
                            dynamic_shared_bytes,
                            stream,
                            arguments.as_mut_ptr(),
                        ),
                        false => sys::cuLaunchKernel(
                            function.0,
                            grid[0],
                            grid[1],
                            grid[2],
                            block[0],
                            block[1],
                            block[2],
                            dynamic_shared_bytes,
                            stream,
                            arguments.as_mut_ptr(),
                            ptr::null_mut(),
                        ),
                    }
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
        since(self.opened)
    }

    fn enqueue(&mut self, at: LaneSlot, level: Level, work: &Work<'_>) -> Result<(), CudaError> {
        self.bind()?;
        let lane = self.lanes[usize::from(at.lane.0)];
        let stream = lane.streams[usize::from(level.0).min(MOST_LEVELS - 1)];
        if work.sampling().is_none() {
            self.record(lane.starts[usize::from(at.slot)], stream)?;
        }
        let is_empty = matches!(
            work,
            Work::ToDevice { bytes: 0, .. }
                | Work::FromDevice { bytes: 0, .. }
                | Work::OnDevice { bytes: 0, .. }
                | Work::Fill { bytes: 0, .. }
        );
        if !is_empty {
            self.put(at, stream, work)?;
        }
        self.record(lane.ends[usize::from(at.slot)], stream)
    }

    fn has_started(&mut self, at: LaneSlot) -> Result<bool, CudaError> {
        self.has_happened(self.lanes[usize::from(at.lane.0)].starts[usize::from(at.slot)])
    }

    fn has_ended(&mut self, at: LaneSlot) -> Result<bool, CudaError> {
        self.has_happened(self.lanes[usize::from(at.lane.0)].ends[usize::from(at.slot)])
    }

    fn stamps(&self, at: LaneSlot) -> &[StampRecord] {
        self.stamps.of(at)
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

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
