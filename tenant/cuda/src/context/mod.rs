//! Contexts, and which of them is current to a thread.
//!
//! All contexts of a process share the connection and its device memory; each has its own streams and modules, and a
//! fault of a kernel is the context's: from then on every call in it returns the fault's code, until the context is
//! destroyed.
//!
//! Rules: a thread's stack of contexts is the thread's own. A destroyed context stays on the stacks of threads that
//! did not destroy it, and every use of it says `CUDA_ERROR_CONTEXT_IS_DESTROYED`.

pub mod current;
pub mod events;
pub mod lanes;
pub mod limits;
pub mod peer;
pub mod primary;

use crate::api::driver_api;
use crate::border::{In, Out};
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::graph::capture;
use crate::registry::{Handle, Object, Registry};
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::order::Order;
use crate::stream::{DefaultStream, Kind, Stream};
use current::current;
use gridmux_tenant::ClientError;
use lanes::Lanes;
use parking_lot::{Mutex, RwLock};
pub use primary::Primary;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A context as C holds it.
pub type CUcontext = Handle<Context>;

/// All flags that a context may have (`CUctx_flags`): scheduling, mapped host memory, heap resizing, core dumps,
/// synchronous memory operations. They are hints here.
const FLAGS: u32 = 0xff;
/// The scheduling flags, of which there is at most one.
const SCHEDULING: [u32; 4] = [0, 1, 2, 4];

/// What a context is asked for (`CUctxCreateParams`): at most one of the two.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUctxCreateParams {
    /// Parts of the device (`CUexecAffinityParam`); null for all of it.
    affinity: *const c_void,
    /// How many they are.
    affinities: c_int,
    /// Sharing with a graphics client (`CUctxCigParam`); null for none.
    graphics: *const c_void,
}

/// A context.
#[derive(Debug)]
pub struct Context {
    handle: CUcontext,
    /// A number that no other context of the process has.
    id: u64,
    is_primary: bool,
    flags: AtomicU32,
    is_destroyed: AtomicBool,
    /// The number of calls of `cuCtxDetach` until it is destroyed.
    attached: AtomicU32,
    /// Held shared by who adds something to the context, and by its end alone.
    growing: RwLock<()>,
    /// The code of a fault, which stays; 0 without one.
    fault: AtomicU32,
    /// Failures of the connection that this context has looked at.
    failures_seen: AtomicU64,
    /// Held by the thread that looks for faults, so that no other passes before it has found them.
    looking: Mutex<()>,
    pub(crate) lanes: Lanes,
    pub(crate) limits: limits::Limits,
    legacy: RwLock<Option<Arc<Stream>>>,
    /// The marks that its streams wait for.
    pub(crate) order: Arc<Order>,
}

impl Object for Context {
    const KIND: u8 = 1;
    const UNKNOWN: Status = Status::INVALID_CONTEXT;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.contexts
    }
}

driver_api! {
    needs Init;
    3020 cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) => create;
    11040 cuCtxCreate_v3(
        context: *mut CUcontext, affinity: *const c_void, count: c_int, flags: c_uint, device: CUdevice,
    ) => create_with_affinity;
    12050 cuCtxCreate_v4(
        context: *mut CUcontext, parameters: *const CUctxCreateParams, flags: c_uint, device: CUdevice,
    ) => create_with_parameters;
    2000 cuCtxDestroy(context: CUcontext) => destroy;
    4000 cuCtxDestroy_v2(context: CUcontext) => destroy;
    2000 cuCtxAttach(context: *mut CUcontext, flags: c_uint) => attach;
    2000 cuCtxDetach(context: CUcontext) => detach;
    2000 cuCtxGetDevice(device: *mut CUdevice) => get_device;
    13000 cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) => get_device_of;
    7000 cuCtxGetFlags(flags: *mut c_uint) => get_flags;
    12010 cuCtxSetFlags(flags: c_uint) => set_flags;
    12000 cuCtxGetId(context: CUcontext, id: *mut u64) => get_id;
    3020 cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) => api_version;
    2000 cuCtxSynchronize() => synchronize;
    13000 cuCtxSynchronize_v2(context: CUcontext) => synchronize_of;
}

impl Context {
    /// Makes a context; the caller makes it current if it is to be.
    pub(crate) fn new(driver: &Driver, flags: u32, is_primary: bool) -> CudaResult<Arc<Self>> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let seen = driver.gpu.failures();
        driver.contexts.add(|handle| Self {
            handle,
            // Relaxed: the number is all that counts.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            is_primary,
            flags: AtomicU32::new(flags),
            is_destroyed: AtomicBool::new(false),
            attached: AtomicU32::new(1),
            growing: RwLock::new(()),
            fault: AtomicU32::new(0),
            failures_seen: AtomicU64::new(seen),
            looking: Mutex::new(()),
            lanes: Lanes::default(),
            limits: limits::Limits::default(),
            legacy: RwLock::default(),
            order: Arc::default(),
        })
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUcontext {
        self.handle
    }

