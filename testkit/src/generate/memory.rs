//! Statements that touch memory which needs no barrier: input, own words, tables, local arrays, accumulators.

use super::maker::Maker;
use super::text::{Kind, emit};
use super::{INPUT_WORDS, ZONE_WORDS};
use std::fmt::Write as _;

/// Zones of the accumulators: opcode suffix, bytes, and whether the value is first made a small float.
const ATOMICS: [(&str, u32, bool); 9] = [
    ("add.u32", 4, false),
    ("min.u32", 4, false),
    ("max.s32", 4, false),
    ("or.b32", 4, false),
    ("xor.b32", 4, false),
    ("and.b32", 4, false),
    ("add.u64", 8, false),
    ("max.u64", 8, false),
    ("add.f32", 4, true),
];
/// The zone whose words are added to by a loop of compare-and-swap.
const CAS_ZONE: u32 = 9;
/// The zone whose words count by one, so that every order hands out the same numbers; and the zone of sums over them.
const TICKET_ZONE: u32 = 10;
const SUM_ZONE: u32 = 11;

impl Maker {
    /// Writes a load, store or atomic operation.
    pub(super) fn touch_memory(&mut self) {
        let in_kernel = self.body.own.is_some();
        match self.body.text.dice.below(10) {
            0..=3 => self.load_input(),
            4 if in_kernel => self.own_words(),
            5 if in_kernel => self.local_array(),
            6 => self.table(),
            7 | 8 if in_kernel => self.atomic(),
            9 if in_kernel && self.body.text.chance(50) => self.tickets(),
            9 if in_kernel => self.cas_loop(),
            _ => self.load_input(),
        }
    }

    /// Returns the byte address of a word of the input whose number the data choose, aligned to `words`.
    pub(super) fn input_address(&mut self, words: u32) -> String {
        let (i, input) = (self.body.int(), self.body.input.clone());
        let t = &mut self.body.text;
        let index = t.set(
            Kind::B32,
            "and.b32",
            &format!("{i}, {}", (INPUT_WORDS - 1) & !(words - 1)),
        );
        let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{index}, 4"));
        t.set(Kind::B64, "add.s64", &format!("{input}, {offset}"))
    }

    fn load_input(&mut self) {
        let (d, e, f) = (self.body.int(), self.body.int(), self.body.float());
        let space = self.space();
        match self.body.text.dice.below(8) {
            0..=2 => {
                let from = self.input_address(1);
                let t = &mut self.body.text;
                let cache = if space == ".global" {
                    t.pick(&["", "", ".nc", ".ca", ".cg"])
                } else {
                    ""
                };
                emit!(t, "ld{space}{cache}.u32 {d}, [{from}]");
            }
            3 => {
                let from = self.input_address(1);
                let t = &mut self.body.text;
                let (ty, n) = (t.pick(&["u8", "s8", "u16", "s16"]), 2 * t.dice.below(2));
                emit!(t, "ld{space}.{ty} {d}, [{from}+{n}]");
            }
            4 if d != e => {
                self.features.insert("vector");
                let from = self.input_address(2);
                emit!(self.body.text, "ld{space}.v2.u32 {{{d}, {e}}}, [{from}]");
            }
            5 => {
                self.features.insert("vector");
                let from = self.input_address(4);
                let t = &mut self.body.text;
                let r: Vec<String> = (0..4).map(|_| t.reg(Kind::B32)).collect();
                emit!(t, "ld{space}.v4.u32 {{{}}}, [{from}]", r.join(", "));
                emit!(t, "xor.b32 {d}, {}, {}", r[0], r[3]);
                emit!(t, "add.s32 {e}, {}, {}", r[1], r[2]);
            }
            6 => {
                let long = self.body.long();
                let from = self.input_address(2);
                let t = &mut self.body.text;
                let wide = t.set(Kind::B64, &format!("ld{space}.u64"), &format!("[{from}]"));
                emit!(t, "add.s64 {long}, {long}, {wide}");
            }
            _ => {
                let from = self.input_address(1);
                let t = &mut self.body.text;
                // A byte as a float: no infinities to start with.
                let byte = t.set(Kind::B32, &format!("ld{space}.u8"), &format!("[{from}+3]"));
                emit!(t, "cvt.rn.f32.u32 {f}, {byte}");
            }
        }
    }

