//! What the fence knows of a function's registers: which multiples they hold, and which object they point into.
//!
//! Both are fixpoints over the whole body that do not follow control flow: a register's fact is what holds after each
//! of its definitions. A register that may be read before it is written has no fact. Rules: facts about alignment save
//! work and so must be right for hostile code; facts about objects choose which bounds an address is held to, and so
//! must be right for well-behaved code only. Functions too large to settle in [`MAX_SWEEPS`] sweeps have no facts.

use crate::analysis::{Access, Flow, for_each_register, live_at_entry};
use crate::decode::{
    AddressBase, Function, Instruction, Opcode, Operand, Program, RegId, ScalarType, StateSpace,
    Symbol, VarId,
};

/// Alignments above 2^5 = 32 bytes serve no access.
pub(super) const MOST_ZEROS: u8 = 5;
/// Sweeps over the body; real kernels settle in three or four.
pub(super) const MAX_SWEEPS: u32 = 24;

/// What a register may point into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    /// No pointer: a number.
    None,
    /// A number or a pointer into anything: what was loaded, exchanged or put together from halves. Beside a pointer it
    /// is an index.
    Either,
    /// A variable, or something at a distance from it.
    Variable(VarId),
    /// The kernel's parameters.
    Param,
    /// A generic address that stands for global memory.
    Global,
    /// A generic address in the shared window.
    Shared,
    /// Anything.
    Any,
}

/// A register that is rounded down behind one of its definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    /// The definition.
    pub(super) instruction: u32,
    pub(super) register: RegId,
    /// What it becomes a multiple of, as the number of zeros at the end.
    pub(super) zeros: u8,
}

/// The facts; the default knows of no register, for those who ask for none.
#[derive(Default)]
pub(super) struct RegisterFacts {
    zeros: Vec<u8>,
    objects: Vec<Object>,
    /// Zero bits that a rounding behind each definition makes.
    made: Vec<u8>,
    /// May be read before it is written.
    early: Vec<bool>,
    /// Variables aligned to 16 bytes, whatever their declarations say.
    raised: Vec<VarId>,
}

impl RegisterFacts {
    /// Returns the facts of a function whose `roots` are rounded, and whose shared variables `raised` are aligned to 16
    /// bytes.
    pub(super) fn new(
        (program, function): (&Program, &Function),
        flow: &Flow,
        (roots, raised): (&[Root], &[VarId]),
    ) -> Self {
        let count = function.registers.len();
        let mut values = Self {
            zeros: vec![MOST_ZEROS; count],
            objects: vec![Object::None; count],
            made: vec![0; count],
            early: vec![false; count],
            raised: raised.to_vec(),
        };
        let Some(early) = live_at_entry(function, flow) else {
            return Self::unknown(count);
        };
        let params = function.params.iter().filter_map(|p| p.reg);
        for register in early.into_iter().chain(params) {
            values.zeros[register.0 as usize] = 0;
            values.objects[register.0 as usize] = Object::Any;
            values.early[register.0 as usize] = true;
        }
        for root in roots {
            values.made[root.register.0 as usize] = root.zeros;
        }
        for _ in 0..MAX_SWEEPS {
            if !values.sweep(program, function) {
                return values;
            }
        }
        Self::unknown(count)
    }

    /// Returns no facts at all, for functions that need none.
    pub(super) fn none(function: &Function) -> Self {
        Self::unknown(function.registers.len())
    }

    fn unknown(count: usize) -> Self {
        Self {
            zeros: vec![0; count],
            objects: vec![Object::Any; count],
            made: vec![0; count],
            early: vec![true; count],
            raised: Vec::new(),
        }
    }

    /// Returns how many zero bits end what the register holds.
    pub(super) fn zeros_in(&self, register: RegId) -> u8 {
        self.zeros[register.0 as usize]
    }

    /// Returns whether the register may be read before it is written, or nothing is known of it.
    pub(super) fn is_early(&self, register: RegId) -> bool {
        self.early[register.0 as usize]
    }

    /// Returns the power of two that the register is a multiple of.
    pub(super) fn multiple_of(&self, register: RegId) -> u32 {
        1 << self.zeros[register.0 as usize]
    }

