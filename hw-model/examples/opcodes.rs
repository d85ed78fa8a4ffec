//! Which combinations of opcode, type and modifiers the model executes: each is put into a kernel of its own and
//! loaded. Prints one line a combination: the mnemonic, then `implemented` or why it was refused.
//!
//! `cargo xtask coverage opcodes` runs this and joins it with what the tests report.
//! Rule: nothing here says what is implemented; the loader does.
//! Length: the table of the PTX ISA's combinations stands in one place.

use gridmux_hw_model::{Gpu, GpuConfig};
use std::process::ExitCode;

/// A pattern of mnemonics (`{a,b}` means either, `{a,}` a or nothing) and operands over the registers that `kernel`
/// declares.
type Row = (&'static str, &'static str);

const INTEGER: &[Row] = &[
    (
        "{add,sub,mul.lo,mul.hi,div,rem,min,max}.{u16,s16}",
        "%h0, %h1, %h2",
    ),
    (
        "{add,sub,mul.lo,mul.hi,div,rem,min,max}.{u32,s32}",
        "%r0, %r1, %r2",
    ),
    (
        "{add,sub,mul.lo,mul.hi,div,rem,min,max}.{u64,s64}",
        "%l0, %l1, %l2",
    ),
    ("{add,sub}.sat.s32", "%r0, %r1, %r2"),
    ("{min,max}.relu.{s32,s16x2}", "%r0, %r1, %r2"),
    ("{add,min,max}.{u16x2,s16x2}", "%r0, %r1, %r2"),
    ("mul.wide.{u16,s16}", "%r0, %h1, %h2"),
    ("mul.wide.{u32,s32}", "%l0, %r1, %r2"),
    ("mad.wide.{u16,s16}", "%r0, %h1, %h2, %r3"),
    ("mad.wide.{u32,s32}", "%l0, %r1, %r2, %l3"),
    ("{mad.lo,mad.hi,sad}.{u16,s16}", "%h0, %h1, %h2, %h3"),
    ("{mad.lo,mad.hi,sad}.{u32,s32}", "%r0, %r1, %r2, %r3"),
    ("{mad.lo,mad.hi,sad}.{u64,s64}", "%l0, %l1, %l2, %l3"),
    ("mad.hi.sat.s32", "%r0, %r1, %r2, %r3"),
    ("mul24.{lo,hi}.{u32,s32}", "%r0, %r1, %r2"),
    ("mad24.{lo,hi}.{u32,s32}", "%r0, %r1, %r2, %r3"),
    ("mad24.hi.sat.s32", "%r0, %r1, %r2, %r3"),
    ("{abs,neg}.s16", "%h0, %h1"),
    ("{abs,neg}.s32", "%r0, %r1"),
    ("{abs,neg}.s64", "%l0, %l1"),
    (
        "{add.cc,sub.cc,addc,addc.cc,subc,subc.cc}.{u32,s32}",
        "%r0, %r1, %r2",
    ),
    (
        "{add.cc,sub.cc,addc,addc.cc,subc,subc.cc}.{u64,s64}",
        "%l0, %l1, %l2",
    ),
    (
        "{mad.lo.cc,mad.hi.cc,madc.lo,madc.hi,madc.lo.cc,madc.hi.cc}.{u32,s32}",
        "%r0, %r1, %r2, %r3",
    ),
    (
        "{mad.lo.cc,mad.hi.cc,madc.lo,madc.hi,madc.lo.cc,madc.hi.cc}.{u64,s64}",
        "%l0, %l1, %l2, %l3",
    ),
    (
        "{dp4a,dp2a.lo,dp2a.hi}.{u32,s32}.{u32,s32}",
        "%r0, %r1, %r2, %r3",
    ),
];

