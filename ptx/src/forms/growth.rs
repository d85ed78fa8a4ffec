//! How much longer a rewrite may make a module.
//!
//! A form's text does not depend on how long its kernel is, so a module of very many tiny kernels, or of nothing but
//! traps, would grow a hundredfold. Rule: what a form adds to a module is at most [`TIMES_SOURCE`] times the module and
//! [`FREE_BYTES`](super::judge::FREE_BYTES); kernels are counted in source order, and one with which the sum would be
//! exceeded is refused. The sum is that of the text itself, made in the longest way that [`Options`] can ask for and
//! with the form for every kernel that can take it. A module of several forms stays within twice as much, which the
//! rewrite itself sees to; stamps, which are not counted, are left out of a module that would have more than that.
//!
//! Making every form of every kernel is dear, and next to no module needs it: [`may_exceed`] rules the others out.

use super::fence::{FenceMode, FenceOptions};
use super::judge::{FormVerdicts, TIMES_SOURCE, TooLong, length_limit};
use super::make::{Making, forms_of};
use super::{Form, Options, Reason, Refusal};
use crate::analysis::{Access, for_each_register};
use crate::decode::{AddressBase, Function, Guard, Opcode, Operand, Program, StateSpace};
use crate::rewrite::Edits;
use crate::syntax::module::Module;

/// The options with the longest text.
const LONGEST: Options = Options {
    fence: FenceOptions {
        mode: FenceMode::Mask,
        zero_shared: true,
    },
    stamps: false,
};

impl FormVerdicts {
    /// Judges every function. `program` must be the module's own decoding.
    #[must_use]
    pub fn new(module: &Module, program: &Program) -> Self {
        let mut verdicts = Self::of_functions(module, program);
        verdicts.too_long = measure(module, program, &verdicts);
        verdicts
    }
}

/// Measures the forms. `verdicts` is what stands against them otherwise.
fn measure(module: &Module, program: &Program, verdicts: &FormVerdicts) -> TooLong {
    let limit = length_limit(module.source().len());
    if !may_exceed(program, limit) {
        return TooLong::default();
    }
    let mut over = vec![0_u8; program.functions.len()];
    for (bit, &form) in Form::ALL.iter().enumerate().skip(1) {
        let forms = forms_of(program, verdicts, |_| form);
        let making = Making::new((module, program), verdicts, &LONGEST, forms);
        let takes = |n: usize| making.form(n) != Form::WHOLE;
        let count = |syntax, n| {
            making
                .function(n, syntax, Edits::counting(limit))
                .text_bytes()
        };
        let texts: Vec<(usize, usize)> = making
            .functions()
            .map(|(n, syntax)| (n, count(syntax, n)))
            .collect();
        // What kernels call, and those that stay whole, come first: their text is there in any case.
        let shared = texts.iter().filter(|t| !takes(t.0)).map(|t| t.1);
        let mut sum = making.head().text_bytes() + shared.sum::<usize>();
        for &(n, bytes) in texts.iter().filter(|t| takes(t.0)) {
            if sum + bytes > limit {
                over[n] |= 1 << bit;
            } else {
                sum += bytes;
            }
        }
    }
    let lines = &verdicts.module_facts.lines;
    let refusals = program.functions.iter().zip(&over).map(|(f, &over)| {
        (over != 0).then(|| Refusal {
            reason: Reason::TooMuchText(TIMES_SOURCE),
            line: lines.line(f.span.start),
        })
    });
    TooLong {
        refusals: refusals.collect(),
        over,
    }
}

/// Returns whether some form might add more than that: false for certain when it cannot.
fn may_exceed(program: &Program, limit: usize) -> bool {
    let held = program.variables.iter().filter(|v| v.owner.is_some());
    let name = held.map(|v| v.name.len()).max().unwrap_or(0);
    let mut sum = 0_usize;
    for f in &program.functions {
        sum = sum.saturating_add(most_added(f, name));
        if sum > limit {
            return true;
        }
    }
    false
}

/// Returns no less than any form adds to a function; `name` is the length of the longest name of a variable that the
/// fence may hold an access to.
fn most_added(f: &Function, name: usize) -> usize {
    let frame = if f.is_entry { 8 << 10 } else { 512 };
    let registers: usize = f.register_names.iter().map(|name| name.len() + 16).sum();
    let tables: usize = f.branch_tables.iter().map(Vec::len).sum();
    let mut sum = frame + registers + NEW_BASE_BYTES * tables;
    // The global access before, whose fence the next one shares when nothing stands between.
    let mut fenced = None;
    for i in &f.body {
        let text = (i.span.end - i.span.start) as usize;
        let address = i.operands.iter().find_map(|o| match o {
            Operand::Address { base, .. } => Some(*base),
            _ => None,
        });
        let space = i.mods.spaces.first();
        sum += match (i.opcode, address) {
            (Opcode::Trap | Opcode::Brkpt, _) => 4 << 10,
            (Opcode::Call, _) => (4 << 10) + 2 * text,
            (Opcode::Ret | Opcode::Exit, _) => 48,
            (Opcode::Bra, _) => NEW_BASE_BYTES,
            (_, Some(_)) if f.is_entry && space == Some(&StateSpace::Param) => 0,
            (_, Some(base)) if space == Some(&StateSpace::Global) => {
                let key = Some((base, i.guard));
                let shares = std::mem::replace(&mut fenced, key) == key;
                if shares { 48 } else { NEW_BASE_BYTES + text }
            }
            (_, Some(_)) => 1024 + 4 * (text + name),
            (Opcode::Bar | Opcode::BarRed | Opcode::BarArrive | Opcode::BrxIdx, _) => 512 + text,
            (Opcode::Mov | Opcode::Cvt, _) => 256,
            _ => 0,
        };
        for_each_register(i, |r, access| {
            let is_base = |(base, guard): (AddressBase, Option<Guard>)| {
                base == AddressBase::Reg(r) || guard.is_some_and(|g| g.reg == r)
            };
            if access != Access::Read && fenced.is_some_and(is_base) {
                fenced = None;
            }
        });
        if matches!(i.opcode, Opcode::Call | Opcode::Bra) {
            fenced = None;
        }
    }
    sum
}

/// Confining the base of a global access, before the access itself.
const NEW_BASE_BYTES: usize = 192;

#[cfg(test)]
mod tests {
    use super::{Edits, Form, LONGEST, Making, forms_of, most_added};
    use crate::forms::{FormVerdicts, golden_modules};

    /// What is ruled out without a measurement is ruled out rightly.
    #[test]
    fn no_form_adds_more_than_the_most() {
        let mut seen = 0;
        for (module, program) in golden_modules() {
            let verdicts = FormVerdicts::new(&module, &program);
            let name = program.variables.iter().map(|v| v.name.len()).max();
            for form in Form::ALL {
                let forms = forms_of(&program, &verdicts, |_| form);
                let making = Making::new((&module, &program), &verdicts, &LONGEST, forms);
                for (n, syntax) in making.functions().filter(|(_, s)| s.has_body) {
                    let f = &program.functions[n];
                    let edits = making.function(n, syntax, Edits::counting(usize::MAX));
                    let most = most_added(f, name.unwrap_or(0));
                    assert!(
                        edits.text_bytes() <= most,
                        "{} as {form}: {} > {most}",
                        f.name,
                        edits.text_bytes()
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen} functions");
    }
}
