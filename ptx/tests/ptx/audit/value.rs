//! What a register may hold, and what a function's registers and stack hold at one place.

use super::listing::{REGISTERS, Register};
use std::collections::BTreeMap;

/// Something that a 32-bit register may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    /// The upper half of the fence's base, from its place in the control block.
    Base,
    /// The upper half of the block's shared window, or of the thread's local one, from the hardware.
    SharedWindow,
    LocalWindow,
    /// The halves of the control block's pointers to the counters and to the stamps, by its byte in the block.
    PointerHigh {
        at: i64,
    },
    /// The lower half, with so much added.
    PointerLow {
        at: i64,
        by: i64,
    },
    /// The halves of the address of a variable, by its place in constant bank 4.
    Variable {
        at: i64,
        high: bool,
    },
    Literal(i64),
    /// The stack pointer, so far from where it was at the function's start.
    Stack(i64),
    /// What a register held at the function's start.
    Entry(Register),
}

/// What a register may hold: any of some atoms, or anything. None of any is what no path gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value(Option<Vec<Atom>>);

/// Most atoms of a value.
const MOST: usize = 4;

impl Value {
    pub(crate) const NONE: Self = Self(Some(Vec::new()));
    pub(crate) const ANY: Self = Self(None);

    pub(crate) fn of(atom: Atom) -> Self {
        Self(Some(vec![atom]))
    }

    /// Returns the atoms; `None` for anything.
    pub(crate) fn atoms(&self) -> Option<&[Atom]> {
        self.0.as_deref()
    }

    /// Returns the atom that it is for certain.
    pub(crate) fn only(&self) -> Option<Atom> {
        match self.atoms() {
            Some([atom]) => Some(*atom),
            _ => None,
        }
    }

    /// Returns what it is when it may also be another.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let (Some(a), Some(b)) = (&self.0, &other.0) else {
            return Self::ANY;
        };
        let mut all = a.clone();
        all.extend(b);
        all.sort_unstable();
        all.dedup();
        Self(Some(all).filter(|all| all.len() <= MOST))
    }

    /// Returns what it is for another function, whose stack begins elsewhere.
    pub(crate) fn outside(&self) -> Self {
        let is_stack = |atom: &Atom| matches!(atom, Atom::Stack(_));
        match self.atoms() {
            Some(atoms) if !atoms.iter().any(is_stack) => self.clone(),
            _ => Self::ANY,
        }
    }

    /// Replaces what registers held at a function's start.
    pub(crate) fn with(&self, entry: impl Fn(Register) -> Self) -> Self {
        let Some(atoms) = &self.0 else {
            return Self::ANY;
        };
        let one = |atom: &Atom| match atom {
            Atom::Entry(register) => entry(*register),
            _ => Self::of(*atom),
        };
        atoms.iter().map(one).fold(Self::NONE, |a, b| a.or(&b))
    }
}

/// A register's value, and what it is where a predicate has the value under which it was written last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Value,
    pub(crate) under: Option<(String, Value)>,
}

/// What is held at one place of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registers: Vec<Held>,
    /// Words of the stack that were written at known places.
    pub(crate) stack: BTreeMap<i64, Value>,
}

impl State {
    /// Returns what a function's start holds.
    pub(crate) fn entry() -> Self {
        let one = |register: Register| Held {
            value: match register {
                1 => Value::of(Atom::Stack(0)),
                _ => Value::of(Atom::Entry(register)),
            },
            under: None,
        };
        Self {
            registers: (0..REGISTERS).map(one).collect(),
            stack: BTreeMap::new(),
        }
    }

    /// Adds what another way to the same place holds; returns whether that changes anything.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (a, b) in self.registers.iter_mut().zip(&other.registers) {
            if a == b {
                continue;
            }
            let joined = Held {
                value: a.value.or(&b.value),
                under: match (&a.under, &b.under) {
                    (Some((p, x)), Some((q, y))) if p == q => Some((p.clone(), x.or(y))),
                    _ => None,
                },
            };
            changed |= *a != joined;
            *a = joined;
        }
        let before = self.stack.len();
        self.stack.retain(|at, _| other.stack.contains_key(at));
        changed |= before != self.stack.len();
        for (at, value) in &mut self.stack {
            let joined = value.or(&other.stack[at]);
            changed |= joined != *value;
            *value = joined;
        }
        changed
    }

    /// Returns what a register holds for an instruction under that guard.
    pub(crate) fn get(&self, register: Register, guard: Option<&str>) -> Value {
        let held = &self.registers[register];
        match (&held.under, guard) {
            (Some((p, value)), Some(guard)) if p == guard => value.clone(),
            _ => held.value.clone(),
        }
    }

    /// Writes a register under a guard.
    pub(crate) fn set(&mut self, register: Register, value: Value, guard: Option<&str>) {
        let Some(held) = self.registers.get_mut(register) else {
            return;
        };
        let Some(guard) = guard else {
            *held = Held { value, under: None };
            return;
        };
        let all = match &held.under {
            Some((p, other)) if is_opposite(p, guard) => other.or(&value),
            Some((p, _)) if p == guard => held.value.or(&value),
            _ => held.value.or(&value),
        };
        *held = Held {
            value: all,
            under: Some((guard.to_owned(), value)),
        };
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&mut self) {
        self.registers.fill(Held {
            value: Value::ANY,
            under: None,
        });
        self.stack.clear();
    }

    /// Forgets what holds under a predicate, which is written; under any for `None`.
    pub(crate) fn forget(&mut self, predicate: Option<&str>) {
        for held in &mut self.registers {
            let is_it = |p: &str| predicate.is_none_or(|name| p.trim_start_matches('!') == name);
            if held.under.as_ref().is_some_and(|(p, _)| is_it(p)) {
                held.under = None;
            }
        }
    }
}

fn is_opposite(a: &str, b: &str) -> bool {
    a.strip_prefix('!').unwrap_or(a) == b.strip_prefix('!').unwrap_or(b) && a != b
}
