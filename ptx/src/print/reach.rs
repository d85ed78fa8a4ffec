//! What can be printed: each function's and variable's text, or why there is none, and what each refers to.
//!
//! Rule: what refers to something that cannot be printed cannot be printed either, for the same reason.

use super::{Module, Refusal, body, declaration, functions_of, header_refusal};
use crate::decode::{AddressBase, FuncId, Operand, RelocationTarget, Span, Symbol, VarId};
use std::collections::HashMap;

/// A function or a variable of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Function(FuncId),
    Variable(VarId),
}

/// The texts of a module's parts.
pub(super) struct Reach<'a> {
    module: Module<'a>,
    functions: Vec<Result<String, Refusal>>,
    /// None of those that a function owns.
    variables: Vec<Option<Result<String, Refusal>>>,
}

impl<'a> Reach<'a> {
    pub(super) fn new(module: Module<'a>) -> Self {
        let (program, _) = module;
        let all = functions_of(program, |_| true);
        let mut functions: Vec<_> = all.map(|id| body::function(module, id)).collect();
        if let Some(what) = header_refusal(program) {
            functions.fill(Err((what, Span::default())));
        }
        let variables = (0_u32..).zip(&program.variables).map(|(n, of)| {
            let is_modules = of.owner.is_none();
            is_modules.then(|| declaration::variable(module, VarId(n)))
        });
        let mut reach = Self {
            module,
            functions,
            variables: variables.collect(),
        };
        reach.spread();
        reach
    }

    /// Refuses what refers to something that is refused.
    fn spread(&mut self) {
        let referrers = referrers(self.module);
        let (program, _) = self.module;
        let functions = functions_of(program, |_| true).map(Part::Function);
        let variables = (0_u32..)
            .zip(&program.variables)
            .map(|(n, _)| Part::Variable(VarId(n)));
        let all = functions.chain(variables);
        let mut waiting: Vec<Part> = all
            .filter(|part| self.refusal_of(*part).is_some())
            .collect();
        while let Some(part) = waiting.pop() {
            let Some(refusal) = self.refusal_of(part).cloned() else {
                continue;
            };
            for referrer in referrers.get(&part).into_iter().flatten() {
                if self.refusal_of(*referrer).is_none() {
                    self.refuse(*referrer, refusal.clone());
                    waiting.push(*referrer);
                }
            }
        }
    }

    fn refusal_of(&self, part: Part) -> Option<&Refusal> {
        match part {
            Part::Function(id) => self.functions[id.0 as usize].as_ref().err(),
            Part::Variable(id) => self.variables[id.0 as usize].as_ref()?.as_ref().err(),
        }
    }

    fn refuse(&mut self, part: Part, refusal: Refusal) {
        match part {
            Part::Function(id) => self.functions[id.0 as usize] = Err(refusal),
            Part::Variable(id) => self.variables[id.0 as usize] = Some(Err(refusal)),
        }
    }

    /// Returns the functions that are printed or refused by themselves: all but aliases, which have the names of
    /// what they stand for.
    pub(super) fn functions(&self) -> impl Iterator<Item = FuncId> {
        let (program, names) = self.module;
        functions_of(program, |_| true).filter(move |id| !names.is_alias(*id))
    }

    /// Returns why a function is not printed.
    pub(super) fn refusal(&self, id: FuncId) -> Option<&Refusal> {
        self.functions[id.0 as usize].as_ref().err()
    }

    /// Returns a function's text, empty where it has no body, and forgets it.
    pub(super) fn take_body(&mut self, id: FuncId) -> String {
        let text = self.functions[id.0 as usize].as_mut();
        text.map(std::mem::take).unwrap_or_default()
    }

    /// Returns the declarations of the module's variables that are printed.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        let all = self.variables.iter().flatten();
        all.filter_map(|text| text.as_deref().ok())
    }
}

/// Returns who refers to each part.
fn referrers((program, names): Module<'_>) -> HashMap<Part, Vec<Part>> {
    let mut found: HashMap<Part, Vec<Part>> = HashMap::new();
    let mut add = |part: Part, referrer: Part| {
        let part = match part {
            Part::Function(id) => Part::Function(names.real(id)),
            variable @ Part::Variable(_) => variable,
        };
        let known = found.entry(part).or_default();
        if known.last() != Some(&referrer) {
            known.push(referrer);
        }
    };
    for (n, variable) in (0_u32..).zip(&program.variables) {
        let referrer = match variable.owner {
            Some(function) => Part::Function(function),
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
