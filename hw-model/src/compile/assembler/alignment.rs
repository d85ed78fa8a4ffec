//! How many low bits of each register are zero wherever it is written.
//!
//! The analysis does not follow control flow: a register has the fewest zero bits that any of its definitions gives it
//! (Kildall's method on a chain of 65 values). It begins with all bits zero and lowers what contradicts that; when it
//! has not come to rest after [`MOST_ROUNDS`], nothing is known of any register.
//! Rule: sums, products and shifts keep low zero bits modulo any register's width, so that overflow takes none away.

use crate::compile::variables::Layout;
use gridmux_ptx::analysis::{Access, for_each_register};
use gridmux_ptx::decode::{
    AddressBase, Function, Instruction, Opcode, Operand, Part, RegId, ScalarType, StateSpace,
    Symbol,
};

/// Zero bits of zero itself.
const ALL: u32 = 64;
/// Rounds over the body; one that is used before its definition in the text takes one more.
const MOST_ROUNDS: usize = 16;

/// Zero bits of a function's registers.
pub(super) struct Alignment<'a> {
    zeros: Vec<u32>,
    layout: &'a Layout,
}

impl<'a> Alignment<'a> {
    /// Analyses a function whose variables have their places.
    pub(super) fn new(function: &Function, layout: &'a Layout) -> Self {
        let mut known = Self {
            zeros: vec![ALL; function.registers.len()],
            layout,
        };
        for reg in function.params.iter().filter_map(|p| p.reg) {
            known.zeros[reg.0 as usize] = 0;
        }
        for _ in 0..MOST_ROUNDS {
            let mut changed = false;
            for i in &function.body {
                let zeros = known.result(i);
                for_each_register(i, |reg, access| {
                    let before = &mut known.zeros[reg.0 as usize];
                    if access != Access::Read && zeros < *before {
                        *before = zeros;
                        changed = true;
                    }
                });
            }
            if !changed {
                return known;
            }
        }
        known.zeros.fill(0);
        known
    }

    /// Returns whether the base of an address is a multiple of `bytes`, a power of two, whatever the thread.
    pub(super) fn is_multiple(&self, base: AddressBase, bytes: i64) -> bool {
        let base = match base {
            AddressBase::Reg(reg) => self.zeros[reg.0 as usize],
            AddressBase::Symbol(symbol) => self.of_symbol(symbol),
            AddressBase::Absolute => ALL,
        };
        base >= bytes.trailing_zeros()
    }

    fn of_symbol(&self, symbol: Symbol) -> u32 {
        match symbol {
            // Only shared memory is read wide, and the assembler places its variables itself.
            Symbol::Variable(id) => match self.layout.addresses.get(id.0 as usize) {
                Some(Some((StateSpace::Shared, address))) => address.trailing_zeros(),
                _ => 0,
            },
            _ => 0,
        }
    }

    fn of(&self, operand: Option<&Operand>) -> u32 {
        match operand {
            Some(Operand::Reg(RegId(reg))) => self.zeros[*reg as usize],
            Some(Operand::Int(value)) => value.trailing_zeros(),
            Some(Operand::Symbol { symbol, offset }) => {
                self.of_symbol(*symbol).min(offset.trailing_zeros())
            }
            _ => 0,
        }
    }

    /// Returns the zero bits of what an instruction writes.
    fn result(&self, i: &Instruction) -> u32 {
        use Opcode as O;
        let source = |n: usize| self.of(i.operands.get(n));
        if !matches!(i.operands.first(), Some(Operand::Reg(_))) {
            return 0;
        }
        if i.mods.types.first().is_none_or(|ty| ty.is_float()) || i.mods.sat {
            return 0;
        }
        match (i.opcode, i.operands.len()) {
            (O::Mov | O::Cvta, 2) => source(1),
            (O::Cvt, 2) if i.mods.types.iter().all(is_integer) => source(1),
            (O::Add | O::Sub | O::Or | O::Xor, 3) => source(1).min(source(2)),
            (O::And, 3) => source(1).max(source(2)),
            (O::Selp, 4) => source(1).min(source(2)),
            (O::Mul, 3) if i.mods.part != Some(Part::Hi) => (source(1) + source(2)).min(ALL),
            (O::Mad, 4) if i.mods.part != Some(Part::Hi) => (source(1) + source(2)).min(source(3)),
            (O::Shl, 3) => match i.operands.get(2) {
                Some(Operand::Int(by @ 0..=63)) => {
                    (source(1) + u32::try_from(*by).unwrap_or(0)).min(ALL)
                }
                _ => source(1),
            },
            (O::Bfi, 5) => match i.operands.get(3) {
                Some(Operand::Int(at @ 0..=63)) => {
                    (source(1) + u32::try_from(*at).unwrap_or(0)).min(source(2))
                }
                _ => 0,
            },
            _ => 0,
        }
    }
}

fn is_integer(ty: &ScalarType) -> bool {
    use ScalarType as T;
    matches!(
        ty,
        T::U8
            | T::S8
            | T::B8
            | T::U16
            | T::S16
            | T::B16
            | T::U32
            | T::S32
            | T::B32
            | T::U64
            | T::S64
            | T::B64
    )
}
