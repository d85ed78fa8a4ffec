//! Memory of the device and of the host, copies, fills, addresses and pools.

use super::{DEAD, NEGATIVE, Places, bits, hold};
use crate::session::{Session, code, ok};
use std::ffi::c_void;

scenarios! {
    codes: of_device_memory of_copies of_fills of_boxes of_host_memory of_addresses of_pools the_devices_pool;
}

fn of_device_memory() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let device = bits(session.alloc(4096));
    hold(
        &session,
        rows! {
            cuMemAlloc_v2(out, 0) = code::INVALID_VALUE;
            cuMemAlloc_v2(0, 64) = code::INVALID_VALUE;
            cuMemAlloc_v2(out, NEGATIVE) = code::OUT_OF_MEMORY;
            cuMemAllocPitch_v2(out, more, 0, 4, 4) = code::INVALID_VALUE;
            cuMemAllocPitch_v2(out, more, 4, 0, 4) = code::INVALID_VALUE;
            cuMemAllocPitch_v2(out, more, 4, 4, 3) = code::INVALID_VALUE;
            cuMemAllocPitch_v2(out, 0, 4, 4, 4) = code::INVALID_VALUE;
            cuMemGetAddressRange_v2(out, more, 0x1234) = code::NOT_FOUND;
            cuMemGetAddressRange_v2(0, 0, device) = 0;
            cuMemFree_v2(device + 512) = code::INVALID_VALUE;
            cuMemFree_v2(0xdead_0000) = code::INVALID_VALUE;
            cuMemFree_v2(0) = 0;
            cuMemFree_v2(device) = 0;
            cuMemFree_v2(device) = code::INVALID_VALUE;
        },
    );
}

fn of_copies() {
    let session = Session::start();
    let mut places = Places::new();
    let host = places.at(0);
    let device = bits(session.alloc(256));
    let context = bits(session.context);
    hold(
        &session,
        rows! {
            // Of nothing, from and to anywhere.
            cuMemcpyHtoD_v2(device, 0, 0) = 0;
            cuMemcpyHtoD_v2(0, 0, 0) = 0;
            cuMemcpyDtoH_v2(0, device, 0) = 0;
            cuMemcpyDtoD_v2(0, 0, 0) = 0;
            cuMemcpy(0, 0, 0) = 0;
            cuMemcpyHtoD_v2(device, 0, 16) = code::INVALID_VALUE;
            cuMemcpyHtoD_v2(0, host, 16) = code::INVALID_VALUE;
            cuMemcpyHtoD_v2(host, host, 16) = code::INVALID_VALUE;
            cuMemcpyHtoD_v2(device, host, 257) = code::INVALID_VALUE;
            cuMemcpyHtoD_v2(device + 255, host, 2) = code::INVALID_VALUE;
            cuMemcpyDtoH_v2(0, device, 16) = code::INVALID_VALUE;
            cuMemcpyDtoH_v2(host, host, 16) = code::INVALID_VALUE;
            cuMemcpyDtoD_v2(device, host, 16) = code::INVALID_VALUE;
            cuMemcpy(device, device, NEGATIVE) = code::INVALID_VALUE;
            // The stream is looked at first.
            cuMemcpyHtoDAsync_v2(device, host, 0, DEAD) = code::INVALID_HANDLE;
            cuMemcpyDtoHAsync_v2(host, device, 4, DEAD) = code::INVALID_HANDLE;
            cuMemcpyDtoDAsync_v2(device, device, 4, DEAD) = code::INVALID_HANDLE;
            cuMemcpyAsync(device, host, 4, DEAD) = code::INVALID_HANDLE;
            cuMemcpyPeer(device, 0, device, context, 4) = code::INVALID_CONTEXT;
            cuMemcpyPeer(device, context, device, DEAD, 4) = code::INVALID_CONTEXT;
            cuMemcpyPeerAsync(device, context, device, context, 4, DEAD) = code::INVALID_HANDLE;
        },
    );
}