    /// Returns whether it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        // Acquire: pairs with the Release in `tear_down`.
        self.is_destroyed.load(Ordering::Acquire)
    }

    /// Adds something that is to end with the context: it is there before the context's end looks for it, or not at
    /// all.
    ///
    /// # Errors
    /// [`Status::CONTEXT_IS_DESTROYED`], or that of `add`.
    pub(crate) fn grow<T>(&self, add: impl FnOnce() -> CudaResult<T>) -> CudaResult<T> {
        let _growing = self.growing.read();
        if self.is_destroyed() {
            return Err(Status::CONTEXT_IS_DESTROYED);
        }
        add()
    }

    /// Succeeds while the context can be used: it was not destroyed, and nothing in it faulted.
    ///
    /// # Errors
    /// [`Status::CONTEXT_IS_DESTROYED`], or the code of the fault.
    #[inline]
    pub fn check(&self, driver: &Driver) -> CudaResult {
        if self.is_destroyed() {
            return Err(Status::CONTEXT_IS_DESTROYED);
        }
        self.check_faults(driver)
    }

    /// Succeeds while nothing in it faulted, destroyed or not.
    ///
    /// # Errors
    /// The code of the fault.
    #[inline]
    pub fn check_faults(&self, driver: &Driver) -> CudaResult {
        let failures = driver.gpu.failures();
        // Acquire: pairs with the Release in `look_for_faults`; who sees its number sees the faults that it found.
        if failures != self.failures_seen.load(Ordering::Acquire) {
            self.look_for_faults(failures)?;
        }
        // Relaxed: ordered by the number above.
        match self.fault.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(Status(code)),
        }
    }

    /// Looks for the faults among the first `failures` failures of the connection.
    fn look_for_faults(&self, failures: u64) -> CudaResult {
        let _looking = self.looking.lock();
        for lane in self.lanes.all() {
            if let Some(error) = lane.stream.take_failure()? {
                self.fail(&error);
            }
        }
        // Release: pairs with the Acquire in `check`. A lower number than another thread's makes the next look again.
        self.failures_seen.store(failures, Ordering::Release);
        Ok(())
    }

    /// Takes note of a fault: says it once, and keeps its code if it is the first. A lost service has been said.
    pub(crate) fn fail(&self, error: &ClientError) -> Status {
        let status = Status::from(error);
        // Relaxed: see `check`.
        let first = self
            .fault
            .compare_exchange(0, status.0, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() && !error.is_lost() {
            report::say(format_args!("{error}"));
        }
        status
    }

    /// Returns its legacy default stream, made when first used.
    ///
    /// # Errors
    /// The device was lost.
    pub fn legacy(self: &Arc<Self>, driver: &Driver) -> CudaResult<Arc<Stream>> {
        if let Some(stream) = &*self.legacy.read() {
            return Ok(Arc::clone(stream));
        }
        let mut legacy = self.legacy.write();
        if let Some(stream) = &*legacy {
            // Another thread was first.
            return Ok(Arc::clone(stream));
        }
        if self.is_destroyed() {
            return Err(Status::CONTEXT_IS_DESTROYED);
        }
        let made = Stream::new(driver, self, Kind::Default(DefaultStream::Legacy))?;
        Ok(Arc::clone(legacy.insert(made)))
    }

    /// Waits until everything that was submitted in the context has ended.
    ///
    /// # Errors
    /// The fault of an operation.
    pub fn synchronize(&self, driver: &Driver) -> CudaResult {
        self.check(driver)?;
        capture::check_context(self.handle)?;
        for lane in self.lanes.all() {
            lane.stream.drain()?;
        }
        driver.after_synchronization();
        self.check(driver)
    }

    /// Destroys it: nothing can use it from now on, and what it holds goes when nothing runs in it any more.
    pub(crate) fn tear_down(&self, driver: &Driver) {
        let growing = self.growing.write();
        // Release: pairs with the Acquire in `is_destroyed`.
        if self.is_destroyed.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(growing);
        let _ = driver.contexts.remove(self.handle);
        for lane in self.lanes.all() {
            // On a lost connection there is nothing to wait for.
            let _ = lane.stream.drain();
        }
        driver.write_printed();
        let mine = self.handle;
        // Before modules go: once a module's variables were given back, their addresses may be another's.
        driver.forget_textures(mine);
        driver.forget_arrays(mine);
        driver.memory.forget_context(mine);
        drop(driver.events.remove_all(|event| event.context() == mine));
        drop(
            driver
                .functions
                .remove_all(|function| function.context() == mine),
        );
        drop(driver.modules.remove_all(|module| module.context() == mine));
        drop(driver.streams.remove_all(|stream| stream.context() == mine));
        // The context may stay on a thread's stack, but its lanes are others' from now on.
        drop(self.legacy.write().take());
        self.lanes.clear();
    }
}

