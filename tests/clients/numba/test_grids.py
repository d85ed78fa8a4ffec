"""Blocks that wait for each other: barriers of the whole grid, made by hand and by cooperative groups, and chains."""

import numpy as np
import pytest
from numba import cuda


@cuda.jit
def barrier(count):
    cuda.atomic.add(count, 0, 1)
    while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x:
        pass


@cuda.jit
def chain(flags):
    block = cuda.blockIdx.x
    if block < cuda.gridDim.x - 1:
        while cuda.atomic.add(flags, block + 1, 0) == 0:
            pass
    cuda.atomic.exch(flags, block, 1)


@cuda.jit
def backwards(flags):
    block = cuda.blockIdx.x
    if block > 0:
        while cuda.atomic.add(flags, block - 1, 0) == 0:
            cuda.nanosleep(100)
    cuda.atomic.exch(flags, block, 1)


@cuda.jit
def rows(a):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    n = a.shape[1]
    for r in range(1, a.shape[0]):
        a[r, i] = a[r - 1, n - 1 - i] + 1
        grid.sync()


@pytest.mark.parametrize("blocks", [1, 3, 64, 200])
def test_a_barrier_of_all_blocks(blocks):
    count = np.zeros(1, np.int32)
    barrier[blocks, 32](count)
    assert count[0] == 32 * blocks


@pytest.mark.parametrize("blocks", [2, 3, 64, 500])
def test_chains(blocks):
    flags = np.zeros(blocks, np.int32)
    chain[blocks, 1](flags)
    assert flags.all()


def test_a_chain_of_more_blocks_than_the_device_holds():
    flags = np.zeros(20_000, np.int32)
    backwards[20_000, 1](flags)
    assert flags.all()


@pytest.mark.parametrize("shape", [(1, 32), (4, 64), (100, 128)])
def test_the_grid_meets_between_rows(shape):
    threads = shape[0] * shape[1]
    a = cuda.to_device(np.zeros((12, threads), np.int32))
    rows[shape](a)
    np.testing.assert_array_equal(a.copy_to_host()[-1], np.full(threads, 11))


def test_a_grid_that_does_not_fit():
    a = cuda.to_device(np.zeros((2, 64), np.int32))
    rows[2, 32](a)
    (compiled,) = rows.overloads.values()
    most = compiled.max_cooperative_grid_blocks(128)
    assert most >= cuda.get_current_device().MULTIPROCESSOR_COUNT
    with pytest.raises(Exception, match="exceeds the limit"):
        rows[most + 1, 128](cuda.to_device(np.zeros((2, (most + 1) * 128), np.int32)))
    cuda.synchronize()
