//! Which bounds an access has to be held to, if any.
//!
//! An access by name that lies in its variable is proved; any other gets bounds by its state space and by what its
//! base register was made from.

use super::FenceReason;
use super::access::Access;
use super::pragma;
use super::scope::Scope;
use super::targets::Targets;
use super::values::{Object, Values};
use crate::decode::{
    AddressBase, Function, Instruction, Operand, Program, RegId, RelocationTarget, StateSpace,
    Symbol, VarId, Variable,
};
use crate::forms::judge;
use crate::forms::reach::Calls;
use crate::syntax::module::{Lines, Module};

/// Bytes of the widest vector in shared memory.
pub(super) const VECTOR_BYTES: u64 = 16;

/// The base of an address that is not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A register; its offset is in [`Place`]'s access.
    Reg(RegId),
    /// A variable's name.
    Name(VarId),
    /// A literal address.
    Absolute,
}

/// What has to be done about an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// It lies in what it names.
    Proved,
    /// Global memory: confined to the reservation.
    Global(Base),
    /// Shared memory: held below the end of the block's own, or of the variable that it comes from.
    Shared(Base, Option<VarId>),
    /// Held inside a local or constant variable.
    Variable(Base, VarId),
    /// Held inside the kernel's parameters.
    Param(Base),
    /// A generic address in the shared window.
    GenericShared(Base),
    /// A generic address that is told apart at run time, by surroundings that well-behaved code may aim at.
    Generic {
        /// The address.
        base: Base,
        /// Shared memory is possible.
        shared: bool,
        /// This local variable is possible.
        local: Option<VarId>,
    },
    /// It cannot be held.
    Refused(FenceReason),
}

/// What the whole module says; the same for all of its functions.
pub(crate) struct Surroundings {
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
    /// Registers of the whole module may be kept where the kernel can write.
    pub(super) pragma: Option<String>,
    /// Variables that each function declares.
    pub(super) owned: Vec<Vec<VarId>>,
    /// Index of each function's text, among those that have a body.
    pub(super) texts: Vec<Option<usize>>,
    /// Functions that make generic addresses of local variables.
    escaping: Vec<bool>,
    /// How many they are.
    escaping_count: usize,
    /// For each function, its variables in local memory, and the constants that it may mean.
    locals: Vec<Choice>,
    constants: Vec<Choice>,
    /// The module's own shared variables that each function names, in ascending order.
    pub(super) named_shared: Vec<Vec<VarId>>,
    /// Bytes of all shared variables together, and the same with each rounded up to a vector.
    pub(super) shared_bytes: u64,
    pub(super) shared_vectors: u64,
    /// What calls through pointers may mean.
    pub(super) targets: Targets,
    /// An initialiser holds the generic address of a constant.
    pub(super) constant: Option<String>,
}

