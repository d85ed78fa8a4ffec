//! The CUDA driver library that the process finds, and the functions of it that this library asks.

use crate::status::{NvmlResult, Status};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_uint};

/// Declares the functions, whose pointers are our own.
macro_rules! driver_functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[derive(Debug)]
        pub(crate) struct Driver {
            _library: Library,
            $($name: Option<unsafe extern "C" fn($($type),*) -> u32>,)*
        }

        #[allow(non_snake_case, reason = "the names are those of the C API")]
        impl Driver {
            fn of(library: Library) -> Self {
                $(
                    // SAFETY: the type is that of the function's C declaration.
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
                /// [`Status::NOT_SUPPORTED`]: the driver has no such function; [`Status::UNKNOWN`]: it failed.
                ///
                /// # Safety
                /// Pointers are good for what the C declaration asks for.
                unsafe fn $name(&self, $($arg: $type),*) -> NvmlResult {
                    let function = self.$name.ok_or(Status::NOT_SUPPORTED)?;
                    // SAFETY: as the caller promises.
                    match unsafe { function($($arg),*) } {
                        0 => Ok(()),
                        _ => Err(Status::UNKNOWN),
                    }
                }
            )*
        }
    };
}

driver_functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(context: *mut usize);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
}

/// Bytes of a device's name, the end included.
const NAME_BYTES: usize = 96;

impl Driver {
    /// Opens and initialises it.
    ///
    /// # Errors
    /// [`Status::DRIVER_NOT_LOADED`]: there is none, or it finds no device.
    pub(crate) fn open() -> NvmlResult<Self> {
        // SAFETY: the driver library's initialisers are those of a library that programs open at any time.
        let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_GLOBAL) };
        let driver = Self::of(library.map_err(|_| Status::DRIVER_NOT_LOADED)?);
        // SAFETY: it takes no pointer.
        let begun = unsafe { driver.cuInit(0) };
        begun
            .map(|()| driver)
            .map_err(|_| Status::DRIVER_NOT_LOADED)
    }

    /// Returns the version of its API, 1000 times the major one plus 10 times the minor one.
    pub(crate) fn version(&self) -> NvmlResult<c_int> {
        let mut version = 0;
        // SAFETY: the place is our own.
        unsafe { self.cuDriverGetVersion(&raw mut version) }?;
        Ok(version)
    }

    /// Returns the number of devices.
    pub(crate) fn count(&self) -> NvmlResult<c_int> {
        let mut count = 0;
        // SAFETY: the place is our own.
        unsafe { self.cuDeviceGetCount(&raw mut count) }?;
        Ok(count)
    }

    /// Returns a device's name, without its end.
    pub(crate) fn name(&self, device: c_int) -> NvmlResult<Vec<u8>> {
        let mut name = [0_u8; NAME_BYTES];
        let bytes = c_int::try_from(NAME_BYTES - 1).unwrap_or(0);
        // SAFETY: the place is our own and that large.
        unsafe { self.cuDeviceGetName(name.as_mut_ptr().cast(), bytes, device) }?;
        Ok(name.into_iter().take_while(|byte| *byte != 0).collect())
    }

    /// Returns an attribute of a device (`CUdevice_attribute`).
    pub(crate) fn attribute(&self, attribute: c_int, device: c_int) -> NvmlResult<c_int> {
        let mut value = 0;
        // SAFETY: the place is our own.
        unsafe { self.cuDeviceGetAttribute(&raw mut value, attribute, device) }?;
        Ok(value)
    }

    /// Returns what no other device has.
    pub(crate) fn uuid(&self, device: c_int) -> NvmlResult<[u8; 16]> {
        let mut uuid = [0; 16];
        // SAFETY: the place is our own.
        unsafe { self.cuDeviceGetUuid_v2(&raw mut uuid, device) }?;
        Ok(uuid)
    }

    /// Returns the free bytes of a device's memory, and all of them. The driver tells them in a context, which is the
    /// primary one for as long as it takes.
    pub(crate) fn memory(&self, device: c_int) -> NvmlResult<(usize, usize)> {
        let (mut context, mut free, mut total) = (0, 0, 0);
        // SAFETY: every place is our own; what was pushed is popped again, and what was retained released.
        unsafe {
            self.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
            let told = self.cuCtxPushCurrent_v2(context).and_then(|()| {
                let told = self.cuMemGetInfo_v2(&raw mut free, &raw mut total);
                self.cuCtxPopCurrent_v2(&raw mut context).and(told)
            });
            self.cuDevicePrimaryCtxRelease_v2(device).and(told)?;
        }
        Ok((free, total))
    }
}
