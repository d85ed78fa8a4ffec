//! Managed memory: the program and kernels reach it at the same addresses.

use crate::kernels::MANAGED;
use crate::session::{NON_BLOCKING, PER_THREAD, Session, code, invalid, ok, refused, text};
use std::ptr::{from_mut, null_mut};
use std::time::{Duration, Instant};

scenarios! {
    managed: program_and_kernels_share_it copies_and_fills advice_is_told_again in_batches bad_arguments
        over_the_limit what_is_told_of_it many_small_ones variables;
}

const GLOBAL: u32 = 1;
const HOST: u32 = 2;
const SINGLE: u32 = 4;

/// A place for memory (`CUmemLocation`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: u32,
    pub(crate) id: i32,
}

fn managed(session: &Session, words: usize) -> u64 {
    let mut address = 0;
    ok(session.cuMemAllocManaged(&mut address, words * 4, GLOBAL));
    address
}

fn word(address: u64, index: usize) -> *mut u32 {
    let address = usize::try_from(address).expect("an address");
    std::ptr::with_exposed_provenance_mut::<u32>(address).wrapping_add(index)
}

fn read(address: u64, index: usize) -> u32 {
    // SAFETY: scenarios pass managed memory and an index inside it; kernels may write to it meanwhile.
    unsafe { word(address, index).read_volatile() }
}

fn write(address: u64, index: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { word(address, index).write_volatile(value) };
}

fn program_and_kernels_share_it() {
    const WORDS: usize = 3000;
    let session = Session::start();
    for attribute in [83, 89] {
        assert_eq!(
            session.attribute(attribute),
            1,
            "MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS"
        );
    }
    let memory = managed(&session, WORDS);
    for index in 0..WORDS {
        assert_eq!(read(memory, index), 0, "fresh memory");
        write(memory, index, u32::try_from(index).expect("few"));
    }
    let add = session.function(c"add");
    for round in 1..=3 {
        ok(session.launch(add, (24, 128), 0, &[memory, WORDS as u64]));
        ok(session.cuCtxSynchronize());
        for index in 0..WORDS {
            assert_eq!(read(memory, index) as usize, index + 5 * round);
        }
    }
    // At the same time, too.
    write(memory, 0, 0);
    let watch = session.function(c"watch");
    let stream = session.stream(NON_BLOCKING);
    ok(session.launch(
        watch,
        (1, 1),
        stream,
        &[memory, memory + 4, u32::MAX.into()],
    ));
    std::thread::sleep(Duration::from_millis(20));
    write(memory, 0, 99);
    let start = Instant::now();
    while read(memory, 1) != 99 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the kernel's word never came"
        );
        std::thread::yield_now();
    }
    ok(session.cuStreamSynchronize(stream));
    ok(session.launch(
        session.function(c"poke"),
        (1, 1),
        0,
        &[memory + WORDS as u64 * 4],
    ));
    refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
}

fn copies_and_fills() {
    let session = Session::start();
    let (one, two) = (managed(&session, 1024), managed(&session, 1024));
    let device = session.words(&[1, 2, 3, 4]);
    ok(session.cuMemsetD32_v2(one, 7, 1024));
    assert_eq!(
        (read(one, 0), read(one, 1023)),
        (7, 7),
        "the fill has ended"
    );
    ok(session.cuMemcpyDtoD_v2(one, device, 16));
    assert_eq!((read(one, 3), read(one, 4)), (4, 7), "the copy has ended");
    ok(session.cuMemcpy(two, one, 4096));
    assert_eq!((read(two, 3), read(two, 1023)), (4, 7));
    let mut own = [0_u32; 4];
    ok(session.cuMemcpyDtoH_v2(own.as_mut_ptr().cast(), two, 16));
    assert_eq!(own, [1, 2, 3, 4]);
    ok(session.cuMemcpyHtoD_v2(two + 4096 - 16, own.as_ptr().cast(), 16));
    assert_eq!(read(two, 1023), 4);
    let pinned = session.pinned(16);
    ok(session.cuMemcpyDtoHAsync_v2(pinned.cast(), two, 16, 0));
    ok(session.cuMemcpyHtoDAsync_v2(one + 16, pinned.cast(), 16, 0));
    ok(session.cuStreamSynchronize(0));
    assert_eq!(read(one, 7), 4);
    // Large ones go in pieces.
    let (large, back) = (managed(&session, 1 << 20), managed(&session, 1 << 20));
    let values: Vec<u32> = (0..1 << 20).collect();
    ok(session.cuMemcpyHtoD_v2(large, values.as_ptr().cast(), 4 << 20));
    ok(session.cuMemcpyDtoD_v2(back, large, 4 << 20));
    assert_eq!(session.read(back, 1 << 20), values);
    invalid(session.cuMemcpyHtoD_v2(one + 4, own.as_ptr().cast(), 4096));
    invalid(session.cuMemsetD32_v2(one + 4, 7, 1024));
}