fn of_fills() {
    let session = Session::start();
    let mut places = Places::new();
    let host = places.at(0);
    let device = bits(session.alloc(256));
    let mut rows: Vec<(&str, [usize; 6], u32)> = Vec::new();
    for (symbol, unit) in [
        ("cuMemsetD8_v2", 1),
        ("cuMemsetD16_v2", 2),
        ("cuMemsetD32_v2", 4),
    ] {
        rows.extend([
            (symbol, [device, 7, 256 / unit, 0, 0, 0], 0),
            (symbol, [device, 7, 0, 0, 0, 0], 0),
            (
                symbol,
                [device, 7, 256 / unit + 1, 0, 0, 0],
                code::INVALID_VALUE,
            ),
            (symbol, [device, 7, NEGATIVE, 0, 0, 0], code::INVALID_VALUE),
            (symbol, [0, 7, 1, 0, 0, 0], code::INVALID_VALUE),
            (symbol, [host, 7, 1, 0, 0, 0], code::INVALID_VALUE),
        ]);
        if unit > 1 {
            rows.push((symbol, [device + 1, 7, 1, 0, 0, 0], code::INVALID_VALUE));
        }
    }
    for symbol in ["cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async"] {
        rows.push((symbol, [device, 7, 0, DEAD, 0, 0], code::INVALID_HANDLE));
    }
    for (symbol, unit) in [
        ("cuMemsetD2D8_v2", 1),
        ("cuMemsetD2D16_v2", 2),
        ("cuMemsetD2D32_v2", 4),
    ] {
        rows.extend([
            (symbol, [device, 64, 7, 64 / unit, 4, 0], 0),
            (symbol, [device, 64, 7, 0, 4, 0], 0),
            (symbol, [device, 0, 7, 8, 1, 0], 0),
            (
                symbol,
                [device, 64, 7, 64 / unit, 5, 0],
                code::INVALID_VALUE,
            ),
            (
                symbol,
                [device, 32, 7, 64 / unit, 2, 0],
                code::INVALID_VALUE,
            ),
        ]);
        if unit > 1 {
            rows.push((symbol, [device, 63, 7, 4, 2, 0], code::INVALID_VALUE));
        }
    }
    let rows: Vec<(&str, &[usize], u32)> =
        rows.iter().map(|(f, a, due)| (*f, &a[..], *due)).collect();
    hold(&session, &rows);
}

/// Kinds of memory in a copy's description.
const HOST: usize = 1;
const DEVICE: usize = 2;

/// Returns a description of a copy of two dimensions, from a place in host memory to one in the device's.
fn planar(from: usize, to: usize, pitch: usize, size: [usize; 2]) -> [usize; 16] {
    let [width, height] = size;
    [
        0, 0, HOST, from, 0, 0, 64, 0, 0, DEVICE, 0, to, 0, pitch, width, height,
    ]
}

fn of_boxes() {
    let session = Session::start();
    let mut places = Places::new();
    let host = places.at(0);
    let device = bits(session.alloc(4096));
    let good = planar(host, device, 64, [64, 4]);
    let long = planar(host, device, 1 << 31, [64, 1]);
    let narrow = planar(host, device, 32, [64, 4]);
    let none = planar(0, device, 64, [64, 4]);
    let empty = planar(0, 0, 0, [0, 4]);
    let unknown = {
        let mut copy = good;
        copy[2] = 9;
        copy
    };
    let at = |copy: &[usize]| copy.as_ptr().expose_provenance();
    // As of two dimensions, with a plane and a level more at either end.
    let mut levels = [0; 25];
    (levels[4], levels[5], levels[9], levels[10]) = (HOST, host, 64, 4);
    (levels[15], levels[17], levels[20], levels[21]) = (DEVICE, device, 64, 4);
    (levels[22], levels[23], levels[24]) = (64, 4, 1);
    let spatial = levels;
    levels[3] = 1;
    let invalid = code::INVALID_VALUE;
    hold(
        &session,
        rows! {
            cuMemcpy2D_v2(0) = invalid;
            cuMemcpy2D_v2(at(&good)) = 0;
            cuMemcpy2D_v2(at(&empty)) = 0;
            cuMemcpy2D_v2(at(&narrow)) = invalid;
            cuMemcpy2D_v2(at(&none)) = invalid;
            cuMemcpy2D_v2(at(&unknown)) = invalid;
            // Only the function for such copies takes a pitch that is longer than the device has them.
            cuMemcpy2D_v2(at(&long)) = invalid;
            cuMemcpy2DUnaligned_v2(at(&long)) = 0;
            cuMemcpy2DAsync_v2(at(&long), 0) = invalid;
            cuMemcpy2DAsync_v2(at(&good), DEAD) = code::INVALID_HANDLE;
            cuMemcpy3D_v2(0) = invalid;
            cuMemcpy3D_v2(at(&spatial)) = 0;
            cuMemcpy3D_v2(at(&levels)) = invalid;
            cuMemcpy3DAsync_v2(at(&levels), 0) = invalid;
        },
    );
}

