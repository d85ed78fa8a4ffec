//! Values that a function needs from the kernel that called it, carried through calls as added parameters.
//!
//! A callee cannot see the control block, so what it needs of it arrives in `.reg` parameters behind its own, which
//! cost a register only where the callee is not inlined. Every call, declaration and prototype changes alike. A
//! function whose address is taken may be reached by any indirect call, so all of those get one common list.

use super::code::Code;
use super::frame::Frame;
use super::value::{Value, Values};
use crate::analysis::CallGraph;
use crate::decode::{FuncId, Opcode, Operand, Param, Program};

/// What each function of a module is handed.
pub(crate) struct Carried {
    /// By function; kernels are handed nothing, they have the control block.
    by_function: Vec<Values>,
    /// What every indirect call passes.
    indirect: Values,
}

impl Carried {
    /// Finds what calls carry: `needs` is what each function uses itself; `reached` tells which functions a rewritten
    /// kernel may call. A function that none may call keeps its parameters.
    pub(crate) fn new(
        program: &Program,
        calls: &CallGraph,
        needs: &[Values],
        reached: &[bool],
    ) -> Self {
        let is_callee =
            |n: usize| !program.functions[n].is_entry && program.functions[n].is_defined;
        let own = |n: usize| match is_callee(n) && reached[n] {
            true => needs[n],
            false => Values::default(),
        };
        let own: Vec<Values> = (0..needs.len()).map(own).collect();
        let taken = |n: &usize| calls.address_taken[*n] && is_callee(*n) && reached[*n];
        let mut by_function = spread(calls, &own);
        // Whoever is called through a pointer is handed what any of them needs.
        let indirect = (0..own.len()).filter(taken).map(|n| by_function[n]);
        let indirect = indirect.fold(Values::default(), Values::union);
        if !indirect.is_empty() {
            let shared = |n: usize| match taken(&n) {
                true => own[n].union(indirect),
                false => own[n],
            };
            by_function = spread(calls, &(0..own.len()).map(shared).collect::<Vec<_>>());
        }
        for (n, values) in by_function.iter_mut().enumerate() {
            if !(is_callee(n) && reached[n]) {
                *values = Values::default();
            }
        }
        if !indirect.is_empty() {
            for (n, values) in by_function.iter_mut().enumerate() {
                if calls.address_taken[n] && is_callee(n) {
                    *values = values.union(indirect);
                }
            }
        }
        Self {
            by_function,
            indirect,
        }
    }

    /// Returns what the function is handed.
    pub(crate) fn of(&self, function: FuncId) -> Values {
        self.by_function[function.0 as usize]
    }
}

/// Returns what each function has to be handed where these are what they use themselves.
fn spread(calls: &CallGraph, own: &[Values]) -> Vec<Values> {
    let mut all = own.to_vec();
    for value in Value::ALL {
        let users = own
            .iter()
            .map(|values| values.contains(value).then_some(()));
        for (values, found) in all.iter_mut().zip(calls.spread(users.collect())) {
            if found.is_some() {
                values.insert(value);
            }
        }
    }
    all
}

/// Passes what the callees need at every call of a function, and adds it to its prototypes.
pub(crate) fn edit(frame: &mut Frame<'_>, carried: &Carried) {
    for (n, i) in (0..).zip(&frame.function.body) {
        if i.opcode != Opcode::Call {
            continue;
        }
        let values = i.callee().map_or(carried.indirect, |f| carried.of(f));
        if !values.is_empty() {
            pass(frame, n, values);
        }
    }
}

/// Returns the parameters that calls through pointers pass beside a function's own.
pub(crate) fn indirect(carried: &Carried) -> impl Iterator<Item = Param> {
    carried.indirect.iter().map(Value::parameter)
}

/// Loads the values in front of the call and names them behind its arguments.
fn pass(frame: &mut Frame<'_>, instruction: u32, values: Values) {
    let mut code = Code::new();
    let mut registers = Vec::new();
    for value in values.iter() {
        let (load, register) = frame.held(value);
        code.append(load);
        registers.push(Operand::Reg(register));
    }
    frame.before(instruction, code);
    // Returned, callee, passed, prototype (`Instruction::operands`).
    if let Some(Operand::Arguments(passed)) = frame.change(instruction).operands.get_mut(2) {
        let mut all = std::mem::take(passed).into_vec();
        all.append(&mut registers);
        *passed = all.into();
    }
}
