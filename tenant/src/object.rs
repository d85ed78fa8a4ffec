//! Textures and surfaces of device memory.

use crate::error::ClientError;
use crate::gpu::Gpu;
use crate::link::{LinkRef, unexpected};
use gridmux_channel::control::object::Object;
use gridmux_channel::control::{ControlReply, ControlRequest};

/// A texture or a surface. When dropped it ends, behind everything that was submitted.
#[derive(Debug)]
pub struct ObjectHandle {
    link: LinkRef,
    handle: u64,
}

impl ObjectHandle {
    /// Returns what stands for it in kernels, a parameter of 64 bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.handle
    }
}

impl Drop for ObjectHandle {
    fn drop(&mut self) {
        // The mediator keeps it for what it has admitted; what lies in the ring still is admitted first.
        if self.link.drain().is_ok() {
            let handle = self.handle;
            let _ = self.link.control(&ControlRequest::DestroyObject { handle });
        }
    }
}

impl Gpu {
    /// Makes a texture or a surface of texels in device memory, which must live as long as it does.
    ///
    /// # Errors
    /// The device has none; the texels are not all in one allocation or not aligned; too many; the device was lost.
    pub fn object(&self, object: Object) -> Result<ObjectHandle, ClientError> {
        match self.link.control(&ControlRequest::CreateObject(object))? {
            ControlReply::Object { handle } => Ok(ObjectHandle {
                link: self.link.clone(),
                handle,
            }),
            _ => Err(unexpected("CreateObject")),
        }
    }
}
