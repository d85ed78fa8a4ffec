//! Texture and surface objects, of arrays and of device memory.

use crate::arrays::{ARRAY, F32, HOST, SURFACE, U8, U32, Volume, array, contents, fill, floats};
use crate::boxes::{Spatial, SpatialEnd};
use crate::mapped::{DEVICE_MAP, address_of, write};
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ptr::{null, null_mut};

scenarios! {
    textures: textures_of_planes textures_of_boxes textures_in_memory surfaces bad_texels bad_ways_to_read
        what_is_destroyed_is_gone they_go_with_their_context destroyed_while_a_kernel_runs;
}

/// Texels (`CUDA_RESOURCE_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resource {
    kind: u32,
    handle: u64,
    format: u32,
    channels: u32,
    sizes: [usize; 3],
    reserved: [u64; 11],
    flags: u32,
}

/// How they are read (`CUDA_TEXTURE_DESC`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    modes: [u32; 3],
    filter: u32,
    flags: u32,
    rest: [u32; 19],
}

const PLAIN: Sampling = Sampling {
    modes: [1; 3],
    filter: 0,
    flags: 0,
    rest: [0; 19],
};

fn of_array(array: u64) -> Resource {
    Resource {
        kind: 0,
        handle: array,
        format: 0,
        channels: 0,
        sizes: [0; 3],
        reserved: [0; 11],
        flags: 0,
    }
}

fn texture(session: &Session, resource: &Resource, sampling: &Sampling) -> u64 {
    let mut texture = 0;
    ok(session.cuTexObjectCreate(&mut texture, resource, sampling, null()));
    assert_ne!(texture, 0);
    texture
}

fn textures_of_planes() {
    let session = Session::start();
    let plane = array(&session, 5, 3, F32);
    let values = floats((0..15).map(|value| value as f32));
    fill(&session, plane, &values, 5);
    let out = session.alloc(4096);
    let texels = session.function(c"texels");
    let texture_of = |sampling: &Sampling| texture(&session, &of_array(plane), sampling);
    let near = texture_of(&PLAIN);
    ok(session.launch(texels, (3, 5), 0, &[near, out]));
    assert_eq!(session.read(out, 15), values);
    // Outside: the nearest texel, or zero.
    ok(session.launch(texels, (3, 7), 0, &[near, out]));
    let clamped = floats([0., 1., 2., 3., 4., 4., 4.]);
    assert_eq!(session.read(out, 7), clamped);
    let border = texture_of(&Sampling {
        modes: [3; 3],
        ..PLAIN
    });
    ok(session.launch(texels, (3, 7), 0, &[border, out]));
    assert_eq!(session.read(out, 7), floats([0., 1., 2., 3., 4., 0., 0.]));
    // Between texels, and with coordinates from 0 to 1.
    let samples = session.function(c"samples");
    let linear = texture_of(&Sampling { filter: 1, ..PLAIN });
    let (x, y) = (
        session.words(&floats([1.0, 2.5, 0.5])),
        session.words(&floats([0.5, 1.0, 0.5])),
    );
    ok(session.launch(samples, (1, 3), 0, &[linear, out, x, y]));
    assert_eq!(session.read(out, 3), floats([0.5, 4.5, 0.0]));
    let wrapped = texture_of(&Sampling {
        modes: [0; 3],
        flags: 2,
        ..PLAIN
    });
    let (x, y) = (
        session.words(&floats([0.5, 1.1, -0.1])),
        session.words(&floats([0.5; 3])),
    );
    ok(session.launch(samples, (1, 3), 0, &[wrapped, out, x, y]));
    assert_eq!(session.read(out, 3), floats([7., 5., 9.]));
}

