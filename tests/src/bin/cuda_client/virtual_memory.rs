//! Virtual memory: reservations, physical memory and mappings.

use crate::managed::Location;
use crate::session::{Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::null;

scenarios! {
    virtual_memory: an_array_that_grows handles_are_counted one_memory_at_two_places bad_arguments
        unmapped_while_a_kernel_runs over_the_limit;
}

/// The granularity.
const UNIT: usize = 2 << 20;

/// Properties of physical memory (`CUmemAllocationProp`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Properties {
    kind: u32,
    handle_types: u32,
    location_kind: u32,
    location_id: i32,
    win32_data: usize,
    flags: [u8; 8],
}

const ON_DEVICE: Properties = Properties {
    kind: 1,
    handle_types: 0,
    location_kind: 1,
    location_id: 0,
    win32_data: 0,
    flags: [0; 8],
};

/// Access of a location (`CUmemAccessDesc`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    location: Location,
    flags: u32,
}

const HERE: Location = Location { kind: 1, id: 0 };
const BOTH: Access = Access {
    location: HERE,
    flags: 3,
};

fn reserve(session: &Session, bytes: usize) -> u64 {
    let mut address = 0;
    ok(session.cuMemAddressReserve(&mut address, bytes, 0, 0, 0));
    assert_eq!(address % UNIT as u64, 0);
    address
}

fn create(session: &Session, bytes: usize) -> u64 {
    let mut handle = 0;
    ok(session.cuMemCreate(&mut handle, bytes, &ON_DEVICE, 0));
    handle
}

fn map(session: &Session, address: u64, bytes: usize, handle: u64) {
    ok(session.cuMemMap(address, bytes, 0, handle, 0));
    ok(session.cuMemSetAccess(address, bytes, &BOTH, 1));
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(usize::try_from(address).expect("an address"))
}

fn an_array_that_grows() {
    let session = Session::start();
    assert_eq!(
        session.attribute(102),
        1,
        "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"
    );
    for option in [0, 1] {
        let mut unit = 0;
        ok(session.cuMemGetAllocationGranularity(&mut unit, &ON_DEVICE, option));
        assert_eq!(unit, UNIT);
    }
    let before = session.free_bytes();
    let at = reserve(&session, 16 * UNIT);
    assert_eq!(session.free_bytes(), before, "addresses are no memory");
    let mut bytes = 0;
    let mut handles = Vec::new();
    for size in [1, 2, 1] {
        let handle = create(&session, size * UNIT);
        map(&session, at + bytes as u64, size * UNIT, handle);
        ok(session.cuMemRelease(handle));
        bytes += size * UNIT;
        handles.push(handle);
        // Across all that is mapped.
        ok(session.cuMemsetD32_v2(at, 7, bytes / 4));
        let words = bytes / 4;
        let blocks = u32::try_from(words.div_ceil(256)).expect("few");
        ok(session.launch(
            session.function(c"add"),
            (blocks, 256),
            0,
            &[at, words as u64],
        ));
        assert_eq!(session.read(at, words), vec![12; words]);
        invalid(session.cuMemsetD32_v2(at, 7, bytes / 4 + 1));
    }
    assert_eq!(before - session.free_bytes(), bytes);
    // Of an address what is mapped there is told, not what is reserved.
    let second = at + UNIT as u64;
    let (mut base, mut size) = (0, 0);
    for address in [
        second,
        second + UNIT as u64 + 5,
        second + 2 * UNIT as u64 - 1,
    ] {
        ok(session.cuMemGetAddressRange_v2(&mut base, &mut size, address));
        assert_eq!((base, size), (second, 2 * UNIT));
        for (attribute, due) in [(11, second), (12, 2 * UNIT as u64)] {
            let mut told = 0_u64;
            ok(session.cuPointerGetAttribute((&raw mut told).cast(), attribute, address));
            assert_eq!(told, due, "RANGE_START_ADDR, RANGE_SIZE");
        }
    }
    // Behind its end there is nothing.
    let mut one = 0_u64;
    invalid(session.cuPointerGetAttribute((&raw mut one).cast(), 2, at + bytes as u64));
    ok(session.cuPointerGetAttribute((&raw mut one).cast(), 2, at + bytes as u64 - 1));
    ok(session.cuMemUnmap(at, bytes));
    session.await_free(before);
    invalid(session.cuMemsetD32_v2(at, 7, 1));
    ok(session.cuMemAddressFree(at, 16 * UNIT));
    invalid(session.cuMemAddressFree(at, 16 * UNIT));
    for handle in handles {
        invalid(session.cuMemRelease(handle));
    }
}