    pub(super) fn object(&self, register: RegId) -> Object {
        self.objects[register.0 as usize]
    }

    fn sweep(&mut self, program: &Program, function: &Function) -> bool {
        let mut changed = false;
        for i in &function.body {
            let (zeros, object) = match i.operands.first() {
                Some(Operand::Reg(_)) => (
                    self.zeros_of_result(program, i),
                    self.object_of_result(function, i),
                ),
                _ => (0, Object::Either),
            };
            for_each_register(i, |r, access| {
                if access != Access::Read {
                    let n = r.0 as usize;
                    let least = self.zeros[n].min(zeros.max(self.made[n]));
                    let joined = join(self.objects[n], object);
                    changed |= least != self.zeros[n] || joined != self.objects[n];
                    (self.zeros[n], self.objects[n]) = (least, joined);
                }
            });
        }
        changed
    }

    /// Returns how many zero bits end an operand.
    pub(super) fn zeros(&self, program: &Program, operand: Option<&Operand>) -> u8 {
        match operand {
            Some(Operand::Reg(r)) => self.zeros[r.0 as usize],
            Some(Operand::RegOffset(r, n)) => self.zeros[r.0 as usize].min(zeros_of(*n)),
            Some(Operand::Int(n)) => zeros_of(*n),
            Some(Operand::Symbol {
                symbol: Symbol::Variable(v),
                offset,
            }) => {
                let align = match self.raised.contains(v) {
                    true => 16,
                    false => program.variables[v.0 as usize].align.max(1),
                };
                zeros_of(i64::from(align)).min(zeros_of(*offset))
            }
            _ => 0,
        }
    }

    fn zeros_of_result(&self, program: &Program, i: &Instruction) -> u8 {
        use Opcode as O;
        if !is_whole(i) {
            return 0;
        }
        let z = |n: usize| self.zeros(program, i.operands.get(n));
        match i.opcode {
            O::Mov if i.operands.len() == 2 && i.mods.vector == 0 => z(1),
            O::Cvta | O::Cvt => z(1),
            O::Add | O::Sub | O::Or | O::Xor | O::Min | O::Max | O::Selp => z(1).min(z(2)),
            O::And => z(1).max(z(2)),
            O::Neg | O::Abs => z(1),
            O::Mul if i.mods.part != Some(crate::decode::Part::Hi) => (z(1) + z(2)).min(MOST_ZEROS),
            O::Mad if i.mods.part != Some(crate::decode::Part::Hi) => {
                (z(1) + z(2)).min(MOST_ZEROS).min(z(3))
            }
            O::Shl => match i.operands.get(2) {
                Some(Operand::Int(n)) => z(1)
                    .saturating_add(u8::try_from(*n).unwrap_or(0))
                    .min(MOST_ZEROS),
                _ => z(1),
            },
            _ => 0,
        }
    }

    fn operand_object(&self, operand: Option<&Operand>) -> Object {
        match operand {
            Some(Operand::Reg(r) | Operand::RegOffset(r, _)) => self.objects[r.0 as usize],
            Some(Operand::Symbol { symbol, .. }) => match symbol {
                Symbol::Variable(v) => Object::Variable(*v),
                Symbol::Param(_) => Object::Param,
                _ => Object::Any,
            },
            _ => Object::None,
        }
    }

