//! The calls that begin, end and ask for captures.

use super::{Capture, Captured, Mode, Tails, find, is_idle};
use crate::api::driver_api;
use crate::border::Out;
use crate::graph::topology::EdgeData;
use crate::graph::{CUgraph, CUgraphNode, Graph, read_nodes};
use crate::status::{CudaResult, Status};
use crate::stream::{CUstream, DefaultStream, Stream, known};
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    10010 cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) => exchange_mode;
    10000 cuStreamBeginCapture(stream: CUstream) | cuStreamBeginCapture_ptsz => begin_global;
    10010 cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) | cuStreamBeginCapture_v2_ptsz => begin;
    12030 cuStreamBeginCaptureToGraph(
        stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode, data: *const EdgeData, count: usize,
        mode: c_uint,
    ) | cuStreamBeginCaptureToGraph_ptsz => begin_to_graph;
    10000 cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) | cuStreamEndCapture_ptsz => end;
    10000 cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) | cuStreamIsCapturing_ptsz => is_capturing;
    10010 cuStreamGetCaptureInfo(stream: CUstream, status: *mut c_uint, id: *mut u64)
        | cuStreamGetCaptureInfo_ptsz => info;
    11030 cuStreamGetCaptureInfo_v2(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, count: *mut usize,
    ) | cuStreamGetCaptureInfo_v2_ptsz => info_v2;
    12030 cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, data: *mut *const EdgeData, count: *mut usize,
    ) | cuStreamGetCaptureInfo_v3_ptsz => info_v3;
    11030 cuStreamUpdateCaptureDependencies(
        stream: CUstream, dependencies: *const CUgraphNode, count: usize, flags: c_uint,
    ) | cuStreamUpdateCaptureDependencies_ptsz => update_plain;
    12030 cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream, dependencies: *const CUgraphNode, data: *const EdgeData, count: usize, flags: c_uint,
    ) | cuStreamUpdateCaptureDependencies_v2_ptsz => update;
}

/// The status of a stream (`CUstreamCaptureStatus`).
const NONE: c_uint = 0;
const ACTIVE: c_uint = 1;
const INVALIDATED: c_uint = 2;

fn exchange_mode(mode: Out<c_uint>) -> CudaResult {
    let asked = Mode::of(mode.get_at(0))?;
    mode.set(super::exchange_mode(asked)? as c_uint);
    Ok(())
}

fn begin_global(default: DefaultStream, stream: CUstream) -> CudaResult {
    Capture::begin(&known(default, stream)?, Mode::Global, None)
}

fn begin(default: DefaultStream, stream: CUstream, mode: c_uint) -> CudaResult {
    Capture::begin(&known(default, stream)?, Mode::of(mode)?, None)
}

fn begin_to_graph(
    default: DefaultStream,
    stream: CUstream,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
    mode: c_uint,
) -> CudaResult {
    let stream = known(default, stream)?;
    // SAFETY: the program passes that many dependencies, as the C declaration asks.
    let (nodes, data) = unsafe { read_nodes(dependencies, data, count)? };
    let tails = graph.dependencies(nodes, data)?;
    Capture::begin(&stream, Mode::of(mode)?, Some((graph, tails)))
}

fn end(default: DefaultStream, stream: CUstream, place: Out<CUgraph>) -> CudaResult {
    place.set(CUgraph::NULL);
    let stream = known(default, stream)?;
    let capture = stream.capture.lock().clone();
    let capture = capture.ok_or(Status::ILLEGAL_STATE)?;
    if capture.origin != stream.id() {
        return Err(Status::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
        return Err(Status::STREAM_CAPTURE_WRONG_THREAD);
    }
    match capture.end() {
        Ok(()) => {
            place.set(capture.hand_over());
            Ok(())
        }
        Err(status) => {
            capture.discard();
            Err(status)
        }
    }
}

/// Returns the status of a stream and the capture that it is in.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_IMPLICIT`]: the legacy stream would wait for one that is captured; that capture goes on.
fn status_of(stream: &Stream) -> CudaResult<(c_uint, Option<Captured>)> {
    if is_idle() {
        return Ok((NONE, None));
    }
    if stream.is_legacy() {
        return match super::blocks_legacy(stream) {
            true => Err(Status::STREAM_CAPTURE_IMPLICIT),
            false => Ok((NONE, None)),
        };
    }
    match find(stream) {
        Ok(None) => Ok((NONE, None)),
        Ok(captured) => Ok((ACTIVE, captured)),
        Err(_) => Ok((INVALIDATED, None)),
    }
}

fn is_capturing(default: DefaultStream, stream: CUstream, place: Out<c_uint>) -> CudaResult {
    place.set(status_of(&*known(default, stream)?)?.0);
    Ok(())
}

fn info(
    default: DefaultStream,
    stream: CUstream,
    place: Out<c_uint>,
    id: Option<Out<u64>>,
) -> CudaResult {
    info_v2(default, stream, place, id, None, None, None)
}

fn info_v2(
    default: DefaultStream,
    stream: CUstream,
    place: Out<c_uint>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: Option<Out<*const CUgraphNode>>,
    count: Option<Out<usize>>,
) -> CudaResult {
    let data = None;
    info_v3(default, stream, place, id, graph, dependencies, data, count)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn info_v3(
    default: DefaultStream,
    stream: CUstream,
    place: Out<c_uint>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: Option<Out<*const CUgraphNode>>,
    data: Option<Out<*const EdgeData>>,
    count: Option<Out<usize>>,
) -> CudaResult {
    if data.is_some() && dependencies.is_none() {
        return Err(Status::INVALID_VALUE);
    }
    let stream = known(default, stream)?;
    let (status, captured) = status_of(&stream)?;
    place.set(status);
    let Some(Captured { capture, .. }) = captured else {
        return Ok(());
    };
    let shown = capture.show(stream.id())?;
    if shown.carries && dependencies.is_some() && data.is_none() {
        return Err(Status::LOSSY_QUERY);
    }
    Out::set_if(id.as_ref(), capture.id);
    Out::set_if(graph.as_ref(), capture.graph.handle());
    Out::set_if(dependencies.as_ref(), shown.nodes);
    Out::set_if(data.as_ref(), shown.edges);
    Out::set_if(count.as_ref(), shown.count);
    Ok(())
}

fn update_plain(
    default: DefaultStream,
    stream: CUstream,
    dependencies: *const CUgraphNode,
    count: usize,
    flags: c_uint,
) -> CudaResult {
    update(
        default,
        stream,
        dependencies,
        std::ptr::null(),
        count,
        flags,
    )
}

/// Changes what the next node of a stream waits for: more, or something else.
fn update(
    default: DefaultStream,
    stream: CUstream,
    dependencies: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
    flags: c_uint,
) -> CudaResult {
    const REPLACE: c_uint = 1;
    if flags > REPLACE {
        return Err(Status::INVALID_VALUE);
    }
    let stream = known(default, stream)?;
    let (_, captured) = status_of(&stream)?;
    let capture = captured.ok_or(Status::ILLEGAL_STATE)?.capture;
    // SAFETY: the program passes that many dependencies, as the C declaration asks.
    let (nodes, data) = unsafe { read_nodes(dependencies, data, count)? };
    let tails: Tails = capture.graph.dependencies(nodes, data)?;
    capture.update(stream.id(), tails, flags == REPLACE)
}
