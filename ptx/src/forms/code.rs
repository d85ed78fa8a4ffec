//! Code that a form adds: instructions of the typed tree and labels between them, with no text in it.
//!
//! ```text
//! code.op("setp.ge.u32", (p, number, blocks));
//! code.op_if(p, "exit", ());
//! code.label(block);
//! ```
//!
//! Rule: a mnemonic is a literal of this crate. In builds with assertions, and under the fuzzer, each instruction is
//! held against the opcode table ([`Instruction::added`]).

use crate::decode::{AddressBase, Guard, Instruction, Operand, RegId, SpecialReg, Symbol, VarId};

/// A place in the code that a form adds, or an instruction of the original, to jump to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(pub(super) u32);

/// One element of added code.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A place to jump to.
    Label(Label),
    /// An instruction. Its targets are [`Label`]s.
    Instruction(Instruction),
}

/// A sequence of instructions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Code {
    pub(super) items: Vec<Item>,
}

impl Code {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds an instruction.
    pub(crate) fn op(&mut self, mnemonic: &'static str, operands: impl Operands) {
        self.push(None, mnemonic, operands);
    }

    /// Adds an instruction that is carried out where the predicate holds.
    pub(crate) fn op_if(&mut self, reg: RegId, mnemonic: &'static str, operands: impl Operands) {
        let negated = false;
        self.push(Some(Guard { reg, negated }), mnemonic, operands);
    }

    /// Adds an instruction that is carried out where the predicate does not hold.
    pub(crate) fn op_unless(
        &mut self,
        reg: RegId,
        mnemonic: &'static str,
        operands: impl Operands,
    ) {
        let negated = true;
        self.push(Some(Guard { reg, negated }), mnemonic, operands);
    }

    fn push(&mut self, guard: Option<Guard>, mnemonic: &'static str, operands: impl Operands) {
        let instruction = Instruction::added(guard, mnemonic, operands.list());
        self.items.push(Item::Instruction(instruction));
    }

    /// Adds a place to jump to.
    pub(crate) fn label(&mut self, label: Label) {
        self.items.push(Item::Label(label));
    }

    /// Adds other code behind it.
    pub(crate) fn append(&mut self, other: Self) {
        match self.items.is_empty() {
            true => *self = other,
            false => self.items.extend(other.items),
        }
    }
}

/// Operands of an instruction: a tuple, a list, or one by itself.
pub(crate) trait Operands {
    /// Returns them in order.
    fn list(self) -> Vec<Operand>;
}

impl Operands for () {
    fn list(self) -> Vec<Operand> {
        Vec::new()
    }
}

impl Operands for Vec<Operand> {
    fn list(self) -> Vec<Operand> {
        self
    }
}

macro_rules! operands {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: Into<Operand>),+> Operands for ($($name,)+) {
            fn list(self) -> Vec<Operand> {
                #[allow(non_snake_case, reason = "a name serves as type and as value")]
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    )+};
}

operands! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
}

impl From<RegId> for Operand {
    fn from(register: RegId) -> Self {
        Self::Reg(register)
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Operand {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<SpecialReg> for Operand {
    fn from(register: SpecialReg) -> Self {
        Self::Special(register)
    }
}

impl From<Label> for Operand {
    fn from(label: Label) -> Self {
        Self::Target(label.0)
    }
}

impl From<VarId> for Operand {
    fn from(variable: VarId) -> Self {
        address_of(variable, 0)
    }
}

impl From<Symbol> for Operand {
    fn from(symbol: Symbol) -> Self {
        Self::Symbol { symbol, offset: 0 }
    }
}

/// Returns the address of a byte of a variable.
pub(crate) fn address_of(variable: VarId, offset: i64) -> Operand {
    Operand::Symbol {
        symbol: Symbol::Variable(variable),
        offset,
    }
}

/// Returns the place in memory that a register's address is in front of.
pub(crate) fn at(register: RegId, offset: impl Into<i64>) -> Operand {
    Operand::Address {
        base: AddressBase::Reg(register),
        offset: offset.into(),
    }
}

/// Returns a vector of registers.
pub(crate) fn vector(registers: &[RegId]) -> Operand {
    Operand::Vector(registers.iter().copied().map(Operand::Reg).collect())
}
