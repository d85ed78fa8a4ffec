//! Pools: allocation in the order of streams.

use crate::api::PoolProperties;
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ptr::from_mut;

scenarios! {
    pools: reuse_follows_the_order_of_streams figures_and_thresholds destroyed_pools_give_their_memory_back
        pools_of_managed_and_of_host_memory;
}

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const RESERVED_MOST: u32 = 6;
const USED: u32 = 7;
const USED_MOST: u32 = 8;

const PROPERTIES: PoolProperties = PoolProperties {
    alloc_type: 1,
    handle_types: 0,
    location_type: 1,
    location_id: 0,
    reserved: [0; 9],
};

fn figure(session: &Session, pool: u64, attribute: u32) -> u64 {
    let mut value = u64::MAX;
    ok(session.cuMemPoolGetAttribute(pool, attribute, from_mut(&mut value).cast()));
    value
}

fn set(session: &Session, pool: u64, attribute: u32, mut value: u64) -> u32 {
    session.cuMemPoolSetAttribute(pool, attribute, from_mut(&mut value).cast())
}

fn default_pool(session: &Session) -> u64 {
    let mut pool = 0;
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    pool
}

fn create(session: &Session) -> u64 {
    let mut pool = 0;
    ok(session.cuMemPoolCreate(&mut pool, &PROPERTIES));
    pool
}

fn reuse_follows_the_order_of_streams() {
    const MIB: usize = 1 << 20;
    let session = Session::start();
    let (one, two) = (session.stream(NON_BLOCKING), session.stream(NON_BLOCKING));
    let (slow, next) = (session.function(c"slow"), session.function(c"next"));
    ok(set(
        &session,
        default_pool(&session),
        RELEASE_THRESHOLD,
        u64::MAX,
    ));
    let out = session.words(&[0]);
    let (mut first, mut same, mut other) = (0, 0, 0);
    ok(session.cuMemAllocAsync(&mut first, MIB, one));
    ok(session.launch(slow, (1, 32), one, &[first, 200_000, 8]));
    ok(session.launch(next, (1, 1), one, &[out, first]));
    ok(session.cuMemFreeAsync(first, one));
    // It is gone for the program at once, though the kernels that use it still run.
    invalid(session.cuMemFreeAsync(first, one));
    invalid(session.cuMemFree_v2(first));
    // Another stream must not get it before they have ended; the same stream may.
    ok(session.cuMemAllocAsync(&mut other, MIB, two));
    assert_ne!(other, first, "the kernel still writes to it");
    ok(session.cuMemAllocAsync(&mut same, MIB, one));
    assert_eq!(same, first);
    ok(session.cuMemsetD32Async(other, 77, MIB / 4, two));
    ok(session.cuMemsetD32Async(same, 0, MIB / 4, one));
    ok(session.cuStreamSynchronize(one));
    ok(session.cuStreamSynchronize(two));
    assert_eq!(session.read(out, 1), [9]);
    assert_eq!(session.read(other, 4), [77; 4]);
    ok(session.cuMemFreeAsync(same, one));
    ok(session.cuStreamSynchronize(one));
    ok(session.cuMemAllocAsync(&mut first, MIB, two));
    assert_eq!(first, same, "the first stream is done with it");
    ok(session.cuMemAllocAsync(&mut first, 0, one));
    assert_eq!(first, 0, "nothing is null");
    refused(
        session.cuMemAllocAsync(&mut first, usize::MAX, one),
        code::OUT_OF_MEMORY,
    );
    ok(session.cuMemFreeAsync(0, one));
}

