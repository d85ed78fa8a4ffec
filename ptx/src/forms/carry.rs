//! Values that a function needs from the kernel that called it, carried through calls as added parameters.
//!
//! A callee cannot see the control block, so what it needs of it arrives in `.reg` parameters behind its own, which
//! cost a register only where the callee is not inlined. Every call, declaration and prototype changes alike. A
//! function whose address is taken may be reached by any indirect call, so all of those get one common list.

use super::frame::Frame;
use super::value::Values;
use crate::analysis::CallGraph;
use crate::decode::{FuncId, Opcode, Program};
use crate::rewrite::Edits;
use crate::syntax::lex::kind;
use crate::syntax::module::{FunctionSyntax, Module, Statement, StatementKind};
use std::fmt::Write as _;

/// What each function of a module is handed.
pub(crate) struct Carried {
    /// By function; kernels are handed nothing, they have the control block.
    by_function: Vec<Values>,
    /// What every indirect call passes.
    indirect: Values,
}

impl Carried {
    /// Finds what calls carry: `needs` is what each function uses itself; `reached` tells which functions a rewritten
    /// kernel may call. A function that none may call keeps its parameters.
    pub(crate) fn new(
        program: &Program,
        calls: &CallGraph,
        needs: &[Values],
        reached: &[bool],
    ) -> Self {
        let is_callee =
            |n: usize| !program.functions[n].is_entry && program.functions[n].is_defined;
        let mut by_function: Vec<Values> = (needs.iter().enumerate())
            .map(|(n, &v)| {
                if is_callee(n) && reached[n] {
                    v
                } else {
                    Values::default()
                }
            })
            .collect();
        let mut indirect = Values::default();
        // Each round adds at least one of ten values to one function, and most need two rounds.
        loop {
            let mut changed = false;
            for n in 0..by_function.len() {
                if !is_callee(n) || !reached[n] {
                    continue;
                }
                let mut now = by_function[n];
                for callee in calls.callees(n) {
                    now = now.union(by_function[callee]);
                }
                if calls.calls_indirectly(n) {
                    now = now.union(indirect);
                }
                if calls.address_taken[n] {
                    now = now.union(indirect);
                    indirect = now;
                }
                changed |= now != by_function[n];
                by_function[n] = now;
            }
            if !changed {
                break;
            }
        }
        if !indirect.is_empty() {
            for (n, values) in by_function.iter_mut().enumerate() {
                if calls.address_taken[n] && is_callee(n) {
                    *values = values.union(indirect);
                }
            }
        }
        Self {
            by_function,
            indirect,
        }
    }

    /// Returns what the function is handed.
    pub(crate) fn of(&self, function: FuncId) -> Values {
        self.by_function[function.0 as usize]
    }
}

/// Adds the formal parameters to a header, declaration or definition.
pub(crate) fn add_formals(
    module: &Module,
    syntax: &FunctionSyntax,
    values: Values,
    prefix: &str,
    edits: &mut Edits,
) {
    let list = formals(values, prefix);
    if !list.is_empty() {
        add_parameters(module, syntax, &list, edits);
    }
}

fn formals(values: Values, prefix: &str) -> String {
    let mut list = String::new();
    for v in values.iter() {
        let comma = if list.is_empty() { "" } else { ", " };
        let _ = write!(list, "{comma}.reg .{} {}", v.ty(), v.formal(prefix));
    }
    list
}

/// Puts a parameter in front of those that a header has.
pub(crate) fn add_first_parameter(
    module: &Module,
    syntax: &FunctionSyntax,
    parameter: &str,
    edits: &mut Edits,
) {
    let (open, end) = syntax.params;
    match end - open {
        0 | 2 => add_parameters(module, syntax, parameter, edits),
        _ => {
            let inside = module.token_span(open, open + 1).end;
            edits.insert(inside, format!("{parameter}, "));
        }
    }
}

/// Puts parameters behind those that a header has.
fn add_parameters(module: &Module, syntax: &FunctionSyntax, list: &str, edits: &mut Edits) {
    let (open, end) = syntax.params;
    match end - open {
        // No list at all: it goes behind the name.
        0 => edits.insert(module.token_span(open - 1, open).end, format!("({list})")),
        // `()`.
        2 => edits.insert(module.token_span(end - 1, end).start, list),
        _ => edits.insert(module.token_span(open, end - 1).end, format!(", {list}")),
    }
}

/// Passes what the callees need at every call of a function, and adds it to its prototypes.
pub(crate) fn edit(frame: &mut Frame<'_>, carried: &Carried) {
    for (n, i) in (0..).zip(&frame.function.body) {
        if i.opcode != Opcode::Call {
            continue;
        }
        let values = i.callee().map_or(carried.indirect, |f| carried.of(f));
        if !values.is_empty() {
            pass(frame, n, values);
        }
    }
    if !carried.indirect.is_empty() {
        prototypes(frame, carried.indirect);
    }
}

