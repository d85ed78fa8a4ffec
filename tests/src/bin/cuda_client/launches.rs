//! Launches: both ways to pass parameters, and shapes that no device takes.

use crate::api::LaunchConfig;
use crate::argument;
use crate::session::{Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut, without_provenance_mut};

scenarios! {
    launches: parameters_of_all_sizes bad_parameters bad_shapes configurations reads_past_the_end;
}

/// What `mixed` stores.
const STORED: [u32; 8] = [
    0xa1,
    0xb2b2,
    0xc3,
    0xd4d4_d4d4,
    0xe5,
    0,
    0xf6f6_f6f6,
    0x1f6f_6f6f,
];

/// On a device that is lenient, or, by the argument, strict.
fn reads_past_the_end() {
    let is_lenient = argument() == "lenient";
    let session = Session::start();
    let out = session.words(&[7]);
    let memory = session.words(&[5; 16]);
    let next = session.function(c"next");
    ok(session.launch(next, (1, 1), 0, &[out, memory + 60]));
    assert_eq!(session.read(out, 1), [6]);
    // Allocations are of 512 bytes at least.
    ok(session.launch(next, (1, 1), 0, &[out, memory + 600]));
    if !is_lenient {
        refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
        return;
    }
    assert_eq!(session.read(out, 1), [1], "zero, where nothing is");
    // What is there is the program's own.
    let behind = session.words(&[40; 128]);
    ok(session.launch(next, (1, 1), 0, &[out, behind + 508]));
    assert_eq!(session.read(out, 1), [41]);
    // Copies are held to allocations, and so are writes and reads in pages that have none.
    invalid(session.cuMemcpyDtoD_v2(out, memory + 600, 4));
    let [far, written] = [memory + (64 << 20), memory + 600];
    let refusal = |function, params: &[u64]| {
        let other = session.new_context();
        let module = session.load();
        ok(session.launch(session.function_of(module, function), (1, 1), 0, params));
        refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
        ok(session.cuCtxDestroy_v2(other));
    };
    refusal(c"poke", &[written]);
    refusal(c"next", &[out, far]);
    refusal(c"next", &[out, u64::MAX - 3]);
}

fn parameters_of_all_sizes() {
    let session = Session::start();
    let mixed = session.function(c"mixed");
    let out = session.words(&[0; 8]);
    let (mut a, mut b, mut c, mut d, mut e) = (0xa1u8, 0xb2b2u16, 0xc3u8, 0xd4d4_d4d4u32, 0xe5u8);
    let (mut f, mut place) = (0x1f6f_6f6f_f6f6_f6f6u64, out);
    let mut params: [*mut c_void; 7] = [
        from_mut(&mut a).cast(),
        from_mut(&mut b).cast(),
        from_mut(&mut c).cast(),
        from_mut(&mut d).cast(),
        from_mut(&mut e).cast(),
        from_mut(&mut f).cast(),
        from_mut(&mut place).cast(),
    ];
    let (params, none) = (params.as_mut_ptr(), null_mut());
    ok(session.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, 0, params, none));
    // What the pointers name was copied: it may change at once.
    (d, f) = (0, 0);
    assert_eq!((session.read(out, 8), d, f), (STORED.to_vec(), 0, 0));

    // The same, packed: each value at a multiple of its size.
    session.write(out, &[0; 8]);
    let mut packed = [0u8; 40];
    packed[0] = 0xa1;
    packed[2..4].copy_from_slice(&0xb2b2u16.to_le_bytes());
    packed[4] = 0xc3;
    packed[8..12].copy_from_slice(&0xd4d4_d4d4u32.to_le_bytes());
    packed[12] = 0xe5;
    packed[16..24].copy_from_slice(&0x1f6f_6f6f_f6f6_f6f6u64.to_le_bytes());
    packed[24..32].copy_from_slice(&out.to_le_bytes());
    for mut bytes in [32usize, 40] {
        session.write(out, &[0; 8]);
        let mut extra = extra(&mut packed, &mut bytes);
        let extra = extra.as_mut_ptr();
        ok(session.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, 0, none, extra));
        packed[3] = packed[3].wrapping_add(0);
        assert_eq!(session.read(out, 8), STORED);
    }
}

/// Returns the list that names a buffer and its size.
fn extra(buffer: &mut [u8], bytes: &mut usize) -> [*mut c_void; 5] {
    [
        without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        without_provenance_mut(2),
        from_mut(bytes).cast(),
        null_mut(),
    ]
}