/// One that a copy of three dimensions fills.
fn textures_of_boxes() {
    let session = Session::start();
    let out = session.alloc(4096);
    let volume = Volume {
        width: 4,
        height: 3,
        depth: 2,
        format: F32,
        channels: 1,
        flags: 0,
    };
    let mut solid = 0;
    ok(session.cuArray3DCreate_v2(&mut solid, &volume));
    let mut told = Volume { width: 0, ..volume };
    ok(session.cuArray3DGetDescriptor_v2(&mut told, solid));
    assert_eq!(told, volume);
    let values = floats((0..24).map(|value| value as f32 / 2.0));
    let copy = Spatial {
        from: SpatialEnd {
            kind: HOST,
            host: values.as_ptr().expose_provenance() as u64,
            pitch: 16,
            height: 3,
            ..SpatialEnd::default()
        },
        to: SpatialEnd {
            kind: ARRAY,
            array: solid,
            ..SpatialEnd::default()
        },
        width: 16,
        height: 3,
        depth: 2,
    };
    ok(session.cuMemcpy3D_v2(&copy));
    let solid = texture(&session, &of_array(solid), &PLAIN);
    let kernel = session.function(c"box");
    let mut params = [solid, out];
    let mut pointers = params
        .each_mut()
        .map(|value| std::ptr::from_mut(value).cast());
    let none = std::ptr::null_mut();
    ok(session.cuLaunchKernel(kernel, 3, 2, 1, 4, 1, 1, 0, 0, pointers.as_mut_ptr(), none));
    assert_eq!(session.read(out, 24), values);
}

fn textures_in_memory() {
    let session = Session::start();
    let out = session.alloc(4096);
    let bytes: Vec<u32> = (0..64).map(|value| value * 0x0101_0101).collect();
    let memory = session.words(&bytes);
    let line = Resource {
        kind: 2,
        handle: memory,
        format: U8,
        channels: 4,
        sizes: [128, 0, 0],
        ..of_array(0)
    };
    let integers = Sampling { flags: 1, ..PLAIN };
    let object = texture(&session, &line, &integers);
    ok(session.launch(session.function(c"line"), (1, 34), 0, &[object, out]));
    let due: Vec<u32> = (0..32).chain([0, 0]).collect();
    assert_eq!(session.read(out, 34), due, "zero beyond its end");
    // Rows with a pitch.
    let before = session.free_bytes();
    let rows = session.alloc(512);
    ok(session.cuMemsetD32_v2(rows, 1.0_f32.to_bits(), 128));
    session.write(rows + 64, &floats([2.0, 3.0]));
    let plane = Resource {
        kind: 3,
        handle: rows,
        format: F32,
        channels: 1,
        sizes: [4, 3, 64],
        ..of_array(0)
    };
    let object = texture(&session, &plane, &PLAIN);
    ok(session.launch(session.function(c"texels"), (3, 4), 0, &[object, out]));
    let due = floats([1., 1., 1., 1., 2., 3., 1., 1., 1., 1., 1., 1.]);
    assert_eq!(session.read(out, 12), due);
    // What stands there later is read later.
    session.write(rows, &floats([9.0]));
    ok(session.launch(session.function(c"texels"), (3, 4), 0, &[object, out]));
    assert_eq!(session.read(out, 1), floats([9.0]));
    let mut told = of_array(0);
    ok(session.cuTexObjectGetResourceDesc(&mut told, object));
    assert_eq!((told.kind, told.handle, told.sizes), (3, rows, [4, 3, 64]));
    let mut how = Sampling { filter: 9, ..PLAIN };
    ok(session.cuTexObjectGetTextureDesc(&mut how, object));
    assert_eq!((how.filter, how.modes), (0, [1; 3]));
    // Memory that was given back faults.
    ok(session.cuMemFree_v2(rows));
    session.await_free(before);
    ok(session.launch(session.function(c"texels"), (3, 4), 0, &[object, out]));
    refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
}

