"""A driver-API program in Python: cuda-bindings, kernels from NVRTC."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SOURCE = rb"""
extern "C" __device__ float scale_by = 2.0f;
extern "C" __constant__ int offsets[4] = {1, 2, 3, 4};
extern "C" __global__ void scale(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * scale_by + offsets[i % 4];
}
extern "C" __global__ void reverse(int *values) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


def checked(answer):
    status, *values = answer
    assert status.value == 0, status
    return values[0] if len(values) == 1 else tuple(values) or None


def ptx_of(source, *options):
    program = checked(nvrtc.nvrtcCreateProgram(source, b"program.cu", 0, [], []))
    options = [b"--gpu-architecture=compute_80", *options]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    assert status.value == 0, status
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


@pytest.fixture(scope="module", autouse=True)
def context():
    checked(cu.cuInit(0))
    device = checked(cu.cuDeviceGet(0))
    context = checked(cu.cuDevicePrimaryCtxRetain(device))
    checked(cu.cuCtxSetCurrent(context))
    yield device
    checked(cu.cuDevicePrimaryCtxRelease(device))


@pytest.fixture(scope="module")
def module(context):
    module = checked(cu.cuModuleLoadData(ptx_of(SOURCE)))
    yield module
    checked(cu.cuModuleUnload(module))


def upload(array):
    pointer = checked(cu.cuMemAlloc(array.nbytes))
    checked(cu.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
    return pointer


def download(pointer, like):
    array = np.empty_like(like)
    checked(cu.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
    return array


def launch(function, grid, block, shared, stream, values, types):
    checked(cu.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, (values, types), 0))


def test_the_device_describes_itself(context):
    attribute = cu.CUdevice_attribute
    get = lambda which: checked(cu.cuDeviceGetAttribute(which, context))
    assert get(attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32
    assert get(attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024
    assert get(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) > 0
    assert checked(cu.cuDeviceGetName(64, context)).rstrip(b"\0")
    assert checked(cu.cuDeviceTotalMem(context)) > 0
    assert checked(cu.cuDriverGetVersion()) >= 13000
    assert any(checked(cu.cuDeviceGetUuid(context)).bytes)


def test_a_kernel_with_globals(module):
    function = checked(cu.cuModuleGetFunction(module, b"scale"))
    pointer, size = checked(cu.cuModuleGetGlobal(module, b"scale_by"))
    assert size == 4
    factor = np.float32(3.0)
    checked(cu.cuMemcpyHtoD(pointer, np.array([factor]).ctypes.data, 4))
    values = np.arange(1000, dtype=np.float32)
    device = upload(values)
    launch(function, 8, 128, 0, 0, (device, 1000), (None, ctypes.c_int))
    expected = values * factor + np.array([1, 2, 3, 4], np.float32)[np.arange(1000) % 4]
    np.testing.assert_array_equal(download(device, values), expected)
    checked(cu.cuMemFree(device))


def test_dynamic_shared_memory_and_function_attributes(module):
    function = checked(cu.cuModuleGetFunction(module, b"reverse"))
    attribute = cu.CUfunction_attribute
    assert checked(cu.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)) == 1024
    assert checked(cu.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)) > 0
    assert checked(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 256, 1024)) >= 1
    values = np.arange(256, dtype=np.int32)
    device = upload(values)
    launch(function, 1, 256, 1024, 0, (device,), (None,))
    np.testing.assert_array_equal(download(device, values), values[::-1])
    checked(cu.cuMemFree(device))


def test_sets_and_copies():
    device = checked(cu.cuMemAlloc(4096))
    other = checked(cu.cuMemAlloc(4096))
    checked(cu.cuMemsetD8(device, 0xAB, 4096))
    checked(cu.cuMemsetD32(int(device) + 1024, 7, 16))
    checked(cu.cuMemsetD16(int(device) + 2048, 9, 16))
    checked(cu.cuMemcpyDtoD(other, device, 4096))
    seen = download(other, np.empty(4096, np.uint8))
    expected = np.full(4096, 0xAB, np.uint8)
    expected[1024:1088].view(np.uint32)[:] = 7
    expected[2048:2080].view(np.uint16)[:] = 9
    np.testing.assert_array_equal(seen, expected)
    base, size = checked(cu.cuMemGetAddressRange(int(device) + 100))
    assert (int(base), size) == (int(device), 4096)
    checked(cu.cuMemFree(device))
    checked(cu.cuMemFree(other))


def test_pitched_copies():
    source = np.arange(24 * 40, dtype=np.uint8).reshape(24, 40)
    pointer, pitch = checked(cu.cuMemAllocPitch(40, 24, 4))
    assert pitch >= 40
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_HOST
    copy.srcHost = source.ctypes.data
    copy.srcPitch = 40
    copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.dstDevice = pointer
    copy.dstPitch = pitch
    copy.WidthInBytes = 40
    copy.Height = 24
    checked(cu.cuMemcpy2D(copy))
    seen = download(pointer, np.empty(pitch * 24, np.uint8)).reshape(24, pitch)
    np.testing.assert_array_equal(seen[:, :40], source)
    checked(cu.cuMemFree(pointer))