fn figures_and_thresholds() {
    const BYTES: u64 = 1 << 20;
    let session = Session::start();
    let pool = default_pool(&session);
    let figures = || [RESERVED, USED].map(|attribute| figure(&session, pool, attribute));
    assert_eq!(figures(), [0, 0]);
    let (mut one, mut two) = (0, 0);
    ok(session.cuMemAllocAsync(&mut one, 1 << 20, 0));
    ok(session.cuMemAllocAsync(&mut two, 1 << 20, 0));
    assert_eq!(figures(), [2 * BYTES, 2 * BYTES]);
    ok(session.cuMemFreeAsync(one, 0));
    assert_eq!(figures(), [2 * BYTES, BYTES]);
    // The threshold is 0, so a synchronisation gives the memory back.
    ok(session.cuStreamSynchronize(0));
    assert_eq!(figures(), [BYTES, BYTES]);
    // Memory of a pool may be given back the ordinary way too.
    ok(session.cuMemFree_v2(two));
    ok(session.cuCtxSynchronize());
    assert_eq!(figures(), [0, 0]);
    let most = || [RESERVED_MOST, USED_MOST].map(|attribute| figure(&session, pool, attribute));
    assert_eq!(most(), [2 * BYTES, 2 * BYTES]);
    ok(set(&session, pool, USED_MOST, 0));
    assert_eq!(most(), [2 * BYTES, 0]);
    invalid(set(&session, pool, USED_MOST, 5));
    invalid(set(&session, pool, USED, 0));
    invalid(set(&session, pool, 99, 0));
    ok(set(&session, pool, RELEASE_THRESHOLD, u64::MAX));
    ok(session.cuMemAllocAsync(&mut one, 1 << 20, 0));
    ok(session.cuMemFreeAsync(one, 0));
    ok(session.cuCtxSynchronize());
    assert_eq!(figures(), [BYTES, 0], "kept");
    ok(session.cuMemPoolTrimTo(pool, 0));
    assert_eq!(figures(), [0, 0]);
    // Memory of cuMemAlloc may be given back in the order of a stream.
    let plain = session.alloc(1 << 20);
    ok(session.cuMemFreeAsync(plain, 0));
    invalid(session.cuMemFreeAsync(plain, 0));
}

fn destroyed_pools_give_their_memory_back() {
    let session = Session::start();
    let before = session.free_bytes();
    let slow = session.function(c"slow");
    invalid(session.cuMemPoolDestroy(default_pool(&session)));
    for _ in 0..40 {
        let pool = create(&session);
        ok(set(&session, pool, RELEASE_THRESHOLD, u64::MAX));
        let (mut kept, mut held) = (0, 0);
        ok(session.cuMemAllocFromPoolAsync(&mut kept, 8 << 20, pool, 0));
        ok(session.cuMemAllocFromPoolAsync(&mut held, 8 << 20, pool, 0));
        ok(session.launch(slow, (1, 32), 0, &[kept, 10_000, 1]));
        ok(session.cuMemFreeAsync(kept, 0));
        // One block is free behind a kernel that runs, the other is the program's still.
        ok(session.cuMemPoolDestroy(pool));
        invalid(session.cuMemPoolDestroy(pool));
        let mut none = 0;
        invalid(session.cuMemAllocFromPoolAsync(&mut none, 64, pool, 0));
        ok(session.cuMemsetD32Async(held, 5, 16, 0));
        assert_eq!(session.read(held, 2), [5, 5]);
        ok(session.cuMemFreeAsync(held, 0));
        ok(session.cuCtxSynchronize());
    }
    ok(session.cuCtxSynchronize());
    session.await_free(before);
    let mut pool = 0;
    let wrong = PoolProperties {
        alloc_type: 9,
        ..PROPERTIES
    };
    invalid(session.cuMemPoolCreate(&mut pool, &wrong));
}

