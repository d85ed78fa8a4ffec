//! Memory: allocation and release, limits, what is told of addresses, pinned and registered memory.

use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::{from_mut, null_mut};

scenarios! {
    memory: allocated_and_released over_the_limit pitched pinned_and_registered too_many_pinned
        what_is_told_of_addresses what_is_given_back_is_found_by_its_address registered_and_unmapped
        nothing_is_shared_between_processes;
}

fn allocated_and_released() {
    let session = Session::start();
    let before = session.free_bytes();
    let address = session.alloc(1 << 20);
    assert_eq!(address % 256, 0);
    large_allocations_begin_at_pages(&session);
    assert!(before - session.free_bytes() >= 1 << 20);
    let mut none = 5;
    invalid(session.cuMemAlloc_v2(&mut none, 0));
    assert_eq!(none, 5);
    for inside in [1, 4, (1 << 20) - 1] {
        invalid(session.cuMemFree_v2(address + inside));
    }
    invalid(session.cuMemFree_v2(0xdead_0000));
    ok(session.cuMemFree_v2(address));
    invalid(session.cuMemFree_v2(address));
    ok(session.cuMemFree_v2(0));
    for _ in 0..200 {
        let address = session.alloc(1 << 20);
        ok(session.cuMemFree_v2(address));
        assert_eq!(session.free_bytes(), before, "it is free at once");
    }
    // Memory that is given back while a kernel uses it stays until the kernel has ended.
    let slow = session.function(c"slow");
    let watched = session.words(&[0]);
    let out = session.words(&[0]);
    ok(session.launch(slow, (1, 32), 0, &[watched, 50_000, 9]));
    ok(session.launch(session.function(c"next"), (1, 1), 0, &[out, watched]));
    ok(session.cuMemFree_v2(watched));
    assert_eq!(session.read(out, 1), [10]);
}

/// Programs that carve buffers of a page and more out of a large allocation count on that.
fn large_allocations_begin_at_pages(session: &Session) {
    let held: Vec<u64> = [8, 5 << 20, 24, 1 << 20, 2 << 20, 600, (9 << 20) + 1]
        .into_iter()
        .map(|bytes| {
            let address = session.alloc(bytes);
            assert!(
                bytes < 1 << 20 || address.is_multiple_of(2 << 20),
                "{bytes} at {address:#x}"
            );
            address
        })
        .collect();
    for address in held {
        ok(session.cuMemFree_v2(address));
    }
}

/// The tenant may have 64 MiB.
fn over_the_limit() {
    let session = Session::start();
    let (mut free, mut total) = (0, 0);
    ok(session.cuMemGetInfo_v2(&mut free, &mut total));
    assert!(total <= 64 << 20 && free <= total, "{free} of {total}");
    let mut address = 5;
    for bytes in [65 << 20, usize::MAX / 2, usize::MAX - 100, usize::MAX] {
        refused(
            session.cuMemAlloc_v2(&mut address, bytes),
            code::OUT_OF_MEMORY,
        );
    }
    let mut pitch = 0;
    let refusal = session.cuMemAllocPitch_v2(&mut address, &mut pitch, 1 << 40, 1 << 40, 4);
    assert!([code::OUT_OF_MEMORY, code::INVALID_VALUE].contains(&refusal));
    refused(
        session.cuMemAllocAsync(&mut address, 65 << 20, 0),
        code::OUT_OF_MEMORY,
    );
    assert_eq!(address, 5);
    // Running out harms nothing.
    let mut held = Vec::new();
    while session.cuMemAlloc_v2(&mut address, 8 << 20) == 0 {
        held.push(address);
    }
    assert!((6..=8).contains(&held.len()), "{}", held.len());
    for address in held {
        ok(session.cuMemFree_v2(address));
    }
    ok(session.cuCtxSynchronize());
    session.await_free(free);
    // What the pool keeps is given up when it is needed.
    ok(session.cuMemAllocAsync(&mut address, 40 << 20, 0));
    ok(session.cuMemFreeAsync(address, 0));
    ok(session.cuMemAllocAsync(&mut address, 50 << 20, 0));
    ok(session.cuMemFreeAsync(address, 0));
    ok(session.cuMemAlloc_v2(&mut address, 60 << 20));
}

