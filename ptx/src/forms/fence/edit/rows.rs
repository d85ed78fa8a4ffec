//! Matrices, whose rows a stride places: the stride is kept when the last row lies where the first may, else zero.
//!
//! Rule: the first row's address is fenced before; a stride of zero puts every row there. Where an instruction names no
//! stride, rows lie one behind the other, and it is made to name one.

use super::{Member, Pass};
use crate::decode::{Operand, RegId, ScalarType as T};
use crate::forms::code::Code;
use crate::forms::fence::access::MatrixRows;

/// A stride, and how far the last byte of the last row is from the first byte.
type Span = (RegId, RegId);

impl Pass<'_, '_> {
    /// Bounds the stride of a matrix in global memory: kept when the end of the last row is where the fence would leave
    /// it, else zero.
    pub(super) fn rows(&mut self, m: &Member, code: &mut Code, fenced: RegId) {
        let Some(rows) = m.access.rows else { return };
        let (stride, span) = self.row_span(m, rows, code);
        let (end, p) = (self.frame.fresh(T::B64), self.frame.fresh(T::Pred));
        code.op("add.s64", (end, fenced, span));
        let (confine, same) = self.confine(end, 1);
        code.append(confine);
        code.op("setp.eq.u64", (p, end, same));
        self.stride(m, rows, (stride, p), code);
    }

    /// Bounds the stride of a matrix in shared memory.
    pub(super) fn shared_rows(&mut self, m: &Member, code: &mut Code, held: RegId) {
        let Some(rows) = m.access.rows else { return };
        let (stride, span) = self.row_span(m, rows, code);
        let end = self.end_of_shared();
        let [wide, last, limit] = self.frame.several(T::B64);
        let p = self.frame.fresh(T::Pred);
        code.op("cvt.u64.u32", (wide, held));
        code.op("add.s64", (last, wide, span));
        code.op("cvt.u64.u32", (limit, end));
        code.op("setp.lt.u64", (p, last, limit));
        self.stride(m, rows, (stride, p), code);
    }

    fn row_span(&mut self, m: &Member, rows: MatrixRows, code: &mut Code) -> Span {
        let i = &self.frame.function.body[m.instruction as usize];
        let stride = match i.operands.get(rows.stride) {
            Some(Operand::Reg(r)) => *r,
            named => {
                let own = i64::from(m.access.bytes * 8 / rows.element_bits);
                let elements = match named {
                    Some(Operand::Int(n)) => *n,
                    _ => own,
                };
                let stride = self.frame.fresh(T::B32);
                code.op("mov.u32", (stride, elements));
                stride
            }
        };
        let [bits, bytes, span] = self.frame.several(T::B64);
        code.op(
            "mul.wide.u32",
            (bits, stride, rows.more * rows.element_bits),
        );
        code.op("shr.u64", (bytes, bits, 3_i64));
        code.op("add.s64", (span, bytes, m.access.bytes - 1));
        (stride, span)
    }

    /// Replaces the stride operand by one that is zero where `p` is false and a multiple of 16 bytes.
    fn stride(
        &mut self,
        m: &Member,
        rows: MatrixRows,
        (stride, p): (RegId, RegId),
        code: &mut Code,
    ) {
        let [kept, rounded] = self.frame.several(T::B32);
        let multiple = i64::from((128 / rows.element_bits).max(1));
        code.op("selp.b32", (kept, stride, 0_i64, p));
        code.op("and.b32", (rounded, kept, -multiple));
        let operands = &mut self.frame.change(m.instruction).operands;
        match operands.get_mut(rows.stride) {
            Some(operand) => *operand = Operand::Reg(rounded),
            None => operands.push(Operand::Reg(rounded)),
        }
    }
}
