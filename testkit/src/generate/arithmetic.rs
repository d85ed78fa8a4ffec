//! Statements that compute: integers, floats, conversions, predicates.

use super::maker::Maker;
use super::text::{Kind, emit};

/// Operations of two 32-bit integers.
const INT2: &[&str] = &[
    "add.s32",
    "sub.s32",
    "mul.lo.s32",
    "mul.hi.u32",
    "mul.hi.s32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "min.s32",
    "max.u32",
    "min.u32",
    "max.s32",
];
const INT1: &[&str] = &[
    "neg.s32",
    "abs.s32",
    "not.b32",
    "popc.b32",
    "clz.b32",
    "brev.b32",
    "bfind.u32",
];
const FLOAT2: &[&str] = &[
    "add.f32",
    "sub.f32",
    "mul.f32",
    "min.f32",
    "max.f32",
    "mul.ftz.f32",
];
const FLOAT1: &[&str] = &[
    "neg.f32",
    "abs.f32",
    "sqrt.rn.f32",
    "rcp.rn.f32",
    "ex2.approx.f32",
];
const COMPARE: &[&str] = &["eq", "ne", "lt", "le", "gt", "ge"];

impl Maker {
    /// Gives one variable a new value.
    pub(super) fn compute(&mut self) {
        match self.body.text.dice.below(15) {
            14 => self.compute_half(),
            0..=5 => self.compute_int(),
            6..=8 => self.compute_float(),
            9 => self.compute_long(),
            10 => self.compute_double(),
            11 => self.convert(),
            12 => self.select(),
            _ => self.bits(),
        }
    }

    fn compute_int(&mut self) {
        let (d, a, b) = (self.body.int(), self.body.int(), self.body.int());
        let guard = self.guard();
        let t = &mut self.body.text;
        match t.dice.below(8) {
            0..=3 => {
                let op = t.pick(INT2);
                let b = if t.chance(30) {
                    t.dice.below(5000).to_string()
                } else {
                    b
                };
                emit!(t, "{guard}{op} {d}, {a}, {b}");
            }
            4 => {
                let op = t.pick(INT1);
                emit!(t, "{guard}{op} {d}, {a}");
            }
            5 => {
                let k = t.dice.next_u32();
                emit!(t, "{guard}mad.lo.s32 {d}, {a}, {b}, {k}");
            }
            6 => {
                let (op, n) = (t.pick(&["shl.b32", "shr.u32", "shr.s32"]), t.between(1, 31));
                emit!(t, "{guard}{op} {d}, {a}, {n}");
            }
            _ => {
                // A divisor that is never zero.
                let odd = t.set(Kind::B32, "or.b32", &format!("{b}, 1"));
                let op = t.pick(&["div.u32", "rem.u32", "rem.s32"]);
                emit!(t, "{guard}{op} {d}, {a}, {odd}");
            }
        }
    }

    fn bits(&mut self) {
        let (d, a, b) = (self.body.int(), self.body.int(), self.body.int());
        let t = &mut self.body.text;
        let (n, width) = (t.between(0, 20), t.between(1, 12));
        match t.dice.below(4) {
            0 => emit!(t, "bfe.u32 {d}, {a}, {n}, {width}"),
            1 => emit!(t, "bfi.b32 {d}, {a}, {b}, {n}, {width}"),
            2 => emit!(t, "shf.l.wrap.b32 {d}, {a}, {b}, {n}"),
            _ => {
                let selector = t.dice.below(0x7777);
                emit!(t, "prmt.b32 {d}, {a}, {b}, {selector}");
            }
        }
    }

