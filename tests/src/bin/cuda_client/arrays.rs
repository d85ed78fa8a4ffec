//! Arrays, and copies with an end in one.

use crate::boxes::{Planar, PlanarEnd};
use crate::graphs::{Graph, run};
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ptr::null;

scenarios! {
    arrays: copies_in_and_out copies_are_captured bad_arrays what_is_told_and_what_is_gone;
}

pub(crate) const HOST: u32 = 1;
const DEVICE: u32 = 2;
pub(crate) const ARRAY: u32 = 3;

pub(crate) const U8: u32 = 1;
pub(crate) const U32: u32 = 3;
pub(crate) const F32: u32 = 0x20;

const LAYERED: u32 = 1;
pub(crate) const SURFACE: u32 = 2;

/// A new array of one or two dimensions (`CUDA_ARRAY_DESCRIPTOR`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plane {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// A new array of up to three (`CUDA_ARRAY3D_DESCRIPTOR`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Volume {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

pub(crate) fn array(session: &Session, width: usize, height: usize, format: u32) -> u64 {
    let plane = Plane {
        width,
        height,
        format,
        channels: 1,
    };
    let mut array = 0;
    ok(session.cuArrayCreate_v2(&mut array, &plane));
    array
}

fn end(kind: u32, at: u64, pitch: usize) -> PlanarEnd {
    PlanarEnd {
        x: 0,
        y: 0,
        kind,
        host: at,
        device: at,
        array: at,
        pitch,
    }
}

/// Copies rows of words without gaps into an array.
pub(crate) fn fill(session: &Session, array: u64, words: &[u32], width: usize) {
    let copy = Planar {
        from: end(HOST, words.as_ptr().expose_provenance() as u64, width * 4),
        to: end(ARRAY, array, 0),
        width: width * 4,
        height: words.len() / width,
    };
    ok(session.cuMemcpy2D_v2(&copy));
}

pub(crate) fn contents(session: &Session, array: u64, width: usize, height: usize) -> Vec<u32> {
    let mut words = vec![0_u32; width * height];
    let copy = Planar {
        from: end(ARRAY, array, 0),
        to: end(
            HOST,
            words.as_mut_ptr().expose_provenance() as u64,
            width * 4,
        ),
        width: width * 4,
        height,
    };
    ok(session.cuMemcpy2D_v2(&copy));
    words
}

pub(crate) fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

fn copies_in_and_out() {
    let session = Session::start();
    let plane = array(&session, 5, 3, U32);
    let words: Vec<u32> = (100..115).collect();
    fill(&session, plane, &words, 5);
    assert_eq!(contents(&session, plane, 5, 3), words);
    // A part, through device memory with a pitch, into another array.
    let device = session.alloc(64 * 2);
    let mut part = Planar {
        from: end(ARRAY, plane, 0),
        to: end(DEVICE, device, 64),
        width: 8,
        height: 2,
    };
    (part.from.x, part.from.y) = (4, 1);
    ok(session.cuMemcpy2D_v2(&part));
    assert_eq!(session.read(device, 2), [106, 107]);
    assert_eq!(session.read(device + 64, 2), [111, 112]);
    let other = array(&session, 5, 3, U32);
    (part.from, part.to) = (end(DEVICE, device, 64), end(ARRAY, other, 0));
    (part.to.x, part.to.y) = (12, 1);
    fill(&session, other, &[0; 15], 5);
    ok(session.cuMemcpy2D_v2(&part));
    let due = [0, 0, 0, 0, 0, 0, 0, 0, 106, 107, 0, 0, 0, 111, 112];
    assert_eq!(contents(&session, other, 5, 3), due);
    (part.from, part.to) = (end(ARRAY, other, 0), end(ARRAY, plane, 0));
    (part.width, part.height) = (20, 3);
    ok(session.cuMemcpy2DAsync_v2(&part, 0));
    ok(session.cuStreamSynchronize(0));
    assert_eq!(contents(&session, plane, 5, 3), due);
    for (x, y, width, height) in [
        (0, 0, 21, 1),
        (4, 0, 20, 1),
        (0, 1, 4, 3),
        (usize::MAX, 0, 4, 1),
    ] {
        (part.from.x, part.from.y) = (x, y);
        (part.width, part.height) = (width, height);
        invalid(session.cuMemcpy2D_v2(&part));
    }
    // Lines have copies of their own.
    let line = array(&session, 16, 0, U32);
    let words: Vec<u32> = (1..=16).collect();
    ok(session.cuMemcpyHtoA_v2(line, 0, words.as_ptr().cast(), 64));
    let mut back = [0_u32; 4];
    ok(session.cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), line, 16, 16));
    assert_eq!(back, [5, 6, 7, 8]);
    ok(session.cuMemcpyAtoD_v2(device, line, 60, 4));
    assert_eq!(session.read(device, 1), [16]);
    ok(session.cuMemcpyDtoA_v2(line, 4, device, 4));
    ok(session.cuMemcpyAtoA_v2(line, 0, line, 8, 4));
    ok(session.cuMemcpyAtoHAsync_v2(back.as_mut_ptr().cast(), line, 0, 16, 0));
    ok(session.cuStreamSynchronize(0));
    assert_eq!(back, [3, 16, 3, 4]);
    invalid(session.cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), line, 52, 16));
    invalid(session.cuMemcpyHtoA_v2(line, usize::MAX, words.as_ptr().cast(), 64));
    invalid(session.cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), plane, 0, 4));
    refused(
        session.cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), 0x1234, 0, 4),
        code::INVALID_HANDLE,
    );
}

