//! Devices, contexts, modules, functions and libraries.

use super::{DEAD, NEGATIVE, Places, bits, hold, name};
use crate::kernels::{BROKEN, PTX};
use crate::session::{Session, code, ok, text};
use std::ptr::null_mut;

scenarios! {
    codes: of_devices of_contexts without_a_context of_limits of_images of_modules_and_functions of_libraries of_links
        of_searches;
}

fn of_devices() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    hold(
        &session,
        rows! {
            cuInit(1) = code::INVALID_VALUE;
            cuDriverGetVersion(0) = code::INVALID_VALUE;
            cuGetErrorName(98, out) = code::INVALID_VALUE;
            cuGetErrorString(700, 0) = code::INVALID_VALUE;
            cuDeviceGetCount(0) = code::INVALID_VALUE;
            cuDeviceGet(out, 1) = code::INVALID_DEVICE;
            cuDeviceGet(out, NEGATIVE) = code::INVALID_DEVICE;
            cuDeviceGet(0, 0) = code::INVALID_VALUE;
            cuDeviceGetName(more, 0, 0) = code::INVALID_VALUE;
            cuDeviceGetName(0, 8, 0) = code::INVALID_VALUE;
            cuDeviceGetName(more, 8, 1) = code::INVALID_DEVICE;
            cuDeviceGetAttribute(out, 0, 0) = code::INVALID_VALUE;
            cuDeviceGetAttribute(out, 5000, 0) = code::INVALID_VALUE;
            cuDeviceGetAttribute(0, 16, 0) = code::INVALID_VALUE;
            cuDeviceGetAttribute(out, 16, 1) = code::INVALID_DEVICE;
            cuDeviceGetAttribute(out, 16, NEGATIVE) = code::INVALID_DEVICE;
            cuDeviceTotalMem_v2(out, 5) = code::INVALID_DEVICE;
            cuDeviceTotalMem_v2(0, 0) = code::INVALID_VALUE;
            cuDeviceGetUuid_v2(more, 1) = code::INVALID_DEVICE;
            cuDeviceComputeCapability(out, more, 1) = code::INVALID_DEVICE;
            cuDeviceGetPCIBusId(more, 0, 0) = code::INVALID_VALUE;
            cuDeviceGetPCIBusId(more, 16, 1) = code::INVALID_DEVICE;
            cuDeviceGetByPCIBusId(out, name(c"fake:id")) = code::INVALID_VALUE;
            cuDeviceGetByPCIBusId(out, name(c"")) = code::INVALID_VALUE;
            cuDeviceGetByPCIBusId(out, 0) = code::INVALID_VALUE;
            cuDeviceGetByPCIBusId(out, name(c"FFFF:FF:FF.F")) = code::INVALID_DEVICE;
            cuDeviceGetByPCIBusId(out, name(c"0000:00:00")) = 0;
            cuDeviceGetByPCIBusId(out, name(c"00:00.0")) = 0;
            cuDeviceCanAccessPeer(out, 0, 1) = code::INVALID_DEVICE;
            cuDeviceCanAccessPeer(0, 0, 0) = code::INVALID_VALUE;
            // The place is looked at first, then the devices, then the attribute.
            cuDeviceGetP2PAttribute(out, 1, 0, 0) = code::INVALID_DEVICE;
            cuDeviceGetP2PAttribute(out, 9999, 0, 0) = code::INVALID_DEVICE;
            cuDeviceGetP2PAttribute(0, 1, 0, 0) = code::INVALID_VALUE;
        },
    );
}

