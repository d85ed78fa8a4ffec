//! Integer arithmetic, bits, and comparison.

use super::float::float_32;
use super::{check, int_32, int_64, ints_32, run, slices};

#[test]
fn integer_arithmetic() {
    int_32("add.s32 %r0, %r1, %r2;", |a, b, _| {
        (u64::from(a) + u64::from(b)) as u32
    });
    int_32("sub.s32 %r0, %r1, %r2;", |a, b, _| a.wrapping_sub(b));
    int_32("add.sat.s32 %r0, %r1, %r2;", |a, b, _| {
        (i64::from(a as i32) + i64::from(b as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX))
            as u32
    });
    int_32("mul.lo.s32 %r0, %r1, %r2;", |a, b, _| {
        (u64::from(a) * u64::from(b)) as u32
    });
    int_32("mul.hi.s32 %r0, %r1, %r2;", |a, b, _| {
        ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
    });
    int_32("mul.hi.u32 %r0, %r1, %r2;", |a, b, _| {
        ((u64::from(a) * u64::from(b)) >> 32) as u32
    });
    int_32("mad.lo.u32 %r0, %r1, %r2, %r3;", |a, b, c| {
        (u128::from(a) * u128::from(b) + u128::from(c)) as u32
    });
    int_32("mul24.lo.s32 %r0, %r1, %r2;", |a, b, _| {
        let low = |v: u32| i64::from((v << 8) as i32 >> 8);
        (low(a) * low(b)) as u32
    });
    int_32("div.u32 %r0, %r1, %r2;", |a, b, _| {
        a.checked_div(b).unwrap_or(u32::MAX)
    });
    int_32("rem.u32 %r0, %r1, %r2;", |a, b, _| {
        a.checked_rem(b).unwrap_or(u32::MAX)
    });
    int_32("div.s32 %r0, %r1, %r2;", |a, b, _| match b {
        0 => u32::MAX,
        _ => (i64::from(a as i32) / i64::from(b as i32)) as u32,
    });
    int_32("min.s32 %r0, %r1, %r2;", |a, b, _| {
        (a as i32).min(b as i32) as u32
    });
    int_32("max.u32 %r0, %r1, %r2;", |a, b, _| a.max(b));
    int_32("abs.s32 %r0, %r1;", |a, _, _| {
        i64::from(a as i32).unsigned_abs() as u32
    });
    int_32("neg.s32 %r0, %r1;", |a, _, _| (-i64::from(a as i32)) as u32);
    int_32("sad.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((i64::from(a as i32) - i64::from(b as i32)).unsigned_abs() as u32).wrapping_add(c)
    });
    int_64("add.s64 %l0, %l1, %l2;", |a, b, _| {
        (u128::from(a) + u128::from(b)) as u64
    });
    int_64("mul.lo.s64 %l0, %l1, %l2;", |a, b, _| {
        (u128::from(a) * u128::from(b)) as u64
    });
    int_64("mul.hi.s64 %l0, %l1, %l2;", |a, b, _| {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    });
    int_64("div.s64 %l0, %l1, %l2;", |a, b, _| match b {
        0 => u64::MAX,
        _ => (i128::from(a as i64) / i128::from(b as i64)) as u64,
    });
}

#[test]
fn wide_products() {
    let inputs = ints_32();
    let got = run(
        "b32",
        "r",
        "b64",
        "l",
        "mul.wide.s32 %l0, %r1, %r2;",
        slices(&inputs),
    );
    check("mul.wide.s32", &got, &inputs, |a, b, _| {
        (i128::from(a as u32 as i32) * i128::from(b as u32 as i32)) as u64
    });
    let body = "cvt.u64.u32 %l3, %r3;\nmad.wide.u32 %l0, %r1, %r2, %l3;";
    let got = run("b32", "r", "b64", "l", body, slices(&inputs));
    check("mad.wide.u32", &got, &inputs, |a, b, c| {
        (u128::from(a) * u128::from(b) + u128::from(c)) as u64
    });
}