fn of_host_memory() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let mut own = vec![0_u8; 3 << 12];
    let start: *mut c_void = own.as_mut_ptr().cast();
    let start = start.expose_provenance().next_multiple_of(4096);
    let pinned = session.pinned(4096).expose_provenance();
    // An address that no process has.
    let nowhere = 0x10;
    let invalid = code::INVALID_VALUE;
    hold(
        &session,
        rows! {
            cuMemHostAlloc(0, 64, 0) = invalid;
            cuMemHostAlloc(out, 64, 8) = invalid;
            cuMemHostAlloc(out, NEGATIVE, 0) = code::OUT_OF_MEMORY;
            // Nothing is null, which may be given back.
            cuMemHostAlloc(out, 0, 0) = 0;
            cuMemAllocHost_v2(more, 0) = 0;
            cuMemFreeHost(0) = 0;
            cuMemFreeHost(start) = invalid;
            cuMemFreeHost(pinned + 8) = invalid;
            cuMemHostGetFlags(out, start) = invalid;
            cuMemHostGetDevicePointer_v2(out, start, 0) = invalid;
            cuMemHostGetDevicePointer_v2(out, pinned, 1) = invalid;
            cuMemHostRegister_v2(0, 4096, 0) = invalid;
            cuMemHostRegister_v2(start, 0, 0) = invalid;
            cuMemHostRegister_v2(start, 4096, 16) = invalid;
            cuMemHostRegister_v2(nowhere, 4096, 0) = invalid;
            cuMemHostRegister_v2(start, NEGATIVE, 0) = invalid;
            // What the device has no attribute for.
            cuMemHostRegister_v2(start, 4096, 4) = code::NOT_SUPPORTED;
            cuMemHostRegister_v2(start, 4096, 8) = code::NOT_SUPPORTED;
            cuMemHostUnregister(0) = invalid;
            cuMemHostUnregister(start) = code::NOT_REGISTERED;
            cuMemHostUnregister(pinned) = invalid;
            cuMemHostRegister_v2(start, 4096, 0) = 0;
            cuMemHostRegister_v2(start, 4096, 0) = code::ALREADY_REGISTERED;
            cuMemHostRegister_v2(start + 64, 64, 0) = code::ALREADY_REGISTERED;
            cuMemHostUnregister(start + 64) = invalid;
            cuMemFreeHost(start) = invalid;
            cuMemHostUnregister(start) = 0;
            cuMemHostUnregister(start) = code::NOT_REGISTERED;
        },
    );
    assert_eq!((places.0[0], places.0[8]), (0, 0), "nothing was allocated");
    drop(own);
}

