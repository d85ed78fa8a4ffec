//! Who calls whom in a module, and whose address is taken.
//!
//! An indirect call may reach every function whose address the module takes, or that some call lists. What spreads
//! along calls flows along reversed edges from the functions that have it, so that the cost is linear in the calls.

use crate::decode::{FuncId, Opcode, Operand, Program, RelocationTarget, Symbol};
use std::collections::VecDeque;

/// The calls of a module.
#[derive(Debug)]
pub struct CallGraph {
    /// Callers of each function; one more entry stands for «any function whose address is taken».
    callers: Vec<Vec<u32>>,
    /// Functions that each function calls by name.
    callees: Vec<Vec<u32>>,
    /// Whether each function calls through a pointer.
    indirectly: Vec<bool>,
    /// Whether the function's address is taken.
    pub(crate) address_taken: Vec<bool>,
}

impl CallGraph {
    /// Looks through a module.
    #[must_use]
    pub fn new(program: &Program) -> Self {
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
                match i.callee() {
                    Some(f) => {
                        calls.callers[f.0 as usize].push(caller);
                        calls.callees[caller as usize].push(f.0);
                    }
                    None if is_call => {
                        calls.callers[any].push(caller);
                        calls.indirectly[caller as usize] = true;
                    }
                    None => {}
                }
                for (n, operand) in i.operands.iter().enumerate() {
                    if !(is_call && n == 1) {
                        calls.note_addresses(operand);
                    }
                }
            }
        }
        let prototypes = program.functions.iter().flat_map(|f| &f.call_prototypes);
        for f in prototypes.flat_map(|prototype| &prototype.targets) {
            calls.address_taken[f.0 as usize] = true;
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

    /// Returns the functions that a function calls by name, as often as it does.
    pub fn callees(&self, function: usize) -> impl Iterator<Item = usize> {
        self.callees[function].iter().map(|&f| f as usize)
    }

    /// Returns whether a function calls through a pointer.
    #[must_use]
    pub fn calls_indirectly(&self, function: usize) -> bool {
        self.indirectly[function]
    }

    /// Returns the functions that one may reach and that the module defines: itself first, then as they are found.
    #[must_use]
    pub fn reached_from(&self, program: &Program, from: FuncId) -> Vec<FuncId> {
        let mut seen = vec![false; self.callees.len()];
        seen[from.0 as usize] = true;
        let mut reached = vec![from];
        let mut any = false;
        let mut at = 0;
        while let Some(&FuncId(n)) = reached.get(at) {
            at += 1;
            let meets_any = self.indirectly[n as usize] && !std::mem::replace(&mut any, true);
            let all = if meets_any { self.callees.len() } else { 0 };
            let taken = (0..all).filter(|&f| self.address_taken[f]);
            for f in self.callees(n as usize).chain(taken) {
                if program.functions[f].is_defined && !std::mem::replace(&mut seen[f], true) {
                    reached.push(FuncId(
                        u32::try_from(f).expect("functions have 32-bit numbers"),
                    ));
                }
            }
        }
        reached
    }

    /// Returns which functions the given ones may reach, themselves included.
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

    /// Returns which functions may call themselves, directly or through others (Tarjan, «Depth-first search and linear
    /// graph algorithms», 1972): those in a strongly connected component of several, or with an edge to themselves.
    pub(crate) fn recursive(&self) -> Vec<bool> {
        // One more node stands for «any function whose address is taken».
        let any = self.callees.len();
        let taken: Vec<usize> = (0..any).filter(|&f| self.address_taken[f]).collect();
        let successor = |n: usize, k: usize| match self.callees.get(n) {
            None => taken.get(k).copied(),
            Some(list) => match list.get(k) {
                Some(&f) => Some(f as usize),
                None => (self.indirectly[n] && k == list.len()).then_some(any),
            },
        };
        let mut result = vec![false; any + 1];
        // 0 is unvisited; a component that is finished has the largest number.
        let mut low = vec![0_usize; any + 1];
        let mut found = vec![0_usize; any + 1];
        let mut count = 0;
        let mut open = Vec::new();
        for root in 0..any {
            if found[root] != 0 {
                continue;
            }
            let mut path = vec![(root, 0)];
            count += 1;
            (found[root], low[root]) = (count, count);
            open.push(root);
            while let Some((n, k)) = path.pop() {
                if let Some(to) = successor(n, k) {
                    path.push((n, k + 1));
                    if to == n {
                        result[n] = true;
                    }
                    if found[to] == 0 {
                        count += 1;
                        (found[to], low[to]) = (count, count);
                        open.push(to);
                        path.push((to, 0));
                    } else {
                        low[n] = low[n].min(low[to]);
                    }
                    continue;
                }
                if let Some(&(parent, _)) = path.last() {
                    low[parent] = low[parent].min(low[n]);
                }
                if low[n] == found[n] {
                    let first = open.iter().rposition(|&m| m == n).unwrap_or(0);
                    let component = open.split_off(first);
                    for &m in &component {
                        result[m] |= component.len() > 1;
                        low[m] = usize::MAX;
                    }
                }
            }
        }
        result.truncate(any);
        result
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
