//! Prefetches of managed memory and discards of what it holds, many by one call.
//!
//! The ranges of a batch are all checked before anything is noted. Nothing moves ([`super::managed`]), and what is
//! discarded may be read until it is written again, as NVIDIA leaves open what stands there then.

use super::CUdeviceptr;
use super::advice::Place;
use super::batch::MOST;
use super::managed::{place_of_location, span};
use super::properties::CUmemLocation;
use crate::api::driver_api;
use crate::border::Out;
use crate::graph::capture;
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, usable_stream};

driver_api! {
    needs Init;
    13000 cuMemPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, bytes: *mut usize, count: usize, places: *mut CUmemLocation,
        firsts: *mut usize, place_count: usize, flags: u64, stream: CUstream,
    ) | cuMemPrefetchBatchAsync_ptsz => prefetch;
    13000 cuMemDiscardBatchAsync(
        addresses: *mut CUdeviceptr, bytes: *mut usize, count: usize, flags: u64, stream: CUstream,
    ) | cuMemDiscardBatchAsync_ptsz => discard;
    13000 cuMemDiscardAndPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, bytes: *mut usize, count: usize, places: *mut CUmemLocation,
        firsts: *mut usize, place_count: usize, flags: u64, stream: CUstream,
    ) | cuMemDiscardAndPrefetchBatchAsync_ptsz => prefetch;
}

/// Returns the place of each of `count` ranges.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there is none or more than [`MOST`], or the places do not begin with the first range and
/// ascend;
/// [`Status::INVALID_DEVICE`].
fn places_of(
    count: usize,
    places: &Out<CUmemLocation>,
    firsts: &Out<usize>,
    place_count: usize,
) -> CudaResult<Vec<Place>> {
    if count > MOST || !(1..=count).contains(&place_count) || firsts.get_at(0) != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut all = Vec::new();
    for number in 0..place_count {
        let end = match number + 1 {
            next if next < place_count => firsts.get_at(next),
            _ => count,
        };
        if end <= all.len() || end > count {
            return Err(Status::INVALID_VALUE);
        }
        all.resize(end, place_of_location(places.get_at(number))?);
    }
    Ok(all)
}

/// Checks a batch and notes where its ranges go, if anywhere.
fn submit(
    default: DefaultStream,
    (addresses, bytes): (&Out<CUdeviceptr>, &Out<usize>),
    count: usize,
    places: Option<&[Place]>,
    flags: u64,
    stream: CUstream,
) -> CudaResult {
    let (driver, _, stream) = usable_stream(default, stream)?;
    if !(1..=MOST).contains(&count) || flags != 0 || stream.is_legacy() {
        return Err(Status::INVALID_VALUE);
    }
    capture::refuse_in(&stream)?;
    let spans = (0..count).map(|at| span(driver, addresses.get_at(at), bytes.get_at(at)));
    let spans = spans.collect::<CudaResult<Vec<_>>>()?;
    for ((range, first, end), place) in spans.iter().zip(places.unwrap_or_default()) {
        if let Some(advices) = range.memory.advices() {
            let mut advices = advices.lock();
            advices.change(*first, *end, |advice| advice.prefetched_to = Some(*place));
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn prefetch(
    default: DefaultStream,
    addresses: Out<CUdeviceptr>,
    bytes: Out<usize>,
    count: usize,
    places: Out<CUmemLocation>,
    firsts: Out<usize>,
    place_count: usize,
    flags: u64,
    stream: CUstream,
) -> CudaResult {
    let places = places_of(count, &places, &firsts, place_count)?;
    let ranges = (&addresses, &bytes);
    submit(default, ranges, count, Some(&places), flags, stream)
}

fn discard(
    default: DefaultStream,
    addresses: Out<CUdeviceptr>,
    bytes: Out<usize>,
    count: usize,
    flags: u64,
    stream: CUstream,
) -> CudaResult {
    submit(default, (&addresses, &bytes), count, None, flags, stream)
}
