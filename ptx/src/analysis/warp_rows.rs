//! What threads of one warp agree on, where a warp is 32 neighbours in x.
//!
//! Block-uniformity cannot see that `tid.x >> 5`, or `tid.x < 32`, is the same in all threads of a warp. It is when the
//! block's width is a multiple of 32 (PTX ISA section 2.2.1 numbers threads x first); then `%tid.x` is *a lane row*, a
//! multiple of 32 that the warp agrees on plus the lane. So is what is added to it in multiples of 32: `%ntid.x` times
//! anything that the warp agrees on, as in the thread's number in its block. An instruction *settles* a lane row when
//! its result is the same for all 32 members: a right shift by 5 or more, a mask without the low five bits, a
//! comparison with a multiple of 32.
//!
//! Only registers with one unguarded write are followed, in source order, so the cost is linear.

use super::operands::{Access, for_each_register};
use crate::decode::{Function, Instruction, Mode, Opcode, Operand, Part, RegId, SpecialReg};

/// What is known of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Unknown,
    Constant(i64),
    /// The block's coordinate in x.
    BlockX,
    /// Anything else that the warp agrees on.
    Agreed,
    /// A multiple of 32 that the warp agrees on.
    Aligned {
        /// The number of the block's first thread in the grid's rows, which is not negative.
        first_thread: bool,
    },
    /// A multiple of 32 plus the lane.
    LaneRow {
        not_negative: bool,
    },
    /// Zero, for certain.
    Zero,
}

/// The instructions of a function that settle a lane row.
#[derive(Debug, Clone, Default)]
pub struct WarpRows {
    /// Instruction and register, in order of the instruction.
    settles: Vec<(u32, RegId)>,
}

impl WarpRows {
    /// Follows lane rows through a function.
    #[must_use]
    pub fn new(function: &Function) -> Self {
        let mut writes = vec![0_u8; function.registers.len()];
        for i in &function.body {
            for_each_register(i, |r, access| match access {
                Access::Read => {}
                Access::Write => {
                    writes[r.0 as usize] = writes[r.0 as usize].saturating_add(1);
                }
                Access::MayWrite => writes[r.0 as usize] = u8::MAX,
            });
        }
        let mut rows = Self::default();
        let mut classes = vec![Class::Unknown; function.registers.len()];
        for (n, i) in (0_u32..).zip(&function.body) {
            let operand = |at: usize| class_of(i.operands.get(at), &classes);
            if let Some(at) = settled_operand(i, &operand)
                && let Some(Operand::Reg(r)) = i.operands.get(at)
            {
                rows.settles.push((n, *r));
            }
            if let Some(Operand::Reg(to)) = i.operands.first()
                && i.guard.is_none()
                && writes[to.0 as usize] == 1
            {
                classes[to.0 as usize] = result(i, &operand);
            }
        }
        rows
    }

    /// Returns whether the instruction gives one result for all values that the register may have within a warp.
    #[must_use]
    pub fn settles(&self, instruction: u32, register: RegId) -> bool {
        self.settles
            .binary_search_by_key(&instruction, |s| s.0)
            .is_ok_and(|at| self.settles[at].1 == register)
    }

    /// Returns whether a warp agrees on the special register where the block does not.
    #[must_use]
    pub fn agrees_on(special: SpecialReg) -> bool {
        matches!(special, SpecialReg::Tid(1..) | SpecialReg::Warpid)
    }

    /// Returns whether the whole warp gets one result from an exchange, whatever each thread puts in: all 32 are named.
    #[must_use]
    pub fn exchange_agrees(i: &Instruction) -> bool {
        let all = |at: usize| matches!(i.operands.get(at), Some(Operand::Int(-1 | 0xffff_ffff)));
        match i.opcode {
            Opcode::Vote | Opcode::Redux => i.mods.sync && all(2),
            Opcode::Shfl => {
                let whole_warp = matches!(i.operands.get(3), Some(Operand::Int(31)));
                let from_one = matches!(i.operands.get(2), Some(Operand::Int(_)));
                i.mods.sync && i.mods.mode == Some(Mode::Idx) && from_one && whole_warp && all(4)
            }
            _ => false,
        }
    }
}

fn class_of(operand: Option<&Operand>, classes: &[Class]) -> Class {
    match operand {
        Some(Operand::Reg(r)) => classes[r.0 as usize],
        Some(Operand::Int(0)) => Class::Zero,
        Some(Operand::Int(n)) => Class::Constant(*n),
        Some(Operand::Special(SpecialReg::Tid(0))) => Class::LaneRow { not_negative: true },
        Some(Operand::Special(SpecialReg::Ntid(0))) => Class::Aligned {
            first_thread: false,
        },
        Some(Operand::Special(SpecialReg::Ctaid(0))) => Class::BlockX,
        Some(Operand::Special(
            SpecialReg::Tid(1..)
            | SpecialReg::Ntid(1..)
            | SpecialReg::Ctaid(1..)
            | SpecialReg::Nctaid(_),
        )) => Class::Agreed,
        _ => Class::Unknown,
    }
}

fn is_lane_row(class: Class) -> bool {
    matches!(class, Class::LaneRow { .. })
}

