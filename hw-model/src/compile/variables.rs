//! Placing a module's variables: `.global` and `.const` in device memory, `.shared` and `.local` per kernel.
//!
//! Rules: each global or constant variable is an allocation of its own, so that running off its end is seen; a
//! kernel's shared memory holds its own variables and those module-scope ones that it names; dynamic shared
//! memory begins behind them.

use super::Lines;
use super::reach::Reach;
use crate::exec::{FrameLayout, VariableAddresses, function_address};
use crate::kernel::ModuleVariable;
use crate::load_error::LoadError;
use crate::memory::{DomainId, Memory};
use gridmux_ptx::decode::{
    AddressBase, FuncId, Operand, Program, RelocationTarget, StateSpace, Symbol, VarId, Variable,
};
use gridmux_ptx::shown;
use std::ops::Deref;

/// Alignment of dynamic shared memory in bytes.
const DYNAMIC_SHARED_ALIGN: u64 = 16;

/// Device addresses of a program's variables.
#[derive(Debug, Default)]
pub(super) struct Placed {
    addresses: Vec<Option<(StateSpace, u64)>>,
    variables: Vec<ModuleVariable>,
}

/// What one kernel sees.
pub(super) struct Layout {
    pub(super) addresses: Vec<Option<(StateSpace, u64)>>,
    pub(super) shared_bytes: u64,
}

impl Deref for Layout {
    type Target = VariableAddresses;

    fn deref(&self) -> &VariableAddresses {
        &self.addresses
    }
}

impl Placed {
    pub(super) fn variables(&self) -> &[ModuleVariable] {
        &self.variables
    }

    pub(super) fn into_variables(self) -> Vec<ModuleVariable> {
        self.variables
    }

    pub(super) fn free(self, memory: &mut Memory, domain: DomainId) {
        let addresses = self.variables.iter().map(|variable| variable.address);
        memory.free_all(domain, addresses.collect());
    }

    /// Addresses as one kernel and the functions that it may call see them; completes the functions' frames.
    pub(super) fn layout(
        &self,
        program: &Program,
        reach: &Reach,
        frames: &mut [FrameLayout],
    ) -> Layout {
        let named = named_variables(program, &reach.members);
        let mut addresses = self.addresses.clone();
        let mut shared = 0_u64;
        let mut dynamic = Vec::new();
        for (index, variable) in program.variables.iter().enumerate() {
            if named.binary_search(&index).is_err() {
                continue;
            }
            match variable.space {
                StateSpace::Shared if variable.is_extern || variable.size_bytes == 0 => {
                    dynamic.push(index);
                }
                StateSpace::Shared => {
                    let aligned = shared.checked_next_multiple_of(u64::from(variable.align.max(1)));
                    let start = aligned.unwrap_or(u64::MAX);
                    addresses[index] = Some((variable.space, start));
                    shared = start.saturating_add(variable.size_bytes);
                }
                StateSpace::Local | StateSpace::Param => {
                    let owner = variable.owner.and_then(|id| reach.place_of(id));
                    let frame = &mut frames[owner.unwrap_or(0) as usize];
                    let aligned = frame.bytes.checked_next_multiple_of(variable.align.max(1));
                    let start = aligned.unwrap_or(u32::MAX);
                    addresses[index] = Some((variable.space, u64::from(start)));
                    let bytes = u32::try_from(variable.size_bytes).unwrap_or(u32::MAX);
                    frame.bytes = start.saturating_add(bytes);
                }
                _ => {}
            }
        }
        for index in dynamic {
            let aligned = shared.checked_next_multiple_of(DYNAMIC_SHARED_ALIGN);
            let start = aligned.unwrap_or(u64::MAX);
            addresses[index] = Some((StateSpace::Shared, start));
            shared = start;
        }
        for frame in frames {
            frame.bytes = frame.bytes.checked_next_multiple_of(16).unwrap_or(u32::MAX);
        }
        Layout {
            addresses,
            shared_bytes: shared,
        }
    }
}

/// Indices of the variables that the bodies name.
fn named_variables(program: &Program, members: &[FuncId]) -> Vec<usize> {
    let mut named = Vec::new();
    for id in members {
        let body = &program.functions[id.0 as usize].body;
        for operand in body.iter().flat_map(|i| &i.operands) {
            note(operand, &mut named);
        }
    }
    named.sort_unstable();
    named.dedup();
    named
}

fn note(operand: &Operand, named: &mut Vec<usize>) {
    match operand {
        Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(VarId(id))),
            ..
        }
        | Operand::Symbol {
            symbol: Symbol::Variable(VarId(id)),
            ..
        } => named.push(*id as usize),
        Operand::Arguments(arguments) => arguments.iter().for_each(|a| note(a, named)),
        Operand::TexAddress(t) => note(&t.object, named),
        _ => {}
    }
}

/// Allocates and initialises the program's global and constant variables.
pub(super) fn place(
    memory: &mut Memory,
    domain: DomainId,
    program: &Program,
    lines: &Lines,
) -> Result<Placed, LoadError> {
    let mut placed = Placed {
        addresses: vec![None; program.variables.len()],
        variables: Vec::new(),
    };
    let filled = allocate(memory, domain, program, lines, &mut placed)
        .and_then(|()| initialise(memory, domain, program, lines, &placed));
    match filled {
        Ok(()) => Ok(placed),
        Err(error) => {
            placed.free(memory, domain);
            Err(error)
        }
    }
}

fn allocate(
    memory: &mut Memory,
    domain: DomainId,
    program: &Program,
    lines: &Lines,
    placed: &mut Placed,
) -> Result<(), LoadError> {
    for (index, variable) in program.variables.iter().enumerate() {
        if !matches!(variable.space, StateSpace::Global | StateSpace::Const) {
            continue;
        }
        if variable.is_extern {
            return Err(refused(
                variable,
                lines,
                "is defined in another module, and modules are not linked",
            ));
        }
        let bytes = variable.size_bytes.max(1);
        let address = match variable.is_managed {
            true => memory.alloc_to_share(domain, bytes)?,
            false => memory.alloc(domain, bytes)?,
        };
        memory.clear(domain, address, bytes)?;
        placed.addresses[index] = Some((variable.space, address));
        placed.variables.push(ModuleVariable {
            name: variable.name.clone(),
            address,
            bytes,
        });
    }
    Ok(())
}

fn initialise(
    memory: &mut Memory,
    domain: DomainId,
    program: &Program,
    lines: &Lines,
    placed: &Placed,
) -> Result<(), LoadError> {
    for (variable, address) in program.variables.iter().zip(&placed.addresses) {
        let (Some((_, address)), Some(init)) = (address, &variable.init) else {
            continue;
        };
        memory.write(domain, *address, init)?;
        for relocation in &variable.relocations {
            let target = match relocation.target {
                RelocationTarget::Function(id) => function_address(id.0),
                RelocationTarget::Variable(VarId(target)) => {
                    let Some((_, target)) = placed.addresses[target as usize] else {
                        return Err(refused(
                            variable,
                            lines,
                            "holds the address of a variable that is not in device memory",
                        ));
                    };
                    target
                }
            };
            let value = target.wrapping_add_signed(relocation.addend);
            let value = (value >> relocation.shift_bits.min(63)).to_le_bytes();
            let width = usize::from(relocation.width).min(value.len());
            memory.write(domain, *address + relocation.offset, &value[..width])?;
        }
    }
    Ok(())
}

fn refused(variable: &Variable, lines: &Lines, reason: &'static str) -> LoadError {
    LoadError::Variable {
        name: shown(&variable.name),
        line: lines.of(variable.span),
        reason,
    }
}