/// Loads the values in front of the call and names them behind its arguments.
fn pass(frame: &mut Frame<'_>, instruction: u32, values: Values) {
    let mut text = String::new();
    let mut names = String::new();
    for v in values.iter() {
        let register = match frame.formal(v) {
            Some(formal) => formal,
            None => {
                let register = frame.fresh(v.ty());
                text.push_str(&frame.load(v, &register));
                register
            }
        };
        let comma = if names.is_empty() { "" } else { ", " };
        let _ = write!(names, "{comma}{register}");
    }
    let (module, statement) = (frame.module, frame.statement(instruction));
    let Some(place) = argument_place(module, statement) else {
        return;
    };
    frame.before(instruction, &text);
    let text = match place {
        ArgumentPlace::NoList(_) => format!(", ({names})"),
        ArgumentPlace::Empty(_) => names,
        ArgumentPlace::Behind(_) => format!(", {names}"),
    };
    let (ArgumentPlace::NoList(at) | ArgumentPlace::Empty(at) | ArgumentPlace::Behind(at)) = place;
    frame.edits.insert(at, text);
}

/// Where a call's added arguments go, as a byte offset.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgumentPlace {
    /// It has no list of arguments; one goes here.
    NoList(u32),
    /// Into an empty list.
    Empty(u32),
    /// Behind the last argument.
    Behind(u32),
}

/// Reads `call (returned), callee, (passed), prototype;` as far as the passed arguments; `None` when it is not of that
/// form.
pub(crate) fn argument_place(module: &Module, statement: Statement) -> Option<ArgumentPlace> {
    let c = module.cursor(0);
    let tokens = &c.tokens[statement.first..statement.end];
    let kind_at = |at: usize| tokens.get(at).map(|t| t.kind());
    let close = |open: usize| (open..tokens.len()).find(|&at| kind_at(at) == Some(b')'));
    let token = |at: usize| module.token_span(statement.first + at, statement.first + at + 1);
    let mut at = 0;
    if kind_at(0) == Some(b'@') {
        at = if kind_at(1) == Some(b'!') { 3 } else { 2 };
    }
    at += 1;
    while kind_at(at) == Some(kind::DOT) {
        at += 1;
    }
    if kind_at(at) == Some(b'(') {
        at = close(at)? + 1;
        if kind_at(at) != Some(b',') {
            return None;
        }
        at += 1;
    }
    if kind_at(at) != Some(kind::NAME) {
        return None;
    }
    match (kind_at(at + 1), kind_at(at + 2)) {
        (Some(b';'), _) => Some(ArgumentPlace::NoList(token(at).end)),
        (Some(b','), Some(b'(')) => {
            let end = close(at + 2)?;
            let start = token(end).start;
            Some(match end == at + 3 {
                true => ArgumentPlace::Empty(start),
                false => ArgumentPlace::Behind(start),
            })
        }
        (Some(b','), Some(kind::NAME)) => Some(ArgumentPlace::NoList(token(at).end)),
        _ => None,
    }
}

/// Adds the parameters to each `.callprototype (returns) _ (parameters)` of the body.
fn prototypes(frame: &mut Frame<'_>, values: Values) {
    let module = frame.module;
    let mut list = String::new();
    for v in values.iter() {
        let comma = if list.is_empty() { "" } else { ", " };
        let _ = write!(list, "{comma}.reg .{} _", v.ty());
    }
    let (from, to) = frame.syntax.statements;
    for statement in module.statements_in(from, to) {
        if statement.kind != StatementKind::CallPrototype {
            continue;
        }
        let tokens = &module.cursor(0).tokens[statement.first..statement.end];
        let name = tokens
            .iter()
            .enumerate()
            .scan(0_i32, |depth, (at, t)| {
                *depth += i32::from(t.kind() == b'(') - i32::from(t.kind() == b')');
                Some((*depth == 0 && t.kind() == kind::NAME).then_some(at))
            })
            .flatten()
            .next();
        let Some(name) = name else { continue };
        let place =
            |token: usize| module.token_span(statement.first + token, statement.first + token + 1);
        if tokens.get(name + 1).is_none_or(|t| t.kind() != b'(') {
            frame.edits.insert(place(name).end, format!(" ({list})"));
            continue;
        }
        let mut depth = 0_i32;
        let close = (name + 1..tokens.len()).find(|&at| {
            depth += i32::from(tokens[at].kind() == b'(') - i32::from(tokens[at].kind() == b')');
            depth == 0
        });
        if let Some(close) = close {
            let comma = if close == name + 2 { "" } else { ", " };
            frame
                .edits
                .insert(place(close).start, format!("{comma}{list}"));
        }
    }
}
