"""cuda-bindings: graphs of the driver API."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SOURCE = rb'extern "C" __global__ void add(int *v, int n) { atomicAdd(v, n); }'


def checked(answer):
    status, *values = answer
    assert status.value == 0, status
    return values[0] if len(values) == 1 else tuple(values) or None


@pytest.fixture(scope="module", autouse=True)
def context():
    checked(cu.cuInit(0))
    device = checked(cu.cuDeviceGet(0))
    context = checked(cu.cuDevicePrimaryCtxRetain(device))
    checked(cu.cuCtxSetCurrent(context))
    yield context
    checked(cu.cuDevicePrimaryCtxRelease(device))


@pytest.fixture(scope="module")
def add(context):
    program = checked(nvrtc.nvrtcCreateProgram(SOURCE, b"program.cu", 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    module = checked(cu.cuModuleLoadData(ptx))
    yield checked(cu.cuModuleGetFunction(module, b"add"))
    checked(cu.cuModuleUnload(module))


@pytest.fixture
def word():
    pointer = checked(cu.cuMemAlloc(4))
    checked(cu.cuMemsetD32(pointer, 0, 1))
    checked(cu.cuCtxSynchronize())
    yield pointer
    checked(cu.cuMemFree(pointer))


def read(pointer):
    value = np.empty(1, np.int32)
    checked(cu.cuMemcpyDtoH(value.ctypes.data, pointer, 4))
    return int(value[0])


def kernel(function, pointer, n):
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = function
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX = params.blockDimY = params.blockDimZ = 1
    params.kernelParams = ((pointer, n), (None, ctypes.c_int))
    return params


def test_construction_update_and_clone(context, add, word):
    graph = checked(cu.cuGraphCreate(0))
    first = checked(cu.cuGraphAddKernelNode(graph, None, 0, kernel(add, word, 1)))
    checked(cu.cuGraphAddKernelNode(graph, [first], 1, kernel(add, word, 10)))
    nodes, count = checked(cu.cuGraphGetNodes(graph, 2))
    assert count == 2 and int(nodes[0]) == int(first)
    assert checked(cu.cuGraphNodeGetType(first)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    executable = checked(cu.cuGraphInstantiate(graph, 0))
    stream = checked(cu.cuStreamCreate(0))
    checked(cu.cuGraphLaunch(executable, stream))
    checked(cu.cuGraphExecKernelNodeSetParams(executable, first, kernel(add, word, 100)))
    checked(cu.cuGraphLaunch(executable, stream))
    checked(cu.cuStreamSynchronize(stream))
    assert read(word) == 11 + 110
    clone = checked(cu.cuGraphClone(graph))
    found = checked(cu.cuGraphNodeFindInClone(first, clone))
    assert int(found) != int(first)
    info = checked(cu.cuGraphExecUpdate(executable, clone))
    assert info.result == cu.CUgraphExecUpdateResult.CU_GRAPH_EXEC_UPDATE_SUCCESS
    checked(cu.cuGraphDestroyNode(found))
    status, info = cu.cuGraphExecUpdate(executable, clone)
    assert status == cu.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    checked(cu.cuGraphLaunch(executable, stream))
    checked(cu.cuStreamSynchronize(stream))
    assert read(word) == 121 + 11
    checked(cu.cuStreamDestroy(stream))
    checked(cu.cuGraphExecDestroy(executable))
    checked(cu.cuGraphDestroy(clone))
    checked(cu.cuGraphDestroy(graph))
    assert cu.cuGraphDestroy(graph)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE


def test_a_node_of_any_type(context, word):
    graph = checked(cu.cuGraphCreate(0))
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    params.memset.dst = word
    params.memset.value = 77
    params.memset.elementSize = 4
    params.memset.width = params.memset.height = 1
    node = checked(cu.cuGraphAddNode(graph, None, None, 0, params))
    assert checked(cu.cuGraphMemsetNodeGetParams(node)).value == 77
    executable = checked(cu.cuGraphInstantiate(graph, 0))
    checked(cu.cuGraphLaunch(executable, 0))
    assert read(word) == 77
    params.memset.value = 78
    checked(cu.cuGraphExecNodeSetParams(executable, node, params))
    checked(cu.cuGraphLaunch(executable, 0))
    assert read(word) == 78
    checked(cu.cuGraphExecDestroy(executable))
    checked(cu.cuGraphDestroy(graph))


def test_capture_and_its_rules(add, word):
    stream = checked(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
    mode = cu.CUstreamCaptureMode
    checked(cu.cuStreamBeginCapture(stream, mode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    checked(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, ((word, 5), (None, ctypes.c_int)), 0))
    info = checked(cu.cuStreamGetCaptureInfo(stream))
    assert info[0] == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE and len(info[3]) == 1
    graph = checked(cu.cuStreamEndCapture(stream))
    executable = checked(cu.cuGraphInstantiate(graph, 0))
    checked(cu.cuGraphLaunch(executable, stream))
    checked(cu.cuStreamSynchronize(stream))
    assert read(word) == 5
    checked(cu.cuStreamBeginCapture(stream, mode.CU_STREAM_CAPTURE_MODE_RELAXED))
    assert cu.cuStreamSynchronize(stream)[0] == cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert cu.cuStreamEndCapture(stream)[0] == cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    checked(cu.cuStreamBeginCapture(stream, mode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    assert cu.cuMemAlloc(64)[0] == cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert cu.cuStreamEndCapture(stream)[0] == cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    checked(cu.cuGraphExecDestroy(executable))
    checked(cu.cuGraphDestroy(graph))
    checked(cu.cuStreamDestroy(stream))
