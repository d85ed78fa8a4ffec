//! Streams: the program's queues of work.
//!
//! Three kinds differ in what they wait for. The **legacy** default stream of a context waits for all of the context's
//! blocking streams, and they for it ([`order`]). A thread's own default stream and streams made without
//! `CU_STREAM_NON_BLOCKING` are **blocking**; the others take no part in that.
//!
//! Rules: everything that a stream executes goes through [`Stream::submit`], which keeps the order of its submissions
//! and notes the last one. The lock of a stream may be held while the mediator makes room, and no other stream's is
//! taken under it.

pub mod attributes;
pub mod memory_operations;
pub mod order;

use crate::api::driver_api;
use crate::border::Out;
use crate::context::current::{current, usable};
use crate::context::lanes::Lane;
use crate::context::limits::GREATEST_PRIORITY;
use crate::context::{CUcontext, Context};
use crate::driver::Driver;
use crate::event::{self, Event};
use crate::graph::capture::{self, Capture};
use crate::per_thread::PerThread;
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use gridmux_tenant::{ClientError, Mark};
use order::{Last, Order};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream as C holds it.
pub type CUstream = Handle<Stream>;

/// The handle of the legacy default stream (`CU_STREAM_LEGACY`).
const LEGACY: u64 = 1;
/// The handle of the calling thread's default stream (`CU_STREAM_PER_THREAD`).
const PER_THREAD: u64 = 2;
/// The flag of streams that do not wait for the legacy default stream.
const NON_BLOCKING: c_uint = 1;

/// The stream that a function means by stream 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultStream {
    /// The context's.
    Legacy,
    /// The calling thread's.
    PerThread,
}

/// The origin of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is a default stream.
    Default(DefaultStream),
    /// The program made it.
    Made {
        /// It waits for the legacy default stream.
        blocking: bool,
        /// A hint.
        priority: c_int,
    },
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    handle: CUstream,
    context: CUcontext,
    kind: Kind,
    id: u64,
    lane: Arc<Lane>,
    order: Arc<Order>,
    last: Arc<Last>,
    attributes: attributes::Attributes,
    /// The capture that it is part of.
    pub(crate) capture: Mutex<Option<Arc<Capture>>>,
    /// Held for a submission and the waits in front of it.
    turn: Mutex<Turn>,
}

/// The marks that a stream has waited for.
#[derive(Debug, Default)]
struct Turn {
    /// The last mark of the legacy default stream that the stream was made to wait for.
    awaited: Option<Mark>,
}

impl Object for Stream {
    const KIND: u8 = 2;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.streams
    }
}

driver_api! {
    needs Init;
    2000 cuStreamCreate(stream: *mut CUstream, flags: c_uint) => create;
    5050 cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) => create_with_priority;
    2000 cuStreamDestroy(stream: CUstream) => destroy;
    4000 cuStreamDestroy_v2(stream: CUstream) => destroy;
    2000 cuStreamQuery(stream: CUstream) | cuStreamQuery_ptsz => query;
    2000 cuStreamSynchronize(stream: CUstream) | cuStreamSynchronize_ptsz => synchronize;
    3020 cuStreamWaitEvent(stream: CUstream, event: Handle<Event>, flags: c_uint)
        | cuStreamWaitEvent_ptsz => event::wait;
    5050 cuStreamGetPriority(stream: CUstream, priority: *mut c_int) | cuStreamGetPriority_ptsz => get_priority;
    5050 cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) | cuStreamGetFlags_ptsz => get_flags;
    12000 cuStreamGetId(stream: CUstream, id: *mut u64) | cuStreamGetId_ptsz => get_id;
    9020 cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) | cuStreamGetCtx_ptsz => get_context;
    12050 cuStreamGetCtx_v2(stream: CUstream, context: *mut CUcontext, green: *mut u64)
        | cuStreamGetCtx_v2_ptsz => get_context_and_green;
    12080 cuStreamGetDevice(stream: CUstream, device: *mut c_int) | cuStreamGetDevice_ptsz => get_device;
    12040 cuStreamGetGreenCtx(stream: CUstream, green: *mut u64) => get_green;
}

