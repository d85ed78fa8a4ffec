"""A runtime-API program in Python: cuda-bindings' runtime, whose library is linked in, and machine code from NVRTC."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc
from cuda.bindings import runtime as rt

SOURCE = rb"""
template <typename T> __global__ void axpy(T a, const T *x, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __device__ int times(int);
extern "C" __global__ void shout(int *values) { values[threadIdx.x] = times(values[threadIdx.x]); }
"""


def checked(answer):
    status, *values = answer
    assert status.value == 0, status
    return values[0] if len(values) == 1 else tuple(values) or None


def compiled(source, *options, expressions=()):
    """Machine code for a real architecture, and lowered names."""
    program = checked(nvrtc.nvrtcCreateProgram(source, b"program.cu", 0, [], []))
    for expression in expressions:
        checked(nvrtc.nvrtcAddNameExpression(program, expression))
    options = [b"--gpu-architecture=sm_80", *options]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    assert status.value == 0, status
    code = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    names = [checked(nvrtc.nvrtcGetLoweredName(program, expression)) for expression in expressions]
    checked(nvrtc.nvrtcDestroyProgram(program))
    return code, names


def test_the_device_is_described():
    assert checked(rt.cudaGetDeviceCount()) == 1
    assert checked(rt.cudaRuntimeGetVersion()) // 1000 == 13
    properties = checked(rt.cudaGetDeviceProperties(0))
    assert properties.warpSize == 32 and properties.name.startswith(b"gridmux")
    attribute = rt.cudaDeviceAttr.cudaDevAttrMultiProcessorCount
    assert checked(rt.cudaDeviceGetAttribute(attribute, 0)) == properties.multiProcessorCount


def test_memory_streams_and_events():
    stream = checked(rt.cudaStreamCreate())
    start, end = checked(rt.cudaEventCreate()), checked(rt.cudaEventCreate())
    host = np.arange(1000, dtype=np.int32)
    back = np.zeros_like(host)
    memory = checked(rt.cudaMallocAsync(host.nbytes, stream))
    checked(rt.cudaEventRecord(start, stream))
    to_device, to_host = rt.cudaMemcpyKind.cudaMemcpyHostToDevice, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    checked(rt.cudaMemcpyAsync(memory, host.ctypes.data, host.nbytes, to_device, stream))
    checked(rt.cudaMemcpyAsync(back.ctypes.data, memory, host.nbytes, to_host, stream))
    checked(rt.cudaEventRecord(end, stream))
    checked(rt.cudaFreeAsync(memory, stream))
    checked(rt.cudaStreamSynchronize(stream))
    assert (back == host).all() and checked(rt.cudaEventElapsedTime(start, end)) >= 0
    for destroy, handle in ((rt.cudaEventDestroy, start), (rt.cudaEventDestroy, end), (rt.cudaStreamDestroy, stream)):
        checked(destroy(handle))


def test_errors_are_noted():
    assert rt.cudaMalloc(1 << 60)[0] == rt.cudaError_t.cudaErrorMemoryAllocation
    assert rt.cudaGetLastError()[0] == rt.cudaError_t.cudaErrorMemoryAllocation
    assert rt.cudaGetLastError()[0] == rt.cudaError_t.cudaSuccess
    assert rt.cudaGetErrorName(rt.cudaError_t.cudaErrorInvalidValue)[1] == b"cudaErrorInvalidValue"


@pytest.mark.parametrize("options", [(), (b"-lineinfo",), (b"-G",), (b"-Xptxas", b"-v")])
def test_machine_code_is_loaded_and_launched(options):
    checked(rt.cudaFree(0))
    source = SOURCE.split(b"extern", 1)[0]
    code, (name,) = compiled(source, *options, expressions=[b"axpy<float>"])
    module = checked(cu.cuModuleLoadData(code))
    kernel = checked(cu.cuModuleGetFunction(module, name))
    x, y = np.arange(100, dtype=np.float32), np.ones(100, dtype=np.float32)
    on_device = [checked(rt.cudaMalloc(x.nbytes)) for _ in range(2)]
    to_device, to_host = rt.cudaMemcpyKind.cudaMemcpyHostToDevice, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for memory, host in zip(on_device, (x, y)):
        checked(rt.cudaMemcpy(memory, host.ctypes.data, host.nbytes, to_device))
    types = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    checked(cu.cuLaunchKernel(kernel, 4, 1, 1, 32, 1, 1, 0, 0, ((2.0, *on_device, 100), types), 0))
    checked(rt.cudaMemcpy(y.ctypes.data, on_device[1], y.nbytes, to_host))
    assert (y == 1 + 2 * x).all()
    for memory in on_device:
        checked(rt.cudaFree(memory))
    checked(cu.cuModuleUnload(module))


def test_relocatable_machine_code_is_linked():
    checked(rt.cudaFree(0))
    kernel, _ = compiled(b"extern" + SOURCE.split(b"extern", 1)[1], b"-rdc=true")
    function, _ = compiled(b'extern "C" __device__ int times(int n) { return n * 7; }', b"-rdc=true")
    link = checked(cu.cuLinkCreate(0, [], []))
    for part in (kernel, function):
        kind = cu.CUjitInputType.CU_JIT_INPUT_CUBIN
        checked(cu.cuLinkAddData(link, kind, part, len(part), b"part", 0, [], []))
    image, _ = checked(cu.cuLinkComplete(link))
    module = checked(cu.cuModuleLoadData(image))
    shout = checked(cu.cuModuleGetFunction(module, b"shout"))
    values = np.arange(32, dtype=np.int32)
    memory = checked(rt.cudaMalloc(values.nbytes))
    checked(cu.cuMemcpyHtoD(memory, values.ctypes.data, values.nbytes))
    checked(cu.cuLaunchKernel(shout, 1, 1, 1, 32, 1, 1, 0, 0, ((memory,), (ctypes.c_void_p,)), 0))
    back = np.zeros_like(values)
    checked(cu.cuMemcpyDtoH(back.ctypes.data, memory, back.nbytes))
    assert (back == values * 7).all()
    checked(cu.cuLinkDestroy(link))


def test_a_virtual_architecture_gives_no_machine_code_and_the_compiler_is_the_real_one():
    major, minor = checked(nvrtc.nvrtcVersion())
    assert (major, minor) >= (13, 0) and 80 in checked(nvrtc.nvrtcGetSupportedArchs())
    program = checked(nvrtc.nvrtcCreateProgram(b"__global__ void k() {}", b"k.cu", 0, [], []))
    for option, has_code, has_ir in ((b"-arch=compute_80", False, False), (b"-arch=sm_80", True, False)):
        checked(nvrtc.nvrtcCompileProgram(program, 1, [option]))
        assert (checked(nvrtc.nvrtcGetCUBINSize(program)) > 0) == has_code
        assert (checked(nvrtc.nvrtcGetLTOIRSize(program)) > 0) == has_ir
    checked(nvrtc.nvrtcCompileProgram(program, 2, [b"-arch=sm_80", b"-dlto"]))
    assert checked(nvrtc.nvrtcGetLTOIRSize(program)) > 0 and checked(nvrtc.nvrtcGetCUBINSize(program)) == 0
    assert nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_1"])[0].name == "NVRTC_ERROR_INVALID_OPTION"
    assert nvrtc.nvrtcGetErrorString(nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION)[1] == b"NVRTC_ERROR_COMPILATION"
