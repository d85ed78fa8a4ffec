//! How far apart the addresses of neighbouring threads are, for the coalescing estimate.
//!
//! Each register is followed as a function of `%tid.x`: a constant, the same in all threads, `a + k·%tid.x` with a
//! known `k` (the classic affine abstraction; Jang et al., «Exploiting memory access patterns to improve memory
//! performance in data-parallel architectures», TPDS 2011, uses the same one), or unknown. An access is *coalesced*
//! when neighbours are no further apart than what each of them moves; Kernelet's PUR/MUR (section 4.3) and SRTF's model
//! tell the two kinds apart. It is an estimate: registers with several definitions take what these agree on, and blocks
//! are taken to be at least a warp wide in x.

use super::operands::{Access, for_each_register};
use super::uniformity::Uniformity;
use crate::decode::{
    AddressBase, Function, Instruction, Opcode, Operand, Part, RegId, SpecialReg, StateSpace,
};

/// Rounds over the body until values settle; what has not settled then is unknown.
const MAX_ROUNDS: usize = 8;

/// Global-memory accesses by the strides of their addresses; each instruction counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coalescing {
    /// Neighbouring threads reach neighbouring or equal addresses.
    pub coalesced: u32,
    /// They reach addresses further apart, or nobody knows where.
    pub uncoalesced: u32,
}

/// A register as a function of `%tid.x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Unset,
    Constant(i64),
    /// The same in neighbouring threads.
    Same,
    /// `k·%tid.x` and something that is the same.
    Stride(i64),
    Unknown,
}

impl Value {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unset, v) | (v, Self::Unset) => v,
            (a, b) if a == b => a,
            (Self::Constant(_) | Self::Same, Self::Constant(_) | Self::Same) => Self::Same,
            _ => Self::Unknown,
        }
    }

    fn stride(self) -> Option<i64> {
        match self {
            Self::Constant(_) | Self::Same => Some(0),
            Self::Stride(k) => Some(k),
            _ => None,
        }
    }

    fn of_stride(k: i64) -> Self {
        if k == 0 { Self::Same } else { Self::Stride(k) }
    }
}

/// Classifies the global accesses of a body.
#[must_use]
pub fn coalescing(function: &Function, uniformity: &Uniformity) -> Coalescing {
    let values = values(function, uniformity);
    let mut counts = Coalescing::default();
    for i in function.body.iter().filter(|i| is_global(i)) {
        let address = i.operands.iter().find_map(|o| match o {
            Operand::Address { base, .. } if i.opcode != Opcode::CpAsync => Some(*base),
            _ => None,
        });
        // The source of an asynchronous copy is its second address.
        let address = address.or_else(|| match i.operands.get(1) {
            Some(Operand::Address { base, .. }) => Some(*base),
            _ => None,
        });
        let stride = match address {
            Some(AddressBase::Reg(r)) => values[r.0 as usize].stride(),
            Some(_) => Some(0),
            None => None,
        };
        if stride.is_some_and(|k| k.unsigned_abs() <= u64::from(width_bytes(i))) {
            counts.coalesced += 1;
        } else {
            counts.uncoalesced += 1;
        }
    }
    counts
}

fn is_global(i: &Instruction) -> bool {
    use Opcode as O;
    match i.opcode {
        O::Ld | O::Ldu | O::St | O::Atom | O::Red => matches!(
            i.mods.spaces.first().copied().unwrap_or_default(),
            StateSpace::Global | StateSpace::Generic
        ),
        O::CpAsync => true,
        _ => false,
    }
}

/// Returns the bytes that one thread moves.
fn width_bytes(i: &Instruction) -> u32 {
    if i.opcode == Opcode::CpAsync {
        return match i.operands.get(2) {
            Some(Operand::Int(n)) => u32::try_from(*n).unwrap_or(16),
            _ => 16,
        };
    }
    let element = i.mods.types.first().map_or(4, |t| t.size_bytes());
    element * u32::from(i.mods.vector.max(1))
}