fn get<const N: usize>(session: &Session, attribute: u32, address: u64, bytes: usize) -> [i32; N] {
    let mut values = [77; N];
    let place = values.as_mut_ptr().cast();
    ok(session.cuMemRangeGetAttribute(place, N * 4, attribute, address, bytes));
    values
}

fn advice_is_told_again() {
    let session = Session::start();
    let memory = managed(&session, 4096);
    let all = 16_384;
    assert_eq!(get::<1>(&session, 1, memory, all), [0], "not mostly read");
    assert_eq!(
        get::<1>(&session, 2, memory, all),
        [-2],
        "nowhere preferred"
    );
    assert_eq!(
        get::<3>(&session, 3, memory, all),
        [-2; 3],
        "accessed by nobody"
    );
    assert_eq!(
        get::<1>(&session, 4, memory, all),
        [-2],
        "prefetched nowhere"
    );
    ok(session.cuMemAdvise(memory, 4096, 1, 0));
    assert_eq!(get::<1>(&session, 1, memory, 4096), [1]);
    assert_eq!(get::<1>(&session, 1, memory, 4097), [0], "not all of it");
    ok(session.cuMemAdvise(memory, 4096, 2, 0));
    assert_eq!(get::<1>(&session, 1, memory, 4096), [0]);
    ok(session.cuMemAdvise(memory, all, 3, -1));
    assert_eq!(get::<1>(&session, 2, memory, all), [-1], "the host");
    let device = Location { kind: 1, id: 0 };
    ok(session.cuMemAdvise_v2(memory, all, 3, device));
    assert_eq!(get::<1>(&session, 2, memory, all), [0]);
    assert_eq!(get::<1>(&session, 5, memory, all), [1], "a device");
    assert_eq!(get::<1>(&session, 6, memory, all), [0]);
    ok(session.cuMemAdvise(memory, all, 4, 0));
    assert_eq!(get::<1>(&session, 2, memory, all), [-2]);
    ok(session.cuMemAdvise(memory, all, 5, 0));
    ok(session.cuMemAdvise(memory, all, 5, -1));
    let mut by = get::<3>(&session, 3, memory, all);
    by.sort_unstable();
    assert_eq!(by, [-2, -1, 0]);
    ok(session.cuMemAdvise(memory, all, 6, -1));
    assert_eq!(get::<2>(&session, 3, memory, all), [0, -2]);
    ok(session.cuMemPrefetchAsync(memory, all, 0, 0));
    assert_eq!(get::<1>(&session, 4, memory, all), [0]);
    let host = Location { kind: 2, id: 0 };
    ok(session.cuMemPrefetchAsync_v2(memory, all, host, 0, PER_THREAD));
    assert_eq!(get::<1>(&session, 4, memory, all), [-1]);
    assert_eq!(get::<1>(&session, 7, memory, all), [2], "the host");
    ok(session.cuStreamSynchronize(0));
    // Several at once.
    let (mut one, mut two) = (77, [77; 2]);
    let mut places = [from_mut(&mut one).cast(), from_mut(&mut two).cast()];
    let (mut sizes, mut attributes) = ([4, 8], [4, 3]);
    ok(session.cuMemRangeGetAttributes(
        places.as_mut_ptr(),
        sizes.as_mut_ptr(),
        attributes.as_mut_ptr(),
        2,
        memory,
        all,
    ));
    assert_eq!((one, two), (-1, [0, -2]));
}

