//! One function being rewritten: where code goes, which registers it may use, how a value is loaded, how a thread
//! leaves.
//!
//! Forms put their code through a frame, so that they compose: each changes no more of an instruction than the operand
//! it is about, and what they insert at one place keeps the order they ran in. Code that stands *in front of* an
//! instruction runs whether the instruction's guard holds or not, and is run by who jumps to the instruction.
//! [`assemble`](super::assemble) makes a function of it all.

use super::code::{Code, Label, Operands, address_of};
use super::make::Added;
use super::value::{Value, Values};
use super::{Form, Reason, Shape};
use crate::control::{
    COUNTERS_AT, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, OFFSET_AT, WORD_FAULT_AT, WORDS_BYTES,
};
use crate::decode::{
    AddressBase, FuncId, Function, Instruction, Opcode, Operand, Program, RegId, ScalarType,
    SpecialReg, StateSpace, Symbol, VarId, Variable,
};
use std::collections::BTreeMap;

/// The parameter that is the control block, until the function is assembled.
pub(super) const CONTROL: Symbol = Symbol::Param(u32::MAX);

/// What a function is to the rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A kernel that takes this form; it has the control block unless that is [`Form::WHOLE`].
    Kernel(Form),
    /// A function that kernels call; it is handed what it needs.
    Callee {
        /// Whether a fenced kernel may call it.
        fenced: bool,
    },
}

/// A function in the making.
pub(crate) struct Frame<'a> {
    pub(crate) program: &'a Program,
    pub(crate) id: FuncId,
    /// The original.
    pub(crate) function: &'a Function,
    pub(crate) role: Role,
    /// What the module has for all of its functions.
    pub(crate) added: &'a Added<'a>,
    /// What the function is handed in added parameters, and the registers that hold it.
    pub(super) formals: Vec<(Value, RegId)>,
    /// Types of the original's registers, then of those that were added.
    pub(super) registers: Vec<ScalarType>,
    scratch: Vec<(ScalarType, u32, RegId)>,
    /// Instructions of which something is otherwise now.
    pub(super) changed: BTreeMap<u32, Instruction>,
    /// Instructions in whose place other code stands.
    pub(super) replaced: BTreeMap<u32, Code>,
    /// Code in front of instructions, in the order in which it was added.
    pub(super) before: Vec<(u32, Code)>,
    /// Code behind instructions.
    pub(super) after: Vec<(u32, Code)>,
    /// Labels that were added.
    pub(super) labels: u32,
    /// Variables that the function gets.
    pub(super) variables: Vec<Variable>,
    /// Shared variables of its own that are aligned to more than they were.
    pub(crate) raised: Vec<VarId>,
    /// A variable in shared memory that the block has for sure, and its size.
    pad: Option<(VarId, u32)>,
    /// The register that holds the address of the block of placed variables, loaded at the entry.
    block: Option<RegId>,
    /// Axes on which the kernel, or a function that it calls, asks for the block's place.
    pub(crate) axes: [bool; 3],
    /// What a worker runs once, before its loop.
    pub(super) once: Code,
    /// The part of a worker's loop in front of the body.
    pub(crate) loop_head: Code,
    pub(super) head: Code,
    pub(super) tail: Vec<Code>,
    /// The body does not run into the code at the end.
    tail_open: bool,
    /// Elements that were added, and how many may be.
    items: usize,
    most: usize,
    /// Why the function cannot be made after all.
    failure: Option<Reason>,
}

impl<'a> Frame<'a> {
    /// Begins with the original. Past `most` added elements nobody wants the function any more.
    pub(crate) fn new(
        program: &'a Program,
        added: &'a Added<'a>,
        (id, role): (FuncId, Role),
        carried: Values,
        most: usize,
    ) -> Self {
        let function = &program.functions[id.0 as usize];
        let mut frame = Self {
            program,
            id,
            function,
            role,
            added,
            formals: Vec::new(),
            registers: function.registers.clone(),
            scratch: Vec::new(),
            changed: BTreeMap::new(),
            replaced: BTreeMap::new(),
            before: Vec::new(),
            after: Vec::new(),
            labels: 0,
            variables: Vec::new(),
            raised: Vec::new(),
            pad: None,
            block: None,
            axes: [false; 3],
            once: Code::new(),
            loop_head: Code::new(),
            head: Code::new(),
            tail: Vec::new(),
            tail_open: false,
            items: 0,
            most,
            failure: None,
        };
        for value in carried.iter() {
            let register = frame.fresh(value.ty());
            frame.formals.push((value, register));
        }
        frame
    }

