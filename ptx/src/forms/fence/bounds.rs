//! Which bounds an access has to be held to, if any.
//!
//! An access by name that lies in its variable is proved; any other gets bounds by its state space and by what its
//! base register was made from.

use super::FenceReason;
use super::access::Access;
use super::module_facts::{Choice, ModuleFacts};
use super::register_facts::{Object, RegisterFacts};
use crate::control::FIXED_PARAM_ALIGN;
use crate::decode::{
    AddressBase, Function, Instruction, Operand, Program, RegId, StateSpace, Symbol, VarId,
};

/// The base of an address that is not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A register; its offset is in [`Bound`]'s access.
    Reg(RegId),
    /// A variable's name.
    Name(VarId),
    /// A literal address.
    Absolute,
}

/// What has to be done about an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bound {
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
    /// A generic address whose state space is decided at run time.
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

/// What is known when an access is placed.
pub(super) struct Bounding<'a> {
    pub(super) program: &'a Program,
    pub(super) function: &'a Function,
    /// The function's index.
    pub(super) index: usize,
    pub(super) values: &'a RegisterFacts,
    pub(super) module_facts: &'a ModuleFacts,
}

/// Returns whether an access needs to know what registers hold, so that [`RegisterFacts`] have to be worked out.
pub(super) fn needs_values(i: &Instruction, access: &Access) -> bool {
    matches!(
        i.operands.get(access.operand),
        Some(Operand::Address {
            base: AddressBase::Reg(_),
            ..
        })
    ) && access.space != StateSpace::Global
}

impl Bounding<'_> {
    /// Places one access of an instruction.
    pub(super) fn bound(&self, i: &Instruction, access: &Access) -> Bound {
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
            StateSpace::Global => Bound::Global(base),
            StateSpace::Shared => Bound::Shared(base, self.sized(object, StateSpace::Shared)),
            StateSpace::Local | StateSpace::Const if access.rows.is_none() => {
                self.variable(i, access, base, object)
            }
            StateSpace::Param if access.rows.is_none() => match object {
                Object::Param if self.function.is_entry => self.parameter(i, base),
                _ => self.unknown(i, "parameter"),
            },
            StateSpace::Generic => self.generic(i, access, base, object),
            _ => self.unbounded(i),
        }
    }

    /// Returns the bound of an access to a kernel's parameters at a computed address.
    fn parameter(&self, i: &Instruction, base: Base) -> Bound {
        let mut aligns = self.function.params.iter().map(|param| param.align);
        if aligns.any(|align| align > FIXED_PARAM_ALIGN) {
            return Bound::Refused(FenceReason::ParameterPlaces(i.mnemonic.to_string()));
        }
        Bound::Param(base)
    }

    fn unbounded(&self, i: &Instruction) -> Bound {
        let what = i.mnemonic.to_string();
        Bound::Refused(FenceReason::Unbounded(what))
    }

    fn unknown(&self, i: &Instruction, space: &'static str) -> Bound {
        let what = i.mnemonic.to_string();
        Bound::Refused(FenceReason::UnknownVariable { space, what })
    }

    /// Returns the variable that an object is, when it has a size and is in that space.
    fn sized(&self, object: Object, space: StateSpace) -> Option<VarId> {
        let Object::Variable(v) = object else {
            return None;
        };
        let variable = &self.program.variables[v.0 as usize];
        let fits = variable.space == space && !variable.is_extern && variable.size_bytes != 0;
        fits.then_some(v)
    }

    /// Returns an access by name: proved, refused, or a variable's that it may leave.
    fn named(
        &self,
        i: &Instruction,
        access: &Access,
        symbol: Symbol,
        offset: i64,
    ) -> Result<Bound, VarId> {
        let inside = |size: u64, align: u32| {
            let end = offset.checked_add(i64::from(access.bytes));
            offset >= 0
                && end.is_some_and(|end| end.cast_unsigned() <= size)
                && offset % i64::from(access.align) == 0
                && align.is_multiple_of(access.align)
                && access.rows.is_none()
        };
        let outside = |name: &str| {
            Bound::Refused(FenceReason::OutsideVariable {
                what: i.mnemonic.to_string(),
                name: name.to_owned(),
            })
        };
        let proved = |is: bool, name: &str| if is { Bound::Proved } else { outside(name) };
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
                    return Ok(Bound::Proved);
                }
                if variable.space == StateSpace::Param || !same {
                    return Ok(outside(&variable.name));
                }
                Err(v)
            }
        }
    }

    /// Returns the bound of a local or constant access, which is held inside one variable.
    fn variable(&self, i: &Instruction, access: &Access, base: Base, object: Object) -> Bound {
        let space = access.space;
        let known = self.sized(object, space).or_else(|| {
            let Choice::One(only) = self.choice(space) else {
                return None;
            };
            self.sized(Object::Variable(only), space)
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
                    Bound::Variable(base, v)
                } else {
                    self.unknown(i, named)
                }
            }
            None => self.unknown(i, named),
        }
    }

    /// Returns the variables of that space that the function may mean.
    fn choice(&self, space: StateSpace) -> Choice {
        match space {
            StateSpace::Local => self.module_facts.locals[self.index],
            _ => self.module_facts.constants[self.index],
        }
    }

    fn generic(&self, i: &Instruction, access: &Access, base: Base, object: Object) -> Bound {
        if let Some(what) = self.module_facts.constant.clone() {
            return Bound::Refused(FenceReason::GenericConstant(what));
        }
        // A prefetch of anything but global memory does nothing, and one of the wrong line no harm.
        let is_prefetch = i.mnemonic.starts_with("prefetch");
        let in_global = match object {
            Object::Global => true,
            Object::Variable(v) => self.program.variables[v.0 as usize].space == StateSpace::Global,
            _ => is_prefetch,
        };
        if in_global {
            return Bound::Global(base);
        }
        if object == Object::Shared {
            return Bound::GenericShared(base);
        }
        let escapes = self.module_facts.escaping[self.index];
        let others = self.module_facts.escaping_count - usize::from(escapes);
        if others > 0 && !self.function.is_entry {
            let what = i.mnemonic.to_string();
            return Bound::Refused(FenceReason::CallersLocals(what));
        }
        let mut local = None;
        if escapes {
            let as_local = Access {
                space: StateSpace::Local,
                ..*access
            };
            local = match self.variable(i, &as_local, base, Object::Any) {
                Bound::Variable(_, v) => Some(v),
                // The only one there is, if it cannot hold the access, is not what the access means.
                refused => match self.choice(StateSpace::Local) {
                    Choice::One(_) => None,
                    _ => return refused,
                },
            };
        }
        let shared = self.module_facts.shared;
        match (shared, local) {
            (false, None) => Bound::Global(base),
            _ if access.rows.is_some() => self.unbounded(i),
            _ => Bound::Generic {
                base,
                shared,
                local,
            },
        }
    }
}
