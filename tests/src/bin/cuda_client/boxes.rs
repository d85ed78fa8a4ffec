//! Copies of two and three dimensions: between all places, with pitches, heights and offsets, and bad descriptors.
//!
//! What a copy must do is worked out here byte by byte, and all of both memories is compared.

use crate::session::{NON_BLOCKING, PER_THREAD, Session, code, ok, refused};
use std::ptr::{from_ref, null};

scenarios! {
    boxes: planar_between_all_places spatial_between_all_places bad_descriptors they_keep_the_order_of_their_stream;
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// Bytes of every memory that is copied from or to.
const BYTES: usize = 4096;

/// One end of a copy of two dimensions, as C has it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanarEnd {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) kind: u32,
    pub(crate) host: u64,
    pub(crate) device: u64,
    pub(crate) array: u64,
    pub(crate) pitch: usize,
}

/// A copy of two dimensions (`CUDA_MEMCPY2D`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planar {
    pub(crate) from: PlanarEnd,
    pub(crate) to: PlanarEnd,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One end of a copy of three dimensions, as C has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SpatialEnd {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) kind: u32,
    pub(crate) host: u64,
    pub(crate) device: u64,
    pub(crate) array: u64,
    pub(crate) reserved: u64,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// A copy of three dimensions (`CUDA_MEMCPY3D`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spatial {
    pub(crate) from: SpatialEnd,
    pub(crate) to: SpatialEnd,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl Spatial {
    /// Returns a copy of one row, from and to a place of either kind.
    pub(crate) fn line(from: (u64, bool), to: (u64, bool), bytes: usize) -> Self {
        let end = |(address, is_device): (u64, bool)| SpatialEnd {
            kind: if is_device { DEVICE } else { HOST },
            host: address,
            device: address,
            pitch: bytes,
            height: 1,
            ..SpatialEnd::default()
        };
        Self {
            from: end(from),
            to: end(to),
            width: bytes,
            height: 1,
            depth: 1,
        }
    }
}

/// How the memory of an end is laid out, and where the copy begins in it.
#[derive(Debug, Clone, Copy)]
struct Layout {
    pitch: usize,
    height: usize,
    at: [usize; 3],
}

impl Layout {
    const fn new(pitch: usize, height: usize, at: [usize; 3]) -> Self {
        Self { pitch, height, at }
    }

    /// Returns where a row of the copy begins.
    fn row(&self, y: usize, z: usize) -> usize {
        let [x, first_y, first_z] = self.at;
        ((first_z + z) * self.height + first_y + y) * self.pitch + x
    }

    fn end(&self, kind: u32, address: u64) -> SpatialEnd {
        let [x, y, z] = self.at;
        let (host, device) = match kind {
            HOST => (address, 0),
            _ => (0, address),
        };
        SpatialEnd {
            x,
            y,
            z,
            kind,
            host,
            device,
            pitch: self.pitch,
            height: self.height,
            ..SpatialEnd::default()
        }
    }
}

/// Width, height and depth, and the layouts of source and target.
type Shape = ([usize; 3], Layout, Layout);

/// Returns a shape from its size and from pitch, height and beginning of its layouts.
const fn shape(
    size: [usize; 3],
    from: (usize, usize, [usize; 3]),
    to: (usize, usize, [usize; 3]),
) -> Shape {
    (
        size,
        Layout::new(from.0, from.1, from.2),
        Layout::new(to.0, to.1, to.2),
    )
}

/// Boxes inside others; some whose rows, or rows and planes, follow each other without a gap; single rows.
const SPATIAL: [Shape; 6] = [
    shape([13, 5, 4], (40, 7, [3, 2, 1]), (32, 6, [1, 0, 2])),
    shape([32, 4, 4], (32, 4, [0, 0, 0]), (32, 4, [0, 0, 1])),
    shape([32, 4, 3], (32, 6, [0, 1, 0]), (32, 4, [0, 0, 2])),
    shape([100, 1, 1], (0, 0, [5, 0, 0]), (0, 0, [9, 0, 0])),
    shape([1, 2, 7], (16, 3, [15, 1, 0]), (3, 2, [0, 0, 3])),
    shape([8, 1, 5], (8, 1, [0, 0, 0]), (64, 2, [56, 1, 2])),
];

