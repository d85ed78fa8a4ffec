//! Libraries: modules that belong to no context, and their kernels.
//!
//! All contexts of a process share the device's memory here, so a library is loaded once, when the program asks, and
//! its kernels run in every context.

use crate::api::driver_api;
use crate::border::{NotNull, Out};
use crate::context::current::current;
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::image::{self, ImageError};
use crate::module::jit::Options;
use crate::module::{CUfunction, CUmodule, Function, Module, attributes, tell_global};
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// A library as C holds it.
pub type CUlibrary = Handle<Library>;
/// A library's kernel as C holds it.
pub type CUkernel = Handle<Kernel>;

/// A library.
#[derive(Debug)]
pub struct Library {
    handle: CUlibrary,
    module: Arc<Module>,
    /// Those that were asked for, by name; nothing once the library was unloaded.
    kernels: Mutex<Option<HashMap<String, Arc<Kernel>>>>,
}

/// A kernel of a library.
#[derive(Debug)]
pub struct Kernel {
    handle: CUkernel,
    library: CUlibrary,
    function: Arc<Function>,
}

impl Object for Library {
    const KIND: u8 = 6;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.libraries
    }
}

impl Object for Kernel {
    const KIND: u8 = 7;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.kernels
    }
}

driver_api! {
    needs Init;
    12000 cuLibraryLoadData(
        library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_uint, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint,
    ) => load_data;
    12000 cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, jit_options: *mut c_uint, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint,
    ) => load_file;
    12000 cuLibraryUnload(library: CUlibrary) => unload;
    12000 cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => get_kernel;
    12040 cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) => kernel_count;
    12040 cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) => enumerate;
    12000 cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) => get_module;
    12000 cuLibraryGetGlobal(address: *mut u64, bytes: *mut usize, library: CUlibrary, name: *const c_char)
        => get_global;
    12000 cuLibraryGetManaged(address: *mut u64, bytes: *mut usize, library: CUlibrary, name: *const c_char)
        => get_managed;
    12000 cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) => get_function;
    12050 cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) => library_of;
    12030 cuKernelGetName(name: *mut *const c_char, kernel: CUkernel) => get_name;
    12000 cuKernelGetAttribute(value: *mut c_int, attribute: c_int, kernel: CUkernel, device: CUdevice)
        => get_attribute;
    12000 cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: CUkernel, device: CUdevice)
        => set_attribute;
    12000 cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice) => set_cache_config;
    12040 cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize)
        => get_param_info;
    13020 cuKernelGetParamCount(kernel: CUkernel, count: *mut usize) => get_param_count;
}

impl Library {
    fn load(
        driver: &Driver,
        texts: Result<Vec<Vec<u8>>, ImageError>,
        options: &Options,
    ) -> CudaResult<CUlibrary> {
        let module = Module::load(driver, None, texts, options)?;
        let library = driver.libraries.add(|handle| Self {
            handle,
            module,
            kernels: Mutex::new(Some(HashMap::new())),
        })?;
        Ok(library.handle)
    }

    fn kernel(&self, driver: &Driver, name: &str) -> CudaResult<CUkernel> {
        let mut kernels = self.kernels.lock();
        let kernels = kernels.as_mut().ok_or(Self::UNKNOWN)?;
        if let Some(kernel) = kernels.get(name) {
            return Ok(kernel.handle);
        }
        let function = self.module.function(driver, name)?;
        let kernel = driver.kernels.add(|handle| {
            function.set_library_kernel(handle.bits());
            Kernel {
                handle,
                library: self.handle,
                function,
            }
        })?;
        let handle = kernel.handle;
        kernels.insert(name.to_owned(), kernel);
        Ok(handle)
    }
}

