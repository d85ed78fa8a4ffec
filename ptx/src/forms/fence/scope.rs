//! Where a variable's name may be written and means that variable.
//!
//! Scopes nest and inner names hide outer ones (PTX ISA section 4.2), so text that names a variable is put only where
//! no other declaration of the function could be meant. Rule: a name that the function declares twice, or in an inner
//! scope, is never written.

use crate::decode::{Function, Program, VarId};
use crate::syntax::module::{FunctionSyntax, Module, StatementKind};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The names that a function's own declarations give a meaning.
pub(super) struct Scope<'a> {
    text: (&'a Module, &'a FunctionSyntax),
    decoded: (&'a Program, &'a Function),
    /// Variables that the function declares.
    owned: &'a [VarId],
    /// Where text at entry stands.
    entry: u32,
    /// Looked up when first asked for, which most kernels never do.
    declarations: OnceCell<Declarations<'a>>,
}

struct Declarations<'a> {
    /// How often each name is declared in the function.
    times: HashMap<&'a str, u32>,
    /// End of each declaration in the function's outermost scope, by where it starts.
    outermost: HashMap<u32, u32>,
}

impl<'a> Declarations<'a> {
    fn new(
        (module, syntax): (&Module, &FunctionSyntax),
        (program, function): (&'a Program, &'a Function),
        owned: &[VarId],
    ) -> Self {
        let mut times = HashMap::new();
        let mut note = |name: &'a str| *times.entry(name).or_insert(0) += 1;
        for v in owned {
            note(&program.variables[v.0 as usize].name);
        }
        names(function).for_each(&mut note);
        let mut outermost = HashMap::new();
        let mut depth = 0_u32;
        let (from, to) = syntax.statements;
        for s in module.statements_in(from, to) {
            match s.kind {
                StatementKind::Open => depth += 1,
                StatementKind::Close => depth = depth.saturating_sub(1),
                StatementKind::Declaration if depth == 1 => {
                    let span = module.token_span(s.first, s.end);
                    outermost.insert(span.start, span.end);
                }
                _ => {}
            }
        }
        Self { times, outermost }
    }
}

impl<'a> Scope<'a> {
    /// Finds the scopes; `entry` is the byte offset at which text at entry stands.
    pub(super) fn new(
        text: (&'a Module, &'a FunctionSyntax),
        decoded: (&'a Program, &'a Function),
        owned: &'a [VarId],
        entry: u32,
    ) -> Self {
        Self {
            text,
            decoded,
            owned,
            entry,
            declarations: OnceCell::new(),
        }
    }

    /// Returns the byte offset from which on the function may name the variable; `None` when it may not at all.
    pub(super) fn visible_from(&self, program: &Program, v: VarId) -> Option<u32> {
        let variable = &program.variables[v.0 as usize];
        let known = self
            .declarations
            .get_or_init(|| Declarations::new(self.text, self.decoded, self.owned));
        let times = known.times.get(&*variable.name).copied().unwrap_or(0);
        match (variable.owner, times) {
            (None, 0) => Some(0),
            (Some(_), 1) => known.outermost.get(&variable.span.start).copied(),
            _ => None,
        }
    }

    /// Returns whether text at entry may name the variable.
    pub(super) fn at_entry(&self, program: &Program, v: VarId) -> bool {
        self.visible_from(program, v)
            .is_some_and(|from| from <= self.entry)
    }
}

fn names(function: &Function) -> impl Iterator<Item = &str> {
    let params = function.params.iter().chain(&function.returns);
    params
        .map(|p| p.name.as_str())
        .chain(function.register_names.iter())
}
