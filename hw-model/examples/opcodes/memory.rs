//! What goes to memory: moves, loads and stores, atomic operations, textures and surfaces.

use super::Row;

pub(super) const DATA: &[Row] = &[
    ("mov.{b16,u16,s16}", "%h0, %h1"),
    ("mov.{b32,u32,s32}", "%r0, %r1"),
    ("mov.f32", "%f0, %f1"),
    ("mov.{b64,u64,s64}", "%l0, %l1"),
    ("mov.f64", "%d0, %d1"),
    ("mov.pred", "%p0, %p1"),
    ("mov.b128", "%w0, {%l0, %l1}"),
    ("cvta.{global,shared,local,const}.u64", "%l0, %l1"),
    ("cvta.to.{global,shared,local,const}.u64", "%l0, %l1"),
    ("isspacep.{global,shared,local,const}", "%p0, %l1"),
    (
        "ld{,.global,.shared,.local,.const}.{u8,s8,b8,u16,s16,b16}",
        "%h0, [%l1]",
    ),
    (
        "ld{,.global,.shared,.local,.const}.{u32,s32,b32}",
        "%r0, [%l1]",
    ),
    (
        "ld{,.global,.shared,.local,.const}.{u64,s64,b64}",
        "%l0, [%l1]",
    ),
    ("ld{,.global,.shared,.local,.const}.f32", "%f0, [%l1]"),
    ("ld{,.global,.shared,.local,.const}.f64", "%d0, [%l1]"),
    ("ld{.global,.shared}.v2.{u8,b16}", "{%h0, %h1}, [%l1]"),
    (
        "ld{.global,.shared}.v4.{u8,b16}",
        "{%h0, %h1, %h2, %h3}, [%l1]",
    ),
    ("ld{.global,.shared}.v2.b32", "{%r0, %r1}, [%l1]"),
    ("ld{.global,.shared}.v4.b32", "{%r0, %r1, %r2, %r3}, [%l1]"),
    ("ld{.global,.shared}.v2.b64", "{%l2, %l3}, [%l1]"),
    ("ld.global.v4.b64", "{%l2, %l3, %l4, %l5}, [%l1]"),
    (
        "ld.global.v8.b32",
        "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%l1]",
    ),
    ("ld{.global,.shared}.b128", "%w0, [%l1]"),
    ("ld.global{.nc,.ca,.cg,.cs,.lu,.cv}.u32", "%r0, [%l1]"),
    (
        "ld{.volatile,.relaxed.gpu,.acquire.sys}.global.u32",
        "%r0, [%l1]",
    ),
    ("st{,.global,.shared,.local}.{u8,u16,b16}", "[%l1], %h0"),
    ("st{,.global,.shared,.local}.{u32,s32,b32}", "[%l1], %r0"),
    ("st{,.global,.shared,.local}.{u64,b64}", "[%l1], %l0"),
    ("st{,.global,.shared,.local}.f32", "[%l1], %f0"),
    ("st{,.global,.shared,.local}.f64", "[%l1], %d0"),
    ("st{.global,.shared}.v4.b32", "[%l1], {%r0, %r1, %r2, %r3}"),
    ("st{.global,.shared}.b128", "[%l1], %w0"),
    (
        "st{.volatile,.relaxed.gpu,.release.sys}.global.u32",
        "[%l1], %r0",
    ),
    ("prefetch.global.L1", "[%l1]"),
    ("prefetchu.L1", "[%l1]"),
];

