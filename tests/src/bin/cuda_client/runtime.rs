//! The runtime library as nvcc's host code and the program around it use it: what is registered before `main`, launches
//! by stubs, variables by shadows, and errors that are noted.

use crate::api::{Cuda, call_in};
use crate::session::{code, ok, refused};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{from_ref, null, null_mut};

scenarios! {
    runtime: kernels_and_variables what_was_not_registered errors_are_noted streams_and_events
        what_is_told_of_a_device threads_have_their_own_device_and_errors binaries_come_and_go
        a_device_is_reset a_device_is_reset_under_other_threads the_library_of_cuda_12;
}

/// A kernel that stores in each of a block's threads what `base` holds plus its number, one that reads address 8, and
/// the variable.
const PTX: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 base = 40;
.visible .entry fill(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    ld.global.u32 %r1, [base];
    mov.u32 %r2, %tid.x;
    add.u32 %r1, %r1, %r2;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r1;
    ret;
}
.visible .entry fault(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %d<2>;
    mov.u64 %d1, 8;
    ld.global.u32 %r1, [%d1];
    ret;
}";

/// Codes of the runtime API that are none of the driver's.
const INVALID_CONFIGURATION: u32 = 9;
const INVALID_SYMBOL: u32 = 13;
const INVALID_DIRECTION: u32 = 21;
const MISSING_CONFIGURATION: u32 = 52;
const INVALID_FUNCTION: u32 = 98;

/// Directions of copies.
const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const DEFAULT: i32 = 4;

/// Threads or blocks (`dim3`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim3(pub(crate) [u32; 3]);

pub(crate) const ONE: Dim3 = Dim3([1, 1, 1]);

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The library's functions.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        pub(crate) struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[allow(clippy::too_many_arguments, reason = "the C functions' parameters")]
        impl Functions {
            fn of(library: &Library) -> Self {
                Self {$(
                    // SAFETY: the type is that of the function's C declaration.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .unwrap_or_else(|error| panic!("{error}")),
                )*}
            }

            $(pub(crate) fn $name(&self, $($arg: $type),*) -> $result {
                // SAFETY: scenarios pass what the C declaration asks for.
                unsafe { (self.$name)($($arg),*) }
            })*
        }
    };
}

functions! {
    __cudaRegisterFatBinary(image: *const Wrapper) -> *mut c_void;
    __cudaRegisterFatBinaryEnd(handle: *mut c_void) -> ();
    __cudaUnregisterFatBinary(handle: *mut c_void) -> ();
    __cudaRegisterFunction(
        handle: *mut c_void, stub: *const u8, device: *const c_char, name: *const c_char, limit: i32,
        thread: *mut c_void, block: *mut c_void, threads: *mut c_void, blocks: *mut c_void, warp: *mut i32
    ) -> ();
    __cudaRegisterVar(
        handle: *mut c_void, shadow: *const u8, device: *const c_char, name: *const c_char, external: i32,
        bytes: usize, constant: i32, global: i32
    ) -> ();
    __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: u64) -> u32;
    __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut u64) -> u32;
    cudaLaunchKernel(
        stub: *const u8, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: u64
    ) -> u32;
    cudaMalloc(address: *mut u64, bytes: usize) -> u32;
    cudaFree(address: u64) -> u32;
    cudaMemcpy(to: u64, from: u64, bytes: usize, kind: i32) -> u32;
    cudaMemset(to: u64, value: i32, bytes: usize) -> u32;
    cudaMemcpyToSymbol(shadow: *const u8, from: u64, bytes: usize, offset: usize, kind: i32) -> u32;
    cudaMemcpyFromSymbol(to: u64, shadow: *const u8, bytes: usize, offset: usize, kind: i32) -> u32;
    cudaGetSymbolSize(bytes: *mut usize, shadow: *const u8) -> u32;
    cudaStreamCreate(stream: *mut u64) -> u32;
    cudaStreamSynchronize(stream: u64) -> u32;
    cudaStreamDestroy(stream: u64) -> u32;
    cudaEventCreate(event: *mut u64) -> u32;
    cudaEventRecord(event: u64, stream: u64) -> u32;
    cudaEventSynchronize(event: u64) -> u32;
    cudaEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64) -> u32;
    cudaDeviceSynchronize() -> u32;
    cudaDeviceReset() -> u32;
    cudaGetDeviceCount(count: *mut i32) -> u32;
    cudaGetDevice(device: *mut i32) -> u32;
    cudaSetDevice(device: i32) -> u32;
    cudaDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) -> u32;
    cudaGetDeviceProperties(properties: *mut [u8; 1008], device: i32) -> u32;
    cudaRuntimeGetVersion(version: *mut i32) -> u32;
    cudaGetLastError() -> u32;
    cudaPeekAtLastError() -> u32;
    cudaGetErrorName(code: u32) -> *const c_char;
    cudaGetErrorString(code: u32) -> *const c_char;
    cudaIpcGetMemHandle(handle: *mut u64, address: u64) -> u32;
}

