//! Functions of the program's that a stream calls on the host: `cuLaunchHostFunc` and `cuStreamAddCallback`.
//!
//! In the stream stands a hold ([`gridmux_tenant::Hold`]). One thread of the library, made with the first such
//! function, waits until a stream has come to one, calls the function and releases the hold, so that what stands behind
//! it begins only then.
//!
//! Rules: functions run one at a time, in the order of each stream, and no lock is held meanwhile. Nothing of the API
//! may be called from one that needs `cuInit`: it returns `CUDA_ERROR_NOT_PERMITTED`. After a fault a host function is
//! not called any more; a callback is, with the fault's code.

use crate::api::driver_api;
use crate::context::Context;
use crate::driver::Driver;
use crate::graph::capture;
use crate::graph::work::host::{Host, HostParams};
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, Stream, usable_stream};
use gridmux_tenant::{ClientError, Hold, Mark};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// A host function (`CUhostFn`).
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// A callback (`CUstreamCallback`).
type Callback = Option<unsafe extern "C" fn(CUstream, u32, *mut c_void)>;

driver_api! {
    needs Init;
    10000 cuLaunchHostFunc(stream: CUstream, function: HostFunction, data: *mut c_void)
        | cuLaunchHostFunc_ptsz => launch;
    13010 cuLaunchHostFunc_v2(stream: CUstream, function: HostFunction, data: *mut c_void, mode: c_uint)
        | cuLaunchHostFunc_v2_ptsz => launch_with_mode;
    5000 cuStreamAddCallback(stream: CUstream, callback: Callback, data: *mut c_void, flags: c_uint)
        | cuStreamAddCallback_ptsz => add_callback;
}

/// What is to be done where a stream has come to.
pub struct Function(Work);

/// The function that is to be called, with its argument, or work of the library's own.
enum Work {
    Host(unsafe extern "C" fn(*mut c_void), Data),
    Callback(
        unsafe extern "C" fn(CUstream, u32, *mut c_void),
        CUstream,
        Data,
    ),
    Own(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Work::Host(..) => "Host",
            Work::Callback(..) => "Callback",
            Work::Own(_) => "Own",
        })
    }
}

impl Function {
    /// Makes one of a function of the program's and its argument.
    #[must_use]
    pub fn host(function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Self {
        Self(Work::Host(function, Data(data)))
    }
}

/// The program's own pointer, handed back as it came.
#[derive(Debug, Clone, Copy)]
struct Data(*mut c_void);

// SAFETY: the library does not follow the pointer; the program knows that its function runs on another thread.
unsafe impl Send for Data {}

/// A call that waits for its turn.
#[derive(Debug)]
struct Call {
    hold: Hold,
    context: Arc<Context>,
    function: Function,
}

/// The calls of the process, and how its worker is woken.
#[derive(Debug, Default)]
pub struct HostCalls {
    /// In the order of their submissions, as far as streams have one.
    queue: Mutex<VecDeque<Call>>,
    added: Condvar,
    /// The worker runs.
    has_worker: Mutex<bool>,
}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is in a host function.
#[inline]
pub fn is_inside() -> bool {
    IS_INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// Does something that must not call into the library.
pub fn inside(act: impl FnOnce()) {
    IS_INSIDE.set(true);
    act();
    IS_INSIDE.set(false);
}

/// Stack of a thread of the library's, in bytes: functions of the program run on it, which have as much by default.
const STACK_BYTES: usize = 8 << 20;

/// Makes a thread of the library's. It takes no signals: those are for the program's threads.
///
/// # Errors
/// [`Status::OPERATING_SYSTEM`].
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> CudaResult {
    let builder = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES);
    let made = without_signals(|| builder.spawn(work));
    made.map(drop).map_err(|_| Status::OPERATING_SYSTEM)
}

impl HostCalls {
    /// Makes the worker unless there is one.
    ///
    /// # Errors
    /// [`Status::OPERATING_SYSTEM`].
    pub fn ensure_worker(&self, driver: &'static Driver) -> CudaResult {
        let mut has_worker = self.has_worker.lock();
        if *has_worker {
            return Ok(());
        }
        spawn("gridmux-host", move || driver.host_calls.work(driver))?;
        *has_worker = true;
        Ok(())
    }

    /// Submits a hold in which a function is called; the worker must be there.
    ///
    /// # Errors
    /// The device was lost.
    pub fn hold(
        &self,
        lane: &gridmux_tenant::Stream,
        context: &Arc<Context>,
        function: Function,
    ) -> Result<Mark, ClientError> {
        let context = Arc::clone(context);
        lane.hold(|hold| {
            self.queue.lock().push_back(Call {
                hold,
                context,
                function,
            });
            self.added.notify_one();
        })
    }

