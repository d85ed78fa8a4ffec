//! Finds the definition of each name that more than one module may see.

use super::Part;
use super::error::LinkError;
use super::shape::Shape;
use super::symbols::{Linkage, Symbol, Symbols};
use crate::decode::StateSpace;
use std::collections::HashMap;

/// A symbol of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) part: u32,
    pub(super) symbol: u32,
}

impl Id {
    /// Returns the symbol, from a list with one table for each part.
    pub(super) fn of(self, tables: &[Symbols]) -> &Symbol {
        &tables[self.part as usize].symbols[self.symbol as usize]
    }
}

/// A name that all modules share.
#[derive(Debug)]
pub(super) struct Global {
    /// The definition that stays; `None` where the device's runtime has it, or nobody needs it.
    pub(super) definition: Option<Id>,
    /// Whether the linked module has the name.
    pub(super) is_kept: bool,
    /// The first module's symbol.
    first: Id,
}

/// All names that modules share.
#[derive(Debug)]
pub(super) struct Globals<'a> {
    pub(super) list: Vec<Global>,
    by_name: HashMap<&'a str, u32>,
    /// For each part and symbol the index in `list`, or `NONE` for what only its own module sees.
    of: Vec<Vec<u32>>,
}

/// No index.
const NONE: u32 = u32::MAX;

impl Globals<'_> {
    /// Returns the index of the shared name that a part's symbol has; `None` for a symbol that only its own module
    /// sees.
    pub(super) fn of(&self, part: usize, symbol: u32) -> Option<usize> {
        let n = self.of[part][symbol as usize];
        (n != NONE).then_some(n as usize)
    }

    /// Returns the symbol behind a shared name, its definition if there is one; `None` if the linked module lacks the
    /// name.
    pub(super) fn kept(&self, name: &str) -> Option<Id> {
        let global = &self.list[*self.by_name.get(name)? as usize];
        let stands_for = global.definition.unwrap_or(global.first);
        global.is_kept.then_some(stands_for)
    }
}

/// Returns whether the device's runtime defines the function: those that nvcc declares in every module that prints,
/// allocates or asserts, and the device's side of the runtime library.
fn is_provided(name: &str) -> bool {
    let device_runtime = name
        .strip_prefix("__cudaCDP2")
        .or_else(|| name.strip_prefix("cuda"))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    device_runtime || matches!(name, "vprintf" | "malloc" | "free" | "__assertfail")
}

/// Returns whether the symbol is dynamic shared memory, which no module defines.
fn is_dynamic(symbol: &Symbol) -> bool {
    matches!(&symbol.shape, Shape::Variable(v) if v.space == StateSpace::Shared)
}

/// Checks that a module needs no other.
///
/// # Errors
/// [`LinkError::Unresolved`]: it uses what it only declares, and what is neither dynamic shared memory nor a function
/// of the device's runtime.
pub(super) fn check_alone(part: &Part, table: &Symbols) -> Result<(), LinkError> {
    let name = |symbol: &Symbol| part.module.cursor(0).name(symbol.name);
    let is_missing = |symbol: &&Symbol| {
        let is_function = matches!(symbol.shape, Shape::Function(_));
        let is_there = is_dynamic(symbol) || is_function && is_provided(name(symbol));
        symbol.definition.is_none() && symbol.is_used && !is_there
    };
    match table.symbols.iter().find(is_missing) {
        None => Ok(()),
        Some(symbol) => Err(LinkError::Unresolved {
            symbol: super::error::shown(name(symbol)),
            place: table.place(part, symbol),
        }),
    }
}

/// Finds the definition of every shared name. A name of dynamic shared memory is shared no longer: all of it begins at
/// the same address, whatever each module calls it.
///
/// # Errors
/// [`LinkError`] for a name that is defined twice, that is used and not defined, or that two modules declare
/// differently.
pub(super) fn resolve<'a>(
    parts: &'a [Part],
    tables: &mut [Symbols],
) -> Result<Globals<'a>, LinkError> {
    let mut globals = Globals {
        list: Vec::new(),
        by_name: HashMap::new(),
        of: tables.iter().map(|t| vec![NONE; t.symbols.len()]).collect(),
    };
    let linker = Linker { parts, tables };
    for id in linker.ids() {
        if id.of(linker.tables).linkage != Linkage::Local {
            linker.enter(&mut globals, id)?;
        }
    }
    let mut dynamic = Vec::new();
    for id in linker.ids() {
        let Some(g) = globals.of(id.part as usize, id.symbol) else {
            continue;
        };
        match linker.settle(&globals.list[g], id)? {
            Keeps::Nothing => {}
            Keeps::Name => globals.list[g].is_kept = true,
            Keeps::OwnName => dynamic.push(id),
        }
    }
    for Id { part, symbol } in dynamic {
        let (part, symbol) = (part as usize, symbol as usize);
        globals.of[part][symbol] = NONE;
        tables[part].symbols[symbol].linkage = Linkage::Local;
    }
    Ok(globals)
}

/// What the linked module needs for one symbol of a shared name.
enum Keeps {
    /// Nothing, because the symbol is not used.
    Nothing,
    /// The shared name.
    Name,
    /// A name of the part's own, because the symbol is dynamic shared memory.
    OwnName,
}

struct Linker<'a, 't> {
    parts: &'a [Part],
    tables: &'t [Symbols],
}

