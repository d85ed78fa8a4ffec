//! What a kernel may reach by calls, for refusals that travel from callee to caller.
//!
//! Refusals flow along reversed call edges from the functions that have one, so the cost is linear in the calls. An
//! indirect call may reach every function whose address the module takes.

use crate::decode::{Opcode, Operand, Program, RelocationTarget, Symbol};
use std::collections::VecDeque;

/// Who calls whom, reversed, and whose address is taken.
pub(crate) struct Calls {
    /// Callers of each function; one more entry stands for «any function whose address is taken».
    callers: Vec<Vec<u32>>,
    /// Functions that each function calls by name.
    callees: Vec<Vec<u32>>,
    /// Whether each function calls through a pointer.
    indirectly: Vec<bool>,
    /// Whether the function's address is taken.
    pub(crate) address_taken: Vec<bool>,
}

impl Calls {
    pub(crate) fn new(program: &Program) -> Self {
        let any = program.functions.len();
        let mut calls = Self {
            callers: vec![Vec::new(); any + 1],
            callees: vec![Vec::new(); any],
            indirectly: vec![false; any],
            address_taken: vec![false; any],
        };
        for (caller, function) in (0_u32..).zip(&program.functions) {
            for i in &function.body {
                let is_call = i.opcode == Opcode::Call;
                if is_call {
                    match i.operands.get(1) {
                        Some(Operand::Symbol {
                            symbol: Symbol::Function(f),
                            ..
                        }) => {
                            calls.callers[f.0 as usize].push(caller);
                            calls.callees[caller as usize].push(f.0);
                        }
                        _ => {
                            calls.callers[any].push(caller);
                            calls.indirectly[caller as usize] = true;
                        }
                    }
                }
                for (n, operand) in i.operands.iter().enumerate() {
                    if !(is_call && n == 1) {
                        calls.note_addresses(operand);
                    }
                }
            }
        }
        for relocation in program.variables.iter().flat_map(|v| &v.relocations) {
            if let RelocationTarget::Function(f) = relocation.target {
                calls.address_taken[f.0 as usize] = true;
            }
        }
        calls
    }

    fn note_addresses(&mut self, operand: &Operand) {
        match operand {
            Operand::Symbol {
                symbol: Symbol::Function(f),
                ..
            } => self.address_taken[f.0 as usize] = true,
            Operand::Vector(list) => list.iter().for_each(|o| self.note_addresses(o)),
            Operand::Arguments(list) => list.iter().for_each(|o| self.note_addresses(o)),
            _ => {}
        }
    }

    /// The functions that a function calls by name, as often as it does.
    pub(crate) fn callees(&self, function: usize) -> impl Iterator<Item = usize> {
        self.callees[function].iter().map(|&f| f as usize)
    }

    /// Whether a function calls through a pointer.
    pub(crate) fn calls_indirectly(&self, function: usize) -> bool {
        self.indirectly[function]
    }

    /// Which functions the given ones may reach, themselves included.
    pub(crate) fn reached(&self, from: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut reached: Vec<bool> = (0..self.callees.len()).map(from).collect();
        let mut queue: Vec<usize> = (0..reached.len()).filter(|&n| reached[n]).collect();
        let mut any = false;
        while let Some(n) = queue.pop() {
            let mut next: Vec<usize> = self.callees(n).collect();
            if self.indirectly[n] && !any {
                any = true;
                next.extend((0..reached.len()).filter(|&f| self.address_taken[f]));
            }
            for f in next {
                if !std::mem::replace(&mut reached[f], true) {
                    queue.push(f);
                }
            }
        }
        reached
    }

    /// Gives every function that may reach a refused one a refusal, the nearest one by calls.
    pub(crate) fn spread<R: Clone>(&self, own: Vec<Option<R>>) -> Vec<Option<R>> {
        let any = own.len();
        let mut all = own;
        all.push(None);
        let mut queue: VecDeque<usize> = (0..any).filter(|&f| all[f].is_some()).collect();
        while let Some(f) = queue.pop_front() {
            let refusal = all[f].clone();
            let indirectly =
                (f < any && self.address_taken[f] && all[any].is_none()).then_some(any);
            let callers = self.callers[f].iter().map(|&c| c as usize);
            for caller in callers.chain(indirectly) {
                if all[caller].is_none() {
                    all[caller].clone_from(&refusal);
                    queue.push_back(caller);
                }
            }
        }
        all.truncate(any);
        all
    }
}

/// Functions of the device runtime that are defined by the driver and do not depend on the grid.
pub(crate) const HARMLESS_EXTERNALS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Whether a function by that name launches kernels from the device.
pub(crate) fn launches_kernels(name: &str) -> bool {
    [
        "cudaLaunch",
        "cudaGetParameterBuffer",
        "__cudaCDP",
        "cudaDeviceSynchronize",
        "__cudaDeviceSynchronize",
    ]
    .iter()
    .any(|p| name.starts_with(p))
}

/// Whether a function by that name is cooperative groups' grid barrier.
pub(crate) fn synchronises_grid(name: &str) -> bool {
    name.starts_with("cudaCG")
}