fn pools_of_managed_and_of_host_memory() {
    const TYPE_OF_MEMORY: u32 = 2;
    const POOL: u32 = 17;
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let next = session.function(c"next");
    // Pinned on the host, on a node of it, managed with no place and on the device.
    for (alloc_type, location_type, memory_type) in [(1, 2, 1), (1, 3, 1), (2, 0, 2), (2, 1, 2)] {
        let mut pool = 0;
        let properties = PoolProperties {
            alloc_type,
            location_type,
            ..PROPERTIES
        };
        ok(session.cuMemPoolCreate(&mut pool, &properties));
        let mut address = 0;
        ok(session.cuMemAllocFromPoolAsync(&mut address, 64, pool, stream));
        assert_eq!(figure(&session, pool, USED), 64);
        // The program and kernels reach it.
        let words: *mut u32 =
            std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap());
        // SAFETY: the memory has that many words, and no kernel uses it.
        unsafe { words.write(41) };
        ok(session.launch(next, (1, 1), stream, &[address, address]));
        ok(session.cuStreamSynchronize(stream));
        // SAFETY: as before.
        assert_eq!(unsafe { words.read() }, 42);
        let mut told = 0_u64;
        let told_at = from_mut(&mut told).cast();
        ok(session.cuPointerGetAttribute(told_at, POOL, address));
        assert_eq!(told, pool);
        told = 0;
        ok(session.cuPointerGetAttribute(told_at, TYPE_OF_MEMORY, address));
        assert_eq!(told, memory_type);
        // No other function gives it back, and no graph has a node for it.
        invalid(session.cuMemFreeHost(words.cast()));
        ok(session.cuMemFreeAsync(address, stream));
        invalid(session.cuMemFreeAsync(address, stream));
        assert_eq!(figure(&session, pool, USED), 0);
        ok(session.cuStreamBeginCapture_v2(stream, 0));
        refused(
            session.cuMemAllocFromPoolAsync(&mut address, 64, pool, stream),
            code::CAPTURE_UNSUPPORTED,
        );
        let mut graph = 0;
        refused(
            session.cuStreamEndCapture(stream, &mut graph),
            code::CAPTURE_INVALIDATED,
        );
        ok(session.cuMemPoolDestroy(pool));
    }
    pools_of_places(&session);
    for (alloc_type, location_type, handle_types) in [(2, 0, 1), (1, 2, 1), (1, 0, 0), (1, 9, 0)] {
        let mut pool = 0;
        let wrong = PoolProperties {
            alloc_type,
            location_type,
            handle_types,
            ..PROPERTIES
        };
        invalid(session.cuMemPoolCreate(&mut pool, &wrong));
    }
}

/// Each place has a default pool, which stays, and another while the program names one.
fn pools_of_places(session: &Session) {
    let mut device = 0;
    ok(session.cuMemGetDefaultMemPool(&mut device, &[1, 0], 1));
    assert_eq!(device, default_pool(session));
    for (kind, place) in [(1, [2, 0]), (2, [0, 0]), (2, [1, 0])] {
        let (mut default, mut now, mut own) = (0, 0, 0);
        ok(session.cuMemGetDefaultMemPool(&mut default, &place, kind));
        ok(session.cuMemGetMemPool(&mut now, &place, kind));
        assert_eq!(now, default);
        invalid(session.cuMemPoolDestroy(default));
        let properties = PoolProperties {
            alloc_type: kind,
            location_type: place[0],
            ..PROPERTIES
        };
        ok(session.cuMemPoolCreate(&mut own, &properties));
        ok(session.cuMemSetMemPool(&place, kind, own));
        ok(session.cuMemGetMemPool(&mut now, &place, kind));
        assert_eq!(now, own);
        // A pool of another place is none of this one's.
        invalid(session.cuMemSetMemPool(&place, kind, device));
        ok(session.cuMemPoolDestroy(own));
        ok(session.cuMemGetMemPool(&mut now, &place, kind));
        assert_eq!(now, default);
    }
    let mut none = 0;
    invalid(session.cuMemGetDefaultMemPool(&mut none, &[0, 0], 1));
    refused(
        session.cuMemGetDefaultMemPool(&mut none, &[1, 1], 2),
        code::INVALID_DEVICE,
    );
}
