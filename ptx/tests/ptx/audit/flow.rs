//! The data flow of a kernel and the functions that it calls, and what follows for each address.
//!
//! Each function is looked at with what its callers hold at its start standing for itself; what that is comes from the
//! calls afterwards, all of a function's together. Assumed: a call returns behind itself, and a store to the stack at
//! an address that is computed stays inside the variables there (the fence bounds both, and neither shows in data
//! flow).

use super::listing::{Address, Listing, Machine, Operand, REGISTERS, Register, Section};
use super::step::{Block, Stepper};
use super::value::{Atom, RECORD, State, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes that an immediate adds to a fenced base (`gridmux_ptx::forms::fence::GUARD_BYTES`).
const GUARD: i64 = 16 << 20;
/// Rounds in which what functions leave behind, and find, comes to rest.
const MOST_ROUNDS: usize = 64;

/// An access that could not be proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unproved {
    pub(crate) kernel: String,
    /// The instruction and its byte in the section.
    pub(crate) at: u64,
    pub(crate) text: String,
    pub(crate) reason: String,
}

/// What became of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// Accesses by 64-bit addresses.
    pub(crate) accesses: usize,
    pub(crate) unproved: Vec<Unproved>,
}

/// One function of a section.
#[derive(Default)]
struct Function {
    start: usize,
    /// States in front of its instructions, by index.
    states: BTreeMap<usize, State>,
    /// What it leaves behind in each register; `None` while no way to its end is known.
    exit: Option<Vec<Value>>,
    /// What its callers hold at its start.
    entry: Vec<Value>,
}

struct Flow<'a> {
    listing: &'a Listing,
    section: &'a Section,
    stepper: Stepper,
    functions: BTreeMap<String, Function>,
    /// Instructions behind labels.
    labels: BTreeSet<usize>,
    /// Labels behind which each barrier register is done.
    joins: BTreeMap<String, BTreeSet<usize>>,
}

