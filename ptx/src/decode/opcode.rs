//! Opcode words to [`Opcode`] and [`Modifiers`] (PTX ISA section 9).
//!
//! A row of [`super::isa`] picks the opcode; every later word goes through one table to one field. A word that the
//! table does not know, or that means nothing for this opcode, lands in `rest`. Modules repeat few mnemonics many
//! times, so each is taken apart and checked once ([`Mnemonics`]).

use super::isa::{IsaRow, ROWS};
use super::mnemonic;
use super::{AtomOp, BoolOp, CacheOp, Comparison, MemoryOrder, Mode, Modifiers, Opcode, Part};
use crate::syntax::intern::{Interner, Sym};
use crate::syntax::vocabulary::{Modifier, VOCABULARY};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// A mnemonic that was met: what it means, and what is wrong with it.
pub(crate) struct Mnemonic {
    pub(crate) text: Arc<str>,
    pub(crate) opcode: Opcode,
    pub(crate) mods: Arc<Modifiers>,
    /// What its operands must be; `None` for opcodes that the ISA's table does not have.
    pub(crate) row: Option<&'static IsaRow>,
    /// The word that does not belong (0 is the first one), and why.
    pub(crate) wrong: Option<(usize, String)>,
}

/// Every mnemonic of the module so far.
pub(crate) struct Mnemonics {
    names: Interner,
    known: Vec<Mnemonic>,
}

impl Mnemonics {
    pub(crate) fn new() -> Self {
        Self {
            names: Interner::new(),
            known: Vec::new(),
        }
    }

    /// Returns the mnemonic with this text, taken apart when it is a new one. `words` are its words without dots.
    pub(crate) fn get<'a>(
        &mut self,
        text: &[u8],
        words: impl FnOnce() -> Vec<(Sym, &'a str)>,
    ) -> &Mnemonic {
        let id = self.names.intern(text).0 as usize;
        if id == self.known.len() {
            let text = String::from_utf8_lossy(text).into();
            self.known.push(take_apart(text, &words()));
        }
        &self.known[id]
    }
}

thread_local! {
    /// The mnemonics of instructions that forms add.
    static ADDED: RefCell<Added> = RefCell::default();
}

/// What mnemonics of this crate's own mean.
type Added = HashMap<&'static str, (Opcode, Arc<str>, Arc<Modifiers>)>;

/// Returns what a mnemonic that this crate writes means.
///
/// # Panics
/// In builds with assertions, where the opcode table does not know it.
pub(super) fn added(text: &'static str) -> (Opcode, Arc<str>, Arc<Modifiers>) {
    ADDED.with_borrow_mut(|known| {
        let take = || {
            let it = by_itself(text);
            debug_assert!(
                it.row.is_some() && it.wrong.is_none(),
                "`{text}`: {:?}",
                it.wrong
            );
            (it.opcode, it.text, it.mods)
        };
        known.entry(text).or_insert_with(take).clone()
    })
}

/// Returns the row of the opcode table for a mnemonic.
#[cfg(debug_assertions)]
pub(super) fn row_of(text: &str) -> Option<&'static IsaRow> {
    by_itself(text).row
}

/// Takes a mnemonic apart that stands in no module.
fn by_itself(text: &str) -> Mnemonic {
    // What is in no table of words is a modifier without a field.
    let word = |word: &'_ str| {
        VOCABULARY
            .interner
            .find(word.as_bytes())
            .unwrap_or(Sym(u32::MAX))
    };
    let words: Vec<_> = text.split('.').map(|text| (word(text), text)).collect();
    take_apart(text.into(), &words)
}

fn take_apart(text: Arc<str>, words: &[(Sym, &str)]) -> Mnemonic {
    let texts: Vec<&str> = words.iter().map(|w| w.1).collect();
    let row = texts
        .first()
        .and_then(|first| ROWS.get(*first))
        .and_then(|rows| {
            rows.iter()
                .find(|r| texts.len() >= r.words.len() && texts[..r.words.len()] == r.words)
        });
    let opcode = row.map_or(Opcode::Other, |r| refine(r.opcode, &texts));
    let used = row.map_or(1, |r| r.words.len());
    let mut mods = Modifiers {
        sync: texts[..used].contains(&"sync"),
        ..Modifiers::default()
    };
    for &(word, text) in &words[used..] {
        apply(opcode, word, text, &mut mods);
    }
    let wrong = match row {
        Some(row) => mnemonic::check(row, opcode, &mods, &texts).err(),
        // `bar` alone, `cp.sync`: the first word is known and what it should be followed by is missing.
        None if texts.first().is_some_and(|first| ROWS.contains_key(first)) => {
            Some((0, format!("`{text}` is no instruction of PTX")))
        }
        None if texts
            .first()
            .is_some_and(|first| mnemonic::is_no_opcode(first)) =>
        {
            Some((0, format!("`{}` is no opcode", texts[0])))
        }
        None => None,
    };
    Mnemonic {
        text,
        opcode,
        mods: Arc::new(mods),
        row,
        wrong,
    }
}