fn of_contexts() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let first = bits(session.context);
    let event = bits(session.event());
    let second = bits(session.new_context());
    hold(
        &session,
        rows! {
            cuCtxCreate_v2(out, 3, 0) = code::INVALID_VALUE;
            cuCtxCreate_v2(out, 0x100, 0) = code::INVALID_VALUE;
            cuCtxCreate_v2(0, 0, 0) = code::INVALID_VALUE;
            cuCtxCreate_v2(out, 0, 1) = code::INVALID_DEVICE;
            cuCtxDestroy_v2(0) = code::INVALID_CONTEXT;
            cuCtxDestroy_v2(DEAD) = code::INVALID_CONTEXT;
            cuCtxSetCurrent(DEAD) = code::INVALID_CONTEXT;
            cuCtxPushCurrent_v2(0) = code::INVALID_CONTEXT;
            cuCtxSetFlags(3) = code::INVALID_VALUE;
            cuCtxGetFlags(0) = code::INVALID_VALUE;
            cuCtxGetApiVersion(DEAD, out) = code::INVALID_CONTEXT;
            cuCtxGetId(DEAD, out) = code::INVALID_CONTEXT;
            cuCtxGetDevice_v2(out, DEAD) = code::INVALID_CONTEXT;
            cuCtxSynchronize_v2(DEAD) = code::INVALID_CONTEXT;
            cuCtxAttach(out, 1) = code::INVALID_VALUE;
            cuCtxDetach(first) = code::INVALID_CONTEXT;
            cuCtxRecordEvent(second, event) = code::INVALID_HANDLE;
            cuCtxRecordEvent(second, 0) = code::INVALID_HANDLE;
            cuCtxWaitEvent(second, DEAD) = code::INVALID_HANDLE;
            cuCtxEnablePeerAccess(second, 0) = code::INVALID_CONTEXT;
            cuCtxEnablePeerAccess(0, 0) = code::INVALID_CONTEXT;
            cuCtxEnablePeerAccess(first, 1) = code::INVALID_VALUE;
            cuCtxEnablePeerAccess(first, 0) = code::PEER_ACCESS_UNSUPPORTED;
            cuCtxDisablePeerAccess(first) = code::PEER_ACCESS_NOT_ENABLED;
            cuCtxDisablePeerAccess(DEAD) = code::INVALID_CONTEXT;
            cuDevicePrimaryCtxRetain(out, 1) = code::INVALID_DEVICE;
            cuDevicePrimaryCtxRetain(0, 0) = code::INVALID_VALUE;
            cuDevicePrimaryCtxRelease_v2(0) = code::INVALID_CONTEXT;
            cuDevicePrimaryCtxRelease_v2(1) = code::INVALID_DEVICE;
            cuDevicePrimaryCtxReset_v2(1) = code::INVALID_DEVICE;
            cuDevicePrimaryCtxSetFlags_v2(0, 3) = code::INVALID_VALUE;
            cuDevicePrimaryCtxSetFlags_v2(1, 0) = code::INVALID_DEVICE;
            cuDevicePrimaryCtxGetState(1, out, more) = code::INVALID_DEVICE;
            cuDevicePrimaryCtxGetState(0, 0, more) = code::INVALID_VALUE;
        },
    );
}

/// A thread without a context can still give back, look at an event and load a library.
fn without_a_context() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let image = text(PTX);
    let image = image.as_ptr().expose_provenance();
    let event = session.event();
    ok(session.cuEventRecord(event, 0));
    ok(session.cuStreamSynchronize(0));
    let event = bits(event);
    let (mut library, mut kernel) = (0_u64, 0);
    ok(session.cuCtxSetCurrent(0));
    let loaded = session.call_with(
        "cuLibraryLoadData",
        &[
            (&raw mut library).expose_provenance(),
            image,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    );
    ok(loaded);
    ok(session.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
    let (library, kernel) = (bits(library), bits(kernel));
    let due = code::INVALID_CONTEXT;
    hold(
        &session,
        rows! {
            cuEventQuery(event) = 0;
            cuCtxGetDevice(out) = due;
            cuCtxGetFlags(out) = due;
            cuCtxSetFlags(0) = due;
            cuCtxSynchronize() = due;
            cuCtxPopCurrent_v2(out) = due;
            cuCtxGetLimit(out, 0) = due;
            cuCtxSetCacheConfig(0) = due;
            cuModuleLoadData(out, image) = due;
            cuLibraryGetModule(out, library) = due;
            cuLibraryGetGlobal(out, more, library, name(c"number")) = due;
            cuKernelGetFunction(out, kernel) = due;
            cuKernelGetParamInfo(kernel, 0, out, more) = due;
            cuMemAlloc_v2(out, 64) = due;
            cuMemGetInfo_v2(out, more) = due;
            cuMemHostAlloc(out, 64, 0) = due;
            cuMemAllocAsync(out, 64, 0) = due;
            cuMemcpyHtoD_v2(out, more, 0) = due;
            cuStreamCreate(out, 0) = due;
            cuStreamSynchronize(0) = due;
            cuEventCreate(out, 0) = due;
            cuEventSynchronize(event) = due;
            cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, out, 0) = due;
        },
    );
    ok(session.cuCtxSetCurrent(session.context));
    ok(session.cuLibraryUnload(library as u64));
}