const PLANAR: [Shape; 4] = [
    shape([13, 9, 1], (40, 0, [3, 2, 0]), (32, 0, [19, 1, 0])),
    shape([32, 20, 1], (32, 0, [0, 3, 0]), (32, 0, [0, 0, 0])),
    shape([1, 30, 1], (5, 0, [4, 0, 0]), (128, 0, [127, 0, 0])),
    shape([77, 1, 1], (0, 0, [3, 0, 0]), (100, 0, [0, 5, 0])),
];

/// A memory, and the kinds by which a descriptor may name it.
#[derive(Debug, Clone, Copy)]
struct NamedMemory {
    address: u64,
    kinds: [u32; 2],
}

/// Returns memory of the program, pinned memory and memory of the device.
fn places(session: &Session) -> [NamedMemory; 3] {
    let own = Box::leak(vec![0u8; BYTES].into_boxed_slice());
    [
        (own.as_mut_ptr().expose_provenance() as u64, HOST),
        (session.pinned(BYTES).expose_provenance() as u64, HOST),
        (session.alloc(BYTES), DEVICE),
    ]
    .map(|(address, kind)| NamedMemory {
        address,
        kinds: [kind, UNIFIED],
    })
}

fn fill(session: &Session, place: NamedMemory, bytes: &[u8]) {
    ok(session.cuMemcpy(
        place.address,
        bytes.as_ptr().expose_provenance() as u64,
        BYTES,
    ));
    ok(session.cuCtxSynchronize());
}

fn contents(session: &Session, place: NamedMemory) -> Vec<u8> {
    let mut bytes = vec![0u8; BYTES];
    ok(session.cuMemcpy(
        bytes.as_mut_ptr().expose_provenance() as u64,
        place.address,
        BYTES,
    ));
    bytes
}

/// Numbers that differ from row to row and from source to target.
fn pattern(seed: usize) -> Vec<u8> {
    (0..BYTES)
        .map(|i| u8::try_from((i * 7 + i / 251 + seed) % 256).unwrap())
        .collect()
}

/// Copies by every shape between every two places, by whatever kind names them, with `copy`.
fn between_all_places(session: &Session, shapes: &[Shape], copy: impl Fn(&Spatial)) {
    let (sources, targets) = (places(session), places(session));
    let (source, before) = (pattern(1), pattern(100));
    for (shape, (source_place, target_place)) in shapes.iter().flat_map(|shape| {
        let pairs = sources
            .iter()
            .flat_map(|from| targets.iter().map(move |to| (*from, *to)));
        pairs.map(move |pair| (shape, pair))
    }) {
        let (size, from, to) = *shape;
        let mut expected = before.clone();
        for (z, y) in (0..size[2]).flat_map(|z| (0..size[1]).map(move |y| (z, y))) {
            let (to, from) = (to.row(y, z), from.row(y, z));
            expected[to..to + size[0]].copy_from_slice(&source[from..from + size[0]]);
        }
        for (from_kind, to_kind) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            fill(session, source_place, &source);
            fill(session, target_place, &before);
            let [width, height, depth] = size;
            copy(&Spatial {
                from: from.end(source_place.kinds[from_kind], source_place.address),
                to: to.end(target_place.kinds[to_kind], target_place.address),
                width,
                height,
                depth,
            });
            let what = format!(
                "{shape:?} from {source_place:?} to {target_place:?}, {from_kind} {to_kind}"
            );
            assert!(contents(session, target_place) == expected, "{what}");
            assert!(
                contents(session, source_place) == source,
                "{what}: the source changed"
            );
        }
    }
}

/// Calls `copy` with each stream and waits for it.
fn on_streams(session: &Session, copy: impl Fn(u64)) {
    for stream in [
        0,
        PER_THREAD,
        session.stream(0),
        session.stream(NON_BLOCKING),
    ] {
        copy(stream);
        ok(session.cuStreamSynchronize(stream));
    }
}

