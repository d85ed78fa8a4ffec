//! Events: marks in streams, with the device's time.

use crate::api::driver_api;
use crate::border::Out;
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::graph::capture::{self, Capture, Tails};
use crate::graph::work::event::{Record, Wait};
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, Stream, usable_stream};
use gridmux_tenant::{ClientError, Mark};
use parking_lot::Mutex;
use std::ffi::c_uint;
use std::sync::Arc;

/// An event as C holds it.
pub type CUevent = Handle<Event>;

/// Flags of an event (`CUevent_flags`): the program sleeps while it waits (a hint), no times, shared with other
/// processes.
const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
/// The flag of records and waits that are to be nodes of their own in a captured graph; outside of captures it is
/// invalid.
const EXTERNAL: c_uint = 1;

/// An event.
#[derive(Debug)]
pub struct Event {
    handle: CUevent,
    context: CUcontext,
    has_time: bool,
    recorded: Mutex<Recorded>,
}

/// Where an event was recorded last.
#[derive(Debug, Clone, Default)]
pub enum Recorded {
    /// Nowhere.
    #[default]
    Nowhere,
    /// At a point of a stream.
    At(Point),
    /// In a capture, behind these nodes.
    In(Arc<Capture>, Tails),
}

/// A point of a stream, and when the device came to it.
#[derive(Debug, Clone)]
pub struct Point {
    mark: Mark,
    end: Arc<gridmux_tenant::Event>,
}

impl Object for Event {
    const KIND: u8 = 3;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.events
    }
}

driver_api! {
    needs Init;
    2000 cuEventCreate(event: *mut CUevent, flags: c_uint) => create;
    2000 cuEventDestroy(event: CUevent) => destroy;
    4000 cuEventDestroy_v2(event: CUevent) => destroy;
    2000 cuEventRecord(event: CUevent, stream: CUstream) | cuEventRecord_ptsz => record;
    11010 cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint)
        | cuEventRecordWithFlags_ptsz => record_with_flags;
    2000 cuEventQuery(event: CUevent) => query;
    2000 cuEventSynchronize(event: CUevent) => synchronize;
    2000 cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) => elapsed_time;
    12080 cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) => elapsed_time;
}

impl Event {
    /// Returns the handle of its context.
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUevent {
        self.handle
    }

    /// Returns the point of a stream at which it was recorded last.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        match &*self.recorded.lock() {
            Recorded::At(point) => Some(point.mark),
            _ => None,
        }
    }

    /// Returns where it was recorded last.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.recorded.lock().clone()
    }

    fn set_recorded(&self, recorded: Recorded) {
        let before = std::mem::replace(&mut *self.recorded.lock(), recorded);
        drop(before);
    }

    /// Returns the point of a stream at which it was recorded last, of which something is asked.
    ///
    /// # Errors
    /// [`Status::CAPTURED_EVENT`]: it was recorded in a capture, which does not survive the question;
    /// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: a capture forbids it.
    fn point(&self) -> CudaResult<Option<Point>> {
        match self.recorded() {
            Recorded::In(capture, _) => {
                capture.invalidate();
                Err(Status::CAPTURED_EVENT)
            }
            Recorded::Nowhere => capture::check_unsafe().map(|()| None),
            Recorded::At(point) => capture::check_unsafe().map(|()| Some(point)),
        }
    }

    /// Records it in a stream of the mediator's whose turn is held.
    pub(crate) fn record_in(&self, lane: &gridmux_tenant::Stream) -> Result<Mark, ClientError> {
        let (end, mark) = lane.record_marked()?;
        let end = Arc::new(end);
        self.set_recorded(Recorded::At(Point { mark, end }));
        Ok(mark)
    }

    /// Records it on a stream, behind what `before` submits there.
    pub(crate) fn record_on(
        &self,
        driver: &Driver,
        stream: &Stream,
        before: impl FnOnce(&gridmux_tenant::Stream) -> Result<(), ClientError>,
    ) -> CudaResult {
        stream.submit(driver, |lane| {
            before(lane)?;
            self.record_in(lane).map(Some)
        })?;
        Ok(())
    }
}

fn create(place: Out<CUevent>, flags: c_uint) -> CudaResult {
    let allowed = BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS;
    let interprocess_with_time = flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS;
    if flags & !allowed != 0 || interprocess_with_time {
        return Err(Status::INVALID_VALUE);
    }
    if flags & INTERPROCESS != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let (driver, context) = usable()?;
    let make = |handle| Event {
        handle,
        context: context.handle(),
        has_time: flags & DISABLE_TIMING == 0,
        recorded: Mutex::default(),
    };
    let event = context.grow(|| driver.events.add(make))?;
    place.set(event.handle);
    Ok(())
}

