//! A product and a sum with it right behind, which chips do in one instruction: `IMAD.WIDE`, and `FFMA`, `DFMA` or
//! `HFMA2` where neither says how it rounds (PTX ISA, `mul`: such sequences may be fused).
//!
//! Rule: this is about time only; results are those of the two instructions.

use gridmux_ptx::decode::{Instruction, Opcode, Operand, Part, RegId};

/// A product that the next instruction may add to, or be taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Product {
    reg: RegId,
    is_float: bool,
}

impl Product {
    /// Returns the product that an instruction makes, if the next one may add to it at no cost.
    pub(crate) fn of(i: &Instruction) -> Option<Self> {
        let is_float = is_float(i);
        let fuses = match is_float {
            true => i.mods.rounding.is_none() && !i.mods.sat,
            // The result has 64 bits.
            false => i.mods.part == Some(Part::Wide) && first_bytes(i) == 4,
        };
        match i.operands.first() {
            Some(Operand::Reg(reg)) if i.opcode == Opcode::Mul && i.guard.is_none() && fuses => {
                Some(Self {
                    reg: *reg,
                    is_float,
                })
            }
            _ => None,
        }
    }

    /// Returns whether the instruction behind it adds to it, or subtracts.
    pub(crate) fn is_added_to_by(self, i: &Instruction) -> bool {
        let sums = match (i.opcode, self.is_float) {
            (Opcode::Add, false) => true,
            (Opcode::Add | Opcode::Sub, true) => i.mods.rounding.is_none(),
            _ => false,
        };
        let terms = i.operands.get(1..).unwrap_or_default();
        sums && is_float(i) == self.is_float && terms.contains(&Operand::Reg(self.reg))
    }
}

fn is_float(i: &Instruction) -> bool {
    i.mods.types.first().is_some_and(|ty| ty.is_float())
}

fn first_bytes(i: &Instruction) -> u32 {
    i.mods.types.first().map_or(0, |ty| ty.size_bytes())
}
