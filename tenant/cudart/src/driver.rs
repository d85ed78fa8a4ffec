//! The driver library that the process finds, and the functions of it that this library calls.
//!
//! Rule: it is opened at the first need and stays. A driver without one of the functions answers
//! `cudaErrorNotSupported` where that is needed; one without the first of them is no driver.

use crate::border::Place;
use crate::status::{CudaResult, Status};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Names under which it is looked for.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// A function of the program's that the driver calls (`CUhostFn`).
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// A function of the program's that the driver calls with a stream and a code (`CUstreamCallback`).
pub type StreamCallback = Option<unsafe extern "C" fn(u64, u32, *mut c_void)>;

/// Declares the functions.
macro_rules! driver_functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[derive(Debug)]
        pub struct Driver {
            _library: Library,
            $($name: Option<unsafe extern "C" fn($($type),*) -> u32>,)*
        }

        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[allow(clippy::too_many_arguments, reason = "the C functions' parameters")]
        impl Driver {
            fn of(library: Library) -> Self {
                $(
                    // SAFETY: the type is that of the function's C declaration; `Place` is a pointer.
                    let $name = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                    let $name = $name.ok().map(|found| *found);
                )*
                Self {
                    _library: library,
                    $($name,)*
                }
            }

            $(
                /// Calls the function of this name.
                ///
                /// # Errors
                /// Its code; [`Status::NOT_SUPPORTED`]: the driver has no such function.
                pub fn $name(&self, $($arg: $type),*) -> CudaResult {
                    let function = self.$name.ok_or(Status::NOT_SUPPORTED)?;
                    // SAFETY: every place is good for what its declaration asks for, as `Place` promises; the driver
                    // checks handles and device addresses, which are numbers.
                    Status::of_driver(unsafe { function($($arg),*) })
                }
            )*
        }
    };
}

