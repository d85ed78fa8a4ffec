//! Tensor cores.

use super::Row;

const A2: &str = "{%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6}";
const D4A4B2: &str =
    "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10, %r11, %r12, %r13}";
const D4A2B1: &str = "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r7, %r8, %r9, %r10}";
const D2A1B1: &str = "{%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}";

pub(super) const MATRIX: &[Row] = &[
    ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", A2),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.{f16.f16,bf16.bf16}.f32",
        D4A2B1,
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32",
        D4A4B2,
    ),
    ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", D4A2B1),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", D4A4B2),
    (
        "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32",
        D4A4B2,
    ),
    (
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "{%d0, %d1}, {%d2}, {%d3}, {%d4, %d5}",
    ),
    (
        "mma.sync.aligned.{m8n8k16}.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32",
        D2A1B1,
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32",
        D4A2B1,
    ),
    (
        "mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{u8,s8}.{u8,s8}.s32",
        D4A4B2,
    ),
    (
        "mma.sync.aligned.m8n8k32.row.col{,.satfinite}.s32.{u4,s4}.{u4,s4}.s32",
        D2A1B1,
    ),
    (
        "mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{u4,s4}.{u4,s4}.s32",
        D4A2B1,
    ),
    (
        "mma.sync.aligned.m16n8k64.row.col{,.satfinite}.s32.{u4,s4}.{u4,s4}.s32",
        D4A4B2,
    ),
    (
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc",
        D2A1B1,
    ),
    (
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc",
        D4A2B1,
    ),
    (
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{xor,and}.popc",
        D4A4B2,
    ),
    (
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r8, %r9, %r10, %r11}, %r12, 0",
    ),
    (
        "ldmatrix.sync.aligned.m8n8.x1{,.trans}.shared.b16",
        "{%r0}, [%r1]",
    ),
    (
        "ldmatrix.sync.aligned.m8n8.x2{,.trans}.shared.b16",
        "{%r0, %r2}, [%r1]",
    ),
    (
        "ldmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16",
        "{%r0, %r2, %r3, %r4}, [%r1]",
    ),
    (
        "stmatrix.sync.aligned.m8n8.x1{,.trans}.shared.b16",
        "[%r1], {%r0}",
    ),
    (
        "stmatrix.sync.aligned.m8n8.x2{,.trans}.shared.b16",
        "[%r1], {%r0, %r2}",
    ),
    (
        "stmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16",
        "[%r1], {%r0, %r2, %r3, %r4}",
    ),
    ("movmatrix.sync.aligned.m8n8.trans.b16", "%r0, %r1"),
    (
        "wmma.load.{a,b}.sync.aligned.{row,col}.{m16n16k16,m8n32k16,m32n8k16}.global.f16",
        "@8, [%l0], %r40",
    ),
    (
        "wmma.load.c.sync.aligned.{row,col}.{m16n16k16,m8n32k16,m32n8k16}.global.{f32,s32}",
        "@8, [%l0], %r40",
    ),
    (
        "wmma.mma.sync.aligned.{row,col}.{row,col}.{m16n16k16,m8n32k16,m32n8k16}.f32.f32",
        "@8, @8, @8, @8",
    ),
    (
        "wmma.store.d.sync.aligned.{row,col}.{m16n16k16,m8n32k16,m32n8k16}.global.{f32,s32}",
        "[%l0], @8, %r40",
    ),
];
