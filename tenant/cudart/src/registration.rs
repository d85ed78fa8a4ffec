//! What nvcc's host code registers before `main`: fat binaries, their kernels and their variables, known by addresses
//! of the program's own, its stubs and shadows.
//!
//! Rules: nothing is loaded until something of a binary is needed, and then it is the driver's library, which all
//! contexts share; a binary that cannot be loaded is tried anew at each need. A reset of the device unloads what was
//! loaded. Addresses are numbers: nothing behind a stub or a shadow is read. The code that ends a program runs in a
//! forked child as well, and takes no lock there that a thread of the parent's may have held.

use crate::border::{Place, guard};
use crate::current::ready;
use crate::driver::Driver;
use crate::registered::{Binary, Registered};
use crate::report;
use crate::status::{CudaResult, Status};
use parking_lot::RwLock;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

static REGISTERED: RwLock<Option<Registered>> = RwLock::new(None);
/// The process that registered something last.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn change(act: impl FnOnce(&mut Registered)) {
    act(REGISTERED.write().get_or_insert_default());
}

fn look<T>(act: impl FnOnce(&Registered) -> Option<T>) -> Option<T> {
    REGISTERED.read().as_ref().and_then(act)
}

impl Binary {
    /// Returns the driver's library of it.
    fn load(&self, driver: &Driver) -> CudaResult<u64> {
        let mut loaded = self.library.lock();
        if let Some(library) = *loaded {
            return Ok(library);
        }
        let mut library = 0;
        driver.cuLibraryLoadData(
            Place::to(&mut library),
            Place::at(self.image),
            Place::NONE,
            Place::NONE,
            0,
            Place::NONE,
            Place::NONE,
            0,
        )?;
        *loaded = Some(library);
        Ok(library)
    }
}

/// Unloads all binaries but those of which the program has the addresses of managed variables. Each is loaded anew when
/// something of it is needed.
pub fn unload(driver: &Driver) {
    let binaries = look(|registered| Some(registered.without_told()));
    for binary in binaries.unwrap_or_default() {
        if let Some(library) = binary.library.lock().take() {
            // One that another thread unloaded is gone as well.
            let _ = driver.cuLibraryUnload(library);
        }
    }
    // Only now: a kernel of a library that was found before is not remembered from here on.
    change(Registered::forget_found);
}

/// Returns the driver's handle of a kernel that a program names by its stub's address, or by the handle itself.
///
/// # Errors
/// [`Status::INVALID_DEVICE_FUNCTION`]: it is null, or its binary has no such kernel; the code with which the binary is
/// refused.
pub fn kernel(driver: &Driver, stub: usize) -> CudaResult<u64> {
    if let Some(found) = look(|registered| registered.found(stub)) {
        return Ok(found);
    }
    let named = |registered: &Registered| {
        let named = registered.kernel(stub)?;
        Some((named.clone(), registered.round()))
    };
    let Some((named, round)) = look(named) else {
        return match stub {
            0 => Err(Status::INVALID_DEVICE_FUNCTION),
            // The driver knows its own handles.
            handle => Ok(handle as u64),
        };
    };
    let library = named.binary.load(driver)?;
    let mut kernel = 0;
    let found =
        driver.cuLibraryGetKernel(Place::to(&mut kernel), library, Place::text(&named.name));
    found.map_err(|status| match status {
        Status::SYMBOL_NOT_FOUND => Status::INVALID_DEVICE_FUNCTION,
        status => status,
    })?;
    change(|registered| registered.remember(stub, &named, round, kernel));
    Ok(kernel)
}

/// Returns a kernel as [`kernel`] does; the driver is asked whether it knows what the program did not register.
///
/// # Errors
/// As [`kernel`]; [`Status::INVALID_DEVICE_FUNCTION`]: it does not.
pub fn known_kernel(driver: &Driver, stub: usize) -> CudaResult<u64> {
    let kernel = kernel(driver, stub)?;
    let mut name = std::ptr::null();
    match kernel == stub as u64 {
        true if driver.cuFuncGetName(Place::to(&mut name), kernel).is_err() => {
            Err(Status::INVALID_DEVICE_FUNCTION)
        }
        _ => Ok(kernel),
    }
}

/// Returns the stub's address by which a program names a kernel of the driver's, or the handle itself where it has
/// none.
#[must_use]
pub fn stub(kernel: u64) -> usize {
    let named = look(|registered| registered.stub_of(kernel));
    named.unwrap_or_else(|| usize::try_from(kernel).unwrap_or(0))
}

