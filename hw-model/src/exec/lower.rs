//! Lowering: from one typed instruction to one operation.
//!
//! Each opcode family chooses the lane function and names its operands in a [`Draft`]; what all operations have
//! in common (guard, scoreboard entries, pipeline numbers) is added here.
//! Rule: a family returns `None` for any combination that it does not execute, and the module is refused.

use super::control::frame_layout::FrameLayout;
use super::expansion::Expansion;
use super::isa::{handler, lane_fn};
use super::matrix::timing::MatrixWork;
use super::op::{CONSTANT, ExecFn, Kind, NONE, Op, Pipe, RegisterSlot, WAITS, WRITES};
use super::product::Product;
use crate::config::{GpuConfig, Pipeline, Pipelines};
use gridmux_ptx::decode::{
    Function, Instruction, Opcode, Operand, RegId, ScalarType, StateSpace, Symbol,
};
use std::collections::{HashMap, HashSet};

/// Pipeline classes, as the description of a GPU names them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Int,
    IntMul,
    IntDiv,
    Popc,
    BitFind,
    Fp32,
    Fp32Div,
    Half,
    Fp64,
    Fp64Div,
    Sfu,
    Move,
    Control,
    Vote,
    Shuffle,
    Tensor(MatrixWork),
    Memory,
}

impl Class {
    fn timing(self, p: &Pipelines) -> (Pipe, Pipeline) {
        // Chips without integer units of their own do integers in the single-precision ones.
        let int = if p.units.int == 0 {
            Pipe::Fp32
        } else {
            Pipe::Int
        };
        match self {
            Self::Int => (int, p.int),
            Self::IntMul if p.products_in_fp32 => (Pipe::Fp32, p.int_mul),
            Self::IntMul => (int, p.int_mul),
            Self::IntDiv => (int, p.int_div),
            Self::Popc => p.popc.map_or((int, p.int), |popc| (Pipe::Sfu, popc)),
            Self::BitFind => p.bit_find.map_or((int, p.int), |find| (Pipe::Sfu, find)),
            Self::Half => (Pipe::Fp32, p.half.unwrap_or(p.fp32)),
            Self::Tensor(work) => work.timing(p),
            Self::Fp32 => (Pipe::Fp32, p.fp32),
            Self::Fp32Div => (Pipe::Fp32, p.fp32_div),
            Self::Fp64 => (Pipe::Fp64, p.fp64),
            Self::Fp64Div => (Pipe::Fp64, p.fp64_div),
            Self::Sfu => (Pipe::Sfu, p.sfu),
            Self::Move => (int, p.r#move),
            Self::Control => (Pipe::Control, p.control),
            Self::Vote => p.vote.map_or((Pipe::Memory, p.shuffle), |vote| (int, vote)),
            Self::Shuffle => (Pipe::Memory, p.shuffle),
            Self::Memory => (
                Pipe::Memory,
                Pipeline {
                    latency: 1,
                    interval: 1,
                },
            ),
        }
    }
}

/// An operation as its opcode family describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft {
    pub(crate) exec: ExecFn,
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    pub(crate) r: [u16; 6],
    pub(crate) imm: i64,
    pub(crate) aux: u32,
    pub(crate) vector: u8,
    /// A predicate that no register names and that the operation may read and write, or [`NONE`].
    pub(crate) also: u16,
}

lane_fn!(Nothing, |_cx, _op| {});

/// Returns an operation without a lane function, on whose kind the engines act.
pub(super) fn without_lanes(operands: &[u16]) -> Draft {
    Draft::alu(handler::<Nothing>(), Class::Control, operands)
}

impl Draft {
    /// Registers to registers.
    pub(crate) fn alu(exec: ExecFn, class: Class, operands: &[u16]) -> Self {
        let mut r = [NONE; 6];
        r[..operands.len()].copy_from_slice(operands);
        Self {
            exec,
            class,
            kind: Kind::Alu,
            r,
            imm: 0,
            aux: 0,
            vector: 1,
            also: NONE,
        }
    }

    pub(crate) fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn imm(mut self, imm: i64) -> Self {
        self.imm = imm;
        self
    }

    pub(crate) fn aux(mut self, aux: u32) -> Self {
        self.aux = aux;
        self
    }

    pub(crate) fn also(mut self, predicate: u16) -> Self {
        self.also = predicate;
        self
    }

    pub(crate) fn vector(mut self, vector: u8) -> Self {
        self.vector = vector;
        self
    }
}

/// Addresses that the module's variables were given: device addresses, or offsets in shared and local memory.
pub(crate) type VariableAddresses = [Option<(StateSpace, u64)>];