    fn compute_float(&mut self) {
        let (d, a, b) = (self.body.float(), self.body.float(), self.body.float());
        let guard = self.guard();
        let t = &mut self.body.text;
        match t.dice.below(5) {
            0 | 1 => {
                let op = t.pick(FLOAT2);
                emit!(t, "{guard}{op} {d}, {a}, {b}");
            }
            2 => emit!(t, "{guard}fma.rn.f32 {d}, {a}, {b}, {d}"),
            3 => emit!(t, "{guard}div.rn.f32 {d}, {a}, {b}"),
            _ => {
                let op = t.pick(FLOAT1);
                emit!(t, "{guard}{op} {d}, {a}");
            }
        }
    }

    /// Computes in half precision, one value at a time or two.
    fn compute_half(&mut self) {
        self.features.insert("f16");
        let (d, a) = (self.body.int(), self.body.int());
        let (f, g) = (self.body.float(), self.body.float());
        let t = &mut self.body.text;
        if t.chance(50) {
            let x = t.set(Kind::B16, "cvt.rn.f16.f32", &f);
            let y = t.set(Kind::B16, "cvt.rn.f16.f32", &g);
            let z = match t.dice.below(3) {
                0 => t.set(Kind::B16, "fma.rn.f16", &format!("{x}, {y}, {x}")),
                1 => t.set(Kind::B16, "max.f16", &format!("{x}, {y}")),
                _ => {
                    let op = t.pick(&["add.f16", "sub.f16", "mul.f16"]);
                    t.set(Kind::B16, op, &format!("{x}, {y}"))
                }
            };
            emit!(t, "cvt.f32.f16 {f}, {z}");
            return;
        }
        let op = t.pick(&["add.f16x2", "mul.f16x2", "min.f16x2", "sub.f16x2"]);
        let both = t.set(Kind::B32, "cvt.rn.f16x2.f32", &format!("{f}, {g}"));
        let some = t.set(Kind::B32, op, &format!("{both}, {a}"));
        emit!(t, "fma.rn.f16x2 {d}, {some}, {both}, {a}");
    }

    fn compute_long(&mut self) {
        let (d, a) = (self.body.long(), self.body.int());
        let t = &mut self.body.text;
        match t.dice.below(5) {
            0 => {
                let wide = t.set(Kind::B64, "cvt.u64.u32", &a);
                emit!(t, "add.s64 {d}, {d}, {wide}");
            }
            1 => {
                let k = t.dice.below(1 << 30) | 1;
                emit!(t, "mul.lo.s64 {d}, {d}, {k}");
            }
            2 => {
                let (op, n) = (t.pick(&["shl.b64", "shr.u64", "shr.s64"]), t.between(1, 60));
                let moved = t.set(Kind::B64, op, &format!("{d}, {n}"));
                emit!(t, "xor.b64 {d}, {d}, {moved}");
            }
            3 => {
                let (lo, hi) = (t.reg(Kind::B32), t.reg(Kind::B32));
                emit!(t, "mov.b64 {{{lo}, {hi}}}, {d}");
                emit!(t, "mov.b64 {d}, {{{hi}, {a}}}");
                emit!(t, "xor.b32 {a}, {a}, {lo}");
            }
            _ => emit!(t, "mad.wide.u32 {d}, {a}, 77777, {d}"),
        }
    }

    fn compute_double(&mut self) {
        let Some(d) = self.body.doubles.first().cloned() else {
            return self.compute_int();
        };
        self.features.insert("f64");
        let a = self.body.float();
        let t = &mut self.body.text;
        let wide = t.set(Kind::F64, "cvt.f64.f32", &a);
        match t.dice.below(4) {
            0 => emit!(t, "add.rn.f64 {d}, {d}, {wide}"),
            1 => emit!(t, "fma.rn.f64 {d}, {wide}, 0d3FE0000000000000, {d}"),
            2 => emit!(t, "div.rn.f64 {d}, {wide}, {d}"),
            _ => emit!(t, "mul.f64 {d}, {d}, {wide}"),
        }
    }