pub(super) const ATOMIC: &[Row] = &[
    (
        "atom{,.global,.shared}.{add,min,max}.{u32,s32}",
        "%r0, [%l1], %r2",
    ),
    (
        "atom{,.global,.shared}.{add,min,max}.u64",
        "%l0, [%l1], %l2",
    ),
    ("atom{,.global,.shared}.{min,max}.s64", "%l0, [%l1], %l2"),
    (
        "atom{,.global,.shared}.{and,or,xor,exch}.b32",
        "%r0, [%l1], %r2",
    ),
    (
        "atom{,.global,.shared}.{and,or,xor,exch}.b64",
        "%l0, [%l1], %l2",
    ),
    ("atom{,.global,.shared}.{inc,dec}.u32", "%r0, [%l1], %r2"),
    ("atom{,.global,.shared}.cas.b16", "%h0, [%l1], %h2, %h3"),
    ("atom{,.global,.shared}.cas.b32", "%r0, [%l1], %r2, %r3"),
    ("atom{,.global,.shared}.cas.b64", "%l0, [%l1], %l2, %l3"),
    ("atom{,.global,.shared}.add.f32", "%f0, [%l1], %f2"),
    ("atom{,.global,.shared}.add.f64", "%d0, [%l1], %d2"),
    (
        "atom{,.global,.shared}.add.noftz.{f16,bf16}",
        "%h0, [%l1], %h2",
    ),
    (
        "atom{,.global,.shared}.add.noftz.{f16x2,bf16x2}",
        "%r0, [%l1], %r2",
    ),
    ("atom.global.add.v2.f32", "{%f0, %f1}, [%l1], {%f2, %f3}"),
    (
        "atom.global.add.v4.f32",
        "{%f0, %f1, %f2, %f3}, [%l1], {%f2, %f3, %f0, %f1}",
    ),
    (
        "atom.global.{add,min,max}.noftz.v4.{f16x2,bf16x2}",
        "{%r0, %r1, %r2, %r3}, [%l1], {%r2, %r3, %r0, %r1}",
    ),
    ("atom.global.exch.b128", "%w0, [%l1], %w1"),
    ("atom.global.cas.b128", "%w0, [%l1], %w1, %w2"),
    (
        "red{,.global,.shared}.{add,min,max}.{u32,s32}",
        "[%l1], %r2",
    ),
    ("red{,.global,.shared}.{add,min,max}.u64", "[%l1], %l2"),
    ("red{,.global,.shared}.{and,or,xor}.b32", "[%l1], %r2"),
    ("red{,.global,.shared}.{inc,dec}.u32", "[%l1], %r2"),
    ("red{,.global,.shared}.add.f32", "[%l1], %f2"),
    ("red{,.global,.shared}.add.f64", "[%l1], %d2"),
    (
        "red{,.global,.shared}.add.noftz.{f16x2,bf16x2}",
        "[%l1], %r2",
    ),
];

pub(super) const TEXTURE: &[Row] = &[
    (
        "tex.1d.v4.{f32,s32,u32}.s32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%r4}]",
    ),
    (
        "tex.1d.v4.{f32,s32,u32}.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%f4}]",
    ),
    (
        "tex.2d.v4.{f32,s32,u32}.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%f4, %f5}]",
    ),
    (
        "tex.3d.v4.{f32,s32,u32}.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%f4, %f5, %f6, %f6}]",
    ),
    (
        "tex.a1d.v4.{f32,s32,u32}.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%r4, %f5}]",
    ),
    (
        "tex.a2d.v4.{f32,s32,u32}.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%r4, %f5, %f6, %f6}]",
    ),
    (
        "tex.cube.v4.f32.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%f4, %f5, %f6, %f6}]",
    ),
    (
        "tld4.{r,g,b,a}.2d.v4.f32.f32",
        "{%r0, %r1, %r2, %r3}, [%l0, {%f4, %f5}]",
    ),
    (
        "txq.{width,height,depth,channel_data_type,channel_order,normalized_coords,filter_mode,addr_mode_0}.b32",
        "%r0, [%l0]",
    ),
    (
        "suq.{width,height,depth,channel_data_type,channel_order}.b32",
        "%r0, [%l0]",
    ),
    ("suld.b.1d.b32.{trap,clamp,zero}", "%r0, [%l0, {%r4}]"),
    ("suld.b.2d.b32.{trap,clamp,zero}", "%r0, [%l0, {%r4, %r5}]"),
    (
        "suld.b.3d.b32.{trap,clamp,zero}",
        "%r0, [%l0, {%r4, %r5, %r6, %r6}]",
    ),
    (
        "suld.b.2d.v4.b32.{trap,clamp,zero}",
        "{%r0, %r1, %r2, %r3}, [%l0, {%r4, %r5}]",
    ),
    ("sust.b.1d.b32.{trap,clamp,zero}", "[%l0, {%r4}], %r0"),
    ("sust.b.2d.b32.{trap,clamp,zero}", "[%l0, {%r4, %r5}], %r0"),
    (
        "sust.p.2d.v4.b32.trap",
        "[%l0, {%r4, %r5}], {%r0, %r1, %r2, %r3}",
    ),
    (
        "sured.b.{add,min,max}.2d.{u32,s32}.{trap,clamp,zero}",
        "[%l0, {%r4, %r5}], %r0",
    ),
];
