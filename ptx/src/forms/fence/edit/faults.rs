//! Faults that would poison a shared context: recorded in the launch's counters, then an orderly exit; and calls
//! through pointers, which go to a function of the module.
//!
//! Rule: the first fault of a launch wins, and no further block starts after it.

use super::Pass;
use crate::control::{FAULT_BLOCK_AT, FAULT_KIND_AT, FAULT_LINE_AT, NEXT_AT, NEXT_CLOSED};
use crate::decode::{Instruction, Operand, RegId};
use crate::forms::fence::judge::assertion;
use crate::forms::fence::{FaultKind, UNKNOWN_BLOCK};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;
use std::fmt::Write as _;

impl Pass<'_, '_> {
    /// Makes a trap a jump to its record at the end of the function.
    pub(super) fn trap(&mut self, n: u32, i: &Instruction, fault: FaultKind) {
        let guard = self.guard(i);
        let (label, line) = (self.fault_label(), self.line(i));
        let span = self.frame.span(n);
        self.frame
            .edits
            .replace(span, format!("{guard}bra {label};"));
        let record = self.record(fault, line);
        let leave = self.frame.leave_for_fault();
        self.frame.open_tail();
        self.frame.at_end(&format!("{label}: {record} {leave}"));
    }

    fn guard(&self, i: &Instruction) -> String {
        i.guard.map_or_else(String::new, |g| {
            let name = self.register(g.reg).0;
            let not = if g.negated { "!" } else { "" };
            format!("@{not}{name} ")
        })
    }

    fn line(&self, i: &Instruction) -> u32 {
        self.module_facts.lines.line(i.span.start)
    }

    fn fault_label(&mut self) -> String {
        self.faults += 1;
        self.frame.label(&format!("fault{}", self.faults))
    }

    /// Records the first fault of the launch, and lets no further block start.
    fn record(&mut self, fault: FaultKind, line: u32) -> String {
        let f = &mut *self.frame;
        let counters = f.fresh("b64");
        let load = f.load(Value::Counters, &counters);
        let (p, old, block) = (f.fresh("pred"), f.fresh("b32"), f.fresh("b32"));
        let number = match f.role {
            Role::Kernel(_) => block_number(f, &block),
            Role::Callee { .. } => format!("mov.u32 {block}, {UNKNOWN_BLOCK};"),
        };
        let done = f.label(&format!("recorded{}", self.faults));
        let kind = fault as u32;
        format!(
            "{load} setp.eq.u64 {p}, {counters}, 0; @{p} bra {done}; cvta.to.global.u64 {counters}, {counters}; \
             atom.global.cas.b32 {old}, [{counters}+{FAULT_KIND_AT}], 0, {kind}; setp.ne.u32 {p}, {old}, 0; \
             @{p} bra {done}; \
             {number} mov.u32 {old}, {line}; st.global.u32 [{counters}+{FAULT_LINE_AT}], {old}; \
             st.global.u32 [{counters}+{FAULT_BLOCK_AT}], {block}; \
             red.global.max.u32 [{counters}+{NEXT_AT}], {NEXT_CLOSED}; {done}:"
        )
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
        let frame = &*self.frame;
        let found = self.module_facts.targets.of(frame.id, i);
        let names: Vec<String> = found
            .iter()
            .map(|id| frame.program.functions[id.0 as usize].name.clone())
            .collect();
        let Some((first, rest)) = names.split_first() else {
            return;
        };
        let name = self.register(pointer).0;
        let (target, each) = (self.frame.fresh("b64"), self.frame.fresh("b64"));
        let p = self.frame.fresh("pred");
        let mut text = format!("mov.u64 {target}, {first}; ");
        for f in rest {
            let _ = write!(
                text,
                "mov.u64 {each}, {f}; setp.eq.u64 {p}, {name}, {each}; selp.b64 {target}, {each}, {target}, {p}; "
            );
        }
        // Labels have the scope that they stand in, so that the record stands here rather than at the end.
        let fine = self.fault_label();
        let line = self.line(i);
        let _ = write!(text, "setp.ne.u64 {p}, {name}, {target}; ");
        if let Some(g) = i.guard {
            // Where the call is not made, the pointer may be anything.
            let (guard, not) = (self.register(g.reg).0, self.frame.fresh("pred"));
            let _ = match g.negated {
                true => write!(text, "not.pred {not}, {guard}; and.pred {p}, {p}, {not}; "),
                false => write!(text, "and.pred {p}, {p}, {guard}; "),
            };
        }
        let record = self.record(FaultKind::IndirectCall, line);
        let _ = write!(text, "@!{p} bra {fine}; {record} {fine}:");
        self.frame.before(n, &text);
        self.replace_callee(n, &target);
    }
}

/// Returns text that puts the number of the thread's block, x fastest, into a register.
fn block_number(f: &mut Frame<'_>, into: &str) -> String {
    let t = f.fresh("b32");
    let mut text = f.load(Value::Ctaid(2), into);
    for axis in [1, 0] {
        let extent = f.load(Value::Nctaid(axis), &t);
        let _ = write!(text, " {extent} mul.lo.u32 {into}, {into}, {t}; ");
        let place = f.load(Value::Ctaid(axis), &t);
        let _ = write!(text, "{place} add.u32 {into}, {into}, {t};");
    }
    text
}
