//! Device addresses apart from device memory.

use crate::error::ClientError;
use crate::gpu::Gpu;
use crate::link::unexpected;
use gridmux_channel::control::{ControlReply, ControlRequest, PagingRequest};

impl Gpu {
    /// Reserves addresses, makes physical memory, or maps one at the other; returns the address or number of what was
    /// made, and 0 where nothing is. What takes access away waits until everything that was submitted has ended.
    ///
    /// # Errors
    /// The device cannot do that; a range or number that makes no sense; out of memory; the device was lost.
    pub fn paging(&self, request: PagingRequest) -> Result<u64, ClientError> {
        let takes_away = match request {
            PagingRequest::Unmap { .. } => true,
            PagingRequest::Access { is_accessible, .. } => !is_accessible,
            _ => false,
        };
        if takes_away {
            self.link.drain()?;
        }
        match self.link.control(&ControlRequest::Paging(request))? {
            ControlReply::Allocated { address } => Ok(address),
            ControlReply::Object { handle } => Ok(handle),
            ControlReply::Done => Ok(0),
            _ => Err(unexpected("Paging")),
        }
    }
}
