//! Copies and fills: every kind, at every edge.

use crate::api::CopyAttributes;
use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use std::ptr::null_mut;

scenarios! {
    copies: every_kind edges lengths_beyond_the_last_address memory_that_cannot_be_written fills
        large_ones_from_everywhere batches;
}

fn every_kind() {
    let session = Session::start();
    let own: Vec<u32> = (100..164).collect();
    let bytes = size_of_val(own.as_slice());
    let (device, second) = (session.alloc(bytes), session.alloc(bytes));
    let pinned = session.pinned(bytes);
    let mut back = vec![0u32; 64];
    let (own_at, back_at) = (own.as_ptr().addr() as u64, back.as_mut_ptr().addr() as u64);
    let pinned_at = pinned.addr() as u64;
    // Addresses say what they are: from the program's memory through all others and back.
    for stream in [
        None,
        Some(0),
        Some(session.stream(0)),
        Some(session.stream(NON_BLOCKING)),
    ] {
        let copy = |to, from| match stream {
            None => ok(session.cuMemcpy(to, from, bytes)),
            Some(stream) => ok(session.cuMemcpyAsync(to, from, bytes, stream)),
        };
        back.fill(0);
        ok(session.cuMemsetD8_v2(device, 0, bytes));
        ok(session.cuMemsetD8_v2(second, 0, bytes));
        ok(session.cuCtxSynchronize());
        copy(pinned_at, own_at);
        copy(device, pinned_at);
        copy(second, device);
        copy(pinned_at, second);
        copy(device, own_at);
        copy(back_at, device);
        if let Some(stream) = stream {
            ok(session.cuStreamSynchronize(stream));
        }
        assert_eq!(back, own);
        // SAFETY: it has that many bytes, and the copies have ended.
        assert_eq!(unsafe { std::slice::from_raw_parts(pinned, 64) }, own);
    }
    ok(session.cuMemcpyDtoD_v2(second + 4, device, bytes - 4));
    ok(session.cuMemcpyDtoDAsync_v2(second, device + 128, 4, 0));
    let shifted = session.read(second, 64);
    assert_eq!((shifted[0], &shifted[1..]), (own[32], &own[..63]));
    // An asynchronous copy out of the program's own memory has read it when it returns.
    let mut own = vec![1u32; 64];
    ok(session.cuMemcpyHtoDAsync_v2(device, own.as_ptr().cast(), bytes, 0));
    own.fill(2);
    assert_eq!(session.read(device, 64), [1; 64]);
}

fn edges() {
    let session = Session::start();
    let device = session.words(&[7; 64]);
    let mut host = [0u32; 65];
    let at: *mut std::ffi::c_void = host.as_mut_ptr().cast();
    // Nothing is copied, from and to anywhere.
    ok(session.cuMemcpyHtoD_v2(device, at, 0));
    ok(session.cuMemcpyDtoH_v2(at, device, 0));
    ok(session.cuMemcpyDtoDAsync_v2(device, device, 0, 0));
    ok(session.cuMemsetD32_v2(device, 1, 0));
    for (start, bytes) in [
        (0, 257),
        (255, 2),
        (256, 1),
        (4, 256),
        (0, usize::MAX),
        (4, usize::MAX),
    ] {
        invalid(session.cuMemcpyHtoD_v2(device + start, at, bytes));
        invalid(session.cuMemcpyDtoH_v2(at, device + start, bytes));
        invalid(session.cuMemcpyDtoD_v2(device + start, device, bytes));
        invalid(session.cuMemsetD8_v2(device + start, 0, bytes));
    }
    invalid(session.cuMemcpyHtoD_v2(device, null_mut(), 4));
    invalid(session.cuMemcpyDtoH_v2(null_mut(), device, 4));
    invalid(session.cuMemcpyHtoD_v2(0, at, 4));
    let given_back = session.alloc(256);
    ok(session.cuMemFree_v2(given_back));
    invalid(session.cuMemcpy(device, given_back, 4));
    invalid(session.cuMemcpy(given_back, device, 4));
    invalid(session.cuMemcpyHtoD_v2(at.addr() as u64, at, 4));
    invalid(session.cuMemcpyDtoD_v2(device, at.addr() as u64, 4));
    invalid(session.cuMemcpyDtoHAsync_v2(at, u64::MAX - 3, 4, 0));
    assert_eq!((host, session.read(device, 64)), ([0; 65], vec![7; 64]));
    // Ranges that overlap leave what one order of bytes or another makes of them, and nothing beside them.
    let words: Vec<u32> = (0..64).collect();
    session.write(device, &words);
    ok(session.cuMemcpyDtoD_v2(device + 16, device, 64));
    let after = session.read(device, 64);
    assert_eq!((&after[..4], &after[20..]), (&words[..4], &words[20..]));
    ok(session.cuMemcpyDtoD_v2(device, device, 256));
    assert_eq!(session.read(device, 64), after);
    // Odd addresses and sizes.
    session.write(device, &[0; 64]);
    ok(session.cuMemcpyHtoD_v2(device + 3, [0xffu8; 5].as_ptr().cast(), 5));
    assert_eq!(session.read(device, 3), [0xff00_0000, 0xffff_ffff, 0]);
}

