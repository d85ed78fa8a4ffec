//! Generated names: `$`, the kind of what is named, and its number among the names that it had.
//!
//! Rule: names are kept that others know: those of functions that are defined elsewhere, as the driver's own, and those
//! of kernels and of variables in device memory, for which the host asks. They begin with a letter or `_`.

use super::text::Text;
use crate::analysis::operands::each_in;
use crate::decode::{
    FuncId, Function, Param, Program, RegId, ScalarType, SpecialReg, StateSpace, Symbol, VarId,
    Variable,
};
use crate::syntax::vocabulary::{VOCABULARY, special_word, word_of};
use std::collections::HashMap;
use std::fmt::Write;

/// Returns whether a function keeps its name: a kernel's is what the host asks for, and by that of a function that is
/// defined elsewhere, as in the driver, it is found.
pub(super) fn is_kept(function: &Function) -> bool {
    function.is_entry || !function.is_defined
}

/// Returns whether a variable keeps its name, because the host may ask for it. Compilers give names that cannot be kept
/// to variables of their own.
pub(super) fn is_the_hosts(variable: &Variable) -> bool {
    let in_memory = matches!(variable.space, StateSpace::Global | StateSpace::Const);
    let may_ask = variable.is_visible || can_be_kept(&variable.name);
    variable.owner.is_none() && in_memory && may_ask
}

/// Returns whether a name can be kept.
pub(super) fn can_be_kept(name: &str) -> bool {
    let mut letters = name.bytes();
    let first = letters.next();
    let begins = first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let is_word = letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
    let sym = VOCABULARY.interner.find(name.as_bytes());
    begins && is_word && !sym.is_some_and(|sym| VOCABULARY.is_predefined(sym))
}

/// The names of a module's functions and variables.
#[derive(Debug)]
pub(super) struct Names {
    functions: Vec<String>,
    variables: Vec<String>,
    /// Variables of functions.
    owned: HashMap<FuncId, Vec<VarId>>,
}

impl Names {
    /// Names everything. `added` are variables that the module has beside the tree's.
    pub(super) fn new(program: &Program, added: &[Variable]) -> Self {
        let functions = program.functions.iter();
        let functions = numbered("$f", functions.map(|f| (&*f.name, is_kept(f))));
        let variables = program.variables.iter();
        let mut variables = numbered("$v", variables.map(|v| (&*v.name, is_the_hosts(v))));
        variables.extend((0..added.len()).map(|n| format!("$m{n}")));
        let mut owned: HashMap<FuncId, Vec<VarId>> = HashMap::new();
        for (n, variable) in (0_u32..).zip(&program.variables) {
            if let Some(owner) = variable.owner {
                owned.entry(owner).or_default().push(VarId(n));
            }
        }
        Self {
            functions,
            variables,
            owned,
        }
    }

    /// Returns the variables of a function.
    pub(super) fn owned(&self, id: FuncId) -> &[VarId] {
        self.owned.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns a function's name.
    pub(super) fn function(&self, id: FuncId) -> &str {
        &self.functions[id.0 as usize]
    }

    /// Writes a variable's name. Behind those of the module stand those that a function was given.
    pub(super) fn variable(&self, id: VarId, text: &mut Text<'_>) {
        match self.variables.get(id.0 as usize) {
            Some(name) => text.push(name),
            None => {
                let _ = write!(text, "$w{}", id.0 as usize - self.variables.len());
            }
        }
    }

    /// Returns the name of a variable of the module.
    pub(super) fn variable_name(&self, id: VarId) -> String {
        self.variables
            .get(id.0 as usize)
            .cloned()
            .unwrap_or_default()
    }

    /// Writes the name of what an address or a `mov` names.
    pub(super) fn symbol(&self, symbol: Symbol, text: &mut Text<'_>) {
        let _ = match symbol {
            Symbol::Variable(id) => return self.variable(id, text),
            Symbol::Param(n) => write!(text, "$p{n}"),
            Symbol::ReturnParam(n) => write!(text, "$o{n}"),
            Symbol::Function(id) => return text.push(self.function(id)),
        };
    }
}

/// Returns for each name itself, where it is kept, or one of its own. Those stand in the order of the original ones, by
/// which `ptxas` sorts functions and variables.
fn numbered<'a>(kind: &str, all: impl Iterator<Item = (&'a str, bool)>) -> Vec<String> {
    let mut names = Vec::new();
    let mut order = Vec::new();
    for (n, (name, is_kept)) in all.enumerate() {
        match is_kept {
            true => names.push(name.to_owned()),
            false => {
                order.push((name, n));
                names.push(String::new());
            }
        }
    }
    order.sort_unstable();
    let digits = order.len().to_string().len();
    for (number, (_, n)) in order.into_iter().enumerate() {
        names[n] = format!("{kind}{number:0digits$}");
    }
    names
}