fn spatial_between_all_places() {
    let session = Session::start();
    between_all_places(&session, &SPATIAL, |copy| ok(session.cuMemcpy3D_v2(copy)));
    let stream = session.stream(NON_BLOCKING);
    between_all_places(&session, &SPATIAL, |copy| {
        ok(session.cuMemcpy3DAsync_v2(copy, stream));
        ok(session.cuStreamSynchronize(stream));
    });
    on_streams(&session, |stream| {
        between_all_places(&session, &SPATIAL[..1], |copy| {
            ok(session.cuMemcpy3DAsync_v2(copy, stream));
            ok(session.cuStreamSynchronize(stream));
        });
    });
}

/// Returns the same copy without a third dimension.
fn flat(copy: &Spatial) -> Planar {
    let end = |end: SpatialEnd| PlanarEnd {
        x: end.x,
        y: end.y,
        kind: end.kind,
        host: end.host,
        device: end.device,
        array: end.array,
        pitch: end.pitch,
    };
    Planar {
        from: end(copy.from),
        to: end(copy.to),
        width: copy.width,
        height: copy.height,
    }
}

fn planar_between_all_places() {
    let session = Session::start();
    between_all_places(&session, &PLANAR, |copy| {
        ok(session.cuMemcpy2D_v2(&flat(copy)))
    });
    between_all_places(&session, &PLANAR, |copy| {
        ok(session.cuMemcpy2DUnaligned_v2(&flat(copy)))
    });
    let stream = session.stream(0);
    between_all_places(&session, &PLANAR, |copy| {
        ok(session.cuMemcpy2DAsync_v2(&flat(copy), stream));
        ok(session.cuStreamSynchronize(stream));
    });
}

/// Copies that are refused: the code that is due, what is wrong, and the descriptor.
fn bad_copies(good: &Spatial, own: NamedMemory) -> Vec<(u32, &'static str, Spatial)> {
    let invalid = code::INVALID_VALUE;
    let mut cases: Vec<(u32, &'static str, Spatial)> = Vec::new();
    let mut case = |due, what: &'static str, change: &dyn Fn(&mut Spatial)| {
        let mut copy = *good;
        change(&mut copy);
        cases.push((due, what, copy));
    };
    case(invalid, "no such kind", &|copy| copy.to.kind = 0);
    case(invalid, "no such kind", &|copy| copy.from.kind = 5);
    case(invalid, "a null source", &|copy| copy.from.host = 0);
    case(invalid, "a null target", &|copy| copy.to.device = 0);
    case(invalid, "a row that overlaps the next", &|copy| {
        copy.from.pitch = 15
    });
    case(invalid, "a row that overlaps the next", &|copy| {
        copy.to.x = 20
    });
    case(invalid, "a plane that overlaps the next", &|copy| {
        copy.from.height = 6
    });
    case(invalid, "rows that are never stepped over", &|copy| {
        copy.to.pitch = 0
    });
    case(invalid, "host memory as the device's", &|copy| {
        copy.to.device = own.address
    });
    case(invalid, "the end of the allocation", &|copy| copy.to.z = 60);
    case(invalid, "the end of the allocation", &|copy| {
        copy.depth = 20;
        copy.to.z = 10;
    });
    case(invalid, "the end of all addresses", &|copy| {
        copy.to.z = usize::MAX
    });
    case(invalid, "the end of all addresses", &|copy| {
        copy.to.pitch = usize::MAX
    });
    case(invalid, "more than there is", &|copy| {
        copy.width = usize::MAX
    });
    case(invalid, "more than there is", &|copy| {
        copy.height = usize::MAX
    });
    case(invalid, "more than there is", &|copy| {
        copy.depth = usize::MAX
    });
    case(code::INVALID_HANDLE, "an array that is none", &|copy| {
        copy.from.kind = ARRAY
    });
    case(code::INVALID_VALUE, "a level of an array", &|copy| {
        copy.to.level = 1
    });
    cases
}