    /// Returns the kernel's shape; `Whole` in a callee.
    pub(crate) fn shape(&self) -> Shape {
        match self.role {
            Role::Kernel(form) => form.shape,
            Role::Callee { .. } => Shape::Whole,
        }
    }

    /// Returns whether the fence goes round this function.
    pub(crate) fn is_fenced(&self) -> bool {
        match self.role {
            Role::Kernel(form) => form.fenced,
            Role::Callee { fenced } => fenced,
        }
    }

    /// Returns a register of its own.
    pub(crate) fn fresh(&mut self, ty: ScalarType) -> RegId {
        // There are fewer than instructions, of the original and added.
        let register = RegId(u32::try_from(self.registers.len()).unwrap_or(u32::MAX));
        self.registers.push(ty);
        register
    }

    /// Returns registers of its own, all of one type.
    pub(crate) fn several<const N: usize>(&mut self, ty: ScalarType) -> [RegId; N] {
        [(); N].map(|()| self.fresh(ty))
    }

    /// Returns a register for values that do not outlive the code of one place; the same one for the same number
    /// everywhere.
    pub(crate) fn scratch(&mut self, ty: ScalarType, number: u32) -> RegId {
        let mut known = self.scratch.iter();
        if let Some((.., register)) = known.find(|(t, n, _)| (*t, *n) == (ty, number)) {
            return *register;
        }
        let register = self.fresh(ty);
        self.scratch.push((ty, number, register));
        register
    }

    /// Returns a register's type.
    pub(crate) fn type_of(&self, register: RegId) -> ScalarType {
        self.registers[register.0 as usize]
    }

    /// Returns the place of a variable in the block of placed variables, if it has left the module's text.
    pub(crate) fn place_of(&self, variable: VarId) -> Option<i64> {
        let (places, _) = self.added.places()?;
        places.of(variable).map(u64::cast_signed)
    }

    /// Returns the register that holds the address of the block of placed variables.
    pub(crate) fn variables_block(&mut self) -> RegId {
        if let Some(block) = self.block {
            return block;
        }
        let block = self.fresh(ScalarType::B64);
        if let Some((_, pointer)) = self.added.places() {
            let (base, offset) = (AddressBase::Symbol(Symbol::Variable(pointer)), 0);
            let mut code = Code::new();
            code.op("ld.const.u64", (block, Operand::Address { base, offset }));
            self.at_entry(code);
        }
        *self.block.insert(block)
    }

    /// Returns code that adds an offset to the address of the block of placed variables, and the sum.
    pub(crate) fn address_in_block(&mut self, offset: i64) -> (Code, RegId) {
        let (block, sum, mut code) = (
            self.variables_block(),
            self.fresh(ScalarType::B64),
            Code::new(),
        );
        code.op("add.s64", (sum, block, offset));
        (code, sum)
    }

    /// Returns a label of its own.
    pub(crate) fn label(&mut self) -> Label {
        // Behind the targets of the original, one for each of its instructions and one for its end.
        let first = u32::try_from(self.function.body.len() + 1).unwrap_or(u32::MAX);
        self.labels += 1;
        Label(first + self.labels - 1)
    }

    /// Adds code that runs when the function is entered, in front of the first instruction.
    pub(crate) fn at_entry(&mut self, code: Code) {
        self.items += code.items.len();
        self.head.append(code);
    }

    /// Adds code that runs when the kernel is entered: in a worker once, in front of its loop.
    pub(crate) fn at_entry_once(&mut self, code: Code) {
        match self.shape() {
            Shape::Worker => {
                self.items += code.items.len();
                self.once.append(code);
            }
            _ => self.at_entry(code),
        }
    }

    /// Adds code behind the last instruction.
    pub(crate) fn at_end(&mut self, code: Code) {
        self.items += code.items.len();
        self.tail.push(code);
    }

    /// Makes sure that code at the end is reached by jumps only.
    pub(crate) fn open_tail(&mut self) {
        if std::mem::replace(&mut self.tail_open, true) {
            return;
        }
        if self.runs_off_its_end() && self.shape() != Shape::Worker {
            let mut code = Code::new();
            code.op("ret", ());
            self.at_end(code);
        }
    }

    /// Returns whether threads may leave behind the last instruction.
    pub(crate) fn runs_off_its_end(&self) -> bool {
        let ends = |i: &Instruction| {
            i.guard.is_none() && matches!(i.opcode, Opcode::Ret | Opcode::Exit | Opcode::Bra)
        };
        let end = u32::try_from(self.function.body.len()).unwrap_or(u32::MAX);
        let is_end = |operand: &Operand| *operand == Operand::Target(end);
        let mut operands = self.function.body.iter().flat_map(|i| &i.operands);
        let mut tables = self.function.branch_tables.iter().flatten();
        !self.function.body.last().is_some_and(ends)
            || operands.any(is_end)
            || tables.any(|target| *target == end)
    }

