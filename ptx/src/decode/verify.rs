//! Whether an instruction of a tree that was changed is one that a text could decode to.
//!
//! Rule: it asks what the decoder asks ([`super::conform`]), of what there is no text of yet.

use super::isa::IsaRow;
use super::opcode::row_of;
use super::{Instruction, Opcode, Operand, RegId, ScalarType, StateSpace, Symbol, conform};
use crate::analysis::for_each_register;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    /// Rows of the opcode table by mnemonic.
    static ROWS: RefCell<HashMap<Arc<str>, Option<&'static IsaRow>>> = RefCell::default();
}

/// Checks an instruction against the types of the function's registers and the length of its body, in instructions.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn instruction(
    i: &Instruction,
    registers: &[ScalarType],
    space: &dyn Fn(Symbol) -> StateSpace,
    body: usize,
) -> Result<(), String> {
    let mut unknown = None;
    for_each_register(i, |register, _| {
        if register.0 as usize >= registers.len() {
            unknown = Some(register);
        }
    });
    if let Some(RegId(n)) = unknown {
        return Err(format!("there is no register {n}"));
    }
    let mut targets = i.operands.iter().filter_map(|operand| match operand {
        Operand::Target(target) => Some(*target as usize),
        _ => None,
    });
    if let Some(target) = targets.find(|target| *target > body) {
        return Err(format!("there is no instruction {target} to jump to"));
    }
    let row = ROWS.with_borrow_mut(|rows| {
        let row = || row_of(&i.mnemonic);
        *rows.entry(Arc::clone(&i.mnemonic)).or_insert_with(row)
    });
    let Some(row) = row.filter(|_| i.opcode != Opcode::Call) else {
        return Ok(());
    };
    let scope = conform::Scope {
        register: &|register| registers[register.0 as usize],
        space,
    };
    let verdict = conform::operands(row, i.opcode, &i.mods, &i.operands, &scope);
    verdict.map_err(|(n, what)| format!("operand {n}: {what}"))
}