fn bad_descriptors() {
    let session = Session::start();
    let [own, pinned, device] = places(&session);
    for place in [own, pinned, device] {
        fill(&session, place, &pattern(1));
    }
    let good = Spatial {
        from: Layout::new(40, 7, [3, 2, 1]).end(HOST, own.address),
        to: Layout::new(32, 6, [1, 0, 2]).end(DEVICE, device.address),
        width: 13,
        height: 5,
        depth: 4,
    };
    let (stream, invalid) = (session.stream(0), code::INVALID_VALUE);
    for (due, what, copy) in &bad_copies(&good, own) {
        assert_eq!(session.cuMemcpy3D_v2(copy), *due, "{what}: {copy:?}");
        assert_eq!(
            session.cuMemcpy3DAsync_v2(copy, stream),
            *due,
            "{what}: {copy:?}"
        );
        if copy.to.level == 0
            && !what.contains("plane")
            && copy.depth == good.depth
            && copy.to.z == good.to.z
        {
            assert_eq!(session.cuMemcpy2D_v2(&flat(copy)), *due, "{what}: {copy:?}");
            assert_eq!(
                session.cuMemcpy2DAsync_v2(&flat(copy), stream),
                *due,
                "{what}: {copy:?}"
            );
        }
    }
    refused(session.cuMemcpy3D_v2(null()), invalid);
    refused(session.cuMemcpy2DAsync_v2(null(), stream), invalid);
    refused(
        session.cuMemcpy3D_v2(from_ref(&good).wrapping_byte_add(1)),
        invalid,
    );
    refused(
        session.cuMemcpy3DAsync_v2(&good, 0x1234_5678),
        code::INVALID_HANDLE,
    );
    // Nothing is copied, from and to anywhere.
    for axis in 0..3 {
        let mut empty = Spatial {
            from: good.from,
            to: good.to,
            width: 13,
            height: 5,
            depth: 4,
        };
        *[&mut empty.width, &mut empty.height, &mut empty.depth][axis] = 0;
        empty.to.device = 8;
        ok(session.cuMemcpy3D_v2(&empty));
        ok(session.cuMemcpy3DAsync_v2(&empty, stream));
    }
    ok(session.cuCtxSynchronize());
    for place in [own, pinned, device] {
        assert!(contents(&session, place) == pattern(1), "{place:?} changed");
    }
    ok(session.cuMemcpy3D_v2(&good));
}

fn they_keep_the_order_of_their_stream() {
    let session = Session::start();
    let slow = session.function(c"slow");
    let (word, back) = (session.words(&[0; 64]), session.pinned(256));
    for stream in [0, session.stream(0), session.stream(NON_BLOCKING)] {
        for round in 1..=10 {
            ok(session.launch(slow, (1, 32), stream, &[word, 5_000, round]));
            // Two words of every eight, from the device to pinned memory.
            let copy = Spatial {
                from: Layout::new(32, 1, [0, 0, 0]).end(DEVICE, word),
                to: Layout::new(32, 1, [0, 0, 0]).end(HOST, back.expose_provenance() as u64),
                width: 8,
                height: 1,
                depth: 8,
            };
            ok(session.cuMemcpy3DAsync_v2(&copy, stream));
            if round == 5 || round == 10 {
                ok(session.cuStreamSynchronize(stream));
                // SAFETY: it has room for that word, and the copy has ended.
                assert_eq!(u64::from(unsafe { back.read() }), round);
            }
        }
    }
    // A copy out of the program's own memory has read it when it returns.
    let mut own = vec![7u8; BYTES];
    let copy = Spatial {
        from: Layout::new(64, 1, [0, 0, 0]).end(HOST, own.as_ptr().expose_provenance() as u64),
        to: Layout::new(4, 1, [0, 0, 0]).end(DEVICE, word),
        width: 4,
        height: 1,
        depth: 64,
    };
    let stream = session.stream(NON_BLOCKING);
    ok(session.launch(slow, (1, 32), stream, &[word, 100_000, 1]));
    ok(session.cuMemcpy3DAsync_v2(&copy, stream));
    own.fill(9);
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(session.read(word, 64), [0x0707_0707; 64]);
}