fn values(function: &Function, uniformity: &Uniformity) -> Vec<Value> {
    let mut values = vec![Value::Unset; function.registers.len()];
    for round in 0..MAX_ROUNDS {
        let mut changed = false;
        for i in &function.body {
            let result = result(i, &values, uniformity);
            for_each_register(i, |r, access| {
                if access != Access::Read {
                    let value = if uniformity.is_uniform(r) && !matches!(result, Value::Constant(_))
                    {
                        Value::Same
                    } else {
                        result
                    };
                    let slot = &mut values[r.0 as usize];
                    let joined = if round + 1 == MAX_ROUNDS && slot.join(value) != *slot {
                        Value::Unknown
                    } else {
                        slot.join(value)
                    };
                    changed |= joined != *slot;
                    *slot = joined;
                }
            });
        }
        if !changed {
            break;
        }
    }
    values
}

/// Returns what an instruction computes.
fn result(i: &Instruction, values: &[Value], uniformity: &Uniformity) -> Value {
    use Opcode as O;
    let at = |n: usize| operand(i.operands.get(n), values, uniformity);
    let both = |f: fn(i64, i64) -> i64| match (at(1), at(2)) {
        (Value::Unset, _) | (_, Value::Unset) => Value::Unset,
        (Value::Constant(a), Value::Constant(b)) => Value::Constant(f(a, b)),
        (a, b) => match (a.stride(), b.stride()) {
            (Some(a), Some(b)) => Value::of_stride(f(a, b)),
            _ => Value::Unknown,
        },
    };
    let low = i.mods.part != Some(Part::Hi);
    match i.opcode {
        O::Mov | O::Cvta => at(1),
        O::Cvt if i.mods.types.iter().all(|t| !t.is_float()) => at(1),
        // Compilers join an aligned base and a small index by `or`.
        O::Add | O::Or => both(i64::wrapping_add),
        O::Sub => both(i64::wrapping_sub),
        O::Mul | O::Mul24 if low => product(at(1), at(2)),
        O::Mad | O::Mad24 if low => sum(product(at(1), at(2)), at(3)),
        O::Shl => match at(2) {
            Value::Constant(n @ 0..=62) => product(at(1), Value::Constant(1 << n)),
            Value::Unset => Value::Unset,
            _ => product(at(1), Value::Unknown),
        },
        O::Selp => at(1).join(at(2)),
        _ => Value::Unknown,
    }
}

fn sum(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Unset, _) | (_, Value::Unset) => Value::Unset,
        (Value::Constant(a), Value::Constant(b)) => Value::Constant(a.wrapping_add(b)),
        _ => match (a.stride(), b.stride()) {
            (Some(a), Some(b)) => Value::of_stride(a.wrapping_add(b)),
            _ => Value::Unknown,
        },
    }
}

fn product(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Unset, _) | (_, Value::Unset) => Value::Unset,
        (Value::Constant(a), Value::Constant(b)) => Value::Constant(a.wrapping_mul(b)),
        (Value::Constant(c), Value::Stride(k)) | (Value::Stride(k), Value::Constant(c)) => {
            Value::of_stride(c.wrapping_mul(k))
        }
        _ if a.stride() == Some(0) && b.stride() == Some(0) => Value::Same,
        _ => Value::Unknown,
    }
}

fn operand(operand: Option<&Operand>, values: &[Value], uniformity: &Uniformity) -> Value {
    let register = |r: RegId| match values[r.0 as usize] {
        Value::Unset if uniformity.is_uniform(r) => Value::Same,
        value => value,
    };
    match operand {
        Some(Operand::Reg(r)) => register(*r),
        Some(Operand::RegOffset(r, n)) => sum(register(*r), Value::Constant(*n)),
        Some(Operand::Int(n)) => Value::Constant(*n),
        Some(Operand::Special(SpecialReg::Tid(0) | SpecialReg::Laneid)) => Value::Stride(1),
        Some(Operand::Special(
            SpecialReg::Tid(_)
            | SpecialReg::Ctaid(_)
            | SpecialReg::Ntid(_)
            | SpecialReg::Nctaid(_)
            | SpecialReg::Warpid,
        )) => Value::Same,
        Some(Operand::Symbol { .. }) => Value::Same,
        _ => Value::Unknown,
    }
}
