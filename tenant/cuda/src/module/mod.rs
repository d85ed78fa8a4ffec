//! Modules: PTX that was loaded, with its kernels and variables.
//!
//! Rules: a function's handle stays the same as long as its module is loaded. Variables of a module are device memory
//! that the program may name by address, so they stand in the memory map.

pub mod attributes;
pub mod jit;

use crate::api::driver_api;
use crate::border::{NotNull, Out};
use crate::context::current::{current, usable};
use crate::context::{CUcontext, Context};
use crate::driver::Driver;
use crate::image::{self, ImageError};
use crate::library::{CUkernel, Kernel};
use crate::registry::{Handle, Object, Registry};
use crate::report;
use crate::status::{CudaResult, Status};
use gridmux_tenant::{GlobalInfo, KernelInfo, SharedVariable};
use jit::Options;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A module as C holds it.
pub type CUmodule = Handle<Module>;
/// A function as C holds it.
pub type CUfunction = Handle<Function>;

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    handle: CUmodule,
    /// Null for the module of a library, which belongs to no context.
    context: CUcontext,
    /// Its managed variables, as far as this process has them; they go before the module does.
    #[allow(dead_code, reason = "they are held, not read")]
    variables: Vec<SharedVariable>,
    loaded: gridmux_tenant::Module,
    /// Those that were asked for, by name; nothing once the module was unloaded.
    functions: Mutex<Option<HashMap<String, Arc<Function>>>>,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Function {
    handle: CUfunction,
    module: CUmodule,
    context: CUcontext,
    /// The name as C reads it, as long as the function lives.
    name: CString,
    pub(crate) kernel: gridmux_tenant::Kernel,
    /// Dynamic shared memory that a launch may ask for, in bytes.
    pub(crate) dynamic_shared_bytes: AtomicU32,
    /// The division of L1 cache and shared memory that the program prefers, in percent of shared memory; -1 for none.
    pub(crate) carveout: AtomicI32,
    /// The handle of the library's kernel that it is; 0 for a module's function.
    library_kernel: AtomicU64,
}

impl Object for Module {
    const KIND: u8 = 4;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.modules
    }
}

impl Object for Function {
    const KIND: u8 = 5;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(driver: &Driver) -> &Registry<Self> {
        &driver.functions
    }

    /// Returns the function that a handle names; also a library's kernel, because the runtime library launches with it.
    #[inline]
    fn find(driver: &Driver, handle: CUfunction) -> Result<Arc<Self>, Status> {
        driver.functions.get(handle).or_else(|unknown| {
            let kernel = driver.kernels.get(CUkernel::from_bits(handle.bits()));
            kernel
                .map(|kernel: Arc<Kernel>| kernel.function())
                .map_err(|_| unknown)
        })
    }
}

driver_api! {
    needs Init;
    2000 cuModuleLoad(module: *mut CUmodule, path: *const c_char) => load_file;
    2000 cuModuleLoadData(module: *mut CUmodule, image: *const c_void) => load_data;
    2010 cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void,
    ) => load_data_ex;
    2000 cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) => load_data;
    2000 cuModuleUnload(module: CUmodule) => unload;
    2000 cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) => get_function;
    3020 cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: CUmodule, name: *const c_char)
        => get_global;
    12040 cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) => function_count;
    12040 cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule) => enumerate;
    11070 cuModuleGetLoadingMode(mode: *mut c_uint) => loading_mode;
    11000 cuFuncGetModule(module: *mut CUmodule, function: CUfunction) => module_of;
}