fn in_batches() {
    let session = Session::start();
    let ranges = [1024, 2048, 1024].map(|words| managed(&session, words));
    let bytes = [4096, 8192, 2048];
    let stream = session.stream(NON_BLOCKING);
    let (device, host) = (Location { kind: 1, id: 0 }, Location { kind: 2, id: 0 });
    let prefetch = |bytes: &[usize; 3], places: &[Location], firsts: &[usize], flags, stream| {
        session.cuMemPrefetchBatchAsync(
            ranges.as_ptr(),
            bytes.as_ptr(),
            3,
            places.as_ptr(),
            firsts.as_ptr(),
            places.len(),
            flags,
            stream,
        )
    };
    let last = |index: usize| get::<1>(&session, 4, ranges[index], bytes[index])[0];
    ok(prefetch(&bytes, &[device, host], &[0, 1], 0, stream));
    assert_eq!([last(0), last(1), last(2)], [0, -1, -1]);
    assert_eq!(
        get::<1>(&session, 4, ranges[2], 4096),
        [-2],
        "not all of it"
    );
    // What was written after a discard stays.
    ok(session.cuMemDiscardBatchAsync(ranges.as_ptr(), bytes.as_ptr(), 3, 0, stream));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!([last(0), last(1), last(2)], [0, -1, -1]);
    // SAFETY: it has that many words, and nothing else accesses them.
    unsafe { word(ranges[0], 3).write_volatile(7) };
    ok(session.cuMemDiscardAndPrefetchBatchAsync(
        ranges[1..].as_ptr(),
        bytes[1..].as_ptr(),
        2,
        &device,
        &0,
        1,
        0,
        stream,
    ));
    assert_eq!([last(0), last(1), last(2)], [0, 0, 0]);
    assert_eq!(read(ranges[0], 3), 7);
    // Nothing is noted where something is wrong.
    let nowhere = Location { kind: 0, id: 0 };
    for (bytes, places, firsts, flags) in [
        ([4096, 8193, 2048], [host, host], [0, 1], 0),
        ([4096, 0, 2048], [host, host], [0, 1], 0),
        (bytes, [host, host], [1, 2], 0),
        (bytes, [host, host], [0, 0], 0),
        (bytes, [host, host], [0, 3], 0),
        (bytes, [host, nowhere], [0, 1], 0),
        (bytes, [host, host], [0, 1], 1),
    ] {
        invalid(prefetch(&bytes, &places, &firsts, flags, stream));
    }
    invalid(prefetch(&bytes, &[host], &[0], 0, 0));
    invalid(prefetch(&bytes, &[], &[0], 0, stream));
    let other = Location { kind: 1, id: 1 };
    refused(
        prefetch(&bytes, &[other], &[0], 0, stream),
        code::INVALID_DEVICE,
    );
    invalid(session.cuMemDiscardBatchAsync(ranges.as_ptr(), bytes.as_ptr(), 0, 0, stream));
    for count in [usize::MAX, 1 << 32] {
        invalid(session.cuMemDiscardBatchAsync(ranges.as_ptr(), bytes.as_ptr(), count, 0, stream));
    }
    invalid(session.cuMemDiscardBatchAsync(&session.alloc(64), &64, 1, 0, stream));
    assert_eq!([last(0), last(1), last(2)], [0, 0, 0]);
    ok(session.cuStreamBeginCapture_v2(stream, 0));
    refused(
        prefetch(&bytes, &[host], &[0], 0, stream),
        code::CAPTURE_UNSUPPORTED,
    );
}