    fn object_of_result(&self, function: &Function, i: &Instruction) -> Object {
        use Opcode as O;
        let o = |n: usize| self.operand_object(i.operands.get(n));
        let number = || match i.operands.iter().skip(1).all(|x| self.is_number(x)) {
            true => Object::None,
            false => Object::Either,
        };
        match i.opcode {
            O::Mov if i.operands.len() == 2 && !is_packed(i) => o(1),
            O::Cvt | O::Shfl => o(1),
            O::Cvta => match (i.mods.spaces.first(), i.mods.to) {
                (Some(StateSpace::Global), false) => Object::Global,
                (Some(StateSpace::Shared), false) => Object::Shared,
                _ => o(1),
            },
            O::Add | O::Or | O::And => sum(o(1), o(2)),
            // Two pointers may be kept as one by their difference in bits.
            O::Xor => match (o(1), o(2)) {
                (Object::Either, x) | (x, Object::Either) if x.is_pointer() => Object::Any,
                (a, b) => sum(a, b),
            },
            O::Min | O::Max | O::Selp | O::Slct => join(o(1), o(2)),
            // A distance between two pointers into one object is a number; that of others may lead from the one to the
            // other.
            O::Sub if o(2).is_pointer() => match o(1) == o(2) && o(2) != Object::Any {
                true => Object::None,
                false => Object::Any,
            },
            O::Sub => sum(o(1), o(2)),
            O::Mad | O::Fma => match self.is_number_at(i, 1) && self.is_number_at(i, 2) {
                true => o(3),
                false => sum(Object::Either, o(3)),
            },
            O::Ld if i.mods.spaces.first() == Some(&StateSpace::Param) && function.is_entry => {
                parameter(i)
            }
            O::Ld | O::Ldu | O::Atom | O::Call => Object::Either,
            // What may put a pointer together from parts.
            O::Mov | O::Bfi | O::Prmt | O::Lop3 | O::Shf | O::Other => Object::Either,
            _ => number(),
        }
    }

    fn is_number(&self, operand: &Operand) -> bool {
        self.operand_object(Some(operand)) == Object::None
    }

    fn is_number_at(&self, i: &Instruction, operand: usize) -> bool {
        i.operands.get(operand).is_none_or(|o| self.is_number(o))
    }
}

/// Returns whether a `mov` packs a vector into a register or takes one apart.
fn is_packed(i: &Instruction) -> bool {
    let is_vector = |o: &Operand| matches!(o, Operand::Vector(_));
    i.mods.vector != 0 || i.operands.iter().any(is_vector)
}

/// Returns what a kernel loads from `.param`: its own parameters, or what a call returned.
fn parameter(i: &Instruction) -> Object {
    if let Some(Operand::Address {
        base: AddressBase::Symbol(Symbol::Variable(_)),
        ..
    }) = i.operands.get(1)
    {
        return Object::Either;
    }
    match i.mods.types.first().map(|t| t.size_bytes()) {
        // A pointer that the host passed cannot point into a window of a thread or a block.
        Some(8) => Object::Global,
        _ => Object::None,
    }
}

impl Object {
    fn is_pointer(self) -> bool {
        !matches!(self, Self::None | Self::Either)
    }
}

/// Returns what a sum points into.
fn sum(a: Object, b: Object) -> Object {
    match (a, b) {
        (Object::None, x) | (x, Object::None) => x,
        // An index.
        (Object::Either, x) | (x, Object::Either) => x,
        _ => Object::Any,
    }
}

/// Returns how many zero bits end a number, at most [`MOST_ZEROS`].
pub(super) fn zeros_of(n: i64) -> u8 {
    u8::try_from(n.trailing_zeros())
        .unwrap_or(0)
        .min(MOST_ZEROS)
}

/// Returns whether the instruction computes with integers of at least 32 bits, or copies.
fn is_whole(i: &Instruction) -> bool {
    let is_other = |t: &ScalarType| t.is_float() || t.size_bytes() < 4;
    let copies = matches!(i.opcode, Opcode::Mov | Opcode::Selp | Opcode::Cvta);
    (copies || !i.mods.types.iter().any(is_other)) && !i.mods.sat
}

/// Returns whether the low bits of the result depend on no other bits of what it is made of.
pub(super) fn keeps_low_bits(i: &Instruction) -> bool {
    use Opcode as O;
    let moves = i.opcode != O::Mov || (i.operands.len() == 2 && i.mods.vector == 0);
    let low = i.mods.part != Some(crate::decode::Part::Hi);
    let is = matches!(
        i.opcode,
        O::Mov | O::Cvta | O::Cvt | O::Add | O::Sub | O::Mad | O::Selp
    );
    is && moves && low && is_whole(i)
}

fn join(a: Object, b: Object) -> Object {
    match (a, b) {
        (Object::None, x) | (x, Object::None) => x,
        (a, b) if a == b => a,
        _ => Object::Any,
    }
}
