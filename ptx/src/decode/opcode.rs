//! Opcode words to [`Opcode`] and [`Modifiers`] (PTX ISA section 9).
//!
//! The first word and a few later ones pick the opcode; every other word goes through one table to one field. A
//! word that the table does not know, or that means nothing for this opcode, lands in `rest`.

use super::{AtomOp, BoolOp, CacheOp, Comparison, Mode, Modifiers, Opcode, Part};
use crate::syntax::intern::Sym;
use crate::syntax::vocabulary::{Modifier, VOCABULARY};

/// Decodes the words of an instruction; `name` gives the text of a dot-word.
pub(crate) fn decode_words<'a>(
    first: Sym,
    words: &[Sym],
    name: impl Fn(Sym) -> &'a str,
) -> (Opcode, Modifiers) {
    let texts: smallvec::SmallVec<[&str; 8]> = words.iter().map(|&w| name(w)).collect();
    let base = VOCABULARY.opcode(first).unwrap_or(Opcode::Other);
    let (opcode, consumed) = refine(base, &texts);
    let mut mods = Modifiers::default();
    for (i, (&word, &text)) in words.iter().zip(&texts).enumerate() {
        if i >= consumed.0 && i < consumed.1 {
            mods.sync |= text == "sync";
        } else {
            apply(opcode, word, text, &mut mods);
        }
    }
    (opcode, mods)
}

/// The opcode that the later words make of the first one, and which of them (half-open) are used up by it.
fn refine(base: Opcode, words: &[&str]) -> (Opcode, (usize, usize)) {
    use Opcode as O;
    let has = |w: &str| words.contains(&w);
    let none = (0, 0);
    match base {
        O::Add if has("cc") => (O::AddCc, none),
        O::Sub if has("cc") => (O::SubCc, none),
        O::Mad if has("cc") => (O::MadCc, none),
        O::Bar => {
            let skip = usize::from(words.first() == Some(&"cta"));
            match words.get(skip..).unwrap_or(&[]) {
                ["sync", ..] => (O::Bar, (0, skip + 1)),
                ["red", ..] => (O::BarRed, (0, skip + 1)),
                ["arrive", ..] => (O::BarArrive, (0, skip + 1)),
                ["warp", "sync", ..] if skip == 0 => (O::BarWarpSync, (0, 2)),
                _ => (O::Other, none),
            }
        }
        O::Cvt if words.first() == Some(&"pack") => (O::CvtPack, (0, 1)),
        O::CpAsync => match words {
            ["async", "ca" | "cg", ..] => (O::CpAsync, (0, 1)),
            ["async", "commit_group"] => (O::CpAsyncCommitGroup, (0, 2)),
            ["async", "wait_group"] => (O::CpAsyncWaitGroup, (0, 2)),
            ["async", "wait_all"] => (O::CpAsyncWaitAll, (0, 2)),
            ["async", "mbarrier", "arrive", ..] => (O::CpAsyncMbarrierArrive, (0, 3)),
            _ => (O::Other, none),
        },
        O::MbarrierInit => match words.first() {
            Some(&"init") => (O::MbarrierInit, (0, 1)),
            Some(&"inval") => (O::MbarrierInval, (0, 1)),
            Some(&"arrive") => (O::MbarrierArrive, (0, 1)),
            Some(&"arrive_drop") => (O::MbarrierArriveDrop, (0, 1)),
            Some(&"test_wait") => (O::MbarrierTestWait, (0, 1)),
            Some(&"try_wait") => (O::MbarrierTryWait, (0, 1)),
            _ => (O::Other, none),
        },
        O::WmmaMma => match words.first() {
            Some(&"load") => (O::WmmaLoad, (0, 1)),
            Some(&"store") => (O::WmmaStore, (0, 1)),
            Some(&"mma") => (O::WmmaMma, (0, 1)),
            _ => (O::Other, none),
        },
        O::BrxIdx => match words.first() {
            Some(&"idx") => (O::BrxIdx, (0, 1)),
            _ => (O::Other, none),
        },
        O::Fence
            if words
                .iter()
                .any(|w| w.starts_with("proxy") || *w == "mbarrier_init") =>
        {
            (O::Other, none)
        }
        O::Red | O::St if has("async") || has("bulk") => (O::Other, none),
        O::Mma
            if words
                .iter()
                .any(|w| w.starts_with("sp") || w.starts_with("block_scale")) =>
        {
            (O::Other, none)
        }
        O::Prefetch if has("tensormap") => (O::Other, none),
        _ => (base, none),
    }
}

fn apply(opcode: Opcode, word: Sym, text: &str, m: &mut Modifiers) {
    use Opcode as O;
    let compares = matches!(opcode, O::Setp | O::Set);
    let combines = matches!(opcode, O::Atom | O::Red | O::Redux | O::BarRed);
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
        Some(Modifier::Order(o)) => m.order = Some(o),
        Some(Modifier::Scope(s)) => m.scope = Some(s),
        // `.nc` names the path, whatever eviction hint stands beside it.
        Some(Modifier::Cache(c)) if m.cache != Some(CacheOp::Nc) => m.cache = Some(c),
        Some(Modifier::Cache(_)) => {}
        Some(Modifier::Mode(mode))
            if !matches!(mode, Mode::Left | Mode::Right) || opcode == O::Shf =>
        {
            m.mode = Some(mode)
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
