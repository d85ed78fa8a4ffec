//! Which memory an instruction touches, and whether what it reads there may be what another block wrote.

use super::body::Body;
use crate::decode::{
    AddressBase, CacheOp, Instruction, MemoryOrder, Opcode, Operand, RegId, Scope, StateSpace,
    Symbol,
};

/// Steps back from an address to the variable that it lies in.
const MAX_STEPS: usize = 64;

/// A place in a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Where {
    pub(super) variable: u32,
    /// Bytes from its start; `None` is unknown.
    pub(super) offset: Option<i64>,
}

/// How an instruction reads what other blocks may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Reads {
    #[default]
    Never,
    /// As memory that nobody else changes: it races with whoever writes it.
    Weakly,
    /// As memory that others may change: a read that is volatile or ordered, or an instruction that is not known.
    Strongly,
}

/// Returns which operand is the address, for instructions on memory of one space.
pub(super) fn address_operand(i: &Instruction) -> usize {
    usize::from(!matches!(
        i.opcode,
        Opcode::St | Opcode::Red | Opcode::StMatrix | Opcode::StAsync
    ))
}

/// Returns the variable that an address operand lies in, if that can be told.
pub(super) fn place(body: &Body, n: u32, operand: usize) -> Option<Where> {
    match body.instruction(n).operands.get(operand)? {
        Operand::Address { base, offset } => match base {
            AddressBase::Symbol(Symbol::Variable(v)) => Some(Where {
                variable: v.0,
                offset: Some(*offset),
            }),
            AddressBase::Reg(r) => root(body, *r, true).map(|w| w.moved(Some(*offset))),
            _ => None,
        },
        _ => None,
    }
}

impl Where {
    fn moved(self, by: Option<i64>) -> Self {
        let offset = self.offset.zip(by).and_then(|(a, b)| a.checked_add(b));
        Self { offset, ..self }
    }
}

/// Returns where in a variable the address lies that a register holds; without `sums` none of registers may be on the
/// way, and the offset is not known.
fn root(body: &Body, register: RegId, sums: bool) -> Option<Where> {
    let mut by = sums.then_some(0_i64);
    let mut register = register;
    for _ in 0..MAX_STEPS {
        body.spend(1);
        let [n] = body.writers(register) else {
            return None;
        };
        let i = body.instruction(*n);
        let add = |k: i64| by.and_then(|b| b.checked_add(k));
        let next = match (i.opcode, i.operands.get(1..)?) {
            (
                Opcode::Mov | Opcode::Cvta,
                [
                    Operand::Symbol {
                        symbol: Symbol::Variable(v),
                        offset,
                    },
                ],
            ) => {
                return Some(Where {
                    variable: v.0,
                    offset: add(*offset),
                });
            }
            (Opcode::Mov | Opcode::Cvta | Opcode::Cvt, [Operand::Reg(r)]) => (*r, by),
            (Opcode::Mov, [Operand::RegOffset(r, k)]) if sums => (*r, add(*k)),
            (Opcode::Add, [Operand::Reg(r), Operand::Int(k)]) => (*r, add(*k)),
            (Opcode::Sub, [Operand::Reg(r), Operand::Int(k)]) => (*r, add(k.checked_neg()?)),
            (Opcode::Add, [Operand::Reg(a), Operand::Reg(b)]) if sums => {
                return root(body, *a, false).or_else(|| root(body, *b, false));
            }
            (Opcode::Mad, [_, _, Operand::Reg(r)]) if sums => (*r, None),
            _ => return None,
        };
        (register, by) = next;
    }
    None
}

/// Returns the space that an instruction's memory operand lies in; generic addresses of unknown things count as global.
fn space(body: &Body, n: u32) -> StateSpace {
    let i = body.instruction(n);
    match i.mods.spaces.first() {
        None | Some(StateSpace::Generic) => match place(body, n, address_operand(i)) {
            Some(place) => body.program.variables[place.variable as usize].space,
            None => StateSpace::Global,
        },
        Some(space) => *space,
    }
}

