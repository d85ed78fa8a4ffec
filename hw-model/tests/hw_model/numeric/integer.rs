//! Integers of 16, 32 and 64 bits, packed pairs, the 24-bit forms, carries and dot products (PTX ISA sections 9.7.1
//! and 9.7.2).

use crate::numeric::values::{integers, signed, value};
use crate::support::opcode::Table;
use num_bigint::BigInt;

const TYPES: [(&str, u32, bool); 6] = [
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];

fn cut(v: &BigInt, bits: u32) -> u64 {
    let modulus = BigInt::from(1) << bits;
    let v = ((v % &modulus) + &modulus) % &modulus;
    u64::try_from(v).expect("cut")
}

fn register(bits: u32) -> String {
    format!("b{bits}")
}

/// Checks `name.type` on every type given, the inputs as exact integers.
fn check(
    name: &str,
    types: &[(&str, u32, bool)],
    count: usize,
    want: impl Fn(&[BigInt], u32, bool) -> BigInt,
) {
    for (ty, bits, is_signed) in types {
        let columns = integers(*bits, count);
        let body = format!("{name}.{ty}");
        let ty = register(*bits);
        Table::new(&body, &vec![ty.as_str(); count], &ty, &columns).check_bits(|v| {
            let v: Vec<BigInt> = v
                .iter()
                .map(|v| BigInt::from(value(*v, *bits, *is_signed)))
                .collect();
            cut(&want(&v, *bits, *is_signed), *bits)
        });
    }
}

#[test]
fn arithmetic() {
    check("add", &TYPES, 2, |v, _, _| &v[0] + &v[1]);
    check("sub", &TYPES, 2, |v, _, _| &v[0] - &v[1]);
    check("mul.lo", &TYPES, 2, |v, _, _| &v[0] * &v[1]);
    check("mul.hi", &TYPES, 2, |v, bits, _| (&v[0] * &v[1]) >> bits);
    check("mad.lo", &TYPES, 3, |v, _, _| &v[0] * &v[1] + &v[2]);
    check("mad.hi", &TYPES, 3, |v, bits, _| {
        ((&v[0] * &v[1]) >> bits) + &v[2]
    });
    check("min", &TYPES, 2, |v, _, _| v[0].clone().min(v[1].clone()));
    check("max", &TYPES, 2, |v, _, _| v[0].clone().max(v[1].clone()));
    check("sad", &TYPES, 3, |v, _, _| {
        (&v[0] - &v[1]).max(&v[1] - &v[0]) + &v[2]
    });
    let zero = BigInt::from(0);
    check("div", &TYPES, 2, |v, _, _| {
        if v[1] == zero {
            BigInt::from(-1)
        } else {
            &v[0] / &v[1]
        }
    });
    check("rem", &TYPES, 2, |v, _, _| {
        if v[1] == zero {
            BigInt::from(-1)
        } else {
            &v[0] % &v[1]
        }
    });
    let of_sign = [TYPES[1], TYPES[3], TYPES[5]];
    check("abs", &of_sign, 1, |v, _, _| v[0].clone().max(-&v[0]));
    check("neg", &of_sign, 1, |v, _, _| -&v[0]);
}

#[test]
fn saturation_and_relu() {
    let s32 = [TYPES[3]];
    let clamp = |v: BigInt| v.clamp(BigInt::from(i32::MIN), BigInt::from(i32::MAX));
    let zero = || BigInt::from(0);
    check("add.sat", &s32, 2, |v, _, _| clamp(&v[0] + &v[1]));
    check("sub.sat", &s32, 2, |v, _, _| clamp(&v[0] - &v[1]));
    check("mad.hi.sat", &s32, 3, |v, _, _| {
        clamp(((&v[0] * &v[1]) >> 32) + &v[2])
    });
    check("min.relu", &s32, 2, |v, _, _| {
        v[0].clone().min(v[1].clone()).max(zero())
    });
    check("max.relu", &s32, 2, |v, _, _| {
        v[0].clone().max(v[1].clone()).max(zero())
    });
}

