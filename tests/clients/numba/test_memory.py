"""Memory that the program and kernels share: mapped, registered and managed."""

import gc

import numpy as np
from numba import cuda


@cuda.jit
def increment(values, amount):
    i = cuda.grid(1)
    if i < values.size:
        values[i] += amount


@cuda.jit
def wait_for(flag, answer):
    while flag[0] == 0:
        cuda.threadfence_system()
    answer[0] = flag[0] + 1


def test_a_mapped_array_is_seen_by_both():
    values = cuda.mapped_array(1000, dtype=np.int64)
    values[:] = np.arange(1000)
    for amount in (1, 10, 100):
        increment[8, 128](values, amount)
        cuda.synchronize()
    np.testing.assert_array_equal(values, np.arange(1000) + 111)


def test_a_kernel_waits_for_a_word_of_the_host():
    flag = cuda.mapped_array(1, dtype=np.int32)
    answer = cuda.mapped_array(1, dtype=np.int32)
    flag[0], answer[0] = 0, 0
    stream = cuda.stream()
    wait_for[1, 1, stream](flag, answer)
    flag[0] = 41
    stream.synchronize()
    assert answer[0] == 42


def test_memory_of_whole_pages_is_mapped_and_given_back():
    pages = np.zeros(3 * 4096 + 4096, np.uint8)
    start = -pages.ctypes.data % 4096
    values = pages[start : start + 8192].view(np.int32)
    values[:] = 5
    with cuda.mapped(values) as on_device:
        increment[16, 128](on_device, 2)
        cuda.synchronize()
        assert (values == 7).all()
    values[0] = 1
    assert (values[1:] == 7).all()


def test_a_managed_array_is_seen_by_both():
    values = cuda.managed_array(1000, dtype=np.float32)
    values[:] = 1.5
    for _ in range(3):
        increment[8, 128](values, 1)
        cuda.synchronize()
    assert (values == 4.5).all()
    assert np.asarray(values).sum() == 4500


def test_managed_memory_that_goes_is_free_again():
    context = cuda.current_context()

    def free():
        cuda.synchronize()
        gc.collect()
        context.memory_manager.deallocations.clear()
        return context.get_memory_info().free

    def use(count):
        values = cuda.managed_array(count, dtype=np.int64)
        values[:] = 3
        increment[count // 256, 256](values, 1)
        cuda.synchronize()
        return bool((np.asarray(values).view(np.ndarray) == 4).all()), context.get_memory_info().free

    # The kernel's module takes memory, too.
    use(256)
    before = free()
    is_right, meanwhile = use(1 << 20)
    assert is_right and meanwhile <= before - (8 << 20)
    assert free() == before
