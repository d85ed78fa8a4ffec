//! Copies with attributes, alone and many by one call.
//!
//! The copies of a batch are all checked before the first is submitted. They are executed in the order in which they
//! stand, on the batch's stream, which the order that NVIDIA leaves open allows. Attributes say when a source is read,
//! which matters for pinned memory alone: other host memory is read before the call returns. Places are hints, and
//! nothing moves.

use super::CUdeviceptr;
use super::copy::{Transfer, run};
use super::properties::CUmemLocation;
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::graph::capture;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};
use std::ffi::c_uint;

/// What holds for copies (`CUmemcpyAttributes`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemcpyAttributes {
    source_order: c_uint,
    source: CUmemLocation,
    target: CUmemLocation,
    flags: c_uint,
}

const _: () = assert!(size_of::<CUmemcpyAttributes>() == 24);

/// When a source is read (`CUmemcpySrcAccessOrder`): in the order of the stream, before the call returns, at any time.
const IN_STREAM: c_uint = 1;
const DURING_CALL: c_uint = 2;
const AT_ANY_TIME: c_uint = 3;
/// A hint that copies should overlap with kernels.
const PREFER_OVERLAP: c_uint = 1;
/// Most copies or ranges of a call, far above what programs pass: a count beyond it is a mistake, as -1 is.
pub(super) const MOST: usize = 1 << 20;
/// The number of a copy that is at fault, if none is.
const NO_COPY: usize = usize::MAX;

driver_api! {
    needs Init;
    12080 cuMemcpyBatchAsync(
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, bytes: *mut usize, count: usize,
        attributes: *mut CUmemcpyAttributes, firsts: *mut usize, kinds: usize, failed: *mut usize, stream: CUstream,
    ) | cuMemcpyBatchAsync_ptsz => batch_that_tells;
    13000 cuMemcpyBatchAsync_v2(
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, bytes: *mut usize, count: usize,
        attributes: *mut CUmemcpyAttributes, firsts: *mut usize, kinds: usize, stream: CUstream,
    ) | cuMemcpyBatchAsync_v2_ptsz => batch;
    13020 cuMemcpyWithAttributesAsync(
        to: CUdeviceptr, from: CUdeviceptr, bytes: usize, attributes: *const CUmemcpyAttributes, stream: CUstream,
    ) | cuMemcpyWithAttributesAsync_ptsz => one;
}

impl CUmemcpyAttributes {
    fn check(&self) -> CudaResult {
        let is_order = matches!(self.source_order, IN_STREAM | DURING_CALL | AT_ANY_TIME);
        match is_order && self.flags & !PREFER_OVERLAP == 0 {
            true => Ok(()),
            false => Err(Status::INVALID_VALUE),
        }
    }
}

/// Submits copies with their attributes; an error comes with the number of the copy at fault.
fn submit(
    default: DefaultStream,
    copies: &[(CUdeviceptr, CUdeviceptr, usize, CUmemcpyAttributes)],
    stream: CUstream,
) -> Result<(), (Status, usize)> {
    let of_all = |status| (status, NO_COPY);
    let (driver, context, stream) = usable_stream(default, stream).map_err(of_all)?;
    if stream.is_legacy() {
        return Err(of_all(Status::INVALID_VALUE));
    }
    capture::refuse_in(&stream).map_err(of_all)?;
    let transfers = copies.iter().enumerate().map(|(number, copy)| {
        let (to, from, bytes, attributes) = *copy;
        let transfer = match bytes {
            0 => Err(Status::INVALID_VALUE),
            bytes => attributes
                .check()
                .and_then(|()| Transfer::new(driver, to, from, bytes)),
        };
        transfer.map_err(|status| (status, number))
    });
    let transfers: Vec<Transfer> = transfers.collect::<Result<_, _>>()?;
    for (number, transfer) in transfers.iter().enumerate() {
        let waits = copies[number].3.source_order == DURING_CALL && transfer.reads_pinned();
        run(driver, &context, &stream, transfer, waits).map_err(|status| (status, number))?;
    }
    Ok(())
}

/// The arrays of a batch.
struct Batch {
    to: Out<CUdeviceptr>,
    from: Out<CUdeviceptr>,
    bytes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    /// The first copy that each of the attributes is of.
    firsts: Out<usize>,
    kinds: usize,
}

impl Batch {
    /// Returns the copies with their attributes.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: there is none or more than [`MOST`], or the attributes do not begin with the first
    /// copy and ascend.
    fn copies(&self) -> CudaResult<Vec<(CUdeviceptr, CUdeviceptr, usize, CUmemcpyAttributes)>> {
        if self.count > MOST
            || !(1..=self.count).contains(&self.kinds)
            || self.firsts.get_at(0) != 0
        {
            return Err(Status::INVALID_VALUE);
        }
        let mut copies = Vec::new();
        for kind in 0..self.kinds {
            let first = self.firsts.get_at(kind);
            let end = match kind + 1 {
                next if next < self.kinds => self.firsts.get_at(next),
                _ => self.count,
            };
            if first >= end || end > self.count {
                return Err(Status::INVALID_VALUE);
            }
            let attributes = self.attributes.get_at(kind);
            copies.extend((first..end).map(|at| {
                (
                    self.to.get_at(at),
                    self.from.get_at(at),
                    self.bytes.get_at(at),
                    attributes,
                )
            }));
        }
        Ok(copies)
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn batch(
    default: DefaultStream,
    to: Out<CUdeviceptr>,
    from: Out<CUdeviceptr>,
    bytes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    firsts: Out<usize>,
    kinds: usize,
    stream: CUstream,
) -> CudaResult {
    let batch = Batch {
        to,
        from,
        bytes,
        count,
        attributes,
        firsts,
        kinds,
    };
    submit(default, &batch.copies()?, stream).map_err(|(status, _)| status)
}

/// The form of CUDA 12, which tells the number of the copy at fault.
#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn batch_that_tells(
    default: DefaultStream,
    to: Out<CUdeviceptr>,
    from: Out<CUdeviceptr>,
    bytes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    firsts: Out<usize>,
    kinds: usize,
    failed: Out<usize>,
    stream: CUstream,
) -> CudaResult {
    let batch = Batch {
        to,
        from,
        bytes,
        count,
        attributes,
        firsts,
        kinds,
    };
    failed.set(NO_COPY);
    submit(default, &batch.copies()?, stream).map_err(|(status, number)| {
        failed.set(number);
        status
    })
}

fn one(
    default: DefaultStream,
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    In(attributes): In<CUmemcpyAttributes>,
    stream: CUstream,
) -> CudaResult {
    submit(default, &[(to, from, bytes, attributes)], stream).map_err(|(status, _)| status)
}