/// What nvcc puts into a program: it points to a container.
#[repr(C)]
pub(crate) struct Wrapper {
    magic: u32,
    version: u32,
    data: *const u8,
    linked: *const c_void,
}

/// Returns a container with one entry, which is said to be PTX for sm_80.
fn container(ptx: &str) -> Vec<u8> {
    let padded = (ptx.len() + 1).next_multiple_of(8);
    let mut image = Vec::new();
    image.extend(0xba55_ed50_u32.to_le_bytes());
    image.extend([1, 0, 16, 0]);
    image.extend((64 + padded as u64).to_le_bytes());
    let mut header = [0; 64];
    (header[0], header[4], header[28]) = (1, 64, 80);
    header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
    image.extend(header);
    image.extend(ptx.as_bytes());
    image.resize(80 + padded, 0);
    image
}

/// Stubs and a shadow, of which only the addresses count.
static STUBS: [u8; 3] = [0; 3];
static SHADOW: u8 = 0;

pub(crate) fn stub(n: usize) -> *const u8 {
    from_ref(&STUBS[n])
}

pub(crate) fn shadow() -> *const u8 {
    from_ref(&SHADOW)
}

/// A program that nvcc made, as it is when `main` begins.
pub(crate) struct Program {
    pub(crate) runtime: Functions,
    library: &'static Library,
    pub(crate) binary: *mut c_void,
    _driver: Cuda,
}

impl std::ops::Deref for Program {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.runtime
    }
}

impl Program {
    pub(crate) fn start() -> Self {
        Self::on("CUDART_LIBRARY")
    }

    /// Starts one on the library that a variable names.
    pub(crate) fn on(variable: &str) -> Self {
        // By its name the runtime library finds the driver library that is loaded already.
        let driver = Cuda::open();
        let path = std::env::var_os(variable);
        let path = path.unwrap_or_else(|| panic!("{variable} names the library"));
        // SAFETY: the library's constructors do nothing but what any shared object's do.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.unwrap_or_else(|error| panic!("{error}"));
        // It stays open as long as the process.
        let library = Box::leak(Box::new(library));
        let runtime = Functions::of(library);
        let binary = register(&runtime);
        Self {
            runtime,
            library,
            binary,
            _driver: driver,
        }
    }

    /// Calls a kernel as nvcc's code for `<<<1, threads>>>` and the stub do.
    pub(crate) fn launch(&self, stub: *const u8, threads: u32, out: u64) -> u32 {
        ok(self.__cudaPushCallConfiguration(ONE, Dim3([threads, 1, 1]), 0, 0));
        let (mut grid, mut block, mut shared, mut stream) = (ONE, ONE, 1, 1);
        let popped =
            self.__cudaPopCallConfiguration(&mut grid, &mut block, &mut shared, &mut stream);
        ok(popped);
        assert_eq!((grid, block.0[0], shared, stream), (ONE, threads, 0, 0));
        let mut out = out;
        let mut arguments = [(&raw mut out).cast()];
        self.cudaLaunchKernel(stub, grid, block, arguments.as_mut_ptr(), shared, stream)
    }

    /// Calls a function of the library, as [`call_in`].
    pub(crate) fn call_with(&self, symbol: &str, arguments: &[usize]) -> u32 {
        call_in(self.library, symbol, arguments)
    }

    pub(crate) fn alloc(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok(self.cudaMalloc(&mut address, bytes));
        address
    }

    pub(crate) fn read<const N: usize>(&self, from: u64) -> [u32; N] {
        let mut words = [0; N];
        let to = (&raw mut words).addr() as u64;
        ok(self.cudaMemcpy(to, from, 4 * N, TO_HOST));
        words
    }
}

/// Registers a binary with both kernels and the variable, as nvcc's constructors do.
pub(crate) fn register(runtime: &Functions) -> *mut c_void {
    register_text(runtime, PTX)
}