fn destroy(event: CUevent) -> CudaResult {
    Driver::get()?.events.remove(event).map(drop)
}

fn record(default: DefaultStream, event: Arc<Event>, stream: CUstream) -> CudaResult {
    record_with_flags(default, event, stream, 0)
}

/// Records an event. In a capture it stands for what the stream did so far, unless the flag asks for a node.
fn record_with_flags(
    default: DefaultStream,
    event: Arc<Event>,
    stream: CUstream,
    flags: c_uint,
) -> CudaResult {
    if flags & !EXTERNAL != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let (driver, _, stream) = usable_stream(default, stream)?;
    if stream.context() != event.context {
        return Err(Status::INVALID_HANDLE);
    }
    match capture::of(&stream)? {
        None if flags != 0 => Err(Status::INVALID_VALUE),
        None => event.record_on(driver, &stream, |_| Ok(())),
        Some(captured) if flags == EXTERNAL => captured.add(Arc::new(Record(event))).map(drop),
        Some(captured) => {
            let tails = captured.tails()?;
            event.set_recorded(Recorded::In(captured.capture, tails));
            Ok(())
        }
    }
}

/// Lets a stream wait for an event. In a capture that is an edge, and a stream that is not captured joins the capture;
/// what was recorded outside of it can be waited for by a node only, which the flag asks for.
pub(crate) fn wait(
    default: DefaultStream,
    stream: CUstream,
    event: Arc<Event>,
    flags: c_uint,
) -> CudaResult {
    if flags & !EXTERNAL != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let (driver, _, stream) = usable_stream(default, stream)?;
    let captured = capture::of(&stream)?;
    match (captured, event.recorded()) {
        (Some(captured), _) if flags == EXTERNAL => captured.add(Arc::new(Wait(event))).map(drop),
        (None, _) if flags != 0 => Err(Status::INVALID_VALUE),
        (None | Some(_), Recorded::Nowhere) => Ok(()),
        (None, Recorded::At(point)) => {
            stream.submit(driver, |lane| lane.wait_mark(point.mark))?;
            Ok(())
        }
        (None, Recorded::In(capture, tails)) => capture.join(&stream, tails),
        (Some(captured), Recorded::At(_)) => {
            captured.capture.invalidate();
            Err(Status::STREAM_CAPTURE_ISOLATION)
        }
        (Some(captured), Recorded::In(capture, tails)) => {
            if Arc::ptr_eq(&captured.capture, &capture) {
                return captured.wait_for(&tails);
            }
            captured.capture.invalidate();
            match capture.is_active() {
                true => {
                    capture.invalidate();
                    Err(Status::STREAM_CAPTURE_MERGE)
                }
                false => Err(Status::STREAM_CAPTURE_ISOLATION),
            }
        }
    }
}

/// Looks whether an event has passed, whatever context is current, if any is.
fn query(event: Arc<Event>) -> CudaResult {
    let driver = Driver::get()?;
    let context = driver.contexts.get(event.context)?;
    context.check(driver)?;
    match event.point()? {
        Some(point) if !driver.gpu.has_passed(point.mark)? => Err(Status::NOT_READY),
        _ => context.check(driver),
    }
}

fn synchronize(event: Arc<Event>) -> CudaResult {
    let (driver, context) = usable()?;
    if let Some(point) = event.point()? {
        driver.gpu.wait_mark(point.mark)?;
        driver.after_synchronization();
    }
    context.check(driver)
}

fn elapsed_time(place: Out<f32>, start: Arc<Event>, end: Arc<Event>) -> CudaResult {
    usable()?;
    if !start.has_time || !end.has_time || start.context != end.context {
        return Err(Status::INVALID_HANDLE);
    }
    let (Some(first), Some(last)) = (start.point()?, end.point()?) else {
        return Err(Status::INVALID_HANDLE);
    };
    let end_ns = |point: &Point| {
        let timing = point.end.timing()?.ok_or(Status::NOT_READY)?;
        Ok::<_, Status>(timing.end_ns)
    };
    place.set(milliseconds(end_ns(&first)?, end_ns(&last)?));
    Ok(())
}

/// Returns the time from `start_ns` to `end_ns`, which may lie before it.
fn milliseconds(start_ns: u64, end_ns: u64) -> f32 {
    let distance = start_ns.abs_diff(end_ns);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the API gives a single-precision number"
    )]
    let distance = (distance as f64 / 1e6) as f32;
    if end_ns < start_ns {
        -distance
    } else {
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn times_are_milliseconds_of_either_sign() {
        assert_eq!(milliseconds(1_000_000, 3_500_000), 2.5);
        assert_eq!(milliseconds(3_500_000, 1_000_000), -2.5);
    }
}
