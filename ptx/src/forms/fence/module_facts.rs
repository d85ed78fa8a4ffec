//! What the fence has to know of the whole module, found out once for all of its functions.

use super::targets::Targets;
use crate::analysis::CallGraph;
use crate::decode::{
    AddressBase, FuncId, Function, Instruction, Operand, Program, RelocationTarget, StateSpace,
    Symbol, VarId, Variable,
};
use crate::syntax::module::{Lines, Module};

/// Bytes of the widest vector in shared memory.
pub(super) const VECTOR_BYTES: u64 = 16;
/// The least shared memory of a fenced kernel that uses any, in bytes, so that a base can be held below its end.
pub(super) const LEAST_SHARED: u32 = 256;
/// Static shared memory that every launch may have, on all architectures.
pub(super) const STATIC_SHARED: u64 = 48 << 10;

/// Returns the shared variables of at least [`LEAST_SHARED`] bytes that the kernel has in any case, its own or named by
/// it: naming one more time keeps `ptxas` from dropping it and adds nothing.
pub(super) fn large<'a>(
    program: &'a Program,
    kernel: FuncId,
    module_facts: &'a ModuleFacts,
) -> impl Iterator<Item = VarId> + 'a {
    let is = |v: &VarId| {
        let v = &program.variables[v.0 as usize];
        let sized = !v.is_extern && v.size_bytes >= u64::from(LEAST_SHARED);
        v.space == StateSpace::Shared && sized
    };
    here(kernel, module_facts).filter(is)
}

/// Returns the variables of the module's shared memory that the kernel names, and all of its own.
pub(super) fn here(kernel: FuncId, module_facts: &ModuleFacts) -> impl Iterator<Item = VarId> + '_ {
    let n = kernel.0 as usize;
    let named = module_facts.named_shared[n].iter();
    named.chain(&module_facts.owned[n]).copied()
}

/// Returns whether the kernel's shared variables leave no room for what the fence adds when none of them is [`large`].
pub(super) fn is_full(
    program: &Program,
    kernel: FuncId,
    module_facts: &ModuleFacts,
) -> Option<u32> {
    let bytes = module_facts.kernel_shared[kernel.0 as usize];
    let full = bytes + u64::from(LEAST_SHARED) > STATIC_SHARED;
    let none_is_large = || large(program, kernel, module_facts).next().is_none();
    (full && none_is_large()).then_some(LEAST_SHARED)
}

/// Returns for each kernel the bytes of the shared variables that it has: those of the functions that it may reach, and
/// those whose addresses stand in initialisers.
fn kernel_shared(program: &Program, calls: &CallGraph, named: &[Vec<VarId>]) -> Vec<u64> {
    let all = || (0_u32..).map(VarId).zip(&program.variables);
    let shared = || all().filter(|(_, v)| v.space == StateSpace::Shared);
    let mut everywhere = vec![false; program.variables.len()];
    for relocation in all().flat_map(|(_, v)| &v.relocations) {
        if let RelocationTarget::Variable(v) = relocation.target {
            everywhere[v.0 as usize] = true;
        }
    }
    // Few modules have so much that it matters who has it.
    let total = shared().map(|(_, v)| v.size_bytes).sum();
    let is_small = total + u64::from(LEAST_SHARED) <= STATIC_SHARED;
    let of = |(id, function): (FuncId, &Function)| {
        if is_small || !function.is_entry {
            return total;
        }
        let reached = calls.reached_from(program, id);
        let mut is_reached = vec![false; program.functions.len()];
        let mut has = everywhere.clone();
        for f in &reached {
            is_reached[f.0 as usize] = true;
            named[f.0 as usize]
                .iter()
                .for_each(|v| has[v.0 as usize] = true);
        }
        let own = |v: &Variable| v.owner.is_some_and(|f| is_reached[f.0 as usize]);
        let mine = shared().filter(|(id, v)| has[id.0 as usize] || own(v));
        mine.map(|(_, v)| v.size_bytes).sum()
    };
    let functions = (0_u32..).map(FuncId).zip(&program.functions);
    functions.map(of).collect()
}

/// What the whole module says; the same for all of its functions.
pub(crate) struct ModuleFacts {
    /// Functions that may call themselves, through others too.
    pub(super) recursive: Vec<bool>,
    /// For the record of faults.
    pub(in crate::forms) lines: Lines,
    /// The module has shared memory.
    pub(super) shared: bool,
    /// Some function has an address of shared memory, from a variable or from nowhere.
    pub(super) names_shared: bool,
    /// Of a size that the launch gives.
    pub(super) dynamic: bool,
    /// Variables that each function declares.
    pub(super) owned: Vec<Vec<VarId>>,
    /// Functions that make generic addresses of local variables.
    pub(super) escaping: Vec<bool>,
    /// How many they are.
    pub(super) escaping_count: usize,
    /// For each function, its variables in local memory, and the constants that it may mean.
    pub(super) locals: Vec<Choice>,
    pub(super) constants: Vec<Choice>,
    /// The module's own shared variables that each function names, in ascending order.
    pub(super) named_shared: Vec<Vec<VarId>>,
    /// Bytes of the shared variables that each kernel has.
    kernel_shared: Vec<u64>,
    /// Bytes of the module's shared variables together, each rounded up to a vector.
    pub(super) shared_vectors: u64,
    /// What calls through pointers may mean.
    pub(super) targets: Targets,
    /// An initialiser holds the generic address of a constant.
    pub(super) constant: Option<String>,
    /// The first managed variable that each function may reach.
    pub(super) managed: Vec<Option<String>>,
}