    /// Submits a hold in which the library does something on the host, which may not submit anything.
    ///
    /// # Errors
    /// The device was lost.
    pub fn hold_for(
        &self,
        lane: &gridmux_tenant::Stream,
        context: &Arc<Context>,
        work: Box<dyn FnOnce() + Send>,
    ) -> Result<Mark, ClientError> {
        self.hold(lane, context, Function(Work::Own(work)))
    }

    fn work(&self, driver: &'static Driver) {
        loop {
            // An idle worker holds no clock.
            driver.gpu.think();
            let mut queue = self.queue.lock();
            while queue.is_empty() {
                self.added.wait(&mut queue);
            }
            drop(queue);
            let reached = driver.gpu.wait_reached(|is_reached| {
                let mut queue = self.queue.lock();
                let place = queue.iter().position(|call| is_reached(&call.hold))?;
                queue.remove(place)
            });
            match reached {
                Ok(call) => {
                    driver.write_printed();
                    // Destroying a context waits for what was submitted in it, this included.
                    let judged = call.context.check_faults(driver);
                    let hold = call.hold;
                    call.run(judged);
                    let _ = driver.gpu.release(hold);
                }
                // Nothing is reached any more on a lost connection.
                Err(error) => self.give_up(Status::from(error)),
            }
        }
    }

    /// Tells the callbacks that wait that the connection was lost.
    fn give_up(&self, status: Status) {
        let calls = std::mem::take(&mut *self.queue.lock());
        for call in calls {
            call.run(Err(status));
        }
    }
}

impl Call {
    /// Calls the function; `judged` is whether anything went wrong before.
    fn run(self, judged: CudaResult) {
        inside(|| match (self.function.0, judged) {
            (Work::Host(function, Data(data)), Ok(())) => {
                // SAFETY: the program passed a function of this type, to be called with this pointer.
                unsafe { function(data) };
            }
            (Work::Own(work), Ok(())) => work(),
            (Work::Host(..) | Work::Own(_), Err(_)) => {}
            (Work::Callback(callback, stream, Data(data)), judged) => {
                let code = judged.map_or_else(|status| status.0, |()| Status::SUCCESS.0);
                // SAFETY: as above.
                unsafe { callback(stream, code, data) };
            }
        });
    }
}

/// Does something, such as making a thread, while the calling thread blocks every signal.
fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero set is a valid place for the calls below to write to.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid and live on this stack.
    let blocked = unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before)
    };
    let done = act();
    if blocked == 0 {
        // SAFETY: `before` was written by the successful call above.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
        };
    }
    done
}

fn submit(
    driver: &'static Driver,
    context: &Arc<Context>,
    stream: &Stream,
    function: Function,
) -> CudaResult {
    let calls = &driver.host_calls;
    calls.ensure_worker(driver)?;
    stream.submit(driver, |lane| calls.hold(lane, context, function).map(Some))?;
    Ok(())
}

fn launch(
    default: DefaultStream,
    stream: CUstream,
    function: HostFunction,
    data: *mut c_void,
) -> CudaResult {
    let params = HostParams { function, data };
    let function = function.ok_or(Status::INVALID_VALUE)?;
    let (driver, context, stream) = usable_stream(default, stream)?;
    if let Some(captured) = capture::of(&stream)? {
        return captured.add(Host::new(params)?).map(drop);
    }
    submit(driver, &context, &stream, Function::host(function, data))
}

/// Submits a host function; the mode, which says whether the stream sleeps or looks while it waits for it, is a hint.
fn launch_with_mode(
    default: DefaultStream,
    stream: CUstream,
    function: HostFunction,
    data: *mut c_void,
    mode: c_uint,
) -> CudaResult {
    if mode > 1 {
        return Err(Status::INVALID_VALUE);
    }
    launch(default, stream, function, data)
}

fn add_callback(
    default: DefaultStream,
    stream: CUstream,
    callback: Callback,
    data: *mut c_void,
    flags: c_uint,
) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let callback = callback.ok_or(Status::INVALID_VALUE)?;
    let (driver, context, of) = usable_stream(default, stream)?;
    // A node could not tell it the stream.
    capture::refuse_in(&of)?;
    let work = Work::Callback(callback, stream, Data(data));
    submit(driver, &context, &of, Function(work))
}
