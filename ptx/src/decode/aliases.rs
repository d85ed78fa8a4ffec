//! Other names of functions (`.alias`, PTX ISA section 5.4.7).
//!
//! Rule: nothing in a decoded module names an alias, so that whoever reads it knows functions by one name.

use super::{FuncId, Operand, Program, RelocationTarget, Symbol};
use std::collections::HashMap;

/// Lets everything that names an alias name the function that it stands for.
pub(super) fn resolve(program: &mut Program) {
    let aliases: HashMap<FuncId, FuncId> = program.aliases.iter().copied().collect();
    if aliases.is_empty() {
        return;
    }
    let resolve = |id: &mut FuncId| {
        if let Some(target) = aliases.get(id) {
            *id = *target;
        }
    };
    for function in &mut program.functions {
        let prototypes = &mut function.call_prototypes;
        prototypes
            .iter_mut()
            .flat_map(|of| &mut of.targets)
            .for_each(resolve);
        for operand in function.body.iter_mut().flat_map(|i| &mut i.operands) {
            if let Operand::Symbol {
                symbol: Symbol::Function(id),
                ..
            } = operand
            {
                resolve(id);
            }
        }
    }
    let relocations = program
        .variables
        .iter_mut()
        .flat_map(|v| &mut v.relocations);
    for relocation in relocations {
        if let RelocationTarget::Function(id) = &mut relocation.target {
            resolve(id);
        }
    }
}