fn bad_arguments() {
    let session = Session::start();
    let mut address = 5;
    for flags in [0, SINGLE, GLOBAL | HOST, 8] {
        invalid(session.cuMemAllocManaged(&mut address, 64, flags));
    }
    invalid(session.cuMemAllocManaged(&mut address, 0, GLOBAL));
    invalid(session.cuMemAllocManaged(null_mut(), 64, GLOBAL));
    refused(
        session.cuMemAllocManaged(&mut address, usize::MAX, GLOBAL),
        code::OUT_OF_MEMORY,
    );
    assert_eq!(address, 5);
    let memory = managed(&session, 1024);
    let device = session.alloc(4096);
    let pinned = session.pinned(4096).addr() as u64;
    for other in [device, pinned, 0, 0x1234, u64::MAX] {
        invalid(session.cuMemPrefetchAsync(other, 4096, 0, 0));
        invalid(session.cuMemAdvise(other, 4096, 1, 0));
        invalid(session.cuStreamAttachMemAsync(0, other, 0, GLOBAL));
        let mut value = 0_i32;
        let place = from_mut(&mut value).cast();
        invalid(session.cuMemRangeGetAttribute(place, 4, 1, other, 4096));
    }
    for bytes in [0, 4097, usize::MAX] {
        invalid(session.cuMemPrefetchAsync(memory, bytes, 0, 0));
        invalid(session.cuMemAdvise(memory, bytes, 1, 0));
    }
    for device in [1, -2, i32::MAX] {
        refused(
            session.cuMemPrefetchAsync(memory, 4096, device, 0),
            code::INVALID_DEVICE,
        );
        refused(
            session.cuMemAdvise(memory, 4096, 3, device),
            code::INVALID_DEVICE,
        );
    }
    for advice in [0, 7, u32::MAX] {
        invalid(session.cuMemAdvise(memory, 4096, advice, 0));
    }
    refused(
        session.cuMemPrefetchAsync(memory, 4096, 0, 0x1234_5678),
        code::INVALID_HANDLE,
    );
    let nowhere = Location { kind: 0, id: 0 };
    invalid(session.cuMemPrefetchAsync_v2(memory, 4096, nowhere, 0, 0));
    let here = Location { kind: 1, id: 0 };
    invalid(session.cuMemPrefetchAsync_v2(memory, 4096, here, 1, 0));
    let mut values = [0_i32; 2];
    let place = values.as_mut_ptr().cast();
    for (bytes, attribute) in [(8, 1), (0, 1), (2, 2), (0, 3), (6, 3), (4, 0), (4, 9)] {
        invalid(session.cuMemRangeGetAttribute(place, bytes, attribute, memory, 4096));
    }
    // Attachments.
    let stream = session.stream(0);
    for (stream, flags) in [(0, GLOBAL), (0, HOST), (stream, SINGLE), (stream, GLOBAL)] {
        ok(session.cuStreamAttachMemAsync(stream, memory, 0, flags));
        ok(session.cuStreamAttachMemAsync(stream, memory, 4096, flags));
    }
    invalid(session.cuStreamAttachMemAsync(0, memory, 0, SINGLE));
    invalid(session.cuStreamAttachMemAsync(stream, memory, 0, 3));
    invalid(session.cuStreamAttachMemAsync(stream, memory, 64, GLOBAL));
    invalid(session.cuMemFree_v2(memory + 4));
    invalid(session.cuMemFreeHost(word(memory, 0).cast()));
    ok(session.cuMemFree_v2(memory));
    invalid(session.cuMemFree_v2(memory));
    invalid(session.cuMemAdvise(memory, 4096, 1, 0));
}

/// The tenant may have 64 MiB.
fn over_the_limit() {
    let session = Session::start();
    let before = session.free_bytes();
    let mut address = 5;
    for bytes in [65 << 20, usize::MAX / 2] {
        refused(
            session.cuMemAllocManaged(&mut address, bytes, GLOBAL),
            code::OUT_OF_MEMORY,
        );
    }
    let mut held = Vec::new();
    while session.cuMemAllocManaged(&mut address, 8 << 20, GLOBAL) == 0 {
        held.push(address);
    }
    assert!((6..=8).contains(&held.len()), "{}", held.len());
    for address in held {
        write(address, 100, 1);
        ok(session.cuMemFree_v2(address));
    }
    session.await_free(before);
    let memory = managed(&session, 10 << 20);
    assert!(before - session.free_bytes() >= 40 << 20);
    ok(session.launch(session.function(c"slow"), (1, 32), 0, &[memory, 20_000, 9]));
    ok(session.cuMemFree_v2(memory));
    session.await_free(before);
}

