"""Taichi: heat in a plate, a histogram by atomic operations, and sums, against NumPy.

Taichi takes its memory at once; unless it is told how much, half of the device's.
"""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, device_memory_GB=0.25, log_level=ti.ERROR)

SIZE, STEPS, BINS = 48, 60, 16
plate = ti.field(ti.f32, shape=(2, SIZE, SIZE))
counts = ti.field(ti.i32, shape=BINS)


@ti.kernel
def step(source: ti.i32):
    for i, j in ti.ndrange((1, SIZE - 1), (1, SIZE - 1)):
        around = (
            plate[source, i - 1, j] + plate[source, i + 1, j] + plate[source, i, j - 1] + plate[source, i, j + 1]
        )
        plate[1 - source, i, j] = 0.25 * around


@ti.kernel
def histogram(values: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(values.shape[0]):
        ti.atomic_add(counts[ti.cast(values[i] * BINS, ti.i32)], 1)


@ti.kernel
def mean() -> ti.f32:
    total = 0.0
    for i, j in ti.ndrange(SIZE, SIZE):
        total += plate[0, i, j]
    return total / (SIZE * SIZE)


start = np.zeros((2, SIZE, SIZE), np.float32)
start[:, 0, :] = 100
plate.from_numpy(start)
due = start[0].copy()
for number in range(STEPS):
    step(number % 2)
    due[1:-1, 1:-1] = 0.25 * (due[:-2, 1:-1] + due[2:, 1:-1] + due[1:-1, :-2] + due[1:-1, 2:])
assert np.allclose(plate.to_numpy()[0], due, rtol=1e-4), "heat"
assert np.isclose(mean(), due.mean(), rtol=1e-4), "mean"
values = np.random.default_rng(1).random(5000, np.float32)
histogram(values)
assert (counts.to_numpy() == np.histogram(values, BINS, (0, 1))[0]).all(), "histogram"
print("right")
