//! The functions of the API that are not covered: each is exported, returns `CUDA_ERROR_NOT_SUPPORTED`, and is reported
//! once by its name.
//!
//! Names and versions are facts of CUDA 13.5's headers. To cover one, delete its row here and declare it with its
//! family; a symbol that is declared in both places does not compile.

use crate::report::{self, Missed};
use crate::status::Status;

/// Reports a function that is missing and returns its code.
fn missing(symbol: &str) -> u32 {
    let told = std::panic::catch_unwind(|| report::missed(symbol, Missed::Called));
    // Whatever comes of the report, the code is the same.
    drop(told);
    Status::NOT_SUPPORTED.0
}

/// Declares functions by version, symbol and per-thread variant. On the machines that gridmux runs on a caller may pass
/// arguments to a function that takes none.
macro_rules! uncovered {
    ($($since:literal $symbol:ident $(| $variant:ident)?;)*) => {
        /// The functions that are missing.
        pub const TABLE: &[crate::api::Entry] = &[$(
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
        )*];

        $(
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
        )*
    };
}

uncovered! {
    2000 cuArray3DCreate;
    3020 cuArray3DCreate_v2;
    2000 cuArray3DGetDescriptor;
    3020 cuArray3DGetDescriptor_v2;
    2000 cuArrayCreate;
    3020 cuArrayCreate_v2;
    2000 cuArrayDestroy;
    2000 cuArrayGetDescriptor;
    3020 cuArrayGetDescriptor_v2;
    11060 cuArrayGetMemoryRequirements;
    11020 cuArrayGetPlane;
    11010 cuArrayGetSparseProperties;
    13040 cuCheckpointOperationComplete;
    12080 cuCheckpointProcessCheckpoint;
    12080 cuCheckpointProcessGetRestoreThreadId;
    12080 cuCheckpointProcessGetState;
    12080 cuCheckpointProcessLock;
    12080 cuCheckpointProcessRestore;
    12080 cuCheckpointProcessUnlock;
    13020 cuCoredumpDeregisterCompleteCallback;
    13020 cuCoredumpDeregisterStartCallback;
    12010 cuCoredumpGetAttribute;
    12010 cuCoredumpGetAttributeGlobal;
    13020 cuCoredumpRegisterCompleteCallback;
    13020 cuCoredumpRegisterStartCallback;
    12010 cuCoredumpSetAttribute;
    12010 cuCoredumpSetAttributeGlobal;
    2000 cuCtxCreate;
    12040 cuCtxFromGreenCtx;
    12040 cuCtxGetDevResource;
    11040 cuCtxGetExecAffinity;
    10000 cuDestroyExternalMemory;
    10000 cuDestroyExternalSemaphore;
    12040 cuDevResourceGenerateDesc;
    13010 cuDevSmResourceSplit;
    12040 cuDevSmResourceSplitByCount;
    13040 cuDeviceGetCliqueCount;
    13040 cuDeviceGetCliqueInfo;
    12040 cuDeviceGetDevResource;
    11040 cuDeviceGetExecAffinitySupport;
    13040 cuDeviceGetFabricClusterUuid;
    11040 cuDeviceGetGraphMemAttribute;
    13000 cuDeviceGetHostAtomicCapabilities;
    10020 cuDeviceGetNvSciSyncAttributes;
    13000 cuDeviceGetP2PAtomicCapabilities;
    11010 cuDeviceGetTexture1DLinearMaxWidth;
    11040 cuDeviceGraphMemTrim;
    12040 cuDeviceRegisterAsyncNotification;
    11040 cuDeviceSetGraphMemAttribute;
    2000 cuDeviceTotalMem;
    12040 cuDeviceUnregisterAsyncNotification;
    10000 cuExternalMemoryGetMappedBuffer;
    10000 cuExternalMemoryGetMappedMipmappedArray;
    13050 cuFabricCpyBatchAsync | cuFabricCpyBatchAsync_ptsz;
    11030 cuFlushGPUDirectRDMAWrites;
    2000 cuFuncSetBlockShape;
    2000 cuFuncSetSharedSize;
    11070 cuGraphAddBatchMemOpNode;
    10000 cuGraphAddChildGraphNode;
    10000 cuGraphAddDependencies;
    12030 cuGraphAddDependencies_v2;
    10000 cuGraphAddEmptyNode;
    11010 cuGraphAddEventRecordNode;
    11010 cuGraphAddEventWaitNode;
    11020 cuGraphAddExternalSemaphoresSignalNode;
    11020 cuGraphAddExternalSemaphoresWaitNode;
    10000 cuGraphAddHostNode;
    10000 cuGraphAddKernelNode;
    12000 cuGraphAddKernelNode_v2;
    11040 cuGraphAddMemAllocNode;
    11040 cuGraphAddMemFreeNode;
    10000 cuGraphAddMemcpyNode;
    10000 cuGraphAddMemsetNode;
    12020 cuGraphAddNode;
    12030 cuGraphAddNode_v2;
    13040 cuGraphAddNode_v3;
    11070 cuGraphBatchMemOpNodeGetParams;
    11070 cuGraphBatchMemOpNodeSetParams;
    10000 cuGraphChildGraphNodeGetGraph;
    10000 cuGraphClone;
    12030 cuGraphConditionalHandleCreate;
    10000 cuGraphCreate;
    11030 cuGraphDebugDotPrint;
    10000 cuGraphDestroy;
    10000 cuGraphDestroyNode;
    11010 cuGraphEventRecordNodeGetEvent;
    11010 cuGraphEventRecordNodeSetEvent;
    11010 cuGraphEventWaitNodeGetEvent;
    11010 cuGraphEventWaitNodeSetEvent;
    11070 cuGraphExecBatchMemOpNodeSetParams;
    11010 cuGraphExecChildGraphNodeSetParams;
    10000 cuGraphExecDestroy;
    11010 cuGraphExecEventRecordNodeSetEvent;
    11010 cuGraphExecEventWaitNodeSetEvent;
    11020 cuGraphExecExternalSemaphoresSignalNodeSetParams;
    11020 cuGraphExecExternalSemaphoresWaitNodeSetParams;
    12000 cuGraphExecGetFlags;
    13010 cuGraphExecGetId;
    10020 cuGraphExecHostNodeSetParams;
    10010 cuGraphExecKernelNodeSetParams;
    12000 cuGraphExecKernelNodeSetParams_v2;
    10020 cuGraphExecMemcpyNodeSetParams;
    10020 cuGraphExecMemsetNodeSetParams;
    12020 cuGraphExecNodeSetParams;
    10020 cuGraphExecUpdate;
    12000 cuGraphExecUpdate_v2;
    11020 cuGraphExternalSemaphoresSignalNodeGetParams;
    11020 cuGraphExternalSemaphoresSignalNodeSetParams;
    11020 cuGraphExternalSemaphoresWaitNodeGetParams;
    11020 cuGraphExternalSemaphoresWaitNodeSetParams;
    10000 cuGraphGetEdges;
    12030 cuGraphGetEdges_v2;
    13010 cuGraphGetId;
    10000 cuGraphGetNodes;
    10000 cuGraphGetRootNodes;
    10000 cuGraphHostNodeGetParams;
    10000 cuGraphHostNodeSetParams;
    10000 cuGraphInstantiate;
    11040 cuGraphInstantiateWithFlags;
    12000 cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz;
    11000 cuGraphInstantiate_v2;
    11000 cuGraphKernelNodeCopyAttributes;
    11000 cuGraphKernelNodeGetAttribute;
    10000 cuGraphKernelNodeGetParams;
    12000 cuGraphKernelNodeGetParams_v2;
    11000 cuGraphKernelNodeSetAttribute;
    10000 cuGraphKernelNodeSetParams;
    12000 cuGraphKernelNodeSetParams_v2;
    10000 cuGraphLaunch | cuGraphLaunch_ptsz;
    11040 cuGraphMemAllocNodeGetParams;
    11040 cuGraphMemFreeNodeGetParams;
    10000 cuGraphMemcpyNodeGetParams;
    10000 cuGraphMemcpyNodeSetParams;
    10000 cuGraphMemsetNodeGetParams;
    10000 cuGraphMemsetNodeSetParams;
    10000 cuGraphNodeFindInClone;
    13010 cuGraphNodeGetContainingGraph;
    10000 cuGraphNodeGetDependencies;
    12030 cuGraphNodeGetDependencies_v2;
    10000 cuGraphNodeGetDependentNodes;
    12030 cuGraphNodeGetDependentNodes_v2;
    11060 cuGraphNodeGetEnabled;
    13010 cuGraphNodeGetLocalId;
    13020 cuGraphNodeGetParams;
    13010 cuGraphNodeGetToolsId;
    10000 cuGraphNodeGetType;
    11060 cuGraphNodeSetEnabled;
    12020 cuGraphNodeSetParams;
    13040 cuGraphNodeSetParams_v2;
    11030 cuGraphReleaseUserObject;
    10000 cuGraphRemoveDependencies;
    12030 cuGraphRemoveDependencies_v2;
    11030 cuGraphRetainUserObject;
    11010 cuGraphUpload | cuGraphUpload_ptsz;
    3000 cuGraphicsMapResources | cuGraphicsMapResources_ptsz;
    5000 cuGraphicsResourceGetMappedMipmappedArray;
    3000 cuGraphicsResourceGetMappedPointer;
    3020 cuGraphicsResourceGetMappedPointer_v2;
    3000 cuGraphicsResourceSetMapFlags;
    6050 cuGraphicsResourceSetMapFlags_v2;
    3000 cuGraphicsSubResourceGetMappedArray;
    3000 cuGraphicsUnmapResources | cuGraphicsUnmapResources_ptsz;
    3000 cuGraphicsUnregisterResource;
    12040 cuGreenCtxCreate;
    12040 cuGreenCtxDestroy;
    12040 cuGreenCtxGetDevResource;
    12090 cuGreenCtxGetId;
    12040 cuGreenCtxRecordEvent;
    12050 cuGreenCtxStreamCreate;
    12040 cuGreenCtxWaitEvent;
    10000 cuImportExternalMemory;
    10000 cuImportExternalSemaphore;
    4010 cuIpcCloseMemHandle;
    4010 cuIpcGetEventHandle;
    4010 cuIpcGetMemHandle;
    4010 cuIpcOpenEventHandle;
    4010 cuIpcOpenMemHandle;
    11000 cuIpcOpenMemHandle_v2;
    2000 cuLaunch;
    9000 cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz;
    9000 cuLaunchCooperativeKernelMultiDevice;
    2000 cuLaunchGrid;
    2000 cuLaunchGridAsync;
    12000 cuLibraryGetManaged;
    12000 cuLibraryGetUnifiedFunction;
    13030 cuLogicalEndpointAddDevice;
    13030 cuLogicalEndpointBindAddr;
    13030 cuLogicalEndpointBindMem;
    13030 cuLogicalEndpointCreate;
    13030 cuLogicalEndpointDestroy;
    13030 cuLogicalEndpointExport;
    13030 cuLogicalEndpointGetLimits;
    13030 cuLogicalEndpointIdRelease;
    13030 cuLogicalEndpointIdReserve;
    13030 cuLogicalEndpointImport;
    13030 cuLogicalEndpointQuery;
    13030 cuLogicalEndpointUnbind;
    12090 cuLogsCurrent;
    12090 cuLogsDumpToFile;
    12090 cuLogsDumpToMemory;
    12090 cuLogsRegisterCallback;
    12090 cuLogsUnregisterCallback;
    10020 cuMemAddressFree;
    10020 cuMemAddressReserve;
    8000 cuMemAdvise;
    12020 cuMemAdvise_v2;
    2000 cuMemAlloc;
    2000 cuMemAllocHost;
    6000 cuMemAllocManaged;
    2000 cuMemAllocPitch;
    12060 cuMemBatchDecompressAsync | cuMemBatchDecompressAsync_ptsz;
    10020 cuMemCreate;
    13000 cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz;
    13000 cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz;
    10020 cuMemExportToShareableHandle;
    2000 cuMemFree;
    10020 cuMemGetAccess;
    2000 cuMemGetAddressRange;
    10020 cuMemGetAllocationGranularity;
    10020 cuMemGetAllocationPropertiesFromHandle;
    13000 cuMemGetDefaultMemPool;
    11070 cuMemGetHandleForAddressRange;
    2000 cuMemGetInfo;
    13040 cuMemGetLocationInfo;
    13000 cuMemGetMemPool;
    2020 cuMemHostGetDevicePointer;
    10020 cuMemImportFromShareableHandle;
    10020 cuMemMap;
    11010 cuMemMapArrayAsync | cuMemMapArrayAsync_ptsz;
    11020 cuMemPoolExportPointer;
    11020 cuMemPoolExportToShareableHandle;
    11020 cuMemPoolImportFromShareableHandle;
    11020 cuMemPoolImportPointer;
    8000 cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz;
    12020 cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz;
    13000 cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz;
    8000 cuMemRangeGetAttribute;
    8000 cuMemRangeGetAttributes;
    10020 cuMemRelease;
    11000 cuMemRetainAllocationHandle;
    10020 cuMemSetAccess;
    13000 cuMemSetMemPool;
    10020 cuMemUnmap;
    2000 cuMemcpy2D;
    2000 cuMemcpy2DAsync;
    2000 cuMemcpy2DUnaligned;
    2000 cuMemcpy3D;
    2000 cuMemcpy3DAsync;
    12080 cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz;
    13000 cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz;
    4000 cuMemcpy3DPeer | cuMemcpy3DPeer_ptds;
    4000 cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz;
    13020 cuMemcpy3DWithAttributesAsync | cuMemcpy3DWithAttributesAsync_ptsz;
    2000 cuMemcpyAtoA;
    3020 cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds;
    2000 cuMemcpyAtoD;
    3020 cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds;
    2000 cuMemcpyAtoH;
    2000 cuMemcpyAtoHAsync;
    3020 cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz;
    3020 cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds;
    12080 cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz;
    13000 cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz;
    2000 cuMemcpyDtoA;
    3020 cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds;
    2000 cuMemcpyDtoD;
    3000 cuMemcpyDtoDAsync;
    2000 cuMemcpyDtoH;
    2000 cuMemcpyDtoHAsync;
    2000 cuMemcpyHtoA;
    2000 cuMemcpyHtoAAsync;
    3020 cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz;
    3020 cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds;
    2000 cuMemcpyHtoD;
    2000 cuMemcpyHtoDAsync;
    13020 cuMemcpyWithAttributesAsync | cuMemcpyWithAttributesAsync_ptsz;
    2000 cuMemsetD16;
    2000 cuMemsetD2D16;
    2000 cuMemsetD2D32;
    2000 cuMemsetD2D8;
    2000 cuMemsetD32;
    2000 cuMemsetD8;
    5000 cuMipmappedArrayCreate;
    5000 cuMipmappedArrayDestroy;
    5000 cuMipmappedArrayGetLevel;
    11060 cuMipmappedArrayGetMemoryRequirements;
    11010 cuMipmappedArrayGetSparseProperties;
    2000 cuModuleGetGlobal;
    3000 cuModuleGetSurfRef;
    2000 cuModuleGetTexRef;
    12010 cuMulticastAddDevice;
    12010 cuMulticastBindAddr;
    13010 cuMulticastBindAddr_v2;
    12010 cuMulticastBindMem;
    13010 cuMulticastBindMem_v2;
    12010 cuMulticastCreate;
    12010 cuMulticastGetGranularity;
    12010 cuMulticastUnbind;
    11070 cuOccupancyMaxActiveClusters;
    11070 cuOccupancyMaxPotentialClusterSize;
    2000 cuParamSetSize;
    2000 cuParamSetTexRef;
    2000 cuParamSetf;
    2000 cuParamSeti;
    2000 cuParamSetv;
    10000 cuSignalExternalSemaphoresAsync | cuSignalExternalSemaphoresAsync_ptsz;
    6000 cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz;
    8000 cuStreamBatchMemOp | cuStreamBatchMemOp_ptsz;
    11070 cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz;
    10000 cuStreamBeginCapture | cuStreamBeginCapture_ptsz;
    13010 cuStreamBeginCaptureToCig | cuStreamBeginCaptureToCig_ptsz;
    12030 cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz;
    10010 cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz;
    13030 cuStreamBeginRecaptureToGraph | cuStreamBeginRecaptureToGraph_ptsz;
    10000 cuStreamEndCapture | cuStreamEndCapture_ptsz;
    13010 cuStreamEndCaptureToCig | cuStreamEndCaptureToCig_ptsz;
    13010 cuStreamGetDevResource | cuStreamGetDevResource_ptsz;
    11030 cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz;
    12030 cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz;
    8000 cuStreamWaitValue32 | cuStreamWaitValue32_ptsz;
    11070 cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz;
    9000 cuStreamWaitValue64 | cuStreamWaitValue64_ptsz;
    11070 cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz;
    5000 cuSurfObjectCreate;
    5000 cuSurfObjectDestroy;
    5000 cuSurfObjectGetResourceDesc;
    3000 cuSurfRefGetArray;
    3000 cuSurfRefSetArray;
    12000 cuTensorMapEncodeIm2col;
    12080 cuTensorMapEncodeIm2colWide;
    12000 cuTensorMapEncodeTiled;
    12000 cuTensorMapReplaceAddress;
    13050 cuTensorMapSetAllocationClass;
    5000 cuTexObjectCreate;
    5000 cuTexObjectDestroy;
    5000 cuTexObjectGetResourceDesc;
    5000 cuTexObjectGetResourceViewDesc;
    5000 cuTexObjectGetTextureDesc;
    2000 cuTexRefCreate;
    2000 cuTexRefDestroy;
    2000 cuTexRefGetAddress;
    2000 cuTexRefGetAddressMode;
    3020 cuTexRefGetAddress_v2;
    2000 cuTexRefGetArray;
    8000 cuTexRefGetBorderColor;
    2000 cuTexRefGetFilterMode;
    2000 cuTexRefGetFlags;
    2000 cuTexRefGetFormat;
    5000 cuTexRefGetMaxAnisotropy;
    5000 cuTexRefGetMipmapFilterMode;
    5000 cuTexRefGetMipmapLevelBias;
    5000 cuTexRefGetMipmapLevelClamp;
    5000 cuTexRefGetMipmappedArray;
    2000 cuTexRefSetAddress;
    2020 cuTexRefSetAddress2D;
    3020 cuTexRefSetAddress2D_v2;
    4010 cuTexRefSetAddress2D_v3;
    2000 cuTexRefSetAddressMode;
    3020 cuTexRefSetAddress_v2;
    2000 cuTexRefSetArray;
    8000 cuTexRefSetBorderColor;
    2000 cuTexRefSetFilterMode;
    2000 cuTexRefSetFlags;
    2000 cuTexRefSetFormat;
    5000 cuTexRefSetMaxAnisotropy;
    5000 cuTexRefSetMipmapFilterMode;
    5000 cuTexRefSetMipmapLevelBias;
    5000 cuTexRefSetMipmapLevelClamp;
    5000 cuTexRefSetMipmappedArray;
    11030 cuUserObjectCreate;
    11030 cuUserObjectRelease;
    11030 cuUserObjectRetain;
    10000 cuWaitExternalSemaphoresAsync | cuWaitExternalSemaphoresAsync_ptsz;
}