#[test]
fn wide_products() {
    for (ty, bits, is_signed) in &TYPES[..4] {
        let columns = integers(*bits, 2);
        let (narrow, wide) = (register(*bits), register(2 * bits));
        let exact = |v: &[u64]| value(v[0], *bits, *is_signed) * value(v[1], *bits, *is_signed);
        let body = format!("mul.wide.{ty} %d, %a, %b;");
        Table::new(&body, &[narrow.as_str(); 2], &wide, &columns).check_bits(|v| exact(v) as u64);
        let mut columns = columns;
        columns.push(
            integers(2 * bits, 1)[0]
                .iter()
                .cycle()
                .take(columns[0].len())
                .copied()
                .collect(),
        );
        let body = format!("mad.wide.{ty} %d, %a, %b, %c;");
        Table::new(&body, &[&narrow, &narrow, &wide], &wide, &columns)
            .check_bits(|v| (exact(v) as u64).wrapping_add(v[2]));
    }
}

#[test]
fn twenty_four_bits() {
    let columns = integers(32, 3);
    for (ty, is_signed) in [("u32", false), ("s32", true)] {
        let part = |v: u64| value(v & 0xff_ffff, 24, is_signed);
        let product = |v: &[u64]| part(v[0]) * part(v[1]);
        let high = |v: &[u64]| signed((product(v) >> 16) as u64 & 0xffff_ffff, 32);
        let table = |body: &str, want: &dyn Fn(&[u64]) -> i128| {
            Table::new(body, &["b32"; 3], "b32", &columns).check_bits(|v| want(v) as u64);
        };
        table(&format!("mul24.lo.{ty} %d, %a, %b;"), &product);
        table(&format!("mul24.hi.{ty} %d, %a, %b;"), &high);
        table(&format!("mad24.lo.{ty}"), &|v| {
            product(v) + i128::from(v[2])
        });
        table(&format!("mad24.hi.{ty}"), &|v| high(v) + i128::from(v[2]));
        if is_signed {
            table("mad24.hi.sat.s32", &|v| {
                (high(v) + signed(v[2], 32)).clamp(i32::MIN.into(), i32::MAX.into())
            });
        }
    }
}

#[test]
fn pairs() {
    let columns = integers(32, 2);
    for (ty, is_signed) in [("u16x2", false), ("s16x2", true)] {
        let table = |name: &str, one: &dyn Fn(i128, i128) -> i128| {
            let body = format!("{name}.{ty} %d, %a, %b;");
            Table::new(&body, &["b32"; 2], "b32", &columns).check_bits(|v| {
                let half = |shift: u32| {
                    let part = |v: u64| value(v >> shift & 0xffff, 16, is_signed);
                    (one(part(v[0]), part(v[1])) as u64 & 0xffff) << shift
                };
                half(0) | half(16)
            });
        };
        table("add", &|a, b| a + b);
        table("min", &|a, b| a.min(b));
        table("max", &|a, b| a.max(b));
        if is_signed {
            table("min.relu", &|a, b| a.min(b).max(0));
            table("max.relu", &|a, b| a.max(b).max(0));
        }
    }
}

