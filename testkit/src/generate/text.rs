//! PTX text under construction: registers, labels, lines, and the dice.

use gridmux_workloads::Prng;
use std::fmt::Write as _;

/// A register type; its registers are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pred,
    B16,
    B32,
    B64,
    F32,
    F64,
}

const KINDS: [(Kind, &str, &str); 6] = [
    (Kind::Pred, ".pred", "%p"),
    (Kind::B16, ".b16", "%rs"),
    (Kind::B32, ".b32", "%r"),
    (Kind::B64, ".b64", "%rd"),
    (Kind::F32, ".f32", "%f"),
    (Kind::F64, ".f64", "%fd"),
];

/// The body of one kernel or function.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) dice: Prng,
    body: String,
    registers: [u32; KINDS.len()],
    /// Makes labels differ between functions.
    prefix: String,
    labels: u32,
    /// Lines so far, each counted as often as a thread executes it.
    pub(super) executed: u32,
    /// How often a line written now is executed.
    pub(super) times: u32,
}

/// Appends one instruction: `emit!(text, "add.s32 {d}, {a}, {b}")`.
macro_rules! emit {
    ($text:expr, $($format:tt)*) => {
        $text.line(format_args!($($format)*))
    };
}
pub(super) use emit;

impl Text {
    pub(super) fn new(dice: Prng, prefix: &str) -> Self {
        Self {
            dice,
            body: String::new(),
            registers: [0; KINDS.len()],
            prefix: prefix.to_owned(),
            labels: 0,
            executed: 0,
            times: 1,
        }
    }

    /// Returns a fresh register.
    pub(super) fn reg(&mut self, kind: Kind) -> String {
        let at = KINDS.iter().position(|(k, ..)| *k == kind).unwrap_or(0);
        let number = self.registers[at];
        self.registers[at] += 1;
        format!("{}{number}", KINDS[at].2)
    }

    /// Returns a fresh register that was just given a value by `opcode`, as in `add.s32 {}, a, b`.
    pub(super) fn set(&mut self, kind: Kind, opcode: &str, sources: &str) -> String {
        let d = self.reg(kind);
        emit!(self, "{opcode} {d}, {sources}");
        d
    }

    pub(super) fn line(&mut self, instruction: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "\t{instruction};");
        self.executed += self.times;
    }

    /// Appends text that is no instruction.
    pub(super) fn raw(&mut self, line: &str) {
        let _ = writeln!(self.body, "{line}");
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L_{}_{}", self.prefix, self.labels)
    }

    pub(super) fn place(&mut self, label: &str) {
        let _ = writeln!(self.body, "{label}:");
    }

    /// Returns true in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.dice.below(100) < percent
    }

    /// Returns a number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.dice.below(high - low + 1)
    }

    /// Returns one of several.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        let most = u32::try_from(from.len()).unwrap_or(u32::MAX);
        from[self.dice.below(most) as usize]
    }

    /// Declarations of all registers, then the body.
    pub(super) fn finish(self) -> String {
        let mut all = String::new();
        for ((_, ty, name), count) in KINDS.iter().zip(self.registers) {
            if count != 0 {
                let _ = writeln!(all, "\t.reg {ty} \t{name}<{count}>;");
            }
        }
        all + &self.body
    }
}
