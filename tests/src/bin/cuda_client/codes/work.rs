//! Streams, events, launches, functions of the host's, and occupancy; and what belongs to another context.

use super::{DEAD, NEGATIVE, Places, bits, hold, name};
use crate::session::{NON_BLOCKING, Session, code, ok, text};
use std::ffi::c_void;

scenarios! {
    codes: of_streams of_events of_launches of_launch_attributes of_host_functions of_occupancy of_another_context;
}

fn of_streams() {
    const SYNC_POLICY: usize = 3;
    const PRIORITY: usize = 8;
    const DOMAIN: usize = 10;
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let (stream, event) = (bits(session.stream(0)), bits(session.event()));
    let device = bits(session.alloc(64));
    let handle = code::INVALID_HANDLE;
    let invalid = code::INVALID_VALUE;
    // Values of attributes, each of eight words: too high, and as low as none is.
    (places.0[16], places.0[24]) = (9, u64::from((-100_i32).cast_unsigned()));
    let (high, low) = (places.at(16), places.at(24));
    (places.0[32], places.0[40]) = (9, 2);
    let (mode, capture) = (places.at(32), places.at(40));
    hold(
        &session,
        rows! {
            cuStreamCreate(out, 2) = invalid;
            cuStreamCreate(0, 0) = invalid;
            cuStreamCreateWithPriority(out, 2, 0) = invalid;
            cuStreamDestroy_v2(0) = handle;
            cuStreamDestroy_v2(1) = handle;
            cuStreamDestroy_v2(2) = handle;
            cuStreamDestroy_v2(DEAD) = handle;
            cuStreamQuery(DEAD) = handle;
            cuStreamSynchronize(DEAD) = handle;
            cuStreamGetPriority(stream, 0) = invalid;
            cuStreamGetPriority(DEAD, out) = handle;
            cuStreamGetFlags(DEAD, out) = handle;
            cuStreamGetId(DEAD, out) = handle;
            cuStreamGetCtx(DEAD, out) = handle;
            cuStreamGetDevice(DEAD, out) = handle;
            cuStreamWaitEvent(stream, 0, 0) = handle;
            cuStreamWaitEvent(DEAD, event, 0) = handle;
            // The one flag there is belongs to captures.
            cuStreamWaitEvent(stream, event, 1) = invalid;
            cuStreamWaitEvent(stream, event, 2) = invalid;
            cuStreamGetAttribute(stream, 99, out) = invalid;
            cuStreamGetAttribute(stream, 2, out) = invalid;
            cuStreamGetAttribute(stream, PRIORITY, 0) = invalid;
            cuStreamGetAttribute(DEAD, PRIORITY, out) = handle;
            cuStreamSetAttribute(stream, 4, high) = invalid;
            cuStreamSetAttribute(stream, SYNC_POLICY, high) = invalid;
            cuStreamSetAttribute(stream, DOMAIN, high) = invalid;
            cuStreamSetAttribute(stream, PRIORITY, 0) = invalid;
            cuStreamCopyAttributes(DEAD, stream) = handle;
            cuStreamWriteValue32_v2(stream, device + 2, 1, 0) = invalid;
            cuStreamWriteValue32_v2(stream, device, 1, 2) = invalid;
            cuStreamWriteValue32_v2(stream, more, 1, 0) = invalid;
            cuStreamWriteValue32_v2(DEAD, device, 1, 0) = handle;
            cuStreamWriteValue64_v2(stream, device + 4, 1, 0) = invalid;
            cuStreamWriteValue64_v2(stream, device + 60, 1, 0) = invalid;
            cuThreadExchangeStreamCaptureMode(mode) = invalid;
            cuThreadExchangeStreamCaptureMode(0) = invalid;
            cuThreadExchangeStreamCaptureMode(capture) = 0;
            cuStreamSetAttribute(stream, PRIORITY, low) = 0;
            cuStreamGetAttribute(stream, PRIORITY, out) = 0;
        },
    );
    let priority = u32::try_from(places.0[0] & 0xffff_ffff).expect("a word");
    assert_eq!(priority.cast_signed(), -5, "as near as streams have it");
}