driver_functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: Place<c_int>);
    cuGetErrorString(code: u32, text: Place<*const c_char>);
    cuGetProcAddress_v2(
        name: Place<c_char>, address: Place<*mut c_void>, version: c_int, flags: u64, found: Place<c_uint>,
    );
    cuDeviceGetCount(count: Place<c_int>);
    cuDeviceGet(device: Place<c_int>, ordinal: c_int);
    cuDeviceGetName(name: Place<c_char>, bytes: c_int, device: c_int);
    cuDeviceGetAttribute(value: Place<c_int>, attribute: c_int, device: c_int);
    cuDeviceTotalMem_v2(bytes: Place<usize>, device: c_int);
    cuDeviceGetUuid_v2(uuid: Place<[u8; 16]>, device: c_int);
    cuDeviceGetPCIBusId(text: Place<c_char>, bytes: c_int, device: c_int);
    cuDeviceGetByPCIBusId(device: Place<c_int>, text: Place<c_char>);
    cuDeviceCanAccessPeer(can: Place<c_int>, device: c_int, peer: c_int);
    cuDeviceGetP2PAttribute(value: Place<c_int>, attribute: c_int, device: c_int, peer: c_int);
    cuDevicePrimaryCtxRetain(context: Place<u64>, device: c_int);
    cuDevicePrimaryCtxReset_v2(device: c_int);
    cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint);
    cuDevicePrimaryCtxGetState(device: c_int, flags: Place<c_uint>, active: Place<c_int>);
    cuCtxGetCurrent(context: Place<u64>);
    cuCtxSetCurrent(context: u64);
    cuCtxGetDevice(device: Place<c_int>);
    cuCtxSynchronize();
    cuCtxGetLimit(value: Place<usize>, limit: c_int);
    cuCtxSetLimit(limit: c_int, value: usize);
    cuCtxGetCacheConfig(config: Place<c_int>);
    cuCtxSetCacheConfig(config: c_int);
    cuCtxGetStreamPriorityRange(least: Place<c_int>, greatest: Place<c_int>);
    cuCtxResetPersistingL2Cache();
    cuCtxGetSharedMemConfig(config: Place<c_int>);
    cuCtxSetSharedMemConfig(config: c_int);
    cuMemGetInfo_v2(free: Place<usize>, total: Place<usize>);
    cuMemAlloc_v2(address: Place<u64>, bytes: usize);
    cuMemAllocPitch_v2(address: Place<u64>, pitch: Place<usize>, width: usize, height: usize, element: c_uint);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(memory: Place<u64>, bytes: usize, flags: c_uint);
    cuMemFreeHost(memory: u64);
    cuMemHostRegister_v2(memory: u64, bytes: usize, flags: c_uint);
    cuMemHostUnregister(memory: u64);
    cuMemHostGetFlags(flags: Place<c_uint>, memory: u64);
    cuMemHostGetDevicePointer_v2(address: Place<u64>, memory: u64, flags: c_uint);
    cuPointerGetAttributes(count: c_uint, attributes: Place<c_uint>, values: Place<*mut c_void>, address: u64);
    cuMemAllocManaged(address: Place<u64>, bytes: usize, flags: c_uint);
    cuMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int);
    cuMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: crate::managed::Location);
    cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: u64);
    cuMemPrefetchAsync_v2(
        address: u64, bytes: usize, location: crate::managed::Location, flags: c_uint, stream: u64,
    );
    cuMemRangeGetAttribute(data: Place<c_void>, data_bytes: usize, attribute: c_int, address: u64, bytes: usize);
    cuMemRangeGetAttributes(
        data: Place<*mut c_void>, data_bytes: Place<usize>, attributes: Place<c_int>, count: usize, address: u64,
        bytes: usize,
    );
    cuStreamAttachMemAsync(stream: u64, address: u64, bytes: usize, flags: c_uint);
    cuArray3DCreate_v2(array: Place<u64>, volume: Place<crate::array::Volume>);
    cuArray3DGetDescriptor_v2(volume: Place<crate::array::Volume>, array: u64);
    cuArrayDestroy(array: u64);
    cuTexObjectCreate(
        texture: Place<u64>, texels: Place<crate::texture::DriverTexels>, how: Place<crate::texture::DriverSampling>,
        view: Place<crate::texture::DriverView>,
    );
    cuTexObjectDestroy(texture: u64);
    cuTexObjectGetResourceDesc(texels: Place<crate::texture::DriverTexels>, texture: u64);
    cuTexObjectGetTextureDesc(how: Place<crate::texture::DriverSampling>, texture: u64);
    cuTexObjectGetResourceViewDesc(view: Place<crate::texture::DriverView>, texture: u64);
    cuSurfObjectCreate(surface: Place<u64>, texels: Place<crate::texture::DriverTexels>);
    cuSurfObjectDestroy(surface: u64);
    cuSurfObjectGetResourceDesc(texels: Place<crate::texture::DriverTexels>, surface: u64);
    cuDeviceGetTexture1DLinearMaxWidth(texels: Place<usize>, format: c_uint, channels: c_uint, device: c_int);
    cuMemcpy(to: u64, from: u64, bytes: usize);
    cuMemcpy_ptds(to: u64, from: u64, bytes: usize);
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoD_v2_ptds(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoH_v2_ptds(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64);
    cuMemcpyBatchAsync(
        to: Place<u64>, from: Place<u64>, bytes: Place<usize>, count: usize, attributes: Place<c_void>,
        firsts: Place<usize>, kinds: usize, failed: Place<usize>, stream: u64,
    );
    cuMemcpyBatchAsync_v2(
        to: Place<u64>, from: Place<u64>, bytes: Place<usize>, count: usize, attributes: Place<c_void>,
        firsts: Place<usize>, kinds: usize, stream: u64,
    );
    cuMemcpyWithAttributesAsync(to: u64, from: u64, bytes: usize, attributes: Place<c_void>, stream: u64);
    cuMemcpy2D_v2(copy: Place<crate::copy::Planar>);
    cuMemcpy2D_v2_ptds(copy: Place<crate::copy::Planar>);
    cuMemcpy2DAsync_v2(copy: Place<crate::copy::Planar>, stream: u64);
    cuMemcpy3D_v2(copy: Place<crate::copy::Spatial>);
    cuMemcpy3D_v2_ptds(copy: Place<crate::copy::Spatial>);
    cuMemcpy3DAsync_v2(copy: Place<crate::copy::Spatial>, stream: u64);
    cuMemsetD8_v2(to: u64, value: u8, count: usize);
    cuMemsetD8_v2_ptds(to: u64, value: u8, count: usize);
    cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64);
    cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D8_v2_ptds(to: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64);
    cuMemAllocAsync(address: Place<u64>, bytes: usize, stream: u64);
    cuMemAllocFromPoolAsync(address: Place<u64>, bytes: usize, pool: u64, stream: u64);
    cuMemFreeAsync(address: u64, stream: u64);
    cuDeviceGetDefaultMemPool(pool: Place<u64>, device: c_int);
    cuDeviceGetMemPool(pool: Place<u64>, device: c_int);
    cuDeviceSetMemPool(device: c_int, pool: u64);
    cuMemPoolCreate(pool: Place<u64>, properties: Place<c_void>);
    cuMemGetDefaultMemPool(pool: Place<u64>, location: Place<c_void>, kind: c_uint);
    cuMemGetMemPool(pool: Place<u64>, location: Place<c_void>, kind: c_uint);
    cuMemSetMemPool(location: Place<c_void>, kind: c_uint, pool: u64);
    cuMemPoolDestroy(pool: u64);
    cuMemPoolTrimTo(pool: u64, keep: usize);
    cuMemPoolGetAttribute(pool: u64, attribute: c_int, value: Place<c_void>);
    cuMemPoolSetAttribute(pool: u64, attribute: c_int, value: Place<c_void>);
    cuMemPoolGetAccess(flags: Place<c_uint>, pool: u64, location: Place<c_void>);
    cuMemPoolSetAccess(pool: u64, access: Place<c_void>, count: usize);
    cuLibraryLoadData(
        library: Place<u64>, image: Place<c_void>, jit: Place<c_int>, jit_values: Place<*mut c_void>, jit_count: c_uint,
        options: Place<c_int>, values: Place<*mut c_void>, count: c_uint,
    );
    cuLibraryLoadFromFile(
        library: Place<u64>, path: Place<c_char>, jit: Place<c_int>, jit_values: Place<*mut c_void>, jit_count: c_uint,
        options: Place<c_int>, values: Place<*mut c_void>, count: c_uint,
    );
    cuLibraryUnload(library: u64);
    cuLibraryGetKernel(kernel: Place<u64>, library: u64, name: Place<c_char>);
    cuLibraryGetGlobal(address: Place<u64>, bytes: Place<usize>, library: u64, name: Place<c_char>);
    cuLibraryGetManaged(address: Place<u64>, bytes: Place<usize>, library: u64, name: Place<c_char>);
    cuLibraryGetKernelCount(count: Place<c_uint>, library: u64);
    cuLibraryEnumerateKernels(kernels: Place<u64>, count: c_uint, library: u64);
    cuFuncGetName(name: Place<*const c_char>, function: u64);
    cuKernelGetFunction(function: Place<u64>, kernel: u64);
    cuKernelGetName(name: Place<*const c_char>, kernel: u64);
    cuKernelGetParamCount(kernel: u64, count: Place<usize>);
    cuKernelGetParamInfo(kernel: u64, index: usize, offset: Place<usize>, bytes: Place<usize>);
    cuKernelGetAttribute(value: Place<c_int>, attribute: c_int, kernel: u64, device: c_int);
    cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: u64, device: c_int);
    cuKernelSetCacheConfig(kernel: u64, config: c_int, device: c_int);
    cuLaunchKernel(
        function: u64, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: u64, arguments: Place<*mut c_void>, extra: Place<*mut c_void>,
    );
    cuLaunchCooperativeKernel(
        function: u64, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: u64, arguments: Place<*mut c_void>,
    );
    cuLaunchKernelEx(
        config: Place<crate::launch::DriverConfig>, function: u64, arguments: Place<*mut c_void>,
        extra: Place<*mut c_void>,
    );
    cuLaunchHostFunc(stream: u64, function: HostFunction, data: Place<c_void>);
    cuLaunchHostFunc_v2(stream: u64, function: HostFunction, data: Place<c_void>, mode: c_uint);
    cuStreamAddCallback(stream: u64, function: StreamCallback, data: Place<c_void>, flags: c_uint);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Place<c_int>, function: u64, block: c_int, shared_bytes: usize, flags: c_uint,
    );
    cuOccupancyAvailableDynamicSMemPerBlock(bytes: Place<usize>, function: u64, blocks: c_int, block: c_int);
    cuStreamCreateWithPriority(stream: Place<u64>, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(stream: u64);
    cuStreamSynchronize(stream: u64);
    cuStreamQuery(stream: u64);
    cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint);
    cuStreamGetPriority(stream: u64, priority: Place<c_int>);
    cuStreamGetFlags(stream: u64, flags: Place<c_uint>);
    cuStreamGetId(stream: u64, id: Place<u64>);
    cuStreamGetDevice(stream: u64, device: Place<c_int>);
    cuStreamIsCapturing(stream: u64, state: Place<c_int>);
    cuStreamCopyAttributes(to: u64, from: u64);
    cuStreamGetAttribute(stream: u64, attribute: c_int, value: Place<c_void>);
    cuStreamSetAttribute(stream: u64, attribute: c_int, value: Place<c_void>);
    cuThreadExchangeStreamCaptureMode(mode: Place<c_int>);
    cuEventCreate(event: Place<u64>, flags: c_uint);
    cuEventDestroy_v2(event: u64);
    cuEventRecord(event: u64, stream: u64);
    cuEventRecordWithFlags(event: u64, stream: u64, flags: c_uint);
    cuEventQuery(event: u64);
    cuEventSynchronize(event: u64);
    cuEventElapsedTime_v2(milliseconds: Place<f32>, start: u64, end: u64);
    cuGraphCreate(graph: Place<u64>, flags: c_uint);
    cuGraphDestroy(graph: u64);
    cuGraphClone(copy: Place<u64>, original: u64);
    cuGraphNodeFindInClone(found: Place<u64>, original: u64, copy: u64);
    cuGraphNodeGetType(node: u64, kind: Place<c_uint>);
    cuGraphDestroyNode(node: u64);
    cuGraphGetId(graph: u64, id: Place<c_uint>);
    cuGraphExecGetId(executable: u64, id: Place<c_uint>);
    cuGraphNodeGetContainingGraph(node: u64, graph: Place<u64>);
    cuGraphNodeGetLocalId(node: u64, id: Place<c_uint>);
    cuGraphNodeGetToolsId(node: u64, id: Place<u64>);
    cuGraphDebugDotPrint(graph: u64, path: Place<c_char>, flags: c_uint);
    cuGraphGetNodes(graph: u64, nodes: Place<u64>, count: Place<usize>);
    cuGraphGetRootNodes(graph: u64, nodes: Place<u64>, count: Place<usize>);
    cuGraphGetEdges_v2(graph: u64, from: Place<u64>, to: Place<u64>, data: Place<u64>, count: Place<usize>);
    cuGraphNodeGetDependencies_v2(node: u64, nodes: Place<u64>, data: Place<u64>, count: Place<usize>);
    cuGraphNodeGetDependentNodes_v2(node: u64, nodes: Place<u64>, data: Place<u64>, count: Place<usize>);
    cuGraphAddDependencies_v2(graph: u64, from: Place<u64>, to: Place<u64>, data: Place<u64>, count: usize);
    cuGraphRemoveDependencies_v2(graph: u64, from: Place<u64>, to: Place<u64>, data: Place<u64>, count: usize);
    cuUserObjectCreate(
        object: Place<u64>, data: Place<c_void>, destructor: HostFunction, count: c_uint, flags: c_uint,
    );
    cuUserObjectRetain(object: u64, count: c_uint);
    cuUserObjectRelease(object: u64, count: c_uint);
    cuGraphRetainUserObject(graph: u64, object: u64, count: c_uint, flags: c_uint);
    cuGraphReleaseUserObject(graph: u64, object: u64, count: c_uint);
    cuGraphAddEmptyNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize);
    cuGraphAddHostNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, params: Place<c_void>);
    cuGraphHostNodeGetParams(node: u64, params: Place<c_void>);
    cuGraphHostNodeSetParams(node: u64, params: Place<c_void>);
    cuGraphExecHostNodeSetParams(executable: u64, node: u64, params: Place<c_void>);
    cuGraphAddChildGraphNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, child: u64);
    cuGraphChildGraphNodeGetGraph(node: u64, graph: Place<u64>);
    cuGraphExecChildGraphNodeSetParams(executable: u64, node: u64, child: u64);
    cuGraphAddEventRecordNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, event: u64);
    cuGraphEventRecordNodeGetEvent(node: u64, event: Place<u64>);
    cuGraphEventRecordNodeSetEvent(node: u64, event: u64);
    cuGraphExecEventRecordNodeSetEvent(executable: u64, node: u64, event: u64);
    cuGraphAddEventWaitNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, event: u64);
    cuGraphEventWaitNodeGetEvent(node: u64, event: Place<u64>);
    cuGraphEventWaitNodeSetEvent(node: u64, event: u64);
    cuGraphExecEventWaitNodeSetEvent(executable: u64, node: u64, event: u64);
    cuGraphAddMemAllocNode(
        node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, params: Place<c_void>,
    );
    cuGraphMemAllocNodeGetParams(node: u64, params: Place<c_void>);
    cuGraphAddMemFreeNode(node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, address: u64);
    cuGraphMemFreeNodeGetParams(node: u64, address: Place<u64>);
    cuDeviceGraphMemTrim(device: c_int);
    cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_uint, value: Place<c_void>);
    cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_uint, value: Place<c_void>);
    cuGraphKernelNodeCopyAttributes(to: u64, from: u64);
    cuGraphKernelNodeGetAttribute(node: u64, attribute: c_uint, value: Place<c_void>);
    cuGraphKernelNodeSetAttribute(node: u64, attribute: c_uint, value: Place<c_void>);
    cuGraphInstantiateWithFlags(executable: Place<u64>, graph: u64, flags: u64);
    cuGraphExecGetFlags(executable: u64, flags: Place<u64>);
    cuGraphExecDestroy(executable: u64);
    cuGraphExecUpdate_v2(executable: u64, graph: u64, info: Place<c_void>);
    cuGraphNodeSetEnabled(executable: u64, node: u64, enabled: c_uint);
    cuGraphNodeGetEnabled(executable: u64, node: u64, enabled: Place<c_uint>);
    cuGraphUpload(executable: u64, stream: u64);
    cuGraphLaunch(executable: u64, stream: u64);
    cuStreamBeginCapture_v2(stream: u64, mode: c_uint);
    cuStreamBeginCaptureToGraph(
        stream: u64, graph: u64, dependencies: Place<u64>, data: Place<u64>, count: usize, mode: c_uint,
    );
    cuStreamEndCapture(stream: u64, graph: Place<u64>);
    cuStreamGetCaptureInfo_v3(
        stream: u64, status: Place<c_uint>, id: Place<u64>, graph: Place<u64>, dependencies: Place<u64>,
        data: Place<u64>, count: Place<usize>,
    );
    cuStreamUpdateCaptureDependencies_v2(
        stream: u64, dependencies: Place<u64>, data: Place<u64>, count: usize, flags: c_uint,
    );
    cuGraphInstantiateWithParams(
        executable: Place<u64>, graph: u64, params: Place<crate::graph::executable::InstantiateParams>,
    );
    cuGraphAddKernelNode_v2(
        node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize,
        params: Place<crate::graph::nodes::DriverKernel>,
    );
    cuGraphKernelNodeGetParams_v2(node: u64, params: Place<crate::graph::nodes::DriverKernel>);
    cuGraphKernelNodeSetParams_v2(node: u64, params: Place<crate::graph::nodes::DriverKernel>);
    cuGraphExecKernelNodeSetParams_v2(
        executable: u64, node: u64, params: Place<crate::graph::nodes::DriverKernel>,
    );
    cuGraphAddMemcpyNode(
        node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, copy: Place<crate::copy::Spatial>,
        context: u64,
    );
    cuGraphMemcpyNodeGetParams(node: u64, copy: Place<crate::copy::Spatial>);
    cuGraphMemcpyNodeSetParams(node: u64, copy: Place<crate::copy::Spatial>);
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, copy: Place<crate::copy::Spatial>, context: u64);
    cuGraphAddMemsetNode(
        node: Place<u64>, graph: u64, dependencies: Place<u64>, count: usize, params: Place<c_void>, context: u64,
    );
    cuGraphMemsetNodeGetParams(node: u64, params: Place<c_void>);
    cuGraphMemsetNodeSetParams(node: u64, params: Place<c_void>);
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, params: Place<c_void>, context: u64);
    cuGraphAddNode_v2(
        node: Place<u64>, graph: u64, dependencies: Place<u64>, data: Place<u64>, count: usize,
        params: Place<crate::graph::params::NodeParams>,
    );
    cuGraphNodeSetParams(node: u64, params: Place<crate::graph::params::NodeParams>);
    cuGraphNodeGetParams(node: u64, params: Place<crate::graph::params::NodeParams>);
    cuGraphExecNodeSetParams(executable: u64, node: u64, params: Place<crate::graph::params::NodeParams>);
    cuProfilerStart();
    cuProfilerStop();
}

impl Driver {
    /// Returns the driver, opened and initialised.
    ///
    /// # Errors
    /// [`Status::INSUFFICIENT_DRIVER`]: there is none; the code of its initialisation.
    pub fn get() -> CudaResult<&'static Self> {
        static OPENED: OnceLock<Option<Driver>> = OnceLock::new();
        static BEGUN: OnceLock<u32> = OnceLock::new();
        let driver = OPENED
            .get_or_init(Self::open)
            .as_ref()
            .ok_or(Status::INSUFFICIENT_DRIVER)?;
        if let Some(code) = BEGUN.get() {
            return Status::of_driver(*code).map(|()| driver);
        }
        // A driver that cannot begin now may later, as when its service was started meanwhile.
        driver.cuInit(0)?;
        let _ = BEGUN.set(0);
        Ok(driver)
    }

    fn open() -> Option<Self> {
        let open = |name: &&str| {
            // SAFETY: opening a driver runs its constructors, which the program asks for by using this library.
            unsafe { Library::open(Some(*name), RTLD_NOW | RTLD_GLOBAL) }.ok()
        };
        let driver = Self::of(NAMES.iter().find_map(open)?);
        driver.cuInit.is_some().then_some(driver)
    }
}
