//! The rest of the API: functions that are exported and not covered.
//!
//! Rule: each says once on stderr that it is not there, notes the error for the thread and returns it.

use crate::border::guard;
use crate::feature;
use crate::report;
use crate::status::Status;
use std::sync::atomic::{AtomicBool, Ordering};

/// Declares functions that are not covered; what they are called with is not looked at.
macro_rules! uncovered {
    ($list:ident: $($symbol:ident),* $(,)?) => {
        /// Their names.
        pub const $list: &[&str] = &[$(stringify!($symbol)),*];
        $(
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
        )*
    };
}

fn say(symbol: &str) {
    let feature = feature::of(symbol).map_or_else(String::new, |name| format!(" ({name})"));
    let why = match symbol {
        _ if symbol.starts_with("cudaIpc") => {
            ": device memory and events are not shared between processes, each of which is a client of its own with \
             memory that no other reaches (copy through memory of the host that they share)"
        }
        _ if symbol.contains("Mipmap") => ": mipmaps are not there",
        _ => "",
    };
    report::say(format_args!(
        "{symbol} is not covered{feature}{why}; it returns cudaErrorNotSupported"
    ));
}

uncovered! {
    UNCOVERED:
    __cudaGetProcAddress, __cudaRegisterHostVar, __cudaRegisterUnifiedTable, cudaArrayGetMemoryRequirements,
    cudaArrayGetPlane, cudaArrayGetSparseProperties, cudaDestroyExternalMemory, cudaDestroyExternalSemaphore,
    cudaDevResourceGenerateDesc, cudaDevSmResourceSplit, cudaDevSmResourceSplitByCount, cudaDeviceDisablePeerAccess,
    cudaDeviceEnablePeerAccess, cudaDeviceFlushGPUDirectRDMAWrites, cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx,
    cudaDeviceGetHostAtomicCapabilities, cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetP2PAtomicCapabilities,
    cudaDeviceRegisterAsyncNotification,
    cudaDeviceUnregisterAsyncNotification, cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect,
    cudaEGLStreamConsumerConnectWithFlags, cudaEGLStreamConsumerDisconnect, cudaEGLStreamConsumerReleaseFrame,
    cudaEGLStreamProducerConnect, cudaEGLStreamProducerDisconnect, cudaEGLStreamProducerPresentFrame,
    cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync, cudaExecutionCtxDestroy,
    cudaExecutionCtxGetDevResource, cudaExecutionCtxGetDevice, cudaExecutionCtxGetId, cudaExecutionCtxRecordEvent,
    cudaExecutionCtxStreamCreate, cudaExecutionCtxSynchronize, cudaExecutionCtxWaitEvent,
    cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray, cudaFreeMipmappedArray,
    cudaGLGetDevices, cudaGLMapBufferObject, cudaGLMapBufferObjectAsync,
    cudaGLRegisterBufferObject, cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice, cudaGLUnmapBufferObject,
    cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject, cudaGetMipmappedArrayLevel,
    cudaGraphAddExternalSemaphoresSignalNode, cudaGraphAddExternalSemaphoresWaitNode,
    cudaGraphConditionalHandleCreate, cudaGraphConditionalHandleCreate_v2,
    cudaGraphExecExternalSemaphoresSignalNodeSetParams, cudaGraphExecExternalSemaphoresWaitNodeSetParams,
    cudaGraphExternalSemaphoresSignalNodeGetParams, cudaGraphExternalSemaphoresSignalNodeSetParams,
    cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams,
    cudaGraphicsEGLRegisterImage, cudaGraphicsGLRegisterBuffer, cudaGraphicsGLRegisterImage, cudaGraphicsMapResources,
    cudaGraphicsResourceGetMappedEglFrame, cudaGraphicsResourceGetMappedMipmappedArray,
    cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags, cudaGraphicsSubResourceGetMappedArray,
    cudaGraphicsUnmapResources, cudaGraphicsUnregisterResource, cudaGraphicsVDPAURegisterOutputSurface,
    cudaGraphicsVDPAURegisterVideoSurface, cudaGreenCtxCreate, cudaImportExternalMemory, cudaImportExternalSemaphore,
    cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle, cudaIpcOpenMemHandle,
    cudaLibraryGetUnifiedFunction,
    cudaLogsCurrent, cudaLogsDumpToFile, cudaLogsDumpToMemory, cudaLogsRegisterCallback, cudaLogsUnregisterCallback,
    cudaMallocMipmappedArray, cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz,
    cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz, cudaMemGetLocationInfo,
    cudaMemPoolExportPointer, cudaMemPoolExportToShareableHandle,
    cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer, cudaMemPrefetchBatchAsync,
    cudaMemPrefetchBatchAsync_ptsz, cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz,
    cudaMemcpy3DWithAttributesAsync, cudaMemcpy3DWithAttributesAsync_ptsz,
    cudaMipmappedArrayGetMemoryRequirements, cudaMipmappedArrayGetSparseProperties, cudaOccupancyMaxActiveClusters,
    cudaOccupancyMaxPotentialClusterSize, cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz,
    cudaStreamBeginRecaptureToGraph, cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamGetDevResource,
    cudaStreamGetDevResource_ptsz, cudaSubgridCreate, cudaSubgridWorkerGridCreate, cudaSubgridWorksetCreate,
    cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice, cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz,
}

