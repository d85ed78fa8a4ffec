//! Other names of functions (`.alias`, PTX ISA section 5.4.7).
//!
//! Rule: an alias stands for a function that the module defines and that is no kernel; the first of several counts.
//! Operands of a decoded module name functions, never aliases.

use super::{FuncId, Program, RelocationTarget, Symbol};
use std::collections::HashMap;

/// Lets everything that names an alias name the function that it stands for.
pub(super) fn resolve(program: &mut Program) {
    if program.aliases.is_empty() {
        return;
    }
    let mut aliases: HashMap<FuncId, FuncId> = HashMap::new();
    for (alias, target) in std::mem::take(&mut program.aliases) {
        let stands_for = &program.functions[target.0 as usize];
        if stands_for.is_defined && !stands_for.is_entry && !aliases.contains_key(&alias) {
            aliases.insert(alias, target);
            program.aliases.push((alias, target));
        }
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
            operand.for_each_symbol(&mut |symbol| {
                if let Symbol::Function(id) = symbol {
                    resolve(id);
                }
            });
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