/// Returns the operand whose lane row the instruction settles.
fn settled_operand(i: &Instruction, operand: &dyn Fn(usize) -> Class) -> Option<usize> {
    use crate::decode::Comparison as C;
    let constant = |at: usize| match operand(at) {
        Class::Constant(n) => Some(n),
        Class::Zero => Some(0),
        _ => None,
    };
    let bits = i
        .mods
        .types
        .first()
        .map_or(0, |t| i64::from(t.size_bytes()) * 8);
    match i.opcode {
        Opcode::Shr if is_lane_row(operand(1)) => {
            constant(2).filter(|k| (5..bits).contains(k)).map(|_| 1)
        }
        Opcode::And if is_lane_row(operand(1)) => constant(2).filter(|m| m & 31 == 0).map(|_| 1),
        Opcode::Bfe if is_lane_row(operand(1)) => {
            constant(2).filter(|&p| (5..bits).contains(&p)).map(|_| 1)
        }
        Opcode::Div if operand(1) == (Class::LaneRow { not_negative: true }) => {
            constant(2).filter(|&d| d > 0 && d % 32 == 0).map(|_| 1)
        }
        Opcode::Setp if i.operands.len() == 3 && i.mods.bool_op.is_none() => {
            let (row, other, comparison) = match (operand(1), operand(2)) {
                (row, other) if is_lane_row(row) => (1, other, i.mods.comparison?),
                (other, row) if is_lane_row(row) => (2, other, mirrored(i.mods.comparison?)?),
                _ => return None,
            };
            // Within [u, u + 31] the comparison must not change its mind.
            let changes_at = |n: i64| match comparison {
                C::Lt | C::Ge | C::Lo | C::Hs => n.rem_euclid(32) == 0,
                C::Le | C::Gt | C::Ls | C::Hi => n.rem_euclid(32) == 31,
                _ => false,
            };
            let ok = match other {
                Class::Constant(n) => changes_at(n),
                Class::Zero | Class::Aligned { .. } => changes_at(0),
                _ => false,
            };
            ok.then_some(row)
        }
        _ => None,
    }
}

/// Returns the comparison with its operands exchanged.
fn mirrored(c: crate::decode::Comparison) -> Option<crate::decode::Comparison> {
    use crate::decode::Comparison as C;
    Some(match c {
        C::Lt => C::Gt,
        C::Gt => C::Lt,
        C::Le => C::Ge,
        C::Ge => C::Le,
        C::Lo => C::Hi,
        C::Hi => C::Lo,
        C::Ls => C::Hs,
        C::Hs => C::Ls,
        _ => return None,
    })
}

/// Returns what the first operand then holds.
fn result(i: &Instruction, operand: &dyn Fn(usize) -> Class) -> Class {
    use Class as K;
    let is_integer = i.mods.types.iter().all(|t| !t.is_float());
    if !is_integer || i.mods.sat {
        return K::Unknown;
    }
    let low = i.mods.part == Some(Part::Lo);
    // Widening keeps the low bits; a narrower result need not.
    let widens = || match i.mods.types.as_slice() {
        [to, from] => to.size_bytes() >= from.size_bytes() && from.size_bytes() >= 4,
        _ => false,
    };
    match i.opcode {
        Opcode::Mov => operand(1),
        Opcode::Cvt if widens() => operand(1),
        Opcode::Mul if low => product(operand(1), operand(2)),
        Opcode::Mad if low => sum(product(operand(1), operand(2)), operand(3)),
        Opcode::Add => sum(operand(1), operand(2)),
        Opcode::Shr => match (operand(1), operand(2)) {
            (K::Zero, _) => K::Zero,
            // The sign of what is not negative.
            (K::LaneRow { not_negative: true }, K::Constant(k))
                if i.mods
                    .types
                    .first()
                    .is_some_and(|t| k + 1 == i64::from(t.size_bytes()) * 8) =>
            {
                K::Zero
            }
            _ => K::Unknown,
        },
        _ => K::Unknown,
    }
}

fn product(a: Class, b: Class) -> Class {
    use Class as K;
    match (a, b) {
        (
            K::BlockX,
            K::Aligned {
                first_thread: false,
            },
        )
        | (
            K::Aligned {
                first_thread: false,
            },
            K::BlockX,
        ) => K::Aligned { first_thread: true },
        (K::Zero, other) | (other, K::Zero) if is_agreed(other) => K::Zero,
        (K::Aligned { .. }, other) | (other, K::Aligned { .. }) if is_agreed(other) => K::Aligned {
            first_thread: false,
        },
        (a, b) if is_agreed(a) && is_agreed(b) => K::Agreed,
        _ => K::Unknown,
    }
}

fn sum(a: Class, b: Class) -> Class {
    use Class as K;
    match (a, b) {
        (K::Zero, other) | (other, K::Zero) => other,
        (K::Aligned { first_thread }, K::LaneRow { not_negative })
        | (K::LaneRow { not_negative }, K::Aligned { first_thread }) => K::LaneRow {
            not_negative: first_thread && not_negative,
        },
        (K::LaneRow { .. }, K::Constant(n)) | (K::Constant(n), K::LaneRow { .. })
            if n % 32 == 0 =>
        {
            K::LaneRow {
                not_negative: false,
            }
        }
        (K::Aligned { .. }, K::Aligned { .. }) => K::Aligned {
            first_thread: false,
        },
        (a, b) if is_agreed(a) && is_agreed(b) => K::Agreed,
        _ => K::Unknown,
    }
}

/// Returns whether all threads of a warp hold the same.
fn is_agreed(class: Class) -> bool {
    !matches!(class, Class::Unknown | Class::LaneRow { .. })
}
