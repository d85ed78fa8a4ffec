//! What can be printed, and what refers to it.
//!
//! Rule: what refers to something that cannot be printed cannot be printed either, for the same reason.

use super::{Refusal, Refusals, Unexpressed, declaration, functions_of, header_refusal};
use crate::decode::{
    AddressBase, FuncId, Function, Opcode, Operand, Program, RelocationTarget, Span, Symbol, VarId,
};
use std::collections::{HashMap, HashSet};

/// A function or a variable of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Function(FuncId),
    Variable(VarId),
}

/// What of a module is refused so far.
pub(super) struct Reach<'a> {
    program: &'a Program,
    refusals: Refusals,
}

impl<'a> Reach<'a> {
    /// Judges each part by itself.
    pub(super) fn new(program: &'a Program) -> Self {
        let functions = match header_refusal(program) {
            Some(what) => vec![Some((what, Span::default())); program.functions.len()],
            None => program.functions.iter().map(function).collect(),
        };
        let variables = program.variables.iter();
        let variables = variables.map(declaration::variable_refusal).collect();
        Self {
            program,
            refusals: Refusals {
                functions,
                variables,
            },
        }
    }

    /// Refuses what refers to something that is refused.
    pub(super) fn spread(mut self) -> Refusals {
        let functions = functions_of(self.program, |_| true).map(Part::Function);
        let variables = (0_u32..).zip(&self.program.variables);
        let all = functions.chain(variables.map(|(n, _)| Part::Variable(VarId(n))));
        let mut waiting: Vec<Part> = all.filter(|part| self.refusal(*part).is_some()).collect();
        if waiting.is_empty() {
            return self.refusals;
        }
        let referrers = referrers(self.program);
        while let Some(part) = waiting.pop() {
            let Some(refusal) = self.refusal(part).clone() else {
                continue;
            };
            for referrer in referrers.get(&part).into_iter().flatten() {
                let known = self.refusal(*referrer);
                if known.is_none() {
                    *known = Some(refusal.clone());
                    waiting.push(*referrer);
                }
            }
        }
        self.refusals
    }

    fn refusal(&mut self, part: Part) -> &mut Option<Refusal> {
        match part {
            Part::Function(id) => &mut self.refusals.functions[id.0 as usize],
            Part::Variable(id) => &mut self.refusals.variables[id.0 as usize],
        }
    }
}

/// Returns why a function by itself cannot be printed.
fn function(function: &Function) -> Option<Refusal> {
    let unknown = || {
        let mut body = function.body.iter();
        let unknown = body.find(|i| i.opcode == Opcode::Other)?;
        let what = Unexpressed::Instruction(unknown.mnemonic.to_string());
        Some((what, unknown.span))
    };
    let open = || {
        let mut prototypes = function.call_prototypes.iter().flat_map(|of| &of.params);
        let is_open = prototypes.any(|param| param.size_bytes == 0);
        is_open.then(|| (Unexpressed::Variadic(function.name.clone()), function.span))
    };
    declaration::refusal(function)
        .or_else(open)
        .or_else(unknown)
}

/// Returns who refers to each part.
fn referrers(program: &Program) -> HashMap<Part, Vec<Part>> {
    let mut found: HashMap<Part, Vec<Part>> = HashMap::new();
    let mut add = |part: Part, referrer: Part| {
        let known = found.entry(part).or_default();
        if known.last() != Some(&referrer) {
            known.push(referrer);
        }
    };
    for (n, variable) in (0_u32..).zip(&program.variables) {
        let referrer = match variable.owner {
            Some(function) => {
                add(Part::Variable(VarId(n)), Part::Function(function));
                Part::Function(function)
            }
            None => Part::Variable(VarId(n)),
        };
        for relocation in &variable.relocations {
            let target = match relocation.target {
                RelocationTarget::Variable(id) => Part::Variable(id),
                RelocationTarget::Function(id) => Part::Function(id),
            };
            add(target, referrer);
        }
    }
    for id in functions_of(program, |_| true) {
        let function = &program.functions[id.0 as usize];
        let referrer = Part::Function(id);
        let targets = function.call_prototypes.iter().flat_map(|of| &of.targets);
        targets.for_each(|target| add(Part::Function(*target), referrer));
        let operands = function.body.iter().flat_map(|i| &i.operands);
        operands.for_each(|operand| each_symbol(operand, &mut |part| add(part, referrer)));
    }
    found
}

/// Returns the functions that are named before they are defined, where the functions stand in this order behind the
/// module's variables.
pub(super) fn named_ahead(program: &Program, order: &[FuncId]) -> HashSet<FuncId> {
    let mut ahead = HashSet::new();
    for relocation in program.variables.iter().flat_map(|v| &v.relocations) {
        if let RelocationTarget::Function(id) = relocation.target {
            ahead.insert(id);
        }
    }
    let mut defined = HashSet::new();
    for id in order {
        let function = &program.functions[id.0 as usize];
        let mut name = |part| {
            if let Part::Function(named) = part
                && !defined.contains(&named)
            {
                ahead.insert(named);
            }
        };
        let targets = function.call_prototypes.iter().flat_map(|of| &of.targets);
        targets.for_each(|target| name(Part::Function(*target)));
        let operands = function.body.iter().flat_map(|i| &i.operands);
        operands.for_each(|operand| each_symbol(operand, &mut name));
        defined.insert(*id);
    }
    ahead
}

/// Calls `each` for every function and variable that an operand names.
fn each_symbol(operand: &Operand, each: &mut dyn FnMut(Part)) {
    let symbol = match operand {
        Operand::Address {
            base: AddressBase::Symbol(symbol),
            ..
        }
        | Operand::Symbol { symbol, .. } => symbol,
        Operand::Vector(all) | Operand::Arguments(all) => {
            return all.iter().for_each(|operand| each_symbol(operand, each));
        }
        Operand::TexAddress(address) => {
            let parts = std::iter::once(&address.object).chain(&address.sampler);
            return parts.for_each(|operand| each_symbol(operand, each));
        }
        _ => return,
    };
    match symbol {
        Symbol::Variable(id) => each(Part::Variable(*id)),
        Symbol::Function(id) => each(Part::Function(*id)),
        Symbol::Param(_) | Symbol::ReturnParam(_) => {}
    }
}
