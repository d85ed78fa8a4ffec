//! Matrices, whose rows a stride places: the stride is kept when the last row lies where the first may, else zero.
//!
//! Rule: the first row's address is fenced before; a stride of zero puts every row there.

use super::{Member, Pass};
use crate::decode::Operand;
use crate::forms::fence::access::MatrixRows;
use std::fmt::Write as _;

impl Pass<'_, '_> {
    /// Returns the stride of a matrix: kept when the end of the last row is where `confine` would leave it, else zero.
    pub(super) fn rows(
        &mut self,
        m: &Member,
        confine: impl FnOnce(&mut Self, &str) -> (String, String),
        fenced: &str,
    ) -> String {
        let Some(rows) = m.access.rows else {
            return String::new();
        };
        let Some((mut text, stride, span)) = self.row_span(m, rows) else {
            return String::new();
        };
        let (end, p) = (self.frame.fresh("b64"), self.frame.fresh("pred"));
        let _ = write!(text, "add.s64 {end}, {fenced}, {span}; ");
        let (confined, same) = confine(self, &end);
        let _ = write!(text, "{confined} setp.eq.u64 {p}, {end}, {same}; ");
        text + &self.stride(m, rows, &stride, &p)
    }

    pub(super) fn shared_rows(&mut self, m: &Member, held: &str) -> String {
        let Some(rows) = m.access.rows else {
            return String::new();
        };
        let Some((mut text, stride, span)) = self.row_span(m, rows) else {
            return String::new();
        };
        let end = self.end_of_shared();
        let [wide, last, limit] = [(); 3].map(|()| self.frame.fresh("b64"));
        let p = self.frame.fresh("pred");
        let _ = write!(
            text,
            "cvt.u64.u32 {wide}, {held}; add.s64 {last}, {wide}, {span}; cvt.u64.u32 {limit}, {end}; \
             setp.lt.u64 {p}, {last}, {limit}; "
        );
        text + &self.stride(m, rows, &stride, &p)
    }

    /// Returns the stride as a register, and how far the last byte of the last row is from the first byte.
    fn row_span(&mut self, m: &Member, rows: MatrixRows) -> Option<(String, String, String)> {
        let i = &self.frame.function.body[m.instruction as usize];
        let (mut text, stride) = match i.operands.get(rows.stride) {
            Some(Operand::Reg(r)) => (String::new(), self.register(*r).0),
            Some(Operand::Int(n)) => {
                let stride = self.frame.fresh("b32");
                (format!("mov.u32 {stride}, {n}; "), stride)
            }
            _ => return None,
        };
        let (bits, span) = (self.frame.fresh("b64"), self.frame.fresh("b64"));
        let _ = write!(
            text,
            "mul.wide.u32 {bits}, {stride}, {}; shr.u64 {bits}, {bits}, 3; add.s64 {span}, {bits}, {}; ",
            rows.more * rows.element_bits,
            m.access.bytes - 1
        );
        Some((text, stride, span))
    }

    /// Replaces the stride operand by one that is zero where `p` is false and a multiple of 16 bytes.
    fn stride(&mut self, m: &Member, rows: MatrixRows, stride: &str, p: &str) -> String {
        let (kept, rounded) = (self.frame.fresh("b32"), self.frame.fresh("b32"));
        self.replace_operand(m.instruction, rows.stride, rounded.clone());
        format!(
            "selp.b32 {kept}, {stride}, 0, {p}; and.b32 {rounded}, {kept}, -{};",
            (128 / rows.element_bits).max(1)
        )
    }
}
