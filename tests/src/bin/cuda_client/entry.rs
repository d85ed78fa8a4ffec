//! How a program begins: initialisation, versions, names of functions and codes, and the device.

use crate::api::Cuda;
use crate::session::{Session, code, invalid, ok, refused};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

scenarios! {
    entry: before_and_after_init many_threads_initialise_at_once no_service functions_by_name codes_have_names
        the_device_is_coherent settings_of_core_dumps;
}

fn before_and_after_init() {
    let cuda = Cuda::open();
    let (mut version, mut count, mut context) = (0, -1, 7);
    ok(cuda.cuDriverGetVersion(&mut version));
    assert!(version >= 12000, "{version}");
    refused(cuda.cuDeviceGetCount(&mut count), code::NOT_INITIALIZED);
    refused(
        cuda.cuCtxCreate_v2(&mut context, 0, 0),
        code::NOT_INITIALIZED,
    );
    refused(cuda.cuCtxGetCurrent(&mut context), code::NOT_INITIALIZED);
    assert_eq!((count, context), (-1, 7), "nothing is written");
    invalid(cuda.cuInit(1));
    refused(cuda.cuDeviceGetCount(&mut count), code::NOT_INITIALIZED);
    ok(cuda.cuInit(0));
    ok(cuda.cuInit(0));
    ok(cuda.cuDeviceGetCount(&mut count));
    assert_eq!(count, 1);
    ok(cuda.cuCtxGetCurrent(&mut context));
    assert_eq!(context, 0, "no context is current yet");
    let mut address = 0;
    refused(cuda.cuMemAlloc_v2(&mut address, 4), code::INVALID_CONTEXT);
}

fn many_threads_initialise_at_once() {
    let cuda = Cuda::open();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                ok(cuda.cuInit(0));
                let mut count = 0;
                ok(cuda.cuDeviceGetCount(&mut count));
                assert_eq!(count, 1);
            });
        }
    });
}

/// Nobody listens: each attempt fails, and nothing else can be called.
fn no_service() {
    let cuda = Cuda::open();
    let mut count = 0;
    for _ in 0..2 {
        refused(cuda.cuInit(0), code::NO_DEVICE);
        refused(cuda.cuDeviceGetCount(&mut count), code::NOT_INITIALIZED);
    }
}

/// Returns what `cuGetProcAddress_v2` answers: its code, whether there is an address, and what it says of the search.
fn search(cuda: &Cuda, name: &CStr, version: i32, flags: u64) -> (u32, *const c_void, u32) {
    let (mut address, mut found) = (std::ptr::dangling(), 77);
    let code = cuda.cuGetProcAddress_v2(name.as_ptr(), &mut address, version, flags, &mut found);
    (code, address, found)
}

fn functions_by_name() {
    const PER_THREAD: u64 = 2;
    let cuda = Cuda::open();
    let (code, launch, found) = search(&cuda, c"cuLaunchKernel", 12000, 0);
    assert!(code == 0 && found == 0 && !launch.is_null());
    let (_, per_thread, _) = search(&cuda, c"cuLaunchKernel", 12000, PER_THREAD);
    assert!(
        !per_thread.is_null() && per_thread != launch,
        "a variant of its own"
    );
    let (_, before_variants, _) = search(&cuda, c"cuLaunchKernel", 5000, PER_THREAD);
    assert_eq!(before_variants, launch, "there were no variants then");
    let (_, alloc, _) = search(&cuda, c"cuMemAlloc", 12000, PER_THREAD);
    assert!(!alloc.is_null(), "a function without variants is itself");
    // An unknown name: no address, and the search says so.
    let (unknown, address, found) = search(&cuda, c"cuNoSuchFunction", 12000, 0);
    assert_eq!((unknown, address, found), (0, null(), 1));
    let mut address = std::ptr::dangling();
    refused(
        cuda.cuGetProcAddress(c"cuNoSuchFunction".as_ptr(), &mut address, 12000, 0),
        code::NOT_FOUND,
    );
    assert!(address.is_null());
    // A name that the version does not have yet.
    let (_, address, found) = search(&cuda, c"cuLaunchKernelEx", 11000, 0);
    assert_eq!((address, found), (null(), 2));
    // With suffix a name is not one.
    let (_, address, _) = search(&cuda, c"cuMemAlloc_v2", 12000, 0);
    assert!(address.is_null());
    let bad = |name: *const c_char, address: *mut *const c_void, flags| {
        invalid(cuda.cuGetProcAddress_v2(name, address, 12000, flags, null_mut()));
    };
    let mut address = null();
    bad(null(), &mut address, 0);
    bad(c"cuInit".as_ptr(), null_mut(), 0);
    bad(c"cuInit".as_ptr(), &mut address, 1 << 20);
}

