//! Green contexts: parts of the device's SMs, with streams of their own beside those of the primary context.

use super::session::NON_BLOCKING;
use super::{CudaError, Session};

/// `CU_DEV_RESOURCE_TYPE_SM`.
const SMS: u32 = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`.
const DEFAULT_STREAM: u32 = 1;

type Result<T> = std::result::Result<T, CudaError>;

/// A part of the device (`CUdevResource`, of SMs). Only drivers of CUDA 13.0 and later write `least` and `multiple`.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    kind: u32,
    internal: [u8; 92],
    /// How many SMs it has.
    pub sms: u32,
    /// The fewest SMs that a part can have; 0 where the driver does not say.
    pub least: u32,
    /// What the number of SMs of a part is a multiple of; 0 where the driver does not say.
    pub multiple: u32,
    rest: [u32; 9],
}

/// As 64-bit C lays it out.
const _: () = assert!(
    size_of::<Resource>() == 144
        && align_of::<Resource>() == 8
        && std::mem::offset_of!(Resource, sms) == 96
);

impl Resource {
    /// Returns room for the driver to write one to.
    const fn empty() -> Self {
        Self {
            kind: 0,
            internal: [0; 92],
            sms: 0,
            least: 0,
            multiple: 0,
            rest: [0; 9],
        }
    }

    /// Returns the SMs of the session's device.
    ///
    /// # Errors
    /// The driver's.
    pub fn of_device(cuda: &Session) -> Result<Self> {
        let mut resource = Self::empty();
        // SAFETY: the place is as large as the driver's structure, and lives across the call.
        unsafe {
            cuda.api
                .cuDeviceGetDevResource(cuda.device, &mut resource, SMS)?;
        }
        Ok(resource)
    }
}

/// Splits SMs into at most `most` groups of at least that many; returns the groups and what is left.
///
/// # Errors
/// The driver's.
pub fn split_sms(
    cuda: &Session,
    whole: &Resource,
    (most, least): (usize, u32),
) -> Result<(Vec<Resource>, Resource)> {
    let mut groups = vec![Resource::empty(); most];
    let mut count = u32::try_from(most).unwrap_or(u32::MAX);
    let mut rest = Resource::empty();
    // SAFETY: there is room for as many groups as `count` says, and the places live across the call.
    unsafe {
        cuda.api.cuDevSmResourceSplitByCount(
            groups.as_mut_ptr(),
            &mut count,
            whole,
            &mut rest,
            0,
            least,
        )?;
    }
    groups.truncate(count as usize);
    Ok((groups, rest))
}

/// A green context; it ends with its value.
#[derive(Debug)]
pub struct GreenContext<'a> {
    cuda: &'a Session,
    handle: u64,
}

impl<'a> GreenContext<'a> {
    /// Makes a green context of some SMs.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(cuda: &'a Session, sms: Resource) -> Result<Self> {
        let (mut sms, mut descriptor, mut handle) = (sms, 0, 0);
        // SAFETY: the places live across the calls, and there is one resource.
        unsafe {
            cuda.api
                .cuDevResourceGenerateDesc(&mut descriptor, &mut sms, 1)?;
            cuda.api
                .cuGreenCtxCreate(&mut handle, descriptor, cuda.device, DEFAULT_STREAM)?;
        }
        Ok(Self { cuda, handle })
    }

    /// Makes a stream of a priority whose kernels run on the context's SMs.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self, priority: i32) -> Result<u64> {
        let mut stream = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            self.cuda.api.cuGreenCtxStreamCreate(
                &mut stream,
                self.handle,
                NON_BLOCKING,
                priority,
            )?;
        }
        Ok(stream)
    }
}

impl Drop for GreenContext<'_> {
    fn drop(&mut self) {
        // SAFETY: the driver looks the handle up, and nobody uses it any more. What it answers changes nothing.
        drop(unsafe { self.cuda.api.cuGreenCtxDestroy(self.handle) });
    }
}
