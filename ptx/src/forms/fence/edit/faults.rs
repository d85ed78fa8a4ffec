//! Faults that would poison a shared context: recorded in the launch's counters, then an orderly exit; and calls
//! through pointers, which go to a function of the module.
//!
//! Rule: the first fault of a launch wins, and no further block starts after it.

use super::Pass;
use crate::control::{FAULT_BLOCK_AT, FAULT_KIND_AT, FAULT_LINE_AT, NEXT_AT, NEXT_CLOSED};
use crate::decode::{Instruction, Operand, RegId, ScalarType as T, Symbol};
use crate::forms::code::{Code, Label, at};
use crate::forms::fence::judge::assertion;
use crate::forms::fence::{FaultKind, UNKNOWN_BLOCK};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;

/// Where a function's traps go on to, and the registers in which they say what they were.
#[derive(Clone, Copy)]
pub(super) struct Traps {
    record: Label,
    kind: RegId,
    line: RegId,
}

impl Pass<'_, '_> {
    /// Makes a trap a jump to the end of the function, where it says what and where it was and goes on to
    /// [`Self::record_traps`].
    pub(super) fn trap(&mut self, n: u32, i: &Instruction, fault: FaultKind) {
        let frame = &mut *self.frame;
        let traps = *self.traps.get_or_insert_with(|| Traps {
            record: frame.label(),
            kind: frame.fresh(T::B32),
            line: frame.fresh(T::B32),
        });
        let label = self.frame.label();
        self.frame.replace_operation(n, "bra", (label,));
        self.frame.open_tail();
        let line = self.line(i);
        let mut code = Code::new();
        code.label(label);
        code.op("mov.u32", (traps.kind, fault as u32));
        code.op("mov.u32", (traps.line, line));
        code.op("bra", (traps.record,));
        self.frame.at_end(code);
    }

    /// Records what a trap was, once for all of the function's, and leaves.
    pub(super) fn record_traps(&mut self) {
        let Some(Traps { record, kind, line }) = self.traps else {
            return;
        };
        let mut code = Code::new();
        code.label(record);
        self.record(kind, line, &mut code);
        code.append(self.frame.leave_for_fault());
        self.frame.at_end(code);
    }

    fn line(&self, i: &Instruction) -> u32 {
        self.module_facts.lines.line(i.span.start)
    }

    /// Records the first fault of the launch, and lets no further block start.
    fn record(&mut self, kind: RegId, line: RegId, code: &mut Code) {
        let f = &mut *self.frame;
        let counters = f.fresh(T::B64);
        let (p, old, block) = (f.fresh(T::Pred), f.fresh(T::B32), f.fresh(T::B32));
        let done = f.label();
        code.append(f.load(Value::Counters, counters));
        code.op("setp.eq.u64", (p, counters, 0_i64));
        code.op_if(p, "bra", (done,));
        code.op("cvta.to.global.u64", (counters, counters));
        code.op(
            "atom.global.cas.b32",
            (old, at(counters, FAULT_KIND_AT), 0_i64, kind),
        );
        code.op("setp.ne.u32", (p, old, 0_i64));
        code.op_if(p, "bra", (done,));
        match f.role {
            Role::Kernel(_) => block_number(f, block, code),
            Role::Callee { .. } => code.op("mov.u32", (block, UNKNOWN_BLOCK)),
        }
        code.op("st.global.u32", (at(counters, FAULT_LINE_AT), line));
        code.op("st.global.u32", (at(counters, FAULT_BLOCK_AT), block));
        code.op("red.global.max.u32", (at(counters, NEXT_AT), NEXT_CLOSED));
        code.label(done);
    }

    pub(super) fn call(&mut self, n: u32, i: &Instruction) {
        if let Some(fault) = assertion(self.frame.program, i) {
            return self.trap(n, i, fault);
        }
        if let Some(Operand::Reg(r)) = i.operands.get(1) {
            self.indirect_call(n, i, *r);
        }
    }

    /// Makes a call through a pointer go to one of the functions that it may mean; any other is recorded first.
    fn indirect_call(&mut self, n: u32, i: &Instruction, pointer: RegId) {
        let found = self.module_facts.targets.of(self.frame.id, i);
        let Some((first, rest)) = found.split_first() else {
            return;
        };
        let [target, each] = self.frame.several(T::B64);
        let p = self.frame.fresh(T::Pred);
        let mut code = Code::new();
        code.op("mov.u64", (target, Symbol::Function(*first)));
        for function in rest {
            code.op("mov.u64", (each, Symbol::Function(*function)));
            code.op("setp.eq.u64", (p, pointer, each));
            code.op("selp.b64", (target, each, target, p));
        }
        code.op("setp.ne.u64", (p, pointer, target));
        if let Some(guard) = i.guard {
            // Where the call is not made, the pointer may be anything.
            let mut holds = guard.reg;
            if guard.negated {
                holds = self.frame.fresh(T::Pred);
                code.op("not.pred", (holds, guard.reg));
            }
            code.op("and.pred", (p, p, holds));
        }
        let fine = self.frame.label();
        code.op_unless(p, "bra", (fine,));
        let [kind, line] = self.frame.several(T::B32);
        code.op("mov.u32", (kind, FaultKind::IndirectCall as u32));
        code.op("mov.u32", (line, self.line(i)));
        self.record(kind, line, &mut code);
        code.label(fine);
        self.frame.before(n, code);
        self.frame.replace_operand(n, 1, target);
    }
}

/// Adds what puts the number of the thread's block, x fastest, into a register.
fn block_number(f: &mut Frame<'_>, into: RegId, code: &mut Code) {
    let t = f.fresh(T::B32);
    code.append(f.load(Value::Ctaid(2), into));
    for axis in [1, 0] {
        code.append(f.load(Value::Nctaid(axis), t));
        code.op("mul.lo.u32", (into, into, t));
        code.append(f.load(Value::Ctaid(axis), t));
        code.op("add.u32", (into, into, t));
    }
}
