//! Launches: the configuration that nvcc's host code pushes before it calls a stub, and the launch that the stub makes.

use crate::api::{DefaultStream, runtime_api};
use crate::border::{FromC, Place, guard};
use crate::current::{chosen, ready};
use crate::driver::{Driver, HostFunction, StreamCallback};
use crate::registration;
use crate::status::{CudaResult, Status};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};

/// Blocks of a grid, or threads of a block, in x, y and z (`dim3`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

impl Dim3 {
    /// One block or thread.
    pub const ONE: Self = Self { x: 1, y: 1, z: 1 };
}

/// A launch's configuration (`cudaLaunchConfig_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

/// The same for the driver (`CUlaunchConfig`), whose attributes have the same layout.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    stream: u64,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

runtime_api! {
    cudaLaunchKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared_bytes: usize, stream: u64,
    ) | cudaLaunchKernel_ptsz => launch;
    __cudaLaunchKernel(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared_bytes: usize, stream: u64,
    ) | __cudaLaunchKernel_ptsz => launch;
    cudaLaunchCooperativeKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared_bytes: usize, stream: u64,
    ) | cudaLaunchCooperativeKernel_ptsz => launch_cooperative;
    cudaLaunchKernelExC(config: *const LaunchConfig, stub: *const c_void, arguments: *mut *mut c_void)
        | cudaLaunchKernelExC_ptsz => launch_ex;
    cudaLaunchHostFunc(stream: u64, function: HostFunction, data: *mut c_void)
        | cudaLaunchHostFunc_ptsz => host_function;
    cudaLaunchHostFunc_v2(stream: u64, function: HostFunction, data: *mut c_void, mode: c_uint)
        | cudaLaunchHostFunc_v2_ptsz => host_function_with_mode;
    cudaStreamAddCallback(stream: u64, function: StreamCallback, data: *mut c_void, flags: c_uint)
        | cudaStreamAddCallback_ptsz => callback;
    __cudaPopCallConfiguration(
        grid: *mut Dim3, block: *mut Dim3, shared_bytes: *mut usize, stream: *mut u64,
    ) => pop;
}

/// What one launch is configured with.
type Configuration = (Dim3, Dim3, usize, u64);

thread_local! {
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Does something with the thread's configurations.
///
/// # Errors
/// [`Status::UNLOADING`]: the thread ends and has none any more, as where a destructor launches.
fn with_pushed<T>(act: impl FnOnce(&mut Vec<Configuration>) -> T) -> CudaResult<T> {
    let done = PUSHED.try_with(|pushed| act(&mut pushed.borrow_mut()));
    done.map_err(|_| Status::UNLOADING)
}

/// `__cudaPushCallConfiguration` of nvcc's host code; 0 lets it call the stub.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
) -> c_uint {
    guard(|| with_pushed(|pushed| pushed.push((grid, block, shared_bytes, stream))))
}

fn pop(
    grid: Place<Dim3>,
    block: Place<Dim3>,
    shared_bytes: Place<usize>,
    stream: Place<u64>,
) -> CudaResult {
    let popped = with_pushed(Vec::pop)?;
    let popped = popped.ok_or(Status::MISSING_CONFIGURATION)?;
    grid.set(popped.0)?;
    block.set(popped.1)?;
    shared_bytes.set(popped.2)?;
    stream.set(popped.3)
}

fn launch(
    default: DefaultStream,
    stub: Place<c_void>,
    grid: Dim3,
    block: Dim3,
    arguments: Place<*mut c_void>,
    shared_bytes: usize,
    stream: u64,
) -> CudaResult {
    let driver = ready()?;
    let kernel = registration::kernel(driver, stub.as_ptr().addr())?;
    let launched = driver.cuLaunchKernel(
        kernel,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        dynamic(shared_bytes)?,
        default.resolve(stream),
        arguments,
        Place::NONE,
    );
    launched.map_err(|status| of_launch(driver, kernel, (grid, block, shared_bytes), status))
}