const BITS: &[Row] = &[
    ("{and,or,xor}.b16", "%h0, %h1, %h2"),
    ("{and,or,xor}.b32", "%r0, %r1, %r2"),
    ("{and,or,xor}.b64", "%l0, %l1, %l2"),
    ("{and,or,xor}.pred", "%p0, %p1, %p2"),
    ("{not,cnot}.b16", "%h0, %h1"),
    ("{not,cnot}.b32", "%r0, %r1"),
    ("{not,cnot}.b64", "%l0, %l1"),
    ("not.pred", "%p0, %p1"),
    ("{shl.b16,shr.u16,shr.s16,shr.b16}", "%h0, %h1, %r2"),
    ("{shl.b32,shr.u32,shr.s32,shr.b32}", "%r0, %r1, %r2"),
    ("{shl.b64,shr.u64,shr.s64,shr.b64}", "%l0, %l1, %r2"),
    ("shf.{l,r}.{wrap,clamp}.b32", "%r0, %r1, %r2, %r3"),
    ("{popc,clz}.b32", "%r0, %r1"),
    ("{popc,clz}.b64", "%r0, %l1"),
    ("bfind{.shiftamt,}.{u32,s32}", "%r0, %r1"),
    ("bfind{.shiftamt,}.{u64,s64}", "%r0, %l1"),
    ("brev.b32", "%r0, %r1"),
    ("brev.b64", "%l0, %l1"),
    ("bfe.{u32,s32}", "%r0, %r1, %r2, %r3"),
    ("bfe.{u64,s64}", "%l0, %l1, %r2, %r3"),
    ("bfi.b32", "%r0, %r1, %r2, %r3, %r4"),
    ("bfi.b64", "%l0, %l1, %l2, %r3, %r4"),
    ("bmsk.{wrap,clamp}.b32", "%r0, %r1, %r2"),
    ("szext.{wrap,clamp}.{u32,s32}", "%r0, %r1, %r2"),
    ("fns.b32", "%r0, %r1, %r2, %r3"),
    (
        "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}",
        "%r0, %r1, %r2, %r3",
    ),
    ("lop3.b32", "%r0, %r1, %r2, %r3, 0x96"),
];