/// Lengths that go round the end of the addresses are refused, wherever the bytes stand.
fn lengths_beyond_the_last_address() {
    let session = Session::start();
    let device = session.words(&[7; 64]);
    let mut host = [0u32; 64];
    let at: *mut std::ffi::c_void = host.as_mut_ptr().cast();
    let mut words = [0u32; 64];
    let registered: *mut std::ffi::c_void = words.as_mut_ptr().cast();
    ok(session.cuMemHostRegister_v2(registered, 256, 0));
    let pinned = session.pinned(256).cast();
    for own in [at, registered, pinned].map(|own| own.expose_provenance() as u64) {
        for bytes in [usize::MAX, 1 << 63, usize::MAX - 0x1000] {
            invalid(session.cuMemcpy(own + 4, own, bytes));
            invalid(session.cuMemcpy(device, own, bytes));
            invalid(session.cuMemcpy(own, device, bytes));
        }
    }
    ok(session.cuMemHostUnregister(registered));
    assert_eq!((host, words), ([0; 64], [0; 64]));
    assert_eq!(session.read(device, 64), [7; 64]);
}

/// A copy into memory that the program may only read is refused; one out of it is not.
fn memory_that_cannot_be_written() {
    let session = Session::start();
    let device = session.words(&[7; 64]);
    let file = std::fs::File::open("/proc/self/exe").expect("this program");
    // SAFETY: nobody writes to a program that runs.
    let map = unsafe { memmap2::Mmap::map(&file) }.expect("a mapping");
    let at = map.as_ptr().expose_provenance() as u64;
    invalid(session.cuMemcpy(at, device, 256));
    let to = map.as_ptr().cast_mut().cast();
    invalid(session.cuMemcpyDtoH_v2(to, device, 256));
    ok(session.cuMemcpyHtoD_v2(device, map.as_ptr().cast(), 4));
    assert_eq!(
        session.read(device, 2),
        [u32::from_le_bytes(*b"\x7fELF"), 7]
    );
}

fn fills() {
    let session = Session::start();
    let device = session.words(&[0; 8]);
    ok(session.cuMemsetD8_v2(device + 1, 0xab, 2));
    ok(session.cuMemsetD16_v2(device + 6, 0xcdef, 3));
    ok(session.cuMemsetD32_v2(device + 16, 0x1234_5678, 2));
    let expected = [
        0x00ab_ab00,
        0xcdef_0000,
        0xcdef_cdef,
        0,
        0x1234_5678,
        0x1234_5678,
        0,
        0,
    ];
    assert_eq!(session.read(device, 8), expected);
    invalid(session.cuMemsetD16_v2(device + 1, 1, 1));
    invalid(session.cuMemsetD32_v2(device + 2, 1, 1));
    invalid(session.cuMemsetD32_v2(device, 1, 9));
    invalid(session.cuMemsetD32_v2(device, 1, usize::MAX));
    invalid(session.cuMemsetD32_v2(0, 1, 1));
    let own = [5u32];
    let at = own.as_ptr().addr() as u64;
    invalid(session.cuMemsetD32_v2(at, 1, 1));
    assert_eq!((session.read(device, 8), own), (expected.to_vec(), [5]));
}