impl Surroundings {
    pub(crate) fn new(module: &Module, program: &Program, calls: &Calls) -> Self {
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
            pragma: pragma::of_module(module),
            owned,
            locals,
            constants: own_constants
                .into_iter()
                .map(|own| own.and(module_constants))
                .collect(),
            named_shared: program
                .functions
                .iter()
                .map(|f| named_shared(program, f))
                .collect(),
            shared_bytes: shared().map(|v| v.size_bytes).sum(),
            shared_vectors: shared()
                .map(|v| v.size_bytes.next_multiple_of(VECTOR_BYTES))
                .sum(),
            targets: Targets::new(program, calls),
            texts: texts(module, program),
            recursive: calls.recursive(),
            lines: module.lines(),
            shared: shared().next().is_some(),
            escaping_count: escaping.iter().filter(|&&e| e).count(),
            escaping,
            constant: constant_pointer(program),
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

/// Returns where the text of each function with a body stands among the module's.
fn texts(module: &Module, program: &Program) -> Vec<Option<usize>> {
    let indices = judge::indices(program);
    let mut texts = vec![None; program.functions.len()];
    for (at, syntax) in module.functions.iter().enumerate() {
        if let (true, Some(&n)) = (syntax.has_body, indices.get(module.name_of(syntax))) {
            texts[n] = Some(at);
        }
    }
    texts
}

/// Returns whether any instruction is about shared memory by name.
fn names_shared(program: &Program) -> bool {
    let is_shared = |s: &StateSpace| matches!(s, StateSpace::Shared | StateSpace::SharedCluster);
    let mut body = program.functions.iter().flat_map(|f| &f.body);
    body.any(|i| i.mods.spaces.iter().any(is_shared))
}

/// Which variable is meant where any of some is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
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

/// Variables of the module's shared memory that the body names.
fn named_shared(program: &Program, function: &Function) -> Vec<VarId> {
    let operands = function.body.iter().flat_map(|i| &i.operands);
    let named = operands.filter_map(|o| match o {
        Operand::Symbol {
            symbol: Symbol::Variable(v),
            ..
        }
        | Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(v)),
            ..
        } => Some(*v),
        _ => None,
    });
    let is_module_shared = |v: &VarId| {
        let v = &program.variables[v.0 as usize];
        v.space == StateSpace::Shared && v.owner.is_none()
    };
    let mut named: Vec<VarId> = named.filter(is_module_shared).collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// What is known when an access is placed.
pub(super) struct Placing<'a, 's> {
    pub(super) program: &'a Program,
    pub(super) function: &'a Function,
    /// The function's index.
    pub(super) index: usize,
    pub(super) values: &'a Values,
    pub(super) surroundings: &'a Surroundings,
    pub(super) scope: &'a Scope<'s>,
}

/// Returns whether an access needs to know what registers hold, so that [`Values`] have to be worked out.
pub(super) fn needs_values(i: &Instruction, access: &Access) -> bool {
    matches!(
        i.operands.get(access.operand),
        Some(Operand::Address {
            base: AddressBase::Reg(_),
            ..
        })
    ) && access.space != StateSpace::Global
}

impl Placing<'_, '_> {
    /// Places one access of an instruction.
    pub(super) fn place(&self, i: &Instruction, access: &Access) -> Place {
        let Some(Operand::Address { base, offset }) = i.operands.get(access.operand) else {
            return self.unbounded(i);
        };
        let base = match base {
            AddressBase::Symbol(symbol) => match self.named(i, access, *symbol, *offset) {
                Ok(place) => return place,
                Err(v) => Base::Name(v),
            },
            AddressBase::Reg(r) => Base::Reg(*r),
            AddressBase::Absolute => Base::Absolute,
        };
        let object = match base {
            Base::Reg(r) => self.values.object(r),
            Base::Name(v) => Object::Variable(v),
            Base::Absolute => Object::None,
        };
        match access.space {
            StateSpace::Global => Place::Global(base),
            StateSpace::Shared => Place::Shared(base, self.sized(i, object, StateSpace::Shared)),
            StateSpace::Local | StateSpace::Const if access.rows.is_none() => {
                self.variable(i, access, base, object)
            }
            StateSpace::Param if access.rows.is_none() => match object {
                Object::Param if self.function.is_entry => Place::Param(base),
                _ => self.unknown(i, "parameter"),
            },
            StateSpace::Generic => self.generic(i, access, base, object),
            _ => self.unbounded(i),
        }
    }

    fn unbounded(&self, i: &Instruction) -> Place {
        let what = i.mnemonic.to_string();
        Place::Refused(FenceReason::Unbounded { what })
    }

    fn unknown(&self, i: &Instruction, space: &'static str) -> Place {
        let what = i.mnemonic.to_string();
        Place::Refused(FenceReason::UnknownVariable { space, what })
    }

    /// Returns the variable that an object is, when it has a size, is in that space, and can be named at the
    /// instruction.
    fn sized(&self, i: &Instruction, object: Object, space: StateSpace) -> Option<VarId> {
        let Object::Variable(v) = object else {
            return None;
        };
        let variable = &self.program.variables[v.0 as usize];
        let fits = variable.space == space && !variable.is_extern && variable.size_bytes != 0;
        let from = self.scope.visible_from(self.program, v);
        (fits && from.is_some_and(|from| from <= i.span.start)).then_some(v)
    }