impl ModuleFacts {
    pub(crate) fn new(module: &Module, program: &Program, calls: &CallGraph) -> Self {
        let is_constant = |v: &Variable| v.space == StateSpace::Const;
        let makes_local = |i: &Instruction| {
            i.opcode == crate::decode::Opcode::Cvta
                && i.mods.spaces.first() == Some(&StateSpace::Local)
                && !i.mods.to
        };
        let mut owned = vec![Vec::new(); program.functions.len()];
        let mut locals = vec![Choice::None; program.functions.len()];
        let mut own_constants = locals.clone();
        let mut module_constants = Choice::None;
        for (n, v) in (0_u32..).zip(&program.variables) {
            let Some(f) = v.owner else {
                if is_constant(v) {
                    module_constants.add(VarId(n));
                }
                continue;
            };
            owned[f.0 as usize].push(VarId(n));
            match v.space {
                StateSpace::Local => locals[f.0 as usize].add(VarId(n)),
                StateSpace::Const => own_constants[f.0 as usize].add(VarId(n)),
                _ => {}
            }
        }
        let named: Vec<Vec<VarId>> = program
            .functions
            .iter()
            .map(|f| named_shared(program, f))
            .collect();
        let escaping: Vec<bool> = program
            .functions
            .iter()
            .map(|f| f.body.iter().any(makes_local))
            .collect();
        let shared = || {
            program
                .variables
                .iter()
                .filter(|v| v.space == StateSpace::Shared)
        };
        let is_dynamic =
            |v: &Variable| v.space == StateSpace::Shared && (v.is_extern || v.size_bytes == 0);
        Self {
            dynamic: program.variables.iter().any(is_dynamic),
            names_shared: names_shared(program),
            owned,
            locals,
            constants: own_constants
                .into_iter()
                .map(|own| own.and(module_constants))
                .collect(),
            kernel_shared: kernel_shared(program, calls, &named),
            named_shared: named,
            shared_vectors: shared()
                .map(|v| v.size_bytes.next_multiple_of(VECTOR_BYTES))
                .sum(),
            targets: Targets::new(program, calls),
            recursive: calls.recursive(),
            lines: module.lines(),
            shared: shared().next().is_some(),
            escaping_count: escaping.iter().filter(|&&e| e).count(),
            escaping,
            constant: constant_pointer(program),
            managed: managed(program),
        }
    }
}

/// Returns the first constant whose generic address an initialiser holds.
fn constant_pointer(program: &Program) -> Option<String> {
    let relocations = program.variables.iter().flat_map(|v| &v.relocations);
    relocations
        .filter(|r| r.generic)
        .find_map(|r| match r.target {
            RelocationTarget::Variable(v) => {
                let v = &program.variables[v.0 as usize];
                (v.space == StateSpace::Const).then(|| v.name.clone())
            }
            RelocationTarget::Function(_) => None,
        })
}

/// Returns whether any instruction is about shared memory by name.
fn names_shared(program: &Program) -> bool {
    let is_shared = |s: &StateSpace| matches!(s, StateSpace::Shared | StateSpace::SharedCluster);
    let mut body = program.functions.iter().flat_map(|f| &f.body);
    body.any(|i| i.mods.spaces.iter().any(is_shared))
}

/// Which variable is meant where any of some is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    None,
    One(VarId),
    Many,
}

impl Choice {
    fn add(&mut self, v: VarId) {
        *self = self.and(Self::One(v));
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, one) | (one, Self::None) => one,
            _ => Self::Many,
        }
    }
}

/// Returns the first managed variable that each function names, or that any may reach because its address stands in an
/// initialiser.
fn managed(program: &Program) -> Vec<Option<String>> {
    let is_managed = |v: &VarId| program.variables[v.0 as usize].is_managed;
    let name = |v: VarId| program.variables[v.0 as usize].name.clone();
    let relocations = program.variables.iter().flat_map(|v| &v.relocations);
    let mut targets = relocations.filter_map(|r| match r.target {
        RelocationTarget::Variable(v) => Some(v),
        RelocationTarget::Function(_) => None,
    });
    let stored = targets.find(is_managed);
    let of = |f: &Function| stored.or_else(|| variables(f).find(is_managed)).map(name);
    program.functions.iter().map(of).collect()
}

/// Returns the variables that the body names, as often as it does.
fn variables(function: &Function) -> impl Iterator<Item = VarId> {
    let operands = function.body.iter().flat_map(|i| &i.operands);
    operands.filter_map(|o| match o {
        Operand::Symbol {
            symbol: Symbol::Variable(v),
            ..
        }
        | Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(v)),
            ..
        } => Some(*v),
        _ => None,
    })
}

/// Returns the variables of the module's shared memory that the body names.
fn named_shared(program: &Program, function: &Function) -> Vec<VarId> {
    let is_module_shared = |v: &VarId| {
        let v = &program.variables[v.0 as usize];
        v.space == StateSpace::Shared && v.owner.is_none()
    };
    let mut named: Vec<VarId> = variables(function).filter(is_module_shared).collect();
    named.sort_unstable();
    named.dedup();
    named
}
