//! What a device has, as one structure.

use crate::border::Place;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use std::ffi::{c_char, c_int, c_uint};

/// Numbers that NVIDIA may give a meaning later.
const RESERVED: usize = if cfg!(cuda = "12") { 63 } else { 56 };

/// Declares the structure: its fields, and the driver's attribute (`CUdevice_attribute`) of each, or of each element.
macro_rules! properties {
    ($($(#[$when:meta])? $field:ident: $type:ty = [$($attribute:literal),*];)*) => {
        /// What a device has (`cudaDeviceProp`).
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct DeviceProperties {
            name: [c_char; 256],
            uuid: [u8; 16],
            luid: [u8; 8],
            luid_mask: c_uint,
            memory_bytes: usize,
            $($(#[$when])? $field: $type,)*
            reserved: [c_int; RESERVED],
        }

        impl DeviceProperties {
            /// Asks the driver.
            ///
            /// # Errors
            /// [`Status::INVALID_DEVICE`].
            pub fn of(driver: &Driver, device: c_int) -> CudaResult<Self> {
                let (mut name, mut uuid, mut memory_bytes) = ([0; 256], [0; 16], 0);
                driver.cuDeviceGetName(Place::first(&mut name), 256, device)?;
                driver.cuDeviceGetUuid_v2(Place::to(&mut uuid), device)?;
                driver.cuDeviceTotalMem_v2(Place::to(&mut memory_bytes), device)?;
                Ok(Self {
                    name,
                    uuid,
                    luid: [0; 8],
                    luid_mask: 0,
                    memory_bytes,
                    $($(#[$when])? $field: <$type>::of_attributes([$(attribute(driver, $attribute, device)?),*]),)*
                    reserved: [0; RESERVED],
                })
            }
        }
    };
}

properties! {
    shared_bytes_per_block: usize = [8];
    registers_per_block: c_int = [12];
    warp_size: c_int = [10];
    most_pitch: usize = [11];
    most_threads_per_block: c_int = [1];
    most_block: [c_int; 3] = [2, 3, 4];
    most_grid: [c_int; 3] = [5, 6, 7];
    #[cfg(cuda = "12")]
    clock_khz: c_int = [13];
    constant_bytes: usize = [9];
    capability: [c_int; 2] = [75, 76];
    texture_alignment: usize = [14];
    texture_pitch_alignment: usize = [51];
    #[cfg(cuda = "12")]
    copy_overlap: c_int = [15];
    sms: c_int = [16];
    #[cfg(cuda = "12")]
    kernels_time_out: c_int = [17];
    integrated: c_int = [18];
    can_map_host_memory: c_int = [19];
    #[cfg(cuda = "12")]
    compute_mode: c_int = [20];
    textures_1d: [c_int; 2] = [21, 77];
    #[cfg(cuda = "12")]
    textures_1d_linear: c_int = [69];
    textures: [c_int; 23] = [
        22, 23, 73, 74, 70, 71, 72, 45, 46, 24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53, 54
    ];
    surfaces: [c_int; 14] = [55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68];
    surface_alignment: usize = [30];
    concurrent_kernels: c_int = [31];
    ecc: c_int = [32];
    pci: [c_int; 3] = [33, 34, 50];
    tcc: c_int = [35];
    copy_engines: c_int = [40];
    unified_addressing: c_int = [41];
    #[cfg(cuda = "12")]
    memory_clock_khz: c_int = [36];
    bus_bits: c_int = [37];
    l2_bytes: c_int = [38];
    most_persisting_bytes: c_int = [108];
    threads_per_sm: c_int = [39];
    stream_priorities: c_int = [78];
    l1_caches: [c_int; 2] = [79, 80];
    shared_bytes_per_sm: usize = [81];
    registers_per_sm: c_int = [82];
    managed_memory: c_int = [83];
    multi_gpu_board: [c_int; 2] = [84, 85];
    host_native_atomics: c_int = [86];
    #[cfg(cuda = "12")]
    single_to_double: c_int = [87];
    pageable_access: c_int = [88];
    concurrent_managed: c_int = [89];
    compute_preemption: c_int = [90];
    host_pointer_for_registered: c_int = [91];
    cooperative_launch: c_int = [95];
    #[cfg(cuda = "12")]
    cooperative_devices: c_int = [96];
    shared_bytes_optin: usize = [97];
    pageable_by_host_tables: c_int = [100];
    direct_managed: c_int = [101];
    blocks_per_sm: c_int = [106];
    most_access_window: c_int = [109];
    reserved_shared_bytes: usize = [111];
    host_register: c_int = [99];
    sparse_arrays: c_int = [112];
    host_register_read_only: c_int = [113];
    timeline_semaphores: c_int = [114];
    memory_pools: c_int = [115];
    rdma: [c_int; 3] = [116, 117, 118];
    pool_handle_types: c_int = [119];
    deferred_arrays: c_int = [121];
    ipc_events: c_int = [125];
    clusters: c_int = [120];
    unified_functions: c_int = [129];
    #[cfg(cuda = "13")]
    numa: [c_int; 2] = [130, 131];
    #[cfg(cuda = "13")]
    mps: c_int = [133];
    #[cfg(cuda = "13")]
    host_numa: c_int = [134];
    #[cfg(cuda = "13")]
    pci_ids: [c_int; 2] = [139, 140];
    #[cfg(cuda = "13")]
    host_numa_ipc: c_int = [143];
}

// As the compiler of C lays `cudaDeviceProp` out.
#[cfg(cuda = "13")]
const _: () = assert!(size_of::<DeviceProperties>() == 1008);
#[cfg(cuda = "12")]
const _: () = assert!(size_of::<DeviceProperties>() == 1032);

/// What of it programs know that were compiled by CUDA 11 or before: its beginning.
#[cfg(cuda = "12")]
pub type OldDeviceProperties = std::mem::MaybeUninit<[u8; OLD_BYTES]>;
/// The size of that.
#[cfg(cuda = "12")]
const OLD_BYTES: usize = std::mem::offset_of!(DeviceProperties, host_register);

#[cfg(cuda = "12")]
impl DeviceProperties {
    /// Returns its beginning.
    #[must_use]
    pub fn old(&self) -> OldDeviceProperties {
        // SAFETY: the structure is longer, and any bytes will do, those between fields too.
        unsafe {
            std::ptr::from_ref(self)
                .cast::<OldDeviceProperties>()
                .read()
        }
    }
}

/// Returns an attribute of a device; 0 where the driver does not know it.
fn attribute(driver: &Driver, number: c_int, device: c_int) -> CudaResult<c_int> {
    let mut value = 0;
    match driver.cuDeviceGetAttribute(Place::to(&mut value), number, device) {
        Ok(()) => Ok(value),
        Err(Status::INVALID_VALUE | Status::NOT_SUPPORTED) => Ok(0),
        Err(status) => Err(status),
    }
}

/// A field that is made of attributes.
trait OfAttributes<const N: usize> {
    fn of_attributes(values: [c_int; N]) -> Self;
}

impl OfAttributes<1> for c_int {
    fn of_attributes([value]: [c_int; 1]) -> Self {
        value
    }
}

impl OfAttributes<1> for usize {
    fn of_attributes([value]: [c_int; 1]) -> Self {
        Self::try_from(value).unwrap_or(0)
    }
}

impl<const N: usize> OfAttributes<N> for [c_int; N] {
    fn of_attributes(values: [c_int; N]) -> Self {
        values
    }
}
