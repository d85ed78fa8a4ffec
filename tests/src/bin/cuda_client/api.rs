//! The driver library as a program finds it: the shared object, opened by its path, and the symbols in it.
//!
//! Handles and device addresses are numbers here. That is how a hostile program sees them, and every call may pass any.

use crate::arrays::{Plane, Volume};
use crate::boxes::{Planar, Spatial};
use crate::managed::Location;
use crate::textures::{Resource, Sampling};
use crate::virtual_memory::{Access, Properties};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_void};

/// A launch's configuration (`CUlaunchConfig`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: u64,
    pub(crate) attributes: *const [u32; 18],
    pub(crate) attribute_count: u32,
}

/// What holds for a copy (`CUmemcpyAttributes`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyAttributes {
    pub(crate) order: u32,
    /// The places of source and target, two words each.
    pub(crate) places: [u32; 4],
    pub(crate) flags: u32,
}

/// Properties of a memory pool (`CUmemPoolProps`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolProperties {
    pub(crate) alloc_type: u32,
    pub(crate) handle_types: u32,
    pub(crate) location_type: u32,
    pub(crate) location_id: i32,
    pub(crate) reserved: [u64; 9],
}

/// A node that launches a kernel (`CUDA_KERNEL_NODE_PARAMS_v2`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelNode {
    pub(crate) function: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) params: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    pub(crate) kernel: u64,
    pub(crate) context: u64,
}

/// A node that fills memory (`CUDA_MEMSET_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FillNode {
    pub(crate) to: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A node that calls a function (`CUDA_HOST_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostNode {
    pub(crate) function: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: *mut c_void,
}

/// A node that allocates memory (`CUDA_MEM_ALLOC_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocateNode {
    pub(crate) pool: PoolProperties,
    pub(crate) access: *const c_void,
    pub(crate) access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) address: u64,
}

/// What a context is asked for (`CUctxCreateParams`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextParameters {
    pub(crate) affinity: *const c_void,
    pub(crate) affinities: i32,
    pub(crate) graphics: *const c_void,
}

