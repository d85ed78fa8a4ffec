"""Pointwise kernels: addition with a mask, a fused activation, selection, dropout with the built-in generator."""

import triton
import triton.language as tl


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def triton_silu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at, mask=mask).to(tl.float32)
    tl.store(out + at, (v * tl.sigmoid(v)).to(tl.float16), mask=mask)


@triton.jit
def triton_clip(x, out, low, high, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at, mask=mask, other=0)
    tl.store(out + at, tl.where(v % 3 == 0, tl.minimum(tl.maximum(v, low), high), -v), mask=mask)


@triton.jit
def triton_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=mask) / (1 - p), 0.0), mask=mask)


ADD = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
KERNELS = [
    ("add", triton_add, ADD, {"BLOCK": 256}, [75, 80, 90, 100], 4),
    ("silu", triton_silu, {"x": "*fp16", "out": "*fp16", "n": "i32"}, {"BLOCK": 1024}, [80, 90], 4),
    ("clip", triton_clip, {"x": "*i32", "out": "*i32", "low": "i32", "high": "i32", "n": "i32"}, {"BLOCK": 128}, [75, 80], 2),
    ("dropout", triton_dropout, {"x": "*fp32", "out": "*fp32", "n": "i32", "p": "fp32", "seed": "i32"}, {"BLOCK": 256}, [80], 4),
]