/// Returns address and size in bytes of the variable that a program names by its shadow's address.
///
/// # Errors
/// [`Status::INVALID_SYMBOL`]: there is none; the code with which its binary is refused.
pub fn variable(driver: &Driver, shadow: usize) -> CudaResult<(u64, usize)> {
    let named = look(|registered| registered.variable(shadow).cloned());
    let named = named.ok_or(Status::INVALID_SYMBOL)?;
    let library = named.binary.load(driver)?;
    let (mut address, mut bytes) = (0, 0);
    let places = (Place::to(&mut address), Place::to(&mut bytes));
    let found = driver.cuLibraryGetGlobal(places.0, places.1, library, Place::text(&named.name));
    found.map_err(|status| match status {
        Status::SYMBOL_NOT_FOUND => Status::INVALID_SYMBOL,
        status => status,
    })?;
    Ok((address, bytes))
}

/// `__cudaRegisterFatBinary` of nvcc's host code.
///
/// # Safety
/// `image` is a fat binary's wrapper that stays where it is until the binary is taken back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(image: *const c_void) -> *mut *mut c_void {
    let handle: *mut *mut c_void = Box::into_raw(Box::new(image.cast_mut()));
    change(|registered| registered.add_binary(handle.addr(), image.expose_provenance()));
    // Relaxed: a process compares it with its own number, which it, or one that it was forked from, wrote before.
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    handle
}

/// `__cudaRegisterFatBinaryEnd` of nvcc's host code: all of a binary was registered.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// `__cudaInitModule` of nvcc's host code, which it calls before it uses a managed variable of a binary's: tells the
/// program where they are.
///
/// # Safety
/// The places that were registered with the binary's managed variables have room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    // A failure is noted for the thread. The program then follows a null pointer, so it is said as well.
    guard(|| tell_managed(handle.addr()).inspect_err(|status| say_unmanaged(*status)));
    1
}

/// Writes the addresses of a binary's managed variables where the program has them.
fn tell_managed(handle: usize) -> CudaResult {
    let named = look(|registered| Some(registered.managed_of(handle)));
    for (place, named) in named.unwrap_or_default() {
        let driver = ready()?;
        let library = named.binary.load(driver)?;
        let mut address = 0;
        let name = Place::text(&named.name);
        driver.cuLibraryGetManaged(Place::to(&mut address), Place::NONE, library, name)?;
        Place::<u64>::at(place).set(address)?;
        let shadow = usize::try_from(address).unwrap_or(0);
        // From now on the program names it by where it is.
        change(|registered| registered.told(place, shadow));
    }
    Ok(())
}

fn say_unmanaged(status: Status) {
    report::say(format_args!(
        "a __managed__ variable cannot be shared with the program (error {})",
        status.0
    ));
}

/// `__cudaRegisterManagedVar` of nvcc's host code.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    let place = place.expose_provenance();
    // SAFETY: the caller's promise.
    unsafe {
        register(name, |registered, name| {
            registered.add_managed(handle.addr(), place, name);
        });
    }
}

/// `__cudaUnregisterFatBinary` of nvcc's host code.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let process = std::process::id();
    // Relaxed: see `__cudaRegisterFatBinary`.
    if PROCESS.load(Ordering::Relaxed) != process {
        // A forked child, in which everything stays as it was: a thread that it does not have may have held the lock.
        return;
    }
    let mut removed = None;
    change(|registered| removed = registered.remove_binary(handle.addr()));
    // What the parent of a forked child loaded is the parent's.
    let removed = removed.filter(|binary| binary.process == process);
    let library = removed.and_then(|binary| binary.library.lock().take());
    if let (Some(library), Ok(driver)) = (library, Driver::get()) {
        // At the end of the process the driver may be gone already.
        let _ = driver.cuLibraryUnload(library);
    }
    // The handle's box stays: it is a few bytes, and a program may name it once more.
}

/// Registers something of a binary, which `add` adds under the name.
///
/// # Safety
/// `name` is null or a string.
unsafe fn register(name: *const c_char, add: impl FnOnce(&mut Registered, CString)) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    change(|registered| add(registered, name));
}

/// `__cudaRegisterFunction` of nvcc's host code.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    stub: *const c_char,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _warp_size: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        register(name, |registered, name| {
            registered.add_kernel(handle.addr(), stub.addr(), name);
        });
    }
}

/// `__cudaRegisterVar` of nvcc's host code.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    shadow: *mut c_char,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        register(name, |registered, name| {
            registered.add_variable(handle.addr(), shadow.addr(), name);
        });
    }
}

/// `__cudaGetKernel` of nvcc's host code, which keeps what it is told for good: the kernel of a stub, for which the
/// stub's own address stands, whatever becomes of its binary. What is wrong with it is said by the launch.
///
/// # Safety
/// `place` is null or has room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(place: *mut u64, stub: *const c_void) -> u32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let place: Place<u64> = unsafe { crate::border::FromC::from_c(place) };
        match stub.is_null() {
            true => Err(Status::INVALID_DEVICE_FUNCTION),
            false => place.set(stub.addr() as u64),
        }
    })
}
