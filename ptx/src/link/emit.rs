//! The linked text: the parts' statements in their order, cut, replaced and renamed.

use super::error::LinkError;
use super::rename::Renamed;
use super::resolve::{Globals, Id};
use super::shape::Shape;
use super::symbols::{Linkage, Site, Symbols, What};
use super::{Part, within_limit};
use crate::decode::Span;
use crate::rewrite::Edits;
use crate::syntax::module::StatementKind as K;
use std::collections::HashMap;

/// Writes the linked text.
pub(super) fn emit(
    parts: &[Part],
    tables: &[Symbols],
    globals: &Globals<'_>,
    renamed: &Renamed,
    header: String,
) -> Result<Vec<u8>, LinkError> {
    let mut writer = Writer {
        parts,
        tables,
        globals,
        declared: vec![false; globals.list.len()],
    };
    let mut out = header.into_bytes();
    for (p, part) in parts.iter().enumerate() {
        let changes = writer.changes(p);
        let mut edits = Edits::new();
        let mut bytes = out.len() + part.module.source().len();
        for (span, text) in &changes {
            bytes = within_limit(bytes + text.len() - (span.end - span.start) as usize)?;
            edits.replace(*span, text);
        }
        for (span, text) in new_names(&tables[p], &renamed[p], &changes) {
            bytes = within_limit(bytes + text.len() - (span.end - span.start) as usize)?;
            edits.replace(span, text);
        }
        out.extend(edits.apply(&part.module));
        // The last line may be a comment.
        out.push(b'\n');
    }
    Ok(out)
}

/// A span and what takes its place.
type Change = (Span, String);

/// What becomes of a site.
enum Fate {
    Stays,
    Goes,
    /// It is replaced by this declaration of what is defined further down.
    Becomes(String),
}

struct Writer<'a> {
    parts: &'a [Part],
    tables: &'a [Symbols],
    globals: &'a Globals<'a>,
    /// Whether the text so far declares the shared name.
    declared: Vec<bool>,
}

impl Writer<'_> {
    /// Returns a part's statements that are deleted or replaced, in order and without overlap.
    fn changes(&mut self, p: usize) -> Vec<Change> {
        let module = &self.parts[p].module;
        let mut changes: Vec<Change> = module
            .statements()
            .filter(|(kind, _)| {
                matches!(
                    kind,
                    K::Version | K::Target | K::AddressSize | K::File | K::Loc | K::Section
                )
            })
            .map(|(_, span)| (span, String::new()))
            .collect();
        let sites = &self.tables[p].sites;
        let mut at = 0;
        while let Some(site) = sites.get(at) {
            let together = sites[at..]
                .iter()
                .take_while(|s| s.statement == site.statement);
            let end = at + together.count();
            self.statement(p, (at, end), &mut changes);
            at = end;
        }
        changes.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let mut end = 0;
        changes.retain(|(span, _)| {
            // A change inside a changed statement is not needed.
            let apart = span.start >= end;
            end = end.max(span.end);
            apart
        });
        changes
    }

    /// Adds the changes of one statement, which may declare several variables.
    fn statement(&mut self, p: usize, (from, to): (usize, usize), changes: &mut Vec<Change>) {
        let sites = &self.tables[p].sites[from..to];
        let mut stays = Vec::with_capacity(sites.len());
        let mut forward = String::new();
        for (n, site) in sites.iter().enumerate() {
            let fate = self.fate(p, from + n, site);
            stays.push(matches!(fate, Fate::Stays));
            if let Fate::Becomes(text) = fate {
                forward.push_str(&text);
            }
        }
        let statement = sites[0].statement;
        let Some(first) = stays.iter().position(|&stays| stays) else {
            changes.push((statement, forward));
            return;
        };
        if !forward.is_empty() {
            let start = statement.start;
            changes.push((Span { start, end: start }, forward));
        }
        let declarator = |n: usize| match sites[n].what {
            What::Variable { declarator } => declarator,
            _ => sites[n].statement,
        };
        for n in (0..sites.len()).filter(|&n| !stays[n]) {
            // Deletes the comma behind the name or, if an earlier name stays, the comma in front of it.
            let (start, end) = match n < first {
                true => (declarator(n).start, declarator(n + 1).start),
                false => (declarator(n - 1).end, declarator(n).end),
            };
            changes.push((Span { start, end }, String::new()));
        }
    }

    /// Decides what becomes of a site, the part's `at`th.
    fn fate(&mut self, p: usize, at: usize, site: &Site) -> Fate {
        let Some(g) = self.globals.of(p, site.symbol) else {
            return Fate::Stays;
        };
        let global = &self.globals.list[g];
        if !global.is_kept {
            return Fate::Goes;
        }
        let is_own = global
            .definition
            .is_some_and(|id| (id.part as usize, id.symbol) == (p, site.symbol));
        let symbol = &self.tables[p].symbols[site.symbol as usize];
        if is_own && symbol.definition.is_some_and(|own| own as usize == at) {
            self.declared[g] = true;
            return Fate::Stays;
        }
        let is_alias = matches!(site.what, What::Alias);
        if is_alias || std::mem::replace(&mut self.declared[g], true) {
            return Fate::Goes;
        }
        match global.definition {
            Some(_) if is_own && site.linkage != Linkage::Extern => Fate::Stays,
            Some(definition) => Fate::Becomes(self.forward(definition)),
            None => Fate::Stays,
        }
    }

    /// Returns a declaration of a symbol that is defined further down.
    fn forward(&self, id: Id) -> String {
        let module = &self.parts[id.part as usize].module;
        let symbol = id.of(self.tables);
        match &symbol.shape {
            Shape::Variable(shape) => shape.forward(module.cursor(0).name(symbol.name)),
            Shape::Function(shape) => {
                let span = symbol.header.unwrap_or_default();
                let text = &module.source()[span.start as usize..span.end as usize];
                let noreturn = if shape.is_noreturn { " .noreturn" } else { "" };
                format!("{}{noreturn};", String::from_utf8_lossy(text))
            }
        }
    }
}

/// Returns the places where a renamed symbol is named, each with the new name, except inside `changes`.
fn new_names<'a>(
    table: &'a Symbols,
    renamed: &'a HashMap<u32, String>,
    changes: &[Change],
) -> Vec<(Span, &'a str)> {
    if renamed.is_empty() {
        return Vec::new();
    }
    let declared = table.sites.iter().filter_map(|site| {
        // An alias uses both of its names.
        let declares = !matches!(site.what, What::Alias);
        declares.then_some((site.name, renamed.get(&site.symbol)?.as_str()))
    });
    let span = |symbol: u32, start: u32| {
        let site = table.symbols[symbol as usize].site;
        let name = table.sites[site as usize].name;
        let end = start + (name.end - name.start);
        Span { start, end }
    };
    let used = table.uses.found.iter().filter_map(|&(sym, start)| {
        let symbol = table.symbol_of(sym)?;
        Some((span(symbol, start), renamed.get(&symbol)?.as_str()))
    });
    let mut places: Vec<(Span, &str)> = declared.chain(used).collect();
    places.sort_unstable_by_key(|(span, _)| span.start);
    let mut gone = changes.iter().map(|(span, _)| *span).peekable();
    places.retain(|(span, _)| {
        while gone.next_if(|cut| cut.end <= span.start).is_some() {}
        gone.peek().is_none_or(|cut| cut.start >= span.end)
    });
    places
}
