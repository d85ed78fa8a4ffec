//! What one machine instruction does to the state.
//!
//! Rule: only what is listed here as a copy, a choice, or a constant keeps a value; whatever else an instruction writes
//! may hold anything. An opcode of which nothing is known writes the eight registers from its first one on.

use super::listing::{Machine, Operand, Register};
use super::value::{Atom, RECORD, State, Value};

/// Where the control block has the base's upper half, and its pointers (`gridmux_ptx::control`), in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) params: i64,
    pub(crate) base_high: i64,
    pub(crate) pointers: [i64; 2],
}

/// Byte in constant bank 0 of the stack pointer at a kernel's start, and of the upper half of the local window.
const STACK: i64 = 0x28;
const LOCAL_HIGH: i64 = 0x24;

/// Opcodes whose first operand, a register, is read: they write none.
const WRITE_NOTHING: [&str; 24] = [
    "BAR",
    "BMOV",
    "BPT",
    "BRA",
    "BREAK",
    "BRX",
    "BSSY",
    "BSYNC",
    "CALL",
    "CCTL",
    "DEPBAR",
    "EXIT",
    "JMP",
    "JMX",
    "LEPC",
    "MEMBAR",
    "NANOSLEEP",
    "NOP",
    "RED",
    "REDG",
    "RET",
    "WARPSYNC",
    "YIELD",
    "ENDCOLLECTIVE",
];
/// Opcodes that write one register, whatever their modifiers.
const ONE: [&str; 57] = [
    "BREV",
    "FADD",
    "FFMA",
    "FLO",
    "FMNMX",
    "FMUL",
    "FSEL",
    "FSET",
    "FSWZADD",
    "HADD2",
    "HFMA2",
    "HMNMX2",
    "HMUL2",
    "HSET2",
    "I2FP",
    "IABS",
    "IADD3",
    "IDP",
    "IMNMX",
    "LEA",
    "LOP3",
    "MATCH",
    "MOV",
    "MOVM",
    "MUFU",
    "POPC",
    "PRMT",
    "QSPC",
    "R2UR",
    "REDUX",
    "S2R",
    "S2UR",
    "SEL",
    "SGXT",
    "SHF",
    "SHFL",
    "VABSDIFF",
    "VABSDIFF4",
    "VIADD",
    "VIADDMNMX",
    "VIMNMX",
    "VIMNMX3",
    "VOTE",
    "VOTEU",
    "UBMSK",
    "UFLO",
    "UIADD3",
    "ULEA",
    "ULOP3",
    "UMOV",
    "UPOPC",
    "UPRMT",
    "USEL",
    "USGXT",
    "USHF",
    "B2R",
    "P2R",
];
/// Opcodes that write as many as their modifiers say.
const SIZED: [&str; 21] = [
    "ATOM", "ATOMG", "ATOMS", "CS2R", "DADD", "DFMA", "DMNMX", "DMUL", "F2F", "F2FP", "F2I",
    "FRND", "I2F", "IMAD", "LD", "LDC", "LDG", "LDL", "LDS", "ULDC", "UIMAD",
];

/// Returns how many registers an instruction writes from its first one on.
pub(crate) fn width(opcode: &str) -> usize {
    let words: Vec<&str> = opcode.split('.').collect();
    let name = words[0];
    let has = |word: &str| words[1..].contains(&word);
    // Comparisons write predicates alone.
    let compares = name.ends_with("SETP") || matches!(name, "FCHK" | "HSETP2");
    if compares || WRITE_NOTHING.contains(&name) || name.starts_with("ST") {
        return 0;
    }
    if ONE.contains(&name) || name == "HFMA2" {
        return 1;
    }
    match name {
        "IMAD" | "UIMAD" => 1 + usize::from(has("WIDE")),
        "DADD" | "DFMA" | "DMUL" | "DMNMX" => 2,
        "CS2R" => 2 - usize::from(has("32")),
        "F2F" | "F2I" | "I2F" | "FRND" | "F2FP" => {
            1 + usize::from(words[1..].iter().any(|w| w.ends_with("64")))
        }
        "HMMA" | "IMMA" | "BMMA" | "DMMA" => 4,
        "LDSM" => words.last().and_then(|w| w.parse().ok()).unwrap_or(8),
        _ if SIZED.contains(&name) => match (has("128"), has("64"), has("256")) {
            (true, ..) => 4,
            (_, true, _) => 2,
            (_, _, true) => 8,
            _ => 1,
        },
        _ => 8,
    }
}

/// What is known of the cubin and the kernel.
pub(crate) struct Stepper {
    pub(crate) block: Block,
}

