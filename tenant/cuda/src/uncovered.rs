//! The functions of the API that are not covered: each is exported, returns `CUDA_ERROR_NOT_SUPPORTED`, and is reported
//! once by its name.
//!
//! Names and versions are facts of CUDA 13.5's headers. To cover one, delete it here and declare it with its family; a
//! symbol that is declared in both places does not compile.

use crate::report::{self, Missed};
use crate::status::Status;

/// Reports a function that is missing and returns its code.
fn missing(symbol: &str) -> u32 {
    let told = std::panic::catch_unwind(|| report::missed(symbol, Missed::Called));
    // Whatever comes of the report, the code is the same.
    drop(told);
    Status::NOT_SUPPORTED.0
}

/// Declares the functions of each version by symbol and per-thread variant. On the machines that gridmux runs on a
/// caller may pass arguments to a function that takes none.
macro_rules! uncovered {
    ($($since:literal: $($symbol:ident $(| $variant:ident)?),*;)*) => {
        /// The functions that are missing.
        pub const TABLE: &[crate::api::Entry] = &[$($(
            crate::api::Entry {
                symbol: stringify!($symbol),
                since: $since,
                default_stream: crate::stream::DefaultStream::Legacy,
                address: crate::api::Address($symbol as *const ()),
                is_covered: false,
            },
            $(crate::api::Entry {
                symbol: stringify!($symbol),
                since: if $since < crate::api::FIRST_VARIANTS { crate::api::FIRST_VARIANTS } else { $since },
                default_stream: crate::stream::DefaultStream::PerThread,
                address: crate::api::Address($variant as *const ()),
                is_covered: false,
            },)?
        )*)*];

        $($(
            #[doc = concat!("`", stringify!($symbol), "` of the driver API, which is not covered.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $symbol() -> u32 {
                missing(stringify!($symbol))
            }

            $(
                #[doc = concat!("[`", stringify!($symbol), "`] with the thread's own default stream.")]
                #[unsafe(no_mangle)]
                pub extern "C" fn $variant() -> u32 {
                    missing(stringify!($variant))
                }
            )?
        )*)*
    };
}