impl Module {
    /// Loads what was read of an image, one PTX text or several that are linked, for a context or, without one, for a
    /// library.
    ///
    /// # Errors
    /// The image holds no PTX, or the mediator refuses it, with the reason in the log of `options` and, if the
    /// program gave none, on stderr; [`Status::CONTEXT_IS_DESTROYED`].
    pub fn load(
        driver: &Driver,
        owner: Option<&Context>,
        texts: Result<Vec<Vec<u8>>, ImageError>,
        options: &Options,
    ) -> CudaResult<Arc<Self>> {
        let texts = texts.map_err(|error| {
            refused(options, &error.to_string());
            error.status()
        })?;
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let loaded = driver.gpu.module_of(&texts).map_err(|error| {
            refused(options, &error.to_string());
            Status::from(&error)
        })?;
        options.log_nothing();
        if loaded.prints() {
            driver.note_printing();
        }
        let context = owner.map_or(CUcontext::NULL, Context::handle);
        let managed = loaded.globals().iter().filter(|global| global.is_managed);
        let share = |global| driver.gpu.share_variable(global);
        let variables: Result<Vec<SharedVariable>, _> = managed.map(share).collect();
        let variables = variables.map_err(|error| {
            refused(options, &format!("a managed variable: {error}"));
            Status::from(&error)
        })?;
        let add = || {
            let module = driver.modules.add(|handle| Self {
                handle,
                context,
                variables,
                loaded,
                functions: Mutex::new(Some(HashMap::new())),
            })?;
            for global in module.loaded.globals() {
                driver.memory.add_variable(context, module.handle, global);
            }
            Ok(module)
        };
        match owner {
            Some(owner) => owner.grow(add),
            None => add(),
        }
    }

    /// Returns the handle of its context; null for a library's.
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUmodule {
        self.handle
    }

    /// Returns its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        self.loaded.kernels()
    }

    /// Returns the function of a name.
    ///
    /// # Errors
    /// [`Status::NOT_FOUND`]; [`Status::INVALID_HANDLE`]: another thread unloaded the module.
    pub fn function(&self, driver: &Driver, name: &str) -> CudaResult<Arc<Function>> {
        let mut functions = self.functions.lock();
        let functions = functions.as_mut().ok_or(Self::UNKNOWN)?;
        if let Some(function) = functions.get(name) {
            return Ok(Arc::clone(function));
        }
        let kernel = self.loaded.kernel(name)?;
        let function = driver.functions.add(|handle| Function {
            handle,
            module: self.handle,
            context: self.context,
            name: CString::new(name).unwrap_or_default(),
            dynamic_shared_bytes: AtomicU32::new(attributes::dynamic_at_first(
                driver,
                kernel.info(),
            )),
            carveout: AtomicI32::new(-1),
            library_kernel: AtomicU64::new(0),
            kernel,
        })?;
        functions.insert(name.to_owned(), Arc::clone(&function));
        Ok(function)
    }

    /// Returns a variable.
    ///
    /// # Errors
    /// [`Status::NOT_FOUND`].
    pub fn global(&self, name: &CStr) -> CudaResult<&GlobalInfo> {
        let globals = self.loaded.globals();
        let found = globals
            .iter()
            .find(|global| global.name.as_bytes() == name.to_bytes());
        found.ok_or(Status::NOT_FOUND)
    }

    /// Takes a module from the program: its functions and variables are unknown from now on.
    ///
    /// # Errors
    /// [`Status::INVALID_HANDLE`]: another thread did.
    pub(crate) fn take(driver: &Driver, module: CUmodule) -> CudaResult {
        let module = driver.modules.remove(module)?;
        let mine = module.handle;
        // No function is added from here on.
        drop(module.functions.lock().take());
        drop(
            driver
                .functions
                .remove_all(|function| function.module == mine),
        );
        driver.memory.forget_module(mine);
        Ok(())
    }
}

impl Function {
    /// Returns the handle of its context; null for a library's.
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUfunction {
        self.handle
    }

    /// Returns the bits of the handle of the library's kernel that it is; 0 for a module's function.
    #[must_use]
    pub fn library_kernel(&self) -> u64 {
        // Relaxed: a number, set before the program has the kernel's handle.
        self.library_kernel.load(Ordering::Relaxed)
    }

