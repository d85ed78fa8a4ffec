"""Triton's tutorial kinds of kernels through its own driver interface, compiled for sm_80, without PyTorch."""

import numpy as np
import pytest
import triton
import triton.language as tl
from device import Array, empty
from triton.backends.compiler import GPUTarget


@pytest.fixture(scope="module", autouse=True)
def active():
    """Makes Triton's device current, which the first launch would do too late for the first allocation."""
    triton.runtime.driver.active.get_current_device()


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


def test_vector_add():
    n = 10_000
    x, y = (np.random.default_rng(seed).standard_normal(n).astype(np.float32) for seed in (1, 2))
    out = empty(n, np.float32)
    add_kernel[(triton.cdiv(n, 512),)](Array(x), Array(y), out, n, BLOCK=512)
    np.testing.assert_array_equal(out.numpy(), x + y)


def test_compiled_ahead_for_sm_80():
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(fn=add_kernel, signature=signature, constexprs={"BLOCK": 256})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
    assert ".target sm_80" in compiled.asm["ptx"]
    x = np.arange(1000, dtype=np.float32)
    out = empty(1000, np.float32)
    compiled[(triton.cdiv(1000, 256), 1, 1)](Array(x), Array(x), out, 1000, 256)
    np.testing.assert_array_equal(out.numpy(), 2 * x)


@triton.jit
def softmax_kernel(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets, parts / tl.sum(parts, axis=0), mask)


def test_softmax():
    x = np.random.default_rng(3).standard_normal((48, 300)).astype(np.float32)
    out = empty(x.shape, np.float32)
    softmax_kernel[(48,)](out, Array(x), 300, BLOCK=512)
    parts = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), parts / parts.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)


@triton.jit
def layer_norm_kernel(x, out, weight, bias, mean_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + offsets, offsets < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + offsets, offsets < columns, other=0.0)
        apart = tl.where(offsets < columns, value - mean, 0.0)
        squares += apart * apart
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        value = tl.load(x + row * columns + offsets, mask)
        normal = (value - mean) * scale
        scaled = normal * tl.load(weight + offsets, mask) + tl.load(bias + offsets, mask)
        tl.store(out + row * columns + offsets, scaled, mask)


def test_layer_norm():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((32, 700)).astype(np.float32)
    weight, bias = (rng.standard_normal(700).astype(np.float32) for _ in range(2))
    out, mean = empty(x.shape, np.float32), empty(32, np.float32)
    layer_norm_kernel[(32,)](Array(x), out, Array(weight), Array(bias), mean, 700, 1e-5, BLOCK=256)
    apart = x - x.mean(axis=1, keepdims=True)
    expected = apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out.numpy(), expected, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(mean.numpy(), x.mean(axis=1), rtol=1e-3, atol=1e-6)


@triton.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + start + inner[None, :], rows[:, None] < m, other=0.0)
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :], columns[None, :] < n, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, (rows[:, None] < m) & (columns[None, :] < n))


@pytest.mark.parametrize("stages", [1, 3])
def test_matrix_multiply(stages):
    rng = np.random.default_rng(5)
    a = rng.standard_normal((96, 128)).astype(np.float16)
    b = rng.standard_normal((128, 80)).astype(np.float16)
    c = empty((96, 80), np.float32)
    grid = (triton.cdiv(96, 32), triton.cdiv(80, 32))
    compiled = matmul_kernel[grid](Array(a), Array(b), c, 96, 80, 128, BM=32, BN=32, BK=32, num_stages=stages)
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
    # `gridmux run` has Triton compile for a GPU that the model covers, whatever the model's own capability.
    assert "mma.sync" in compiled.asm["ptx"] and "wgmma" not in compiled.asm["ptx"]
