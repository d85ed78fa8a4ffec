//! A function's body: registers, variables of its own, tables, and its instructions with their labels.

use super::names::{self, Registers};
use super::{Own, Printer, declaration};
use crate::decode::{
    AddressBase, CallPrototype, FuncId, Function, Guard, Instruction, Operand, RegId, TexAddress,
    VarId,
};
use crate::syntax::vocabulary::word_of;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Alignment of variables that are aligned as vectors.
const VECTOR: u32 = 16;

impl Printer<'_> {
    /// Prints a function with its body.
    pub(crate) fn function(&mut self, id: FuncId, own: &Own<'_>) {
        let function = own.function;
        self.text.end();
        self.text.to(function.span);
        if function.is_entry {
            self.text.push(".visible ");
        }
        self.head(id, function, &[]);
        self.bounds(function);
        self.text.end();
        self.text.push("{");
        self.text.end();
        let registers = Registers::new(function);
        for (ty, count) in &registers.ranges {
            let word = word_of(*ty);
            let _ = write!(self.text, ".reg .{word} %{word}_<{count}>;");
            self.text.end();
        }
        self.variables(id, own);
        self.tables(function);
        let mut body = Body {
            printer: self,
            function,
            registers,
        };
        body.instructions();
        self.text.push("}");
        self.text.end();
    }

    fn variables(&mut self, id: FuncId, own: &Own<'_>) {
        for id in self.names.owned(id).to_vec() {
            let variable = &self.program.variables[id.0 as usize];
            match own.raised.contains(&id) {
                true => {
                    let mut variable = variable.clone();
                    variable.align = VECTOR;
                    self.variable(&variable, id);
                }
                false => self.variable(variable, id),
            }
        }
        let first = self.program.variables.len() + self.added.len();
        for (n, variable) in (first..).zip(own.variables) {
            self.variable(variable, VarId(u32::try_from(n).unwrap_or(u32::MAX)));
        }
    }

    fn tables(&mut self, function: &Function) {
        for (n, table) in function.branch_tables.iter().enumerate() {
            let _ = write!(self.text, "$T{n}: .branchtargets ");
            for (n, target) in table.iter().enumerate() {
                let comma = if n == 0 { "" } else { ", " };
                let _ = write!(self.text, "{comma}$L{target}");
            }
            self.text.push(";");
            self.text.end();
        }
        for (n, prototype) in function.call_prototypes.iter().enumerate() {
            let _ = write!(self.text, "$C{n}: ");
            self.prototype(prototype);
            self.text.push(";");
            self.text.end();
        }
    }

    fn prototype(&mut self, prototype: &CallPrototype) {
        if !prototype.targets.is_empty() {
            self.text.push(".calltargets ");
            for (n, target) in prototype.targets.iter().enumerate() {
                self.text.push(if n == 0 { "" } else { ", " });
                self.text.push(self.names.function(*target));
            }
            return;
        }
        self.text.push(".callprototype ");
        if !prototype.returns.is_empty() {
            let returns = declaration::prototype(&prototype.returns);
            let _ = write!(self.text, "({returns}) ");
        }
        let params = declaration::prototype(&prototype.params);
        let _ = write!(self.text, "_ ({params})");
    }
}

/// What a body is printed from.
struct Body<'p, 'a> {
    printer: &'p mut Printer<'a>,
    function: &'p Function,
    registers: Registers,
}

impl Body<'_, '_> {
    fn push(&mut self, text: &str) {
        self.printer.text.push(text);
    }

    fn instructions(&mut self) {
        let targets = targets(self.function);
        let mut targets = targets.iter().copied().peekable();
        let function = self.function;
        let mut nounroll = function.nounroll.iter().copied().peekable();
        let end = u32::try_from(function.body.len()).unwrap_or(u32::MAX);
        let mut source_line = None;
        for n in 0..=end {
            let instruction = function.body.get(n as usize);
            if let Some(i) = instruction {
                self.printer.text.to(i.span);
                if i.source_line != source_line {
                    self.location(i.source_line);
                    source_line = i.source_line;
                }
            }
            if targets.next_if(|at| *at == n).is_some() {
                let _ = write!(self.printer.text, "$L{n}:");
                self.printer.text.end();
            }
            while nounroll.next_if(|at| *at <= n).is_some() {
                self.push(".pragma \"nounroll\";");
                self.printer.text.end();
            }
            if let Some(i) = instruction {
                self.instruction(i);
            }
        }
    }