/// The state of lowering one kernel.
pub(crate) struct Lower<'a> {
    pub(crate) function: &'a Function,
    pub(crate) variables: &'a VariableAddresses,
    /// Slot or predicate of each register.
    pub(crate) place: &'a [u16],
    pub(crate) slots: u16,
    pub(crate) predicates: u16,
    /// The function's frame on the stack.
    pub(crate) frame: FrameLayout,
    /// Predicate that holds the carry flag, where the kernel uses it.
    pub(crate) carry: Option<u16>,
    pub(crate) pipelines: &'a Pipelines,
    folds_moves: bool,
    expands_sequences: bool,
    /// What the instruction before gave, if that was a product of twice its factors' length.
    product: Option<Product>,
    parameters_cached: bool,
    register_banks: u8,
    constants: Constants,
}

/// Broadcast constants of a kernel and all functions that it calls.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    slots: Vec<RegisterSlot>,
    known: HashMap<(u64, bool), u16>,
    too_many: bool,
}

impl Constants {
    /// Returns the constants; `None` when there are more than an operand can name.
    pub(crate) fn into_slots(self) -> Option<Box<[RegisterSlot]>> {
        (!self.too_many).then(|| self.slots.into())
    }
}

impl<'a> Lower<'a> {
    pub(crate) fn new(
        function: &'a Function,
        variables: &'a VariableAddresses,
        place: &'a [u16],
        (slots, predicates): (u16, u16),
        frame: FrameLayout,
        config: &'a GpuConfig,
        constants: Constants,
    ) -> Self {
        Self {
            function,
            variables,
            place,
            slots,
            predicates,
            frame,
            carry: None,
            pipelines: &config.pipelines,
            folds_moves: config.sm.folds_moves,
            expands_sequences: config.sm.expands_sequences,
            product: None,
            parameters_cached: config.sm.parameters_cached,
            register_banks: config.sm.register_banks,
            constants,
        }
    }

    /// Returns the constants so far, for the next function of the kernel.
    pub(crate) fn into_constants(self) -> Constants {
        self.constants
    }

    /// Returns the type of a register.
    pub(crate) fn type_of(&self, reg: RegId) -> ScalarType {
        self.function.registers[reg.0 as usize]
    }

    /// Returns whether the register occupies 64-bit words.
    pub(crate) fn is_wide(&self, reg: RegId) -> bool {
        self.type_of(reg).size_bytes() == 8
    }

    /// Returns the slot of a register operand of that word size, as a destination or an untyped source.
    pub(crate) fn reg(&self, operand: &Operand, wide: bool) -> Option<u16> {
        match operand {
            Operand::Reg(reg)
                if !matches!(self.type_of(*reg), ScalarType::Pred | ScalarType::B128)
                    && self.is_wide(*reg) == wide =>
            {
                Some(self.slot(*reg))
            }
            _ => None,
        }
    }

    /// Returns slot of a register that is live somewhere; slot 0 stands in for one that is only ever written, because
    /// such a register has a live range of its own.
    pub(crate) fn slot(&self, reg: RegId) -> u16 {
        self.place[reg.0 as usize]
    }

    /// Returns the two 64-bit words of a 128-bit register, low one first.
    pub(crate) fn two_words(&self, operand: &Operand) -> Option<[u16; 2]> {
        match operand {
            Operand::Reg(reg) if self.type_of(*reg).size_bytes() == 16 => {
                let slot = self.slot(*reg);
                Some([slot, slot + 2])
            }
            _ => None,
        }
    }

    /// Returns the predicate index of a register operand.
    pub(crate) fn predicate(&self, operand: &Operand) -> Option<u16> {
        match operand {
            Operand::Reg(reg) if self.type_of(*reg) == ScalarType::Pred => Some(self.slot(*reg)),
            _ => None,
        }
    }

    /// Returns the destination of an instruction, of the word size of `ty`.
    pub(crate) fn dst(&self, i: &Instruction, ty: ScalarType) -> Option<u16> {
        self.reg(i.operands.first()?, ty.size_bytes() == 8)
    }

    /// Returns source operand `index` as words of the size of `ty`: a register or a literal.
    pub(crate) fn src(&mut self, i: &Instruction, index: usize, ty: ScalarType) -> Option<u16> {
        self.value(i.operands.get(index)?, ty)
    }

    /// Returns the destination and the sources behind it, each as words of the size of its type.
    pub(crate) fn operands<const N: usize>(
        &mut self,
        i: &Instruction,
        types: [ScalarType; N],
    ) -> Option<[u16; N]> {
        let mut slots = [NONE; N];
        for (n, ty) in types.into_iter().enumerate() {
            slots[n] = if n == 0 {
                self.dst(i, ty)?
            } else {
                self.src(i, n, ty)?
            };
        }
        Some(slots)
    }

