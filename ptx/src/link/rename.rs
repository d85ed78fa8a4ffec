//! New names for what only its own module sees, where the linked module would have the name twice.

use super::Part;
use super::error::{LinkError, shown};
use super::resolve::Globals;
use super::symbols::{Linkage, Symbols};
use crate::syntax::module::unused_prefix;
use std::collections::{HashMap, HashSet};

/// New names by the index of their symbol, for each part.
pub(super) type Renamed = Vec<HashMap<u32, String>>;

/// In place of a part's number: several parts use a label of this name above its place.
const SEVERAL: usize = usize::MAX;

/// Finds the names that collide, and gives them new ones that no module has.
pub(super) fn rename(
    parts: &[Part],
    tables: &[Symbols],
    globals: &Globals<'_>,
) -> Result<Renamed, LinkError> {
    let awaited = awaited(parts, tables, globals)?;
    let mut seen: HashSet<&str> = HashSet::new();
    let mut prefix = None;
    let mut renamed: Renamed = vec![HashMap::new(); parts.len()];
    for (p, (part, table)) in parts.iter().zip(tables).enumerate() {
        for (s, symbol) in (0_u32..).zip(&table.symbols) {
            if symbol.linkage != Linkage::Local {
                continue;
            }
            let name = part.module.cursor(0).name(symbol.name);
            let hides = awaited.get(name).is_some_and(|&waiting| waiting != p);
            if globals.kept(name).is_none() && !hides && seen.insert(name) {
                continue;
            }
            let prefix = prefix.get_or_insert_with(|| {
                unused_prefix("linked", parts.iter().flat_map(|part| part.module.names()))
            });
            // `%` may only be a name's first character.
            let new = match name.strip_prefix('%') {
                Some(rest) => format!("{prefix}{}p_{rest}", p + 1),
                None => format!("{prefix}{}_{name}", p + 1),
            };
            renamed[p].insert(s, new);
        }
    }
    Ok(renamed)
}

/// Returns the names of labels that are used above their place, each with its part. Where such a label is used, a
/// symbol of another module by the same name would be meant instead.
fn awaited<'a>(
    parts: &'a [Part],
    tables: &[Symbols],
    globals: &Globals<'_>,
) -> Result<HashMap<&'a str, usize>, LinkError> {
    let mut awaited = HashMap::new();
    for (p, (part, table)) in parts.iter().zip(tables).enumerate() {
        for &sym in &table.uses.awaited {
            let name = part.module.cursor(0).name(sym);
            if let Some(id) = globals.kept(name) {
                let q = id.part as usize;
                return Err(LinkError::Hidden {
                    symbol: shown(name),
                    part: part.name.clone(),
                    place: tables[q].place(&parts[q], id.of(tables)),
                });
            }
            let waiting = awaited.entry(name).or_insert(p);
            if *waiting != p {
                *waiting = SEVERAL;
            }
        }
    }
    Ok(awaited)
}
