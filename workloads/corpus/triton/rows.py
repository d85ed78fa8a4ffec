"""Kernels with one program for each row: softmax, layer norm, sums, arg max, prefix sums, sorting."""

import triton
import triton.language as tl


@triton.jit
def triton_softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def triton_layer_norm(x, gamma, beta, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    centred = tl.where(mask, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    tl.store(out + row * columns + at, centred * scale * tl.load(gamma + at, mask=mask) + tl.load(beta + at, mask=mask), mask=mask)


@triton.jit
def triton_row_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0)
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit
def triton_arg_max(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(v, axis=0))


@triton.jit
def triton_cumsum(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def triton_sort(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


KERNELS = [
    ("softmax", triton_softmax, {"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 512}, [75, 80, 90, 100], 4),
    ("layer_norm", triton_layer_norm, {"x": "*fp32", "gamma": "*fp32", "beta": "*fp32", "out": "*fp32", "columns": "i32", "epsilon": "fp32"}, {"BLOCK": 256}, [80, 90], 4),
    ("row_sum", triton_row_sum, {"x": "*i32", "out": "*i32", "columns": "i32"}, {"BLOCK": 128}, [80, 100], 4),
    ("arg_max", triton_arg_max, {"x": "*fp32", "out": "*i32", "columns": "i32"}, {"BLOCK": 128}, [80], 2),
    ("cumsum", triton_cumsum, {"x": "*i32", "out": "*i32"}, {"BLOCK": 256}, [75, 80], 4),
    ("sort", triton_sort, {"x": "*i32", "out": "*i32"}, {"BLOCK": 64}, [80], 2),
]
