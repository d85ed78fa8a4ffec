//! The numbers of the API's attributes, under NVIDIA's names without their common beginnings.
//!
//! Rule: whoever answers for an attribute names it; a bare number says nothing to a reader.

/// The value of an attribute of a stream or a launch (`CUlaunchAttributeValue`, `CUstreamAttrValue`), as words.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(pub [u32; 16]);

const _: () = assert!(size_of::<Value>() == 64);

/// `CUdevice_attribute`: names that begin with `CU_DEVICE_ATTRIBUTE_`.
pub(crate) mod device {
    use std::ffi::c_int;

    pub(crate) const MAX_THREADS_PER_BLOCK: c_int = 1;
    pub(crate) const MAX_BLOCK_DIM_X: c_int = 2;
    pub(crate) const MAX_BLOCK_DIM_Y: c_int = 3;
    pub(crate) const MAX_BLOCK_DIM_Z: c_int = 4;
    pub(crate) const MAX_GRID_DIM_X: c_int = 5;
    pub(crate) const MAX_GRID_DIM_Y: c_int = 6;
    pub(crate) const MAX_GRID_DIM_Z: c_int = 7;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK: c_int = 8;
    pub(crate) const TOTAL_CONSTANT_MEMORY: c_int = 9;
    pub(crate) const WARP_SIZE: c_int = 10;
    pub(crate) const MAX_PITCH: c_int = 11;
    pub(crate) const MAX_REGISTERS_PER_BLOCK: c_int = 12;
    pub(crate) const CLOCK_RATE: c_int = 13;
    pub(crate) const TEXTURE_ALIGNMENT: c_int = 14;
    pub(crate) const GPU_OVERLAP: c_int = 15;
    pub(crate) const MULTIPROCESSOR_COUNT: c_int = 16;
    pub(crate) const CAN_MAP_HOST_MEMORY: c_int = 19;
    pub(crate) const SURFACE_ALIGNMENT: c_int = 30;
    pub(crate) const CONCURRENT_KERNELS: c_int = 31;
    pub(crate) const MEMORY_CLOCK_RATE: c_int = 36;
    pub(crate) const GLOBAL_MEMORY_BUS_WIDTH: c_int = 37;
    pub(crate) const L2_CACHE_SIZE: c_int = 38;
    pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: c_int = 39;
    pub(crate) const ASYNC_ENGINE_COUNT: c_int = 40;
    pub(crate) const UNIFIED_ADDRESSING: c_int = 41;
    pub(crate) const TEXTURE_PITCH_ALIGNMENT: c_int = 51;
    pub(crate) const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub(crate) const COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub(crate) const STREAM_PRIORITIES_SUPPORTED: c_int = 78;
    pub(crate) const GLOBAL_L1_CACHE_SUPPORTED: c_int = 79;
    pub(crate) const LOCAL_L1_CACHE_SUPPORTED: c_int = 80;
    pub(crate) const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: c_int = 81;
    pub(crate) const MAX_REGISTERS_PER_MULTIPROCESSOR: c_int = 82;
    pub(crate) const MANAGED_MEMORY: c_int = 83;
    pub(crate) const SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: c_int = 87;
    pub(crate) const CONCURRENT_MANAGED_ACCESS: c_int = 89;
    pub(crate) const COMPUTE_PREEMPTION_SUPPORTED: c_int = 90;
    pub(crate) const COOPERATIVE_LAUNCH: c_int = 95;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    pub(crate) const HOST_REGISTER_SUPPORTED: c_int = 99;
    pub(crate) const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;
    pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: c_int = 106;
    pub(crate) const RESERVED_SHARED_MEMORY_PER_BLOCK: c_int = 111;
    pub(crate) const MEMORY_POOLS_SUPPORTED: c_int = 115;
    pub(crate) const MEM_SYNC_DOMAIN_COUNT: c_int = 126;
    pub(crate) const NUMA_ID: c_int = 131;
    pub(crate) const HOST_NUMA_ID: c_int = 134;
    pub(crate) const HOST_NUMA_MEMORY_POOLS_SUPPORTED: c_int = 142;
    pub(crate) const HOST_MEMORY_POOLS_SUPPORTED: c_int = 144;
    pub(crate) const MAXIMUM_TEXTURE1D_WIDTH: c_int = 21;
    pub(crate) const MAXIMUM_TEXTURE2D_WIDTH: c_int = 22;
    pub(crate) const MAXIMUM_TEXTURE2D_HEIGHT: c_int = 23;
    pub(crate) const MAXIMUM_TEXTURE3D_WIDTH: c_int = 24;
    pub(crate) const MAXIMUM_TEXTURE3D_DEPTH: c_int = 26;
    pub(crate) const MAXIMUM_TEXTURE2D_LAYERED_WIDTH: c_int = 27;
    pub(crate) const MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: c_int = 28;
    pub(crate) const MAXIMUM_TEXTURE2D_LAYERED_LAYERS: c_int = 29;
    pub(crate) const MAXIMUM_TEXTURE1D_LAYERED_WIDTH: c_int = 42;
    pub(crate) const MAXIMUM_TEXTURE1D_LAYERED_LAYERS: c_int = 43;
    pub(crate) const MAXIMUM_TEXTURE2D_GATHER_WIDTH: c_int = 45;
    pub(crate) const MAXIMUM_TEXTURE2D_GATHER_HEIGHT: c_int = 46;
    pub(crate) const MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: c_int = 47;
    pub(crate) const MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: c_int = 49;
    pub(crate) const MAXIMUM_SURFACE1D_WIDTH: c_int = 55;
    pub(crate) const MAXIMUM_SURFACE2D_WIDTH: c_int = 56;
    pub(crate) const MAXIMUM_SURFACE2D_HEIGHT: c_int = 57;
    pub(crate) const MAXIMUM_SURFACE3D_WIDTH: c_int = 58;
    pub(crate) const MAXIMUM_SURFACE3D_DEPTH: c_int = 60;
    pub(crate) const MAXIMUM_SURFACE1D_LAYERED_WIDTH: c_int = 61;
    pub(crate) const MAXIMUM_SURFACE1D_LAYERED_LAYERS: c_int = 62;
    pub(crate) const MAXIMUM_SURFACE2D_LAYERED_WIDTH: c_int = 63;
    pub(crate) const MAXIMUM_SURFACE2D_LAYERED_HEIGHT: c_int = 64;
    pub(crate) const MAXIMUM_SURFACE2D_LAYERED_LAYERS: c_int = 65;
    pub(crate) const MAXIMUM_TEXTURE1D_LINEAR_WIDTH: c_int = 69;
    pub(crate) const MAXIMUM_TEXTURE2D_LINEAR_WIDTH: c_int = 70;
    pub(crate) const MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: c_int = 71;
    pub(crate) const MAXIMUM_TEXTURE2D_LINEAR_PITCH: c_int = 72;
    /// The greatest number that is an attribute (CUDA 13.5).
    pub(crate) const LAST: c_int = 161;
}