/// Registers a binary with another text under the same stubs and shadow.
pub(crate) fn register_text(runtime: &Functions, ptx: &str) -> *mut c_void {
    let wrapper = Box::leak(Box::new(Wrapper {
        magic: 0x4662_43b1,
        version: 1,
        data: container(ptx).leak().as_ptr(),
        linked: null(),
    }));
    let handle = runtime.__cudaRegisterFatBinary(wrapper);
    for (n, name) in [c"fill", c"fault", c"missing"].into_iter().enumerate() {
        let name = name.as_ptr();
        let none = null_mut();
        runtime.__cudaRegisterFunction(
            handle,
            stub(n),
            name,
            name,
            -1,
            none,
            none,
            none,
            none,
            null_mut(),
        );
    }
    let name = c"base".as_ptr();
    runtime.__cudaRegisterVar(handle, shadow(), name, name, 0, 4, 0, 0);
    runtime.__cudaRegisterFatBinaryEnd(handle);
    handle
}

fn kernels_and_variables() {
    let program = Program::start();
    let out = program.alloc(16);
    ok(program.launch(stub(0), 4, out));
    assert_eq!(program.read(out), [40, 41, 42, 43]);
    let mut bytes = 0;
    ok(program.cudaGetSymbolSize(&mut bytes, shadow()));
    assert_eq!(bytes, 4);
    let (base, mut back) = (7_u32, 0_u32);
    let from = from_ref(&base).addr() as u64;
    ok(program.cudaMemcpyToSymbol(shadow(), from, 4, 0, TO_DEVICE));
    ok(program.launch(stub(0), 2, out));
    assert_eq!(program.read(out), [7, 8, 42, 43]);
    let to = (&raw mut back).addr() as u64;
    ok(program.cudaMemcpyFromSymbol(to, shadow(), 4, 0, DEFAULT));
    assert_eq!(back, 7);
    for (bytes, offset) in [(5, 0), (4, 1), (usize::MAX, 2)] {
        let refusal = program.cudaMemcpyToSymbol(shadow(), from, bytes, offset, TO_DEVICE);
        refused(refusal, code::INVALID_VALUE);
    }
    ok(program.cudaMemset(out, 1, 8));
    assert_eq!(program.read(out), [0x0101_0101, 0x0101_0101, 42, 43]);
    ok(program.cudaFree(out));
    ok(program.cudaFree(0));
    let mut none = 5;
    ok(program.cudaMalloc(&mut none, 0));
    assert_eq!(none, 0);
}

fn what_was_not_registered() {
    let program = Program::start();
    let out = program.alloc(16);
    let unknown = [null(), from_ref(&PTX).cast(), shadow(), stub(2)];
    for stub in unknown {
        refused(program.launch(stub, 1, out), INVALID_FUNCTION);
    }
    let mut bytes = 0;
    for shadow in [null(), stub(0)] {
        refused(
            program.cudaGetSymbolSize(&mut bytes, shadow),
            INVALID_SYMBOL,
        );
    }
    let (mut grid, mut block, mut shared, mut stream) = (ONE, ONE, 0, 0);
    let popped =
        program.__cudaPopCallConfiguration(&mut grid, &mut block, &mut shared, &mut stream);
    refused(popped, MISSING_CONFIGURATION);
    // What a binary's handle is not, registers nothing and ends nothing.
    program.__cudaUnregisterFatBinary(null_mut());
    ok(program.launch(stub(0), 1, out));
}

fn errors_are_noted() {
    let program = Program::start();
    let out = program.alloc(16);
    assert_eq!(program.cudaGetLastError(), 0);
    refused(program.launch(stub(0), 5000, out), INVALID_CONFIGURATION);
    assert_eq!(program.cudaPeekAtLastError(), INVALID_CONFIGURATION);
    ok(program.cudaDeviceSynchronize());
    assert_eq!(program.cudaGetLastError(), INVALID_CONFIGURATION);
    assert_eq!(program.cudaGetLastError(), 0, "it was asked for");
    refused(program.cudaMemcpy(out, out, 4, 9), INVALID_DIRECTION);
    assert_eq!(program.cudaGetLastError(), INVALID_DIRECTION);
    let mut address = 5;
    refused(
        program.cudaIpcGetMemHandle(&mut address, out),
        code::NOT_SUPPORTED,
    );
    assert_eq!(
        (program.cudaGetLastError(), address),
        (code::NOT_SUPPORTED, 5)
    );
    for (number, name) in [
        (0, c"cudaSuccess"),
        (700, c"cudaErrorIllegalAddress"),
        (98, c"cudaErrorInvalidDeviceFunction"),
    ] {
        // SAFETY: the library gives strings that live as long as it does.
        let told = unsafe { CStr::from_ptr(program.cudaGetErrorName(number)) };
        assert_eq!(told, name);
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(program.cudaGetErrorString(number)) };
        assert!(!text.is_empty() && text != name, "{text:?}");
    }
    // A fault of the device stays.
    ok(program.launch(stub(1), 1, out));
    refused(program.cudaDeviceSynchronize(), code::ILLEGAL_ADDRESS);
    for _ in 0..2 {
        assert_eq!(program.cudaGetLastError(), code::ILLEGAL_ADDRESS);
    }
    refused(program.cudaMalloc(&mut address, 4), code::ILLEGAL_ADDRESS);
}