/// Returns the name of a special register, with its axis.
pub(super) fn special(register: SpecialReg) -> String {
    use SpecialReg as S;
    let axis = match register {
        S::Tid(n) | S::Ntid(n) | S::Ctaid(n) | S::Nctaid(n) => Some(n),
        S::Clusterid(n) | S::Nclusterid(n) | S::ClusterCtaid(n) | S::ClusterNctaid(n) => Some(n),
        _ => None,
    };
    let axis = axis.map_or("", |n| [".x", ".y", ".z", ".w"][usize::from(n).min(3)]);
    format!("%{}{axis}", special_word(register))
}

/// Where a register stands. A module has millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In no instruction.
    Unused,
    /// The parameter of that place.
    Param(u32),
    /// The return parameter of that place.
    ReturnParam(u32),
    /// In the range of a type.
    Range { range: u8, number: u32 },
}

/// The registers of a function, numbered by type in the order in which the body uses them.
#[derive(Debug)]
pub(super) struct Registers {
    places: Vec<Place>,
    /// Types, and how many registers each has.
    pub(super) ranges: Vec<(ScalarType, u32)>,
}

impl Registers {
    pub(super) fn new(function: &Function) -> Self {
        let mut registers = Self {
            places: vec![Place::Unused; function.registers.len()],
            ranges: Vec::new(),
        };
        let mut formals = |list: &[Param], place: fn(u32) -> Place| {
            for (n, param) in (0..).zip(list) {
                if let Some(register) = param.reg {
                    registers.places[register.0 as usize] = place(n);
                }
            }
        };
        formals(&function.params, Place::Param);
        formals(&function.returns, Place::ReturnParam);
        for instruction in &function.body {
            if let Some(guard) = &instruction.guard {
                registers.add(function, guard.reg);
            }
            for operand in &instruction.operands {
                each_in(operand, |register| registers.add(function, register));
            }
        }
        registers
    }

    fn add(&mut self, function: &Function, register: RegId) {
        let n = register.0 as usize;
        if self.places[n] != Place::Unused {
            return;
        }
        let ty = function.registers[n];
        let range = self.ranges.iter().position(|(known, _)| *known == ty);
        let range = range.unwrap_or_else(|| {
            self.ranges.push((ty, 0));
            self.ranges.len() - 1
        });
        let count = &mut self.ranges[range].1;
        self.places[n] = Place::Range {
            // There are fewer types.
            range: u8::try_from(range).unwrap_or(u8::MAX),
            number: *count,
        };
        *count += 1;
    }

    /// Writes a register's name.
    pub(super) fn name(&self, register: RegId, text: &mut Text<'_>) {
        let _ = match self.places[register.0 as usize] {
            // Nobody asks for it.
            Place::Unused => write!(text, "_"),
            Place::Param(n) => write!(text, "%a{n}"),
            Place::ReturnParam(n) => write!(text, "%b{n}"),
            Place::Range { range, number } => {
                let (ty, _) = self.ranges[usize::from(range)];
                write!(text, "%{}_{number}", word_of(ty))
            }
        };
    }
}