fn of_limits() {
    let session = Session::start();
    let mut places = Places::new();
    let out = places.at(0);
    assert_eq!(session.attribute(75), 9, "the device of these tests");
    hold(
        &session,
        rows! {
            cuCtxGetLimit(0, 0) = code::INVALID_VALUE;
            cuCtxGetLimit(out, 99) = code::UNSUPPORTED_LIMIT;
            cuCtxSetLimit(99, 1) = code::UNSUPPORTED_LIMIT;
            // The depth of synchronisation is a limit of devices before compute capability 9.0.
            cuCtxGetLimit(out, 3) = code::UNSUPPORTED_LIMIT;
            cuCtxSetLimit(3, 4) = code::UNSUPPORTED_LIMIT;
            // These can be read only.
            cuCtxGetLimit(out, 7) = 0;
            cuCtxSetLimit(7, 1) = code::INVALID_VALUE;
            cuCtxSetLimit(8, 1) = code::INVALID_VALUE;
            cuCtxSetLimit(10, 4096) = 0;
            cuCtxSetCacheConfig(4) = code::INVALID_VALUE;
            cuCtxGetCacheConfig(0) = code::INVALID_VALUE;
            cuCtxSetSharedMemConfig(3) = code::INVALID_VALUE;
            cuCtxSetLimit(5, 1000) = 0;
            cuCtxGetLimit(out, 5) = 0;
        },
    );
    assert_eq!(places.0[0], 128, "as much as the device fetches at a time");
}

