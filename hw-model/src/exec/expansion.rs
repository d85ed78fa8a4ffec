//! What `ptxas` makes several instructions of, where a chip has none that does it alone.
//!
//! Integers of 64 bits lie in two registers: additions carry, and the upper half is added in the units of single
//! precision (`IMAD.X`); products are sums of four partial ones, comparisons look at both halves. An approximation that
//! keeps subnormal numbers compares its argument, scales it before the special-function unit and its result behind it;
//! a sine has its argument brought to turns first. All this is what nvdisasm shows of code for Volta and later.
//! A product that is added to right behind it is one instruction with that (`IMAD.WIDE`; [`super::lower`]).
//! Rules: instructions of a sequence wait for one another along its longest chain only; the others add what they take
//! of the unit. The sequence takes one issue slot, and scalings add their latency and take nothing of the units of
//! single precision, so that a kernel that consists of such instructions runs somewhat too fast. `ptxas` drops a
//! scaling that it proves needless, as that of an exponential of an exponential, which is never negative; the model
//! keeps it.

use crate::config::{Pipeline, Pipelines};
use gridmux_ptx::decode::{Instruction, Opcode, Part, ScalarType as T};

/// A sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expansion {
    /// Instructions of the pipeline that the PTX instruction belongs to.
    count: u32,
    /// How many of them wait for one another.
    depth: u32,
    /// Single-precision multiplications before and behind them.
    scalings: u32,
    /// Cycles until a comparison says whether there is something to multiply.
    comparison: u32,
}

/// Cycles from a comparison until what it guards can begin: a fit to the 39.2 cycles of a logarithm and of roots on an
/// H200 (hw-model/validation/documents/h200-2026-11-27.json), 17 of them the special-function unit's and four each
/// for two multiplications. A reciprocal takes 41.3.
const COMPARISON: u32 = 14;

const ONE: Expansion = Expansion {
    count: 1,
    depth: 1,
    scalings: 0,
    comparison: 0,
};

impl Expansion {
    /// Returns what becomes of an instruction.
    pub(super) fn of(i: &Instruction) -> Self {
        let wide = |ty: &T| matches!(ty, T::U64 | T::S64 | T::B64);
        if i.mods.types.first().is_some_and(wide) {
            return Self::of_wide(i);
        }
        let scaled = match (i.opcode, i.mods.types.first()) {
            (Opcode::Sin | Opcode::Cos, Some(T::F32)) => return Self { scalings: 1, ..ONE },
            (Opcode::Ex2 | Opcode::Lg2 | Opcode::Rcp | Opcode::Rsqrt, Some(T::F32))
                if i.mods.approx && !i.mods.ftz =>
            {
                true
            }
            (Opcode::Sqrt, Some(T::F32)) => i.mods.approx && !i.mods.ftz,
            (Opcode::Div, Some(T::F32)) => i.mods.approx || i.mods.full,
            _ => false,
        };
        if scaled {
            Self {
                scalings: 2,
                comparison: COMPARISON,
                ..ONE
            }
        } else {
            ONE
        }
    }

    fn of_wide(i: &Instruction) -> Self {
        let (count, depth) = match (i.opcode, i.mods.part) {
            (Opcode::Mul | Opcode::Mad, Some(Part::Lo)) => (4, 3),
            (Opcode::Mul | Opcode::Mad, Some(Part::Hi)) => (6, 4),
            (Opcode::Div | Opcode::Rem, _) => (4, 4),
            (Opcode::Min | Opcode::Max, _) => (4, 3),
            (Opcode::Setp | Opcode::Set | Opcode::Popc | Opcode::Clz | Opcode::Bfind, _) => (2, 2),
            (Opcode::Add | Opcode::Sub, _) => (1, 1),
            (
                Opcode::Neg
                | Opcode::And
                | Opcode::Or
                | Opcode::Xor
                | Opcode::Not
                | Opcode::Shl
                | Opcode::Shr
                | Opcode::Brev
                | Opcode::Selp,
                _,
            ) => (2, 1),
            (Opcode::Abs, _) => (3, 2),
            _ => (1, 1),
        };
        Self {
            count,
            depth,
            ..ONE
        }
    }

    /// Returns the timing of the whole sequence, from that of one of its instructions.
    pub(super) fn timing(self, one: Pipeline, p: &Pipelines) -> Pipeline {
        let beside = (self.count - self.depth) * one.interval;
        Pipeline {
            latency: self.depth * one.latency
                + beside
                + self.scalings * p.fp32.latency
                + self.comparison,
            interval: self.count * one.interval,
        }
    }
}