fn of_events() {
    const NO_TIMES: usize = 2;
    let session = Session::start();
    let mut places = Places::new();
    let out = places.at(0);
    let slow = session.function(c"slow");
    let stream = session.stream(NON_BLOCKING);
    let watched = session.words(&[0]);
    let [first, last, never, timeless] = [(); 4].map(|()| session.event());
    let timeless = {
        ok(session.cuEventDestroy_v2(timeless));
        ok(session.call_with("cuEventCreate", &[out, NO_TIMES]));
        places.0[0]
    };
    for event in [first, timeless] {
        ok(session.cuEventRecord(event, stream));
    }
    ok(session.cuEventSynchronize(first));
    ok(session.launch(slow, (1, 32), stream, &[watched, 3_000_000, 1]));
    ok(session.cuEventRecord(last, stream));
    let [first, last, never, timeless] = [first, last, never, timeless].map(bits);
    let (handle, invalid) = (code::INVALID_HANDLE, code::INVALID_VALUE);
    hold(
        &session,
        rows! {
            cuEventElapsedTime_v2(out, first, last) = code::NOT_READY;
            cuEventQuery(last) = code::NOT_READY;
            cuEventElapsedTime_v2(out, first, never) = handle;
            cuEventElapsedTime_v2(out, first, timeless) = handle;
            cuEventElapsedTime_v2(out, 0, first) = handle;
            cuEventElapsedTime_v2(0, first, first) = invalid;
            cuEventElapsedTime(out, timeless, first) = handle;
            cuEventElapsedTime_v2(out, first, first) = 0;
            cuEventQuery(never) = 0;
            cuEventSynchronize(never) = 0;
            cuEventCreate(out, 8) = invalid;
            // Events that processes share have no times.
            cuEventCreate(out, 4) = invalid;
            cuEventCreate(0, 0) = invalid;
            cuEventDestroy_v2(0) = handle;
            cuEventQuery(DEAD) = handle;
            cuEventSynchronize(0) = handle;
            cuEventRecord(0, 0) = handle;
            cuEventRecord(first, DEAD) = handle;
            // The one flag there is belongs to captures.
            cuEventRecordWithFlags(first, 0, 1) = invalid;
            cuEventRecordWithFlags(first, 0, 2) = invalid;
            cuEventRecordWithFlags(first, 0, 0) = 0;
        },
    );
}

fn of_launches() {
    let session = Session::start();
    let mut places = Places::new();
    let small = bits(session.function(c"small"));
    places.0[0] = session.alloc(64);
    let value = places.at(0);
    let params = [value];
    let params = params.as_ptr().expose_provenance();
    let most = |attribute| usize::try_from(session.attribute(attribute)).expect("a size");
    let (most_x, most_y, most_z) = (most(2), most(3), most(4));
    let shared = most(8);
    let invalid = code::INVALID_VALUE;
    let launch =
        |grid: [usize; 3], block: [usize; 3], shared: usize, stream: usize, params: usize| {
            let [[gx, gy, gz], [bx, by, bz]] = [grid, block];
            [small, gx, gy, gz, bx, by, bz, shared, stream, params, 0]
        };
    let one = [1; 3];
    let cases = [
        (launch([0, 1, 1], one, 0, 0, params), invalid),
        (launch([1, 0, 1], one, 0, 0, params), invalid),
        (launch(one, [1, 1, 0], 0, 0, params), invalid),
        (launch(one, [most_x + 1, 1, 1], 0, 0, params), invalid),
        (launch(one, [1, most_y + 1, 1], 0, 0, params), invalid),
        (launch(one, [1, 1, most_z + 1], 0, 0, params), invalid),
        (launch([1, most(6) + 1, 1], one, 0, 0, params), invalid),
        (launch([1, 1, most(7) + 1], one, 0, 0, params), invalid),
        // More than the kernel declares.
        (launch(one, [256, 1, 1], 0, 0, params), invalid),
        (launch(one, one, shared, 0, params), invalid),
        (launch(one, one, NEGATIVE, 0, params), invalid),
        (launch(one, one, 0, 0, 0), invalid),
        (launch(one, one, 0, DEAD, params), code::INVALID_HANDLE),
        (launch(one, one, 0, 0, params), 0),
    ];
    let rows: Vec<(&str, &[usize], u32)> = cases
        .iter()
        .map(|(arguments, due)| ("cuLaunchKernel", &arguments[..], *due))
        .collect();
    hold(&session, &rows);
    hold(
        &session,
        rows! {
            cuLaunchKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, params, 0) = code::INVALID_HANDLE;
            cuLaunchKernelEx(0, small, params, 0) = invalid;
        },
    );
}