/// Proves what it can of a kernel; `None` when there is none of that name.
pub(crate) fn prove(listing: &Listing, kernel: &str, block: Block) -> Option<Proof> {
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
    flow.run();
    Some(flow.judge(kernel))
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
    fn run(&mut self) {
        let names: Vec<String> = self.functions.keys().cloned().collect();
        for _ in 0..MOST_ROUNDS {
            let mut changed = false;
            for name in &names {
                changed |= self.function(name);
            }
            if !changed {
                break;
            }
        }
        for _ in 0..MOST_ROUNDS {
            if !names
                .iter()
                .fold(false, |changed, name| changed | self.hand_over(name))
            {
                return;
            }
        }
    }

    /// Works a function out anew; returns whether what it leaves behind has changed.
    fn function(&mut self, name: &str) -> bool {
        let start = self.functions[name].start;
        let mut states = BTreeMap::from([(start, State::entry())]);
        let mut exit: Option<Vec<Value>> = None;
        let mut queue = BTreeSet::from([start]);
        while let Some(first) = queue.pop_first() {
            let mut at = first;
            let mut state = states[&first].clone();
            while let Some(i) = self.section.code.get(at) {
                let (next, falls) = self.after(&mut state, at, i);
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
        let changed = function.exit != exit;
        function.exit = exit;
        changed
    }

    /// Applies an instruction; returns where control goes beside the next one, and whether it goes there.
    fn after(&self, state: &mut State, at: usize, i: &Machine) -> (Vec<usize>, bool) {
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
                let returns = self.call(state, i);
                (Vec::new(), returns || i.guard.is_some())
            }
            "EXIT" | "RET" | "KILL" => (Vec::new(), i.guard.is_some()),
            "BRA" | "JMP" => (labels(), conditional),
            "BRX" | "JMX" => {
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
                self.stepper.step(state, i);
                (Vec::new(), true)
            }
        }
    }

    /// Returns the functions that a call may mean, all of them where a register says.
    fn callees(&self, i: &Machine) -> Vec<&str> {
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
    fn call(&self, state: &mut State, i: &Machine) -> bool {
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
            for (all, value) in left.iter_mut().zip(exit) {
                *all = all.or(&value.with(|r| before.get(r, guard)));
            }
        }
        for (register, value) in left.into_iter().enumerate() {
            let is_stack = register == 1 && value.only() == Some(Atom::Stack(0));
            let value = if is_stack {
                before.get(1, guard)
            } else {
                value
            };
            state.set(register, value, guard);
        }
        state.forget(None);
        returns
    }

    /// Gives what a function holds at its calls to those that it calls; returns whether anything is new there.
    fn hand_over(&mut self, name: &str) -> bool {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let function = &self.functions[name];
        self.walk(function, |i, state| {
            if i.opcode.starts_with("CALL") && runs(i) {
                for callee in self.callees(i) {
                    let none = || vec![Value::NONE; REGISTERS];
                    let all = found.entry(callee.to_owned()).or_insert_with(none);
                    for (register, all) in all.iter_mut().enumerate() {
                        let held = state.get(register, i.guard.as_deref());
                        *all = all.or(&held.with(|r| function.entry[r].clone()));
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
    fn walk(&self, function: &Function, mut each: impl FnMut(&Machine, &State)) {
        for (&first, state) in &function.states {
            let mut state = state.clone();
            let mut at = first;
            while let Some(i) = self.section.code.get(at) {
                each(i, &state);
                let (_, falls) = self.after(&mut state, at, i);
                at += 1;
                if !falls || function.states.contains_key(&at) {
                    break;
                }
            }
        }
    }

    fn judge(&self, kernel: &str) -> Proof {
        let mut proof = Proof::default();
        let mut seen = BTreeSet::new();
        for function in self.functions.values() {
            self.walk(function, |i, state| {
                let reached = function.entry.iter().any(|v| *v != Value::NONE);
                if !runs(i) || !reached {
                    return;
                }
                let fail = |reason: String| Unproved {
                    kernel: kernel.to_owned(),
                    at: i.at,
                    text: i.text.clone(),
                    reason,
                };
                if goes_by_object(i) {
                    proof.accesses += usize::from(seen.insert(i.at));
                    let reason = "it reaches memory through an object or a descriptor";
                    proof.unproved.push(fail(reason.to_owned()));
                    return;
                }
                for address in addresses(i) {
                    proof.accesses += usize::from(seen.insert(i.at));
                    if let Err(reason) = self.address(function, state, (i, address)) {
                        proof.unproved.push(fail(reason));
                    }
                }
            });
        }
        proof.unproved.sort_by_key(|u| u.at);
        proof
    }

    /// Proves where the upper half of an address comes from.
    fn address(
        &self,
        function: &Function,
        state: &State,
        (i, address): (&Machine, &Address),
    ) -> Result<(), String> {
        let [(register, _)] = address.parts.as_slice() else {
            return Err(format!(
                "its address is a sum of {} registers",
                address.parts.len()
            ));
        };
        if !i.opcode.split('.').any(|word| word == "E") {
            return Err("its address does not have 64 bits".to_owned());
        }
        if !address.is_known || address.offset.abs() >= GUARD {
            return Err("its address is not one that is known here".to_owned());
        }
        let held = |register: Register| {
            let value = state.get(register, i.guard.as_deref());
            value.with(|r| function.entry[r].clone())
        };
        let (low, high) = (held(*register), held(register + 1));
        let Some(atoms) = high.atoms().filter(|atoms| !atoms.is_empty()) else {
            return Err(format!(
                "the upper half of its address, {}, may be anything",
                name(register + 1)
            ));
        };
        for atom in atoms {
            match atom {
                Atom::Base | Atom::SharedWindow | Atom::LocalWindow => {}
                Atom::PointerHigh { at } if is_in_record(&low, *at, address.offset) => {}
                Atom::Variable { at, high: true }
                    if low.only()
                        == Some(Atom::Variable {
                            at: *at,
                            high: false,
                        })
                        && self.is_inside(*at, address.offset) => {}
                other => {
                    let register = name(register + 1);
                    return Err(format!(
                        "the upper half of its address, {register}, may be {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a variable whose address stands at that place has the byte.
    fn is_inside(&self, at: i64, byte: i64) -> bool {
        let name = self.listing.addresses.get(&at);
        let size = name.and_then(|name| self.listing.sizes.get(name));
        size.is_some_and(|&size| u64::try_from(byte).is_ok_and(|byte| byte < size))
    }
}

/// Returns whether the lower half of an address is that of the control block's pointer, and the byte one of what it
/// points to.
fn is_in_record(low: &Value, pointer: i64, offset: i64) -> bool {
    match low.only() {
        Some(Atom::PointerLow { at, by }) => at == pointer && (0..RECORD).contains(&(by + offset)),
        _ => false,
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

/// Returns whether an instruction is ever executed.
fn runs(i: &Machine) -> bool {
    !matches!(i.guard.as_deref(), Some("!PT" | "!UPT"))
}

fn name(register: Register) -> String {
    match register.checked_sub(255) {
        Some(n) => format!("UR{n}"),
        None => format!("R{register}"),
    }
}

/// Returns whether an instruction reaches memory through a texture, a surface, or a descriptor.
fn goes_by_object(i: &Machine) -> bool {
    let objects = [
        "TEX", "TLD", "TXD", "TMML", "SULD", "SUST", "SURED", "SUATOM", "UTMA", "UBLK",
    ];
    objects.iter().any(|start| i.opcode.starts_with(start))
}

/// Returns the addresses of global and generic memory of an instruction.
fn addresses(i: &Machine) -> Vec<&Address> {
    let word = i.opcode.split('.').next().unwrap_or_default();
    // Shared and local memory, instructions that ask about an address, and waits at barriers of shared memory.
    let is_other = matches!(
        word,
        "LDS" | "STS" | "ATOMS" | "LDSM" | "STSM" | "LDL" | "STL" | "QSPC" | "SYNCS" | "LDC"
    );
    let all = i.operands.iter().filter_map(|o| match o {
        Operand::Address(address) => Some(address),
        _ => None,
    });
    // An asynchronous copy names shared memory first.
    let first = usize::from(word == "LDGSTS");
    all.skip(first).filter(|_| !is_other).collect()
}