    /// Returns an access by name: proved, refused, or a variable's that it may leave.
    fn named(
        &self,
        i: &Instruction,
        access: &Access,
        symbol: Symbol,
        offset: i64,
    ) -> Result<Place, VarId> {
        let inside = |size: u64, align: u32| {
            let end = offset.checked_add(i64::from(access.bytes));
            offset >= 0
                && end.is_some_and(|end| end.cast_unsigned() <= size)
                && offset % i64::from(access.align) == 0
                && align.is_multiple_of(access.align)
                && access.rows.is_none()
        };
        let outside = |name: &str| {
            Place::Refused(FenceReason::OutsideVariable {
                what: i.mnemonic.to_string(),
                name: name.to_owned(),
            })
        };
        let proved = |is: bool, name: &str| if is { Place::Proved } else { outside(name) };
        match symbol {
            Symbol::Param(n) | Symbol::ReturnParam(n) => {
                let list = match symbol {
                    Symbol::Param(_) => &self.function.params,
                    _ => &self.function.returns,
                };
                let Some(p) = list.get(n as usize) else {
                    return Ok(self.unbounded(i));
                };
                // Within the parameter, whose alignment is at least that of its type.
                let fits = access.space == StateSpace::Param
                    && inside(u64::from(p.size_bytes), p.align.max(p.ty.size_bytes()));
                Ok(proved(fits, &p.name))
            }
            Symbol::Function(_) => Ok(self.unbounded(i)),
            Symbol::Variable(v) => {
                let variable = &self.program.variables[v.0 as usize];
                let same = access.space == variable.space
                    || (access.space == StateSpace::Generic
                        && variable.space == StateSpace::Global);
                if same && !variable.is_extern && inside(variable.size_bytes, variable.align) {
                    return Ok(Place::Proved);
                }
                if variable.space == StateSpace::Param || !same {
                    return Ok(outside(&variable.name));
                }
                Err(v)
            }
        }
    }

    /// Local and constant accesses are held inside one variable.
    fn variable(&self, i: &Instruction, access: &Access, base: Base, object: Object) -> Place {
        let space = access.space;
        let known = self.sized(i, object, space).or_else(|| {
            let Choice::One(only) = self.choice(space) else {
                return None;
            };
            self.sized(i, Object::Variable(only), space)
        });
        let named = if space == StateSpace::Local {
            "local"
        } else {
            "constant"
        };
        match known {
            Some(v) => {
                let variable = &self.program.variables[v.0 as usize];
                let fits = variable.size_bytes >= u64::from(access.bytes)
                    && variable.align.is_multiple_of(access.align);
                if fits {
                    Place::Variable(base, v)
                } else {
                    self.unknown(i, named)
                }
            }
            None => self.unknown(i, named),
        }
    }

    /// Variables of that space that the function may mean.
    fn choice(&self, space: StateSpace) -> Choice {
        match space {
            StateSpace::Local => self.surroundings.locals[self.index],
            _ => self.surroundings.constants[self.index],
        }
    }

    fn generic(&self, i: &Instruction, access: &Access, base: Base, object: Object) -> Place {
        if let Some(what) = self.surroundings.constant.clone() {
            return Place::Refused(FenceReason::GenericConstant { what });
        }
        // A prefetch of anything but global memory does nothing, and one of the wrong line no harm.
        let is_prefetch = i.mnemonic.starts_with("prefetch");
        let in_global = match object {
            Object::Global => true,
            Object::Variable(v) => self.program.variables[v.0 as usize].space == StateSpace::Global,
            _ => is_prefetch,
        };
        if in_global {
            return Place::Global(base);
        }
        if object == Object::Shared {
            return Place::GenericShared(base);
        }
        let escapes = self.surroundings.escaping[self.index];
        let others = self.surroundings.escaping_count - usize::from(escapes);
        if others > 0 && !self.function.is_entry {
            let what = i.mnemonic.to_string();
            return Place::Refused(FenceReason::CallersLocals { what });
        }
        let mut local = None;
        if escapes {
            let as_local = Access {
                space: StateSpace::Local,
                ..*access
            };
            local = match self.variable(i, &as_local, base, Object::Any) {
                Place::Variable(_, v) => Some(v),
                // The only one there is, if it cannot hold the access, is not what the access means.
                refused => match self.choice(StateSpace::Local) {
                    Choice::One(_) => None,
                    _ => return refused,
                },
            };
        }
        let shared = self.surroundings.shared;
        match (shared, local) {
            (false, None) => Place::Global(base),
            _ if access.rows.is_some() => self.unbounded(i),
            _ => Place::Generic {
                base,
                shared,
                local,
            },
        }
    }
}
