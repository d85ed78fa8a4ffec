//! The codes of the API (`cudaError_t`). Nearly all are the driver's, with the same meaning, so that a code of the
//! driver is one of this API as it is.

use crate::border::Place;
use crate::driver::Driver;
use std::ffi::{CStr, c_char};

/// A code.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

/// What a function comes to.
pub type CudaResult<T = ()> = Result<T, Status>;

/// Declares the codes, with the text for those that the driver does not know.
macro_rules! codes {
    ($($code:literal $name:ident $(= $text:literal)?;)*) => {
        /// Each code's number, name and text.
        const CODES: &[(u32, &str, Option<&CStr>)] = &[$(
            ($code, concat!(stringify!($name), "\0"), codes!(@text $($text)?)),
        )*];
    };
    (@text $text:literal) => { Some($text) };
    (@text) => { None };
}

codes! {
    0 cudaSuccess;
    1 cudaErrorInvalidValue;
    2 cudaErrorMemoryAllocation;
    3 cudaErrorInitializationError;
    4 cudaErrorCudartUnloading;
    5 cudaErrorProfilerDisabled;
    6 cudaErrorProfilerNotInitialized;
    7 cudaErrorProfilerAlreadyStarted;
    8 cudaErrorProfilerAlreadyStopped;
    9 cudaErrorInvalidConfiguration = c"the launch's configuration is invalid";
    10 cudaErrorVersionTranslation = c"a program of another version than the library";
    12 cudaErrorInvalidPitchValue = c"the pitch is invalid";
    13 cudaErrorInvalidSymbol = c"there is no such variable on the device";
    16 cudaErrorInvalidHostPointer = c"the pointer is none of the host's";
    17 cudaErrorInvalidDevicePointer = c"the pointer is none of the device's";
    18 cudaErrorInvalidTexture = c"the texture is invalid";
    19 cudaErrorInvalidTextureBinding = c"the texture is not bound";
    20 cudaErrorInvalidChannelDescriptor = c"the description of channels is invalid";
    21 cudaErrorInvalidMemcpyDirection = c"there is no such direction of copies";
    22 cudaErrorAddressOfConstant = c"the address of a constant was taken";
    23 cudaErrorTextureFetchFailed = c"a texture could not be read";
    24 cudaErrorTextureNotBound = c"a texture that is not bound was read";
    25 cudaErrorSynchronizationError = c"a synchronisation failed";
    26 cudaErrorInvalidFilterSetting = c"a texture cannot be filtered so";
    27 cudaErrorInvalidNormSetting = c"a texture cannot be normalised so";
    28 cudaErrorMixedDeviceExecution = c"device code and emulated code were mixed";
    31 cudaErrorNotYetImplemented = c"not yet implemented";
    32 cudaErrorMemoryValueTooLarge = c"the value is too large for an address";
    34 cudaErrorStubLibrary;
    35 cudaErrorInsufficientDriver = c"there is no driver library that is new enough for this runtime library";
    36 cudaErrorCallRequiresNewerDriver;
    37 cudaErrorInvalidSurface = c"the surface is invalid";
    43 cudaErrorDuplicateVariableName = c"two variables have the same name";
    44 cudaErrorDuplicateTextureName = c"two textures have the same name";
    45 cudaErrorDuplicateSurfaceName = c"two surfaces have the same name";
    46 cudaErrorDevicesUnavailable;
    49 cudaErrorIncompatibleDriverContext = c"the current context of the driver cannot be used";
    52 cudaErrorMissingConfiguration = c"a launch without a configuration";
    53 cudaErrorPriorLaunchFailure = c"an earlier launch failed";
    65 cudaErrorLaunchMaxDepthExceeded = c"launches from the device are nested too deeply";
    66 cudaErrorLaunchFileScopedTex = c"a launch from the device uses a texture of its file";
    67 cudaErrorLaunchFileScopedSurf = c"a launch from the device uses a surface of its file";
    68 cudaErrorSyncDepthExceeded = c"launches from the device are waited for too deeply";
    69 cudaErrorLaunchPendingCountExceeded = c"too many launches from the device wait";
    98 cudaErrorInvalidDeviceFunction = c"there is no such kernel on the device";
    100 cudaErrorNoDevice;
    101 cudaErrorInvalidDevice;
    102 cudaErrorDeviceNotLicensed;
    103 cudaErrorSoftwareValidityNotEstablished = c"the software has not been found valid";
    127 cudaErrorStartupFailure = c"the library could not begin";
    200 cudaErrorInvalidKernelImage;
    201 cudaErrorDeviceUninitialized;
    205 cudaErrorMapBufferObjectFailed;
    206 cudaErrorUnmapBufferObjectFailed;
    207 cudaErrorArrayIsMapped;
    208 cudaErrorAlreadyMapped;
    209 cudaErrorNoKernelImageForDevice;
    210 cudaErrorAlreadyAcquired;
    211 cudaErrorNotMapped;
    212 cudaErrorNotMappedAsArray;
    213 cudaErrorNotMappedAsPointer;
    214 cudaErrorECCUncorrectable;
    215 cudaErrorUnsupportedLimit;
    216 cudaErrorDeviceAlreadyInUse;
    217 cudaErrorPeerAccessUnsupported;
    218 cudaErrorInvalidPtx;
    219 cudaErrorInvalidGraphicsContext;
    220 cudaErrorNvlinkUncorrectable;
    221 cudaErrorJitCompilerNotFound;
    222 cudaErrorUnsupportedPtxVersion;
    223 cudaErrorJitCompilationDisabled;
    224 cudaErrorUnsupportedExecAffinity;
    225 cudaErrorUnsupportedDevSideSync;
    226 cudaErrorContained;
    227 cudaErrorInsufficientLoaderVersion;
    300 cudaErrorInvalidSource;
    301 cudaErrorFileNotFound;
    302 cudaErrorSharedObjectSymbolNotFound;
    303 cudaErrorSharedObjectInitFailed;
    304 cudaErrorOperatingSystem;
    400 cudaErrorInvalidResourceHandle;
    401 cudaErrorIllegalState;
    402 cudaErrorLossyQuery;
    500 cudaErrorSymbolNotFound;
    600 cudaErrorNotReady;
    700 cudaErrorIllegalAddress;
    701 cudaErrorLaunchOutOfResources;
    702 cudaErrorLaunchTimeout;
    703 cudaErrorLaunchIncompatibleTexturing;
    704 cudaErrorPeerAccessAlreadyEnabled;
    705 cudaErrorPeerAccessNotEnabled;
    708 cudaErrorSetOnActiveProcess;
    709 cudaErrorContextIsDestroyed;
    710 cudaErrorAssert;
    711 cudaErrorTooManyPeers;
    712 cudaErrorHostMemoryAlreadyRegistered;
    713 cudaErrorHostMemoryNotRegistered;
    714 cudaErrorHardwareStackError;
    715 cudaErrorIllegalInstruction;
    716 cudaErrorMisalignedAddress;
    717 cudaErrorInvalidAddressSpace;
    718 cudaErrorInvalidPc;
    719 cudaErrorLaunchFailure;
    720 cudaErrorCooperativeLaunchTooLarge;
    721 cudaErrorTensorMemoryLeak;
    800 cudaErrorNotPermitted;
    801 cudaErrorNotSupported;
    802 cudaErrorSystemNotReady;
    803 cudaErrorSystemDriverMismatch;
    804 cudaErrorCompatNotSupportedOnDevice;
    805 cudaErrorMpsConnectionFailed;
    806 cudaErrorMpsRpcFailure;
    807 cudaErrorMpsServerNotReady;
    808 cudaErrorMpsMaxClientsReached;
    809 cudaErrorMpsMaxConnectionsReached;
    810 cudaErrorMpsClientTerminated;
    811 cudaErrorCdpNotSupported;
    812 cudaErrorCdpVersionMismatch;
    900 cudaErrorStreamCaptureUnsupported;
    901 cudaErrorStreamCaptureInvalidated;
    902 cudaErrorStreamCaptureMerge;
    903 cudaErrorStreamCaptureUnmatched;
    904 cudaErrorStreamCaptureUnjoined;
    905 cudaErrorStreamCaptureIsolation;
    906 cudaErrorStreamCaptureImplicit;
    907 cudaErrorCapturedEvent;
    908 cudaErrorStreamCaptureWrongThread;
    909 cudaErrorTimeout;
    910 cudaErrorGraphExecUpdateFailure;
    911 cudaErrorExternalDevice;
    912 cudaErrorInvalidClusterSize;
    913 cudaErrorFunctionNotLoaded;
    914 cudaErrorInvalidResourceType;
    915 cudaErrorInvalidResourceConfiguration;
    917 cudaErrorStreamDetached;
    918 cudaErrorGraphRecaptureFailure;
    919 cudaErrorFabricNotReady;
    999 cudaErrorUnknown;
    10000 cudaErrorApiFailureBase = c"an error of the driver that has no code here";
}

