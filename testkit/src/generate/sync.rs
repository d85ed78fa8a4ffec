//! Statements in which the threads of a block or warp take part together: barriers with shared memory, warp-wide
//! operations.
//!
//! Rule: each begins with a barrier, because an earlier one may still be reading what it is about to write.

use super::maker::Maker;
use super::text::{Kind, emit};

impl Maker {
    /// Writes one of them.
    pub(super) fn synchronise(&mut self) {
        match self.body.text.dice.below(9) {
            0..=2 => self.exchange(),
            3 => self.shared_atomics(),
            4 => self.tree(),
            8 => self.copy(),
            5 | 6 if self.threads.is_multiple_of(32) => self.warp_wide(),
            7 => self.barrier_reduction(),
            _ => self.barrier(),
        }
    }

    fn barrier(&mut self) {
        self.features.insert("barrier");
        let whole_warps = self.threads.is_multiple_of(32);
        let threads = self.threads;
        let t = &mut self.body.text;
        match t.dice.below(16) {
            0 => {
                emit!(t, "bar.sync 1");
                self.features.insert("odd barrier");
            }
            1 if whole_warps => {
                emit!(t, "bar.sync 0, {threads}");
                self.features.insert("odd barrier");
            }
            2 | 3 => emit!(t, "barrier.sync 0"),
            4 if whole_warps => {
                let n = t.between(1, 15);
                self.features.insert("named barrier");
                if t.chance(50) {
                    emit!(t, "bar.sync {n}, {threads}");
                    return;
                }
                let number = t.set(Kind::B32, "mov.u32", &n.to_string());
                let count = t.set(Kind::B32, "mov.u32", &threads.to_string());
                emit!(t, "barrier.sync.aligned {number}, {count}");
            }
            _ => emit!(t, "bar.sync 0"),
        }
    }

