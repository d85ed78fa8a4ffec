//! A function's body: registers, variables of its own, tables, and its instructions with their labels.

use super::names::{self, Names, Registers};
use super::{Module, Refusal, Unexpressed, declaration};
use crate::decode::{
    AddressBase, CallPrototype, FuncId, Function, Instruction, Opcode, Operand, Program, RegId,
    TexAddress,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What a body is printed from.
struct Printer<'a> {
    program: &'a Program,
    names: &'a Names,
    function: &'a Function,
    registers: Registers,
    text: String,
}

/// Returns a function with its body, or nothing of one that is only declared.
///
/// # Errors
/// An instruction that the opcode table does not know, or a variable that cannot be printed.
pub(super) fn function(module: Module<'_>, id: FuncId) -> Result<String, Refusal> {
    let (program, names) = module;
    let function = &program.functions[id.0 as usize];
    if let Some(refusal) = declaration::refusal(function) {
        return Err(refusal);
    }
    if !function.is_defined {
        return Ok(String::new());
    }
    let mut printer = Printer {
        program,
        names,
        function,
        registers: Registers::new(function),
        text: declaration::head(module, id),
    };
    printer.text.push_str(&declaration::bounds(function));
    printer.text.push_str("\n{\n");
    printer.declarations(id)?;
    printer.instructions()?;
    printer.text.push_str("}\n");
    Ok(printer.text)
}