/// `CUpointer_attribute`: names that begin with `CU_POINTER_ATTRIBUTE_`.
pub(crate) mod pointer {
    use std::ffi::c_uint;

    pub(crate) const CONTEXT: c_uint = 1;
    pub(crate) const MEMORY_TYPE: c_uint = 2;
    pub(crate) const DEVICE_POINTER: c_uint = 3;
    pub(crate) const HOST_POINTER: c_uint = 4;
    pub(crate) const P2P_TOKENS: c_uint = 5;
    pub(crate) const SYNC_MEMOPS: c_uint = 6;
    pub(crate) const BUFFER_ID: c_uint = 7;
    pub(crate) const IS_MANAGED: c_uint = 8;
    pub(crate) const DEVICE_ORDINAL: c_uint = 9;
    pub(crate) const IS_LEGACY_CUDA_IPC_CAPABLE: c_uint = 10;
    pub(crate) const RANGE_START_ADDR: c_uint = 11;
    pub(crate) const RANGE_SIZE: c_uint = 12;
    pub(crate) const MAPPED: c_uint = 13;
    pub(crate) const ALLOWED_HANDLE_TYPES: c_uint = 14;
    pub(crate) const IS_GPU_DIRECT_RDMA_CAPABLE: c_uint = 15;
    pub(crate) const ACCESS_FLAGS: c_uint = 16;
    pub(crate) const MEMPOOL_HANDLE: c_uint = 17;
    pub(crate) const MAPPING_SIZE: c_uint = 18;
    pub(crate) const MAPPING_BASE_ADDR: c_uint = 19;
    pub(crate) const MEMORY_BLOCK_ID: c_uint = 20;
    pub(crate) const IS_HW_DECOMPRESS_CAPABLE: c_uint = 21;
    pub(crate) const LOCALITY_DOMAIN_ORDINAL: c_uint = 22;
}

