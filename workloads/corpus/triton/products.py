"""Matrix products: half with a pipelined loop, float by TF32, bytes, eight-bit floats; attention; tensor descriptors."""

import triton
import triton.language as tl


@triton.jit
def triton_matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (start + inner)[None, :], mask=rows[:, None] < m, other=0.0)
        y = tl.load(b + (start + inner)[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def triton_matmul_int(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.int32)
    for start in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        y = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total += tl.dot(x, y)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def triton_attention(q, k, v, out, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    inner = tl.arange(0, D)
    head = tl.program_id(1) * length * D
    x = tl.load(q + head + rows[:, None] * D + inner[None, :])
    maximum = tl.full((M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    result = tl.zeros((M, D), dtype=tl.float32)
    for start in range(0, length, N):
        columns = start + tl.arange(0, N)
        scores = tl.dot(x, tl.load(k + head + columns[None, :] * D + inner[:, None])) * scale
        top = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp2(scores - top[:, None])
        shrink = tl.exp2(maximum - top)
        total = total * shrink + tl.sum(weights, 1)
        result = result * shrink[:, None]
        result = tl.dot(weights.to(tl.float16), tl.load(v + head + columns[:, None] * D + inner[None, :]), result)
        maximum = top
    tl.store(out + head + rows[:, None] * D + inner[None, :], (result / total[:, None]).to(tl.float16))


@triton.jit
def triton_descriptor(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    b_tiles = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row = tl.program_id(0) * M
    column = tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        total = tl.dot(a_tiles.load([row, start]), b_tiles.load([start, column]), total)
    c_tiles.store([row, column], total.to(tl.float16))


def matmul(t, out="*fp32"):
    return {"a": t, "b": t, "c": out, "m": "i32", "n": "i32", "k": "i32"}


KERNELS = [
    ("matmul_f16", triton_matmul, matmul("*fp16"), {"M": 32, "N": 32, "K": 32}, [75, 80, 90, 100], 4),
    ("matmul_bf16_large", triton_matmul, matmul("*bf16"), {"M": 128, "N": 128, "K": 64}, [90], 8),
    ("matmul_tf32", triton_matmul, matmul("*fp32"), {"M": 32, "N": 32, "K": 16}, [80], 4),
    ("matmul_fp8", triton_matmul, matmul("*fp8e4nv"), {"M": 64, "N": 64, "K": 64}, [90, 100], 4),
    ("matmul_s8", triton_matmul_int, {"a": "*i8", "b": "*i8", "c": "*i32", "n": "i32", "k": "i32"}, {"M": 32, "N": 32, "K": 32}, [80], 4),
    ("attention", triton_attention, {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "length": "i32", "scale": "fp32"}, {"M": 64, "N": 32, "D": 32}, [80, 90], 4),
    ("descriptor", triton_descriptor, matmul("*fp16", "*fp16"), {"M": 64, "N": 64, "K": 64}, [90, 100], 4),
]
