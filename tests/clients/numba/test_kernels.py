"""What numba users write: kernels on arrays, shared memory, atomics, reductions, device functions, math."""

import math

import numpy as np
import pytest
from numba import cuda, float32, int32, types

THREADS = 128


def blocks_for(n):
    return (n + THREADS - 1) // THREADS


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.complex64])
def test_vector_add(dtype):
    n = 10_007
    a = np.arange(n).astype(dtype)
    b = (2 * np.arange(n)[::-1]).astype(dtype)
    out = np.zeros(n, dtype)
    add[blocks_for(n), THREADS](a, b, out)
    np.testing.assert_array_equal(out, a + b)


def test_arrays_stay_on_the_device():
    a = cuda.to_device(np.arange(5000.0))
    b = cuda.device_array_like(a)
    for _ in range(10):
        add[blocks_for(5000), THREADS](a, a, b)
        a, b = b, a
    np.testing.assert_array_equal(a.copy_to_host(), np.arange(5000.0) * 2**10)


def test_two_dimensions_and_strides():
    @cuda.jit
    def transpose(source, target):
        i, j = cuda.grid(2)
        if i < source.shape[0] and j < source.shape[1]:
            target[j, i] = source[i, j]

    source = np.arange(37 * 53, dtype=np.float32).reshape(37, 53)
    target = cuda.device_array((53, 37), np.float32)
    transpose[(5, 7), (8, 8)](cuda.to_device(source), target)
    np.testing.assert_array_equal(target.copy_to_host(), source.T)
    every_other = np.ascontiguousarray(source[::2, 1::3])
    target = cuda.device_array(every_other.T.shape, np.float32)
    transpose[(5, 7), (8, 8)](cuda.to_device(source)[::2, 1::3], target)
    np.testing.assert_array_equal(target.copy_to_host(), every_other.T)


