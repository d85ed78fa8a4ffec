//! Events: marks in streams, with the device's time.

use crate::api::driver_api;
use crate::border::Out;
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::driver::Driver;
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

/// An event.
#[derive(Debug)]
pub struct Event {
    handle: CUevent,
    context: CUcontext,
    has_time: bool,
    /// The point of a stream at which it was recorded last.
    recorded: Mutex<Option<Recorded>>,
}

#[derive(Debug, Clone)]
struct Recorded {
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

    /// Returns where it was recorded last.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.recorded.lock().as_ref().map(|recorded| recorded.mark)
    }

    /// Records it on a stream, behind what `before` submits there.
    pub(crate) fn record_on(
        &self,
        driver: &Driver,
        stream: &Stream,
        before: impl FnOnce(&gridmux_tenant::Stream) -> Result<(), ClientError>,
    ) -> CudaResult {
        let mut recorded = None;
        stream.submit(driver, |lane| {
            before(lane)?;
            let (end, mark) = lane.record_marked()?;
            recorded = Some(Recorded {
                mark,
                end: Arc::new(end),
            });
            Ok(Some(mark))
        })?;
        let before = std::mem::replace(&mut *self.recorded.lock(), recorded);
        drop(before);
        Ok(())
    }

    fn recorded(&self) -> Option<Recorded> {
        self.recorded.lock().clone()
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
    let (driver, _, stream) = usable_stream(default, stream)?;
    if stream.context() != event.context {
        return Err(Status::INVALID_HANDLE);
    }
    event.record_on(driver, &stream, |_| Ok(()))
}

fn record_with_flags(
    default: DefaultStream,
    event: Arc<Event>,
    stream: CUstream,
    flags: c_uint,
) -> CudaResult {
    // The one flag there is makes a node of its own in a captured graph, and is invalid outside of captures.
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    record(default, event, stream)
}

/// Looks whether an event has passed, whatever context is current, if any is.
fn query(event: Arc<Event>) -> CudaResult {
    let driver = Driver::get()?;
    let context = driver.contexts.get(event.context)?;
    context.check(driver)?;
    match event.mark() {
        Some(mark) if !driver.gpu.has_passed(mark)? => Err(Status::NOT_READY),
        _ => context.check(driver),
    }
}

fn synchronize(event: Arc<Event>) -> CudaResult {
    let (driver, context) = usable()?;
    if let Some(mark) = event.mark() {
        driver.gpu.wait_mark(mark)?;
        driver.after_synchronization();
    }
    context.check(driver)
}

fn elapsed_time(place: Out<f32>, start: Arc<Event>, end: Arc<Event>) -> CudaResult {
    usable()?;
    if !start.has_time || !end.has_time || start.context != end.context {
        return Err(Status::INVALID_HANDLE);
    }
    let (Some(first), Some(last)) = (start.recorded(), end.recorded()) else {
        return Err(Status::INVALID_HANDLE);
    };
    let end_ns = |recorded: &Recorded| {
        let timing = recorded.end.timing()?.ok_or(Status::NOT_READY)?;
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
