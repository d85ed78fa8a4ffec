//! A function made of its original and of what forms added: one body, whose targets are its own instructions, and the
//! parameters that were added.
//!
//! Rule: an added instruction has the span of the original instruction that it belongs to, by which the print keeps
//! lines.

use super::code::{Code, Item};
use super::frame::{CONTROL, Frame, Role};
use super::make;
use crate::control::{CONTROL_ALIGN, CONTROL_BYTES};
use crate::decode::{
    Function, Instruction, Operand, Param, RegisterNames, ScalarType, Symbol, VarId, Variable,
};
use std::collections::btree_map::OccupiedEntry;

/// A rewritten function.
pub(super) struct Assembled {
    pub(super) function: Function,
    /// Variables of its own that it has beside the original's.
    pub(super) variables: Vec<Variable>,
    /// Variables of its own that are aligned as vectors now.
    pub(super) raised: Vec<VarId>,
}

impl Frame<'_> {
    /// Puts everything together.
    pub(super) fn assemble(mut self) -> Assembled {
        let has_control = matches!(self.role, Role::Kernel(form) if form.has_control());
        let original = self.function;
        let mut body = Body::new(original, self.labels, has_control);
        let added = self.before.iter().chain(&self.after).map(|(_, code)| code);
        let ends = [&self.once, &self.loop_head, &self.head];
        let added = added
            .chain(self.replaced.values())
            .chain(&self.tail)
            .chain(ends);
        let added: usize = added.map(|code| code.items.len()).sum();
        body.instructions.reserve_exact(original.body.len() + added);
        if !self.loop_head.is_empty() {
            body.add(std::mem::take(&mut self.once), None);
            body.add(std::mem::take(&mut self.loop_head), None);
        }
        body.add(std::mem::take(&mut self.head), None);
        self.before.sort_by_key(|(n, _)| *n);
        self.after.sort_by_key(|(n, _)| *n);
        let (mut before, mut after) = (
            self.before.drain(..).peekable(),
            self.after.drain(..).peekable(),
        );
        for (n, instruction) in (0_u32..).zip(&original.body) {
            body.target();
            while let Some((_, code)) = before.next_if(|(at, _)| *at == n) {
                body.add(code, Some(instruction));
            }
            let changed = self.changed.first_entry().filter(|first| *first.key() == n);
            let changed = changed.map(OccupiedEntry::remove);
            debug_assert!(
                changed.is_none() || !self.replaced.contains_key(&n),
                "instruction {n} is changed and replaced"
            );
            match (self.replaced.remove(&n), changed) {
                (Some(code), _) => body.add(code, Some(instruction)),
                (None, Some(changed)) => body.instructions.push(changed),
                (None, None) => body.instructions.push(instruction.clone()),
            }
            while let Some((_, code)) = after.next_if(|(at, _)| *at == n) {
                body.add(code, Some(instruction));
            }
        }
        body.target();
        drop((before, after));
        for code in std::mem::take(&mut self.tail) {
            body.add(code, None);
        }
        let mut function = body.function(original);
        if has_control {
            control(&mut function);
        }
        for (value, register) in &self.formals {
            function.params.push(Param {
                reg: Some(*register),
                ..value.parameter()
            });
        }
        function.registers = self.registers;
        function.register_names = RegisterNames::default();
        Assembled {
            function,
            variables: self.variables,
            raised: self.raised,
        }
    }
}

/// Puts the control block in front of a kernel's parameters.
pub(super) fn control(function: &mut Function) {
    for param in &mut function.params {
        param.offset += CONTROL_BYTES;
    }
    function.params_bytes += CONTROL_BYTES;
    function.params.insert(
        0,
        Param {
            name: String::new(),
            ty: ScalarType::B8,
            size_bytes: CONTROL_BYTES,
            align: CONTROL_ALIGN,
            offset: 0,
            is_register: false,
            reg: None,
        },
    );
}

/// A body in the making.
struct Body {
    instructions: Vec<Instruction>,
    /// Where the code of each target of the original begins.
    targets: Vec<u32>,
    /// Where each added label stands.
    labels: Vec<u32>,
    /// Targets that the original has.
    own: u32,
    has_control: bool,
}

impl Body {
    fn new(original: &Function, labels: u32, has_control: bool) -> Self {
        let own = original.body.len() + 1;
        Self {
            instructions: Vec::new(),
            targets: Vec::with_capacity(own),
            labels: vec![0; labels as usize],
            own: u32::try_from(own).unwrap_or(u32::MAX),
            has_control,
        }
    }

    fn here(&self) -> u32 {
        u32::try_from(self.instructions.len()).unwrap_or(u32::MAX)
    }

    /// Notes that what jumps to the original's next instruction comes here.
    fn target(&mut self) {
        self.targets.push(self.here());
    }

    /// Adds code that belongs to an instruction of the original, or to none.
    fn add(&mut self, code: Code, to: Option<&Instruction>) {
        for item in code.items {
            match item {
                Item::Label(label) => {
                    let here = self.here();
                    self.labels[(label.0 - self.own) as usize] = here;
                }
                Item::Instruction(mut instruction) => {
                    if let Some(to) = to {
                        instruction.span = to.span;
                        instruction.source_line = to.source_line;
                    }
                    self.instructions.push(instruction);
                }
            }
        }
    }

    fn resolve(&self, target: u32) -> u32 {
        match target.checked_sub(self.own) {
            Some(label) => self.labels[label as usize],
            None => self.targets[target as usize],
        }
    }

    /// Returns the function with this body and its tables; parameters and registers are the original's.
    fn function(mut self, original: &Function) -> Function {
        let mut instructions = std::mem::take(&mut self.instructions);
        for instruction in &mut instructions {
            for operand in &mut instruction.operands {
                self.settle(operand);
            }
        }
        let tables = original.branch_tables.iter();
        let resolved = |table: &Vec<u32>| table.iter().map(|&t| self.resolve(t)).collect();
        Function {
            body: instructions,
            branch_tables: tables.map(resolved).collect(),
            nounroll: original.nounroll.iter().map(|&n| self.resolve(n)).collect(),
            ..make::without_body(original)
        }
    }

    /// Makes targets and parameters those of the new function.
    fn settle(&self, operand: &mut Operand) {
        match operand {
            Operand::Target(target) => *target = self.resolve(*target),
            _ => operand.for_each_symbol(&mut |symbol| self.place(symbol)),
        }
    }

    /// A kernel's parameters stand behind the control block.
    fn place(&self, symbol: &mut Symbol) {
        match symbol {
            control if *control == CONTROL => *control = Symbol::Param(0),
            Symbol::Param(n) if self.has_control => *n += 1,
            _ => {}
        }
    }
}