fn of_images() {
    let session = Session::start();
    let mut places = Places::new();
    let out = places.at(0);
    let broken = text(BROKEN);
    let broken = broken.as_ptr().expose_provenance();
    let mut garbage = [0xf3_u8; 64];
    garbage[..8].copy_from_slice(&[0xde, 0xe5, 0xec, 0xf3, 0xfa, 1, 8, 15]);
    let garbage = garbage.as_ptr().expose_provenance();
    let commented = name(
        c"/* begins\n// so */ .version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }",
    );
    let empty = tempfile::NamedTempFile::new().expect("a file");
    let empty = text(empty.path().to_str().expect("a path in UTF-8"));
    let empty = empty.as_ptr().expose_provenance();
    let image = code::INVALID_IMAGE;
    let mut link = 0;
    ok(session.cuLinkCreate_v2(0, null_mut(), null_mut(), &mut link));
    let link = bits(link);
    let mut rows = Vec::new();
    for load in ["cuModuleLoadData", "cuModuleLoadFatBinary"] {
        rows.extend([
            (load, [out, 0], code::INVALID_VALUE),
            (load, [0, broken], code::INVALID_VALUE),
            (load, [out, name(c"")], image),
            (load, [out, garbage], image),
            (load, [out, name(c"hello world, no PTX\n")], image),
            (load, [out, name(c".target sm_80\n.version 8.0\n")], image),
            (load, [out, broken], code::INVALID_PTX),
            (load, [out, commented], 0),
        ]);
    }
    let missing = name(c"/no/such/file");
    let endless = name(c"/dev/zero");
    rows.extend([
        ("cuModuleLoad", [out, empty], image),
        ("cuModuleLoad", [out, endless], image),
        ("cuModuleLoad", [out, missing], code::FILE_NOT_FOUND),
        ("cuModuleLoad", [out, 0], code::INVALID_VALUE),
    ]);
    let rows: Vec<(&str, &[usize], u32)> =
        rows.iter().map(|(f, a, due)| (*f, &a[..], *due)).collect();
    hold(&session, &rows);
    hold(
        &session,
        rows! {
            cuLibraryLoadData(out, 0, 0, 0, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLibraryLoadData(out, garbage, 0, 0, 0, 0, 0, 0) = image;
            cuLibraryLoadData(out, broken, 0, 0, 0, 0, 0, 0) = code::INVALID_PTX;
            cuLibraryLoadFromFile(out, empty, 0, 0, 0, 0, 0, 0) = image;
            cuLibraryLoadFromFile(out, missing, 0, 0, 0, 0, 0, 0) = code::FILE_NOT_FOUND;
            cuLinkAddFile_v2(link, 1, empty, 0, 0, 0) = image;
            cuLinkAddFile_v2(link, 1, missing, 0, 0, 0) = code::FILE_NOT_FOUND;
            cuLinkAddData_v2(link, 1, garbage, 64, 0, 0, 0, 0) = image;
        },
    );
}

fn of_modules_and_functions() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let module = bits(session.module);
    let add = bits(session.function(c"add"));
    let (known, number) = (name(c"add"), name(c"number"));
    let mut option = [99_u32];
    let option = option.as_mut_ptr().expose_provenance();
    hold(
        &session,
        rows! {
            cuModuleLoadDataEx(out, known, 1, 0, 0) = code::INVALID_VALUE;
            cuModuleLoadDataEx(out, known, 1, option, more) = code::INVALID_VALUE;
            cuModuleUnload(0) = code::INVALID_HANDLE;
            cuModuleGetFunction(0, module, known) = code::INVALID_VALUE;
            cuModuleGetFunction(out, module, 0) = code::INVALID_VALUE;
            cuModuleGetFunction(out, DEAD, known) = code::INVALID_HANDLE;
            cuModuleGetFunction(out, module, number) = code::NOT_FOUND;
            cuModuleGetFunction(out, module, name(c"")) = code::NOT_FOUND;
            cuModuleGetGlobal_v2(out, more, module, known) = code::NOT_FOUND;
            cuModuleGetGlobal_v2(out, more, module, 0) = code::INVALID_VALUE;
            cuModuleGetGlobal_v2(0, 0, module, number) = code::INVALID_VALUE;
            cuModuleGetGlobal_v2(0, more, module, number) = 0;
            cuModuleGetGlobal_v2(out, 0, module, number) = 0;
            cuModuleGetFunctionCount(0, module) = code::INVALID_VALUE;
            cuModuleGetFunctionCount(out, 0) = code::INVALID_HANDLE;
            cuModuleEnumerateFunctions(out, 1, 0) = code::INVALID_HANDLE;
            cuModuleGetLoadingMode(0) = code::INVALID_VALUE;
            cuFuncGetAttribute(out, 99, add) = code::INVALID_VALUE;
            cuFuncGetAttribute(out, NEGATIVE, add) = code::INVALID_VALUE;
            cuFuncGetAttribute(0, 0, add) = code::INVALID_VALUE;
            cuFuncGetAttribute(out, 0, 0) = code::INVALID_HANDLE;
            cuFuncSetAttribute(add, 0, 64) = code::INVALID_VALUE;
            cuFuncSetAttribute(add, 99, 0) = code::INVALID_VALUE;
            cuFuncSetAttribute(add, 8, NEGATIVE) = code::INVALID_VALUE;
            cuFuncSetAttribute(add, 8, 1 << 30) = code::INVALID_VALUE;
            cuFuncSetAttribute(add, 9, 101) = code::INVALID_VALUE;
            cuFuncSetAttribute(0, 8, 0) = code::INVALID_HANDLE;
            cuFuncSetCacheConfig(add, 4) = code::INVALID_VALUE;
            cuFuncSetSharedMemConfig(add, 3) = code::INVALID_VALUE;
            // Functions that document no code for handles say that null is a bad argument.
            cuFuncGetName(out, 0) = code::INVALID_VALUE;
            cuFuncGetName(0, add) = code::INVALID_VALUE;
            cuFuncGetModule(out, 0) = code::INVALID_VALUE;
            cuFuncGetParamInfo(0, 0, out, more) = code::INVALID_VALUE;
            cuFuncGetParamInfo(add, 2, out, more) = code::INVALID_VALUE;
            cuFuncGetParamInfo(add, 0, 0, more) = code::INVALID_VALUE;
            cuFuncGetParamInfo(add, 0, out, 0) = 0;
            cuFuncGetParamCount(0, out) = code::INVALID_VALUE;
            cuFuncGetParamCount(add, 0) = code::INVALID_VALUE;
            cuFuncIsLoaded(out, 0) = code::INVALID_HANDLE;
            cuFuncLoad(0) = code::INVALID_HANDLE;
            cuFuncSetAttribute(add, 9, 50) = 0;
            cuFuncGetAttribute(out, 9, add) = 0;
        },
    );
    assert_eq!(places.0[0] & 0xffff_ffff, 50, "a hint is remembered");
}

