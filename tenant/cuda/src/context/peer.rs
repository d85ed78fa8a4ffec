//! Other devices. A program sees one, so there is no peer.

use super::{CUcontext, Context, current::current};
use crate::api::driver_api;
use crate::border::Out;
use crate::device::{self, CUdevice};
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

driver_api! {
    needs Init;
    4000 cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) => enable;
    4000 cuCtxDisablePeerAccess(peer: CUcontext) => disable;
    8000 cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, from: CUdevice, to: CUdevice) => attribute_of;
}

fn enable(peer: Arc<Context>, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if Arc::ptr_eq(&peer, &current()?) {
        return Err(Status::INVALID_CONTEXT);
    }
    Err(Status::PEER_ACCESS_UNSUPPORTED)
}

fn disable(_: Arc<Context>) -> CudaResult {
    current()?;
    Err(Status::PEER_ACCESS_NOT_ENABLED)
}

/// Refuses: two devices that are the same have no link between them.
fn attribute_of(_: Out<c_int>, _: c_uint, from: CUdevice, to: CUdevice) -> CudaResult {
    device::check(from)?;
    device::check(to)?;
    Err(Status::INVALID_DEVICE)
}