fn of_launch_attributes() {
    let session = Session::start();
    let mut places = Places::new();
    let add = bits(session.function(c"add"));
    (places.0[0], places.0[1]) = (session.words(&[0]), 1);
    let params = [places.at(0), places.at(1)];
    let params = params.as_ptr().expose_provenance();
    let (invalid, missing) = (code::INVALID_VALUE, code::NOT_SUPPORTED);
    let launch = |id: u32, value: u32| {
        // The number, padding, and the value's first word.
        let mut attribute = [0_u32; 18];
        (attribute[0], attribute[2]) = (id, value);
        // Grid and block, shared memory, stream, attributes and their number.
        let mut config = [0_u32; 14];
        config[..6].fill(1);
        let words = (&raw const attribute).expose_provenance() as u64;
        config[10..12].copy_from_slice(&[(words & 0xffff_ffff) as u32, (words >> 32) as u32]);
        config[12] = 1;
        let config = config.map(u64::from);
        let packed: [u64; 7] = std::array::from_fn(|n| config[2 * n] | config[2 * n + 1] << 32);
        session.call_with(
            "cuLaunchKernelEx",
            &[(&raw const packed).expose_provenance(), add, params, 0],
        )
    };
    for (id, value, due) in [
        (0, 7, 0),
        (1, 0, 0),
        (2, 0, 0),
        // How the host waits is a stream's alone, and what the device may change a graph's alone.
        (3, 1, invalid),
        (13, 0, invalid),
        (13, 1, invalid),
        (6, 1, 0),
        (7, 0, missing),
        (8, 1, 0),
        (10, 1, 0),
        (10, 2, invalid),
        (12, 0, missing),
        (14, 50, 0),
        (14, u32::MAX, 0),
        (14, 101, invalid),
        (15, 0, invalid),
        (16, 1, 0),
        (16, 2, invalid),
        (17, 2, 0),
        (17, 3, invalid),
        (18, 3, invalid),
        (999, 0, invalid),
        (u32::MAX, 0, invalid),
    ] {
        assert_eq!(launch(id, value), due, "attribute {id} with {value}");
    }
}

extern "C" fn nothing(_: *mut c_void) {}

extern "C" fn nothing_of_a_stream(_: u64, _: u32, _: *mut c_void) {}

fn of_host_functions() {
    let session = Session::start();
    let function = (nothing as *const c_void).expose_provenance();
    let callback = (nothing_of_a_stream as *const c_void).expose_provenance();
    let (invalid, handle) = (code::INVALID_VALUE, code::INVALID_HANDLE);
    hold(
        &session,
        rows! {
            cuLaunchHostFunc(0, 0, 0) = invalid;
            cuLaunchHostFunc(DEAD, function, 0) = handle;
            cuLaunchHostFunc_v2(0, function, 0, 5) = invalid;
            cuLaunchHostFunc_v2(0, function, 0, 1) = 0;
            cuStreamAddCallback(0, 0, 0, 0) = invalid;
            cuStreamAddCallback(0, callback, 0, 1) = invalid;
            cuStreamAddCallback(DEAD, callback, 0, 0) = handle;
            cuStreamAddCallback(0, callback, 0, 0) = 0;
            cuCtxSynchronize() = 0;
        },
    );
}