    /// Returns whether nobody wants the function any more: so much was added, or it cannot be made.
    pub(crate) fn is_over(&self) -> bool {
        self.items > self.most || self.failure.is_some()
    }

    /// Gives the function up, for a reason that was not seen when it was judged.
    pub(crate) fn fail(&mut self, reason: impl Into<Reason>) {
        self.failure.get_or_insert(reason.into());
    }

    /// Returns why the function cannot be made.
    pub(super) fn failure(&self) -> Option<Reason> {
        let is_long = self.items > self.most;
        let long = is_long.then_some(Reason::TooMuchText(super::make::TIMES_SOURCE));
        self.failure.clone().or(long)
    }

    /// Inserts code in front of an instruction.
    pub(crate) fn before(&mut self, instruction: u32, code: Code) {
        if !code.is_empty() {
            self.items += code.items.len();
            self.before.push((instruction, code));
        }
    }

    /// Inserts code behind an instruction; it runs whether the instruction's guard holds or not.
    pub(crate) fn after(&mut self, instruction: u32, code: Code) {
        self.items += code.items.len();
        self.after.push((instruction, code));
    }

    /// Puts code in the place of an instruction without a guard.
    pub(crate) fn replace(&mut self, instruction: u32, code: Code) {
        self.items += code.items.len();
        self.changed.remove(&instruction);
        self.replaced.insert(instruction, code);
    }

    /// Returns an instruction to change.
    pub(crate) fn change(&mut self, instruction: u32) -> &mut Instruction {
        let original = &self.function.body[instruction as usize];
        self.changed
            .entry(instruction)
            .or_insert_with(|| original.clone())
    }

    /// Replaces an operand.
    pub(crate) fn replace_operand(
        &mut self,
        instruction: u32,
        operand: usize,
        by: impl Into<Operand>,
    ) {
        self.change(instruction).operands[operand] = by.into();
    }

    /// Replaces an instruction, all but its guard.
    pub(crate) fn replace_operation(
        &mut self,
        instruction: u32,
        mnemonic: &'static str,
        operands: impl Operands,
    ) {
        let changed = self.change(instruction);
        let (guard, span) = (changed.guard, changed.span);
        *changed = Instruction {
            span,
            source_line: changed.source_line,
            ..Instruction::added(guard, mnemonic, operands.list())
        };
    }

    /// Returns the register that holds the block's coordinate on an axis throughout the body (`worker`).
    pub(crate) fn block_register(&mut self, axis: u8) -> RegId {
        self.scratch(ScalarType::B32, 16 + u32::from(axis.min(2)))
    }

    /// Returns the control block's field at that offset, as an address operand.
    pub(crate) fn control(&self, offset: u32) -> Operand {
        let (base, offset) = (AddressBase::Symbol(CONTROL), i64::from(offset));
        Operand::Address { base, offset }
    }

    /// Returns the register in which a callee is handed the value.
    pub(crate) fn formal(&self, value: Value) -> Option<RegId> {
        let mut formals = self.formals.iter();
        let found = formals.find(|(known, _)| *known == value)?;
        Some(found.1)
    }

    /// Returns a register that holds the value, and what puts it there.
    pub(crate) fn held(&mut self, value: Value) -> (Code, RegId) {
        if let Some(formal) = self.formal(value) {
            return (Code::new(), formal);
        }
        let register = self.fresh(value.ty());
        (self.load(value, register), register)
    }