impl<'a> Linker<'a, '_> {
    /// Returns all symbols, part by part.
    fn ids(&self) -> impl Iterator<Item = Id> {
        (0_u32..).zip(self.tables).flat_map(|(part, table)| {
            let symbols = (0_u32..).zip(&table.symbols);
            symbols.map(move |(symbol, _)| Id { part, symbol })
        })
    }

    fn part(&self, id: Id) -> &'a Part {
        &self.parts[id.part as usize]
    }

    fn symbol(&self, id: Id) -> &Symbol {
        id.of(self.tables)
    }

    fn name(&self, id: Id) -> &'a str {
        self.part(id).module.cursor(0).name(self.symbol(id).name)
    }

    fn mismatch(&self, first: Id, second: Id, what: impl Into<String>) -> LinkError {
        LinkError::Mismatch {
            symbol: super::error::shown(self.name(first)),
            what: what.into(),
            first: self.place(first),
            second: self.place(second),
        }
    }

    fn place(&self, id: Id) -> super::PartLine {
        self.tables[id.part as usize].place(self.part(id), self.symbol(id))
    }

    /// Adds a symbol to its shared name, and chooses the name's definition anew if the symbol has one.
    fn enter(&self, globals: &mut Globals<'a>, id: Id) -> Result<(), LinkError> {
        // Every symbol comes from a source of at most 64 MiB, and there are not many sources.
        let next = u32::try_from(globals.list.len()).unwrap_or(NONE);
        let g = *globals.by_name.entry(self.name(id)).or_insert(next);
        if g == next {
            globals.list.push(Global {
                definition: None,
                is_kept: false,
                first: id,
            });
        }
        globals.of[id.part as usize][id.symbol as usize] = g;
        if self.symbol(id).definition.is_some() {
            let known = &mut globals.list[g as usize].definition;
            *known = Some(match *known {
                None => id,
                Some(old) => self.prefer(old, id)?,
            });
        }
        Ok(())
    }

    /// Returns which of two definitions stays.
    fn prefer(&self, old: Id, new: Id) -> Result<Id, LinkError> {
        let rank = |id| match self.symbol(id).linkage {
            Linkage::Visible => 2,
            Linkage::Common => 1,
            _ => 0,
        };
        match (rank(old), rank(new)) {
            (2, 2) => Err(LinkError::Duplicate {
                symbol: super::error::shown(self.name(old)),
                first: self.place(old),
                second: self.place(new),
            }),
            (1, 1) => self.larger(old, new),
            (a, b) if b > a => Ok(new),
            _ => Ok(old),
        }
    }

    /// Returns the larger of two `.common` variables. One of them may have an initial value, and must be the larger
    /// one.
    fn larger(&self, old: Id, new: Id) -> Result<Id, LinkError> {
        let (Shape::Variable(a), Shape::Variable(b)) =
            (&self.symbol(old).shape, &self.symbol(new).shape)
        else {
            return Ok(old);
        };
        match (a.is_initialised, b.is_initialised) {
            (true, true) => Err(LinkError::Duplicate {
                symbol: super::error::shown(self.name(old)),
                first: self.place(old),
                second: self.place(new),
            }),
            (true, false) if b.size_bytes > a.size_bytes => {
                Err(self.mismatch(new, old, "is larger than where it has an initial value"))
            }
            (false, true) if a.size_bytes > b.size_bytes => {
                Err(self.mismatch(old, new, "is larger than where it has an initial value"))
            }
            (false, true) => Ok(new),
            (false, false) if b.size_bytes > a.size_bytes => Ok(new),
            _ => Ok(old),
        }
    }

    /// Compares a symbol with the definition of its name, and returns what the linked module needs for it.
    fn settle(&self, global: &Global, id: Id) -> Result<Keeps, LinkError> {
        let symbol = self.symbol(id);
        let Some(definition) = global.definition else {
            return self.undefined(global, id, symbol);
        };
        if definition == id {
            return Ok(Keeps::Name);
        }
        let defined = self.symbol(definition);
        let sizes = (symbol.linkage, defined.linkage) != (Linkage::Common, Linkage::Common);
        if let Some(what) = symbol.shape.mismatch(&defined.shape, sizes) {
            return Err(self.mismatch(id, definition, what));
        }
        if let (Shape::Variable(a), Shape::Variable(b)) = (&symbol.shape, &defined.shape)
            && a.element_bytes() != b.element_bytes()
            && self.tables[id.part as usize].is_indexed(self.part(id), symbol)
        {
            return Err(self.mismatch(id, definition, "is indexed in elements of another size"));
        }
        Ok(Keeps::Name)
    }

    /// Returns what the linked module needs for a symbol that no module defines, which must be dynamic shared memory, a
    /// function of the device's runtime, or unused.
    fn undefined(&self, global: &Global, id: Id, symbol: &Symbol) -> Result<Keeps, LinkError> {
        let first = self.symbol(global.first);
        if is_dynamic(symbol) && is_dynamic(first) {
            return Ok(Keeps::OwnName);
        }
        if let Some(what) = symbol.shape.mismatch(&first.shape, true) {
            return Err(self.mismatch(id, global.first, what));
        }
        let is_function = matches!(symbol.shape, Shape::Function(_));
        if is_function && is_provided(self.name(id)) {
            return Ok(Keeps::Name);
        }
        if symbol.is_used {
            return Err(LinkError::Unresolved {
                symbol: super::error::shown(self.name(id)),
                place: self.place(id),
            });
        }
        Ok(Keeps::Nothing)
    }
}