    /// Notes that it is a library's kernel.
    pub fn set_library_kernel(&self, bits: u64) {
        // Relaxed: as in `library_kernel`.
        self.library_kernel.store(bits, Ordering::Relaxed);
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns what the kernel takes and uses.
    #[must_use]
    pub fn info(&self) -> &KernelInfo {
        self.kernel.info()
    }
}

/// Says why an image was refused, in the program's log or, without one, on stderr.
pub(crate) fn refused(options: &Options, why: &str) {
    if !options.log_error(why) {
        report::say(format_args!("module refused: {why}"));
    }
}

fn load_file(place: Out<CUmodule>, path: &'static CStr) -> CudaResult {
    let (driver, context) = usable()?;
    let texts = image::ptx_of(&image::read_file(path)?, driver.capability());
    let module = Module::load(driver, Some(&context), texts, &Options::default())?;
    place.set(module.handle);
    Ok(())
}

fn load_data(place: Out<CUmodule>, image: *const c_void) -> CudaResult {
    load(&place, image, &Options::default())
}

fn load_data_ex(
    place: Out<CUmodule>,
    image: *const c_void,
    count: c_uint,
    options: Option<Out<c_uint>>,
    values: Option<Out<*mut c_void>>,
) -> CudaResult {
    load(&place, image, &Options::read(count, options, values)?)
}

fn load(place: &Out<CUmodule>, image: *const c_void, options: &Options) -> CudaResult {
    let (driver, context) = usable()?;
    // SAFETY: the program passes an image, as the C declaration asks.
    let texts = unsafe { image::ptx_at(image, driver.capability()) };
    let module = Module::load(driver, Some(&context), texts, options)?;
    place.set(module.handle);
    Ok(())
}

fn unload(module: CUmodule) -> CudaResult {
    let driver = Driver::get()?;
    current()?;
    // A library's module goes with the library.
    if driver.modules.get(module)?.context.is_null() {
        return Err(Status::NOT_PERMITTED);
    }
    Module::take(driver, module)
}

fn get_function(place: Out<CUfunction>, module: Arc<Module>, name: &'static CStr) -> CudaResult {
    let (driver, _) = usable()?;
    let name = name.to_str().map_err(|_| Status::NOT_FOUND)?;
    place.set(module.function(driver, name)?.handle);
    Ok(())
}

fn get_global(
    address: Option<Out<u64>>,
    bytes: Option<Out<usize>>,
    module: Arc<Module>,
    name: &'static CStr,
) -> CudaResult {
    usable()?;
    tell_global(&module, name, address.as_ref(), bytes.as_ref())
}

/// Writes address and size of a variable, one of which may be left out.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there is a place for neither; [`Status::NOT_FOUND`].
pub(crate) fn tell_global(
    module: &Module,
    name: &CStr,
    address: Option<&Out<u64>>,
    bytes: Option<&Out<usize>>,
) -> CudaResult {
    if address.is_none() && bytes.is_none() {
        return Err(Status::INVALID_VALUE);
    }
    let global = module.global(name)?;
    Out::set_if(address, global.address);
    Out::set_if(bytes, usize::try_from(global.bytes).unwrap_or(usize::MAX));
    Ok(())
}

fn function_count(count: Out<c_uint>, module: Arc<Module>) -> CudaResult {
    count.set(c_uint::try_from(module.kernels().len()).unwrap_or(c_uint::MAX));
    Ok(())
}

fn enumerate(functions: Out<CUfunction>, count: c_uint, module: Arc<Module>) -> CudaResult {
    let (driver, _) = usable()?;
    for (index, kernel) in module.kernels().iter().take(count as usize).enumerate() {
        functions.set_at(index, module.function(driver, &kernel.name)?.handle);
    }
    Ok(())
}

/// Tells a program the mode that `CUDA_MODULE_LOADING` asks for; kernels are compiled when their module is loaded,
/// whatever that is.
fn loading_mode(mode: Out<c_uint>) -> CudaResult {
    const EAGER: c_uint = 1;
    const LAZY: c_uint = 2;
    let asked = std::env::var("CUDA_MODULE_LOADING");
    let is_eager = asked.is_ok_and(|mode| mode.eq_ignore_ascii_case("EAGER"));
    mode.set(if is_eager { EAGER } else { LAZY });
    Ok(())
}

fn module_of(place: Out<CUmodule>, NotNull(function): NotNull<Function>) -> CudaResult {
    place.set(function.module);
    Ok(())
}