fn pitched() {
    let session = Session::start();
    let (mut address, mut pitch) = (0, 0);
    for (width, height) in [(1, 1), (100, 7), (512, 3), (513, 2)] {
        ok(session.cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, 4));
        assert!(pitch >= width && pitch % 512 == 0 && address % 256 == 0);
        ok(session.cuMemsetD8_v2(address, 1, pitch * height));
        ok(session.cuMemFree_v2(address));
    }
    for (width, height, element) in [(0, 1, 4), (1, 0, 4), (4, 4, 3), (4, 4, 0)] {
        let refusal = session.cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, element);
        invalid(refusal);
    }
    ok(session.cuMemAllocPitch_v2(&mut address, &mut pitch, 64, 4, 4));
    ok(session.cuMemsetD8_v2(address, 0xff, pitch * 4));
    ok(session.cuMemsetD2D32_v2(address, pitch, 7, 16, 4));
    let all = session.read(address, pitch);
    for (index, value) in all.iter().enumerate() {
        let due = if index % (pitch / 4) < 16 {
            7
        } else {
            u32::MAX
        };
        assert_eq!(*value, due, "word {index}");
    }
    invalid(session.cuMemsetD2D32_v2(address, pitch, 7, 16, 5));
    invalid(session.cuMemsetD2D32_v2(address, 32, 7, 16, 2));
    invalid(session.cuMemsetD2D32_v2(address, pitch + 1, 7, 16, 2));
    invalid(session.cuMemsetD2D32_v2(address, 1 << 62, 7, 16, 1 << 40));
    ok(session.cuMemsetD2D32_v2(address, 0, 7, 16, 1));
    ok(session.cuMemsetD2D32_v2(address, pitch, 7, 0, 4));
}

/// More pinned buffers than a client may have.
fn too_many_pinned() {
    let session = Session::start();
    let mut buffers = Vec::new();
    let refusal = loop {
        let mut memory = null_mut();
        match session.cuMemHostAlloc(&mut memory, 4096, 0) {
            0 => buffers.push(memory),
            refusal => break refusal,
        }
        assert!(buffers.len() < 10_000, "there is a limit");
    };
    refused(refusal, code::OUT_OF_MEMORY);
    assert_eq!(buffers.len(), 255, "as the message says");
    ok(session.cuMemFreeHost(buffers[0]));
    // The connection is as good as before.
    session.pinned(4096);
    assert_eq!(session.read(session.words(&[7]), 1), [7]);
}