fn what_is_told_of_it() {
    let session = Session::start();
    let memory = managed(&session, 1024);
    let get = |attribute| {
        let mut value = 0_u64;
        ok(session.cuPointerGetAttribute(from_mut(&mut value).cast(), attribute, memory + 8));
        value
    };
    assert_eq!(get(2), 2, "MEMORY_TYPE");
    assert_eq!(
        (get(3), get(4)),
        (memory + 8, memory + 8),
        "DEVICE_POINTER, HOST_POINTER"
    );
    assert_eq!(get(8) & 1, 1, "IS_MANAGED");
    assert_eq!(
        (get(11), get(12)),
        (memory, 4096),
        "RANGE_START_ADDR, RANGE_SIZE"
    );
    let (mut base, mut bytes) = (0, 0);
    ok(session.cuMemGetAddressRange_v2(&mut base, &mut bytes, memory + 4095));
    assert_eq!((base, bytes), (memory, 4096));
}

fn many_small_ones() {
    let session = Session::start();
    let add = session.function(c"add");
    let all: Vec<u64> = (0..600).map(|_| managed(&session, 4)).collect();
    for (index, memory) in all.iter().enumerate() {
        write(*memory, 3, u32::try_from(index).expect("few"));
        ok(session.launch(add, (1, 4), 0, &[*memory, 4]));
    }
    ok(session.cuCtxSynchronize());
    for (index, memory) in all.iter().enumerate() {
        assert_eq!(read(*memory, 3) as usize, index + 5);
        ok(session.cuMemFree_v2(*memory));
    }
}

fn variables() {
    let session = Session::start();
    let before = session.free_bytes();
    for _ in 0..20 {
        let (mut module, mut count, mut bytes) = (0, 0, 0);
        ok(session.cuModuleLoadData(&mut module, text(MANAGED).as_ptr().cast()));
        ok(session.cuModuleGetGlobal_v2(&mut count, &mut bytes, module, c"count".as_ptr()));
        assert_eq!((bytes, read(count, 0)), (4, 5), "as the module says");
        // It is managed memory like any other, and another variable is not.
        let get = |attribute, of| {
            let mut value = 0_u64;
            ok(session.cuPointerGetAttribute(from_mut(&mut value).cast(), attribute, of));
            value
        };
        assert_eq!(
            (get(8, count) & 1, get(3, count), get(4, count)),
            (1, count, count)
        );
        ok(session.cuMemAdvise(count, 4, 1, 0));
        assert_eq!(self::get::<1>(&session, 1, count, 4), [1]);
        ok(session.cuMemPrefetchAsync(count, 4, 0, 0));
        ok(session.cuStreamAttachMemAsync(0, count, 0, GLOBAL));
        let mut at = 0;
        ok(session.cuMemHostGetDevicePointer_v2(&mut at, word(count, 0).cast(), 0));
        assert_eq!(at, count);
        invalid(session.cuMemFree_v2(count));
        let mut plain = 0;
        ok(session.cuModuleGetGlobal_v2(&mut plain, &mut bytes, module, c"plain".as_ptr()));
        assert_eq!(get(8, plain) & 1, 0);
        invalid(session.cuMemAdvise(plain, 4, 1, 0));
        let up = session.function_of(module, c"up");
        write(count, 0, 40);
        ok(session.launch(up, (1, 1), 0, &[]));
        ok(session.cuCtxSynchronize());
        assert_eq!(read(count, 0), 41);
        ok(session.cuMemsetD32_v2(count, 77, 1));
        assert_eq!(read(count, 0), 77);
        assert_eq!(session.read(count, 1), [77]);
        ok(session.cuModuleUnload(module));
        invalid(session.cuMemsetD32_v2(count, 77, 1));
    }
    session.await_free(before);
    // Of libraries the managed ones are told apart.
    let (mut library, mut address, mut bytes) = (0, 0, 0);
    let none = std::ptr::null_mut();
    let image = text(MANAGED);
    let loaded = session.cuLibraryLoadData(
        &mut library,
        image.as_ptr().cast(),
        null_mut(),
        none,
        0,
        null_mut(),
        none,
        0,
    );
    ok(loaded);
    ok(session.cuLibraryGetManaged(&mut address, &mut bytes, library, c"count".as_ptr()));
    assert_eq!((bytes, read(address, 0)), (4, 5));
    for other in [c"plain", c"nothing"] {
        let refusal =
            session.cuLibraryGetManaged(&mut address, &mut bytes, library, other.as_ptr());
        refused(refusal, code::NOT_FOUND);
    }
    ok(session.cuLibraryUnload(library));
}