fn of_addresses() {
    const SYNC_MEMOPS: usize = 6;
    let session = Session::start();
    let mut places = Places::new();
    let out = places.at(0);
    let device = bits(session.alloc(256));
    let unknown = places.at(16);
    // All attributes that there are, but for tokens for a kernel module and whether something is mapped.
    let known = (1..=22).filter(|attribute| ![5, 13].contains(attribute));
    let mut rows: Vec<(&str, [usize; 3], u32)> = Vec::new();
    for attribute in known.clone() {
        // A host pointer is what device memory has not.
        let due = if attribute == 4 {
            code::INVALID_VALUE
        } else {
            0
        };
        rows.push(("cuPointerGetAttribute", [out, attribute, device], due));
        rows.push((
            "cuPointerGetAttribute",
            [out, attribute, unknown],
            code::INVALID_VALUE,
        ));
        rows.push((
            "cuPointerGetAttribute",
            [0, attribute, device],
            code::INVALID_VALUE,
        ));
    }
    for none in [0, 23, 9999, NEGATIVE] {
        rows.push((
            "cuPointerGetAttribute",
            [out, none, device],
            code::INVALID_VALUE,
        ));
    }
    for (value, attribute, address) in [
        (0, SYNC_MEMOPS, device),
        (out, 2, device),
        (out, SYNC_MEMOPS, unknown),
    ] {
        rows.push((
            "cuPointerSetAttribute",
            [value, attribute, address],
            code::INVALID_VALUE,
        ));
    }
    let rows: Vec<(&str, &[usize], u32)> =
        rows.iter().map(|(f, a, due)| (*f, &a[..], *due)).collect();
    hold(&session, &rows);
    // What can be set is remembered.
    for is_set in [1, 0] {
        places.0[0] = is_set;
        ok(session.call_with("cuPointerSetAttribute", &[out, SYNC_MEMOPS, device]));
        places.0[0] = 0xff;
        ok(session.call_with("cuPointerGetAttribute", &[out, SYNC_MEMOPS, device]));
        assert_eq!(places.0[0] & 0xff, is_set);
    }
    // Of several attributes of what is not known: no context, no kind, no device, and the address itself for the host.
    let attributes = [1_u32, 2, 3, 4, 8, 9];
    let values: [usize; 6] = std::array::from_fn(|n| places.at(n));
    places.0[..6].fill(0xff);
    let lists = [
        (&raw const attributes).expose_provenance(),
        (&raw const values).expose_provenance(),
    ];
    ok(session.call_with("cuPointerGetAttributes", &[6, lists[0], lists[1], 0xdead]));
    let word = |n: usize| places.0[n] & 0xffff_ffff;
    assert_eq!((places.0[0], word(1), places.0[2]), (0, 0, 0));
    assert_eq!(
        (places.0[3], places.0[4] & 0xff, word(5)),
        (0xdead, 0, 0xffff_fffe)
    );
}

/// Words of a pool's properties: kind of memory and of handles, kind of place and number, a pointer, the most bytes.
type Properties = [u32; 22];

fn properties(words: [u32; 4], most: u32) -> Properties {
    let mut properties = [0; 22];
    properties[..4].copy_from_slice(&words);
    properties[6] = most;
    properties
}

/// Returns the words as they are aligned in C.
fn aligned(properties: &Properties) -> [u64; 11] {
    std::array::from_fn(|index| {
        u64::from(properties[2 * index]) | u64::from(properties[2 * index + 1]) << 32
    })
}