fn bad_parameters() {
    let session = Session::start();
    let mixed = session.function(c"mixed");
    let launch = |params: *mut *mut c_void, extra: *mut *mut c_void| {
        session.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, 0, params, extra)
    };
    let none: *mut *mut c_void = null_mut();
    invalid(launch(none, none));
    let mut value = 0u64;
    let mut pointers: [*mut c_void; 7] = [from_mut(&mut value).cast(); 7];
    pointers[3] = null_mut();
    invalid(launch(pointers.as_mut_ptr(), none));
    let mut packed = [0u8; 32];
    let mut short = 31usize;
    let mut list = extra(&mut packed, &mut short);
    invalid(launch(none, list.as_mut_ptr()));
    invalid(launch(pointers.as_mut_ptr(), list.as_mut_ptr()));
    let mut whole = 32usize;
    let mut no_buffer = extra(&mut packed, &mut whole);
    no_buffer[1] = null_mut();
    invalid(launch(none, no_buffer.as_mut_ptr()));
    let mut no_size = extra(&mut packed, &mut whole);
    no_size[3] = null_mut();
    invalid(launch(none, no_size.as_mut_ptr()));
    let mut nothing = [null_mut(); 1];
    invalid(launch(none, nothing.as_mut_ptr()));
    let mut unknown = [without_provenance_mut(9), null_mut(), null_mut()];
    invalid(launch(none, unknown.as_mut_ptr()));
    // Keys without end.
    let mut endless: Vec<*mut c_void> = Vec::new();
    for _ in 0..100 {
        endless.extend([without_provenance_mut(1), packed.as_mut_ptr().cast()]);
    }
    invalid(launch(none, endless.as_mut_ptr()));
    ok(session.cuCtxSynchronize());
}

fn bad_shapes() {
    let session = Session::start();
    let small = session.function(c"small");
    let out = session.words(&[0]);
    let launch = |grid: [u32; 3], block: [u32; 3], shared| {
        let mut place = out;
        let mut params: [*mut c_void; 1] = [from_mut(&mut place).cast()];
        let [[gx, gy, gz], [bx, by, bz]] = [grid, block];
        let params = params.as_mut_ptr();
        session.cuLaunchKernel(small, gx, gy, gz, bx, by, bz, shared, 0, params, null_mut())
    };
    let one = [1, 1, 1];
    for dimension in 0..3 {
        let (mut none, mut many) = (one, one);
        none[dimension] = 0;
        many[dimension] = u32::MAX;
        invalid(launch(none, one, 0));
        invalid(launch(one, none, 0));
        invalid(launch(one, many, 0));
    }
    invalid(launch([1, 65536, 1], one, 0));
    invalid(launch([1, 1, 65536], one, 0));
    invalid(launch(one, [2, 2, 65], 0));
    invalid(launch(one, [32, 32, 2], 0));
    // More than the kernel declares.
    invalid(launch(one, [129, 1, 1], 0));
    ok(launch(one, [128, 1, 1], 0));
    // Dynamic shared memory: what a launch may have without asking, then what the device has.
    let default = session.attribute(8).cast_unsigned();
    let most = session.attribute(97).cast_unsigned();
    let own = 4096;
    ok(launch(one, one, default - own));
    invalid(launch(one, one, default - own + 1));
    let set = |bytes: u32| session.cuFuncSetAttribute(small, 8, bytes.cast_signed());
    invalid(set(most - own + 1));
    ok(set(most - own));
    ok(launch(one, one, most - own));
    invalid(launch(one, one, most - own + 1));
    invalid(session.cuFuncSetAttribute(small, 8, -1));
    invalid(session.cuFuncSetAttribute(small, 0, 64));
    assert_eq!(session.read(out, 1), [3]);
}

fn configurations() {
    let session = Session::start();
    let next = session.function(c"next");
    let (to, from) = (session.words(&[0]), session.words(&[41]));
    let stream = session.stream(0);
    let attribute = |id: u32, value: u32| {
        let mut attribute = [0u32; 18];
        (attribute[0], attribute[2]) = (id, value);
        attribute
    };
    let launch = |attributes: &[[u32; 18]]| {
        let config = LaunchConfig {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            stream,
            attributes: if attributes.is_empty() {
                null()
            } else {
                attributes.as_ptr()
            },
            attribute_count: u32::try_from(attributes.len()).unwrap(),
        };
        let (mut a, mut b) = (to, from);
        let mut params: [*mut c_void; 2] = [from_mut(&mut a).cast(), from_mut(&mut b).cast()];
        session.cuLaunchKernelEx(&config, next, params.as_mut_ptr(), null_mut())
    };
    ok(launch(&[]));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(session.read(to, 1), [42]);
    // A priority is a hint; this one works with no cluster of blocks; 999 does not exist.
    ok(launch(&[attribute(8, 1)]));
    ok(launch(&[attribute(2, 1)]));
    let mut cluster = attribute(4, 2);
    cluster[3..5].fill(1);
    refused(launch(&[cluster]), code::NOT_SUPPORTED);
    invalid(launch(&[attribute(999, 1)]));
    let config = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        stream: 0,
        attributes: null(),
        attribute_count: 3,
    };
    invalid(session.cuLaunchKernelEx(&config, next, null_mut(), null_mut()));
    invalid(session.cuLaunchKernelEx(null(), next, null_mut(), null_mut()));
}