impl Stream {
    /// Makes a stream of a context.
    ///
    /// # Errors
    /// The mediator gives no stream, or the device was lost.
    pub fn new(driver: &Driver, context: &Context, kind: Kind) -> CudaResult<Arc<Self>> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let lane = context.lanes.take(driver)?;
        let order = Arc::clone(&context.order);
        let last = match kind {
            Kind::Default(DefaultStream::Legacy) => order.legacy(),
            Kind::Default(DefaultStream::PerThread) | Kind::Made { blocking: true, .. } => {
                order.add_blocking(|mark| driver.gpu.has_passed(mark).unwrap_or(true))
            }
            Kind::Made { .. } => Arc::default(),
        };
        let make = |handle| Self {
            handle,
            context: context.handle(),
            kind,
            // Relaxed: the number is all that counts.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            lane,
            order,
            last,
            attributes: attributes::Attributes::default(),
            capture: Mutex::default(),
            turn: Mutex::default(),
        };
        context.grow(|| driver.streams.add(make))
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUstream {
        self.handle
    }

    /// Returns the handle of its context.
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// Returns a number that no other stream of the process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether it is a legacy default stream.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.kind == Kind::Default(DefaultStream::Legacy)
    }

    /// Returns whether it and the legacy default stream wait for each other.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Made {
                blocking: false,
                ..
            }
        )
    }

    /// Submits work behind everything that the stream must wait for, and notes it as the stream's last.
    ///
    /// # Errors
    /// That of `act`; the device was lost.
    #[inline]
    pub fn submit(
        &self,
        driver: &Driver,
        act: impl FnOnce(&gridmux_tenant::Stream) -> Result<Option<Mark>, ClientError>,
    ) -> Result<(), ClientError> {
        let mut turn = self.turn.lock();
        let lane = &self.lane.stream;
        match self.kind {
            Kind::Default(DefaultStream::Legacy) => self.order.wait_for_blocking(driver, lane)?,
            Kind::Made {
                blocking: false, ..
            } => {}
            _ => self.order.wait_for_legacy(lane, &mut turn.awaited)?,
        }
        if let Some(mark) = act(lane)? {
            self.last.set(mark);
        }
        Ok(())
    }

    /// Waits until all that was submitted on the stream has ended.
    ///
    /// # Errors
    /// The device was lost.
    pub fn finish(&self, driver: &Driver) -> Result<(), ClientError> {
        if self.kind == Kind::Default(DefaultStream::Legacy) {
            // The barrier stands behind the blocking streams.
            self.submit(driver, |lane| lane.barrier().map(Some))?;
        }
        match self.last.get() {
            Some(mark) => driver.gpu.wait_mark(mark),
            None => Ok(()),
        }
    }

    fn has_finished(&self, driver: &Driver) -> Result<bool, ClientError> {
        let is_legacy = self.kind == Kind::Default(DefaultStream::Legacy);
        if is_legacy && !self.order.blocking_have_passed(driver)? {
            return Ok(false);
        }
        match self.last.get() {
            Some(mark) => driver.gpu.has_passed(mark),
            None => Ok(true),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        capture::stream_gone(self);
    }
}

/// The default streams of a thread, one for each context that it used them in. They end with the thread.
#[derive(Debug, Default)]
struct Own(RefCell<Vec<Arc<Stream>>>);

impl Drop for Own {
    fn drop(&mut self) {
        let streams = std::mem::take(self.0.get_mut());
        match Driver::get() {
            Ok(driver) => {
                for stream in streams {
                    drop(driver.streams.remove(stream.handle));
                }
            }
            // In a child of `fork` they are the parent's, and locks may be held by threads that are not there.
            Err(_) => std::mem::forget(streams),
        }
    }
}

static OWN: PerThread<Own> = PerThread::new();

/// Returns the stream that a handle names in a context.
///
/// # Errors
/// [`Status::INVALID_HANDLE`]: none.
#[inline]
pub fn resolve(
    driver: &Driver,
    context: &Arc<Context>,
    stream: CUstream,
    default: DefaultStream,
) -> CudaResult<Arc<Stream>> {
    match (stream.bits(), default) {
        (LEGACY, _) | (0, DefaultStream::Legacy) => context.legacy(driver),
        (PER_THREAD, _) | (0, DefaultStream::PerThread) => own(driver, context),
        _ => driver.streams.get(stream),
    }
}