def test_streams_events_and_pinned_memory(module):
    function = checked(cu.cuModuleGetFunction(module, b"reverse"))
    first = checked(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
    second = checked(cu.cuStreamCreate(0))
    ready, start, end = (checked(cu.cuEventCreate(0)) for _ in range(3))
    host = checked(cu.cuMemAllocHost(1024))
    view = np.ctypeslib.as_array((ctypes.c_int32 * 256).from_address(int(host)))
    view[:] = np.arange(256)
    device = checked(cu.cuMemAllocAsync(1024, first))
    checked(cu.cuEventRecord(start, first))
    checked(cu.cuMemcpyHtoDAsync(device, host, 1024, first))
    launch(function, 1, 256, 1024, first, (device,), (None,))
    checked(cu.cuEventRecord(ready, first))
    checked(cu.cuStreamWaitEvent(second, ready, 0))
    launch(function, 1, 256, 1024, second, (device,), (None,))
    launch(function, 1, 256, 1024, second, (device,), (None,))
    checked(cu.cuMemcpyDtoHAsync(host, device, 1024, second))
    checked(cu.cuEventRecord(end, second))
    checked(cu.cuEventSynchronize(end))
    np.testing.assert_array_equal(view, np.arange(256)[::-1])
    assert checked(cu.cuEventElapsedTime(start, end)) >= 0
    assert checked(cu.cuEventQuery(end)) is None
    checked(cu.cuMemFreeAsync(device, second))
    checked(cu.cuStreamSynchronize(second))
    for event in (ready, start, end):
        checked(cu.cuEventDestroy(event))
    for stream in (first, second):
        checked(cu.cuStreamDestroy(stream))
    checked(cu.cuMemFreeHost(host))


def test_a_host_function_runs_after_what_is_before_it(module):
    function = checked(cu.cuModuleGetFunction(module, b"reverse"))
    stream = checked(cu.cuStreamCreate(0))
    values = np.arange(64, dtype=np.int32)
    device = upload(values)
    seen = np.zeros_like(values)
    order = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def note(_):
        order.append(seen.copy())

    launch(function, 1, 64, 256, stream, (device,), (None,))
    checked(cu.cuMemcpyDtoHAsync(seen.ctypes.data, device, seen.nbytes, stream))
    checked(cu.cuLaunchHostFunc(stream, cu.CUhostFn(ctypes.cast(note, ctypes.c_void_p).value), 0))
    checked(cu.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(order, [values[::-1]])
    checked(cu.cuStreamDestroy(stream))
    checked(cu.cuMemFree(device))


def test_linking_two_modules(context):
    one = ptx_of(b"extern \"C\" __device__ int triple(int x) { return 3 * x; }", b"-rdc=true")
    two = ptx_of(
        b"extern \"C\" __device__ int triple(int); extern \"C\" __global__ void run(int *v) "
        b"{ v[threadIdx.x] = triple(v[threadIdx.x]); }",
        b"-rdc=true",
    )
    state = checked(cu.cuLinkCreate(0, [], []))
    kind = cu.CUjitInputType.CU_JIT_INPUT_PTX
    for name, ptx in ((b"one", one), (b"two", two)):
        checked(cu.cuLinkAddData(state, kind, ptx, len(ptx), name, 0, [], []))
    image, size = checked(cu.cuLinkComplete(state))
    assert size > 0
    module = checked(cu.cuModuleLoadData(image))
    checked(cu.cuLinkDestroy(state))
    values = np.arange(32, dtype=np.int32)
    device = upload(values)
    launch(checked(cu.cuModuleGetFunction(module, b"run")), 1, 32, 0, 0, (device,), (None,))
    np.testing.assert_array_equal(download(device, values), values * 3)
    checked(cu.cuModuleUnload(module))
    checked(cu.cuMemFree(device))


def test_libraries_and_their_kernels(context):
    library = checked(cu.cuLibraryLoadData(ptx_of(SOURCE), [], [], 0, [], [], 0))
    kernel = checked(cu.cuLibraryGetKernel(library, b"reverse"))
    function = checked(cu.cuKernelGetFunction(kernel))
    pointer, size = checked(cu.cuLibraryGetGlobal(library, b"scale_by"))
    assert int(pointer) and size == 4
    values = np.arange(32, dtype=np.int32)
    device = upload(values)
    # A kernel may stand where a function does.
    launch(cu.CUfunction(int(kernel)), 1, 32, 128, 0, (device,), (None,))
    launch(function, 1, 32, 128, 0, (device,), (None,))
    np.testing.assert_array_equal(download(device, values), values)
    checked(cu.cuMemFree(device))
    checked(cu.cuLibraryUnload(library))


def test_what_is_wrong_gets_the_documented_code(module):
    status = cu.CUresult
    assert cu.cuDeviceGet(7)[0] == status.CUDA_ERROR_INVALID_DEVICE
    assert cu.cuModuleGetFunction(module, b"nothing")[0] == status.CUDA_ERROR_NOT_FOUND
    assert cu.cuModuleLoadData(b".version 8.0\n.target sm_80\nnonsense\0")[0] == status.CUDA_ERROR_INVALID_PTX
    assert cu.cuMemAlloc(0)[0] == status.CUDA_ERROR_INVALID_VALUE
    assert cu.cuMemAlloc(1 << 50)[0] == status.CUDA_ERROR_OUT_OF_MEMORY
    assert cu.cuMemFree(0x1234)[0] == status.CUDA_ERROR_INVALID_VALUE
    function = checked(cu.cuModuleGetFunction(module, b"reverse"))
    assert cu.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, 0, 0, 0)[0] == status.CUDA_ERROR_INVALID_VALUE
    assert checked(cu.cuGetErrorName(status.CUDA_ERROR_NOT_FOUND)) == b"CUDA_ERROR_NOT_FOUND"
    assert checked(cu.cuGetErrorString(status.CUDA_ERROR_NOT_FOUND))
    checked(cu.cuCtxSynchronize())
