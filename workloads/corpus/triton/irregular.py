"""Kernels with indirect and contended accesses: gathers, histograms by atomics, a lock, inline assembly, transposition."""

import triton
import triton.language as tl


@triton.jit
def triton_gather(x, indices, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + tl.load(indices + at, mask=mask, other=0), mask=mask), mask=mask)


@triton.jit
def triton_histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.atomic_add(bins + tl.load(x + at, mask=mask, other=0) % 16, 1, mask=mask)


@triton.jit
def triton_locked_sum(x, out, lock, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.load(x + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(out + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def triton_inline(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    r = tl.inline_asm_elementwise(
        """{
            .reg .b32   t<2> ;
            shl.b32 t0 ,  $1, 3 ;  // spaced freely
            lop3.b32 t1, t0, $1 , 0xff , 0x6a ;
            prmt.b32   $0 , t1, t0, 0x1032;
        }""",
        "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + at, r, mask=at < n)


@triton.jit
def triton_transpose(x, out, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + rows[:, None] * n + columns[None, :], mask=(rows[:, None] < m) & (columns[None, :] < n))
    tl.store(out + columns[:, None] * m + rows[None, :], tl.trans(v), mask=(columns[:, None] < n) & (rows[None, :] < m))


KERNELS = [
    ("gather", triton_gather, {"x": "*fp32", "indices": "*i32", "out": "*fp32", "n": "i32"}, {"BLOCK": 256}, [80, 90], 4),
    ("histogram", triton_histogram, {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 128}, [75, 80], 4),
    ("locked_sum", triton_locked_sum, {"x": "*fp32", "out": "*fp32", "lock": "*i32", "count": "*i32"}, {"BLOCK": 128}, [80], 4),
    ("inline", triton_inline, {"x": "*i32", "out": "*i32", "n": "i32"}, {"BLOCK": 128}, [75, 80, 90], 4),
    ("transpose", triton_transpose, {"x": "*fp32", "out": "*fp32", "m": "i32", "n": "i32"}, {"BLOCK": 32}, [80, 100], 4),
]