    /// Returns the state space to name: global, or generic by chance.
    fn space(&mut self) -> &'static str {
        if self.body.text.chance(25) {
            self.features.insert("generic");
            return "";
        }
        ".global"
    }

    /// Has a thread read and write its own words of `out`.
    fn own_words(&mut self) {
        let Some(own) = self.body.own.clone() else {
            return;
        };
        let (a, b, f) = (self.body.int(), self.body.int(), self.body.float());
        let space = self.space();
        let t = &mut self.body.text;
        match t.dice.below(4) {
            0 => {
                emit!(t, "st{space}.v2.u32 [{own}+8], {{{a}, {b}}}");
                self.features.insert("vector");
            }
            1 => emit!(t, "st{space}.f32 [{own}+24], {f}"),
            2 => {
                let n = 4 * t.dice.below(7);
                let old = t.set(
                    Kind::B32,
                    &format!("ld{space}.u32"),
                    &format!("[{own}+{n}]"),
                );
                let new = t.set(Kind::B32, "add.s32", &format!("{old}, {a}"));
                emit!(t, "st{space}.u32 [{own}+{n}], {new}");
                emit!(t, "xor.b32 {b}, {b}, {old}");
            }
            _ => {
                let n = t.dice.below(24);
                emit!(t, "st{space}.u8 [{own}+{n}], {a}");
            }
        }
    }

    /// Uses a small array of this thread's, indexed by data.
    fn local_array(&mut self) {
        self.features.insert("local array");
        if !self.body.variables.contains("own_array") {
            self.body.variables += "\t.local .align 16 .b8 own_array[64];\n";
        }
        let (d, i) = (self.body.int(), self.body.int());
        let values: Vec<String> = (0..4).map(|_| self.body.int()).collect();
        let generic = self.body.text.chance(40);
        let t = &mut self.body.text;
        let mut base = t.set(Kind::B64, "mov.u64", "own_array");
        let mut space = ".local";
        if generic {
            base = t.set(Kind::B64, "cvta.local.u64", &base);
            space = "";
            self.features.insert("generic");
        }
        emit!(t, "st{space}.v4.u32 [{base}], {{{}}}", values.join(", "));
        for (n, value) in values.iter().enumerate() {
            emit!(t, "st{space}.u32 [{base}+{}], {value}", 16 + 4 * n);
        }
        let index = t.set(Kind::B32, "and.b32", &format!("{i}, 7"));
        let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{index}, 4"));
        let at = t.set(Kind::B64, "add.s64", &format!("{base}, {offset}"));
        emit!(t, "ld{space}.u32 {d}, [{at}]");
    }

    /// Reads a constant or global table of the module.
    fn table(&mut self) {
        self.features.insert("table");
        let space = self.body.text.pick(&[".const", ".global"]);
        let name = if space == ".const" {
            "const_table"
        } else {
            "global_table"
        };
        if !self.before.contains(name) {
            let values: Vec<String> = (0..16)
                .map(|_| self.body.text.dice.next_u32().to_string())
                .collect();
            let _ = writeln!(
                self.before,
                "{space} .align 4 .u32 {name}[16] = {{{}}};",
                values.join(", ")
            );
        }
        let (d, i) = (self.body.int(), self.body.int());
        let t = &mut self.body.text;
        if t.chance(30) {
            let n = 4 * t.dice.below(16);
            emit!(t, "ld{space}.u32 {d}, [{name}+{n}]");
            return;
        }
        let index = t.set(Kind::B32, "and.b32", &format!("{i}, 15"));
        let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{index}, 4"));
        let base = t.set(Kind::B64, "mov.u64", name);
        let at = t.set(Kind::B64, "add.s64", &format!("{base}, {offset}"));
        emit!(t, "ld{space}.u32 {d}, [{at}]");
    }

    /// Address of a word in a zone of the accumulators.
    fn accumulator(&mut self, zone: u32) -> String {
        let i = self.body.int();
        self.accumulator_at(zone, &i)
    }

    /// Returns the same for a number that is given.
    fn accumulator_at(&mut self, zone: u32, i: &str) -> String {
        let base = self.body.accumulators.clone().unwrap_or_default();
        let t = &mut self.body.text;
        let index = t.set(Kind::B32, "and.b32", &format!("{i}, {}", ZONE_WORDS - 1));
        let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{index}, 8"));
        let at = t.set(Kind::B64, "add.s64", &format!("{base}, {offset}"));
        t.set(
            Kind::B64,
            "add.s64",
            &format!("{at}, {}", zone * ZONE_WORDS * 8),
        )
    }

    fn atomic(&mut self) {
        self.features.insert("atomics");
        let zone = self.body.text.dice.below(9);
        let (op, bytes, float) = ATOMICS[zone as usize];
        let at = self.accumulator(zone);
        let (value, long) = (self.body.int(), self.body.long());
        let space = self.space();
        let t = &mut self.body.text;
        let value = if float {
            // Sums of small whole numbers are exact, so that their order does not matter.
            let small = t.set(Kind::B32, "and.b32", &format!("{value}, 7"));
            t.set(Kind::F32, "cvt.rn.f32.u32", &small)
        } else if bytes == 8 {
            long
        } else {
            value
        };
        let scope = t.pick(&["", "", ".relaxed.gpu", ".gpu"]);
        if t.chance(60) {
            emit!(t, "red{scope}{space}.{op} [{at}], {value}");
            return;
        }
        let kind = if float {
            Kind::F32
        } else if bytes == 8 {
            Kind::B64
        } else {
            Kind::B32
        };
        let unused = t.reg(kind);
        emit!(t, "atom{scope}{space}.{op} {unused}, [{at}], {value}");
    }

    /// Adds by compare-and-swap, as programs write where there is no such atomic operation. Of all threads that
    /// ask for one word together one succeeds, so that a word takes the square of their number; the thread's own number
    /// spreads them over the words, whatever the value is.
    fn cas_loop(&mut self) {
        self.features.insert("cas loop");
        let i = self.body.int();
        let thread = self.body.thread.clone().unwrap_or_default();
        let i = (self.body.text).set(Kind::B32, "add.s32", &format!("{i}, {thread}"));
        let at = self.accumulator_at(CAS_ZONE, &i);
        let value = self.body.int();
        let space = self.space();
        let t = &mut self.body.text;
        let again = t.label();
        let seen = t.set(Kind::B32, &format!("ld{space}.u32"), &format!("[{at}]"));
        let (old, new, p) = (t.reg(Kind::B32), t.reg(Kind::B32), t.reg(Kind::Pred));
        t.place(&again);
        t.times *= 8;
        emit!(t, "mov.u32 {old}, {seen}");
        emit!(t, "add.s32 {new}, {old}, {value}");
        emit!(t, "atom{space}.cas.b32 {seen}, [{at}], {old}, {new}");
        emit!(t, "setp.ne.s32 {p}, {seen}, {old}");
        emit!(t, "@{p} bra {again}");
        t.times /= 8;
    }

    /// Takes a number from a counter: who gets which is open, but a sum over something made of all of them is not.
    fn tickets(&mut self) {
        self.features.insert("atomic value");
        let counter = self.accumulator(TICKET_ZONE);
        let space = self.space();
        let t = &mut self.body.text;
        let got = t.reg(Kind::B32);
        let (op, by) = match t.chance(50) {
            true => ("add.u32", "1"),
            false => ("inc.u32", "-1"),
        };
        emit!(t, "atom{space}.{op} {got}, [{counter}], {by}");
        let mixed = t.set(Kind::B32, "mad.lo.u32", &format!("{got}, {got}, 7"));
        let sum = t.set(Kind::B64, "mul.wide.u32", &format!("{mixed}, 40503"));
        // The sum stands beside the counter that the number came from.
        let zones = (SUM_ZONE - TICKET_ZONE) * ZONE_WORDS * 8;
        emit!(t, "red{space}.add.u64 [{counter}+{zones}], {sum}");
    }
}
