//! One decoded instruction: guard, opcode, modifiers, operands.
//!
//! An [`Instruction`] is generic on purpose: one opcode, one [`Modifiers`] record with a field per modifier kind
//! of the PTX ISA (section 9), and operands in source order, destination first. Which combination is legal is
//! checked by the decoder for the opcodes it knows; a consumer may rely on that.

use super::program::{FuncId, VarId};
use crate::words::{Span, SpecialReg};
use std::sync::Arc;

pub use super::family::{Family, Opcode};
pub use super::modifiers::*;

/// Dense register index within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegId(pub u32);

/// What an address or a `mov` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable.
    Variable(VarId),
    /// Input parameter of the current function, by index.
    Param(u32),
    /// Return parameter of the current function, by index.
    ReturnParam(u32),
    /// A function.
    Function(FuncId),
}

/// Base of an address operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressBase {
    /// `[%rd1+8]`.
    Reg(RegId),
    /// `[name+8]`.
    Symbol(Symbol),
    /// `[128]`.
    Absolute,
}

/// One operand. A module holds millions of them, so what is large or rare stands in a box.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Register.
    Reg(RegId),
    /// Predicate register read negated (`!%p1`).
    NotReg(RegId),
    /// Register read with its sign changed (`-%r1`, `vmad` only).
    NegReg(RegId),
    /// Sum of a register and a constant outside an address (`mov.u32 %r1, %r2+4`).
    RegOffset(RegId, i64),
    /// Vector destination and the predicate that says whether the texels were resident (`{a, b, c, d}|%p`).
    Resident(Box<Operand>, RegId),
    /// Two destination predicates of `setp`/`shfl` (`%p1|%p2`); `None` is the sink `_`.
    RegPair(Option<RegId>, Option<RegId>),
    /// The sink `_`.
    Sink,
    /// Integer literal, sign-extended to 64 bits.
    Int(i64),
    /// `0f…` literal or a decimal one used as f32, as bits.
    F32(u32),
    /// `0d…` literal or a decimal one, as bits.
    F64(u64),
    /// Special register.
    Special(SpecialReg),
    /// `[base+offset]`.
    Address {
        /// Base.
        base: AddressBase,
        /// Byte offset.
        offset: i64,
    },
    /// A symbol's address (`mov.u64 %rd, name+4`).
    Symbol {
        /// What is named.
        symbol: Symbol,
        /// Byte offset.
        offset: i64,
    },
    /// `{a, b, c, d}`.
    Vector(Box<[Operand]>),
    /// `[tex, {x, y}]` and surface operands.
    TexAddress(Box<TexAddress>),
    /// Branch target as an instruction index.
    Target(u32),
    /// Index into `Function::branch_tables`.
    BranchTable(u32),
    /// Index into `Function::call_prototypes`.
    Prototype(u32),
    /// Returned and passed arguments of `call`, in parentheses.
    Arguments(Box<[Operand]>),
    /// Byte or half selector `%r.b0`, `.h1`, `.b3210` of video instructions, kept by text; `-` before it when negated.
    Selected(RegId, Box<str>),
}

impl Operand {
    /// Calls `each` for everything that the operand names.
    pub(crate) fn for_each_symbol(&mut self, each: &mut dyn FnMut(&mut Symbol)) {
        match self {
            Self::Address {
                base: AddressBase::Symbol(symbol),
                ..
            }
            | Self::Symbol { symbol, .. } => each(symbol),
            Self::Vector(all) | Self::Arguments(all) => {
                all.iter_mut()
                    .for_each(|operand| operand.for_each_symbol(each));
            }
            Self::Resident(vector, _) => vector.for_each_symbol(each),
            Self::TexAddress(address) => {
                address.object.for_each_symbol(each);
                let sampler = address.sampler.iter_mut();
                let others = sampler.chain(&mut address.coordinates);
                others.for_each(|operand| operand.for_each_symbol(each));
            }
            _ => {}
        }
    }
}

const _: () = assert!(size_of::<Operand>() <= 24, "an operand has grown");

/// Where a texture or surface instruction reads or writes.
#[derive(Debug, Clone, PartialEq)]
pub struct TexAddress {
    /// Texture or surface handle: a register or symbol.
    pub object: Operand,
    /// Sampler, when given apart.
    pub sampler: Option<Operand>,
    /// Coordinates.
    pub coordinates: Box<[Operand]>,
}

/// `@%p` or `@!%p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Predicate register.
    pub reg: RegId,
    /// `!`.
    pub negated: bool,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// Guard predicate.
    pub guard: Option<Guard>,
    /// Base opcode.
    pub opcode: Opcode,
    /// Opcode as written with its modifiers, for messages and for [`Opcode::Other`]; one text for all that are alike.
    pub mnemonic: Arc<str>,
    /// Modifiers; one record for all instructions with the same mnemonic.
    pub mods: Arc<Modifiers>,
    /// Operands, destination first. `call` has: `Arguments` returned (maybe empty), then `Symbol` or `Reg`, then
    /// `Arguments` passed, then an optional `Prototype`.
    pub operands: Vec<Operand>,
    /// Line of the nearest preceding `.loc` as (file index, line), when there is one.
    pub source_line: Option<(u32, u32)>,
    /// Where it stands in the PTX.
    pub span: Span,
}

impl Instruction {
    /// Makes an instruction that stands nowhere in the original.
    ///
    /// # Panics
    /// In builds with assertions, where the opcode table does not know the mnemonic.
    pub(crate) fn added(
        guard: Option<Guard>,
        mnemonic: &'static str,
        operands: Vec<Operand>,
    ) -> Self {
        let (opcode, mnemonic, mods) = super::opcode::added(mnemonic);
        Self {
            guard,
            opcode,
            mnemonic,
            mods,
            operands,
            source_line: None,
            span: Span::default(),
        }
    }

    /// Returns the function that a call names; `None` for a call through a pointer, and for what is no call.
    #[must_use]
    pub fn callee(&self) -> Option<FuncId> {
        match (self.opcode, self.operands.get(1)) {
            (
                Opcode::Call,
                Some(Operand::Symbol {
                    symbol: Symbol::Function(f),
                    ..
                }),
            ) => Some(*f),
            _ => None,
        }
    }
}