fn of_pools() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let mut pool = 0;
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    let pool = bits(pool);
    let (invalid, missing) = (code::INVALID_VALUE, code::NOT_SUPPORTED);
    let asked = [
        (properties([0, 0, 1, 0], 0), invalid),
        (properties([9, 0, 1, 0], 0), invalid),
        (properties([1, 0, 0, 0], 0), invalid),
        (properties([1, 0, 4, 0], 0), invalid),
        (properties([1, 0, 5, 0], 0), invalid),
        (properties([1, 0, 9, 0], 0), invalid),
        (properties([1, 1, 2, 0], 0), invalid),
        (properties([1, 0, 1, 1], 0), code::INVALID_DEVICE),
        // Memory of the host, and managed.
        (properties([1, 0, 2, 0], 0), 0),
        (properties([1, 0, 3, 0], 0), 0),
        (properties([2, 0, 0, 0], 0), 0),
        (properties([2, 0, 1, 0], 0), 0),
        (properties([2, 0, 1, 1], 0), code::INVALID_DEVICE),
        // Shared between processes: not here.
        (properties([1, 1, 1, 0], 0), missing),
        (properties([2, 1, 1, 0], 0), invalid),
        (properties([2, 0, 1, 0], 4096), invalid),
    ];
    for (asked, due) in &asked {
        let words = aligned(asked);
        let place = words.as_ptr().expose_provenance();
        let made = session.call_with("cuMemPoolCreate", &[out, place]);
        assert_eq!(made, *due, "{:?}", &asked[..7]);
    }
    hold(
        &session,
        rows! {
            cuMemPoolCreate(out, 0) = invalid;
            cuMemPoolDestroy(0) = invalid;
            cuMemPoolDestroy(pool) = invalid;
            cuMemPoolTrimTo(0, 0) = invalid;
            cuMemPoolGetAttribute(pool, 0, out) = invalid;
            cuMemPoolGetAttribute(pool, 99, out) = invalid;
            cuMemPoolGetAttribute(pool, 4, 0) = invalid;
            cuMemPoolSetAttribute(pool, 5, out) = invalid;
            cuMemPoolSetAttribute(pool, 13, out) = invalid;
            cuMemPoolSetAttribute(0, 4, out) = invalid;
            cuMemPoolGetAccess(out, 0, more) = invalid;
            cuDeviceGetDefaultMemPool(out, 1) = code::INVALID_DEVICE;
            cuDeviceGetMemPool(out, 1) = code::INVALID_DEVICE;
            cuDeviceSetMemPool(1, pool) = code::INVALID_DEVICE;
            cuDeviceSetMemPool(0, 0) = invalid;
            cuMemAllocAsync(0, 64, 0) = invalid;
            cuMemAllocAsync(out, 64, DEAD) = code::INVALID_HANDLE;
            cuMemAllocFromPoolAsync(out, 64, 0, 0) = invalid;
            cuMemFreeAsync(0xdead_0000, 0) = invalid;
            cuMemFreeAsync(0, DEAD) = code::INVALID_HANDLE;
            // Nothing is null, which may be given back.
            cuMemAllocAsync(more, 0, 0) = 0;
            cuMemAllocFromPoolAsync(more, 0, pool, 0) = 0;
            cuMemFreeAsync(0, 0) = 0;
        },
    );
    assert_eq!(places.0[8], 0);
}

/// The pool that allocations come from which name none, and the most that a pool may have.
fn the_devices_pool() {
    const MAX_SIZE: u32 = 13;
    const MOST: u32 = 4 << 20;
    let session = Session::start();
    let mut places = Places::new();
    let out = places.at(0);
    let asked = aligned(&properties([1, 0, 1, 0], MOST));
    let (mut own, mut limited, mut address) = (0, 0, 0);
    ok(session.cuDeviceGetDefaultMemPool(&mut own, 0));
    let place = (&raw mut limited).expose_provenance();
    ok(session.call_with(
        "cuMemPoolCreate",
        &[place, asked.as_ptr().expose_provenance()],
    ));
    let current = |places: &Places| {
        ok(session.call_with("cuDeviceGetMemPool", &[out, 0]));
        places.0[0]
    };
    assert_eq!(current(&places), own);
    ok(session.call_with("cuDeviceSetMemPool", &[0, bits(limited)]));
    assert_eq!(current(&places), limited);
    for (attribute, told) in [(MAX_SIZE, u64::from(MOST)), (7, 0)] {
        ok(session.cuMemPoolGetAttribute(limited, attribute, (&raw mut places.0[1]).cast()));
        assert_eq!(places.0[1], told);
    }
    ok(session.cuMemAllocAsync(&mut address, 3 << 20, 0));
    ok(session.cuMemPoolGetAttribute(limited, 7, (&raw mut places.0[1]).cast()));
    assert_eq!(places.0[1], 3 << 20, "it came from there");
    let mut more = 0;
    assert_eq!(
        session.cuMemAllocAsync(&mut more, 2 << 20, 0),
        code::OUT_OF_MEMORY
    );
    ok(session.cuMemAllocFromPoolAsync(&mut more, 2 << 20, own, 0));
    // What it keeps makes room.
    ok(session.cuMemFreeAsync(address, 0));
    ok(session.cuMemAllocAsync(&mut address, 4 << 20, 0));
    ok(session.cuMemFreeAsync(address, 0));
    // Where it is gone, the device has its own again.
    ok(session.cuMemPoolDestroy(limited));
    assert_eq!(current(&places), own);
    ok(session.cuMemAllocAsync(&mut address, 8 << 20, 0));
    ok(session.cuStreamSynchronize(0));
    assert_eq!(
        session.call_with("cuDeviceSetMemPool", &[0, bits(limited)]),
        code::INVALID_VALUE
    );
}