/// Sizes around those at which copies are split.
fn large_ones_from_everywhere() {
    let session = Session::start();
    for bytes in [(4 << 20) - 4, 4 << 20, (4 << 20) + 4, (9 << 20) + 12] {
        let words = bytes / 4;
        let own: Vec<u32> = (0..u32::try_from(words).unwrap())
            .map(|i| i.wrapping_mul(0x9e37_79b9))
            .collect();
        let device = session.words(&own);
        assert!(
            session.read(device, words) == own,
            "{bytes} bytes of the program's memory"
        );
        let (pinned, back) = (session.pinned(bytes), session.pinned(bytes));
        // SAFETY: it has that many bytes, and no copy is under way.
        unsafe { pinned.copy_from_nonoverlapping(own.as_ptr(), words) };
        ok(session.cuMemsetD32_v2(device, 0, words));
        ok(session.cuMemcpyHtoDAsync_v2(device, pinned.cast(), bytes, 0));
        ok(session.cuMemcpyDtoHAsync_v2(back.cast(), device, bytes, 0));
        ok(session.cuStreamSynchronize(0));
        // SAFETY: as above.
        let copied = unsafe { std::slice::from_raw_parts(back, words) };
        assert!(copied == own, "{bytes} bytes of pinned memory");
        // Given back while a copy is under way.
        ok(session.cuMemcpyHtoDAsync_v2(device, pinned.cast(), bytes, 0));
        ok(session.cuMemFreeHost(pinned.cast()));
        ok(session.cuMemFreeHost(back.cast()));
        assert!(session.read(device, words) == own);
        ok(session.cuMemFree_v2(device));
    }
}

/// Copies with attributes, many by one call.
// Length: calls of many arguments, one a line.
fn batches() {
    let session = Session::start();
    let stream = session.stream(NON_BLOCKING);
    let own: Vec<u32> = (1..17).collect();
    let mut back = vec![0u32; 16];
    let [first, second] = [(); 2].map(|()| session.words(&[0; 16]));
    let [own_at, back_at] = [own.as_ptr(), back.as_mut_ptr().cast_const()];
    let [own_at, back_at] = [own_at, back_at].map(|at| at.addr() as u64);
    let of = |order| CopyAttributes {
        order,
        places: [0; 4],
        flags: 1,
    };
    let batch =
        |to: &[u64], from: &[u64], bytes: &[usize], kinds: &[CopyAttributes], firsts: &[usize]| {
            session.cuMemcpyBatchAsync_v2(
                to.as_ptr(),
                from.as_ptr(),
                bytes.as_ptr(),
                to.len(),
                kinds.as_ptr(),
                firsts.as_ptr(),
                firsts.len(),
                stream,
            )
        };
    let kinds = [1, 2, 3].map(of);
    ok(batch(
        &[first, second],
        &[own_at, own_at + 32],
        &[64, 32],
        &kinds,
        &[0, 1],
    ));
    ok(batch(
        &[back_at, back_at + 32],
        &[first, second],
        &[32, 32],
        &kinds[2..],
        &[0],
    ));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(back, own);
    // A source that is pinned has been read when the call returns, if the program says that it goes.
    let pinned = session.pinned(64);
    // SAFETY: it has that many words, and nothing copies them.
    let words = unsafe { std::slice::from_raw_parts_mut(pinned, 16) };
    words.fill(7);
    let pinned_at = pinned.addr() as u64;
    ok(session.cuMemcpyWithAttributesAsync(first, pinned_at, 64, &kinds[1], stream));
    words.fill(8);
    assert_eq!(session.read(first, 16), [7; 16]);
    // Nothing is copied where something is wrong.
    let all = [first, second, first];
    let from = [own_at; 3];
    for (bytes, kinds, firsts) in [
        ([64, 64, 0], &kinds[..1], &[0][..]),
        ([64, 1 << 24, 64], &kinds[..1], &[0]),
        ([64; 3], &[of(0)][..], &[0]),
        ([64; 3], &[of(4)][..], &[0]),
        ([64; 3], &kinds[..1], &[1]),
        ([64; 3], &kinds[..2], &[0, 0]),
        ([64; 3], &kinds[..2], &[0, 3]),
        ([64; 3], &kinds[..], &[0, 2, 1]),
        ([64; 3], &kinds[..], &[]),
    ] {
        invalid(batch(&all, &from, &bytes, kinds, firsts));
    }
    assert_eq!(session.read(first, 16), [7; 16]);
    let mut failed = 0;
    let bad = |failed: &mut usize, bytes: [usize; 3], stream| {
        let (to, from) = (all.as_ptr(), from.as_ptr());
        session.cuMemcpyBatchAsync(
            to,
            from,
            bytes.as_ptr(),
            3,
            &kinds[0],
            &0,
            1,
            failed,
            stream,
        )
    };
    invalid(bad(&mut failed, [64, 1 << 24, 64], stream));
    assert_eq!(failed, 1);
    // The legacy default stream cannot be meant, and no graph has such a node.
    invalid(bad(&mut failed, [64; 3], 0));
    assert_eq!(failed, usize::MAX);
    ok(session.cuStreamBeginCapture_v2(stream, 0));
    refused(bad(&mut failed, [64; 3], stream), code::CAPTURE_UNSUPPORTED);
}