impl Kernel {
    /// Returns the function that it is in every context.
    #[must_use]
    pub fn function(&self) -> Arc<Function> {
        Arc::clone(&self.function)
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn load_data(
    place: Out<CUlibrary>,
    image: *const c_void,
    jit_options: Option<Out<c_uint>>,
    jit_values: Option<Out<*mut c_void>>,
    jit_count: c_uint,
    options: Option<Out<c_uint>>,
    _: Option<Out<*mut c_void>>,
    count: c_uint,
) -> CudaResult {
    let jit = read_options(jit_options, jit_values, jit_count, options, count, OF_DATA)?;
    let driver = Driver::get()?;
    // SAFETY: the program passes an image, as the C declaration asks.
    let texts = unsafe { image::ptx_at(image, driver.capability()) };
    place.set(Library::load(driver, texts, &jit)?);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn load_file(
    place: Out<CUlibrary>,
    path: &'static CStr,
    jit_options: Option<Out<c_uint>>,
    jit_values: Option<Out<*mut c_void>>,
    jit_count: c_uint,
    options: Option<Out<c_uint>>,
    _: Option<Out<*mut c_void>>,
    count: c_uint,
) -> CudaResult {
    let jit = read_options(jit_options, jit_values, jit_count, options, count, OF_FILES)?;
    let driver = Driver::get()?;
    let texts = image::ptx_of(&image::read_file(path)?, driver.capability());
    place.set(Library::load(driver, texts, &jit)?);
    Ok(())
}

/// A library's own options (`CUlibraryOption`): where its kernels' host addresses stand, which is known of data alone,
/// and that the image stays. Neither matters here.
const OF_DATA: &[c_uint] = &[0, 1];
const OF_FILES: &[c_uint] = &[1];

/// Reads the options of loading a library, of whose own ones there may be `known`.
fn read_options(
    jit_options: Option<Out<c_uint>>,
    jit_values: Option<Out<*mut c_void>>,
    jit_count: c_uint,
    options: Option<Out<c_uint>>,
    count: c_uint,
    known: &[c_uint],
) -> CudaResult<Options> {
    let is_known = |option| {
        options
            .as_ref()
            .is_some_and(|all| known.contains(&all.get_at(option)))
    };
    if !(0..count as usize).all(is_known) {
        return Err(Status::INVALID_VALUE);
    }
    Options::read(jit_count, jit_options, jit_values)
}

fn unload(library: CUlibrary) -> CudaResult {
    if library.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let driver = Driver::get()?;
    let library = driver.libraries.remove(library)?;
    let mine = library.handle;
    // No kernel is added from here on.
    drop(library.kernels.lock().take());
    drop(driver.kernels.remove_all(|kernel| kernel.library == mine));
    Module::take(driver, library.module.handle())
}

fn get_kernel(place: Out<CUkernel>, library: Arc<Library>, name: &'static CStr) -> CudaResult {
    let name = name.to_str().map_err(|_| Status::NOT_FOUND)?;
    place.set(library.kernel(Driver::get()?, name)?);
    Ok(())
}

fn kernel_count(count: Out<c_uint>, library: Arc<Library>) -> CudaResult {
    count.set(c_uint::try_from(library.module.kernels().len()).unwrap_or(c_uint::MAX));
    Ok(())
}

fn enumerate(kernels: Out<CUkernel>, count: c_uint, library: Arc<Library>) -> CudaResult {
    let driver = Driver::get()?;
    let all = library.module.kernels().iter().take(count as usize);
    for (index, kernel) in all.enumerate() {
        kernels.set_at(index, library.kernel(driver, &kernel.name)?);
    }
    Ok(())
}

fn get_module(place: Out<CUmodule>, library: Arc<Library>) -> CudaResult {
    current()?;
    place.set(library.module.handle());
    Ok(())
}

fn get_global(
    address: Option<Out<u64>>,
    bytes: Option<Out<usize>>,
    library: Arc<Library>,
    name: &'static CStr,
) -> CudaResult {
    current()?;
    tell_global(&library.module, name, address.as_ref(), bytes.as_ref())
}

/// Tells of a variable that the program has at the same address.
fn get_managed(
    address: Option<Out<u64>>,
    bytes: Option<Out<usize>>,
    library: Arc<Library>,
    name: &'static CStr,
) -> CudaResult {
    current()?;
    let is_managed = |name| library.module.global(name).map(|global| global.is_managed);
    match is_managed(name) {
        Ok(false) => Err(Status::NOT_FOUND),
        _ => tell_global(&library.module, name, address.as_ref(), bytes.as_ref()),
    }
}

fn get_function(place: Out<CUfunction>, kernel: Arc<Kernel>) -> CudaResult {
    current()?;
    place.set(kernel.function.handle());
    Ok(())
}

fn library_of(place: Out<CUlibrary>, kernel: Arc<Kernel>) -> CudaResult {
    place.set(kernel.library);
    Ok(())
}

fn get_name(name: Out<*const c_char>, NotNull(kernel): NotNull<Kernel>) -> CudaResult {
    name.set(kernel.function.name().as_ptr());
    Ok(())
}

fn get_attribute(
    value: Out<c_int>,
    attribute: c_int,
    kernel: Arc<Kernel>,
    device: CUdevice,
) -> CudaResult {
    device::check(device)?;
    value.set(attributes::attribute(&kernel.function, attribute)?);
    Ok(())
}

fn set_attribute(
    attribute: c_int,
    value: c_int,
    kernel: Arc<Kernel>,
    device: CUdevice,
) -> CudaResult {
    device::check(device)?;
    attributes::set(&kernel.function, attribute, value)
}

fn set_cache_config(_: Arc<Kernel>, config: c_uint, device: CUdevice) -> CudaResult {
    device::check(device)?;
    if config > 3 {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

fn get_param_info(
    NotNull(kernel): NotNull<Kernel>,
    index: usize,
    offset: Out<usize>,
    size: Option<Out<usize>>,
) -> CudaResult {
    current()?;
    let (start, len) = attributes::param(&kernel.function, index)?;
    offset.set(start);
    Out::set_if(size.as_ref(), len);
    Ok(())
}

fn get_param_count(NotNull(kernel): NotNull<Kernel>, count: Out<usize>) -> CudaResult {
    count.set(kernel.function.info().params.len());
    Ok(())
}
