//! The words of a function's stack: what is written to them and read, and what a store elsewhere leaves of them.
//!
//! Assumed: a store to local memory at an address that is computed stays inside the function's variables (the fence
//! holds it there, and it does not show in data flow), and a word that one instruction of the function writes, and no
//! other, is a register that the compiler keeps, not a variable.

use super::listing::{Machine, Operand};
use super::opcode::{bytes, is_narrow};
use super::value::{Atom, State, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a word.
const WORD: i64 = 4;

/// The instructions of a function that write each word of its stack, by their bytes in the section.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Writers(BTreeMap<i64, BTreeSet<u64>>);

impl Writers {
    /// Adds an instruction, if it writes to the stack at a known place.
    pub(super) fn add(&mut self, state: &State, i: &Machine) {
        if !i.opcode.starts_with("STL") {
            return;
        }
        for at in place(state, i).into_iter().flat_map(|at| words(i, at)) {
            self.0.entry(at).or_default().insert(i.at);
        }
    }

    /// Returns whether one instruction alone writes to a word.
    fn is_once(&self, at: i64) -> bool {
        let near = self.0.range(at - WORD + 1..at + WORD);
        let all: BTreeSet<u64> = near.flat_map(|(_, by)| by).copied().collect();
        all.len() == 1
    }

    /// Forgets what may be written elsewhere than by an instruction at a known place.
    pub(super) fn forget(&self, state: &mut State) {
        state.stack.retain(|&at, _| self.is_once(at));
    }

    /// Forgets what a function that is called may write.
    pub(super) fn forget_at_call(&self, state: &mut State, guard: Option<&str>) {
        self.forget(state);
        match state.get(1, guard).only() {
            // The frames of those that are called lie below.
            Some(Atom::Stack(end)) => state.stack.retain(|&at, _| at >= end),
            _ => state.stack.clear(),
        }
    }
}

/// Returns the places of the words that an access touches.
fn words(i: &Machine, at: i64) -> impl Iterator<Item = i64> {
    (0..bytes(&i.opcode)).step_by(4).map(move |n| at + n)
}

/// Returns where on the stack an instruction reads or writes.
fn place(state: &State, i: &Machine) -> Option<i64> {
    let address = i.operands.iter().find_map(|o| match o {
        Operand::Address(address) => Some(address),
        _ => None,
    })?;
    match address.parts.as_slice() {
        [(register, _)] if address.is_known => {
            match state.get(*register, i.guard.as_deref()).only()? {
                Atom::Stack(n) => Some(n + address.offset),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Applies a store to the stack.
pub(super) fn store(state: &mut State, i: &Machine, writers: &Writers) {
    let guard = i.guard.as_deref();
    let Some(first) = place(state, i) else {
        writers.forget(state);
        return;
    };
    let is_whole = !is_narrow(&i.opcode);
    for (n, at) in words(i, first).enumerate() {
        let value = match i.operands.last() {
            Some(Operand::Register(r)) if is_whole => state.get(r + n, guard),
            Some(Operand::Zero) if is_whole => Value::of(Atom::Literal(0)),
            _ => Value::ANY,
        };
        let old = state.stack.get(&at).cloned().unwrap_or(Value::ANY);
        let value = match guard {
            Some(_) => old.or(&value),
            None => value,
        };
        // A word that overlaps others.
        let is_apart = |other: i64| (other - at).abs() >= WORD || other == at;
        state.stack.retain(|other, _| is_apart(*other));
        state.stack.insert(at, value);
    }
}

/// Returns what a load from the stack reads.
pub(super) fn load(state: &State, i: &Machine) -> Vec<Value> {
    match place(state, i) {
        Some(at) if !is_narrow(&i.opcode) => words(i, at)
            .map(|at| state.stack.get(&at).cloned().unwrap_or(Value::ANY))
            .collect(),
        _ => Vec::new(),
    }
}