fn pinned_and_registered() {
    let session = Session::start();
    let pinned = session.pinned(1 << 16);
    let device = session.alloc(1 << 16);
    let values: Vec<u32> = (0..1 << 14).collect();
    // SAFETY: the memory was just allocated with that size, and no copy is under way.
    unsafe { pinned.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    let stream = session.stream(NON_BLOCKING);
    ok(session.cuMemcpyHtoDAsync_v2(device, pinned.cast(), 1 << 16, stream));
    let back = session.pinned(1 << 16);
    ok(session.cuMemcpyDtoHAsync_v2(back.cast(), device, 1 << 16, stream));
    ok(session.cuStreamSynchronize(stream));
    // SAFETY: as above; the copy has ended.
    assert_eq!(unsafe { std::slice::from_raw_parts(back, 1 << 14) }, values);
    // Beyond its end, and of what was given back.
    let beyond = pinned.wrapping_byte_add(4).cast();
    invalid(session.cuMemcpyHtoD_v2(device, beyond, 1 << 16));
    let mut flags = 9;
    ok(session.cuMemHostGetFlags(&mut flags, pinned.cast()));
    assert_eq!(flags, 0);
    invalid(session.cuMemFreeHost(beyond));
    ok(session.cuMemFreeHost(pinned.cast()));
    invalid(session.cuMemFreeHost(pinned.cast()));
    ok(session.cuMemFreeHost(null_mut()));
    invalid(session.cuMemHostGetFlags(&mut flags, pinned.cast()));
    let mut memory = null_mut();
    invalid(session.cuMemHostAlloc(&mut memory, 16, 1 << 20));
    refused(
        session.cuMemHostAlloc(&mut memory, usize::MAX, 0),
        code::OUT_OF_MEMORY,
    );

    let mut own = vec![3u32; 4096];
    let start: *mut c_void = own.as_mut_ptr().cast();
    ok(session.cuMemHostRegister_v2(start, 1 << 14, 0));
    refused(
        session.cuMemHostRegister_v2(start, 1 << 14, 0),
        code::ALREADY_REGISTERED,
    );
    let part = start.wrapping_byte_add(8192);
    refused(
        session.cuMemHostRegister_v2(part, 4096, 0),
        code::ALREADY_REGISTERED,
    );
    ok(session.cuMemcpyHtoDAsync_v2(device, start, 1 << 14, stream));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(session.read(device, 4096), own);
    invalid(session.cuMemFreeHost(start));
    invalid(session.cuMemHostUnregister(part));
    ok(session.cuMemHostUnregister(start));
    refused(session.cuMemHostUnregister(start), code::NOT_REGISTERED);
    invalid(session.cuMemHostRegister_v2(null_mut(), 16, 0));
    invalid(session.cuMemHostRegister_v2(start, 0, 0));
    invalid(session.cuMemHostRegister_v2(start, usize::MAX, 0));
}

/// Whatever context is current, and without one.
fn what_is_given_back_is_found_by_its_address() {
    let session = Session::start();
    let mut own = vec![0_u8; 1 << 13];
    let own: *mut c_void = own.as_mut_ptr().cast();
    let mut pooled = 0;
    ok(session.cuMemAllocAsync(&mut pooled, 256, 0));
    ok(session.cuStreamSynchronize(0));
    let (device, pinned) = (session.alloc(64), session.pinned(4096));
    ok(session.cuMemHostRegister_v2(own, 1 << 13, 0));
    let others = session.alloc(64);
    // Another context is current.
    session.new_context();
    ok(session.cuMemFree_v2(others));
    // None is.
    ok(session.cuCtxPopCurrent_v2(&mut 0));
    ok(session.cuCtxPopCurrent_v2(&mut 0));
    for address in [device, pooled] {
        ok(session.cuMemFree_v2(address));
        invalid(session.cuMemFree_v2(address));
    }
    ok(session.cuMemFree_v2(0));
    ok(session.cuMemFreeHost(pinned.cast()));
    invalid(session.cuMemFreeHost(pinned.cast()));
    ok(session.cuMemFreeHost(null_mut()));
    ok(session.cuMemHostUnregister(own));
    refused(session.cuMemHostUnregister(own), code::NOT_REGISTERED);
    // What ended with its context is not there any more.
    ok(session.cuCtxSetCurrent(session.context));
    let gone = session.alloc(64);
    ok(session.cuCtxDestroy_v2(session.context));
    invalid(session.cuMemFree_v2(gone));
}

/// A program may unmap what it registered: copies from and to there are refused, and it can still be unregistered.
fn registered_and_unmapped() {
    const BYTES: usize = 1 << 16;
    let session = Session::start();
    let device = session.alloc(BYTES);
    let mut map = memmap2::MmapMut::map_anon(BYTES).expect("memory");
    let start: *mut c_void = map.as_mut_ptr().cast();
    ok(session.cuMemHostRegister_v2(start, BYTES, 0));
    ok(session.cuMemcpyHtoD_v2(device, start, BYTES));
    let streams = [0, session.stream(NON_BLOCKING)];
    drop(map);
    for stream in streams {
        invalid(session.cuMemcpyHtoDAsync_v2(device, start, BYTES, stream));
        invalid(session.cuMemcpyDtoHAsync_v2(start, device, BYTES, stream));
    }
    invalid(session.cuMemcpyHtoD_v2(device, start, BYTES));
    invalid(session.cuMemcpyDtoH_v2(start, device, BYTES));
    ok(session.cuMemHostUnregister(start));
}

fn what_is_told_of_addresses() {
    const CONTEXT: u32 = 1;
    const MEMORY_TYPE: u32 = 2;
    const DEVICE_POINTER: u32 = 3;
    const IS_MANAGED: u32 = 8;
    const ORDINAL: u32 = 9;
    const RANGE_START: u32 = 11;
    const RANGE_BYTES: u32 = 12;
    let session = Session::start();
    let device = session.alloc(4096);
    let pinned = session.pinned(4096).addr() as u64;
    let get = |attribute, address| {
        let mut value = 0u64;
        let code = session.cuPointerGetAttribute(from_mut(&mut value).cast(), attribute, address);
        (code, value)
    };
    for (address, memory_type) in [(device, 2), (pinned, 1)] {
        assert_eq!(get(MEMORY_TYPE, address + 9), (0, memory_type));
        assert_eq!(get(CONTEXT, address), (0, session.context));
        assert_eq!(get(RANGE_START, address + 100), (0, address));
        assert_eq!(get(RANGE_BYTES, address + 100), (0, 4096));
        assert_eq!(get(ORDINAL, address), (0, 0));
        assert_eq!(get(IS_MANAGED, address).1 & 1, 0);
    }
    assert_eq!(get(DEVICE_POINTER, device + 5), (0, device + 5));
    let own = 0u8;
    for unknown in [0, 0x1234, std::ptr::from_ref(&own).addr() as u64, u64::MAX] {
        invalid(get(MEMORY_TYPE, unknown).0);
        invalid(get(RANGE_START, unknown).0);
    }
    invalid(get(0, device).0);
    invalid(get(9999, device).0);
    let (mut base, mut bytes) = (0, 0);
    ok(session.cuMemGetAddressRange_v2(&mut base, &mut bytes, device + 4095));
    assert_eq!((base, bytes), (device, 4096));
    refused(
        session.cuMemGetAddressRange_v2(&mut base, &mut bytes, 0x1234),
        code::NOT_FOUND,
    );
    ok(session.cuMemFree_v2(device));
    invalid(get(MEMORY_TYPE, device).0);
}

/// What would share memory or events with other processes says that there is no such thing.
fn nothing_is_shared_between_processes() {
    let session = Session::start();
    let memory = session.alloc(4096);
    let address = usize::try_from(memory).expect("an address");
    for symbol in [
        "cuIpcGetMemHandle",
        "cuIpcOpenMemHandle_v2",
        "cuIpcCloseMemHandle",
        "cuIpcGetEventHandle",
        "cuIpcOpenEventHandle",
        "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle",
        "cuMemPoolExportPointer",
    ] {
        refused(session.call(symbol, address), code::NOT_SUPPORTED);
    }
}