const FLOAT: &[Row] = &[
    (
        "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32",
        "%f0, %f1, %f2",
    ),
    ("{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64", "%d0, %d1, %d2"),
    (
        "{add,sub,mul}{.rn,.rz,.rm,.rp}{,.ftz}.f32x2",
        "%l0, %l1, %l2",
    ),
    (
        "{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32",
        "%f0, %f1, %f2, %f3",
    ),
    ("{fma,mad}.{rn,rz,rm,rp}.f64", "%d0, %d1, %d2, %d3"),
    ("fma.{rn,rz,rm,rp}{,.ftz}.f32x2", "%l0, %l1, %l2, %l3"),
    ("{add,sub}.{rn,rz,rm,rp}.f32.{f16,bf16}", "%f0, %h1, %f2"),
    ("fma.{rn,rz,rm,rp}.f32.{f16,bf16}", "%f0, %h1, %h2, %f3"),
    ("div.{approx,full,rn,rz,rm,rp}{,.ftz}.f32", "%f0, %f1, %f2"),
    ("div.{rn,rz,rm,rp}.f64", "%d0, %d1, %d2"),
    ("{rcp,sqrt}.{approx,rn,rz,rm,rp}{,.ftz}.f32", "%f0, %f1"),
    ("{rcp,sqrt}.{rn,rz,rm,rp}.f64", "%d0, %d1"),
    ("rcp.approx.ftz.f64", "%d0, %d1"),
    ("rsqrt.approx{,.ftz}.f32", "%f0, %f1"),
    ("rsqrt.approx{,.ftz}.f64", "%d0, %d1"),
    ("{sin,cos,lg2,ex2}.approx{,.ftz}.f32", "%f0, %f1"),
    ("tanh.approx.f32", "%f0, %f1"),
    (
        "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32",
        "%f0, %f1, %f2",
    ),
    ("{min,max}.f64", "%d0, %d1, %d2"),
    ("{abs,neg}{,.ftz}.f32", "%f0, %f1"),
    ("{abs,neg}.f64", "%d0, %d1"),
    ("copysign.f32", "%f0, %f1, %f2"),
    ("copysign.f64", "%d0, %d1, %d2"),
    (
        "testp.{finite,infinite,number,notanumber,normal,subnormal}.f32",
        "%p0, %f1",
    ),
    (
        "testp.{finite,infinite,number,notanumber,normal,subnormal}.f64",
        "%p0, %d1",
    ),
    ("{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16", "%h0, %h1, %h2"),
    ("{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16x2", "%r0, %r1, %r2"),
    ("{add,sub,mul}{,.rn}.bf16", "%h0, %h1, %h2"),
    ("{add,sub,mul}{,.rn}.bf16x2", "%r0, %r1, %r2"),
    ("fma.rn{,.ftz}{,.sat}.f16", "%h0, %h1, %h2, %h3"),
    ("fma.rn{,.ftz}{,.sat}.f16x2", "%r0, %r1, %r2, %r3"),
    ("fma.rn.relu.{f16,bf16}", "%h0, %h1, %h2, %h3"),
    ("fma.rn.relu.{f16x2,bf16x2}", "%r0, %r1, %r2, %r3"),
    ("fma.rn.bf16", "%h0, %h1, %h2, %h3"),
    ("fma.rn.bf16x2", "%r0, %r1, %r2, %r3"),
    ("fma.rn.oob.{f16,bf16}", "%h0, %h1, %h2, %h3"),
    ("{min,max}{,.NaN,.xorsign.abs}.{f16,bf16}", "%h0, %h1, %h2"),
    (
        "{min,max}{,.NaN,.xorsign.abs}.{f16x2,bf16x2}",
        "%r0, %r1, %r2",
    ),
    ("{min,max}.ftz.f16", "%h0, %h1, %h2"),
    ("{abs,neg}.{f16,bf16}", "%h0, %h1"),
    ("{abs,neg}.{f16x2,bf16x2}", "%r0, %r1"),
    (
        "{ex2.approx.f16,ex2.approx.ftz.bf16,tanh.approx.f16,tanh.approx.bf16}",
        "%h0, %h1",
    ),
    (
        "{ex2.approx.f16x2,ex2.approx.ftz.bf16x2,tanh.approx.f16x2,tanh.approx.bf16x2}",
        "%r0, %r1",
    ),
];

const COMPARE: &[Row] = &[
    ("setp.{eq,ne,lt,le,gt,ge}.{u16,s16}", "%p0, %h1, %h2"),
    ("setp.{eq,ne,lt,le,gt,ge}.{u32,s32}", "%p0, %r1, %r2"),
    ("setp.{eq,ne,lt,le,gt,ge}.{u64,s64}", "%p0, %l1, %l2"),
    ("setp.{eq,ne}.b16", "%p0, %h1, %h2"),
    ("setp.{eq,ne}.b32", "%p0, %r1, %r2"),
    ("setp.{eq,ne}.b64", "%p0, %l1, %l2"),
    ("setp.{lo,ls,hi,hs}.u32", "%p0, %r1, %r2"),
    ("setp.lt.{and,or,xor}.u32", "%p0|%p1, %r1, %r2, %p2"),
    (
        "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32",
        "%p0, %f1, %f2",
    ),
    (
        "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64",
        "%p0, %d1, %d2",
    ),
    (
        "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16,bf16}",
        "%p0, %h1, %h2",
    ),
    (
        "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16x2,bf16x2}",
        "%p0|%p1, %r1, %r2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge}.{u32,f32}.{u16,s16}",
        "%r0, %h1, %h2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge}.{u32,f32}.{u32,s32}",
        "%r0, %r1, %r2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge}.{u32,f32}.{u64,s64}",
        "%r0, %l1, %l2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.u32.f32",
        "%r0, %f1, %f2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.u32.f64",
        "%r0, %d1, %d2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f16x2.f16x2",
        "%r0, %r1, %r2",
    ),
    (
        "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16x2.bf16x2",
        "%r0, %r1, %r2",
    ),
    ("selp.{b16,u16,s16}", "%h0, %h1, %h2, %p0"),
    ("selp.{b32,u32,s32}", "%r0, %r1, %r2, %p0"),
    ("selp.{b64,u64,s64}", "%l0, %l1, %l2, %p0"),
    ("selp.f32", "%f0, %f1, %f2, %p0"),
    ("selp.f64", "%d0, %d1, %d2, %p0"),
    ("slct.{b16,u16,s16}.s32", "%h0, %h1, %h2, %r3"),
    ("slct.{b32,u32,s32}.s32", "%r0, %r1, %r2, %r3"),
    ("slct.{b64,u64,s64}.s32", "%l0, %l1, %l2, %r3"),
    ("slct{,.ftz}.{b32,u32,s32}.f32", "%r0, %r1, %r2, %f3"),
];