/// Declares the functions that the scenarios call.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        /// The library's functions.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[derive(Debug)]
        pub(crate) struct Cuda {
            library: Library,
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and parameters of the C API")]
        impl Cuda {
            /// Opens the library, as `libcuda.so.1` where the linker finds it.
            pub(crate) fn open() -> Self {
                let path = std::env::var_os("CUDA_LIBRARY").expect("CUDA_LIBRARY names the library");
                // SAFETY: the library's initialisers are those of a Rust library: there are none.
                let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
                let library = library.expect("the library opens");
                Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the declarations above are those of the API; the library is never closed before.
                        let found = unsafe { library.get(name.as_bytes()) };
                        *found.unwrap_or_else(|error| panic!("{error}"))
                    },)*
                    library,
                }
            }

            $(pub(crate) fn $name(&self, $($arg: $type),*) -> u32 {
                // SAFETY: scenarios pass what the C declaration asks for, or what the library must refuse without
                // following it.
                unsafe { (self.$name)($($arg),*) }
            })*
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);
    cuGetErrorName(code: u32, name: *mut *const c_char);
    cuGetErrorString(code: u32, text: *mut *const c_char);
    cuGetProcAddress_v2(name: *const c_char, address: *mut *const c_void, version: i32, flags: u64, found: *mut u32);
    cuGetProcAddress(name: *const c_char, address: *mut *const c_void, version: i32, flags: u64);
    cuDeviceGetCount(count: *mut i32);
    cuDeviceGet(device: *mut i32, ordinal: i32);
    cuDeviceGetName(name: *mut c_char, len: i32, device: i32);
    cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: i32);
    cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32);
    cuDevicePrimaryCtxRetain(context: *mut u64, device: i32);
    cuDevicePrimaryCtxRelease_v2(device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32);
    cuCtxCreate_v2(context: *mut u64, flags: u32, device: i32);
    cuCtxCreate_v4(context: *mut u64, parameters: *const ContextParameters, flags: u32, device: i32);
    cuCtxDestroy_v2(context: u64);
    cuCtxGetCurrent(context: *mut u64);
    cuCtxSetCurrent(context: u64);
    cuCtxPushCurrent_v2(context: u64);
    cuCtxPopCurrent_v2(context: *mut u64);
    cuCtxGetDevice(device: *mut i32);
    cuCtxSynchronize();
    cuCtxSetLimit(limit: u32, value: usize);
    cuCtxGetLimit(value: *mut usize, limit: u32);
    cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    cuModuleLoadData(module: *mut u64, image: *const c_void);
    cuModuleLoadDataEx(
        module: *mut u64, image: *const c_void, count: u32, options: *mut u32, values: *mut *mut c_void
    );
    cuModuleLoad(module: *mut u64, path: *const c_char);
    cuModuleUnload(module: u64);
    cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: u64, name: *const c_char);
    cuFuncGetAttribute(value: *mut i32, attribute: i32, function: u64);
    cuFuncSetAttribute(function: u64, attribute: i32, value: i32);
    cuLibraryLoadData(
        library: *mut u64, image: *const c_void, jit_options: *mut u32, jit_values: *mut *mut c_void, jit_count: u32,
        options: *mut u32, values: *mut *mut c_void, count: u32
    );
    cuLibraryGetManaged(address: *mut u64, bytes: *mut usize, library: u64, name: *const c_char);
    cuLibraryUnload(library: u64);
    cuLibraryGetKernel(kernel: *mut u64, library: u64, name: *const c_char);
    cuKernelGetParamInfo(kernel: u64, index: usize, offset: *mut usize, bytes: *mut usize);
    cuKernelGetFunction(function: *mut u64, kernel: u64);
    cuLinkCreate_v2(count: u32, options: *mut u32, values: *mut *mut c_void, link: *mut u64);
    cuLinkAddData_v2(
        link: u64, kind: u32, data: *mut c_void, bytes: usize, name: *const c_char, count: u32, options: *mut u32,
        values: *mut *mut c_void
    );
    cuLinkDestroy(link: u64);
    cuLinkComplete(link: u64, image: *mut *mut c_void, bytes: *mut usize);
    cuLaunchKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: u64, params: *mut *mut c_void, extra: *mut *mut c_void
    );
    cuLaunchCooperativeKernel(
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: u64, params: *mut *mut c_void
    );
    cuCoredumpGetAttributeGlobal(setting: u32, value: *mut c_void, bytes: *mut usize);
    cuCoredumpSetAttributeGlobal(setting: u32, value: *mut c_void, bytes: *mut usize);
    cuLaunchKernelEx(
        config: *const LaunchConfig, function: u64, params: *mut *mut c_void, extra: *mut *mut c_void
    );
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemAllocPitch_v2(address: *mut u64, pitch: *mut usize, width: usize, height: usize, element_bytes: u32);
    cuMemFree_v2(address: u64);
    cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64);
    cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: u32);
    cuMemFreeHost(memory: *mut c_void);
    cuMemHostGetFlags(flags: *mut u32, memory: *mut c_void);
    cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, flags: u32);
    cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: u32);
    cuMemHostUnregister(memory: *mut c_void);
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32);
    cuMemAdvise(address: u64, bytes: usize, advice: u32, device: i32);
    cuMemAdvise_v2(address: u64, bytes: usize, advice: u32, location: Location);
    cuMemPrefetchAsync(address: u64, bytes: usize, device: i32, stream: u64);
    cuMemPrefetchAsync_v2(address: u64, bytes: usize, location: Location, flags: u32, stream: u64);
    cuMemPrefetchBatchAsync(
        addresses: *const u64, bytes: *const usize, count: usize, places: *const Location, firsts: *const usize,
        place_count: usize, flags: u64, stream: u64
    );
    cuMemDiscardBatchAsync(addresses: *const u64, bytes: *const usize, count: usize, flags: u64, stream: u64);
    cuMemDiscardAndPrefetchBatchAsync(
        addresses: *const u64, bytes: *const usize, count: usize, places: *const Location, firsts: *const usize,
        place_count: usize, flags: u64, stream: u64
    );
    cuMemRangeGetAttribute(value: *mut c_void, value_bytes: usize, attribute: u32, address: u64, bytes: usize);
    cuMemRangeGetAttributes(
        values: *mut *mut c_void, sizes: *mut usize, attributes: *mut u32, count: usize, address: u64, bytes: usize
    );
    cuStreamAttachMemAsync(stream: u64, address: u64, bytes: usize, flags: u32);
    cuArrayCreate_v2(array: *mut u64, plane: *const Plane);
    cuArrayGetDescriptor_v2(plane: *mut Plane, array: u64);
    cuArray3DCreate_v2(array: *mut u64, volume: *const Volume);
    cuArray3DGetDescriptor_v2(volume: *mut Volume, array: u64);
    cuArrayDestroy(array: u64);
    cuMemcpyHtoA_v2(to: u64, offset: usize, from: *const c_void, bytes: usize);
    cuMemcpyAtoH_v2(to: *mut c_void, from: u64, offset: usize, bytes: usize);
    cuMemcpyDtoA_v2(to: u64, offset: usize, from: u64, bytes: usize);
    cuMemcpyAtoD_v2(to: u64, from: u64, offset: usize, bytes: usize);
    cuMemcpyAtoA_v2(to: u64, to_offset: usize, from: u64, from_offset: usize, bytes: usize);
    cuMemcpyAtoHAsync_v2(to: *mut c_void, from: u64, offset: usize, bytes: usize, stream: u64);
    cuTexObjectCreate(texture: *mut u64, texels: *const Resource, how: *const Sampling, view: *const c_void);
    cuTexObjectDestroy(texture: u64);
    cuTexObjectGetResourceDesc(texels: *mut Resource, texture: u64);
    cuTexObjectGetTextureDesc(how: *mut Sampling, texture: u64);
    cuSurfObjectCreate(surface: *mut u64, texels: *const Resource);
    cuSurfObjectDestroy(surface: u64);
    cuSurfObjectGetResourceDesc(texels: *mut Resource, surface: u64);
    cuMemAddressReserve(address: *mut u64, bytes: usize, align: usize, wish: u64, flags: u64);
    cuMemAddressFree(address: u64, bytes: usize);
    cuMemCreate(handle: *mut u64, bytes: usize, properties: *const Properties, flags: u64);
    cuMemRelease(handle: u64);
    cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
    cuMemUnmap(address: u64, bytes: usize);
    cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize);
    cuMemGetAccess(flags: *mut u64, location: *const Location, address: u64);
    cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const Properties, option: u32);
    cuMemGetAllocationPropertiesFromHandle(properties: *mut Properties, handle: u64);
    cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void);
    cuMemcpy(to: u64, from: u64, bytes: usize);
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyBatchAsync(
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, attributes: *const CopyAttributes,
        firsts: *const usize, kinds: usize, failed: *mut usize, stream: u64
    );
    cuMemcpyBatchAsync_v2(
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, attributes: *const CopyAttributes,
        firsts: *const usize, kinds: usize, stream: u64
    );
    cuMemcpyWithAttributesAsync(to: u64, from: u64, bytes: usize, attributes: *const CopyAttributes, stream: u64);
    cuMemcpy2D_v2(copy: *const Planar);
    cuMemcpy2DUnaligned_v2(copy: *const Planar);
    cuMemcpy2DAsync_v2(copy: *const Planar, stream: u64);
    cuMemcpy3D_v2(copy: *const Spatial);
    cuMemcpy3DAsync_v2(copy: *const Spatial, stream: u64);
    cuMemsetD8_v2(to: u64, value: u8, count: usize);
    cuMemsetD16_v2(to: u64, value: u16, count: usize);
    cuMemsetD32_v2(to: u64, value: u32, count: usize);
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: u64);
    cuMemsetD2D32_v2(to: u64, pitch: usize, value: u32, width: usize, height: usize);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: u64);
    cuMemFreeAsync(address: u64, stream: u64);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: u64, stream: u64);
    cuDeviceGetDefaultMemPool(pool: *mut u64, device: i32);
    cuMemPoolCreate(pool: *mut u64, properties: *const PoolProperties);
    cuMemGetDefaultMemPool(pool: *mut u64, location: *const [u32; 2], kind: u32);
    cuMemGetMemPool(pool: *mut u64, location: *const [u32; 2], kind: u32);
    cuMemSetMemPool(location: *const [u32; 2], kind: u32, pool: u64);
    cuMemPoolDestroy(pool: u64);
    cuMemPoolTrimTo(pool: u64, keep: usize);
    cuMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut c_void);
    cuMemPoolSetAttribute(pool: u64, attribute: u32, value: *mut c_void);
    cuPointerGetAttribute(value: *mut c_void, attribute: u32, address: u64);
    cuStreamCreate(stream: *mut u64, flags: u32);
    cuStreamCreateWithPriority(stream: *mut u64, flags: u32, priority: i32);
    cuStreamDestroy_v2(stream: u64);
    cuStreamQuery(stream: u64);
    cuStreamSynchronize(stream: u64);
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32);
    cuLaunchHostFunc(stream: u64, function: Option<extern "C" fn(*mut c_void)>, data: *mut c_void);
    cuStreamAddCallback(
        stream: u64, callback: Option<extern "C" fn(u64, u32, *mut c_void)>, data: *mut c_void, flags: u32
    );
    cuStreamGetPriority(stream: u64, priority: *mut i32);
    cuStreamGetFlags(stream: u64, flags: *mut u32);
    cuStreamGetId(stream: u64, id: *mut u64);
    cuStreamGetCtx(stream: u64, context: *mut u64);
    cuEventCreate(event: *mut u64, flags: u32);
    cuEventDestroy_v2(event: u64);
    cuEventRecord(event: u64, stream: u64);
    cuEventQuery(event: u64);
    cuEventSynchronize(event: u64);
    cuEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64);
    cuEventRecordWithFlags(event: u64, stream: u64, flags: u32);
    cuGraphCreate(graph: *mut u64, flags: u32);
    cuGraphDestroy(graph: u64);
    cuGraphClone(copy: *mut u64, original: u64);
    cuGraphNodeFindInClone(found: *mut u64, original: u64, copy: u64);
    cuGraphNodeGetType(node: u64, kind: *mut u32);
    cuGraphDestroyNode(node: u64);
    cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize);
    cuGraphGetRootNodes(graph: u64, nodes: *mut u64, count: *mut usize);
    cuGraphGetEdges_v2(graph: u64, from: *mut u64, to: *mut u64, data: *mut [u8; 8], count: *mut usize);
    cuGraphNodeGetDependencies(node: u64, nodes: *mut u64, count: *mut usize);
    cuGraphAddDependencies(graph: u64, from: *const u64, to: *const u64, count: usize);
    cuGraphAddDependencies_v2(graph: u64, from: *const u64, to: *const u64, data: *const [u8; 8], count: usize);
    cuGraphRemoveDependencies(graph: u64, from: *const u64, to: *const u64, count: usize);
    cuGraphAddEmptyNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize);
    cuGraphAddKernelNode_v2(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const KernelNode
    );
    cuGraphKernelNodeGetParams_v2(node: u64, params: *mut KernelNode);
    cuGraphKernelNodeSetParams_v2(node: u64, params: *const KernelNode);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, params: *const KernelNode);
    cuGraphAddMemcpyNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, copy: *const Spatial, context: u64
    );
    cuGraphAddMemsetNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const FillNode, context: u64
    );
    cuGraphMemsetNodeGetParams(node: u64, params: *mut FillNode);
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, params: *const FillNode, context: u64);
    cuGraphAddHostNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const HostNode
    );
    cuGraphAddChildGraphNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, child: u64);
    cuGraphChildGraphNodeGetGraph(node: u64, graph: *mut u64);
    cuGraphAddEventRecordNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64);
    cuGraphAddEventWaitNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64);
    cuGraphAddMemAllocNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *mut AllocateNode
    );
    cuGraphAddMemFreeNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, address: u64);
    cuDeviceGraphMemTrim(device: i32);
    cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void);
    cuGraphAddNode_v2(
        node: *mut u64, graph: u64, dependencies: *const u64, data: *const [u8; 8], count: usize,
        params: *mut [u64; 32]
    );
    cuGraphInstantiateWithFlags(executable: *mut u64, graph: u64, flags: u64);
    cuGraphExecDestroy(executable: u64);
    cuGraphExecUpdate_v2(executable: u64, graph: u64, info: *mut [u64; 3]);
    cuGraphNodeSetEnabled(executable: u64, node: u64, enabled: u32);
    cuGraphNodeGetEnabled(executable: u64, node: u64, enabled: *mut u32);
    cuGraphUpload(executable: u64, stream: u64);
    cuGraphLaunch(executable: u64, stream: u64);
    cuGraphDebugDotPrint(graph: u64, path: *const c_char, flags: u32);
    cuUserObjectCreate(
        object: *mut u64, data: *mut c_void, destructor: Option<extern "C" fn(*mut c_void)>, count: u32, flags: u32
    );
    cuUserObjectRetain(object: u64, count: u32);
    cuUserObjectRelease(object: u64, count: u32);
    cuGraphRetainUserObject(graph: u64, object: u64, count: u32, flags: u32);
    cuGraphReleaseUserObject(graph: u64, object: u64, count: u32);
    cuStreamBeginCapture_v2(stream: u64, mode: u32);
    cuStreamBeginCaptureToGraph(
        stream: u64, graph: u64, dependencies: *const u64, data: *const [u8; 8], count: usize, mode: u32
    );
    cuStreamEndCapture(stream: u64, graph: *mut u64);
    cuStreamIsCapturing(stream: u64, status: *mut u32);
    cuStreamGetCaptureInfo_v2(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, dependencies: *mut *const u64, count: *mut usize
    );
    cuStreamUpdateCaptureDependencies(stream: u64, dependencies: *const u64, count: usize, flags: u32);
    cuThreadExchangeStreamCaptureMode(mode: *mut u32);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: u64, threads: i32, shared: usize);
    cuOccupancyMaxPotentialBlockSize(
        min_grid: *mut i32, threads: *mut i32, function: u64, shared_of: Option<unsafe extern "C" fn(i32) -> usize>,
        shared: usize, most: i32
    );
    cuOccupancyAvailableDynamicSMemPerBlock(shared: *mut usize, function: u64, blocks: i32, threads: i32);
}