/// A graph copies to and from arrays, whatever is in them by then; what would wait for its stream, or make or destroy
/// arrays beside it, is refused.
fn copies_are_captured() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let (plane, line) = (array(&session, 5, 3, U32), array(&session, 16, 0, U32));
    let device = session.words(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let line_words: Vec<u32> = (1..=16).collect();
    let pinned = session.pinned(16);
    let copy = Planar {
        from: end(DEVICE, device, 20),
        to: end(ARRAY, plane, 0),
        width: 20,
        height: 2,
    };
    ok(session.cuStreamBeginCapture_v2(stream, 0));
    ok(session.cuMemcpy2DAsync_v2(&copy, stream));
    ok(session.cuMemcpyAtoHAsync_v2(pinned.cast(), line, 16, 16, stream));
    let mut handle = 0;
    ok(session.cuStreamEndCapture(stream, &mut handle));
    let graph = Graph::of(&session, handle);
    assert_eq!(graph.nodes().len(), 2);
    let executable = graph.instantiate();
    fill(&session, plane, &[0; 15], 5);
    ok(session.cuMemcpyHtoA_v2(line, 0, line_words.as_ptr().cast(), 64));
    run(&session, executable, stream);
    let due = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0];
    assert_eq!(contents(&session, plane, 5, 3), due);
    // SAFETY: the memory has room for four words, and nothing writes it after the stream has ended.
    let back = unsafe { pinned.cast::<[u32; 4]>().read() };
    assert_eq!(back, [5, 6, 7, 8]);
    // An array that is gone by the launch is no array.
    ok(session.cuArrayDestroy(plane));
    refused(
        session.cuGraphLaunch(executable, stream),
        code::INVALID_HANDLE,
    );
    ok(session.cuStreamBeginCapture_v2(stream, 0));
    refused(session.cuArrayDestroy(line), code::CAPTURE_UNSUPPORTED);
    refused(
        session.cuStreamEndCapture(stream, &mut handle),
        code::CAPTURE_INVALIDATED,
    );
    ok(session.cuArrayDestroy(line));
}

fn bad_arrays() {
    let session = Session::start();
    let good = Volume {
        width: 4,
        height: 4,
        depth: 0,
        format: F32,
        channels: 1,
        flags: 0,
    };
    let mut array = 5;
    let create = |change: fn(&mut Volume)| {
        let mut volume = good;
        change(&mut volume);
        let mut array = 5;
        let refusal = session.cuArray3DCreate_v2(&mut array, &volume);
        assert_eq!(array, 5);
        refusal
    };
    let bad: [fn(&mut Volume); 11] = [
        |v| v.width = 0,
        |v| v.channels = 0,
        |v| v.channels = 3,
        |v| v.format = 0,
        |v| v.format = 0x33,
        |v| v.flags = 1 << 12,
        |v| v.flags = LAYERED,
        |v| (v.height, v.depth) = (0, 4),
        |v| v.width = 1 << 20,
        |v| v.width = usize::MAX,
        |v| v.depth = 1 << 20,
    ];
    for change in bad {
        invalid(create(change));
    }
    let absent: [fn(&mut Volume); 3] = [
        |v| (v.flags, v.depth) = (4, 6),
        |v| v.format = 0xb0,
        |v| v.flags = 0x40,
    ];
    for change in absent {
        refused(create(change), code::NOT_SUPPORTED);
    }
    let huge = Volume {
        width: 16_384,
        height: 16_384,
        depth: 16_384,
        ..good
    };
    refused(
        session.cuArray3DCreate_v2(&mut array, &huge),
        code::OUT_OF_MEMORY,
    );
    invalid(session.cuArray3DCreate_v2(&mut array, null()));
    assert_eq!(array, 5);
}

fn what_is_told_and_what_is_gone() {
    let session = Session::start();
    let mut array = 0;
    let layered = Volume {
        width: 4,
        height: 4,
        depth: 3,
        format: F32,
        channels: 1,
        flags: LAYERED | SURFACE,
    };
    ok(session.cuArray3DCreate_v2(&mut array, &layered));
    let mut told = Plane {
        width: 0,
        height: 0,
        format: 0,
        channels: 0,
    };
    ok(session.cuArrayGetDescriptor_v2(&mut told, array));
    assert_eq!(
        (told.width, told.height, told.format, told.channels),
        (4, 4, F32, 1)
    );
    ok(session.cuArrayDestroy(array));
    for gone in [array, 0, 0x1234, u64::MAX] {
        refused(session.cuArrayDestroy(gone), code::INVALID_HANDLE);
        refused(
            session.cuArrayGetDescriptor_v2(&mut told, gone),
            code::INVALID_HANDLE,
        );
    }
}