fn streams_and_events() {
    let program = Program::start();
    let out = program.alloc(16);
    let (mut stream, mut start, mut end, mut milliseconds) = (0, 0, 0, -1.0);
    ok(program.cudaStreamCreate(&mut stream));
    ok(program.cudaEventCreate(&mut start));
    ok(program.cudaEventCreate(&mut end));
    ok(program.cudaEventRecord(start, stream));
    let mut argument = out;
    let mut arguments = [(&raw mut argument).cast()];
    ok(program.cudaLaunchKernel(stub(0), ONE, ONE, arguments.as_mut_ptr(), 0, stream));
    ok(program.cudaEventRecord(end, stream));
    ok(program.cudaEventSynchronize(end));
    ok(program.cudaEventElapsedTime(&mut milliseconds, start, end));
    assert!(milliseconds >= 0.0, "{milliseconds}");
    ok(program.cudaStreamSynchronize(stream));
    ok(program.cudaStreamDestroy(stream));
    refused(program.cudaStreamSynchronize(stream), code::INVALID_HANDLE);
    assert_eq!(program.read(out), [40]);
}

fn what_is_told_of_a_device() {
    let program = Program::start();
    let (mut count, mut version, mut threads, mut sms) = (0, 0, 0, 0);
    ok(program.cudaGetDeviceCount(&mut count));
    ok(program.cudaRuntimeGetVersion(&mut version));
    assert_eq!((count, version / 1000), (1, 13));
    let mut properties = [0xff_u8; 1008];
    ok(program.cudaGetDeviceProperties(&mut properties, 0));
    let name = CStr::from_bytes_until_nul(&properties).expect("a name");
    assert!(!name.is_empty(), "{name:?}");
    // Where `maxThreadsPerBlock` and `multiProcessorCount` stand.
    let number = |at: usize| i32::from_le_bytes(properties[at..at + 4].try_into().expect("four"));
    ok(program.cudaDeviceGetAttribute(&mut threads, 1, 0));
    ok(program.cudaDeviceGetAttribute(&mut sms, 16, 0));
    assert_eq!((number(320), number(384)), (threads, sms));
    refused(
        program.cudaGetDeviceProperties(&mut properties, 1),
        code::INVALID_DEVICE,
    );
    refused(program.cudaSetDevice(1), code::INVALID_DEVICE);
}

fn threads_have_their_own_device_and_errors() {
    let program = Program::start();
    let out = program.alloc(64);
    refused(program.cudaMemcpy(out, out, 4, 9), INVALID_DIRECTION);
    let runtime = &program.runtime;
    let stubs = stub(0).addr();
    std::thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || {
                assert_eq!(runtime.cudaGetLastError(), 0, "another thread's error");
                let mut device = 7;
                ok(runtime.cudaGetDevice(&mut device));
                ok(runtime.cudaSetDevice(device));
                let mut argument = out + 16 * n;
                let mut arguments = [(&raw mut argument).cast()];
                let stub = std::ptr::without_provenance(stubs);
                ok(runtime.cudaLaunchKernel(stub, ONE, ONE, arguments.as_mut_ptr(), 0, 0));
                ok(runtime.cudaDeviceSynchronize());
            });
        }
    });
    for n in 0..4 {
        assert_eq!(program.read(out + 16 * n), [40]);
    }
    assert_eq!(program.cudaGetLastError(), INVALID_DIRECTION);
}