/// Checks arithmetic of two words through the carry flag against one exact operation on numbers twice as wide.
#[test]
fn carries() {
    for (ty, bits) in [("u32", 32_u32), ("s32", 32), ("u64", 64)] {
        let columns = integers(bits, 4);
        let (word, mask) = (register(bits), BigInt::from(1) << bits);
        let inputs = [word.as_str(); 4];
        let wide = |low: u64, high: u64| BigInt::from(low) + BigInt::from(high) * &mask;
        // The first instruction is reported; both words are looked at in turn.
        let table = |body: &str, want: &dyn Fn(&[u64]) -> BigInt| {
            Table::new(body, &inputs, &word, &columns).check_bits(|v| cut(&want(v), bits));
        };
        let temporary = if bits == 32 { "%x0" } else { "%l0" };
        for (name, sign) in [("add", 1), ("sub", -1)] {
            let whole = |v: &[u64]| wide(v[0], v[1]) + sign * wide(v[2], v[3]);
            let chain = format!("{name}.cc.{ty} {temporary}, %a, %c;\n{name}c.{ty} %d, %b, %e;");
            table(&chain, &|v| whole(v) >> bits);
            let chain = format!(
                "{name}c.cc.{ty} {temporary}, %a, %c;\n{name}.cc.{ty} {temporary}, %a, %c;\n\
                 {name}c.cc.{ty} {temporary}, %b, %e;\n{name}c.{ty} %d, 0, 0;"
            );
            table(&chain, &|v| whole(v) >> (2 * bits));
            // The flag starts as zero, which a subtraction takes for a borrow.
            let borrowed = i32::from(sign < 0);
            table(&format!("{name}c.{ty} %d, %a, %b;"), &|v| {
                BigInt::from(v[0]) + sign * BigInt::from(v[1]) - borrowed
            });
        }
        let number = |v: u64| BigInt::from(value(v, bits, ty.starts_with('s')));
        let (low, high) = (
            |v: &[u64]| BigInt::from(cut(&(number(v[0]) * number(v[1])), bits)),
            |v: &[u64]| BigInt::from(cut(&((number(v[0]) * number(v[1])) >> bits), bits)),
        );
        let carry = |v: &[u64]| (BigInt::from(v[2]) + v[3]) >> bits;
        for (part, exact) in [("lo", &low as &dyn Fn(&[u64]) -> BigInt), ("hi", &high)] {
            let body = format!("mad.{part}.cc.{ty} {temporary}, %a, %b, %c;\naddc.{ty} %d, 0, 0;");
            table(&body, &|v| (exact(v) + v[2]) >> bits);
            let body = format!(
                "madc.{part}.cc.{ty} {temporary}, %a, %b, %c;\nadd.cc.{ty} {temporary}, %c, %e;\n\
                 madc.{part}.{ty} %d, %a, %b, %c;"
            );
            table(&body, &|v| exact(v) + v[2] + carry(v));
        }
    }
}

/// Checks the flag of a subtraction, which is the carry of adding the complement: set when nothing is borrowed.
#[test]
fn a_subtraction_leaves_the_complement_of_its_borrow() {
    let columns = integers(32, 3);
    Table::new(
        "sub.cc.u32 %x0, %a, %b;\naddc.u32 %d, 0, 0;",
        &["b32"; 3],
        "b32",
        &columns,
    )
    .check_bits(|v| u64::from(v[0] >= v[1]));
}

#[test]
fn carries_survive_a_guard() {
    let columns = integers(32, 3);
    let body = "add.cc.u32 %x0, %a, %b;\nsetp.lt.u32 %p, %c, 16;\n@%p sub.cc.u32 %x1, 0, 1;\naddc.u32 %d, 0, 0;";
    Table::new(body, &["b32"; 3], "b32", &columns)
        .check_bits(|v| if v[2] < 16 { 0 } else { (v[0] + v[1]) >> 32 });
}

#[test]
fn dot_products() {
    let columns = integers(32, 3);
    for (a, signed_a) in [("u32", false), ("s32", true)] {
        for (b, signed_b) in [("u32", false), ("s32", true)] {
            let byte = |v: u64, n: u32, is_signed: bool| value(v >> (8 * n) & 0xff, 8, is_signed);
            let half = |v: u64, n: u32| value(v >> (16 * n) & 0xffff, 16, signed_a);
            let table = |name: &str, want: &dyn Fn(&[u64]) -> i128| {
                let body = format!("{name}.{a}.{b}");
                Table::new(&body, &["b32"; 3], "b32", &columns)
                    .check_bits(|v| (want(v) + i128::from(v[2])) as u64);
            };
            table("dp4a", &|v| {
                let product = |n| byte(v[0], n, signed_a) * byte(v[1], n, signed_b);
                (0..4).map(product).sum()
            });
            for (name, first) in [("dp2a.lo", 0), ("dp2a.hi", 2)] {
                table(name, &|v| {
                    let product = |n| half(v[0], n) * byte(v[1], n + first, signed_b);
                    (0..2).map(product).sum()
                });
            }
        }
    }
}