/// Returns the opcode that a word further on makes of the row's.
fn refine(opcode: Opcode, words: &[&str]) -> Opcode {
    use Opcode as O;
    let has = |w: &str| words.contains(&w);
    match opcode {
        O::Add if has("cc") => O::AddCc,
        O::Sub if has("cc") => O::SubCc,
        O::Mad if has("cc") => O::MadCc,
        O::Mma if has("block_scale") => O::MmaBlockScale,
        O::Mma if words.iter().any(|w| *w == "sp" || w.starts_with("sp::")) => O::MmaSp,
        O::Prefetch if has("tensormap") => O::PrefetchTensormap,
        other => other,
    }
}

fn apply(opcode: Opcode, word: Sym, text: &str, m: &mut Modifiers) {
    use Opcode as O;
    let compares = matches!(opcode, O::Setp | O::Set | O::Vset | O::Vset2 | O::Vset4);
    let combines = matches!(
        opcode,
        O::Atom
            | O::Red
            | O::RedAsync
            | O::Redux
            | O::BarRed
            | O::Sured
            | O::MultimemLdReduce
            | O::MultimemRed
            | O::CpReduceAsyncBulk
            | O::CpReduceAsyncBulkTensor
    );
    match VOCABULARY.modifier(word) {
        Some(Modifier::Type(t)) => m.types.push(t),
        Some(Modifier::Rounding(r)) => m.rounding = Some(r),
        Some(Modifier::Space(s)) => m.spaces.push(s),
        Some(Modifier::Vector(n))
            if text.starts_with('v') || matches!(opcode, O::LdMatrix | O::StMatrix) =>
        {
            m.vector = n
        }
        Some(Modifier::Atom(op)) if combines => m.atom = Some(op),
        Some(Modifier::Atom(op)) if compares => match op {
            AtomOp::And => m.bool_op = Some(BoolOp::And),
            AtomOp::Or => m.bool_op = Some(BoolOp::Or),
            AtomOp::Xor => m.bool_op = Some(BoolOp::Xor),
            _ => m.rest.push(text.to_owned()),
        },
        // `.mmio` stands beside an order.
        Some(Modifier::Order(MemoryOrder::Mmio)) if m.order.is_some() => {}
        Some(Modifier::Order(o)) => m.order = Some(o),
        Some(Modifier::Scope(s)) => m.scope = Some(s),
        // `.nc` names the path, whatever eviction hint stands beside it.
        Some(Modifier::Cache(c)) if m.cache != Some(CacheOp::Nc) => m.cache = Some(c),
        Some(Modifier::Cache(_)) => {}
        Some(Modifier::Mode(mode @ (Mode::Left | Mode::Right))) if opcode == O::Shf => {
            m.direction = Some(mode);
        }
        Some(Modifier::Mode(mode)) if !matches!(mode, Mode::Left | Mode::Right) => {
            m.mode = Some(mode);
        }
        Some(Modifier::Part(p)) if compares => match p {
            Part::Lo => m.comparison = Some(Comparison::Lo),
            Part::Hi => m.comparison = Some(Comparison::Hi),
            Part::Wide => m.rest.push(text.to_owned()),
        },
        Some(Modifier::Part(p)) => m.part = Some(p),
        Some(Modifier::Comparison(c)) if compares => m.comparison = Some(c),
        Some(Modifier::Ftz) => m.ftz = true,
        Some(Modifier::Sat) => m.sat = true,
        Some(Modifier::Satfinite) => m.satfinite = true,
        Some(Modifier::Approx) => m.approx = true,
        Some(Modifier::Full) => m.full = true,
        Some(Modifier::Relu) => m.relu = true,
        Some(Modifier::Nan) => m.nan = true,
        Some(Modifier::XorsignAbs) => m.xorsign_abs = true,
        Some(Modifier::To) => m.to = true,
        Some(Modifier::Sync) => m.sync = true,
        Some(Modifier::Aligned) => m.aligned = true,
        Some(Modifier::Uni) if opcode == O::Vote => m.mode = Some(Mode::Uni),
        Some(Modifier::Uni) => m.uni = true,
        _ if text == "abs" && m.xorsign_abs => {}
        _ if text == "cc" && matches!(opcode, O::AddCc | O::SubCc | O::MadCc) => {}
        _ => m.rest.push(text.to_owned()),
    }
}
