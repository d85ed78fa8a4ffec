//! The data flow of a kernel and the functions that it calls, and what follows for each address.
//!
//! Each function is looked at with what its callers hold at its start standing for itself; what that is comes from the
//! calls afterwards, all of a function's together. Assumed: a call returns behind itself (the fence sees to it, and it
//! does not show in data flow).

use super::judge::{Proof, runs};
use super::listing::{Listing, Machine, Operand, REGISTERS, Register, Section};
use super::stack::Writers;
use super::step::{Block, Stepper};
use super::value::{Atom, State, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds in which what functions leave behind, and find, comes to rest.
pub(super) const MOST_ROUNDS: usize = 64;

/// One function of a section.
#[derive(Default)]
pub(super) struct Function {
    start: usize,
    /// States in front of its instructions, by index.
    states: BTreeMap<usize, State>,
    /// What it leaves behind in each register; `None` while no way to its end is known.
    exit: Option<Vec<Value>>,
    /// What its callers hold at its start.
    pub(super) entry: Vec<Value>,
    writers: Writers,
}

/// A kernel that is worked out.
pub(super) struct Flow<'a> {
    pub(super) listing: &'a Listing,
    pub(super) section: &'a Section,
    pub(super) stepper: Stepper,
    pub(super) functions: BTreeMap<String, Function>,
    /// Instructions behind labels.
    labels: BTreeSet<usize>,
    /// Labels behind which each barrier register is done.
    joins: BTreeMap<String, BTreeSet<usize>>,
}

/// Proves what it can of a kernel in so many rounds; `None` when there is none of that name.
pub(super) fn prove(
    listing: &Listing,
    kernel: &str,
    (block, rounds): (Block, usize),
) -> Option<Proof> {
    let section = listing.sections.iter().find(|s| s.name == kernel)?;
    let mut functions = BTreeMap::new();
    for name in &section.functions {
        if let Some(&start) = section.labels.get(name) {
            let entry = vec![
                if name == kernel {
                    Value::ANY
                } else {
                    Value::NONE
                };
                REGISTERS
            ];
            functions.insert(
                name.clone(),
                Function {
                    start,
                    entry,
                    ..Function::default()
                },
            );
        }
    }
    let mut flow = Flow {
        listing,
        section,
        stepper: Stepper { block },
        functions,
        labels: section.labels.values().copied().collect(),
        joins: joins(section),
    };
    let came_to_rest = flow.run(rounds);
    Some(flow.judge(came_to_rest))
}

/// Returns where each barrier register's waits may go on.
fn joins(section: &Section) -> BTreeMap<String, BTreeSet<usize>> {
    let mut joins: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for i in section.code.iter().filter(|i| i.opcode.starts_with("BSSY")) {
        let register = i.operands.iter().find_map(|o| match o {
            Operand::Other(name) => Some(name.clone()),
            _ => None,
        });
        let label = i.operands.iter().find_map(|o| match o {
            Operand::Label(name) => section.labels.get(name),
            _ => None,
        });
        if let (Some(register), Some(&at)) = (register, label) {
            joins.entry(register).or_default().insert(at);
        }
    }
    joins
}

