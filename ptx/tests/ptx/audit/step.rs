//! What one machine instruction does to the state.
//!
//! Rule: only what is listed here as a copy, a choice, or a constant keeps a value; whatever else an instruction writes
//! may hold anything. An opcode of which nothing is known writes every register, and the stack.

use super::listing::{Machine, Operand, REGISTERS, Register};
use super::opcode::{is_narrow, width};
use super::stack::{self, Writers};
use super::value::{Atom, State, Value};

/// Where the control block has the base's upper half, and its pointers (`gridmux_ptx::control`), in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) params: i64,
    pub(crate) base_high: i64,
    /// The pointers' places, and how many bytes each points to.
    pub(crate) pointers: [(i64, i64); 2],
}

impl Block {
    /// Returns how many bytes the pointer at that place points to.
    pub(crate) fn record(&self, pointer: i64) -> i64 {
        let found = self.pointers.iter().find(|(at, _)| *at == pointer);
        found.map_or(0, |(_, bytes)| *bytes)
    }
}

/// Byte in constant bank 0 of the stack pointer at a kernel's start, and of the upper half of the local window.
const STACK: i64 = 0x28;
const LOCAL_HIGH: i64 = 0x24;

/// What is known of the cubin and the kernel.
pub(crate) struct Stepper {
    pub(crate) block: Block,
}

impl Stepper {
    /// Applies an instruction that is neither a call nor a jump.
    pub(crate) fn step(&self, state: &mut State, i: &Machine, writers: &Writers) {
        let guard = i.guard.as_deref();
        if matches!(guard, Some("!PT" | "!UPT")) {
            return;
        }
        if i.opcode.starts_with("STL") {
            stack::store(state, i, writers);
        } else if may_write_local(state, i) {
            writers.forget(state);
        }
        match self.results(state, i, guard) {
            Some(writes) => {
                for (register, value) in writes {
                    state.set(register, value, guard);
                }
            }
            None => state.forget_all(),
        }
        if i.opcode.starts_with("R2P") || i.opcode.starts_with("R2UP") {
            state.forget(None);
        }
        written_predicates(i).for_each(|name| state.forget(Some(name)));
    }

    /// Returns the registers that an instruction writes, and what; `None` where it may be any.
    fn results(
        &self,
        state: &State,
        i: &Machine,
        guard: Option<&str>,
    ) -> Option<Vec<(Register, Value)>> {
        let count = width(&i.opcode)?;
        let is_result = |o: &Operand| !matches!(o, Operand::Predicate(_));
        let first = i.operands.iter().position(is_result);
        let Some(at) = first.filter(|_| count > 0) else {
            return Some(Vec::new());
        };
        match &i.operands[at] {
            Operand::Register(to) => {
                let from = &i.operands[at + 1..];
                let mut values = self.values(state, (i, from), guard);
                values.resize(count, Value::ANY);
                Some((*to..).zip(values).collect())
            }
            Operand::Zero => Some(Vec::new()),
            // A barrier register.
            Operand::Other(_) if i.opcode.starts_with("BMOV") => Some(Vec::new()),
            _ => None,
        }
    }

    /// Returns what is known of the results.
    fn values(
        &self,
        state: &State,
        (i, from): (&Machine, &[Operand]),
        guard: Option<&str>,
    ) -> Vec<Value> {
        let get = |n: usize| self.operand(state, from.get(n), guard);
        let words: Vec<&str> = i.opcode.split('.').collect();
        // Predicates that carry or choose.
        let sources: Vec<&Operand> = from
            .iter()
            .filter(|o| !matches!(o, Operand::Predicate(_)))
            .collect();
        match (words[0], words.get(1).copied()) {
            ("MOV" | "UMOV" | "R2UR", _) => vec![get(0)],
            ("IMAD", Some("MOV" | "U32")) if is_zero(from.first()) && is_zero(from.get(1)) => {
                vec![get(2)]
            }
            ("IMAD", Some("IADD")) if matches!(from.get(1), Some(Operand::Literal(1))) => {
                vec![self.sum(state, &[&from[0], &from[2]], guard)]
            }
            ("IADD3" | "UIADD3", second) => {
                let sum = self.sum(state, &sources, guard);
                // A sum behind a pointer's lower half carries into its upper one.
                let carries = second == Some("X");
                let takes = matches!(sum.only(), Some(Atom::PointerHigh { .. }));
                vec![if carries && !takes { Value::ANY } else { sum }]
            }
            ("VIADD", None) => vec![self.sum(state, &sources, guard)],
            ("SEL" | "USEL", _) | ("FSEL", None) => vec![get(0).or(&get(1))],
            ("LDC" | "ULDC", _) if !is_narrow(&i.opcode) => (0..4)
                .map(|n| self.constant(state, from.first(), 4 * n, guard))
                .collect(),
            ("CS2R", _) if is_zero(from.first()) => vec![Value::of(Atom::Literal(0)); 2],
            ("HFMA2", Some("MMA")) if from.iter().all(is_nothing) => {
                vec![Value::of(Atom::Literal(0))]
            }
            ("S2R" | "S2UR", _) => match from.first() {
                Some(Operand::Other(name)) if name == "SR_SWINHI" => {
                    vec![Value::of(Atom::SharedWindow)]
                }
                Some(Operand::Other(name)) if name == "SR_LWINHI" => {
                    vec![Value::of(Atom::LocalWindow)]
                }
                _ => Vec::new(),
            },
            ("LDL", _) => stack::load(state, i),
            _ => Vec::new(),
        }
    }