    /// Says on which line of which source file what follows stands.
    fn location(&mut self, place: Option<(u32, u32)>) {
        let files = &self.printer.program.files;
        if let Some((file, line)) = place.filter(|(file, _)| files.contains_key(file)) {
            let _ = write!(self.printer.text, ".loc {file} {line} 0");
            self.printer.text.end();
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        self.printer.text.indent();
        if let Some(Guard { reg, negated }) = instruction.guard {
            self.push(if negated { "@!" } else { "@" });
            self.register(reg);
            self.push(" ");
        }
        self.push(&instruction.mnemonic);
        let mut separator = " ";
        for operand in &instruction.operands {
            if matches!(operand, Operand::Arguments(all) if all.is_empty()) {
                continue;
            }
            self.push(separator);
            match operand {
                Operand::Vector(axes) if instruction.mods.vector != 0 => {
                    match whole_special(axes) {
                        Some(name) => self.push(&name),
                        None => self.operand(operand),
                    }
                }
                _ => self.operand(operand),
            }
            separator = ", ";
        }
        self.push(";");
        self.printer.text.end();
    }

    fn register(&mut self, register: RegId) {
        self.registers.name(register, &mut self.printer.text);
    }

    fn or_sink(&mut self, register: Option<RegId>) {
        match register {
            Some(register) => self.register(register),
            None => self.push("_"),
        }
    }

    fn operand(&mut self, operand: &Operand) {
        let text = &mut self.printer.text;
        let _ = match operand {
            Operand::Reg(r) => return self.register(*r),
            Operand::NotReg(r) => {
                self.push("!");
                return self.register(*r);
            }
            Operand::NegReg(r) => {
                self.push("-");
                return self.register(*r);
            }
            Operand::RegOffset(r, offset) => {
                self.register(*r);
                return self.plus(*offset);
            }
            Operand::Resident(vector, r) => {
                self.operand(vector);
                self.push("|");
                return self.register(*r);
            }
            Operand::RegPair(first, second) => {
                self.or_sink(*first);
                self.push("|");
                return self.or_sink(*second);
            }
            Operand::Sink => write!(text, "_"),
            Operand::Int(value) => write!(text, "{value}"),
            Operand::F32(bits) => write!(text, "0f{bits:08X}"),
            Operand::F64(bits) => write!(text, "0d{bits:016X}"),
            Operand::Special(special) => write!(text, "{}", names::special(*special)),
            Operand::Address { base, offset } => return self.address(*base, *offset),
            Operand::Symbol { symbol, offset } => {
                self.printer.names.symbol(*symbol, text);
                return self.plus(*offset);
            }
            Operand::Vector(elements) => return self.list(('{', '}'), elements),
            Operand::TexAddress(address) => return self.texels(address),
            Operand::Target(target) => write!(text, "$L{target}"),
            Operand::BranchTable(n) => write!(text, "$T{n}"),
            Operand::Prototype(n) => write!(text, "$C{n}"),
            Operand::Arguments(all) => return self.list(('(', ')'), all),
            Operand::Selected(r, part) => {
                let (sign, part) = match part.strip_prefix('-') {
                    Some(part) => ("-", part),
                    None => ("", &**part),
                };
                self.push(sign);
                self.register(*r);
                write!(self.printer.text, ".{part}")
            }
        };
    }

    fn address(&mut self, base: AddressBase, offset: i64) {
        self.push("[");
        match base {
            AddressBase::Reg(r) => self.register(r),
            AddressBase::Symbol(symbol) => {
                self.printer.names.symbol(symbol, &mut self.printer.text);
            }
            AddressBase::Absolute => {
                let _ = write!(self.printer.text, "{offset}");
            }
        }
        if base != AddressBase::Absolute {
            self.plus(offset);
        }
        self.push("]");
    }

    fn plus(&mut self, offset: i64) {
        if offset != 0 {
            let _ = write!(self.printer.text, "+{offset}");
        }
    }

    fn list(&mut self, (open, close): (char, char), operands: &[Operand]) {
        self.printer.text.out.push(open);
        for (n, operand) in operands.iter().enumerate() {
            self.push(if n == 0 { "" } else { ", " });
            self.operand(operand);
        }
        self.printer.text.out.push(close);
    }

    fn texels(&mut self, address: &TexAddress) {
        self.push("[");
        self.operand(&address.object);
        if let Some(sampler) = &address.sampler {
            self.push(", ");
            self.operand(sampler);
        }
        self.push(", ");
        self.list(('{', '}'), &address.coordinates);
        self.push("]");
    }
}

/// Returns the name of a special register that is read with all of its axes, in their order.
fn whole_special(elements: &[Operand]) -> Option<String> {
    let name = |element: &Operand| match element {
        Operand::Special(register) => Some(names::special(*register)),
        _ => None,
    };
    let whole = name(elements.first()?)?.strip_suffix(".x")?.to_owned();
    let axes = [".x", ".y", ".z", ".w"].map(|axis| Some(format!("{whole}{axis}")));
    let is_whole =
        elements.len() <= axes.len() && elements.iter().map(name).zip(axes).all(|(a, b)| a == b);
    is_whole.then_some(whole)
}

/// Returns the instructions that labels stand before.
fn targets(function: &Function) -> BTreeSet<u32> {
    let jumps = function.body.iter().flat_map(|i| &i.operands);
    let jumps = jumps.filter_map(|operand| match operand {
        Operand::Target(target) => Some(*target),
        _ => None,
    });
    let tables = function.branch_tables.iter().flatten().copied();
    jumps.chain(tables).collect()
}