/// As shared objects with kernels do that are opened and closed.
fn binaries_come_and_go() {
    let program = Program::start();
    let out = program.alloc(16);
    let mut binary = program.binary;
    for _ in 0..3 {
        ok(program.launch(stub(0), 1, out));
        ok(program.cudaDeviceSynchronize());
        for _ in 0..2 {
            program.__cudaUnregisterFatBinary(binary);
            refused(program.launch(stub(0), 1, out), INVALID_FUNCTION);
        }
        binary = register(&program.runtime);
    }
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [40]);
}

fn a_device_is_reset() {
    let program = Program::start();
    let out = program.alloc(16);
    let runtime = &program.runtime;
    let (reset, waits) = std::sync::mpsc::channel();
    let (ready, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            ok(runtime.cudaDeviceSynchronize());
            ready.send(()).expect("it waits");
            waits.recv().expect("it is told");
            // Its context has ended, and it has the next one.
            let mut address = 0;
            ok(runtime.cudaMalloc(&mut address, 64));
            ok(runtime.cudaFree(address));
        });
        begins.recv().expect("it has begun");
        ok(runtime.cudaDeviceReset());
        reset.send(()).expect("it waits");
    });
    refused(program.cudaFree(out), code::INVALID_VALUE);
    let out = program.alloc(16);
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [40]);
    // It ends a fault, too.
    ok(program.launch(stub(1), 1, out));
    refused(program.cudaDeviceSynchronize(), code::ILLEGAL_ADDRESS);
    ok(program.cudaDeviceReset());
    assert_eq!(program.cudaGetLastError(), 0);
    let out = program.alloc(16);
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [40]);
}

/// Threads that are at work when their device is reset have errors, and what comes after it works.
fn a_device_is_reset_under_other_threads() {
    let program = Program::start();
    let runtime = &program.runtime;
    let ends = std::sync::atomic::AtomicBool::new(false);
    // Relaxed: it carries nothing.
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ends.load(relaxed) {
                    let mut address = 0;
                    if runtime.cudaMalloc(&mut address, 64) == 0 {
                        let _ = runtime.cudaFree(address);
                    }
                    let _ = runtime.cudaDeviceSynchronize();
                }
            });
        }
        for _ in 0..200 {
            let _ = runtime.cudaDeviceReset();
        }
        ends.store(true, relaxed);
    });
    ok(program.cudaDeviceReset());
    let out = program.alloc(16);
    ok(program.launch(stub(0), 1, out));
    assert_eq!(program.read(out), [40]);
}

/// Programs of CUDA 12 find the same under its version, and a device as its header describes it: with
/// `cudaGetDeviceProperties_v2`, and what is before `hostRegisterSupported` with `cudaGetDeviceProperties`. Attributes
/// of pointers have no reserved words yet.
fn the_library_of_cuda_12() {
    type Describe = unsafe extern "C" fn(*mut [u8; 1032], i32) -> u32;
    type Attributes = unsafe extern "C" fn(*mut [u64; 4], u64) -> u32;
    let program = Program::on("CUDART12_LIBRARY");
    let out = program.alloc(16);
    ok(program.launch(stub(0), 4, out));
    assert_eq!(program.read(out), [40, 41, 42, 43]);
    let (mut version, mut sms) = (0, 0);
    ok(program.cudaRuntimeGetVersion(&mut version));
    assert_eq!(version / 1000, 12);
    ok(program.cudaDeviceGetAttribute(&mut sms, 16, 0));
    for (name, written) in [
        (&b"cudaGetDeviceProperties_v2\0"[..], 1032),
        (b"cudaGetDeviceProperties\0", 728),
    ] {
        // SAFETY: the type is that of the function's C declaration.
        let describe = unsafe { program.library.get::<Describe>(name) }.expect("the function");
        let mut properties = [0xff_u8; 1032];
        // SAFETY: there is room for all that the structure has.
        ok(unsafe { describe(&mut properties, 0) });
        // Where `multiProcessorCount` stands.
        let told = i32::from_le_bytes(properties[388..392].try_into().expect("four"));
        assert_eq!(told, sms);
        assert!(properties[written..].iter().all(|byte| *byte == 0xff));
        assert_ne!(properties[written - 8..written], [0xff; 8]);
    }
    // SAFETY: the type is that of the function's C declaration.
    let attributes = unsafe {
        program
            .library
            .get::<Attributes>(b"cudaPointerGetAttributes\0")
    };
    let mut told = [u64::MAX; 4];
    // SAFETY: there is room for more than the structure has.
    ok(unsafe { attributes.expect("the function")(&mut told, out) });
    // The device's memory, of device 0, which the host does not reach.
    assert_eq!(told, [2, out, 0, u64::MAX]);
}
