//! Statements that hold statements: branches, loops, switches; and exits.

use super::maker::{Maker, StatementSite};
use super::text::{Kind, emit};

/// Control flow nests this deep.
const DEEPEST: u32 = 3;

impl Maker {
    /// Writes one statement of any kind that may stand here.
    pub(super) fn statement(&mut self) {
        let deep = self.body.at.depth >= DEEPEST;
        let syncs = self.body.at.uniform && self.body.together && self.body.thread.is_some();
        match self.body.text.dice.below(24) {
            0 | 1 if !deep => self.branch(),
            2 | 3 if !deep => self.counted_loop(),
            4 if !deep => self.switch(),
            5 if !self.functions.is_empty() => self.call(),
            6..=8 if syncs => self.synchronise(),
            9..=14 => self.touch_memory(),
            _ => self.compute(),
        }
    }

    /// Writes some statements at a deeper place.
    fn nested(&mut self, uniform: bool, most: u32) {
        let outer = self.body.at;
        self.body.at = StatementSite {
            uniform: outer.uniform && uniform,
            depth: outer.depth + 1,
        };
        for _ in 0..self.body.text.between(1, most) {
            if self.body.text.executed < 2 * self.body.budget {
                self.statement();
            } else {
                self.compute();
            }
        }
        self.body.at = outer;
    }

    /// Writes an `if`, with or without `else`, on data or on something uniform.
    fn branch(&mut self) {
        self.features.insert("if");
        let uniform = self.body.text.chance(35);
        let p = if uniform {
            self.uniform_predicate()
        } else {
            self.predicate()
        };
        let t = &mut self.body.text;
        let (other, end) = (t.label(), t.label());
        let uni = if uniform && t.chance(30) { ".uni" } else { "" };
        if t.chance(50) {
            emit!(t, "@{p} bra{uni} {end}");
            self.nested(uniform, 3);
        } else {
            let not = t.pick(&["", "!"]);
            emit!(t, "@{not}{p} bra{uni} {other}");
            self.nested(uniform, 3);
            emit!(self.body.text, "bra.uni {end}");
            self.body.text.place(&other);
            self.nested(uniform, 3);
        }
        self.body.text.place(&end);
    }

    /// Writes a loop with a counter of its own, tested above or below, sometimes left early.
    fn counted_loop(&mut self) {
        self.features.insert("loop");
        let uniform = self.body.text.chance(60);
        let bound = self.trip_count(uniform);
        let t = &mut self.body.text;
        let (head, end) = (t.label(), t.label());
        let i = t.set(Kind::B32, "mov.u32", "0");
        let p = t.reg(Kind::Pred);
        let above = t.chance(50);
        t.place(&head);
        if above {
            emit!(t, "setp.ge.u32 {p}, {i}, {bound}");
            emit!(t, "@{p} bra {end}");
        }
        t.times *= 3;
        // An early end for some threads makes the rest of the loop divergent.
        let broken = t.chance(20);
        self.nested(uniform && !broken, 3);
        if broken {
            let q = self.predicate();
            emit!(self.body.text, "@{q} bra {end}");
        }
        let t = &mut self.body.text;
        emit!(t, "add.s32 {i}, {i}, 1");
        if above {
            emit!(t, "bra.uni {head}");
        } else {
            emit!(t, "setp.lt.u32 {p}, {i}, {bound}");
            emit!(t, "@{p} bra {head}");
        }
        t.times /= 3;
        t.place(&end);
    }

    /// Returns a register or number from 0 to 4, or from 1.
    fn trip_count(&mut self, uniform: bool) -> String {
        if !uniform {
            self.features.insert("divergent loop");
            let a = self.body.int();
            return self.body.text.set(Kind::B32, "and.b32", &format!("{a}, 3"));
        }
        let u = self.body.uniform();
        let t = &mut self.body.text;
        if t.chance(50) {
            return t.between(1, 4).to_string();
        }
        t.set(Kind::B32, "rem.u32", &format!("{u}, 4"))
    }

    /// Branches several ways by a number: a chain of comparisons, or a table of targets.
    fn switch(&mut self) {
        let uniform = self.body.text.chance(30);
        let from = if uniform {
            self.body.uniform()
        } else {
            self.body.int()
        };
        let t = &mut self.body.text;
        let ways = t.between(2, 4);
        let labels: Vec<String> = (0..ways).map(|_| t.label()).collect();
        let (table, end) = (t.label(), t.label());
        let way = t.set(Kind::B32, "rem.u32", &format!("{from}, {ways}"));
        if t.chance(60) {
            self.features.insert("brx");
            let t = &mut self.body.text;
            t.raw(&format!(
                "{table}:\n\t.branchtargets {};",
                labels.join(", ")
            ));
            emit!(t, "brx.idx {way}, {table}");
        } else {
            for (n, label) in labels.iter().enumerate().skip(1) {
                let p = t.set(Kind::Pred, "setp.eq.u32", &format!("{way}, {n}"));
                emit!(t, "@{p} bra {label}");
            }
        }
        for label in &labels {
            self.body.text.place(label);
            self.nested(uniform, 2);
            emit!(self.body.text, "bra.uni {end}");
        }
        self.body.text.place(&end);
    }

    /// Exits before anything else: threads past the end, or whole blocks.
    pub(super) fn exits_at_head(&mut self) {
        match self.body.text.dice.below(10) {
            0..=2 => {
                self.features.insert("guard exit");
                // The number of the thread in the grid is the first variable, and still what it was.
                let own = self.body.ints[0].clone();
                let t = &mut self.body.text;
                let n = t.set(Kind::B32, "ld.param.u32", "[p_n]");
                let p = t.set(Kind::Pred, "setp.ge.u32", &format!("{own}, {n}"));
                if t.chance(50) {
                    let leave = t.pick(&["ret", "exit"]);
                    emit!(t, "@{p} {leave}");
                } else {
                    let go_on = t.label();
                    emit!(t, "@!{p} bra {go_on}");
                    emit!(t, "ret");
                    t.place(&go_on);
                }
                self.body.together = false;
                if !self.functions.is_empty() && self.body.text.chance(50) {
                    self.call();
                }
            }
            3 | 4 => {
                self.features.insert("uniform exit");
                let p = self.uniform_predicate();
                let go_on = self.body.text.label();
                if self.body.text.chance(50) {
                    emit!(self.body.text, "@!{p} bra {go_on}");
                    self.body.store_results(false);
                    emit!(self.body.text, "ret");
                    self.body.text.place(&go_on);
                } else {
                    let leave = self.body.text.pick(&["ret", "exit"]);
                    emit!(self.body.text, "@{p} {leave}");
                }
            }
            _ => {}
        }
    }

    /// Lets some threads leave before the last statements.
    pub(super) fn tail_exit(&mut self) {
        if !self.body.text.chance(25) {
            return;
        }
        self.features.insert("tail exit");
        let p = self.predicate();
        let go_on = self.body.text.label();
        emit!(self.body.text, "@!{p} bra {go_on}");
        self.body.store_results(true);
        let leave = self.body.text.pick(&["ret", "exit"]);
        emit!(self.body.text, "{leave}");
        self.body.text.place(&go_on);
        self.body.together = false;
        for _ in 0..self.body.text.between(1, 6) {
            self.statement();
        }
    }
}