/// `CUmemorytype`: names that begin with `CU_MEMORYTYPE_`.
pub(crate) mod memory_type {
    use std::ffi::c_uint;

    pub(crate) const HOST: c_uint = 1;
    pub(crate) const DEVICE: c_uint = 2;
    pub(crate) const ARRAY: c_uint = 3;
    pub(crate) const UNIFIED: c_uint = 4;
}

/// `CUfunction_attribute`: names that begin with `CU_FUNC_ATTRIBUTE_`.
pub(crate) mod function {
    use std::ffi::c_int;

    pub(crate) const MAX_THREADS_PER_BLOCK: c_int = 0;
    pub(crate) const SHARED_SIZE_BYTES: c_int = 1;
    pub(crate) const CONST_SIZE_BYTES: c_int = 2;
    pub(crate) const LOCAL_SIZE_BYTES: c_int = 3;
    pub(crate) const NUM_REGS: c_int = 4;
    pub(crate) const PTX_VERSION: c_int = 5;
    pub(crate) const BINARY_VERSION: c_int = 6;
    pub(crate) const CACHE_MODE_CA: c_int = 7;
    pub(crate) const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
    pub(crate) const PREFERRED_SHARED_MEMORY_CARVEOUT: c_int = 9;
    pub(crate) const CLUSTER_SIZE_MUST_BE_SET: c_int = 10;
    pub(crate) const CLUSTER_SCHEDULING_POLICY_PREFERENCE: c_int = 15;
}

/// `CUmemPool_attribute`: names that begin with `CU_MEMPOOL_ATTR_`.
pub(crate) mod pool {
    use std::ffi::c_uint;

    pub(crate) const REUSE_FOLLOW_EVENT_DEPENDENCIES: c_uint = 1;
    pub(crate) const REUSE_ALLOW_INTERNAL_DEPENDENCIES: c_uint = 3;
    pub(crate) const RELEASE_THRESHOLD: c_uint = 4;
    pub(crate) const RESERVED_MEM_CURRENT: c_uint = 5;
    pub(crate) const RESERVED_MEM_HIGH: c_uint = 6;
    pub(crate) const USED_MEM_CURRENT: c_uint = 7;
    pub(crate) const USED_MEM_HIGH: c_uint = 8;
    pub(crate) const ALLOCATION_TYPE: c_uint = 9;
    pub(crate) const LOCATION_TYPE: c_uint = 12;
    pub(crate) const MAX_POOL_SIZE: c_uint = 13;
    pub(crate) const HW_DECOMPRESS_ENABLED: c_uint = 14;
    pub(crate) const LOCALITY_DOMAIN_ID: c_uint = 15;
}

/// `CUlaunchAttributeID`, of which streams have these: names that begin with `CU_LAUNCH_ATTRIBUTE_`.
pub(crate) mod stream {
    use std::ffi::c_uint;

    pub(crate) const ACCESS_POLICY_WINDOW: c_uint = 1;
    pub(crate) const SYNCHRONIZATION_POLICY: c_uint = 3;
    pub(crate) const PRIORITY: c_uint = 8;
    pub(crate) const MEM_SYNC_DOMAIN_MAP: c_uint = 9;
    pub(crate) const MEM_SYNC_DOMAIN: c_uint = 10;
}
