//! Whether a rewritten function is one that a compiler can take. Builds with assertions, and so those of fuzzers, ask
//! it after the passes of each function.

use super::assemble::Assembled;
use super::make::Added;
use crate::decode::{Program, StateSpace, Symbol, verify};

/// Panics where an instruction is wrong, which is a mistake of the form that made it and must not reach a GPU.
pub(super) fn verify(program: &Program, added: &Added<'_>, made: &Assembled) {
    let function = &made.function;
    let own = added.first_of_functions() as usize;
    let space = |symbol| match symbol {
        Symbol::Variable(id) => match program.variables.get(id.0 as usize) {
            Some(variable) => variable.space,
            None if let Some(variable) = added.variable(id) => variable.space,
            None if (id.0 as usize) < own + made.variables.len() => StateSpace::Shared,
            None => panic!("there is no variable {}", id.0),
        },
        Symbol::Param(n) => {
            assert!(
                (n as usize) < function.params.len(),
                "there is no parameter {n}"
            );
            StateSpace::Param
        }
        Symbol::ReturnParam(_) => StateSpace::Param,
        Symbol::Function(_) => StateSpace::Generic,
    };
    let body = function.body.len();
    for instruction in &function.body {
        let verdict = verify::instruction(instruction, &function.registers, &space, body);
        if let Err(what) = verdict {
            panic!("`{}` of {}: {what}", instruction.mnemonic, function.name);
        }
    }
    let mut targets = function.branch_tables.iter().flatten();
    assert!(
        targets.all(|target| *target as usize <= body),
        "a table leads nowhere"
    );
}