impl Driver {
    /// Does what follows every synchronisation: writes what kernels printed, records launches, and gives back what
    /// pools hold too much.
    pub fn after_synchronization(&self) {
        self.write_printed();
        self.record_ended();
        self.trim_pools();
        self.collect_leftovers();
    }
}

fn check_flags(flags: c_uint) -> CudaResult {
    if flags & !FLAGS != 0 || !SCHEDULING.contains(&(flags & 7)) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

fn create(place: Out<CUcontext>, flags: c_uint, device: CUdevice) -> CudaResult {
    check_flags(flags)?;
    let driver = device::check(device)?;
    let context = Context::new(driver, flags, false)?;
    place.set(context.handle);
    current::push(context)
}

fn create_with_affinity(
    place: Out<CUcontext>,
    affinity: *const c_void,
    count: c_int,
    flags: c_uint,
    device: CUdevice,
) -> CudaResult {
    if count != 0 || !affinity.is_null() {
        return Err(Status::UNSUPPORTED_EXEC_AFFINITY);
    }
    create(place, flags, device)
}

/// Creates a plain context, which null asks for, and parameters that ask for nothing.
fn create_with_parameters(
    place: Out<CUcontext>,
    parameters: Option<In<CUctxCreateParams>>,
    flags: c_uint,
    device: CUdevice,
) -> CudaResult {
    let Some(In(asked)) = parameters else {
        return create(place, flags, device);
    };
    match (asked.affinity.is_null(), asked.graphics.is_null()) {
        (false, false) => Err(Status::INVALID_VALUE),
        (true, false) => Err(Status::NOT_SUPPORTED),
        _ => create_with_affinity(place, asked.affinity, asked.affinities, flags, device),
    }
}

fn destroy(context: Arc<Context>) -> CudaResult {
    if context.is_primary {
        return Err(Status::INVALID_CONTEXT);
    }
    let driver = Driver::get()?;
    context.tear_down(driver);
    current::pop_if_top(&context);
    Ok(())
}

fn attach(place: Out<CUcontext>, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let context = current()?;
    // Relaxed: the number is all that counts.
    context.attached.fetch_add(1, Ordering::Relaxed);
    place.set(context.handle);
    Ok(())
}

fn detach(context: Arc<Context>) -> CudaResult {
    if context.is_primary || !Arc::ptr_eq(&context, &current()?) {
        return Err(Status::INVALID_CONTEXT);
    }
    // Relaxed: of several threads, one finds 1.
    match context.attached.fetch_sub(1, Ordering::Relaxed) {
        1 => destroy(context),
        _ => Ok(()),
    }
}

fn get_device(device: Out<CUdevice>) -> CudaResult {
    current()?;
    device.set(0);
    Ok(())
}

fn get_device_of(device: Out<CUdevice>, context: CUcontext) -> CudaResult {
    of_or_current(context)?;
    device.set(0);
    Ok(())
}

/// Returns the context of a handle, or the current one for null.
fn of_or_current(context: CUcontext) -> CudaResult<Arc<Context>> {
    if context.is_null() {
        return current();
    }
    Driver::get()?.contexts.get(context)
}

fn get_flags(flags: Out<c_uint>) -> CudaResult {
    // Relaxed: a hint.
    flags.set(current()?.flags.load(Ordering::Relaxed));
    Ok(())
}

fn set_flags(flags: c_uint) -> CudaResult {
    check_flags(flags)?;
    // Relaxed: a hint.
    current()?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

fn get_id(context: CUcontext, id: Out<u64>) -> CudaResult {
    id.set(of_or_current(context)?.id);
    Ok(())
}

fn api_version(context: CUcontext, version: Out<c_uint>) -> CudaResult {
    of_or_current(context)?;
    // That of `cuCtxCreate_v2`, as NVIDIA's library answers.
    version.set(3020);
    Ok(())
}

fn synchronize() -> CudaResult {
    current()?.synchronize(Driver::get()?)
}

fn synchronize_of(context: CUcontext) -> CudaResult {
    of_or_current(context)?.synchronize(Driver::get()?)
}