pub(super) fn is_global(body: &Body, n: u32) -> bool {
    space(body, n) == StateSpace::Global
}

/// Returns whether an instruction may read what other blocks write: it is on global memory, and its scope goes beyond
/// the block (PTX ISA section 8.5).
pub(super) fn is_of_grid(body: &Body, n: u32) -> bool {
    body.instruction(n).mods.scope != Some(Scope::Cta) && is_global(body, n)
}

/// Returns how an instruction other than an atomic operation or a call reads what other blocks may write.
pub(super) fn reads(body: &Body, n: u32) -> Reads {
    let i = body.instruction(n);
    match i.opcode {
        Opcode::Ld | Opcode::Ldu if is_of_grid(body, n) => {
            let is_strong = matches!(i.mods.order, Some(o) if o != MemoryOrder::Weak)
                || i.mods.cache == Some(CacheOp::Cv);
            match is_strong {
                true => Reads::Strongly,
                false => Reads::Weakly,
            }
        }
        Opcode::WmmaLoad if is_global(body, n) => Reads::Weakly,
        Opcode::Tex | Opcode::Tld4 => Reads::Weakly,
        Opcode::CpAsync | Opcode::CpAsyncBulk | Opcode::CpAsyncBulkTensor => Reads::Weakly,
        Opcode::MultimemLdReduce | Opcode::Suld | Opcode::Other => Reads::Strongly,
        _ => Reads::Never,
    }
}

/// Returns whether an instruction orders accesses as other blocks see them.
pub(super) fn orders(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Membar | Opcode::Fence) && i.mods.scope != Some(Scope::Cta)
}

/// Returns whether an instruction may write memory that other blocks read.
pub(super) fn writes_global(body: &Body, n: u32) -> bool {
    match body.instruction(n).opcode {
        Opcode::St | Opcode::Atom | Opcode::Red | Opcode::WmmaStore => is_global(body, n),
        Opcode::CpAsyncBulk | Opcode::CpAsyncBulkTensor => {
            let spaces = &body.instruction(n).mods.spaces;
            spaces.first() == Some(&StateSpace::Global)
        }
        Opcode::CpReduceAsyncBulk | Opcode::CpReduceAsyncBulkTensor | Opcode::StBulk => true,
        Opcode::MultimemSt | Opcode::MultimemRed | Opcode::Sust | Opcode::Sured => true,
        Opcode::Other => true,
        _ => false,
    }
}

/// Most bytes that a lane's part of a store covers: those of four registers of 64 bits, or of eight of 32.
const WIDEST: u64 = 32;

/// Returns whether what an instruction stores from its address on is at most [`WIDEST`] bytes.
pub(super) fn is_narrow(i: &Instruction) -> bool {
    !matches!(i.opcode, Opcode::WmmaStore | Opcode::StMatrix)
}

/// Returns whether narrow accesses at two places of a variable share no byte.
pub(super) fn lie_apart(one: Where, other: Where) -> bool {
    let offsets = one.offset.zip(other.offset);
    offsets.is_some_and(|(one, other)| one.abs_diff(other) >= WIDEST)
}

/// Returns where an instruction may write the block's shared memory: `None` nowhere, `Some(None)` somewhere.
pub(super) fn shared_write(body: &Body, n: u32) -> Option<Option<Where>> {
    let i = body.instruction(n);
    let is_shared = |s: StateSpace| matches!(s, StateSpace::Shared | StateSpace::SharedCluster);
    match i.opcode {
        Opcode::St | Opcode::Atom | Opcode::Red | Opcode::StMatrix | Opcode::WmmaStore => {
            is_shared(space(body, n)).then(|| {
                let place = place(body, n, address_operand(i));
                place.filter(|_| is_narrow(i))
            })
        }
        Opcode::CpAsync | Opcode::CpAsyncBulk | Opcode::CpAsyncBulkTensor => Some(None),
        Opcode::StAsync | Opcode::RedAsync | Opcode::StBulk | Opcode::CpReduceAsyncBulk => {
            Some(None)
        }
        Opcode::Call | Opcode::Other => Some(None),
        _ => None,
    }
}