@cuda.jit
def matmul(a, b, c):
    tile_a = cuda.shared.array((8, 8), float32)
    tile_b = cuda.shared.array((8, 8), float32)
    row, column = cuda.grid(2)
    ty, tx = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for tile in range(a.shape[1] // 8):
        tile_a[ty, tx] = a[row, tile * 8 + tx]
        tile_b[ty, tx] = b[tile * 8 + ty, column]
        cuda.syncthreads()
        for k in range(8):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def test_shared_memory_tiles():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((64, 32)).astype(np.float32)
    b = rng.standard_normal((32, 48)).astype(np.float32)
    c = np.zeros((64, 48), np.float32)
    matmul[(8, 6), (8, 8)](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_dynamic_shared_memory():
    @cuda.jit
    def reverse(values):
        shared = cuda.shared.array(0, int32)
        i = cuda.threadIdx.x
        shared[i] = values[i]
        cuda.syncthreads()
        values[i] = shared[cuda.blockDim.x - 1 - i]

    values = np.arange(256, dtype=np.int32)
    reverse[1, 256, 0, 256 * 4](values)
    np.testing.assert_array_equal(values, np.arange(256)[::-1])


def test_atomics():
    @cuda.jit
    def histogram(values, bins, largest, total):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(bins, values[i] % bins.size, 1)
            cuda.atomic.max(largest, 0, values[i])
            cuda.atomic.add(total, 0, float(values[i]))

    rng = np.random.default_rng(2)
    values = rng.integers(0, 1000, 20_000).astype(np.int32)
    bins, largest, total = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(1)
    histogram[blocks_for(values.size), THREADS](values, bins, largest, total)
    np.testing.assert_array_equal(bins, np.bincount(values % 32, minlength=32))
    assert largest[0] == values.max()
    # The sum of whole numbers below 2^53 is exact in any order.
    assert total[0] == values.sum()


def test_compare_and_swap_takes_each_ticket_once():
    @cuda.jit
    def take(tickets, taken):
        i = cuda.grid(1)
        for ticket in range(tickets.size):
            if cuda.atomic.cas(tickets, ticket, 0, i + 1) == 0:
                taken[i] = ticket
                return

    tickets, taken = np.zeros(64, np.int32), np.full(64, -1, np.int32)
    take[2, 32](tickets, taken)
    np.testing.assert_array_equal(np.sort(taken), np.arange(64))
    np.testing.assert_array_equal(tickets[taken], np.arange(64) + 1)


def test_reduction():
    total = cuda.reduce(lambda a, b: a + b)
    values = np.arange(12_345, dtype=np.float64)
    assert total(values) == values.sum()
    largest = cuda.reduce(lambda a, b: max(a, b))
    shuffled = np.random.default_rng(3).permutation(values)
    assert largest(shuffled, init=-1.0) == 12_344.0


def test_warp_shuffles():
    @cuda.jit
    def sums(values, out):
        i = cuda.grid(1)
        value = values[i]
        offset = 16
        while offset > 0:
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
            offset //= 2
        if cuda.laneid == 0:
            out[i // 32] = value
        if cuda.ballot_sync(0xFFFFFFFF, cuda.laneid % 2 == 0) != 0x55555555:
            out[i // 32] = -1

    values = np.random.default_rng(4).integers(0, 100, 256).astype(np.int32)
    out = np.zeros(8, np.int32)
    sums[2, 128](values, out)
    np.testing.assert_array_equal(out, values.reshape(8, 32).sum(axis=1))


@cuda.jit(device=True)
def polynomial(x, degree):
    value = 0.0
    for power in range(degree, -1, -1):
        value = value * x + power
    return value


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def test_device_functions():
    @cuda.jit
    def evaluate(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = polynomial(x[i], 5)

    x = np.linspace(-1, 1, 500)
    out = np.zeros_like(x)
    evaluate[blocks_for(x.size), THREADS](x, out)
    np.testing.assert_allclose(out, np.polyval([5, 4, 3, 2, 1, 0], x), rtol=1e-13, atol=1e-13)


def test_local_and_constant_memory():
    table = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)

    @cuda.jit
    def sorted_rotation(out):
        constant = cuda.const.array_like(table)
        local = cuda.local.array(8, int32)
        start = cuda.grid(1)
        for i in range(8):
            local[i] = constant[(start + i) % 8] * (start + 1)
        for i in range(8):
            for j in range(7 - i):
                if local[j] > local[j + 1]:
                    local[j], local[j + 1] = local[j + 1], local[j]
        for i in range(8):
            out[start, i] = local[i]

    out = np.zeros((16, 8), np.int32)
    sorted_rotation[2, 8](out)
    expected = np.sort(table)[None, :] * (np.arange(16)[:, None] + 1)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "sqrt", "tanh", "erf", "atan", "pow"])
def test_math(name):
    function = getattr(math, name)
    if name == "pow":

        @cuda.jit
        def kernel(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = math.pow(x[i], 2.5)

        reference = np.array([math.pow(value, 2.5) for value in np.linspace(0.1, 4, 300)])
    else:

        @cuda.jit
        def kernel(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = function(x[i])

        reference = np.array([function(value) for value in np.linspace(0.1, 4, 300)])
    x = np.linspace(0.1, 4, 300)
    out = np.zeros_like(x)
    kernel[blocks_for(x.size), THREADS](x, out)
    np.testing.assert_allclose(out, reference, rtol=1e-12)


def test_records_and_tuples():
    point = np.dtype([("x", np.float32), ("y", np.float32), ("hits", np.int32)])

    @cuda.jit
    def move(points, step):
        i = cuda.grid(1)
        if i < points.size:
            points[i].x += step[0]
            points[i].y += step[1]
            points[i].hits = i

    points = np.zeros(100, point)
    move[1, 128](points, (np.float32(1.5), np.float32(-2.0)))
    assert (points["x"] == 1.5).all() and (points["y"] == -2.0).all()
    np.testing.assert_array_equal(points["hits"], np.arange(100))


def test_vectorize():
    from numba import vectorize

    @vectorize([types.float32(types.float32, types.float32)], target="cuda")
    def hypotenuse(a, b):
        return math.sqrt(a * a + b * b)

    a = np.linspace(0, 3, 1000, dtype=np.float32)
    b = np.linspace(4, 1, 1000, dtype=np.float32)
    np.testing.assert_allclose(hypotenuse(a, b), np.hypot(a, b), rtol=1e-6)


def test_random_numbers_repeat():
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    @cuda.jit
    def inside(states, rounds, counts):
        i = cuda.grid(1)
        count = 0
        for _ in range(rounds):
            x = xoroshiro128p_uniform_float32(states, i)
            y = xoroshiro128p_uniform_float32(states, i)
            if x * x + y * y <= 1.0:
                count += 1
        counts[i] = count

    results = []
    for _ in range(2):
        states = create_xoroshiro128p_states(256, seed=7)
        counts = np.zeros(256, np.int32)
        inside[2, 128](states, 200, counts)
        results.append(counts)
    np.testing.assert_array_equal(*results)
    assert abs(4 * results[0].mean() / 200 - math.pi) < 0.1


def test_recursion():
    @cuda.jit("void(int64[:])")
    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = fibonacci(i)

    out = np.zeros(12, np.int64)
    kernel[1, 32](out)
    np.testing.assert_array_equal(out, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