#[test]
fn bits() {
    int_32("and.b32 %r0, %r1, %r2;", |a, b, _| a & b);
    int_32("not.b32 %r0, %r1;", |a, _, _| !a);
    int_32("cnot.b32 %r0, %r1;", |a, _, _| u32::from(a == 0));
    int_32(
        "shl.b32 %r0, %r1, %r2;",
        |a, b, _| if b > 31 { 0 } else { a << b },
    );
    int_32(
        "shr.u32 %r0, %r1, %r2;",
        |a, b, _| if b > 31 { 0 } else { a >> b },
    );
    int_32("shr.s32 %r0, %r1, %r2;", |a, b, _| {
        (i64::from(a as i32) >> b.min(63)) as u32
    });
    int_32("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((u64::from(b) << 32 | u64::from(a)) << (c % 32) >> 32) as u32
    });
    int_32("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
        ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32
    });
    int_32("popc.b32 %r0, %r1;", |a, _, _| {
        (0..32).filter(|n| a >> n & 1 == 1).count() as u32
    });
    int_32("clz.b32 %r0, %r1;", |a, _, _| {
        (0..32).take_while(|n| a >> (31 - n) & 1 == 0).count() as u32
    });
    int_32("brev.b32 %r0, %r1;", |a, _, _| {
        (0..32).fold(0, |r, n| r << 1 | a >> n & 1)
    });
    int_32("bfind.u32 %r0, %r1;", |a, _, _| {
        (0..32).rev().find(|n| a >> n & 1 == 1).unwrap_or(u32::MAX)
    });
    int_32("bfind.s32 %r0, %r1;", |a, _, _| {
        let a = if (a as i32) < 0 { !a } else { a };
        (0..32).rev().find(|n| a >> n & 1 == 1).unwrap_or(u32::MAX)
    });
    // The ISA's own pseudo-code for bfe and bfi, bit by bit.
    let bfe = |signed: bool| {
        move |a: u32, b: u32, c: u32| {
            let (pos, len) = (b & 0xff, c & 0xff);
            let sign = match len {
                0 => 0,
                _ if !signed => 0,
                _ => a >> (pos + len - 1).min(31) & 1,
            };
            (0..32).fold(0, |d, n| {
                let inside = n < len && pos + n <= 31;
                d | (if inside { a >> (pos + n) & 1 } else { sign }) << n
            })
        }
    };
    int_32("bfe.u32 %r0, %r1, %r2, %r3;", bfe(false));
    int_32("bfe.s32 %r0, %r1, %r2, %r3;", bfe(true));
    int_32("bfi.b32 %r0, %r1, %r2, %r3, 7;", |a, b, c| {
        let pos = c & 0xff;
        (0..7).fold(b, |f, n| match pos + n {
            at if at <= 31 => f & !(1 << at) | (a >> n & 1) << at,
            _ => f,
        })
    });
    int_32("lop3.b32 %r0, %r1, %r2, %r3, 0xe8;", |a, b, c| {
        a & b | a & c | b & c
    });
    int_32("prmt.b32 %r0, %r1, %r2, 0x5410;", |a, b, _| {
        a & 0xffff | b << 16
    });
    int_64("xor.b64 %l0, %l1, %l2;", |a, b, _| a ^ b);
    int_64(
        "cvt.u32.u64 %r1, %l2;\nshr.s64 %l0, %l1, %r1;",
        |a, b, _| (i128::from(a as i64) >> (b as u32).min(127)) as u64,
    );
}

#[test]
fn comparison_and_selection() {
    let select = |compare: &str| format!("{compare} %p1, %r1, %r2;\nselp.b32 %r0, %r1, %r3, %p1;");
    int_32(&select("setp.lt.s32"), |a, b, c| {
        if (a as i32) < b as i32 { a } else { c }
    });
    int_32(&select("setp.lo.u32"), |a, b, c| if a < b { a } else { c });
    int_32(&select("setp.ne.b32"), |a, b, c| if a == b { c } else { a });
    int_32(
        "setp.gt.s32 %p2, %r3, 0;\nsetp.ge.and.u32 %p1|%p3, %r1, %r2, !%p2;\nselp.u32 %r4, 1, 0, %p1;\n\
         selp.u32 %r5, 2, 0, %p3;\nor.b32 %r0, %r4, %r5;",
        |a, b, c| {
            let third = (c as i32) <= 0;
            u32::from(a >= b && third) + 2 * u32::from(a < b && third)
        },
    );
    int_32("set.le.u32.s32 %r0, %r1, %r2;", |a, b, _| {
        if a as i32 <= b as i32 { u32::MAX } else { 0 }
    });
    int_32("slct.b32.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
        if (c as i32) < 0 { b } else { a }
    });
    let float = |compare: &str| {
        format!("{compare} %p1, %f1, %f2;\nselp.f32 %f0, 0f3F800000, 0f00000000, %p1;")
    };
    let yes = |b: bool| if b { 1.0 } else { 0.0 };
    float_32(&float("setp.lt.f32"), |a, b, _| yes(a < b));
    float_32(&float("setp.ltu.f32"), |a, b, _| {
        yes(a < b || a.is_nan() || b.is_nan())
    });
    float_32(&float("setp.ne.f32"), |a, b, _| {
        yes(!a.is_nan() && !b.is_nan() && a != b)
    });
    float_32(&float("setp.neu.f32"), |a, b, _| yes(a != b));
    float_32(&float("setp.num.f32"), |a, b, _| {
        yes(!a.is_nan() && !b.is_nan())
    });
    float_32(&float("setp.nan.f32"), |a, b, _| {
        yes(a.is_nan() || b.is_nan())
    });
    int_32(
        "setp.lt.u32 %p1, %r1, %r2;\nsetp.lt.u32 %p2, %r2, %r3;\nxor.pred %p3, %p1, %p2;\nnot.pred %p3, %p3;\n\
         mov.pred %p4, %p3;\nselp.u32 %r0, 1, 0, %p4;",
        |a, b, c| u32::from((a < b) == (b < c)),
    );
}
