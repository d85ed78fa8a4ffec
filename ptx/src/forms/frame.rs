//! One function being rewritten: where text goes, which registers it may use, how a value is loaded, how a thread
//! leaves.
//!
//! Forms put their text through a frame, so that they compose: they never touch the same tokens, because each replaces
//! no more than the operand it is about, and what they insert at one place keeps the order they ran in. Text that
//! stands *in front of* an instruction runs whether the instruction's guard holds or not.

use super::names::Names;
use super::value::{Value, Values};
use super::{Form, Shape};
use crate::control::{
    COUNTERS_AT, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, OFFSET_AT, WORD_FAULT_AT, WORDS_BYTES,
};
use crate::decode::{FuncId, Function, Instruction, Opcode, Operand, Program, Span};
use crate::rewrite::Edits;
use crate::syntax::module::{FunctionSyntax, Module, Statement, StatementKind};

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

/// A function's text in the making.
pub(crate) struct Frame<'a> {
    pub(crate) module: &'a Module,
    pub(crate) program: &'a Program,
    pub(crate) id: FuncId,
    pub(crate) function: &'a Function,
    pub(crate) syntax: &'a FunctionSyntax,
    pub(crate) role: Role,
    pub(crate) names: &'a Names,
    /// What the function is handed in added parameters.
    pub(crate) carried: Values,
    /// Edits that no method covers go here; replace whole operands or insert, so that forms compose.
    pub(crate) edits: Edits,
    /// Index of each instruction's statement, filled on first use.
    statements: Vec<u32>,
    registers: Vec<(&'static str, u32)>,
    scratch: Vec<(&'static str, u32, String)>,
    declarations: String,
    /// A variable in shared memory that the block has for sure, and its size.
    pad: Option<(String, u32)>,
    /// Axes on which the kernel, or a function that it calls, asks for the block's place.
    pub(crate) axes: [bool; 3],
    /// Text that a worker runs once, before its loop.
    once: String,
    /// The part of a worker's loop in front of the body.
    pub(crate) loop_head: String,
    head: String,
    tail: String,
    /// The body does not run into the text at the end.
    tail_open: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(
        (module, program, names): (&'a Module, &'a Program, &'a Names),
        (id, syntax): (FuncId, &'a FunctionSyntax),
        role: Role,
        carried: Values,
    ) -> Self {
        Self {
            module,
            program,
            id,
            function: &program.functions[id.0 as usize],
            syntax,
            role,
            names,
            carried,
            edits: Edits::new(),
            statements: Vec::new(),
            registers: Vec::new(),
            scratch: Vec::new(),
            declarations: String::new(),
            pad: None,
            axes: [false; 3],
            once: String::new(),
            loop_head: String::new(),
            head: String::new(),
            tail: String::new(),
            tail_open: false,
        }
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

    /// Returns a register of its own, of type `pred`, `b16`, `b32` or `b64`.
    pub(crate) fn fresh(&mut self, ty: &'static str) -> String {
        let n = match self.registers.iter_mut().find(|(t, _)| *t == ty) {
            Some((_, n)) => {
                *n += 1;
                *n - 1
            }
            None => {
                self.registers.push((ty, 1));
                0
            }
        };
        format!("%{}_{ty}_{n}", self.names.prefix)
    }

    /// Returns a register for values that do not outlive the text of one place; the same name for the same number
    /// everywhere.
    pub(crate) fn scratch(&mut self, ty: &'static str, number: u32) -> String {
        let known = self
            .scratch
            .iter()
            .find(|(t, n, _)| (*t, *n) == (ty, number));
        if let Some((.., name)) = known {
            return name.clone();
        }
        let name = self.fresh(ty);
        self.scratch.push((ty, number, name.clone()));
        name
    }

    /// Returns a label that no other function text uses.
    pub(crate) fn label(&self, word: &str) -> String {
        // Labels are local to a function, but debug information may name them across.
        format!("${}_{word}_{}", self.names.prefix, self.id.0)
    }

    /// Adds text that runs when the function is entered, in front of the first instruction.
    pub(crate) fn at_entry(&mut self, text: &str) {
        self.head.push(' ');
        self.head.push_str(text);
    }

    /// Adds text that runs when the kernel is entered: in a worker once, in front of its loop.
    pub(crate) fn at_entry_once(&mut self, text: &str) {
        match self.shape() {
            Shape::Worker => {
                self.once.push(' ');
                self.once.push_str(text);
            }
            _ => self.at_entry(text),
        }
    }

    /// Adds text behind the last instruction, in front of the closing brace.
    pub(crate) fn at_end(&mut self, text: &str) {
        if self.tail.len() > 1 << 16 && self.edits.count(self.tail.len()) {
            self.tail.clear();
        }
        self.tail.push(' ');
        self.tail.push_str(text);
    }

    /// Makes sure that text at the end is reached by jumps only.
    pub(crate) fn open_tail(&mut self) {
        if std::mem::replace(&mut self.tail_open, true) {
            return;
        }
        if self.runs_off_its_end() && self.shape() != Shape::Worker {
            self.at_end("ret;");
        }
    }

    /// Returns whether threads may leave at the closing brace.
    pub(crate) fn runs_off_its_end(&self) -> bool {
        let ends = |i: &Instruction| {
            i.guard.is_none() && matches!(i.opcode, Opcode::Ret | Opcode::Exit | Opcode::Bra)
        };
        !self.function.body.last().is_some_and(ends)
    }

    /// Returns whether its text is only counted, and nobody wants to know how much more there is.
    pub(crate) fn is_over(&self) -> bool {
        self.edits.is_over(self.head.len() + self.tail.len())
    }

    /// Returns the instruction's span, its `;` included.
    pub(crate) fn span(&self, instruction: u32) -> Span {
        self.function.body[instruction as usize].span
    }

    /// Inserts text in front of an instruction.
    pub(crate) fn before(&mut self, instruction: u32, text: &str) {
        if !text.is_empty() {
            let at = self.span(instruction).start;
            self.edits.insert(at, format!("{text} "));
        }
    }

    /// Inserts text behind an instruction; it runs whether the instruction's guard holds or not.
    pub(crate) fn after(&mut self, instruction: u32, text: &str) {
        let at = self.span(instruction).end;
        self.edits.insert(at, format!(" {text}"));
    }

    /// Replaces an instruction, all but its guard.
    pub(crate) fn replace_operation(&mut self, instruction: u32, text: &str) {
        let statement = self.statement(instruction);
        let tokens = &self.module.cursor(0).tokens[statement.first..statement.end];
        let guard = match tokens.first().map(|t| t.kind()) {
            Some(b'@') if tokens[1].kind() == b'!' => 3,
            Some(b'@') => 2,
            _ => 0,
        };
        let span = self
            .module
            .token_span(statement.first + guard, statement.end);
        self.edits.replace(span, text);
    }

    /// Returns the instruction's statement, for edits to single tokens.
    pub(crate) fn statement(&mut self, instruction: u32) -> Statement {
        if self.statements.is_empty() {
            let (from, to) = self.syntax.statements;
            let is_instruction = |s: &Statement| s.kind == StatementKind::Instruction;
            self.statements.reserve_exact(self.function.body.len());
            let all = (from..to).zip(self.module.statements_in(from, to));
            // Four bytes each: a module of 64 MiB has fewer than 2^32 statements.
            self.statements.extend(
                all.filter(|(_, s)| is_instruction(s))
                    .map(|(n, _)| u32::try_from(n).unwrap_or(u32::MAX)),
            );
        }
        let at = self.statements[instruction as usize] as usize;
        // The index came from the module.
        self.module.statement(at).unwrap_or(Statement {
            kind: StatementKind::Empty,
            first: self.syntax.first,
            end: self.syntax.first,
        })
    }

    /// Returns the register that holds the block's coordinate on an axis throughout the body (`worker`).
    pub(crate) fn block_register(&mut self, axis: u8) -> String {
        self.scratch("b32", 16 + u32::from(axis.min(2)))
    }

    /// Returns the control block's field at that offset, as an address operand.
    pub(crate) fn control(&self, offset: u32) -> String {
        format!("[{}+{offset}]", self.names.control)
    }

    /// Returns the register in which a callee is handed the value.
    pub(crate) fn formal(&self, value: Value) -> Option<String> {
        self.carried
            .contains(value)
            .then(|| value.formal(&self.names.prefix))
    }

    /// Returns text that puts a value into a register of its type, ending in `;`.
    pub(crate) fn load(&mut self, value: Value, into: &str) -> String {
        if let Some(formal) = self.formal(value) {
            return format!("mov.{} {into}, {formal};", value.ty());
        }
        let axis = |axis: u8| ["x", "y", "z"][usize::from(axis.min(2))];
        match (value, self.role) {
            (Value::Ctaid(a), Role::Kernel(form)) if form.shape == Shape::Slice => {
                let t = self.scratch("b32", 0);
                let offset = self.control(OFFSET_AT + 4 * u32::from(a));
                let a = axis(a);
                format!(
                    "mov.u32 {into}, %ctaid.{a}; ld.param.u32 {t}, {offset}; add.u32 {into}, {into}, {t};"
                )
            }
            (Value::Ctaid(a), Role::Kernel(form)) if form.shape == Shape::Worker => {
                self.axes[usize::from(a.min(2))] = true;
                let coordinate = self.block_register(a);
                format!("mov.u32 {into}, {coordinate};")
            }
            (Value::Nctaid(a), Role::Kernel(form)) if form.shape != Shape::Whole => {
                let grid = self.control(GRID_AT + 4 * u32::from(a));
                format!("ld.param.u32 {into}, {grid};")
            }
            (Value::SharedEnd, Role::Kernel(form)) if form.fenced => self.shared_end(into),
            (Value::Ctaid(a), _) => format!("mov.u32 {into}, %ctaid.{};", axis(a)),
            (Value::Nctaid(a), _) => format!("mov.u32 {into}, %nctaid.{};", axis(a)),
            (Value::FenceBase | Value::FenceMask | Value::Counters, Role::Kernel(form))
                if form != Form::WHOLE =>
            {
                let at = match value {
                    Value::FenceBase => FENCE_BASE_AT,
                    Value::FenceMask => FENCE_MASK_AT,
                    _ => COUNTERS_AT,
                };
                format!("ld.param.u64 {into}, {};", self.control(at))
            }
            // A kernel without a control block that calls a function that is fenced for another kernel's sake. Whoever
            // fences never launches it.
            _ => format!("mov.{} {into}, 0;", value.ty()),
        }
    }

    /// Returns text that puts the end of the tenant's shared memory into a register: where the words of `worker` begin,
    /// else where the dynamic part ends.
    fn shared_end(&mut self, into: &str) -> String {
        let mut text = match self.shape() {
            Shape::Worker => self.words_address(into),
            _ => {
                let size = self.scratch("b32", 9);
                let shared = &self.names.shared;
                format!(
                    "mov.u32 {into}, {shared}; mov.u32 {size}, %dynamic_smem_size; add.u32 {into}, {into}, {size};"
                )
            }
        };
        if let Some((pad, bytes)) = &self.pad {
            // This never changes the end; it keeps `ptxas` from dropping the variable.
            let (pad, bytes) = (pad.clone(), *bytes);
            let least = self.scratch("b32", 9);
            text.push_str(&format!(
                " mov.u32 {least}, {pad}+{bytes}; max.u32 {into}, {into}, {least};"
            ));
        }
        text
    }

    /// Declares shared memory that only makes sure that the block has so much.
    pub(crate) fn pad_shared(&mut self, bytes: u32) {
        let pad = format!("{}_pad_{}", self.names.prefix, self.id.0);
        self.declarations
            .push_str(&format!(" .shared .align 4 .b8 {pad}[{bytes}];"));
        self.pad = Some((pad, bytes));
    }

    /// Makes sure that a shared variable, at least that large, is kept.
    pub(crate) fn rely_on_shared(&mut self, name: String, bytes: u32) {
        self.pad = Some((name, bytes));
    }

    /// Returns text by which a thread leaves for good after a fault. The other threads of a worker learn it from a word
    /// in shared memory, because the thread may be the one that takes the tickets.
    pub(crate) fn leave_for_fault(&mut self) -> String {
        if self.shape() != Shape::Worker {
            return "exit;".to_owned();
        }
        let (find, words) = self.words();
        let one = self.fresh("b32");
        format!("{find} mov.u32 {one}, 1; st.shared.u32 [{words}+{WORD_FAULT_AT}], {one}; exit;")
    }

    /// Returns text that puts the address of a worker's words into a 32-bit register: the end of the dynamic shared
    /// memory, whose size every block can read (`%dynamic_smem_size`, PTX ISA section 10.30).
    fn words_address(&mut self, into: &str) -> String {
        let size = self.scratch("b32", 9);
        let shared = &self.names.shared;
        format!(
            "mov.u32 {into}, {shared}; mov.u32 {size}, %dynamic_smem_size; add.u32 {into}, {into}, {size}; \
             and.b32 {into}, {into}, -16; sub.u32 {into}, {into}, {WORDS_BYTES};"
        )
    }

    /// Returns text that finds a worker's words, and the register that holds their address then.
    pub(crate) fn words(&mut self) -> (String, String) {
        let words = self.scratch("b32", 3);
        (self.words_address(&words), words)
    }

    /// Adds the text at entry and end, with the registers that were asked for, and hands over the edits.
    pub(crate) fn finish(mut self) -> Edits {
        if self.is_over() {
            self.edits.count(self.head.len() + self.tail.len());
            return self.edits;
        }
        if !self.loop_head.is_empty() {
            self.head = format!("{} {}{}", self.once, self.loop_head, self.head);
        }
        let mut declared = std::mem::take(&mut self.declarations);
        for (ty, n) in &self.registers {
            declared.push_str(&format!(" .reg .{ty} %{}_{ty}_<{n}>;", self.names.prefix));
        }
        let brace = self.syntax.header_end;
        let open = self.module.token_span(brace, brace + 1).end;
        let entry = self.entry_offset();
        if !declared.is_empty() {
            self.edits.insert_first(open, declared);
        }
        if !self.head.is_empty() {
            // What stands in front of the same instruction otherwise belongs to the body.
            self.head.push(' ');
            self.edits.insert_first(entry, &self.head);
        }
        if !self.tail.is_empty() {
            let close = self.syntax.end - 1;
            let at = self.module.token_span(close, close + 1).start;
            self.tail.push(' ');
            self.edits.insert(at, self.tail.trim_start());
        }
        self.edits
    }

    /// Returns where text at entry goes: behind the declarations that stand before the first instruction, so that it
    /// may name their registers; `None` when there are none, and when a branch may lead back to a label among them.
    fn entry_point(&self) -> Option<u32> {
        let (from, to) = self.syntax.statements;
        let mut behind = None;
        let mut labels = false;
        // The header and its brace come first.
        for s in self.module.statements_in(from + 2, to) {
            match s.kind {
                StatementKind::Declaration => {
                    if labels && self.branches_to_start() {
                        return None;
                    }
                    behind = Some(self.module.token_span(s.first, s.end).end);
                }
                StatementKind::Label => labels = true,
                StatementKind::Loc | StatementKind::Pragma | StatementKind::Empty => {}
                _ => break,
            }
        }
        behind
    }

    /// Returns the byte offset at which text at entry stands.
    pub(crate) fn entry_offset(&self) -> u32 {
        let brace = self.syntax.header_end;
        let open = self.module.token_span(brace, brace + 1).end;
        self.entry_point().unwrap_or(open)
    }

    fn branches_to_start(&self) -> bool {
        let f = self.function;
        f.branch_tables.iter().flatten().any(|&t| t == 0)
            || f.body
                .iter()
                .flat_map(|i| &i.operands)
                .any(|o| matches!(o, Operand::Target(0)))
    }
}
