//! Generated names: the kind of what is named and its number in the tree.
//!
//! Rule: the runtime's own functions keep their names, since the driver links them by these.

use crate::analysis::operands::each_in;
use crate::decode::{
    FuncId, Function, Param, Program, RegId, ScalarType, SpecialReg, Symbol, VarId,
};
use crate::syntax::vocabulary::special_word;
use std::collections::HashMap;

/// Functions that the driver has for every module.
const RUNTIME: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Returns whether a function is the driver's.
pub(super) fn is_runtime(function: &Function) -> bool {
    !function.is_defined && RUNTIME.contains(&&*function.name)
}

/// The names of a module's functions and variables.
#[derive(Debug)]
pub(super) struct Names {
    functions: Vec<String>,
    variables: Vec<String>,
    /// What each alias stands for.
    aliases: HashMap<FuncId, FuncId>,
    /// Variables of functions.
    owned: HashMap<FuncId, Vec<VarId>>,
}

impl Names {
    /// Names everything by its place in the text: functions apart from kernels, variables of the module in front of
    /// those of functions.
    pub(super) fn new(program: &Program) -> Self {
        let start = |id: FuncId| program.functions[id.0 as usize].span.start;
        let mut order: Vec<usize> = (0..program.functions.len()).collect();
        order.sort_by_key(|n| program.functions[*n].span.start);
        let mut functions = vec![String::new(); order.len()];
        let (mut kernels, mut others) = (0, 0);
        for n in order {
            let function = &program.functions[n];
            let (kind, number) = match (is_runtime(function), function.is_entry) {
                (true, _) => {
                    functions[n].clone_from(&function.name);
                    continue;
                }
                (false, true) => ("k", &mut kernels),
                (false, false) => ("f", &mut others),
            };
            functions[n] = format!("{kind}{number}");
            *number += 1;
        }
        let aliases: HashMap<FuncId, FuncId> = program.aliases.iter().copied().collect();
        // An alias has the name of what it stands for.
        for (alias, target) in &program.aliases {
            functions[alias.0 as usize] = functions[target.0 as usize].clone();
        }
        let mut order: Vec<usize> = (0..program.variables.len()).collect();
        order.sort_by_key(|n| program.variables[*n].owner.map(start));
        let mut variables = vec![String::new(); order.len()];
        for (number, n) in order.into_iter().enumerate() {
            variables[n] = format!("v{number}");
        }
        let mut owned: HashMap<FuncId, Vec<VarId>> = HashMap::new();
        for (n, variable) in (0_u32..).zip(&program.variables) {
            if let Some(owner) = variable.owner {
                owned.entry(owner).or_default().push(VarId(n));
            }
        }
        Self {
            functions,
            variables,
            aliases,
            owned,
        }
    }

    /// Returns the function that a name stands for.
    pub(super) fn real(&self, id: FuncId) -> FuncId {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    /// Returns whether a function is a name for another one.
    pub(super) fn is_alias(&self, id: FuncId) -> bool {
        self.aliases.contains_key(&id)
    }

    /// Returns the variables of a function.
    pub(super) fn owned(&self, id: FuncId) -> &[VarId] {
        self.owned.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns a function's name.
    pub(super) fn function(&self, id: FuncId) -> &str {
        &self.functions[id.0 as usize]
    }

    /// Returns a variable's name.
    pub(super) fn variable(&self, id: VarId) -> &str {
        &self.variables[id.0 as usize]
    }

    /// Returns the name of what an address or a `mov` names.
    pub(super) fn symbol(&self, symbol: Symbol) -> String {
        match symbol {
            Symbol::Variable(id) => self.variable(id).to_owned(),
            Symbol::Param(n) => format!("p{n}"),
            Symbol::ReturnParam(n) => format!("o{n}"),
            Symbol::Function(id) => self.function(id).to_owned(),
        }
    }
}

/// Returns the word of a type, without its dot.
pub(super) fn type_word(ty: ScalarType) -> &'static str {
    let found = ScalarType::WORDS.iter().find(|(_, known)| *known == ty);
    found.map_or("b32", |(word, _)| word)
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

    /// Returns a register's name.
    pub(super) fn name(&self, register: RegId) -> String {
        match self.places[register.0 as usize] {
            // Nobody asks for it.
            Place::Unused => "_".to_owned(),
            Place::Param(n) => format!("%a{n}"),
            Place::ReturnParam(n) => format!("%b{n}"),
            Place::Range { range, number } => {
                let (ty, _) = self.ranges[usize::from(range)];
                format!("%{}_{number}", type_word(ty))
            }
        }
    }
}