/// Returns the calling thread's default stream in a context.
fn own(driver: &Driver, context: &Arc<Context>) -> CudaResult<Arc<Stream>> {
    let mine = context.handle();
    let find = |own: &Own| {
        let streams = own.0.borrow();
        streams
            .iter()
            .find(|stream| stream.context == mine)
            .cloned()
    };
    if let Some(stream) = OWN.with(find)? {
        return Ok(stream);
    }
    let kind = Kind::Default(DefaultStream::PerThread);
    let stream = Stream::new(driver, context, kind)?;
    let keep = |own: &Own| {
        let mut streams = own.0.borrow_mut();
        // Those of contexts that were destroyed are of no more use.
        let all = std::mem::take(&mut *streams);
        let (mut known, dead): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|stream| driver.streams.get(stream.handle).is_ok());
        known.push(Arc::clone(&stream));
        *streams = known;
        dead
    };
    drop(OWN.with(keep)?);
    Ok(stream)
}

/// Resolves a stream in the current, usable context.
pub(crate) fn usable_stream(
    default: DefaultStream,
    stream: CUstream,
) -> CudaResult<(&'static Driver, Arc<Context>, Arc<Stream>)> {
    let (driver, context) = usable()?;
    let stream = resolve(driver, &context, stream, default)?;
    Ok((driver, context, stream))
}

fn create(place: Out<CUstream>, flags: c_uint) -> CudaResult {
    create_with_priority(place, flags, 0)
}

fn create_with_priority(place: Out<CUstream>, flags: c_uint, priority: c_int) -> CudaResult {
    if flags & !NON_BLOCKING != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let (driver, context) = usable()?;
    let kind = Kind::Made {
        blocking: flags & NON_BLOCKING == 0,
        priority: priority.clamp(GREATEST_PRIORITY, 0),
    };
    place.set(Stream::new(driver, &context, kind)?.handle);
    Ok(())
}

/// Forgets the stream; what was submitted on it is still executed.
fn destroy(stream: CUstream) -> CudaResult {
    let driver = Driver::get()?;
    let found = driver.streams.get(stream)?;
    if matches!(found.kind, Kind::Default(_)) {
        return Err(Status::INVALID_HANDLE);
    }
    capture::stream_gone(&found);
    driver.streams.remove(stream).map(drop)
}

fn query(default: DefaultStream, stream: CUstream) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    capture::check_wait(&stream)?;
    if !stream.has_finished(driver)? {
        return Err(Status::NOT_READY);
    }
    context.check(driver)
}

fn synchronize(default: DefaultStream, stream: CUstream) -> CudaResult {
    let (driver, context, stream) = usable_stream(default, stream)?;
    capture::check_wait(&stream)?;
    stream.finish(driver)?;
    driver.after_synchronization();
    context.check(driver)
}

/// Resolves a stream of which something is asked that holds after a fault too.
pub(crate) fn known(default: DefaultStream, stream: CUstream) -> CudaResult<Arc<Stream>> {
    resolve(Driver::get()?, &current()?, stream, default)
}

fn get_priority(default: DefaultStream, stream: CUstream, place: Out<c_int>) -> CudaResult {
    place.set(match known(default, stream)?.kind {
        Kind::Made { priority, .. } => priority,
        Kind::Default(_) => 0,
    });
    Ok(())
}

fn get_flags(default: DefaultStream, stream: CUstream, place: Out<c_uint>) -> CudaResult {
    let non_blocking = match known(default, stream)?.kind {
        Kind::Made { blocking, .. } => !blocking,
        Kind::Default(_) => false,
    };
    place.set(if non_blocking { NON_BLOCKING } else { 0 });
    Ok(())
}

fn get_id(default: DefaultStream, stream: CUstream, place: Out<u64>) -> CudaResult {
    place.set(known(default, stream)?.id);
    Ok(())
}

fn get_context(default: DefaultStream, stream: CUstream, place: Out<CUcontext>) -> CudaResult {
    place.set(known(default, stream)?.context);
    Ok(())
}

fn get_context_and_green(
    default: DefaultStream,
    stream: CUstream,
    place: Option<Out<CUcontext>>,
    green: Option<Out<u64>>,
) -> CudaResult {
    Out::set_if(place.as_ref(), known(default, stream)?.context);
    Out::set_if(green.as_ref(), 0);
    Ok(())
}

fn get_device(default: DefaultStream, stream: CUstream, place: Out<c_int>) -> CudaResult {
    known(default, stream)?;
    place.set(0);
    Ok(())
}

/// Writes that the stream belongs to no green context: there are none.
fn get_green(stream: CUstream, green: Out<u64>) -> CudaResult {
    known(DefaultStream::Legacy, stream)?;
    green.set(0);
    Ok(())
}