/// A function of the API of which nothing is known but its name. On the machines that gridmux runs on, a caller may
/// pass more arguments than a function takes.
type Any = unsafe extern "C" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> u32;

/// Calls a symbol of a library with some arguments, integers and addresses; what it takes beyond these is 0.
pub(crate) fn call_in(library: &Library, symbol: &str, arguments: &[usize]) -> u32 {
    // SAFETY: every symbol of the API is a function of integers and pointers, at most twelve of them.
    let function = unsafe { library.get::<Any>(symbol.as_bytes()) };
    let function = function.unwrap_or_else(|error| panic!("{symbol}: {error}"));
    let mut all = [0; 12];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f, g, h, i, j, k, l] = all;
    // SAFETY: the library must refuse null and unaligned pointers; others point to memory of this program.
    unsafe { function(a, b, c, d, e, f, g, h, i, j, k, l) }
}

impl Cuda {
    /// Calls a symbol with the same number for every argument.
    pub(crate) fn call(&self, symbol: &str, argument: usize) -> u32 {
        self.call_with(symbol, &[argument; 12])
    }

    /// Calls a symbol with some arguments, as [`call_in`].
    pub(crate) fn call_with(&self, symbol: &str, arguments: &[usize]) -> u32 {
        call_in(&self.library, symbol, arguments)
    }

    /// Returns whether the library exports a symbol.
    pub(crate) fn exports(&self, symbol: &str) -> bool {
        // SAFETY: nothing is called.
        unsafe { self.library.get::<Any>(symbol.as_bytes()) }.is_ok()
    }
}