    /// Returns a shared array of one word per thread: static, or the launch's dynamic one.
    fn array(&mut self) -> &'static str {
        if self.body.text.chance(35) {
            self.features.insert("dynamic shared");
            if self.dynamic_shared_bytes == 0 {
                self.before += ".extern .shared .align 16 .b8 dynamic_words[];\n";
                self.dynamic_shared_bytes = 4 * self.threads + 4 * self.body.text.dice.below(9);
            }
            return "dynamic_words";
        }
        if !self.body.variables.contains("static_words") && !self.before.contains("static_words") {
            let line = format!(
                ".shared .align 16 .b8 static_words[{}];\n",
                4 * self.threads
            );
            if self.body.text.chance(50) {
                self.body.variables += &line;
            } else {
                self.before += &line;
            }
        }
        "static_words"
    }

    /// Address of a word of a shared array, and the state space to use with it.
    fn shared_at(&mut self, array: &str, index: &str) -> (String, &'static str) {
        if self.body.text.chance(20) {
            self.features.insert("generic");
            let t = &mut self.body.text;
            let base = t.set(Kind::B64, "mov.u64", array);
            let base = t.set(Kind::B64, "cvta.shared.u64", &base);
            let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{index}, 4"));
            return (
                t.set(Kind::B64, "add.s64", &format!("{base}, {offset}")),
                "",
            );
        }
        let t = &mut self.body.text;
        let base = t.set(Kind::B32, "mov.u32", array);
        let offset = t.set(Kind::B32, "shl.b32", &format!("{index}, 2"));
        (
            t.set(Kind::B32, "add.s32", &format!("{base}, {offset}")),
            ".shared",
        )
    }

    /// Has each thread give a word and take another thread's.
    fn exchange(&mut self) {
        self.features.insert("shared exchange");
        let array = self.array();
        let (value, d) = (self.body.int(), self.body.int());
        let thread = self.body.thread.clone().unwrap_or_default();
        self.barrier();
        let (mine, space) = self.shared_at(array, &thread);
        emit!(self.body.text, "st{space}.u32 [{mine}], {value}");
        self.barrier();
        let threads = self.threads;
        let t = &mut self.body.text;
        let (k, c) = (t.between(1, 9), t.dice.below(40));
        let other = t.set(Kind::B32, "mad.lo.u32", &format!("{thread}, {k}, {c}"));
        let other = t.set(Kind::B32, "rem.u32", &format!("{other}, {threads}"));
        let (theirs, space) = self.shared_at(array, &other);
        emit!(self.body.text, "ld{space}.u32 {d}, [{theirs}]");
    }

    /// Has each thread copy a word of the input asynchronously, and take the one that another thread had copied.
    fn copy(&mut self) {
        self.features.insert("cp.async");
        let array = self.array();
        let d = self.body.int();
        let thread = self.body.thread.clone().unwrap_or_default();
        let wide = self.threads.is_multiple_of(4) && self.body.text.chance(40);
        self.barrier();
        let from = self.input_address(if wide { 4 } else { 1 });
        let threads = self.threads;
        let t = &mut self.body.text;
        let base = t.set(Kind::B32, "mov.u32", array);
        if wide {
            // A quarter of the threads copies four words each.
            let skip = t.label();
            let quarter = threads / 4;
            let p = t.set(Kind::Pred, "setp.ge.u32", &format!("{thread}, {quarter}"));
            let offset = t.set(Kind::B32, "shl.b32", &format!("{thread}, 4"));
            let at = t.set(Kind::B32, "add.s32", &format!("{base}, {offset}"));
            emit!(t, "@{p} bra {skip}");
            let cache = t.pick(&["ca", "cg"]);
            emit!(t, "cp.async.{cache}.shared.global [{at}], [{from}], 16");
            t.place(&skip);
        } else {
            let at = t.set(Kind::B32, "mad.lo.u32", &format!("{thread}, 4, {base}"));
            let size = t.pick(&["", "", ", 2"]);
            emit!(t, "cp.async.ca.shared.global [{at}], [{from}], 4{size}");
        }
        if t.chance(50) {
            emit!(t, "cp.async.wait_all");
        } else {
            emit!(t, "cp.async.commit_group");
            emit!(t, "cp.async.wait_group 0");
        }
        self.barrier();
        let t = &mut self.body.text;
        let k = t.between(1, 9);
        let other = t.set(Kind::B32, "mul.lo.u32", &format!("{thread}, {k}"));
        let other = t.set(Kind::B32, "rem.u32", &format!("{other}, {threads}"));
        let (theirs, space) = self.shared_at(array, &other);
        emit!(self.body.text, "ld{space}.u32 {d}, [{theirs}]");
    }

    /// Counters in shared memory: cleared, added to by all, read by all.
    fn shared_atomics(&mut self) {
        self.features.insert("shared atomics");
        if !self.body.variables.contains("counters") {
            self.body.variables += "\t.shared .align 4 .b8 counters[64];\n";
        }
        let thread = self.body.thread.clone().unwrap_or_default();
        let (i, j, value, d) = (
            self.body.int(),
            self.body.int(),
            self.body.int(),
            self.body.int(),
        );
        self.barrier();
        let threads = self.threads;
        let t = &mut self.body.text;
        let base = t.set(Kind::B32, "mov.u32", "counters");
        let (index, again, done) = (t.set(Kind::B32, "mov.u32", &thread), t.label(), t.label());
        // Small blocks clear several words each.
        t.place(&again);
        let p = t.set(Kind::Pred, "setp.ge.u32", &format!("{index}, 16"));
        emit!(t, "@{p} bra {done}");
        let offset = t.set(Kind::B32, "shl.b32", &format!("{index}, 2"));
        let at = t.set(Kind::B32, "add.s32", &format!("{base}, {offset}"));
        emit!(t, "st.shared.u32 [{at}], 7");
        emit!(t, "add.s32 {index}, {index}, {threads}");
        emit!(t, "bra {again}");
        t.place(&done);
        self.barrier();
        let t = &mut self.body.text;
        let op = t.pick(&["add.u32", "max.u32", "min.s32", "or.b32", "xor.b32"]);
        let slot = t.set(Kind::B32, "and.b32", &format!("{i}, 15"));
        let at = t.set(Kind::B32, "mad.lo.u32", &format!("{slot}, 4, {base}"));
        if t.chance(50) {
            emit!(t, "red.shared.{op} [{at}], {value}");
        } else {
            let unused = t.reg(Kind::B32);
            emit!(t, "atom.shared.{op} {unused}, [{at}], {value}");
        }
        self.barrier();
        let t = &mut self.body.text;
        let slot = t.set(Kind::B32, "and.b32", &format!("{j}, 15"));
        let at = t.set(Kind::B32, "mad.lo.u32", &format!("{slot}, 4, {base}"));
        emit!(t, "ld.shared.u32 {d}, [{at}]");
    }

    /// Sums over the block in halving steps, with a barrier in the loop.
    fn tree(&mut self) {
        self.features.insert("shared tree");
        let array = self.array();
        let (value, d) = (self.body.int(), self.body.int());
        let thread = self.body.thread.clone().unwrap_or_default();
        self.barrier();
        let (mine, space) = self.shared_at(array, &thread);
        emit!(self.body.text, "st{space}.u32 [{mine}], {value}");
        self.barrier();
        let (threads, first) = (self.threads, self.threads.next_power_of_two() / 2);
        let t = &mut self.body.text;
        let (head, skip, end) = (t.label(), t.label(), t.label());
        let step = t.set(Kind::B32, "mov.u32", &first.to_string());
        t.place(&head);
        t.times *= 6;
        let none = t.set(Kind::Pred, "setp.eq.u32", &format!("{step}, 0"));
        emit!(t, "@{none} bra {end}");
        let other = t.set(Kind::B32, "add.s32", &format!("{thread}, {step}"));
        let p = t.set(Kind::Pred, "setp.ge.u32", &format!("{thread}, {step}"));
        let p = t.set(
            Kind::Pred,
            "setp.ge.or.u32",
            &format!("{other}, {threads}, {p}"),
        );
        emit!(t, "@{p} bra {skip}");
        let (theirs, from) = self.shared_at(array, &other);
        let t = &mut self.body.text;
        let a = t.set(Kind::B32, &format!("ld{space}.u32"), &format!("[{mine}]"));
        let b = t.set(Kind::B32, &format!("ld{from}.u32"), &format!("[{theirs}]"));
        let sum = t.set(Kind::B32, "add.s32", &format!("{a}, {b}"));
        emit!(t, "st{space}.u32 [{mine}], {sum}");
        t.place(&skip);
        emit!(t, "bar.sync 0");
        emit!(t, "shr.u32 {step}, {step}, 1");
        emit!(t, "bra.uni {head}");
        t.times /= 6;
        t.place(&end);
        let zero = self.body.text.set(Kind::B32, "mov.u32", "0");
        let (root, space) = self.shared_at(array, &zero);
        emit!(self.body.text, "ld{space}.u32 {d}, [{root}]");
    }

    /// Shuffles and votes of full warps.
    fn warp_wide(&mut self) {
        self.features.insert("warp");
        let (d, a) = (self.body.int(), self.body.int());
        let p = self.predicate();
        let t = &mut self.body.text;
        match t.dice.below(6) {
            0 | 1 => {
                let n = t.between(1, 31);
                emit!(t, "shfl.sync.bfly.b32 {d}, {a}, {n}, 31, -1");
            }
            2 => {
                let (q, n) = (t.reg(Kind::Pred), t.between(1, 16));
                let way = t.pick(&["up", "down"]);
                let clamp = if way == "up" { 0 } else { 31 };
                let got = t.reg(Kind::B32);
                emit!(t, "shfl.sync.{way}.b32 {got}|{q}, {a}, {n}, {clamp}, -1");
                emit!(t, "selp.b32 {d}, {got}, 5, {q}");
            }
            3 => emit!(t, "vote.sync.ballot.b32 {d}, {p}, -1"),
            4 => {
                let (q, mode) = (t.reg(Kind::Pred), t.pick(&["any", "all"]));
                emit!(t, "vote.sync.{mode}.pred {q}, {p}, -1");
                emit!(t, "selp.b32 {d}, {a}, 3, {q}");
            }
            _ => {
                let op = t.pick(&["add.s32", "min.u32", "xor.b32"]);
                emit!(t, "redux.sync.{op} {d}, {a}, -1");
            }
        }
    }

    /// Writes a barrier that counts or combines a predicate.
    fn barrier_reduction(&mut self) {
        self.features.insert("bar.red");
        let d = self.body.int();
        let p = self.predicate();
        let t = &mut self.body.text;
        if t.chance(50) {
            let count = match self.threads.is_multiple_of(32) && t.chance(30) {
                true => format!("{}, {}", t.between(0, 15), self.threads),
                false => "0".to_owned(),
            };
            emit!(t, "bar.red.popc.u32 {d}, {count}, {p}");
            return;
        }
        let (q, op) = (t.reg(Kind::Pred), t.pick(&["and", "or"]));
        emit!(t, "bar.red.{op}.pred {q}, 0, {p}");
        emit!(t, "selp.b32 {d}, {d}, 9, {q}");
    }
}