const CONVERT: &[Row] = &[
    ("cvt{,.sat}.{u8,s8,u16,s16}.{u8,s8,u16,s16}", "%h0, %h1"),
    ("cvt{,.sat}.{u32,s32}.{u8,s8,u16,s16}", "%r0, %h1"),
    ("cvt{,.sat}.{u8,s8,u16,s16}.{u32,s32}", "%h0, %r1"),
    ("cvt{,.sat}.{u32,s32}.{u32,s32}", "%r0, %r1"),
    ("cvt{,.sat}.{u64,s64}.{u32,s32}", "%l0, %r1"),
    ("cvt{,.sat}.{u32,s32}.{u64,s64}", "%r0, %l1"),
    ("cvt{,.sat}.{u64,s64}.{u64,s64}", "%l0, %l1"),
    ("cvt.{rn,rz,rm,rp}.f32.{u8,s8,u16,s16}", "%f0, %h1"),
    ("cvt.{rn,rz,rm,rp}.f32.{u32,s32}", "%f0, %r1"),
    ("cvt.{rn,rz,rm,rp}.f32.{u64,s64}", "%f0, %l1"),
    ("cvt.{rn,rz,rm,rp}.f64.{u32,s32}", "%d0, %r1"),
    ("cvt.{rn,rz,rm,rp}.f64.{u64,s64}", "%d0, %l1"),
    ("cvt.{rn,rz,rm,rp}.{f16,bf16}.{u8,s8,u16,s16}", "%h0, %h1"),
    ("cvt.{rn,rz,rm,rp}.{f16,bf16}.{u32,s32}", "%h0, %r1"),
    ("cvt.{rn,rz,rm,rp}.{f16,bf16}.{u64,s64}", "%h0, %l1"),
    (
        "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.{f16,bf16}",
        "%h0, %h1",
    ),
    ("cvt.{rni,rzi,rmi,rpi}.{u32,s32}.{f16,bf16}", "%r0, %h1"),
    ("cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.f32", "%h0, %f1"),
    ("cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f32", "%r0, %f1"),
    ("cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f32", "%l0, %f1"),
    ("cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f64", "%r0, %d1"),
    ("cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64", "%l0, %d1"),
    ("cvt.{rn,rz,rm,rp}.f32.f64", "%f0, %d1"),
    ("cvt.f64.f32", "%d0, %f1"),
    ("cvt.{rni,rzi,rmi,rpi}.f32.f32", "%f0, %f1"),
    ("cvt.{rni,rzi,rmi,rpi}.f64.f64", "%d0, %d1"),
    ("cvt.sat.f32.f32", "%f0, %f1"),
    ("cvt.sat.f64.f64", "%d0, %d1"),
    ("cvt.f32.{f16,bf16}", "%f0, %h1"),
    ("cvt.f64.{f16,bf16}", "%d0, %h1"),
    (
        "cvt.{rn,rz}{,.relu}{,.satfinite}.{f16,bf16}.f32",
        "%h0, %f1",
    ),
    ("cvt.{rn,rz,rm,rp}.{f16,bf16}.f64", "%h0, %d1"),
    (
        "cvt.{rn,rz}{,.relu}{,.satfinite}.{f16x2,bf16x2}.f32",
        "%r0, %f1, %f2",
    ),
    (
        "cvt.{rna,rna.satfinite,rn,rz,rn.relu,rz.relu}.tf32.f32",
        "%r0, %f1",
    ),
    (
        "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32",
        "%h0, %f1, %f2",
    ),
    ("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2", "%h0, %r1"),
    ("cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}", "%r0, %h1"),
    ("cvt.rn.satfinite.{e2m3x2,e3m2x2}.f32", "%h0, %f1, %f2"),
    (
        "cvt.rs.satfinite.e4m3x4.f32",
        "%r0, {%f1, %f2, %f3, %f4}, %r5",
    ),
    ("cvt.pack.sat.{u16,s16}.s32", "%r0, %r1, %r2"),
    (
        "cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32",
        "%r0, %r1, %r2, %r3",
    ),
];