fn handles_are_counted() {
    let session = Session::start();
    let before = session.free_bytes();
    let at = reserve(&session, 2 * UNIT);
    let handle = create(&session, UNIT);
    let mut told = Properties {
        kind: 0,
        ..ON_DEVICE
    };
    ok(session.cuMemGetAllocationPropertiesFromHandle(&mut told, handle));
    assert_eq!(told, ON_DEVICE);
    map(&session, at, UNIT, handle);
    let mut same = 0;
    ok(session.cuMemRetainAllocationHandle(&mut same, pointer(at + 100)));
    assert_eq!(same, handle);
    ok(session.cuMemRelease(handle));
    ok(session.cuMemGetAllocationPropertiesFromHandle(&mut told, handle));
    ok(session.cuMemRelease(handle));
    invalid(session.cuMemRelease(handle));
    invalid(session.cuMemGetAllocationPropertiesFromHandle(&mut told, handle));
    // It is mapped still, and the mapping gives the handle again.
    session.write(at, &[5]);
    ok(session.cuMemRetainAllocationHandle(&mut same, pointer(at)));
    ok(session.cuMemUnmap(at, UNIT));
    map(&session, at + UNIT as u64, UNIT, same);
    assert_eq!(session.read(at + UNIT as u64, 1), [5]);
    invalid(session.cuMemRetainAllocationHandle(&mut same, pointer(at)));
    ok(session.cuMemUnmap(at + UNIT as u64, UNIT));
    assert_eq!(before - session.free_bytes(), UNIT, "its handle is held");
    ok(session.cuMemRelease(same));
    session.await_free(before);
}

fn one_memory_at_two_places() {
    let session = Session::start();
    let (one, two) = (reserve(&session, UNIT), reserve(&session, 4 * UNIT));
    let handle = create(&session, UNIT);
    map(&session, one, UNIT, handle);
    ok(session.cuMemMap(two + UNIT as u64, UNIT, 0, handle, 0));
    let other = two + UNIT as u64;
    let mut flags = 9;
    ok(session.cuMemGetAccess(&mut flags, &HERE, one));
    assert_eq!(flags, 3);
    ok(session.cuMemGetAccess(&mut flags, &HERE, other));
    assert_eq!(flags, 0, "not accessible yet");
    invalid(session.cuMemsetD32_v2(other, 1, 1));
    ok(session.cuMemSetAccess(other, UNIT, &BOTH, 1));
    session.write(one, &[1, 2, 3]);
    assert_eq!(session.read(other, 3), [1, 2, 3]);
    ok(session.launch(session.function(c"next"), (1, 1), 0, &[other, one + 8]));
    assert_eq!(session.read(one, 1), [4]);
    // Access can be taken again, which kernels notice.
    let none = Access { flags: 0, ..BOTH };
    ok(session.cuMemSetAccess(other, UNIT, &none, 1));
    invalid(session.cuMemsetD32_v2(other, 1, 1));
    assert_eq!(session.read(one, 1), [4]);
    ok(session.launch(session.function(c"poke"), (1, 1), 0, &[other]));
    refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
}

