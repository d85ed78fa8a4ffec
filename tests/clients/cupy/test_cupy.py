"""CuPy: arrays, elementwise kernels, reductions, sorting, random numbers, raw kernels and modules, streams, pools.

Its packages have the runtime library linked in; `gridmux run` puts gridmux's in its place.
"""

import cupy as cp
import numpy as np
import pytest


@pytest.fixture
def values():
    return np.random.default_rng(7).random(10_000, dtype=np.float32)


def test_the_runtime_library_is_gridmuxs():
    assert cp.cuda.runtime.getDeviceCount() == 1
    assert cp.cuda.runtime.runtimeGetVersion() // 1000 in (12, 13)
    properties = cp.cuda.runtime.getDeviceProperties(0)
    assert properties["warpSize"] == 32 and properties["name"].startswith(b"gridmux")
    free, total = cp.cuda.runtime.memGetInfo()
    assert 0 < free <= total


def test_elementwise(values):
    on_device = cp.asarray(values)
    result = cp.sqrt(on_device) + cp.sin(on_device) * 2
    np.testing.assert_allclose(result.get(), np.sqrt(values) + np.sin(values) * 2, atol=1e-5)
    chosen = cp.where(on_device > 0.5, on_device, -on_device)
    np.testing.assert_array_equal(chosen.get(), np.where(values > 0.5, values, -values))
    halves = on_device.astype(cp.float16).astype(cp.float64)
    np.testing.assert_array_equal(halves.get(), values.astype(np.float16).astype(np.float64))


def test_reductions(values):
    on_device = cp.asarray(values).reshape(100, 100)
    host = values.reshape(100, 100)
    np.testing.assert_allclose(on_device.sum(axis=0).get(), host.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(float(on_device.mean()), host.mean(), rtol=1e-5)
    assert int(on_device.argmax()) == host.argmax()
    np.testing.assert_allclose(cp.cumsum(cp.asarray(values)).get(), np.cumsum(values), rtol=1e-3)


def test_sorting(values):
    on_device = cp.asarray(values)
    np.testing.assert_array_equal(cp.sort(on_device).get(), np.sort(values))
    np.testing.assert_array_equal(cp.argsort(on_device).get(), np.argsort(values, kind="stable"))
    keys = cp.asarray((values * 10).astype(np.int32))
    np.testing.assert_array_equal(cp.unique(keys).get(), np.unique((values * 10).astype(np.int32)))


def test_random_numbers():
    # Making a generator is what takes long.
    numbers = cp.random.default_rng(1).random(10_000)
    assert 0 <= float(numbers.min()) < 0.01 and 0.99 < float(numbers.max()) < 1
    assert abs(float(numbers.mean()) - 0.5) < 0.02


def test_indexing_and_views(values):
    on_device = cp.asarray(values)
    np.testing.assert_array_equal(cp.nonzero(on_device > 0.9)[0].get(), np.nonzero(values > 0.9)[0])
    np.testing.assert_array_equal(on_device[::3][::-1].get(), values[::3][::-1])
    on_device[10:20] = 5
    assert (on_device[10:20] == 5).all()
    tiled = cp.concatenate([on_device[:4], cp.arange(4, dtype=cp.float32)]).reshape(2, 4).T
    assert tiled.shape == (4, 2) and float(tiled[3, 1]) == 3


def test_kernels_of_ones_own(values):
    on_device = cp.asarray(values)
    squares = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")
    np.testing.assert_allclose(squares(on_device, on_device * 2).get(), values * values, atol=1e-5)
    length = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length_of_vector")
    np.testing.assert_allclose(float(length(on_device)), np.linalg.norm(values), rtol=1e-4)

    @cp.fuse()
    def fused(a, b):
        return (a - b) ** 2 + cp.exp(a)

    np.testing.assert_allclose(fused(on_device, on_device + 1).get(), 1 + np.exp(values), rtol=1e-4)


def test_raw_kernels(values):
    add = cp.RawKernel(
        r"""
        extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) c[i] = a[i] + b[i];
        }
        """,
        "add",
    )
    on_device = cp.asarray(values)
    result = cp.empty_like(on_device)
    add((40,), (256,), (on_device, on_device, result, np.int32(values.size)))
    np.testing.assert_array_equal(result.get(), values + values)
    assert add.num_regs >= 0 and add.max_threads_per_block > 0


def test_raw_modules():
    code = r"""
    __constant__ int offsets[2];
    template <typename T> __global__ void scale(T *x) { x[threadIdx.x] = x[threadIdx.x] * T(3) + offsets[1]; }
    """
    module = cp.RawModule(code=code, options=("-std=c++17",), name_expressions=["scale<float>", "scale<int>"])
    offsets = cp.ndarray((2,), cp.int32, module.get_global("offsets"))
    offsets[...] = cp.array([1, 2], dtype=cp.int32)
    for dtype, name in ((cp.float32, "scale<float>"), (cp.int32, "scale<int>")):
        data = cp.ones(32, dtype=dtype)
        module.get_function(name)((1,), (32,), (data,))
        assert (data == 5).all()


def test_streams_events_and_pools(values):
    start, end = cp.cuda.Event(), cp.cuda.Event()
    with cp.cuda.Stream(non_blocking=True) as stream:
        start.record()
        doubled = cp.asarray(values) * 2
        end.record()
    stream.synchronize()
    assert cp.cuda.get_elapsed_time(start, end) >= 0
    np.testing.assert_array_equal(doubled.get(), values * 2)
    pool = cp.get_default_memory_pool()
    assert pool.used_bytes() >= doubled.nbytes
    with cp.cuda.using_allocator(cp.cuda.MemoryAsyncPool().malloc):
        assert int(cp.arange(100).sum()) == 4950


def test_memory_that_is_not_there():
    with pytest.raises(cp.cuda.memory.OutOfMemoryError):
        cp.empty(1 << 50, dtype=cp.uint8)
    assert int(cp.ones(3, dtype=cp.int32).sum()) == 3