impl Printer<'_> {
    fn declarations(&mut self, id: FuncId) -> Result<(), Refusal> {
        for (ty, count) in &self.registers.ranges {
            let word = names::type_word(*ty);
            let _ = writeln!(self.text, ".reg .{word} %{word}_<{count}>;");
        }
        for variable in self.names.owned(id) {
            let line = declaration::variable((self.program, self.names), *variable)?;
            self.text.push_str(&line);
        }
        for (n, table) in self.function.branch_tables.iter().enumerate() {
            let labels: Vec<String> = table.iter().map(|target| label(*target)).collect();
            let _ = writeln!(self.text, "T{n}: .branchtargets {};", labels.join(", "));
        }
        for (n, prototype) in self.function.call_prototypes.iter().enumerate() {
            let line = self.prototype(prototype);
            let _ = writeln!(self.text, "C{n}: {line};");
        }
        Ok(())
    }

    fn prototype(&self, prototype: &CallPrototype) -> String {
        if !prototype.targets.is_empty() {
            let targets = prototype.targets.iter();
            let targets: Vec<String> = targets
                .map(|f| self.names.function(*f).to_owned())
                .collect();
            return format!(".calltargets {}", targets.join(", "));
        }
        let params = declaration::prototype(&prototype.params);
        match prototype.returns.is_empty() {
            true => format!(".callprototype _ ({params})"),
            false => {
                let returns = declaration::prototype(&prototype.returns);
                format!(".callprototype ({returns}) _ ({params})")
            }
        }
    }

    fn instructions(&mut self) -> Result<(), Refusal> {
        let targets = targets(self.function);
        let function = self.function;
        let mut unrolled = function.nounroll.iter().copied().peekable();
        for (n, instruction) in (0_u32..).zip(&function.body) {
            self.place(n, &targets, &mut unrolled);
            self.instruction(instruction)?;
        }
        let end = u32::try_from(function.body.len()).unwrap_or(u32::MAX);
        self.place(end, &targets, &mut unrolled);
        Ok(())
    }

    /// Prints what stands before an instruction.
    fn place(
        &mut self,
        n: u32,
        targets: &BTreeSet<u32>,
        nounroll: &mut std::iter::Peekable<impl Iterator<Item = u32>>,
    ) {
        if targets.contains(&n) {
            let _ = writeln!(self.text, "{}:", label(n));
        }
        while nounroll.next_if(|at| *at <= n).is_some() {
            self.text.push_str(".pragma \"nounroll\";\n");
        }
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<(), Refusal> {
        if instruction.opcode == Opcode::Other {
            let what = Unexpressed::Instruction(instruction.mnemonic.to_string());
            return Err((what, instruction.span));
        }
        self.text.push('\t');
        if let Some(guard) = &instruction.guard {
            let not = if guard.negated { "!" } else { "" };
            let _ = write!(self.text, "@{not}{} ", self.registers.name(guard.reg));
        }
        self.text.push_str(&instruction.mnemonic);
        let mut separator = " ";
        for operand in &instruction.operands {
            if matches!(operand, Operand::Arguments(all) if all.is_empty()) {
                continue;
            }
            self.text.push_str(separator);
            let shown = self.operand(operand);
            self.text.push_str(&shown);
            separator = ", ";
        }
        self.text.push_str(";\n");
        Ok(())
    }

    fn register(&self, register: RegId) -> String {
        self.registers.name(register)
    }

    fn operand(&self, operand: &Operand) -> String {
        let or_sink = |register: &Option<RegId>| {
            register.map_or_else(|| "_".to_owned(), |r| self.register(r))
        };
        match operand {
            Operand::Reg(r) => self.register(*r),
            Operand::NotReg(r) => format!("!{}", self.register(*r)),
            Operand::NegReg(r) => format!("-{}", self.register(*r)),
            Operand::RegOffset(r, offset) => format!("{}+{offset}", self.register(*r)),
            Operand::Resident(vector, r) => {
                format!("{}|{}", self.operand(vector), self.register(*r))
            }
            Operand::RegPair(first, second) => format!("{}|{}", or_sink(first), or_sink(second)),
            Operand::Sink => "_".to_owned(),
            Operand::Int(value) => value.to_string(),
            Operand::F32(bits) => format!("0f{bits:08X}"),
            Operand::F64(bits) => format!("0d{bits:016X}"),
            Operand::Special(special) => names::special(*special),
            Operand::Address { base, offset } => match base {
                AddressBase::Reg(r) => format!("[{}{}]", self.register(*r), plus(*offset)),
                AddressBase::Symbol(symbol) => {
                    format!("[{}{}]", self.names.symbol(*symbol), plus(*offset))
                }
                AddressBase::Absolute => format!("[{offset}]"),
            },
            Operand::Symbol { symbol, offset } => {
                format!("{}{}", self.names.symbol(*symbol), plus(*offset))
            }
            Operand::Vector(elements) => match whole_special(elements) {
                Some(name) => name,
                None => format!("{{{}}}", self.list(elements)),
            },
            Operand::TexAddress(address) => self.texels(address),
            Operand::Target(target) => label(*target),
            Operand::BranchTable(n) => format!("T{n}"),
            Operand::Prototype(n) => format!("C{n}"),
            Operand::Arguments(all) => format!("({})", self.list(all)),
            Operand::Selected(r, part) => match part.strip_prefix('-') {
                Some(part) => format!("-{}.{part}", self.register(*r)),
                None => format!("{}.{part}", self.register(*r)),
            },
        }
    }

    fn list(&self, operands: &[Operand]) -> String {
        let all: Vec<String> = operands
            .iter()
            .map(|operand| self.operand(operand))
            .collect();
        all.join(", ")
    }

    fn texels(&self, address: &TexAddress) -> String {
        let mut parts = vec![self.operand(&address.object)];
        parts.extend(
            address
                .sampler
                .as_ref()
                .map(|sampler| self.operand(sampler)),
        );
        parts.push(format!("{{{}}}", self.list(&address.coordinates)));
        format!("[{}]", parts.join(", "))
    }
}

fn plus(offset: i64) -> String {
    match offset {
        0 => String::new(),
        offset => format!("+{offset}"),
    }
}

fn label(target: u32) -> String {
    format!("L{target}")
}

/// Returns the name of a special register that is read with all of its axes.
fn whole_special(elements: &[Operand]) -> Option<String> {
    let Some(Operand::Special(first)) = elements.first() else {
        return None;
    };
    let name = names::special(*first);
    name.strip_suffix(".x").map(str::to_owned)
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