impl Stepper {
    /// Applies an instruction that is neither a call nor a jump.
    pub(crate) fn step(&self, state: &mut State, i: &Machine) {
        let guard = i.guard.as_deref();
        if matches!(guard, Some("!PT" | "!UPT")) {
            return;
        }
        if i.opcode.starts_with("STL") {
            self.store(state, i, guard);
        }
        let writes = self.results(state, i, guard);
        for (register, value) in writes {
            state.set(register, value, guard);
        }
        if i.opcode.starts_with("R2P") || i.opcode.starts_with("R2UP") {
            state.forget(None);
        }
        written_predicates(i).for_each(|name| state.forget(Some(name)));
    }

    /// Returns the registers that an instruction writes, and what.
    fn results(&self, state: &State, i: &Machine, guard: Option<&str>) -> Vec<(Register, Value)> {
        let count = width(&i.opcode);
        let first = i
            .operands
            .iter()
            .position(|o| !matches!(o, Operand::Predicate(_)));
        let Some((at, Some(Operand::Register(to)))) = first.map(|n| (n, i.operands.get(n))) else {
            return Vec::new();
        };
        let from = &i.operands[at + 1..];
        let mut values = self.values(state, (i, from), guard);
        values.resize(count, Value::ANY);
        (*to..).zip(values).collect()
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
                // A sum within a window carries nothing into the upper half, and one behind a pointer belongs there.
                let carries = second == Some("X");
                let takes = matches!(
                    sum.only(),
                    Some(Atom::LocalWindow | Atom::PointerHigh { .. })
                );
                vec![if carries && !takes { Value::ANY } else { sum }]
            }
            ("VIADD", None) => vec![self.sum(state, &sources, guard)],
            ("SEL" | "USEL" | "FSEL", _) => vec![get(0).or(&get(1))],
            ("LDC" | "ULDC" | "LDCU", _)
                if !matches!(words.last(), Some(&("U8" | "S8" | "U16" | "S16"))) =>
            {
                (0..4)
                    .map(|n| self.constant(state, from.first(), 4 * n, guard))
                    .collect()
            }
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
            ("LDL", _) => self.load(state, i, guard),
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
        let pointer = block.pointers.iter().find_map(|&p| {
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
                (Some(Atom::PointerLow { at, by }), Some(Atom::Literal(k @ 0..RECORD)))
                    if by + k < RECORD =>
                {
                    Value::of(Atom::PointerLow { at, by: by + k })
                }
                _ => Value::ANY,
            },
            _ => Value::ANY,
        }
    }

    /// Returns where on the stack an instruction reads or writes.
    fn place(state: &State, i: &Machine, guard: Option<&str>) -> Option<i64> {
        let address = i.operands.iter().find_map(|o| match o {
            Operand::Address(address) => Some(address),
            _ => None,
        })?;
        match address.parts.as_slice() {
            [(register, _)] if address.is_known => match state.get(*register, guard).only()? {
                Atom::Stack(n) => Some(n + address.offset),
                _ => None,
            },
            _ => None,
        }
    }

    fn store(&self, state: &mut State, i: &Machine, guard: Option<&str>) {
        // What goes elsewhere stays inside variables: the fence holds it there.
        let Some(at) = Self::place(state, i, guard) else {
            return;
        };
        let narrow = ["U8", "S8", "U16", "S16"]
            .iter()
            .any(|w| i.opcode.ends_with(w));
        let words = match i.opcode.as_str() {
            o if o.ends_with("128") => 4,
            o if o.ends_with("64") => 2,
            _ => 1,
        };
        for (n, at) in (0..words).map(|n| (n, at + 4 * i64::try_from(n).unwrap_or(0))) {
            let value = match i.operands.last() {
                Some(Operand::Register(r)) if !narrow => state.get(r + n, guard),
                Some(Operand::Zero) => Value::of(Atom::Literal(0)),
                _ => Value::ANY,
            };
            let old = state.stack.get(&at).cloned().unwrap_or(Value::ANY);
            let value = if guard.is_some() {
                old.or(&value)
            } else {
                value
            };
            // A word that overlaps others.
            state
                .stack
                .retain(|other, _| (other - at).abs() >= 4 || *other == at);
            state.stack.insert(at, value);
        }
    }

    fn load(&self, state: &State, i: &Machine, guard: Option<&str>) -> Vec<Value> {
        let narrow = ["U8", "S8", "U16", "S16"]
            .iter()
            .any(|w| i.opcode.ends_with(w));
        let Some(at) = Self::place(state, i, guard).filter(|_| !narrow) else {
            return Vec::new();
        };
        let word = |n: i64| {
            state
                .stack
                .get(&(at + 4 * n))
                .cloned()
                .unwrap_or(Value::ANY)
        };
        (0..4).map(word).collect()
    }
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