    /// Returns an operand as words of the size of `ty`.
    pub(crate) fn value(&mut self, operand: &Operand, ty: ScalarType) -> Option<u16> {
        let wide = ty.size_bytes() == 8;
        match operand {
            Operand::Reg(_) => self.reg(operand, wide),
            Operand::Int(value) if ty.is_float() => self.float_literal(*value, ty),
            Operand::Int(value) => Some(self.constant(value.cast_unsigned(), wide)),
            Operand::F32(bits) if ty == ScalarType::F64 => {
                Some(self.constant(f64::from(f32::from_bits(*bits)).to_bits(), true))
            }
            Operand::F32(bits) => Some(self.constant(u64::from(*bits), wide)),
            #[allow(
                clippy::cast_possible_truncation,
                reason = "a decimal literal used as single precision"
            )]
            Operand::F64(bits) if ty == ScalarType::F32 => {
                Some(self.constant(u64::from((f64::from_bits(*bits) as f32).to_bits()), false))
            }
            Operand::F64(bits) => Some(self.constant(*bits, wide)),
            Operand::Symbol { symbol, offset } => {
                let (_, address) = self.symbol(*symbol)?;
                Some(self.constant(address.wrapping_add_signed(*offset), wide))
            }
            _ => None,
        }
    }

    fn float_literal(&mut self, value: i64, ty: ScalarType) -> Option<u16> {
        match ty {
            ScalarType::F32 => Some(self.constant(u64::from((value as f32).to_bits()), false)),
            ScalarType::F64 => Some(self.constant((value as f64).to_bits(), true)),
            _ => None,
        }
    }

    /// Returns the space and address of a symbol; parameters have their offset in the parameter block.
    pub(crate) fn symbol(&self, symbol: Symbol) -> Option<(StateSpace, u64)> {
        match symbol {
            Symbol::Variable(id) => self.variables[id.0 as usize],
            Symbol::Param(index) => {
                let param = self.function.params.get(index as usize)?;
                Some((StateSpace::Param, u64::from(param.offset)))
            }
            _ => None,
        }
    }

    /// Returns a broadcast constant.
    pub(crate) fn constant(&mut self, value: u64, wide: bool) -> u16 {
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of a word")]
        let (low, high) = (value as u32, (value >> 32) as u32);
        let key = if wide { value } else { u64::from(low) };
        if let Some(known) = self.constants.known.get(&(key, wide)) {
            return *known;
        }
        if self.constants.slots.len() + 2 > usize::from(NONE) {
            // The kernel is refused as a whole; until then any constant will do.
            self.constants.too_many = true;
            self.constants.slots.clear();
            self.constants.known.clear();
        }
        let index = u16::try_from(self.constants.slots.len()).unwrap_or(0);
        if wide {
            let mut words = [0; 64];
            for pair in words.chunks_exact_mut(2) {
                pair.copy_from_slice(&[low, high]);
            }
            for half in words.chunks_exact(32) {
                let mut slot = RegisterSlot::ZERO;
                slot.0.copy_from_slice(half);
                self.constants.slots.push(slot);
            }
        } else {
            self.constants.slots.push(RegisterSlot([low; 32]));
        }
        self.constants.known.insert((key, wide), index | CONSTANT);
        index | CONSTANT
    }

    /// Returns a list of operands too long for an operation, as the words of a constant.
    pub(crate) fn operand_list(&mut self, operands: &[u16]) -> u16 {
        let mut slot = RegisterSlot::ZERO;
        for (word, operand) in slot.0.iter_mut().zip(operands) {
            *word = u32::from(*operand);
        }
        let index = u16::try_from(self.constants.slots.len()).unwrap_or(NONE);
        if index >= NONE {
            self.constants.too_many = true;
            return CONSTANT;
        }
        self.constants.slots.push(slot);
        index | CONSTANT
    }

    /// Returns the words that an operation reads as they are, in slots that follow one another.
    pub(crate) fn words(&mut self, words: &[u32]) -> u16 {
        let index = u16::try_from(self.constants.slots.len()).unwrap_or(NONE);
        if self.constants.slots.len() + words.len().div_ceil(32) >= usize::from(NONE) {
            self.constants.too_many = true;
            return CONSTANT;
        }
        for part in words.chunks(32) {
            let mut slot = RegisterSlot::ZERO;
            slot.0[..part.len()].copy_from_slice(part);
            self.constants.slots.push(slot);
        }
        index | CONSTANT
    }

    /// Returns the cycles that reading the sources takes beyond the first, because some lie in one bank.
    fn bank_conflicts(&self, reads: &[RegId]) -> u16 {
        let banks = usize::from(self.register_banks);
        let mut counts = [0_u16; 32];
        if banks == 0 {
            return 0;
        }
        for reg in reads {
            if self.type_of(*reg) != ScalarType::Pred {
                counts[usize::from(self.slot(*reg)) % banks] += 1;
            }
        }
        counts.iter().max().copied().unwrap_or(0).saturating_sub(1)
    }

    /// Returns how many registers are read; predicates have a file of their own.
    fn sources(&self, reads: &[RegId]) -> u8 {
        let registers = reads
            .iter()
            .filter(|reg| self.type_of(**reg) != ScalarType::Pred);
        u8::try_from(registers.count()).unwrap_or(u8::MAX)
    }

    /// Forgets what came before: control may reach the next instruction from elsewhere.
    pub(crate) fn begin_block(&mut self) {
        self.product = None;
    }

    /// Takes note of what comes before the next instruction.
    pub(crate) fn passed(&mut self, i: &Instruction) {
        self.product = Product::of(i).filter(|_| self.expands_sequences);
    }

    /// Returns whether an instruction adds to the product right before it, which the chip does in one.
    fn adds_to_product(&self, i: &Instruction) -> bool {
        self.product
            .is_some_and(|product| product.is_added_to_by(i))
    }

    /// Adds what every operation has.
    pub(crate) fn finish(
        &self,
        draft: Draft,
        i: &Instruction,
        reads: &[RegId],
        writes: &[RegId],
    ) -> Option<Op> {
        let (pipe, mut timing) = draft.class.timing(self.pipelines);
        if self.expands_sequences {
            timing = Expansion::of(i).timing(timing, self.pipelines);
        }
        if i.guard
            .is_some_and(|g| self.type_of(g.reg) != ScalarType::Pred)
        {
            return None;
        }
        let entry = |reg: &RegId| {
            let place = self.slot(*reg);
            if self.type_of(*reg) == ScalarType::Pred {
                self.slots + place
            } else {
                place
            }
        };
        // A kernel's parameter; those of functions stand in local memory.
        let cached = self.parameters_cached && draft.kind == Kind::Alu && is_load_of_parameter(i);
        let mut op = Op {
            exec: draft.exec,
            imm: draft.imm,
            r: draft.r,
            waits: [NONE; WAITS],
            writes: [NONE; WRITES],
            aux: draft.aux,
            guard: i.guard.map_or(NONE, |g| self.slot(g.reg)),
            guard_negated: i.guard.is_some_and(|g| g.negated),
            kind: if cached { Kind::Parameter } else { draft.kind },
            pipe: if cached { Pipe::Memory } else { pipe },
            vector: draft.vector,
            sources: self.sources(reads),
            latency: u16::try_from(timing.latency).unwrap_or(u16::MAX),
            interval: u16::try_from(timing.interval).unwrap_or(u16::MAX),
            free: i.guard.is_none()
                && draft.kind == Kind::Alu
                && (self.folds_moves && is_folded(i) || self.adds_to_product(i)),
        };
        let unnamed = (draft.also != NONE).then(|| self.slots + draft.also);
        let written: Vec<u16> = writes.iter().map(entry).chain(unnamed).collect();
        let mut waits: Vec<u16> = reads
            .iter()
            .map(entry)
            .chain(written.iter().copied())
            .collect();
        let mut seen = HashSet::new();
        waits.retain(|entry| seen.insert(*entry));
        spread(&mut op.waits, &waits);
        spread(&mut op.writes, &written);
        let conflicts = self.bank_conflicts(reads);
        op.latency = op.latency.saturating_add(conflicts);
        op.interval = op.interval.saturating_add(conflicts);
        Some(op)
    }
}