    fn convert(&mut self) {
        let (i, j, f) = (self.body.int(), self.body.int(), self.body.float());
        let t = &mut self.body.text;
        match t.dice.below(5) {
            0 => emit!(t, "cvt.rn.f32.s32 {f}, {i}"),
            1 => emit!(t, "cvt.rzi.s32.f32 {i}, {f}"),
            2 => {
                let half = t.set(Kind::B16, "cvt.u16.u32", &i);
                let op = t.pick(&["cvt.s32.s16", "cvt.u32.u16"]);
                emit!(t, "{op} {j}, {half}");
            }
            3 => emit!(t, "mov.b32 {i}, {f}"),
            _ => {
                let small = t.set(Kind::B32, "and.b32", &format!("{i}, 65535"));
                emit!(t, "cvt.rn.f32.u32 {f}, {small}");
            }
        }
    }

    fn select(&mut self) {
        let p = self.predicate();
        let (d, a, b) = (self.body.int(), self.body.int(), self.body.int());
        let (f, g) = (self.body.float(), self.body.float());
        let t = &mut self.body.text;
        if t.chance(70) {
            emit!(t, "selp.b32 {d}, {a}, {b}, {p}");
        } else {
            emit!(t, "selp.f32 {f}, {f}, {g}, {p}");
        }
    }

    /// Returns a predicate over variables, which may differ between threads.
    pub(super) fn predicate(&mut self) -> String {
        if self.body.text.chance(25) {
            return self.old_predicate();
        }
        let (a, b, f) = (self.body.int(), self.body.int(), self.body.float());
        let t = &mut self.body.text;
        let compare = t.pick(COMPARE);
        match t.dice.below(5) {
            0 | 1 => {
                let low = t.set(Kind::B32, "and.b32", &format!("{a}, 7"));
                let k = t.dice.below(8);
                t.set(
                    Kind::Pred,
                    &format!("setp.{compare}.u32"),
                    &format!("{low}, {k}"),
                )
            }
            2 => t.set(
                Kind::Pred,
                &format!("setp.{compare}.s32"),
                &format!("{a}, {b}"),
            ),
            3 => t.set(
                Kind::Pred,
                &format!("setp.{compare}.f32"),
                &format!("{f}, 0f41200000"),
            ),
            _ => {
                let p = t.set(
                    Kind::Pred,
                    &format!("setp.{compare}.u32"),
                    &format!("{a}, {b}"),
                );
                let low = t.set(Kind::B32, "and.b32", &format!("{b}, 3"));
                t.set(Kind::Pred, "setp.ne.and.u32", &format!("{low}, 0, {p}"))
            }
        }
    }

    /// Returns a predicate that was computed long before, sometimes computed anew.
    fn old_predicate(&mut self) -> String {
        let n = self.body.text.dice.below(2) as usize;
        let p = self.body.predicates[n].clone();
        let a = self.body.int();
        let t = &mut self.body.text;
        match t.dice.below(4) {
            0 => emit!(t, "setp.lt.s32 {p}, {a}, 1000"),
            1 => emit!(t, "not.pred {p}, {p}"),
            _ => {}
        }
        p
    }

    /// Returns a predicate that is the same for all threads of the block.
    pub(super) fn uniform_predicate(&mut self) -> String {
        let u = self.body.uniform();
        let t = &mut self.body.text;
        let compare = t.pick(COMPARE);
        let (modulus, k) = (t.between(2, 6), t.dice.below(3));
        let low = t.set(Kind::B32, "rem.u32", &format!("{u}, {modulus}"));
        t.set(
            Kind::Pred,
            &format!("setp.{compare}.u32"),
            &format!("{low}, {k}"),
        )
    }

    /// Returns nothing, or `@%p ` or `@!%p ` before an instruction.
    fn guard(&mut self) -> String {
        if !self.body.text.chance(12) {
            return String::new();
        }
        self.features.insert("predicated");
        let p = self.predicate();
        let not = self.body.text.pick(&["", "!"]);
        format!("@{not}{p} ")
    }
}