impl Status {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const UNLOADING: Self = Self(4);
    pub(crate) const INVALID_CONFIGURATION: Self = Self(9);
    pub(crate) const INVALID_PITCH: Self = Self(12);
    pub(crate) const INVALID_CHANNEL_DESCRIPTOR: Self = Self(20);
    pub(crate) const INVALID_SYMBOL: Self = Self(13);
    pub(crate) const INVALID_MEMCPY_DIRECTION: Self = Self(21);
    pub(crate) const INSUFFICIENT_DRIVER: Self = Self(35);
    pub(crate) const MISSING_CONFIGURATION: Self = Self(52);
    pub(crate) const INVALID_DEVICE_FUNCTION: Self = Self(98);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const SYMBOL_NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const UNKNOWN: Self = Self(999);

    /// Returns the result that a code of the driver stands for.
    pub(crate) fn of_driver(code: u32) -> CudaResult {
        match Self(code) {
            Self::SUCCESS => Ok(()),
            status => Err(status),
        }
    }

    /// Returns whether it is of the device and stays until that is reset: an error of code that ran there.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721)
    }

    fn row(self) -> Option<&'static (u32, &'static str, Option<&'static CStr>)> {
        CODES.iter().find(|row| row.0 == self.0)
    }

    fn name(self) -> &'static CStr {
        let name = self
            .row()
            .and_then(|row| CStr::from_bytes_with_nul(row.1.as_bytes()).ok());
        name.unwrap_or(c"unrecognized error code")
    }

    fn text(self) -> *const c_char {
        let Some((_, _, text)) = self.row() else {
            return c"unrecognized error code".as_ptr();
        };
        if let Some(text) = text {
            return text.as_ptr();
        }
        let mut told = std::ptr::null();
        let asked =
            Driver::get().and_then(|driver| driver.cuGetErrorString(self.0, Place::to(&mut told)));
        match asked {
            Ok(()) if !told.is_null() => told,
            _ => self.name().as_ptr(),
        }
    }
}

/// `cudaGetErrorName` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
    Status(code).name().as_ptr()
}

/// `cudaGetErrorString` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: u32) -> *const c_char {
    Status(code).text()
}

#[cfg(test)]
mod tests {
    use super::{CODES, Status};

    #[test]
    fn codes_ascend_and_have_names() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(Status(700).name(), c"cudaErrorIllegalAddress");
        assert_eq!(Status(12345).name(), c"unrecognized error code");
        assert!(Status(700).is_sticky() && !Status(600).is_sticky() && !Status(1).is_sticky());
        assert!(
            !Status(709).is_sticky(),
            "a thread may choose another context"
        );
    }
}