    fn operand(&self, state: &State, operand: Option<&Operand>, guard: Option<&str>) -> Value {
        match operand {
            Some(Operand::Register(register)) => state.get(*register, guard),
            Some(Operand::Zero) => Value::of(Atom::Literal(0)),
            Some(Operand::Literal(n)) => Value::of(Atom::Literal(*n)),
            Some(Operand::Constant(..)) => self.constant(state, operand, 0, guard),
            _ => Value::ANY,
        }
    }

    /// Returns what a word of the constant banks holds, `more` bytes behind what is named.
    fn constant(
        &self,
        state: &State,
        operand: Option<&Operand>,
        more: i64,
        guard: Option<&str>,
    ) -> Value {
        let Some(Operand::Constant(bank, at, register)) = operand else {
            return Value::ANY;
        };
        let added = match register.map(|r| state.get(r, guard).only()) {
            None => 0,
            Some(Some(Atom::Literal(n))) => n,
            Some(_) => return Value::ANY,
        };
        let at = at + added + more;
        let block = &self.block;
        let pointer = block.pointers.iter().find_map(|&(p, _)| {
            let from = at - block.params - p;
            match from {
                0 => Some(Atom::PointerLow { at: p, by: 0 }),
                4 => Some(Atom::PointerHigh { at: p }),
                _ => None,
            }
        });
        match bank {
            0 if at == STACK => Value::of(Atom::Stack(0)),
            0 if at == LOCAL_HIGH => Value::of(Atom::LocalWindow),
            0 if at == block.params + block.base_high => Value::of(Atom::Base),
            0 => pointer.map_or(Value::ANY, Value::of),
            4 => Value::of(Atom::Variable {
                at: at & !7,
                high: at & 4 != 0,
            }),
            _ => Value::ANY,
        }
    }

    /// Returns a sum: of zeros and one value, or of the stack pointer and a number.
    fn sum(&self, state: &State, of: &[&Operand], guard: Option<&str>) -> Value {
        let mut values: Vec<Value> = of
            .iter()
            .map(|o| self.operand(state, Some(o), guard))
            .collect();
        values.retain(|v| v.only() != Some(Atom::Literal(0)));
        match values.as_slice() {
            [] => Value::of(Atom::Literal(0)),
            [one] => one.clone(),
            [a, b] => match (a.only(), b.only()) {
                (Some(Atom::Stack(n)), Some(Atom::Literal(k)))
                | (Some(Atom::Literal(k)), Some(Atom::Stack(n))) => {
                    Value::of(Atom::Stack(n + signed(k)))
                }
                (Some(Atom::PointerLow { at, by }), Some(Atom::Literal(k)))
                    if k >= 0 && by + k < self.block.record(at) =>
                {
                    Value::of(Atom::PointerLow { at, by: by + k })
                }
                _ => Value::ANY,
            },
            _ => Value::ANY,
        }
    }
}

/// Returns whether an instruction may write local memory by a generic address.
fn may_write_local(state: &State, i: &Machine) -> bool {
    let word = i.opcode.split('.').next().unwrap_or_default();
    let is_elsewhere = |atom: &Atom| {
        matches!(
            atom,
            Atom::Base | Atom::PointerHigh { .. } | Atom::Variable { .. }
        )
    };
    let is_confined = |o: &Operand| match o {
        Operand::Address(address) => match address.parts.as_slice() {
            [(register, _)] if register + 1 < REGISTERS => {
                let high = state.get(register + 1, i.guard.as_deref());
                high.atoms()
                    .is_some_and(|atoms| atoms.iter().all(is_elsewhere))
            }
            _ => false,
        },
        _ => true,
    };
    matches!(word, "ST" | "ATOM" | "RED") && !i.operands.iter().all(is_confined)
}

/// Returns the predicates that an instruction may write: the first two operands, or those behind a register that it
/// writes.
fn written_predicates(i: &Machine) -> impl Iterator<Item = &str> {
    let is_written = |o: &Operand| matches!(o, Operand::Predicate(name) if !name.starts_with('!'));
    let skipped = usize::from(!i.operands.first().is_some_and(is_written));
    let places = i
        .operands
        .iter()
        .skip(skipped)
        .take(2)
        .take_while(move |o| is_written(o));
    places.filter_map(|o| match o {
        Operand::Predicate(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Returns a literal of 32 bits as a number with a sign.
fn signed(n: i64) -> i64 {
    match n {
        0x8000_0000..=0xffff_ffff => n - (1 << 32),
        _ => n,
    }
}

fn is_zero(operand: Option<&Operand>) -> bool {
    matches!(operand, Some(Operand::Zero | Operand::Literal(0)))
}

/// Returns whether an operand is zero or its negative.
fn is_nothing(operand: &Operand) -> bool {
    let is = |text: &str| matches!(text.trim_start_matches('-'), "RZ" | "0");
    is_zero(Some(operand)) || matches!(operand, Operand::Other(text) if is(text))
}
