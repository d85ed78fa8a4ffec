//! The functions of the driver library that this program calls.
//!
//! Handles and device addresses are numbers here.

use super::kernel::AttributeValue;
use super::{CudaError, KernelNodeParams, LaunchConfig, Resource};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_char, c_void};

/// Declares functions with their C parameters.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// The library's functions; each is found, or not, when the library is opened.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[derive(Debug)]
        pub struct Api {
            $($name: Option<unsafe extern "C" fn($($type),*) -> u32>,)*
            /// Held last, so that it is closed behind everything that lies in it.
            _library: Library,
        }

        impl Api {
            /// Finds the functions in an opened library.
            fn of(library: Library) -> Self {
                Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the declarations below are those of the driver's API for these symbols, and the
                        // library stays open as long as the functions do.
                        unsafe { library.get(name.as_bytes()) }.ok().map(|found| *found)
                    },)*
                    _library: library,
                }
            }

            /// Returns the functions that the library lacks.
            #[must_use]
            pub fn missing(&self) -> Vec<&'static str> {
                [$((stringify!($name), self.$name.is_some()),)*]
                    .into_iter()
                    .filter_map(|(name, is_there)| (!is_there).then_some(name))
                    .collect()
            }
        }

        #[allow(
            non_snake_case, clippy::too_many_arguments,  clippy::missing_safety_doc,
            missing_docs, reason = "the functions are those of the C API, which documents them"
        )]
        impl Api {
            $(pub unsafe fn $name(&self, $($arg: $type),*) -> Result<(), CudaError> {
                let call = stringify!($name);
                let function = self.$name.ok_or(CudaError::Missing { call })?;
                // SAFETY: the caller passes what the C declaration asks for.
                let code = unsafe { function($($arg),*) };
                match code {
                    0 => Ok(()),
                    code => Err(CudaError::Refused { call, code, name: self.name_of(code) }),
                }
            })*
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);
    cuGetErrorName(code: u32, name: *mut *const c_char);
    cuDeviceGet(device: *mut i32, ordinal: i32);
    cuDeviceGetName(name: *mut c_char, bytes: i32, device: i32);
    cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32);
    cuDevicePrimaryCtxRetain(context: *mut u64, device: i32);
    cuCtxSetCurrent(context: u64);
    cuCtxSynchronize();
    cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    cuModuleLoadDataEx(
        module: *mut u64, image: *const c_void, count: u32, options: *mut u32, values: *mut *mut c_void,
    );
    cuModuleUnload(module: u64);
    cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char);
    cuFuncGetAttribute(value: *mut i32, attribute: i32, function: u64);
    cuFuncSetAttribute(function: u64, attribute: i32, value: i32);
    cuFuncGetParamInfo(function: u64, index: usize, offset: *mut usize, bytes: *mut usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: u64, threads: i32, shared: usize);
    cuLaunchKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: u64, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuLaunchKernelEx(
        config: *const LaunchConfig, function: u64, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemFree_v2(address: u64);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: u64);
    cuMemFreeAsync(address: u64, stream: u64);
    cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: u32);
    cuMemFreeHost(memory: *mut c_void);
    cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, flags: u32);
    cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: u32);
    cuMemHostUnregister(memory: *mut c_void);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64);
    cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64);
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: u64);
    cuStreamCreateWithPriority(stream: *mut u64, flags: u32, priority: i32);
    cuStreamDestroy_v2(stream: u64);
    cuStreamSynchronize(stream: u64);
    cuStreamQuery(stream: u64);
    cuStreamWriteValue32_v2(stream: u64, address: u64, value: u32, flags: u32);
    cuStreamBeginCapture_v2(stream: u64, mode: u32);
    cuStreamEndCapture(stream: u64, graph: *mut u64);
    cuGraphCreate(graph: *mut u64, flags: u32);
    cuGraphDestroy(graph: u64);
    cuGraphAddKernelNode_v2(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const KernelNodeParams,
    );
    cuGraphKernelNodeSetAttribute(node: u64, attribute: u32, value: *const AttributeValue);
    cuGraphInstantiateWithFlags(executable: *mut u64, graph: u64, flags: u64);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, params: *const KernelNodeParams);
    cuGraphExecDestroy(executable: u64);
    cuGraphUpload(executable: u64, stream: u64);
    cuGraphLaunch(executable: u64, stream: u64);
    cuEventCreate(event: *mut u64, flags: u32);
    cuEventDestroy_v2(event: u64);
    cuEventRecord(event: u64, stream: u64);
    cuEventQuery(event: u64);
    cuEventSynchronize(event: u64);
    cuEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64);
    cuDeviceGetDevResource(device: i32, resource: *mut Resource, kind: u32);
    cuDevSmResourceSplitByCount(
        groups: *mut Resource, count: *mut u32, input: *const Resource, rest: *mut Resource, flags: u32, least: u32,
    );
    cuDevResourceGenerateDesc(descriptor: *mut u64, resources: *mut Resource, count: u32);
    cuGreenCtxCreate(context: *mut u64, descriptor: u64, device: i32, flags: u32);
    cuGreenCtxDestroy(context: u64);
    cuGreenCtxStreamCreate(stream: *mut u64, context: u64, flags: u32, priority: i32);
    cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, at: u64, flags: u64);
    cuMemCreate(handle: *mut u64, bytes: usize, properties: *const c_void, flags: u64);
    cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
    cuMemSetAccess(address: u64, bytes: usize, access: *const c_void, count: usize);
}

/// The driver library could not be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the driver library {library}: {why}; install NVIDIA's driver, or name a library with --library PATH \
     or in GRIDMUX_LIBCUDA; without a GPU, `gridmux run --timed -- gridmux-gpu-check --scale quick` runs it on the \
     SM model"
)]
pub struct CannotOpen {
    library: String,
    why: libloading::Error,
}

impl Api {
    /// Opens a driver library: a file's path, or a name that the system's linker finds.
    ///
    /// # Errors
    /// [`CannotOpen`].
    pub fn open(library: &OsStr) -> Result<Self, CannotOpen> {
        // SAFETY: a driver library has no initialiser that could be at odds with this program, which has done nothing
        // else yet.
        let opened = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
        opened.map(Self::of).map_err(|why| CannotOpen {
            library: library.display().to_string(),
            why,
        })
    }

    /// Returns the name of a code.
    fn name_of(&self, code: u32) -> String {
        let mut name = std::ptr::null();
        if let Some(function) = self.cuGetErrorName {
            // SAFETY: it writes a pointer to a text that lives as long as the library.
            unsafe { function(code, &mut name) };
        }
        if name.is_null() {
            return "an unknown error".to_owned();
        }
        // SAFETY: the driver's text ends with a zero.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }
}
