//! The runtime library: its own codes where it has them, and the driver's.

use super::{DEAD, NEGATIVE, Places, bits, hold_any, name};
use crate::runtime::{Program, shadow, stub};
use crate::session::{code, ok};

scenarios! {
    codes: of_the_runtimes_devices of_the_runtimes_memory of_the_runtimes_streams of_the_runtimes_kernels
        of_the_runtimes_launches;
}

const INVALID_CONFIGURATION: u32 = 9;
const INVALID_PITCH: u32 = 12;
const INVALID_SYMBOL: u32 = 13;
const INVALID_DIRECTION: u32 = 21;
const INVALID_FUNCTION: u32 = 98;

/// Succeeds if every row's function returns what is due.
#[track_caller]
fn hold(program: &Program, rows: &[super::Row<'_>]) {
    hold_any(
        |symbol, arguments| program.call_with(symbol, arguments),
        rows,
    );
}

fn of_the_runtimes_devices() {
    let program = Program::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let (none, first) = ([5_i32, 0], [0_i32, 0]);
    let none = none.as_ptr().expose_provenance();
    let first = first.as_ptr().expose_provenance();
    let (invalid, device) = (code::INVALID_VALUE, code::INVALID_DEVICE);
    hold(
        &program,
        rows! {
            cudaSetDevice(1) = device;
            cudaSetDevice(NEGATIVE) = device;
            cudaGetDevice(0) = invalid;
            cudaGetDeviceCount(0) = invalid;
            cudaDeviceGetAttribute(out, 0, 0) = invalid;
            cudaDeviceGetAttribute(out, 16, 1) = device;
            cudaGetDeviceProperties(0, 0) = invalid;
            cudaInitDevice(1, 0, 0) = device;
            cudaInitDevice(0, 0, 2) = invalid;
            cudaInitDevice(0, 3, 1) = invalid;
            cudaInitDevice(0, 0, 1) = 0;
            cudaSetValidDevices(0, 1) = invalid;
            cudaSetValidDevices(first, 2) = invalid;
            cudaSetValidDevices(first, NEGATIVE) = invalid;
            cudaSetValidDevices(none, 1) = device;
            cudaSetValidDevices(first, 1) = 0;
            cudaSetValidDevices(0, 0) = 0;
            cudaChooseDevice(out, 0) = invalid;
            cudaSetDeviceFlags(3) = invalid;
            cudaDeviceGetLimit(out, 99) = code::UNSUPPORTED_LIMIT;
            cudaDeviceGetLimit(out, 3) = code::UNSUPPORTED_LIMIT;
            cudaDeviceSetCacheConfig(9) = invalid;
            cudaDeviceSetSharedMemConfig(9) = invalid;
            cudaDeviceSetSharedMemConfig(1) = 0;
            cudaDeviceGetSharedMemConfig(0) = invalid;
            cudaDeviceGetSharedMemConfig(out) = 0;
            cudaDeviceGetByPCIBusId(out, name(c"fake:id")) = invalid;
            cudaDeviceGetByPCIBusId(out, name(c"FFFF:FF:FF.F")) = device;
            cudaDeviceCanAccessPeer(out, 0, 1) = device;
            cudaRuntimeGetVersion(0) = invalid;
            cudaDriverGetVersion(0) = invalid;
            cudaGetDriverEntryPoint(name(c"cuInit"), 0, 0, more) = invalid;
            cudaGetDriverEntryPointByVersion(name(c"cuInit"), out, 99_000, 0, more) = invalid;
            // That there is no such function is told and no error.
            cudaGetDriverEntryPoint(name(c"cuNothing"), out, 0, more) = 0;
        },
    );
    assert_eq!((places.0[0], places.0[8] & 0xffff_ffff), (0, 1));
}

fn of_the_runtimes_memory() {
    let program = Program::start();
    let mut places = Places::new();
    let (out, host) = (places.at(0), places.at(8));
    let device = bits(program.alloc(256));
    let symbol = shadow().expose_provenance();
    let unknown = stub(0).expose_provenance();
    let invalid = code::INVALID_VALUE;
    hold(
        &program,
        rows! {
            cudaMalloc(0, 64) = invalid;
            cudaMalloc(out, NEGATIVE) = code::OUT_OF_MEMORY;
            cudaFree(0xdead_0000) = invalid;
            cudaFreeHost(host) = invalid;
            cudaHostAlloc(out, 64, 8) = invalid;
            cudaHostRegister(0, 4096, 0) = invalid;
            cudaHostUnregister(0) = invalid;
            cudaHostUnregister(host) = code::NOT_REGISTERED;
            cudaMemcpy(device, host, 4, 9) = INVALID_DIRECTION;
            cudaMemcpy(device, host, 4, NEGATIVE) = INVALID_DIRECTION;
            cudaMemcpy(device, host, 0, 9) = INVALID_DIRECTION;
            cudaMemcpy(device, 0, 4, 1) = invalid;
            cudaMemcpy(device, host, 257, 1) = invalid;
            cudaMemcpy(0, 0, 0, 1) = 0;
            cudaMemcpyAsync(device, host, 4, 1, DEAD) = code::INVALID_HANDLE;
            cudaMemcpy2D(device, 4, host, 64, 8, 1, 1) = INVALID_PITCH;
            cudaMemcpy2D(device, 64, host, 4, 8, 1, 1) = INVALID_PITCH;
            cudaMemcpy2D(device, 1 << 31, host, 64, 8, 1, 1) = INVALID_PITCH;
            cudaMemcpy2D(device, 64, host, 64, 8, 1, 9) = INVALID_DIRECTION;
            cudaMemcpy3D(0) = invalid;
            cudaMemcpyPeer(device, 0, device, 1, 4) = code::INVALID_DEVICE;
            cudaMemset(0, 1, 4) = invalid;
            cudaMemset(device, 1, 257) = invalid;
            cudaMemset(device, 1, 0) = 0;
            cudaMemset2D(device, 4, 1, 8, 2) = invalid;
            // Variables are the device's end of a copy.
            cudaMemcpyToSymbol(symbol, host, 4, 0, 2) = INVALID_DIRECTION;
            cudaMemcpyToSymbol(symbol, host, 4, 0, 9) = INVALID_DIRECTION;
            cudaMemcpyFromSymbol(host, symbol, 4, 0, 1) = INVALID_DIRECTION;
            cudaMemcpyToSymbol(unknown, host, 4, 0, 1) = INVALID_SYMBOL;
            cudaMemcpyToSymbol(symbol, host, 4, 1, 1) = invalid;
            cudaMemcpyToSymbol(symbol, host, 4, 0, 1) = 0;
            cudaMemcpyFromSymbol(host, symbol, 4, 0, 2) = 0;
            cudaGetSymbolAddress(out, unknown) = INVALID_SYMBOL;
            cudaGetSymbolSize(out, 0) = INVALID_SYMBOL;
            cudaMemPoolCreate(out, 0) = invalid;
            cudaMallocAsync(out, 64, DEAD) = code::INVALID_HANDLE;
            // Nothing is null.
            cudaMalloc(out, 0) = 0;
            cudaMallocAsync(out, 0, 0) = 0;
            cudaMallocHost(out, 0) = 0;
            cudaFreeHost(0) = 0;
            cudaFree(0) = 0;
        },
    );
    assert_eq!(places.0[0], 0);
}

fn of_the_runtimes_streams() {
    let program = Program::start();
    let mut places = Places::new();
    let out = places.at(0);
    ok(program.call_with("cudaEventCreate", &[out]));
    let event = bits(places.0[0]);
    let (invalid, handle) = (code::INVALID_VALUE, code::INVALID_HANDLE);
    hold(
        &program,
        rows! {
            cudaStreamCreate(0) = invalid;
            cudaStreamCreateWithFlags(out, 2) = invalid;
            cudaStreamDestroy(0) = handle;
            cudaStreamDestroy(DEAD) = handle;
            cudaStreamSynchronize(DEAD) = handle;
            cudaStreamQuery(DEAD) = handle;
            cudaStreamWaitEvent(0, 0, 0) = handle;
            cudaStreamWaitEvent(0, event, 2) = invalid;
            cudaStreamGetPriority(DEAD, out) = handle;
            cudaStreamAddCallback(0, 0, 0, 0) = invalid;
            cudaLaunchHostFunc(0, 0, 0) = invalid;
            cudaLaunchHostFunc_v2(0, 0, 0, 0) = invalid;
            cudaEventCreateWithFlags(out, 8) = invalid;
            cudaEventDestroy(0) = handle;
            cudaEventRecord(0, 0) = handle;
            cudaEventRecord(event, DEAD) = handle;
            cudaEventQuery(DEAD) = handle;
            cudaEventElapsedTime(out, event, event) = handle;
        },
    );
}

fn of_the_runtimes_kernels() {
    const ACTIVE: &str = "cudaOccupancyMaxActiveBlocksPerMultiprocessor";
    let program = Program::start();
    let mut places = Places::new();
    let out = places.at(0);
    let known = stub(0).expose_provenance();
    let unknown = shadow().expose_provenance();
    // Registered, and not in the binary.
    let missing = stub(2).expose_provenance();
    let mut rows: Vec<(&str, [usize; 4], u32)> = Vec::new();
    for none in [0, unknown, missing] {
        rows.extend([
            ("cudaFuncGetAttributes", [out, none, 0, 0], INVALID_FUNCTION),
            ("cudaFuncSetAttribute", [none, 8, 0, 0], INVALID_FUNCTION),
            ("cudaFuncSetCacheConfig", [none, 0, 0, 0], INVALID_FUNCTION),
            ("cudaFuncGetName", [out, none, 0, 0], INVALID_FUNCTION),
            ("cudaFuncGetParamCount", [none, out, 0, 0], INVALID_FUNCTION),
            (ACTIVE, [out, none, 32, 0], INVALID_FUNCTION),
        ]);
    }
    let rows: Vec<(&str, &[usize], u32)> =
        rows.iter().map(|(f, a, due)| (*f, &a[..], *due)).collect();
    hold(&program, &rows);
    hold(
        &program,
        &[
            ("cudaFuncGetAttributes", &[0, known], code::INVALID_VALUE),
            ("cudaFuncSetAttribute", &[known, 0, 64], code::INVALID_VALUE),
            (
                "cudaFuncSetAttribute",
                &[known, 8, 1 << 30],
                code::INVALID_VALUE,
            ),
            ("cudaFuncSetCacheConfig", &[known, 9], code::INVALID_VALUE),
            (
                "cudaFuncSetSharedMemConfig",
                &[known, 9],
                code::INVALID_VALUE,
            ),
            ("cudaFuncGetName", &[0, known], code::INVALID_VALUE),
            ("cudaFuncGetParamCount", &[known, 0], code::INVALID_VALUE),
            ("cudaFuncGetParamCount", &[known, out], 0),
            (ACTIVE, &[0, known, 32, 0], code::INVALID_VALUE),
            (ACTIVE, &[out, known, 0, 0], code::INVALID_VALUE),
            (ACTIVE, &[out, known, 32, 0], 0),
        ],
    );
}

fn of_the_runtimes_launches() {
    /// A size in two words, as `dim3` is passed.
    fn size(x: usize, y: usize, z: usize) -> [usize; 2] {
        [x | y << 32, z]
    }
    let program = Program::start();
    let mut places = Places::new();
    places.0[0] = program.alloc(8192);
    let value = [places.at(0)];
    let arguments = value.as_ptr().expose_provenance();
    let known = stub(0).expose_provenance();
    let attribute = |number: usize| {
        let mut value = 0_i32;
        let place = (&raw mut value).expose_provenance();
        ok(program.call_with("cudaDeviceGetAttribute", &[place, number, 0]));
        usize::try_from(value).expect("a size")
    };
    let (shared, most_shared) = (attribute(8), attribute(97));
    let one = size(1, 1, 1);
    let launch = |stub: usize,
                  grid: [usize; 2],
                  block: [usize; 2],
                  arguments,
                  shared: usize,
                  stream: usize| {
        [
            stub, grid[0], grid[1], block[0], block[1], arguments, shared, stream,
        ]
    };
    let at = |grid, block| launch(known, grid, block, arguments, 0, 0);
    let cases = [
        (at(size(0, 1, 1), one), INVALID_CONFIGURATION),
        (at(one, size(1, 0, 1)), INVALID_CONFIGURATION),
        (at(one, size(1025, 1, 1)), INVALID_CONFIGURATION),
        (at(one, size(64, 64, 1)), INVALID_CONFIGURATION),
        (at(size(1, 65_536, 1), one), INVALID_CONFIGURATION),
        (
            launch(known, one, one, arguments, most_shared + 1, 0),
            INVALID_CONFIGURATION,
        ),
        // More than a launch may have that did not ask, though the device has it.
        (
            launch(known, one, one, arguments, shared + 1, 0),
            code::INVALID_VALUE,
        ),
        (launch(known, one, one, 0, 0, 0), code::INVALID_VALUE),
        // A bad stream is not a bad kernel.
        (
            launch(known, one, one, arguments, 0, DEAD),
            code::INVALID_HANDLE,
        ),
        (launch(0, one, one, arguments, 0, 0), INVALID_FUNCTION),
        (
            launch(shadow().expose_provenance(), one, one, arguments, 0, 0),
            INVALID_FUNCTION,
        ),
        (
            launch(stub(2).expose_provenance(), one, one, arguments, 0, DEAD),
            INVALID_FUNCTION,
        ),
        (at(one, one), 0),
    ];
    let rows: Vec<(&str, &[usize], u32)> = cases
        .iter()
        .map(|(arguments, due)| ("cudaLaunchKernel", &arguments[..], *due))
        .collect();
    hold(&program, &rows);
    ok(program.call_with("cudaDeviceSynchronize", &[]));
}