impl Flow<'_> {
    /// Works out what each function holds; returns whether that came to rest within so many rounds.
    fn run(&mut self, rounds: usize) -> bool {
        let names: Vec<String> = self.functions.keys().cloned().collect();
        let mut until_rest = |round: fn(&mut Self, &str) -> bool| {
            (0..rounds).any(|_| {
                let mut changed = false;
                for name in &names {
                    changed |= round(self, name);
                }
                !changed
            })
        };
        until_rest(Self::function) && until_rest(Self::hand_over)
    }

    /// Works a function out anew; returns whether what it leaves behind has changed.
    fn function(&mut self, name: &str) -> bool {
        let known = &self.functions[name];
        let start = known.start;
        let mut writers = known.writers.clone();
        let mut states = BTreeMap::from([(start, State::entry())]);
        let mut exit: Option<Vec<Value>> = None;
        let mut queue = BTreeSet::from([start]);
        while let Some(first) = queue.pop_first() {
            let mut at = first;
            let mut state = states[&first].clone();
            while let Some(i) = self.section.code.get(at) {
                if runs(i) {
                    writers.add(&state, i);
                }
                let (next, falls) = self.after(known, &mut state, (at, i));
                if i.opcode.starts_with("RET") && runs(i) {
                    let left = |r: Register| state.registers[r].value.clone();
                    let left: Vec<Value> = (0..REGISTERS).map(left).collect();
                    exit = Some(match exit {
                        None => left,
                        Some(old) => old.iter().zip(&left).map(|(a, b)| a.or(b)).collect(),
                    });
                }
                for to in next {
                    if reach(&mut states, to, &state) {
                        queue.insert(to);
                    }
                }
                if !falls {
                    break;
                }
                at += 1;
                // What stands behind a label, or is looked at, is reached from several places.
                if states.contains_key(&at) || self.labels.contains(&at) {
                    if reach(&mut states, at, &state) {
                        queue.insert(at);
                    }
                    break;
                }
            }
        }
        let function = self.functions.get_mut(name).expect("it is one of them");
        function.states = states;
        let changed = function.exit != exit || function.writers != writers;
        function.exit = exit;
        function.writers = writers;
        changed
    }

    /// Applies an instruction; returns where control goes beside the next one, and whether it goes there.
    fn after(
        &self,
        function: &Function,
        state: &mut State,
        (at, i): (usize, &Machine),
    ) -> (Vec<usize>, bool) {
        let word = i.opcode.split('.').next().unwrap_or_default();
        let label = |o: &Operand| match o {
            Operand::Label(name) => self.section.labels.get(name).copied(),
            _ => None,
        };
        let labels = || -> Vec<usize> { i.operands.iter().filter_map(label).collect() };
        let conditional = i.guard.is_some() || i.operands.len() > 1;
        match word {
            _ if !runs(i) => (Vec::new(), true),
            "CALL" => {
                let returns = self.call(function, state, i);
                (Vec::new(), returns || i.guard.is_some())
            }
            "EXIT" | "RET" | "KILL" => (Vec::new(), i.guard.is_some()),
            "BRA" | "JMP" => (labels(), conditional),
            "BRX" | "BRXU" | "JMX" | "JMXU" => {
                let to = i.targets.iter().filter_map(|t| self.section.labels.get(t));
                (to.copied().collect(), i.guard.is_some())
            }
            "WARPSYNC" => (labels(), true),
            "BSYNC" => {
                let name = i.operands.iter().find_map(|o| match o {
                    Operand::Other(name) => Some(name.as_str()),
                    _ => None,
                });
                let joins = name.and_then(|name| self.joins.get(name));
                // It mostly stands in front of the label that it goes to.
                let all = joins.filter(|all| !all.contains(&(at + 1)));
                (all.into_iter().flatten().copied().collect(), true)
            }
            _ => {
                self.stepper.step(state, i, &function.writers);
                (Vec::new(), true)
            }
        }
    }

    /// Returns the functions that a call may mean, all of them where a register says.
    pub(super) fn callees(&self, i: &Machine) -> Vec<&str> {
        let by_register = i.operands.iter().any(|o| matches!(o, Operand::Register(_)));
        let named = i.operands.iter().find_map(|o| match o {
            Operand::Label(name) => self.functions.get_key_value(name),
            _ => None,
        });
        match named {
            Some((name, _)) if !by_register => vec![name.as_str()],
            _ if by_register => {
                let others = self
                    .functions
                    .keys()
                    .filter(|name| **name != self.section.name);
                others.map(String::as_str).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Applies a call; returns whether it comes back as far as is known.
    fn call(&self, function: &Function, state: &mut State, i: &Machine) -> bool {
        let guard = i.guard.as_deref();
        let before = state.clone();
        let callees = self.callees(i);
        let mut returns = callees.is_empty();
        let mut left = vec![
            if callees.is_empty() {
                Value::ANY
            } else {
                Value::NONE
            };
            REGISTERS
        ];
        for name in callees {
            let Some(exit) = &self.functions[name].exit else {
                continue;
            };
            returns = true;
            for (register, (all, value)) in left.iter_mut().zip(exit).enumerate() {
                let is_kept = register == 1 && value.only() == Some(Atom::Stack(0));
                *all = all.or(&match is_kept {
                    true => before.get(1, guard),
                    false => value.outside().with(|r| before.get(r, guard)),
                });
            }
        }
        function.writers.forget_at_call(state, guard);
        for (register, value) in left.into_iter().enumerate() {
            state.set(register, value, guard);
        }
        state.forget(None);
        returns
    }

    /// Gives what a function holds at its calls to those that it calls; returns whether anything is new there.
    fn hand_over(&mut self, name: &str) -> bool {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let function = &self.functions[name];
        self.walk(function, |_, i, state| {
            if i.opcode.starts_with("CALL") && runs(i) {
                for callee in self.callees(i) {
                    let none = || vec![Value::NONE; REGISTERS];
                    let all = found.entry(callee.to_owned()).or_insert_with(none);
                    for (register, all) in all.iter_mut().enumerate() {
                        let held = state.get(register, i.guard.as_deref());
                        *all = all.or(&held.outside().with(|r| function.entry[r].clone()));
                    }
                }
            }
        });
        let mut changed = false;
        for (callee, values) in found {
            let entry = &mut self
                .functions
                .get_mut(&callee)
                .expect("it is one of them")
                .entry;
            for (old, value) in entry.iter_mut().zip(values) {
                let joined = old.or(&value);
                changed |= joined != *old;
                *old = joined;
            }
        }
        changed
    }

    /// Goes through a function's instructions with the state in front of each.
    pub(super) fn walk(&self, function: &Function, mut each: impl FnMut(usize, &Machine, &State)) {
        for (&first, state) in &function.states {
            let mut state = state.clone();
            let mut at = first;
            while let Some(i) = self.section.code.get(at) {
                each(at, i, &state);
                let (_, falls) = self.after(function, &mut state, (at, i));
                at += 1;
                if !falls || function.states.contains_key(&at) {
                    break;
                }
            }
        }
    }
}

/// Adds a state in front of an instruction; returns whether it has to be looked at again.
fn reach(states: &mut BTreeMap<usize, State>, at: usize, state: &State) -> bool {
    match states.get_mut(&at) {
        Some(known) => known.join(state),
        None => {
            states.insert(at, state.clone());
            true
        }
    }
}
