//! A wait for the block before: each block's first thread adds to what the one before it left, as a scan in one pass
//! does.
//!
//! Rule: it stands before every exit, so that a block that leaves early has left its word behind.

use super::maker::Maker;
use super::text::{Kind, emit};

impl Maker {
    /// Writes, in some kernels, a chain from block to block through a word of each.
    pub(super) fn look_back(&mut self) {
        if !self.body.text.chance(6) {
            return;
        }
        self.features.insert("look-back");
        let blocks: u32 = self.grid.iter().product();
        self.before += &format!(".global .align 8 .b8 chain[{}];\n", 8 * blocks);
        let [value, d] = [self.body.int(), self.body.int()];
        let thread = self.body.thread.clone().unwrap_or_default();
        let block = self.body.uniforms[1].clone();
        let t = &mut self.body.text;
        let (again, first, skip) = (t.label(), t.label(), t.label());
        let others = t.set(Kind::Pred, "setp.ne.u32", &format!("{thread}, 0"));
        emit!(t, "@{others} bra {skip}");
        let base = t.set(Kind::B64, "mov.u64", "chain");
        let offset = t.set(Kind::B64, "mul.wide.u32", &format!("{block}, 8"));
        let mine = t.set(Kind::B64, "add.s64", &format!("{base}, {offset}"));
        // The low half holds the sum, the high half says that it is there.
        let (sum, ready) = (t.set(Kind::B32, "mov.u32", &value), t.reg(Kind::B32));
        let none = t.set(Kind::Pred, "setp.eq.u32", &format!("{block}, 0"));
        emit!(t, "@{none} bra {first}");
        let load = t.pick(&["ld.volatile", "ld.relaxed.gpu", "ld.acquire.gpu"]);
        let seen = t.reg(Kind::B64);
        t.place(&again);
        emit!(t, "{load}.global.u64 {seen}, [{mine}+-8]");
        let before = t.reg(Kind::B32);
        emit!(t, "mov.b64 {{{before}, {ready}}}, {seen}");
        let p = t.set(Kind::Pred, "setp.eq.u32", &format!("{ready}, 0"));
        emit!(t, "@{p} bra {again}");
        emit!(t, "mad.lo.u32 {sum}, {before}, 3, {sum}");
        t.place(&first);
        emit!(t, "mov.u32 {ready}, 1");
        let both = t.set(Kind::B64, "mov.b64", &format!("{{{sum}, {ready}}}"));
        if t.chance(50) {
            emit!(t, "membar.gl");
        }
        let store = t.pick(&["st.volatile", "st.relaxed.gpu", "st.release.gpu"]);
        emit!(t, "{store}.global.u64 [{mine}], {both}");
        emit!(t, "xor.b32 {d}, {d}, {sum}");
        t.place(&skip);
    }
}
