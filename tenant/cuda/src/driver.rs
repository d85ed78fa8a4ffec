//! What the process has of the service: one connection, the device it shows, and the objects that others are made in.
//!
//! Rules:
//!
//! - A family of objects that no other needs has its registry in its own file, which this one does not know; what it
//!   does at the end of a context is a method of the driver's that stands there.
//! - There is one [`Driver`] per process, made by the first `cuInit` that succeeds and never dropped.
//! - A child made by `fork` has none: [`Driver::get`] finds that out with one load before any lock is taken, and
//!   answers `CUDA_ERROR_NOT_INITIALIZED`, as NVIDIA's library does.
//! - Locks of objects are taken in the order context, stream, memory; none is held while a callback of the program
//!   runs.

use crate::context::{Context, Primary};
use crate::device::Description;
use crate::event::Event;
use crate::host_function::HostCalls;
use crate::image::Capability;
use crate::library::{Kernel, Library};
use crate::memory::map::MemoryMap;
use crate::memory::pool::Pool;
use crate::module::{Function, Module};
use crate::registry::Registry;
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::Stream;
use gridmux_tenant::{ClientError, ConnectOptions, Gpu, Origin};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The socket of the service unless `GRIDMUX_SOCKET` names another.
const DEFAULT_SOCKET: &str = "/run/gridmux/gridmux.sock";

/// Everything of this process.
#[derive(Debug)]
pub struct Driver {
    /// The connection.
    pub gpu: Gpu,
    /// The device that the program sees.
    pub description: Description,
    /// The primary context.
    pub primary: Mutex<Primary>,
    /// Device and pinned memory by address.
    pub memory: MemoryMap,
    pub(crate) contexts: Registry<Context>,
    pub(crate) streams: Registry<Stream>,
    pub(crate) events: Registry<Event>,
    pub(crate) modules: Registry<Module>,
    pub(crate) functions: Registry<Function>,
    pub(crate) libraries: Registry<Library>,
    pub(crate) kernels: Registry<Kernel>,
    pub(crate) pools: Registry<Pool>,
    /// Functions of the program's that streams call.
    pub(crate) host_calls: HostCalls,
    /// The device's own pool.
    pub(crate) default_pool: OnceLock<std::sync::Arc<Pool>>,
    /// The pool that `cuMemAllocAsync` takes from, if the program named another.
    pub(crate) current_pool: Mutex<Option<std::sync::Arc<Pool>>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
/// Says which process called `cuInit` first; leaked, never changed once set.
static ORIGIN: AtomicPtr<Origin> = AtomicPtr::new(std::ptr::null_mut());
/// Held by the thread that connects.
static CONNECTING: Mutex<()> = Mutex::new(());

impl Driver {
    /// Returns the driver of this process.
    ///
    /// # Errors
    /// [`Status::NOT_INITIALIZED`]: `cuInit` was not called in this process.
    #[inline]
    pub fn get() -> CudaResult<&'static Self> {
        // Acquire: pairs with the Release in `origin`.
        let origin = ORIGIN.load(Ordering::Acquire);
        // SAFETY: null, or what `origin` leaked.
        let origin = unsafe { origin.as_ref() }.ok_or(Status::NOT_INITIALIZED)?;
        if origin.check().is_err() {
            return Err(Status::NOT_INITIALIZED);
        }
        DRIVER.get().ok_or(Status::NOT_INITIALIZED)
    }

    /// Connects, unless this process has.
    ///
    /// # Errors
    /// [`Status::NO_DEVICE`]: no service, or none that this program may see; [`Status::NOT_INITIALIZED`] in a child of
    /// a process that connected; the code of the service's refusal, which is said on stderr.
    pub fn init() -> CudaResult {
        if origin()?.check().is_err() {
            return Err(Status::NOT_INITIALIZED);
        }
        if DRIVER.get().is_some() {
            return Ok(());
        }
        let _connecting = CONNECTING.lock();
        if DRIVER.get().is_some() {
            return Ok(());
        }
        if !crate::device::is_visible() {
            return Err(Status::NO_DEVICE);
        }
        let driver = Self::connect()?;
        // The lock makes this thread the only one to set it.
        let _ = DRIVER.set(driver);
        Ok(())
    }

    /// Returns the device's compute capability, by which images are chosen.
    #[must_use]
    pub fn capability(&self) -> Capability {
        let (major, minor) = self.gpu.facts().compute_capability;
        Capability(10 * major + minor)
    }

    fn connect() -> CudaResult<Self> {
        let path = std::env::var_os("GRIDMUX_SOCKET").filter(|path| !path.is_empty());
        let path = path.map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from);
        let tenant = std::env::var("GRIDMUX_TENANT").ok();
        let options = ConnectOptions {
            name: String::new(),
            tenant: tenant.filter(|tenant| !tenant.is_empty()),
        };
        let gpu = Gpu::connect_to(&path, options).map_err(|error| refused(&error))?;
        let description = Description::new(gpu.welcome());
        Ok(Self {
            gpu,
            description,
            primary: Mutex::default(),
            memory: MemoryMap::default(),
            contexts: Registry::default(),
            streams: Registry::default(),
            events: Registry::default(),
            modules: Registry::default(),
            functions: Registry::default(),
            libraries: Registry::default(),
            kernels: Registry::default(),
            pools: Registry::default(),
            host_calls: HostCalls::default(),
            default_pool: OnceLock::new(),
            current_pool: Mutex::default(),
        })
    }
}

/// Says why there is no service, once for each attempt.
fn refused(error: &ClientError) -> Status {
    report::say(format_args!("no device: {error}"));
    Status::from(error)
}

/// Returns what tells this process from its children, made at the first call.
fn origin() -> CudaResult<&'static Origin> {
    // Acquire: pairs with the Release below.
    let mut known = ORIGIN.load(Ordering::Acquire);
    if known.is_null() {
        let ours = Origin::here().map_err(|_| Status::OPERATING_SYSTEM)?;
        let ours = Box::into_raw(Box::new(ours));
        let null = std::ptr::null_mut();
        // Release: pairs with the Acquire loads here and in `Driver::get`.
        let first = ORIGIN.compare_exchange(null, ours, Ordering::AcqRel, Ordering::Acquire);
        known = match first {
            Ok(_) => ours,
            Err(first) => {
                // SAFETY: made above from a box and published nowhere.
                drop(unsafe { Box::from_raw(ours) });
                first
            }
        };
    }
    // SAFETY: not null, and what is published there is never freed.
    Ok(unsafe { &*known })
}
