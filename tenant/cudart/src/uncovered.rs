//! The rest of the API: functions that are exported and not covered.
//!
//! Rule: each says once on stderr that it is not there, notes the error for the thread and returns it.

use crate::border::guard;
use crate::status::Status;
use std::sync::atomic::{AtomicBool, Ordering};

/// Declares functions that are not covered; what they are called with is not looked at.
macro_rules! uncovered {
    ($($symbol:ident),* $(,)?) => {$(
        #[doc = concat!("`", stringify!($symbol), "` of the runtime API, which is not covered.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol() -> u32 {
            static SAID: AtomicBool = AtomicBool::new(false);
            guard(|| {
                // Relaxed: of several threads, one finds it unset.
                if !SAID.swap(true, Ordering::Relaxed) {
                    say(stringify!($symbol));
                }
                Err(Status::NOT_SUPPORTED)
            })
        }
    )*};
}

fn say(symbol: &str) {
    let why = match symbol {
        _ if symbol.starts_with("cudaIpc") => {
            ": device memory and events are not shared between processes, each of which is a client of its own with \
             memory that no other reaches (copy through memory of the host that they share)"
        }
        _ if symbol.contains("Mipmap") => ": mipmaps are not there",
        _ => "",
    };
    let line = format!("gridmux: {symbol} is not covered{why}; it returns cudaErrorNotSupported\n");
    // A closed stderr harms nobody.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

uncovered! {
    __cudaGetProcAddress, __cudaRegisterHostVar, __cudaRegisterUnifiedTable,
    cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties, cudaDestroyExternalMemory,
    cudaDestroyExternalSemaphore, cudaDevResourceGenerateDesc, cudaDevSmResourceSplit, cudaDevSmResourceSplitByCount,
    cudaDeviceDisablePeerAccess, cudaDeviceEnablePeerAccess, cudaDeviceFlushGPUDirectRDMAWrites,
    cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx, cudaDeviceGetGraphMemAttribute,
    cudaDeviceGetHostAtomicCapabilities, cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetP2PAtomicCapabilities,
    cudaDeviceGetSharedMemConfig, cudaDeviceGraphMemTrim, cudaDeviceRegisterAsyncNotification,
    cudaDeviceSetGraphMemAttribute, cudaDeviceSetSharedMemConfig, cudaDeviceUnregisterAsyncNotification,
    cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect, cudaEGLStreamConsumerConnectWithFlags,
    cudaEGLStreamConsumerDisconnect, cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect,
    cudaEGLStreamProducerDisconnect, cudaEGLStreamProducerPresentFrame, cudaEGLStreamProducerReturnFrame,
    cudaEventCreateFromEGLSync, cudaExecutionCtxDestroy, cudaExecutionCtxGetDevResource, cudaExecutionCtxGetDevice,
    cudaExecutionCtxGetId, cudaExecutionCtxRecordEvent, cudaExecutionCtxStreamCreate, cudaExecutionCtxSynchronize,
    cudaExecutionCtxWaitEvent, cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray,
    cudaFreeMipmappedArray, cudaFuncGetParamCount, cudaGLGetDevices, cudaGLMapBufferObject, cudaGLMapBufferObjectAsync,
    cudaGLRegisterBufferObject, cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice, cudaGLUnmapBufferObject,
    cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject, cudaGetMipmappedArrayLevel,
    cudaGetSurfaceObjectResourceDesc, cudaGetTextureObjectResourceDesc, cudaGetTextureObjectResourceViewDesc,
    cudaGetTextureObjectTextureDesc, cudaGraphAddChildGraphNode, cudaGraphAddDependencies, cudaGraphAddEmptyNode,
    cudaGraphAddEventRecordNode, cudaGraphAddEventWaitNode, cudaGraphAddExternalSemaphoresSignalNode,
    cudaGraphAddExternalSemaphoresWaitNode, cudaGraphAddHostNode, cudaGraphAddKernelNode, cudaGraphAddMemAllocNode,
    cudaGraphAddMemFreeNode, cudaGraphAddMemcpyNode, cudaGraphAddMemcpyNode1D, cudaGraphAddMemcpyNodeFromSymbol,
    cudaGraphAddMemcpyNodeToSymbol, cudaGraphAddMemsetNode, cudaGraphAddNode, cudaGraphChildGraphNodeGetGraph,
    cudaGraphClone, cudaGraphConditionalHandleCreate, cudaGraphConditionalHandleCreate_v2, cudaGraphCreate,
    cudaGraphDebugDotPrint, cudaGraphDestroy, cudaGraphDestroyNode, cudaGraphEventRecordNodeGetEvent,
    cudaGraphEventRecordNodeSetEvent, cudaGraphEventWaitNodeGetEvent, cudaGraphEventWaitNodeSetEvent,
    cudaGraphExecChildGraphNodeSetParams, cudaGraphExecDestroy, cudaGraphExecEventRecordNodeSetEvent,
    cudaGraphExecEventWaitNodeSetEvent, cudaGraphExecExternalSemaphoresSignalNodeSetParams,
    cudaGraphExecExternalSemaphoresWaitNodeSetParams, cudaGraphExecGetFlags, cudaGraphExecGetId,
    cudaGraphExecHostNodeSetParams, cudaGraphExecKernelNodeSetParams, cudaGraphExecMemcpyNodeSetParams,
    cudaGraphExecMemcpyNodeSetParams1D, cudaGraphExecMemcpyNodeSetParamsFromSymbol,
    cudaGraphExecMemcpyNodeSetParamsToSymbol, cudaGraphExecMemsetNodeSetParams, cudaGraphExecNodeSetParams,
    cudaGraphExecUpdate, cudaGraphExternalSemaphoresSignalNodeGetParams, cudaGraphExternalSemaphoresSignalNodeSetParams,
    cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams, cudaGraphGetEdges,
    cudaGraphGetId, cudaGraphGetNodes, cudaGraphGetRootNodes, cudaGraphHostNodeGetParams, cudaGraphHostNodeSetParams,
    cudaGraphInstantiate, cudaGraphInstantiateWithFlags, cudaGraphInstantiateWithParams,
    cudaGraphInstantiateWithParams_ptsz, cudaGraphKernelNodeCopyAttributes, cudaGraphKernelNodeGetAttribute,
    cudaGraphKernelNodeGetParams, cudaGraphKernelNodeSetAttribute, cudaGraphKernelNodeSetParams, cudaGraphLaunch,
    cudaGraphLaunch_ptsz, cudaGraphMemAllocNodeGetParams, cudaGraphMemFreeNodeGetParams, cudaGraphMemcpyNodeGetParams,
    cudaGraphMemcpyNodeSetParams, cudaGraphMemcpyNodeSetParams1D, cudaGraphMemcpyNodeSetParamsFromSymbol,
    cudaGraphMemcpyNodeSetParamsToSymbol, cudaGraphMemsetNodeGetParams, cudaGraphMemsetNodeSetParams,
    cudaGraphNodeFindInClone, cudaGraphNodeGetContainingGraph, cudaGraphNodeGetDependencies,
    cudaGraphNodeGetDependentNodes, cudaGraphNodeGetEnabled, cudaGraphNodeGetLocalId, cudaGraphNodeGetParams,
    cudaGraphNodeGetToolsId, cudaGraphNodeGetType, cudaGraphNodeSetEnabled, cudaGraphNodeSetParams,
    cudaGraphReleaseUserObject, cudaGraphRemoveDependencies, cudaGraphRetainUserObject, cudaGraphUpload,
    cudaGraphUpload_ptsz, cudaGraphicsEGLRegisterImage, cudaGraphicsGLRegisterBuffer, cudaGraphicsGLRegisterImage,
    cudaGraphicsMapResources, cudaGraphicsResourceGetMappedEglFrame, cudaGraphicsResourceGetMappedMipmappedArray,
    cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags, cudaGraphicsSubResourceGetMappedArray,
    cudaGraphicsUnmapResources, cudaGraphicsUnregisterResource, cudaGraphicsVDPAURegisterOutputSurface,
    cudaGraphicsVDPAURegisterVideoSurface, cudaGreenCtxCreate, cudaImportExternalMemory, cudaImportExternalSemaphore,
    cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle, cudaIpcOpenMemHandle,
    cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz, cudaLaunchHostFunc_v2, cudaLaunchHostFunc_v2_ptsz,
    cudaLibraryGetManaged, cudaLibraryGetUnifiedFunction, cudaLogsCurrent, cudaLogsDumpToFile, cudaLogsDumpToMemory,
    cudaLogsRegisterCallback, cudaLogsUnregisterCallback, cudaMallocMipmappedArray, cudaMemDiscardAndPrefetchBatchAsync,
    cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz,
    cudaMemGetDefaultMemPool, cudaMemGetLocationInfo, cudaMemGetMemPool, cudaMemPoolExportPointer,
    cudaMemPoolExportToShareableHandle, cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer,
    cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz, cudaMemSetMemPool, cudaMemcpy3DBatchAsync,
    cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DPeer, cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz,
    cudaMemcpy3DPeer_ptds, cudaMemcpy3DWithAttributesAsync, cudaMemcpy3DWithAttributesAsync_ptsz, cudaMemcpyBatchAsync,
    cudaMemcpyBatchAsync_ptsz, cudaMemcpyWithAttributesAsync, cudaMemcpyWithAttributesAsync_ptsz,
    cudaMipmappedArrayGetMemoryRequirements, cudaMipmappedArrayGetSparseProperties, cudaOccupancyMaxActiveClusters,
    cudaOccupancyMaxPotentialClusterSize, cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz,
    cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz,
    cudaStreamBeginCapture_ptsz, cudaStreamBeginRecaptureToGraph, cudaStreamBeginRecaptureToGraph_ptsz,
    cudaStreamEndCapture, cudaStreamEndCapture_ptsz, cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz,
    cudaStreamGetDevResource, cudaStreamGetDevResource_ptsz, cudaStreamUpdateCaptureDependencies,
    cudaStreamUpdateCaptureDependencies_ptsz, cudaSubgridCreate, cudaSubgridWorkerGridCreate, cudaSubgridWorksetCreate,
    cudaUserObjectCreate, cudaUserObjectRelease, cudaUserObjectRetain, cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice,
    cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz,
}