    /// Returns code that puts a value into a register of its type.
    pub(crate) fn load(&mut self, value: Value, into: RegId) -> Code {
        let mut code = Code::new();
        let mov = match value.ty() {
            ScalarType::B32 => "mov.b32",
            _ => "mov.b64",
        };
        if let Some(formal) = self.formal(value) {
            code.op(mov, (into, formal));
            return code;
        }
        match (value, self.role) {
            (Value::Ctaid(axis), Role::Kernel(form)) if form.shape == Shape::Slice => {
                let t = self.scratch(ScalarType::B32, 0);
                let offset = self.control(OFFSET_AT + 4 * u32::from(axis));
                code.op("mov.u32", (into, SpecialReg::Ctaid(axis)));
                code.op("ld.param.u32", (t, offset));
                code.op("add.u32", (into, into, t));
            }
            (Value::Ctaid(axis), Role::Kernel(form)) if form.shape == Shape::Worker => {
                self.axes[usize::from(axis.min(2))] = true;
                code.op("mov.u32", (into, self.block_register(axis)));
            }
            (Value::Nctaid(axis), Role::Kernel(form)) if form.shape != Shape::Whole => {
                let grid = self.control(GRID_AT + 4 * u32::from(axis));
                code.op("ld.param.u32", (into, grid));
            }
            (Value::SharedEnd, Role::Kernel(form)) if form.fenced => return self.shared_end(into),
            (Value::Ctaid(axis), _) => code.op("mov.u32", (into, SpecialReg::Ctaid(axis))),
            (Value::Nctaid(axis), _) => code.op("mov.u32", (into, SpecialReg::Nctaid(axis))),
            (Value::FenceBase | Value::FenceMask | Value::Counters, Role::Kernel(form))
                if form != Form::WHOLE =>
            {
                let at = match value {
                    Value::FenceBase => FENCE_BASE_AT,
                    Value::FenceMask => FENCE_MASK_AT,
                    _ => COUNTERS_AT,
                };
                code.op("ld.param.u64", (into, self.control(at)));
            }
            // A kernel without a control block that calls a function that is fenced for another kernel's sake. Whoever
            // fences never launches it.
            _ => code.op(mov, (into, 0_i64)),
        }
        code
    }

    /// Returns code that puts the end of the tenant's shared memory into a register: where the words of `worker` begin,
    /// else where the dynamic part ends.
    fn shared_end(&mut self, into: RegId) -> Code {
        let mut code = match self.shape() {
            Shape::Worker => self.words_address(into),
            _ => {
                let size = self.scratch(ScalarType::B32, 9);
                let mut code = Code::new();
                code.op("mov.u32", (into, self.added.shared()));
                code.op("mov.u32", (size, SpecialReg::DynamicSmemSize));
                code.op("add.u32", (into, into, size));
                code
            }
        };
        if let Some((pad, bytes)) = self.pad {
            // This never changes the end; it keeps `ptxas` from dropping the variable.
            let least = self.scratch(ScalarType::B32, 9);
            code.op("mov.u32", (least, address_of(pad, i64::from(bytes))));
            code.op("max.u32", (into, into, least));
        }
        code
    }

    /// Declares shared memory that only makes sure that the block has so much.
    pub(crate) fn pad_shared(&mut self, bytes: u32) {
        let pad = VarId(self.added.first_of_functions() + self.count_of_variables());
        self.variables.push(Variable {
            owner: Some(self.id),
            ..super::make::bytes(StateSpace::Shared, u64::from(bytes), 4)
        });
        self.pad = Some((pad, bytes));
    }

    fn count_of_variables(&self) -> u32 {
        // One or none.
        u32::try_from(self.variables.len()).unwrap_or(u32::MAX)
    }

    /// Makes sure that a shared variable, at least that large, is kept.
    pub(crate) fn rely_on_shared(&mut self, variable: VarId, bytes: u32) {
        self.pad = Some((variable, bytes));
    }

    /// Returns code by which a thread leaves for good after a fault. The other threads of a worker learn it from a word
    /// in shared memory, because the thread may be the one that takes the tickets.
    pub(crate) fn leave_for_fault(&mut self) -> Code {
        let mut code = Code::new();
        if self.shape() == Shape::Worker {
            let (find, words) = self.words();
            let one = self.fresh(ScalarType::B32);
            code.append(find);
            code.op("mov.u32", (one, 1_i64));
            code.op(
                "st.shared.u32",
                (super::code::at(words, WORD_FAULT_AT), one),
            );
        }
        code.op("exit", ());
        code
    }

    /// Returns code that puts the address of a worker's words into a 32-bit register: the end of the dynamic shared
    /// memory, whose size every block can read (`%dynamic_smem_size`, PTX ISA section 10.30).
    fn words_address(&mut self, into: RegId) -> Code {
        let size = self.scratch(ScalarType::B32, 9);
        let mut code = Code::new();
        code.op("mov.u32", (into, self.added.shared()));
        code.op("mov.u32", (size, SpecialReg::DynamicSmemSize));
        code.op("add.u32", (into, into, size));
        code.op("and.b32", (into, into, -16_i64));
        code.op("sub.u32", (into, into, WORDS_BYTES));
        code
    }

    /// Returns code that finds a worker's words, and the register that holds their address then.
    pub(crate) fn words(&mut self) -> (Code, RegId) {
        let words = self.scratch(ScalarType::B32, 3);
        (self.words_address(words), words)
    }
}
