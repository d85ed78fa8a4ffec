//! Arithmetic, bits, comparison and conversion of registers.

use super::Row;

pub(super) const INTEGER: &[Row] = &[
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

pub(super) const BITS: &[Row] = &[
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

pub(super) const FLOAT: &[Row] = &[
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

pub(super) const COMPARE: &[Row] = &[
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

pub(super) const CONVERT: &[Row] = &[
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

pub(super) const VIDEO: &[Row] = &[
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