const DATA: &[Row] = &[
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

const ATOMIC: &[Row] = &[
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

const LANES: &[Row] = &[
    (
        "shfl.sync.{up,down,bfly,idx}.b32",
        "%r0|%p0, %r1, 1, 31, -1",
    ),
    ("shfl.{up,down,bfly,idx}.b32", "%r0, %r1, 1, 31"),
    ("vote.sync.{all,any,uni}.pred", "%p0, %p1, -1"),
    ("vote.sync.ballot.b32", "%r0, %p1, -1"),
    ("match.any.sync.b32", "%r0, %r1, -1"),
    ("match.any.sync.b64", "%r0, %l1, -1"),
    ("match.all.sync.b32", "%r0|%p0, %r1, -1"),
    ("match.all.sync.b64", "%r0|%p0, %l1, -1"),
    ("redux.sync.{add,min,max}.{u32,s32}", "%r0, %r1, -1"),
    ("redux.sync.{and,or,xor}.b32", "%r0, %r1, -1"),
    ("redux.sync.{min,max}{,.abs}{,.NaN}.f32", "%f0, %f1, -1"),
    ("activemask.b32", "%r0"),
    ("elect.sync", "%r0|%p0, -1"),
];

const CONTROL: &[Row] = &[
    ("bra", "END"),
    ("bra.uni", "END"),
    ("call{,.uni}", "f"),
    ("exit", ""),
    ("ret", ""),
    ("trap", ""),
    ("brkpt", ""),
    ("bar.sync", "0"),
    ("bar.arrive", "1, 64"),
    ("bar.red.{and,or}.pred", "%p0, 0, %p1"),
    ("bar.red.popc.u32", "%r0, 0, %p1"),
    ("barrier.sync{,.aligned}", "0"),
    ("barrier.arrive{,.aligned}", "1, 64"),
    ("bar.warp.sync", "-1"),
    ("membar.{cta,gl,sys}", ""),
    ("fence.{sc,acq_rel}.{cta,gpu,sys}", ""),
    ("nanosleep.u32", "100"),
    ("cp.async.ca.shared.global", "[%r0], [%l1], 16"),
    ("cp.async.cg.shared.global", "[%r0], [%l1], 16"),
    ("cp.async.commit_group", ""),
    ("cp.async.wait_group", "0"),
    ("cp.async.wait_all", ""),
    ("mbarrier.init.shared.b64", "[%r0], 32"),
    ("mbarrier.inval.shared.b64", "[%r0]"),
    ("mbarrier.arrive.shared.b64", "%l0, [%r0]"),
    ("mbarrier.pending_count.b64", "%r0, %l0"),
    ("mbarrier.test_wait.shared.b64", "%p0, [%r0], %l0"),
    ("mbarrier.try_wait.shared.b64", "%p0, [%r0], %l0"),
];

const VIDEO: &[Row] = &[
    (
        "{vadd,vsub,vabsdiff,vmin,vmax}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat}",
        "%r0, %r1, %r2",
    ),
    (
        "{vadd,vsub,vabsdiff,vmin,vmax}.{u32,s32}.{u32,s32}.{u32,s32}.{add,min,max}",
        "%r0, %r1.b1, %r2.h1, %r3",
    ),
    (
        "{vshl,vshr}.{u32,s32}.{u32,s32}.u32{,.sat}.{clamp,wrap}",
        "%r0, %r1, %r2",
    ),
    (
        "vmad.{u32.u32.u32,s32.s32.s32,s32.u32.s32}{,.po}{,.sat}{,.shr7,.shr15}",
        "%r0, %r1, %r2, %r3",
    ),
    (
        "vset.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}{,.add}",
        "%r0, %r1, %r2{|, %r3}",
    ),
    (
        "{vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
        "%r0, %r1, %r2, %r3",
    ),
    (
        "{vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
        "%r0, %r1, %r2, %r3",
    ),
    (
        "{vset2,vset4}.{u32.u32,s32.s32}.{eq,ne,lt,le,gt,ge}{,.add}",
        "%r0, %r1, %r2, %r3",
    ),
];

const A2: &str = "{%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6}";
const D4A4B2: &str =
    "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10, %r11, %r12, %r13}";
const D4A2B1: &str = "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r7, %r8, %r9, %r10}";
const D2A1B1: &str = "{%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}";
const EIGHT: &str = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}";

const MATRIX: &[Row] = &[
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

const TEXTURE: &[Row] = &[
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

const TABLES: [&[Row]; 12] = [
    INTEGER, BITS, FLOAT, COMPARE, CONVERT, DATA, ATOMIC, LANES, CONTROL, VIDEO, MATRIX, TEXTURE,
];

/// Every way to choose from the braces of a pattern.
fn expanded(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    let tails = expanded(after);
    choices
        .split(',')
        .flat_map(|choice| {
            tails
                .iter()
                .map(move |tail| format!("{before}{choice}{tail}"))
        })
        .collect()
}

/// `@8` stands for a vector of eight registers; `{|, %r3}` for an operand that only `.add` has.
fn operands_of(mnemonic: &str, operands: &str) -> String {
    let third = if mnemonic.ends_with(".add") {
        ", %r3"
    } else {
        ""
    };
    operands.replace("@8", EIGHT).replace("{|, %r3}", third)
}

fn kernel(mnemonic: &str, operands: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.func f()\n{{\nret;\n}}\n.visible .entry k()\n{{\n.reg .pred %p<4>;\n.reg .b16 %h<8>;\n\
         .reg .b32 %r<64>;\n.reg .f32 %f<8>;\n.reg .b64 %l<8>;\n.reg .f64 %d<8>;\n.reg .b128 %w<4>;\n\
         {mnemonic} {operands};\nEND:\nret;\n}}\n"
    )
}

fn verdict(gpu: &mut Gpu, domain: gridmux_hw_model::DomainId, text: &str) -> Result<(), String> {
    let module = gridmux_ptx::Module::parse(text).map_err(|e| e.to_string())?;
    let program = module.decode().map_err(|e| e.to_string())?;
    let loaded = gpu
        .load(domain, &program, text.as_bytes())
        .map_err(|e| e.to_string())?;
    gpu.unload(&loaded);
    Ok(())
}

fn main() -> ExitCode {
    let Ok(config) = GpuConfig::builtin("h200") else {
        return ExitCode::FAILURE;
    };
    let mut gpu = Gpu::new(config);
    let Ok(domain) = gpu.memory_mut().create_domain(1 << 30) else {
        return ExitCode::FAILURE;
    };
    for (pattern, operands) in TABLES.into_iter().flatten() {
        for mnemonic in expanded(pattern) {
            let text = kernel(&mnemonic, &operands_of(&mnemonic, operands));
            match verdict(&mut gpu, domain, &text) {
                Ok(()) => println!("{mnemonic}\timplemented"),
                Err(reason) => println!("{mnemonic}\t{}", reason.replace(['\n', '\t'], " ")),
            }
        }
    }
    ExitCode::SUCCESS
}