fn of_occupancy() {
    const ACTIVE: &str = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    const WITH_FLAGS: &str = "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags";
    const ROOM: &str = "cuOccupancyAvailableDynamicSMemPerBlock";
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let function = session.function(c"add");
    let add = bits(function);
    let most = usize::try_from(session.attribute(8)).expect("a size");
    let invalid = code::INVALID_VALUE;
    hold(
        &session,
        &[
            (ACTIVE, &[0, add, 32, 0], invalid),
            (ACTIVE, &[out, 0, 32, 0], invalid),
            (ACTIVE, &[out, DEAD, 32, 0], code::INVALID_HANDLE),
            (ACTIVE, &[out, add, 0, 0], invalid),
            (ACTIVE, &[out, add, NEGATIVE, 0], invalid),
            (WITH_FLAGS, &[out, add, 32, 0, 2], invalid),
            (WITH_FLAGS, &[out, add, 32, 0, 1], 0),
            (
                "cuOccupancyMaxPotentialBlockSize",
                &[0, more, add, 0, 0, 0],
                invalid,
            ),
            (
                "cuOccupancyMaxPotentialBlockSize",
                &[out, more, 0, 0, 0, 0],
                invalid,
            ),
            (
                "cuOccupancyMaxPotentialBlockSizeWithFlags",
                &[out, more, add, 0, 0, 0, 2],
                invalid,
            ),
            (ROOM, &[out, add, 0, 32], invalid),
            (ROOM, &[out, add, 1, 0], invalid),
            (ROOM, &[out, 0, 1, 32], invalid),
            // More blocks than an SM has places for.
            (ROOM, &[out, add, 1000, 32], invalid),
        ],
    );
    let blocks = |threads: usize, shared: usize| {
        let mut blocks = -1_i32;
        let place = (&raw mut blocks).expose_provenance();
        ok(session.call_with(ACTIVE, &[place, add, threads, shared]));
        blocks
    };
    // No block is resident that a launch may not have: more shared memory than it may ask for, or too many threads.
    assert!(blocks(32, most) > 0);
    assert_eq!((blocks(32, most + 1), blocks(1025, 0)), (0, 0));
    ok(session.cuFuncSetAttribute(function, 8, session.attribute(8) + 1));
    assert!(blocks(32, most + 1) > 0);
    ok(session.call_with(ROOM, &[out, add, 1, 32]));
    assert_eq!(places.0[0], most as u64 + 1, "as much as a launch may have");
}

/// Kernels run in streams of their own context. Copies and waits go in any stream, and events are recorded in streams
/// of their own context.
fn of_another_context() {
    let session = Session::start();
    let mut places = Places::new();
    (places.0[0], places.0[1]) = (session.words(&[0]), 1);
    let params = [places.at(0), places.at(1)];
    let params = params.as_ptr().expose_provenance();
    let (host, device) = (places.at(8), bits(session.alloc(64)));
    let add = bits(session.function(c"add"));
    let (stream, event) = (bits(session.stream(0)), bits(session.event()));
    let image = text(crate::kernels::PTX);
    let [mut library, mut kernel] = [0; 2];
    let place = (&raw mut library).expose_provenance();
    let image = image.as_ptr().expose_provenance();
    ok(session.call_with("cuLibraryLoadData", &[place, image, 0, 0, 0, 0, 0, 0]));
    ok(session.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
    let kernel = bits(kernel);
    session.new_context();
    let own = bits(session.stream(0));
    let handle = code::INVALID_HANDLE;
    let launch = |function, stream| [function, 1, 1, 1, 1, 1, 1, 0, stream, params, 0];
    for (function, stream, due) in [
        (add, own, handle),
        (add, 0, handle),
        (add, stream, 0),
        (kernel, stream, 0),
        (kernel, own, 0),
    ] {
        let arguments = launch(function, stream);
        hold(&session, &[("cuLaunchKernel", &arguments, due)]);
    }
    hold(
        &session,
        rows! {
            cuEventRecord(event, own) = handle;
            cuEventRecord(event, stream) = 0;
            cuStreamWaitEvent(own, event, 0) = 0;
            cuMemcpyHtoDAsync_v2(device, host, 8, stream) = 0;
            cuMemsetD8Async(device, 1, 8, stream) = 0;
            cuStreamCopyAttributes(own, stream) = code::INVALID_VALUE;
            cuModuleGetFunction(host, bits(session.module), name(c"add")) = 0;
        },
    );
    ok(session.cuStreamSynchronize(stream as u64));
}