fn of_libraries() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let image = text(PTX);
    let image = image.as_ptr().expose_provenance();
    let [mut library, mut kernel, mut module] = [0_u64; 3];
    let place = (&raw mut library).expose_provenance();
    ok(session.call_with("cuLibraryLoadData", &[place, image, 0, 0, 0, 0, 0, 0]));
    ok(session.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
    let place = (&raw mut module).expose_provenance();
    ok(session.call_with("cuLibraryGetModule", &[place, bits(library)]));
    let [library, kernel, module] = [library, kernel, module].map(bits);
    let (known, number, values) = (name(c"add"), name(c"number"), places.at(16));
    // Where host addresses stand, that the image stays, and what is no option.
    let options = [0_u32, 1, 2];
    let option = |n: usize| (&raw const options[n]).expose_provenance();
    let file = name(c"/no/such/file");
    hold(
        &session,
        rows! {
            cuLibraryLoadData(0, image, 0, 0, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLibraryLoadData(out, image, 0, 0, 0, 0, 0, 1) = code::INVALID_VALUE;
            cuLibraryLoadData(out, image, 0, 0, 0, option(2), values, 1) = code::INVALID_VALUE;
            cuLibraryLoadData(out, image, 0, 0, 0, option(0), values, 2) = 0;
            cuLibraryLoadFromFile(out, file, 0, 0, 0, option(0), values, 1) = code::INVALID_VALUE;
            cuLibraryLoadFromFile(out, 0, 0, 0, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLibraryUnload(0) = code::INVALID_VALUE;
            cuLibraryUnload(DEAD) = code::INVALID_HANDLE;
            cuModuleUnload(module) = code::NOT_PERMITTED;
            cuLibraryGetKernel(0, library, known) = code::INVALID_VALUE;
            cuLibraryGetKernel(out, library, 0) = code::INVALID_VALUE;
            cuLibraryGetKernel(out, 0, known) = code::INVALID_HANDLE;
            cuLibraryGetKernel(out, library, number) = code::NOT_FOUND;
            cuLibraryGetKernelCount(out, 0) = code::INVALID_HANDLE;
            cuLibraryEnumerateKernels(0, 1, library) = code::INVALID_VALUE;
            cuLibraryGetModule(out, 0) = code::INVALID_HANDLE;
            cuLibraryGetGlobal(out, more, library, known) = code::NOT_FOUND;
            cuLibraryGetGlobal(0, 0, library, number) = code::INVALID_VALUE;
            cuLibraryGetGlobal(0, more, library, number) = 0;
            cuKernelGetFunction(out, 0) = code::INVALID_HANDLE;
            cuKernelGetLibrary(out, 0) = code::INVALID_HANDLE;
            cuKernelGetName(out, 0) = code::INVALID_VALUE;
            cuKernelGetName(0, kernel) = code::INVALID_VALUE;
            cuKernelGetParamInfo(0, 0, out, more) = code::INVALID_VALUE;
            cuKernelGetParamInfo(kernel, 2, out, more) = code::INVALID_VALUE;
            cuKernelGetParamCount(0, out) = code::INVALID_VALUE;
            cuKernelGetAttribute(out, 0, kernel, 1) = code::INVALID_DEVICE;
            cuKernelGetAttribute(out, 99, kernel, 0) = code::INVALID_VALUE;
            cuKernelGetAttribute(out, 0, 0, 0) = code::INVALID_HANDLE;
            cuKernelSetAttribute(0, 64, kernel, 0) = code::INVALID_VALUE;
            cuKernelSetAttribute(8, 0, kernel, 1) = code::INVALID_DEVICE;
            cuKernelSetCacheConfig(kernel, 4, 0) = code::INVALID_VALUE;
            cuKernelSetCacheConfig(kernel, 0, 1) = code::INVALID_DEVICE;
        },
    );
}

fn of_links() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, more) = (places.at(0), places.at(8));
    let image = text(PTX);
    let data = image.as_ptr().expose_provenance();
    let bytes = image.as_bytes_with_nul().len();
    let mut option = [99_u32];
    let option = option.as_mut_ptr().expose_provenance();
    let mut link = 0;
    ok(session.cuLinkCreate_v2(0, null_mut(), null_mut(), &mut link));
    let link = bits(link);
    hold(
        &session,
        rows! {
            cuLinkCreate_v2(0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkCreate_v2(1, 0, 0, out) = code::INVALID_VALUE;
            cuLinkCreate_v2(1, option, more, out) = code::INVALID_VALUE;
            cuLinkAddData_v2(link, 99, data, bytes, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkAddData_v2(link, 1, 0, bytes, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkAddData_v2(link, 1, data, 0, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkAddData_v2(0, 1, data, bytes, 0, 0, 0, 0) = code::INVALID_HANDLE;
            cuLinkAddFile_v2(link, 1, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkComplete(link, 0, more) = code::INVALID_VALUE;
            cuLinkComplete(0, out, more) = code::INVALID_HANDLE;
            cuLinkDestroy(0) = code::INVALID_HANDLE;
            cuLinkAddData_v2(link, 1, data, bytes, 0, 0, 0, 0) = 0;
            cuLinkComplete(link, out, more) = 0;
            // Nothing is added to what is complete.
            cuLinkAddData_v2(link, 1, data, bytes, 0, 0, 0, 0) = code::INVALID_VALUE;
            cuLinkDestroy(link) = 0;
            cuLinkDestroy(link) = code::INVALID_HANDLE;
        },
    );
}

/// That a name is not known, or not yet, is no error of the later form; a version that does not exist is one.
fn of_searches() {
    let session = Session::start();
    let mut places = Places::new();
    let (out, found) = (places.at(0), places.at(8));
    let (known, unknown) = (name(c"cuInit"), name(c"cuNothing"));
    hold(
        &session,
        rows! {
            cuGetProcAddress_v2(0, out, 12000, 0, found) = code::INVALID_VALUE;
            cuGetProcAddress_v2(known, 0, 12000, 0, found) = code::INVALID_VALUE;
            cuGetProcAddress_v2(known, out, 12000, 4, found) = code::INVALID_VALUE;
            cuGetProcAddress_v2(known, out, NEGATIVE, 0, found) = code::INVALID_VALUE;
            cuGetProcAddress_v2(known, out, 99_000, 0, found) = code::INVALID_VALUE;
            cuGetProcAddress_v2(known, out, 12000, 0, 0) = 0;
            cuGetProcAddress(unknown, out, 12000, 0) = code::NOT_FOUND;
            cuGetProcAddress_v2(unknown, out, 12000, 0, found) = 0;
        },
    );
    assert_eq!(
        (places.0[0], places.0[8] & 0xffff_ffff),
        (0, 1),
        "no such name"
    );
}