/// Copies scoreboard entries, or as many of them as there is room for, evenly spread. A matrix operation has more
/// registers than room; those of one operand come from one instruction, so that some stand for all.
fn spread(room: &mut [u16], entries: &[u16]) {
    let count = entries.len().min(room.len());
    for (n, place) in room.iter_mut().enumerate().take(count) {
        *place = entries[n * entries.len() / count];
    }
}

fn is_load_of_parameter(i: &Instruction) -> bool {
    i.opcode == Opcode::Ld && i.mods.spaces.first() == Some(&StateSpace::Param)
}

/// Returns whether `ptxas` makes no instruction of it: a copy between registers, a constant, or a parameter, an operand
/// of the instruction that uses it; halves of 64-bit words are registers of their own.
fn is_folded(i: &Instruction) -> bool {
    use gridmux_ptx::decode::SpecialReg;
    let bits = i.mods.types.first().map_or(0, |ty| ty.size_bytes() * 8);
    match i.opcode {
        Opcode::Cvta => true,
        Opcode::Ld => is_load_of_parameter(i),
        Opcode::Mov => i.operands.iter().all(|operand| match operand {
            // Launch dimensions stand in the constant bank, too.
            Operand::Special(special) => {
                matches!(special, SpecialReg::Ntid(_) | SpecialReg::Nctaid(_))
            }
            Operand::Vector(_) => bits >= 64,
            _ => true,
        }),
        _ => false,
    }
}