// What only CUDA 12 has. Those that end in `_v2` or a variant of it are what CUDA 13 has without that ending, and what
// both have under the name without it takes other arguments in CUDA 12.
#[cfg(cuda = "12")]
uncovered! {
    UNCOVERED_OF_12:
    cudaLaunchCooperativeKernelMultiDevice, cudaSignalExternalSemaphoresAsync_v2,
    cudaSignalExternalSemaphoresAsync_v2_ptsz, cudaWaitExternalSemaphoresAsync_v2,
    cudaWaitExternalSemaphoresAsync_v2_ptsz,
}

#[cfg(all(test, cuda = "12"))]
mod tests {
    use super::{UNCOVERED, UNCOVERED_OF_12};

    /// What takes other arguments in CUDA 12 than in CUDA 13.
    const CHANGED: [&str; 14] = [
        "cudaGraphAddDependencies",
        "cudaGraphAddNode",
        "cudaGraphGetEdges",
        "cudaGraphNodeGetDependencies",
        "cudaGraphNodeGetDependentNodes",
        "cudaGraphRemoveDependencies",
        "cudaMemAdvise",
        "cudaMemPrefetchAsync",
        "cudaMemcpy3DBatchAsync",
        "cudaMemcpyBatchAsync",
        "cudaSignalExternalSemaphoresAsync",
        "cudaStreamGetCaptureInfo",
        "cudaStreamUpdateCaptureDependencies",
        "cudaWaitExternalSemaphoresAsync",
    ];
    /// Those of them that are covered with the arguments of CUDA 12.
    const COVERED_AS_IN_12: [&str; 11] = [
        "cudaGraphAddDependencies",
        "cudaGraphAddNode",
        "cudaGraphGetEdges",
        "cudaGraphNodeGetDependencies",
        "cudaGraphNodeGetDependentNodes",
        "cudaGraphRemoveDependencies",
        "cudaMemAdvise",
        "cudaMemPrefetchAsync",
        "cudaMemcpyBatchAsync",
        "cudaStreamGetCaptureInfo",
        "cudaStreamUpdateCaptureDependencies",
    ];

    #[test]
    fn what_changed_is_not_covered_as_in_13() {
        for name in CHANGED {
            let is_uncovered = UNCOVERED
                .iter()
                .chain(UNCOVERED_OF_12)
                .any(|one| *one == name);
            assert!(
                is_uncovered || COVERED_AS_IN_12.contains(&name),
                "{name} takes other arguments in CUDA 12: put what covers it behind #[cfg(cuda = \"13\")], \
                 its form of CUDA 12 behind #[cfg(cuda = \"12\")]"
            );
        }
    }
}