fn surfaces() {
    let session = Session::start();
    let volume = Volume {
        width: 6,
        height: 4,
        depth: 0,
        format: U32,
        channels: 1,
        flags: SURFACE,
    };
    let mut plane = 0;
    ok(session.cuArray3DCreate_v2(&mut plane, &volume));
    let words: Vec<u32> = (10..34).collect();
    fill(&session, plane, &words, 6);
    let mut surface = 0;
    ok(session.cuSurfObjectCreate(&mut surface, &of_array(plane)));
    for _ in 0..2 {
        ok(session.launch(session.function(c"brighten"), (4, 6), 0, &[surface]));
    }
    let due: Vec<u32> = (12..36).collect();
    assert_eq!(contents(&session, plane, 6, 4), due);
    let mut told = of_array(0);
    ok(session.cuSurfObjectGetResourceDesc(&mut told, surface));
    assert_eq!((told.kind, told.handle), (0, plane));
    invalid(session.cuTexObjectGetResourceDesc(&mut told, surface));
    // An array that was not made for it.
    let other = array(&session, 6, 4, U32);
    invalid(session.cuSurfObjectCreate(&mut surface, &of_array(other)));
    let memory = Resource {
        kind: 2,
        handle: session.alloc(4096),
        format: U32,
        channels: 1,
        sizes: [64, 0, 0],
        ..of_array(0)
    };
    invalid(session.cuSurfObjectCreate(&mut surface, &memory));
    ok(session.cuSurfObjectDestroy(surface));
    invalid(session.cuSurfObjectDestroy(surface));
}

/// A line of floats, and rows of them, in device memory.
fn in_memory(device: u64) -> (Resource, Resource) {
    let line = Resource {
        kind: 2,
        handle: device,
        format: F32,
        channels: 1,
        sizes: [4096, 0, 0],
        ..of_array(0)
    };
    let rows = Resource {
        kind: 3,
        sizes: [8, 8, 64],
        ..line
    };
    (line, rows)
}

/// Creates a texture of changed texels, which must be refused.
fn refuse(session: &Session, good: Resource, changes: &[fn(&mut Resource)]) {
    for (index, change) in changes.iter().enumerate() {
        let mut bad = good;
        change(&mut bad);
        let mut object = 5;
        let refusal = session.cuTexObjectCreate(&mut object, &bad, &PLAIN, null());
        assert_eq!(
            (refusal, object),
            (code::INVALID_VALUE, 5),
            "{index}: {bad:?}"
        );
    }
}

fn bad_texels() {
    let session = Session::start();
    let plane = array(&session, 8, 8, F32);
    let (line, rows) = in_memory(session.alloc(4096));
    let of_plane = of_array(plane);
    refuse(
        &session,
        of_plane,
        &[
            |r| r.kind = 4,
            |r| r.flags = 1,
            |r| r.handle = 0,
            |r| r.handle = 0x1234,
            |r| r.handle += 1 << 40,
        ],
    );
    refuse(
        &session,
        line,
        &[
            |r| r.handle += 4,
            |r| r.handle = 0,
            |r| r.handle = 1 << 50,
            |r| r.format = 0x33,
            |r| r.channels = 3,
            |r| r.sizes[0] = 0,
            |r| r.sizes[0] = 4100,
        ],
    );
    refuse(
        &session,
        rows,
        &[
            |r| r.sizes[2] = 60,
            |r| r.sizes[0] = 17,
            |r| r.sizes[1] = 65,
            |r| r.sizes[0] = 0,
            |r| r.sizes = [8, usize::MAX, usize::MAX],
        ],
    );
    let mut object = 5;
    let mut absent = |texels: &Resource| {
        let refusal = session.cuTexObjectCreate(&mut object, texels, &PLAIN, null());
        refused(refusal, code::NOT_SUPPORTED);
    };
    absent(&Resource {
        kind: 1,
        ..of_plane
    });
    absent(&Resource {
        format: 0xb0,
        ..line
    });
}