fn bad_arguments() {
    let session = Session::start();
    let mut out = 5;
    for (bytes, align, flags) in [
        (0, 0, 0),
        (4096, 0, 0),
        (UNIT + 1, 0, 0),
        (UNIT, 3, 0),
        (UNIT, 0, 1),
    ] {
        invalid(session.cuMemAddressReserve(&mut out, bytes, align, 0, flags));
    }
    let huge = session.cuMemAddressReserve(&mut out, 1 << 60, 0, 0, 0);
    refused(huge, code::OUT_OF_MEMORY);
    for (bytes, flags) in [(0, 0), (4096, 0), (UNIT, 1)] {
        invalid(session.cuMemCreate(&mut out, bytes, &ON_DEVICE, flags));
    }
    invalid(session.cuMemCreate(&mut out, UNIT, null(), 0));
    let bad = |change: fn(&mut Properties)| {
        let mut properties = ON_DEVICE;
        change(&mut properties);
        let mut handle = 5;
        session.cuMemCreate(&mut handle, UNIT, &properties, 0)
    };
    invalid(bad(|p| p.kind = 0));
    invalid(bad(|p| p.location_kind = 0));
    refused(bad(|p| p.location_id = 1), code::INVALID_DEVICE);
    refused(bad(|p| p.location_kind = 2), code::NOT_SUPPORTED);
    refused(bad(|p| p.handle_types = 1), code::NOT_SUPPORTED);
    assert_eq!(out, 5);
    invalid(session.cuMemGetAllocationGranularity(&mut 0, &ON_DEVICE, 2));
    let at = reserve(&session, 4 * UNIT);
    let handle = create(&session, 2 * UNIT);
    let unit = UNIT as u64;
    for (address, bytes, offset, flags) in [
        (at, 3 * UNIT, 0, 0),
        (at, 0, 0, 0),
        (at, 4096, 0, 0),
        (at + 4096, UNIT, 0, 0),
        (at + 3 * unit, 2 * UNIT, 0, 0),
        (at - unit, UNIT, 0, 0),
        (0, UNIT, 0, 0),
        (u64::MAX - unit + 1, UNIT, 0, 0),
        (at, UNIT, UNIT, 0),
        (at, UNIT, 0, 1),
    ] {
        invalid(session.cuMemMap(address, bytes, offset, handle, flags));
    }
    invalid(session.cuMemMap(at, UNIT, 0, 0x1234, 0));
    invalid(session.cuMemSetAccess(at, UNIT, &BOTH, 1));
    map(&session, at + unit, 2 * UNIT, handle);
    invalid(session.cuMemMap(at, 2 * UNIT, 0, handle, 0));
    invalid(session.cuMemMap(at + 2 * unit, UNIT, 0, handle, 0));
    for (address, bytes) in [
        (at, 3 * UNIT),
        (at + unit, UNIT),
        (at + unit, 3 * UNIT),
        (at, UNIT),
    ] {
        invalid(session.cuMemUnmap(address, bytes));
        invalid(session.cuMemSetAccess(address, bytes, &BOTH, 1));
    }
    invalid(session.cuMemSetAccess(at + unit, 2 * UNIT, null(), 1));
    invalid(session.cuMemSetAccess(at + unit, 2 * UNIT, &BOTH, 0));
    let read_only = Access { flags: 1, ..BOTH };
    refused(
        session.cuMemSetAccess(at + unit, 2 * UNIT, &read_only, 1),
        code::NOT_SUPPORTED,
    );
    let odd = Access { flags: 7, ..BOTH };
    invalid(session.cuMemSetAccess(at + unit, 2 * UNIT, &odd, 1));
    invalid(session.cuMemAddressFree(at, 4 * UNIT));
    invalid(session.cuMemFree_v2(at + unit));
    ok(session.cuMemUnmap(at + unit, 2 * UNIT));
    invalid(session.cuMemAddressFree(at, UNIT));
    invalid(session.cuMemAddressFree(at + unit, 3 * UNIT));
    ok(session.cuMemAddressFree(at, 4 * UNIT));
}

fn unmapped_while_a_kernel_runs() {
    let session = Session::start();
    let before = session.free_bytes();
    let slow = session.function(c"slow");
    for _ in 0..10 {
        let at = reserve(&session, UNIT);
        let handle = create(&session, UNIT);
        map(&session, at, UNIT, handle);
        ok(session.launch(slow, (1, 32), 0, &[at, 20_000, 9]));
        ok(session.cuMemUnmap(at, UNIT));
        ok(session.cuCtxSynchronize());
        map(&session, at, UNIT, handle);
        assert_eq!(session.read(at, 1), [9], "the kernel had ended");
        ok(session.cuMemUnmap(at, UNIT));
        ok(session.cuMemRelease(handle));
        ok(session.cuMemAddressFree(at, UNIT));
    }
    session.await_free(before);
}

/// The tenant may have 64 MiB.
fn over_the_limit() {
    let session = Session::start();
    let before = session.free_bytes();
    let mut handle = 5;
    refused(
        session.cuMemCreate(&mut handle, 66 << 20, &ON_DEVICE, 0),
        code::OUT_OF_MEMORY,
    );
    let mut held = Vec::new();
    while session.cuMemCreate(&mut handle, 4 * UNIT, &ON_DEVICE, 0) == 0 {
        held.push(handle);
    }
    assert!((6..=8).contains(&held.len()), "{}", held.len());
    refused(
        session.cuMemAlloc_v2(&mut handle, 40 << 20),
        code::OUT_OF_MEMORY,
    );
    for handle in held {
        ok(session.cuMemRelease(handle));
    }
    session.await_free(before);
}