fn codes_have_names() {
    let cuda = Cuda::open();
    let name_of = |number| {
        let mut name = std::ptr::dangling();
        let code = cuda.cuGetErrorName(number, &mut name);
        // SAFETY: the library gives null or a text that lives as long as itself.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap());
        (code, name)
    };
    for (number, name) in [
        (0, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (100, "CUDA_ERROR_NO_DEVICE"),
        (400, "CUDA_ERROR_INVALID_HANDLE"),
        (600, "CUDA_ERROR_NOT_READY"),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
        (710, "CUDA_ERROR_ASSERT"),
        (801, "CUDA_ERROR_NOT_SUPPORTED"),
        (999, "CUDA_ERROR_UNKNOWN"),
    ] {
        assert_eq!(name_of(number), (0, Some(name)));
        let mut text = null();
        ok(cuda.cuGetErrorString(number, &mut text));
        assert!(!text.is_null());
    }
    for unknown in [3000, 98, u32::MAX] {
        assert_eq!(name_of(unknown), (code::INVALID_VALUE, None));
        let mut text = std::ptr::dangling();
        invalid(cuda.cuGetErrorString(unknown, &mut text));
        assert!(text.is_null());
    }
}

fn the_device_is_coherent() {
    let cuda = Session::start();
    let get = |attribute| cuda.attribute(attribute);
    let (mut device, mut major, mut minor, mut bytes) = (-1, 0, 0, 0);
    ok(cuda.cuDeviceGet(&mut device, 0));
    assert_eq!(device, 0);
    for wrong in [-1, 1, i32::MAX] {
        refused(cuda.cuDeviceGet(&mut device, wrong), code::INVALID_DEVICE);
    }
    ok(cuda.cuDeviceComputeCapability(&mut major, &mut minor, 0));
    assert_eq!((major, minor), (get(75), get(76)));
    assert_eq!(get(10), 32, "threads of a warp");
    assert!(get(2) <= get(1) && get(39) >= get(1) && get(39) % get(10) == 0);
    assert!(
        get(97) >= get(8) && get(81) >= get(97) + get(111),
        "shared memory"
    );
    assert!(get(82) >= get(12), "registers of an SM and of a block");
    assert_eq!(get(16), 4, "as configured");
    assert!((5..=7).all(|dimension| get(dimension) >= 65535));
    let mut value = 0;
    for none in [0, -1, 100_000] {
        invalid(cuda.cuDeviceGetAttribute(&mut value, none, 0));
    }
    refused(
        cuda.cuDeviceGetAttribute(&mut value, 16, 1),
        code::INVALID_DEVICE,
    );
    ok(cuda.cuDeviceTotalMem_v2(&mut bytes, 0));
    let mut total = 0;
    ok(cuda.cuMemGetInfo_v2(null_mut(), &mut total));
    assert_eq!(bytes, total);
    let mut name = [b'x'.cast_signed(); 16];
    ok(cuda.cuDeviceGetName(name.as_mut_ptr(), 8, 0));
    assert_eq!(
        (name[7], name[8]),
        (0, b'x'.cast_signed()),
        "cut, with a zero"
    );
    invalid(cuda.cuDeviceGetName(name.as_mut_ptr(), 0, 0));
    invalid(cuda.cuDeviceGetName(name.as_mut_ptr(), -5, 0));
}

/// What is set is told again; a dump itself is refused.
fn settings_of_core_dumps() {
    let cuda = Cuda::open();
    let get = |setting: u32, value: &mut [u8]| {
        let place = value.as_mut_ptr().cast();
        cuda.cuCoredumpGetAttributeGlobal(setting, place, &mut value.len())
    };
    let set = |setting: u32, value: &[u8]| {
        let mut value = value.to_vec();
        let place = value.as_mut_ptr().cast();
        cuda.cuCoredumpSetAttributeGlobal(setting, place, &mut value.len())
    };
    let flag = |setting| {
        let mut value = [7];
        ok(get(setting, &mut value));
        value[0]
    };
    assert_eq!([1, 2, 3, 4].map(flag), [0, 1, 0, 0]);
    for (setting, needed) in [(1, 1), (4, 1), (5, 1024), (6, 1024), (7, 4)] {
        let mut bytes = 0;
        ok(cuda.cuCoredumpGetAttributeGlobal(setting, null_mut(), &mut bytes));
        assert_eq!(bytes, needed);
    }
    let mut name = [0xff; 1024];
    ok(get(5, &mut name));
    let end = format!(".{}\0", std::process::id());
    assert!(name.starts_with(b"core.cuda."));
    assert!(name.windows(end.len()).any(|part| part == end.as_bytes()));
    ok(set(2, &[0]));
    ok(set(3, &[1]));
    ok(set(6, b"pipe"));
    ok(set(7, &[3, 0, 0, 0]));
    assert_eq!([2, 3].map(flag), [0, 1]);
    let mut text = [0xff; 5];
    ok(get(6, &mut text));
    assert_eq!(&text, b"pipe\0");
    let mut flags = [0; 4];
    ok(get(7, &mut flags));
    assert_eq!(flags, [3, 0, 0, 0]);
    for setting in [1, 4] {
        ok(set(setting, &[0]));
        refused(set(setting, &[1]), code::NOT_SUPPORTED);
        assert_eq!(flag(setting), 0);
    }
    for setting in [0, 8, u32::MAX] {
        invalid(get(setting, &mut [0; 8]));
        invalid(set(setting, &[0; 8]));
    }
    invalid(get(6, &mut [0; 4]));
    invalid(get(7, &mut [0; 3]));
    invalid(set(5, &[b'x'; 1024]));
    ok(set(5, &[b'x'; 1023]));
}