uncovered! {
    2000: cuArray3DCreate, cuArray3DGetDescriptor, cuArrayCreate, cuArrayGetDescriptor, cuCtxCreate, cuDeviceTotalMem,
        cuFuncSetBlockShape, cuFuncSetSharedSize, cuLaunch, cuLaunchGrid, cuLaunchGridAsync, cuMemAlloc, cuMemAllocHost,
        cuMemAllocPitch, cuMemFree, cuMemGetAddressRange, cuMemGetInfo, cuMemcpy2D, cuMemcpy2DAsync,
        cuMemcpy2DUnaligned, cuMemcpy3D, cuMemcpy3DAsync, cuMemcpyAtoA, cuMemcpyAtoD, cuMemcpyAtoH, cuMemcpyAtoHAsync,
        cuMemcpyDtoA, cuMemcpyDtoD, cuMemcpyDtoH, cuMemcpyDtoHAsync, cuMemcpyHtoA, cuMemcpyHtoAAsync, cuMemcpyHtoD,
        cuMemcpyHtoDAsync, cuMemsetD16, cuMemsetD2D16, cuMemsetD2D32, cuMemsetD2D8, cuMemsetD32, cuMemsetD8,
        cuModuleGetGlobal, cuModuleGetTexRef, cuParamSetSize, cuParamSetTexRef, cuParamSetf, cuParamSeti, cuParamSetv,
        cuTexRefCreate, cuTexRefDestroy, cuTexRefGetAddress, cuTexRefGetAddressMode, cuTexRefGetArray,
        cuTexRefGetFilterMode, cuTexRefGetFlags, cuTexRefGetFormat, cuTexRefSetAddress, cuTexRefSetAddressMode,
        cuTexRefSetArray, cuTexRefSetFilterMode, cuTexRefSetFlags, cuTexRefSetFormat;
    2020: cuMemHostGetDevicePointer, cuTexRefSetAddress2D;
    3000: cuGraphicsMapResources | cuGraphicsMapResources_ptsz, cuGraphicsResourceGetMappedPointer,
        cuGraphicsResourceSetMapFlags, cuGraphicsSubResourceGetMappedArray,
        cuGraphicsUnmapResources | cuGraphicsUnmapResources_ptsz, cuGraphicsUnregisterResource, cuMemcpyDtoDAsync,
        cuModuleGetSurfRef, cuSurfRefGetArray, cuSurfRefSetArray;
    3020: cuGraphicsResourceGetMappedPointer_v2, cuTexRefGetAddress_v2, cuTexRefSetAddress2D_v2, cuTexRefSetAddress_v2;
    4000: cuMemcpy3DPeer | cuMemcpy3DPeer_ptds, cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz;
    4010: cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcGetMemHandle, cuIpcOpenEventHandle, cuIpcOpenMemHandle,
        cuTexRefSetAddress2D_v3;
    5000: cuGraphicsResourceGetMappedMipmappedArray, cuMipmappedArrayCreate, cuMipmappedArrayDestroy,
        cuMipmappedArrayGetLevel, cuTexRefGetMaxAnisotropy, cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapLevelBias,
        cuTexRefGetMipmapLevelClamp, cuTexRefGetMipmappedArray, cuTexRefSetMaxAnisotropy, cuTexRefSetMipmapFilterMode,
        cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmappedArray;
    6050: cuGraphicsResourceSetMapFlags_v2;
    8000: cuStreamBatchMemOp | cuStreamBatchMemOp_ptsz, cuStreamWaitValue32 | cuStreamWaitValue32_ptsz,
        cuTexRefGetBorderColor, cuTexRefSetBorderColor;
    9000: cuLaunchCooperativeKernelMultiDevice, cuStreamWaitValue64 | cuStreamWaitValue64_ptsz;
    10000: cuDestroyExternalMemory, cuDestroyExternalSemaphore, cuExternalMemoryGetMappedBuffer,
        cuExternalMemoryGetMappedMipmappedArray, cuImportExternalMemory, cuImportExternalSemaphore,
        cuSignalExternalSemaphoresAsync | cuSignalExternalSemaphoresAsync_ptsz,
        cuWaitExternalSemaphoresAsync | cuWaitExternalSemaphoresAsync_ptsz;
    10020: cuDeviceGetNvSciSyncAttributes, cuMemExportToShareableHandle, cuMemImportFromShareableHandle;
    11000: cuIpcOpenMemHandle_v2;
    11010: cuArrayGetSparseProperties, cuMemMapArrayAsync | cuMemMapArrayAsync_ptsz,
        cuMipmappedArrayGetSparseProperties;
    11020: cuArrayGetPlane, cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresWaitNode,
        cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams,
        cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeSetParams,
        cuGraphExternalSemaphoresWaitNodeGetParams, cuGraphExternalSemaphoresWaitNodeSetParams, cuMemPoolExportPointer,
        cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer;
    11030: cuFlushGPUDirectRDMAWrites;
    11040: cuCtxGetExecAffinity, cuDeviceGetExecAffinitySupport;
    11060: cuArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements;
    11070: cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
        cuGraphExecBatchMemOpNodeSetParams, cuMemGetHandleForAddressRange, cuOccupancyMaxActiveClusters,
        cuOccupancyMaxPotentialClusterSize, cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz,
        cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz;
    12000: cuLibraryGetUnifiedFunction, cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled, cuTensorMapReplaceAddress;
    12010: cuCoredumpGetAttribute, cuCoredumpSetAttribute, cuMulticastAddDevice, cuMulticastBindAddr,
        cuMulticastBindMem, cuMulticastCreate, cuMulticastGetGranularity, cuMulticastUnbind;
    12030: cuGraphConditionalHandleCreate;
    12040: cuCtxFromGreenCtx, cuCtxGetDevResource, cuDevResourceGenerateDesc, cuDevSmResourceSplitByCount,
        cuDeviceGetDevResource, cuDeviceRegisterAsyncNotification, cuDeviceUnregisterAsyncNotification,
        cuGreenCtxCreate, cuGreenCtxDestroy, cuGreenCtxGetDevResource, cuGreenCtxRecordEvent, cuGreenCtxWaitEvent;
    12050: cuGreenCtxStreamCreate;
    12060: cuMemBatchDecompressAsync | cuMemBatchDecompressAsync_ptsz;
    12080: cuCheckpointProcessCheckpoint, cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetState,
        cuCheckpointProcessLock, cuCheckpointProcessRestore, cuCheckpointProcessUnlock,
        cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz,
        cuTensorMapEncodeIm2colWide;
    12090: cuGreenCtxGetId, cuLogsCurrent, cuLogsDumpToFile, cuLogsDumpToMemory, cuLogsRegisterCallback,
        cuLogsUnregisterCallback;
    13000: cuDeviceGetHostAtomicCapabilities, cuDeviceGetP2PAtomicCapabilities,
        cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz;
    13010: cuDevSmResourceSplit, cuMulticastBindAddr_v2, cuMulticastBindMem_v2,
        cuStreamBeginCaptureToCig | cuStreamBeginCaptureToCig_ptsz,
        cuStreamEndCaptureToCig | cuStreamEndCaptureToCig_ptsz, cuStreamGetDevResource | cuStreamGetDevResource_ptsz;
    13020: cuCoredumpDeregisterCompleteCallback, cuCoredumpDeregisterStartCallback, cuCoredumpRegisterCompleteCallback,
        cuCoredumpRegisterStartCallback, cuMemcpy3DWithAttributesAsync | cuMemcpy3DWithAttributesAsync_ptsz;
    13030: cuLogicalEndpointAddDevice, cuLogicalEndpointBindAddr, cuLogicalEndpointBindMem, cuLogicalEndpointCreate,
        cuLogicalEndpointDestroy, cuLogicalEndpointExport, cuLogicalEndpointGetLimits, cuLogicalEndpointIdRelease,
        cuLogicalEndpointIdReserve, cuLogicalEndpointImport, cuLogicalEndpointQuery, cuLogicalEndpointUnbind,
        cuStreamBeginRecaptureToGraph | cuStreamBeginRecaptureToGraph_ptsz;
    13040: cuCheckpointOperationComplete, cuDeviceGetCliqueCount, cuDeviceGetCliqueInfo, cuDeviceGetFabricClusterUuid,
        cuMemGetLocationInfo;
    13050: cuFabricCpyBatchAsync | cuFabricCpyBatchAsync_ptsz, cuTensorMapSetAllocationClass;
}