fn launch_cooperative(
    default: DefaultStream,
    stub: Place<c_void>,
    grid: Dim3,
    block: Dim3,
    arguments: Place<*mut c_void>,
    shared_bytes: usize,
    stream: u64,
) -> CudaResult {
    let driver = ready()?;
    let kernel = registration::kernel(driver, stub.as_ptr().addr())?;
    let launched = driver.cuLaunchCooperativeKernel(
        kernel,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        dynamic(shared_bytes)?,
        default.resolve(stream),
        arguments,
    );
    launched.map_err(|status| of_launch(driver, kernel, (grid, block, shared_bytes), status))
}

fn launch_ex(
    default: DefaultStream,
    config: Place<LaunchConfig>,
    stub: Place<c_void>,
    arguments: Place<*mut c_void>,
) -> CudaResult {
    let driver = ready()?;
    let asked = config.get()?;
    let kernel = registration::kernel(driver, stub.as_ptr().addr())?;
    let mut config = DriverConfig {
        grid: asked.grid,
        block: asked.block,
        shared_bytes: dynamic(asked.shared_bytes)?,
        stream: default.resolve(asked.stream),
        attributes: asked.attributes,
        attribute_count: asked.attribute_count,
    };
    let launched = driver.cuLaunchKernelEx(Place::to(&mut config), kernel, arguments, Place::NONE);
    let shape = (asked.grid, asked.block, asked.shared_bytes);
    launched.map_err(|status| of_launch(driver, kernel, shape, status))
}

fn dynamic(shared_bytes: usize) -> CudaResult<c_uint> {
    c_uint::try_from(shared_bytes).map_err(|_| Status::INVALID_VALUE)
}

/// Returns the code of this API for a launch that the driver refuses: it has codes of its own for what no launch on the
/// device may have, and for what is no kernel.
fn of_launch(driver: &Driver, kernel: u64, shape: (Dim3, Dim3, usize), status: Status) -> Status {
    let mut name = std::ptr::null();
    match status {
        Status::INVALID_VALUE if is_beyond_the_device(driver, shape) => {
            Status::INVALID_CONFIGURATION
        }
        Status::INVALID_HANDLE if driver.cuFuncGetName(Place::to(&mut name), kernel).is_err() => {
            Status::INVALID_DEVICE_FUNCTION
        }
        status => status,
    }
}

/// Returns whether a grid, a block or its shared memory is such as the device never has it.
fn is_beyond_the_device(driver: &Driver, (grid, block, shared_bytes): (Dim3, Dim3, usize)) -> bool {
    // CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X and _Y and _Z, then MAX_GRID_DIM_X and so on.
    const SIZES: [c_int; 6] = [2, 3, 4, 5, 6, 7];
    const THREADS: c_int = 1;
    const SHARED_BYTES: c_int = 97;
    let most = |attribute| {
        let mut most = 0;
        let asked = driver.cuDeviceGetAttribute(Place::to(&mut most), attribute, chosen());
        asked
            .ok()
            .and_then(|()| u64::try_from(most).ok())
            .unwrap_or(u64::MAX)
    };
    let sizes = [block.x, block.y, block.z, grid.x, grid.y, grid.z].map(u64::from);
    let threads = sizes[..3].iter().copied().fold(1, u64::saturating_mul);
    let mut sizes = sizes.into_iter().zip(SIZES);
    sizes.any(|(size, attribute)| size == 0 || size > most(attribute))
        || threads > most(THREADS)
        || shared_bytes as u64 > most(SHARED_BYTES)
}

fn host_function(
    default: DefaultStream,
    stream: u64,
    function: HostFunction,
    data: Place<c_void>,
) -> CudaResult {
    ready()?.cuLaunchHostFunc(default.resolve(stream), function, data)
}

fn host_function_with_mode(
    default: DefaultStream,
    stream: u64,
    function: HostFunction,
    data: Place<c_void>,
    mode: c_uint,
) -> CudaResult {
    ready()?.cuLaunchHostFunc_v2(default.resolve(stream), function, data, mode)
}

fn callback(
    default: DefaultStream,
    stream: u64,
    function: StreamCallback,
    data: Place<c_void>,
    flags: c_uint,
) -> CudaResult {
    ready()?.cuStreamAddCallback(default.resolve(stream), function, data, flags)
}

impl FromC<HostFunction> for HostFunction {
    unsafe fn from_c(raw: HostFunction) -> Self {
        raw
    }
}

impl FromC<StreamCallback> for StreamCallback {
    unsafe fn from_c(raw: StreamCallback) -> Self {
        raw
    }
}