fn bad_ways_to_read() {
    let session = Session::start();
    let good = of_array(array(&session, 8, 8, F32));
    let integers = of_array(array(&session, 8, 8, U32));
    let mut object = 5;
    let mut create = |texels: &Resource, change: fn(&mut Sampling)| {
        let mut how = PLAIN;
        change(&mut how);
        session.cuTexObjectCreate(&mut object, texels, &how, null())
    };
    invalid(create(&good, |how| how.modes[0] = 4));
    invalid(create(&good, |how| how.filter = 2));
    invalid(create(&good, |how| how.flags = 1 << 9));
    invalid(create(&integers, |how| how.filter = 1));
    refused(create(&good, |how| how.flags = 0x10), code::NOT_SUPPORTED);
    invalid(session.cuTexObjectCreate(&mut object, &good, null(), null()));
    assert_eq!(object, 5);
    invalid(session.cuTexObjectCreate(null_mut(), &good, &PLAIN, null()));
    let view = [0_u64; 14];
    let refusal = session.cuTexObjectCreate(&mut object, &good, &PLAIN, view.as_ptr().cast());
    refused(refusal, code::NOT_SUPPORTED);
    for none in [0, 1, good.handle, u64::MAX] {
        invalid(session.cuTexObjectDestroy(none));
    }
    // A handle that is none is a fault of the kernel that uses it.
    let out = session.alloc(4096);
    let texels = session.function(c"texels");
    ok(session.launch(texels, (1, 1), 0, &[0x1234, out]));
    refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
}

fn what_is_destroyed_is_gone() {
    let session = Session::start();
    let before = session.free_bytes();
    let out = session.alloc(4096);
    let texels = session.function(c"texels");
    for _ in 0..100 {
        let plane = array(&session, 64, 64, F32);
        fill(&session, plane, &floats([1.5; 4096]), 64);
        let object = texture(&session, &of_array(plane), &PLAIN);
        ok(session.launch(texels, (1, 32), 0, &[object, out]));
        ok(session.cuTexObjectDestroy(object));
        ok(session.cuArrayDestroy(plane));
        invalid(session.cuTexObjectDestroy(object));
    }
    assert_eq!(session.read(out, 32), floats([1.5; 32]));
    ok(session.cuMemFree_v2(out));
    session.await_free(before);
}

fn they_go_with_their_context() {
    let session = Session::start();
    let before = session.free_bytes();
    let other = session.new_context();
    let plane = array(&session, 64, 64, F32);
    let object = texture(&session, &of_array(plane), &PLAIN);
    ok(session.cuCtxDestroy_v2(other));
    ok(session.cuCtxSetCurrent(session.context));
    invalid(session.cuTexObjectDestroy(object));
    refused(session.cuArrayDestroy(plane), code::INVALID_HANDLE);
    session.await_free(before);
}

/// The program ends the kernel after it has destroyed them.
fn destroyed_while_a_kernel_runs() {
    let session = Session::start();
    let mut flag = null_mut();
    ok(session.cuMemHostAlloc(&mut flag, 4096, DEVICE_MAP));
    let flag: *mut u32 = flag.cast();
    write(flag, 0, 0);
    let plane = array(&session, 64, 64, F32);
    fill(&session, plane, &floats([1.5; 4096]), 64);
    let out = session.alloc(4096);
    let (watch, stream) = (session.function(c"watch"), session.stream(NON_BLOCKING));
    let ended = session.alloc(4096);
    ok(session.launch(
        watch,
        (1, 1),
        stream,
        &[address_of(&session, flag), ended, u32::MAX.into()],
    ));
    // More than the library remembers would wait for the kernel.
    for _ in 0..100 {
        let object = texture(&session, &of_array(plane), &PLAIN);
        ok(session.cuTexObjectDestroy(object));
        invalid(session.cuTexObjectDestroy(object));
    }
    refused(session.cuStreamQuery(stream), code::NOT_READY);
    write(flag, 0, 7);
    ok(session.cuStreamSynchronize(stream));
    let object = texture(&session, &of_array(plane), &PLAIN);
    ok(session.launch(session.function(c"texels"), (1, 32), 0, &[object, out]));
    assert_eq!(session.read(out, 32), floats([1.5; 32]));
}
