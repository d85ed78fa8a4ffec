//! Whether a mnemonic's words belong together: modifiers that its opcode has, types, what excludes or needs what.
//!
//! The verdicts follow `ptxas`, as those of [`super::conform`] do.

use super::conform::{is_integer, name};
use super::isa::{IsaRow, ROWS, is_known};
use super::needs;
use super::{AtomOp, CacheOp, MemoryOrder, Mode, Modifiers, Opcode, Rounding, ScalarType as T};
use crate::syntax::vocabulary::{Modifier, is_directive, modifier_of};
use smallvec::SmallVec;

/// Returns the word of a mnemonic that does not belong (0 is the opcode itself), and why.
pub(crate) fn check(
    row: &IsaRow,
    opcode: Opcode,
    mods: &Modifiers,
    words: &[&str],
) -> Result<(), (usize, String)> {
    let used = row.words.len();
    for (n, word) in words.iter().enumerate().skip(used) {
        match &row.modifiers {
            None if !is_known(word) => {
                return Err((n, format!("no instruction has a modifier `.{word}`")));
            }
            Some(allowed) if allowed.binary_search(word).is_err() && !row.words.contains(word) => {
                return Err((n, format!("`.{word}` is no modifier of `{}`", row.name())));
            }
            _ => {}
        }
    }
    repeated(row, words)?;
    exclusive(row, words)?;
    needs::check(opcode, &words[used..]).map_err(|(n, m)| ((used + n).min(words.len() - 1), m))?;
    // The direction of a conversion stands in front of everything (section 9.7.9.20).
    if let Some(n) = (2..words.len()).find(|&n| opcode == Opcode::Cvta && words[n] == "to") {
        return Err((n, "`.to` stands right behind `cvta`".to_owned()));
    }
    let (least, most) = row.types;
    if mods.types.len() < least {
        let message = format!("`{}` needs {}", row.name(), types(least));
        return Err((words.len() - 1, message));
    }
    if mods.types.len() > most {
        let message = format!("`{}` takes no more than {}", row.name(), types(most));
        return Err((words.len() - 1, message));
    }
    required(opcode, mods).map_err(|message| (words.len() - 1, message))
}

/// Words that ptxas lets stand twice.
pub(super) const DOUBLED: &[&str] = &[
    "sat",
    "uni",
    "sync",
    "cc",
    "approx",
    "NaN",
    "relu",
    "satfinite",
    "shiftamt",
];

/// Checks that no word stands twice but types and layouts, of which each operand has its own, the priorities of a cache
/// policy, and [`DOUBLED`].
fn repeated(row: &IsaRow, words: &[&str]) -> Result<(), (usize, String)> {
    let used = row.words.len();
    for n in used..words.len() {
        let may_repeat = matches!(modifier_of(words[n]), Some(Modifier::Type(_)))
            || matches!(words[n], "row" | "col")
            || DOUBLED.contains(&words[n])
            || row.opcode == Opcode::Createpolicy;
        if !may_repeat && words[..n].contains(&words[n]) {
            return Err((n, format!("`.{}` stands here twice", words[n])));
        }
    }
    Ok(())
}

/// Checks that there is at most one modifier of a kind: two roundings, comparisons or state spaces contradict each
/// other.
fn exclusive(row: &IsaRow, words: &[&str]) -> Result<(), (usize, String)> {
    use std::mem::discriminant;
    let mut seen: SmallVec<[std::mem::Discriminant<Modifier>; 8]> = SmallVec::new();
    for (n, word) in words.iter().enumerate().skip(row.words.len()) {
        let kind = match modifier_of(word) {
            // Types and layouts repeat; `.mmio` and `.nc` stand beside another of their kind.
            None | Some(Modifier::Type(_) | Modifier::Uni | Modifier::Order(MemoryOrder::Mmio)) => {
                continue;
            }
            Some(Modifier::Space(_)) if matches!(row.opcode, Opcode::CpAsync) => continue,
            Some(Modifier::Cache(CacheOp::Nc)) if words[..n].contains(word) => {
                return Err((n, "`.nc` stands here twice".to_owned()));
            }
            Some(Modifier::Cache(_) | Modifier::Mode(_)) => continue,
            Some(Modifier::Part(_)) if matches!(row.opcode, Opcode::Setp | Opcode::Set) => {
                discriminant(&Modifier::Comparison(super::Comparison::Lo))
            }
            Some(m @ Modifier::Space(_))
                if matches!(
                    row.opcode,
                    Opcode::LdMatrix | Opcode::StMatrix | Opcode::WmmaLoad | Opcode::WmmaStore
                ) =>
            {
                discriminant(&m)
            }
            Some(m @ Modifier::Rounding(_)) => discriminant(&m),
            Some(_) if row.modifiers.is_none() => continue,
            Some(m) => discriminant(&m),
        };
        if DOUBLED.contains(word) && words[..n].contains(word) {
            continue;
        }
        if seen.contains(&kind) {
            return Err((n, format!("`.{word}` contradicts another modifier")));
        }
        seen.push(kind);
    }
    Ok(())
}

/// Returns whether a word cannot be an opcode, not even one that the tables lack: it means something else, or it begins
/// with an opcode and ends with a modifier or another one, the dots between them lost.
pub(crate) fn is_no_opcode(word: &str) -> bool {
    if ROWS.contains_key(word) {
        return false;
    }
    let means_else = modifier_of(word).is_some() || is_directive(word);
    let ends_otherwise = |tail: &str| {
        let ends = |n: &usize| modifier_of(&tail[*n..]).is_some() || ROWS.contains_key(&tail[*n..]);
        tail.bytes().all(|b| b.is_ascii_digit()) || (0..tail.len() - 1).any(|n| ends(&n))
    };
    let is_joined = |n: usize| ROWS.contains_key(&word[..n]) && ends_otherwise(&word[n..]);
    // No opcode with its modifiers is longer.
    let is_short = word.is_ascii() && word.len() <= 64;
    word.contains('$') || means_else || (is_short && (1..word.len()).any(is_joined))
}

fn types(n: usize) -> String {
    match n {
        0 => "no type".to_owned(),
        1 => "one type such as `.u32`".to_owned(),
        n => format!("{n} types"),
    }
}

/// Modifiers that an opcode cannot do without, and pairs that exclude each other (sections 9.7.1 to 9.7.9).
fn required(opcode: Opcode, m: &Modifiers) -> Result<(), String> {
    use Opcode as O;
    let ty = m.types.first().copied().unwrap_or_default();
    let float = ty.is_float();
    let fail = |what: &str| Err(what.to_owned());
    match opcode {
        O::Add | O::Sub | O::Mul | O::Mad | O::Div if !float => {
            if m.rounding.is_some() || m.ftz || m.approx || m.full {
                return fail(
                    "an integer operation takes no rounding, `.ftz`, `.approx` or `.full`",
                );
            }
            if matches!(opcode, O::Mul | O::Mad) && m.part.is_none() {
                return fail("an integer product needs `.lo`, `.hi` or `.wide`");
            }
        }
        O::Mul | O::Mad if m.part.is_some() => {
            return fail("`.lo`, `.hi` and `.wide` are for integers");
        }
        O::Fma | O::Mad if m.rounding.is_none() => {
            return fail("a fused multiply-add needs a rounding such as `.rn`");
        }
        O::Div | O::Rcp | O::Sqrt if float && m.rounding.is_none() && !m.approx && !m.full => {
            return fail("this operation needs `.approx` or a rounding such as `.rn`");
        }
        O::Sin | O::Cos | O::Lg2 | O::Ex2 | O::Rsqrt | O::Tanh if !m.approx => {
            return fail("this operation needs `.approx`");
        }
        O::Setp | O::Set if m.comparison.is_none() => {
            return fail("a comparison such as `.lt` is missing");
        }
        O::Shf if m.direction.is_none() || m.mode.is_none() => {
            return fail("`shf` needs `.l` or `.r`, and `.clamp` or `.wrap`");
        }
        O::Shfl | O::Vote | O::Match | O::TestP if m.mode.is_none() => {
            return fail("a mode is missing");
        }
        O::Atom | O::Red | O::Redux | O::BarRed if m.atom.is_none() => {
            return fail("the operation, such as `.add`, is missing");
        }
        O::Membar | O::Fence if m.scope.is_none() => {
            return fail("a scope such as `.gpu` is missing");
        }
        O::Cvta | O::Isspacep if m.spaces.is_empty() => {
            return fail("a state space such as `.global` is missing");
        }
        O::Vote if (m.mode == Some(Mode::Ballot)) == (ty == T::Pred) => {
            return fail("`.ballot` gives `.b32`, the others `.pred`");
        }
        O::LdMatrix if m.types.is_empty() && !m.rest.iter().any(|w| w == "b8x16") => {
            return fail("a type such as `.b16` is missing");
        }
        O::Ld | O::St if m.order == Some(MemoryOrder::Mmio) => {
            return fail("`.mmio` needs `.relaxed`, `.acquire` or `.release`");
        }
        O::Ld | O::St => ordered(m)?,
        O::Atom | O::Red => combined(m, ty)?,
        O::Cvt => return conversion(m),
        _ => {}
    }
    structured(opcode, m)?;
    if matches!(opcode, O::Setp | O::Set) {
        compared(m)?;
    }
    suited(opcode, m, ty)
}

/// Checks the same for instructions on barriers, copies, several devices and matrices (sections 9.7.9, 9.7.13 to
/// 9.7.16).
fn structured(opcode: Opcode, m: &Modifiers) -> Result<(), String> {
    use Opcode as O;
    let fail = |what: &str| Err(what.to_owned());
    match opcode {
        O::MultimemLdReduce | O::MultimemSt | O::MultimemRed => scoped(m)?,
        O::MbarrierArrive | O::MbarrierArriveDrop | O::MbarrierTestWait => scoped(m)?,
        O::MbarrierArriveExpectTx | O::MbarrierArriveDropExpectTx => scoped(m)?,
        O::MbarrierTryWait | O::MbarrierExpectTx | O::MbarrierCompleteTx => scoped(m)?,
        O::FenceProxy if !m.rest.iter().any(|w| w == "async") => scoped(m)?,
        O::CpAsyncBulk | O::CpAsyncBulkTensor => copied(opcode, m)?,
        O::CpReduceAsyncBulk | O::CpReduceAsyncBulkTensor => copied(opcode, m)?,
        O::CpAsync | O::TensormapCpFenceproxy => copied(opcode, m)?,
        O::Mma | O::MmaSp | O::MmaBlockScale | O::WmmaMma => multiplied(opcode, m)?,
        O::WmmaLoad | O::WmmaStore => shaped(m)?,
        O::Tcgen05Mma if !m.rest.iter().any(|w| w.starts_with("kind::")) => {
            return fail("a kind such as `.kind::f16` is missing");
        }
        O::LdMatrix | O::StMatrix if !matches!(m.types.first(), None | Some(T::B16 | T::B8)) => {
            return fail("matrices of `.b16` or `.b8` are loaded and stored");
        }
        _ => {}
    }
    Ok(())
}

/// Modifiers that only some types have.
fn suited(opcode: Opcode, m: &Modifiers, ty: T) -> Result<(), String> {
    use super::Part;
    use Opcode as O;
    let fail = |what: &str| Err(what.to_owned());
    let integer = is_integer(ty) && !matches!(opcode, O::Set | O::Slct);
    if integer && m.ftz {
        return fail("`.ftz` is for floating point");
    }
    if integer && m.sat {
        let one_word = matches!(ty, T::S32 | T::U32);
        match opcode {
            O::Mul | O::Mad if m.part != Some(Part::Hi) => return fail("`.sat` is for `mad.hi`"),
            O::Add | O::Sub | O::Mul | O::Mad | O::Mad24 if !one_word => {
                return fail("`.sat` is for 32-bit integers");
            }
            _ => {}
        }
    }
    let carries = matches!(opcode, O::AddCc | O::SubCc | O::MadCc);
    if carries && !matches!(ty, T::U32 | T::S32 | T::U64 | T::S64) {
        return fail("`.cc` is for 32- and 64-bit integers");
    }
    if opcode == O::Div && (m.approx || m.full) && ty != T::F32 {
        return fail("`.approx` and `.full` divide `.f32` only");
    }
    if opcode == O::Rcp && m.approx && ty == T::F64 && !m.ftz {
        return fail("`rcp.approx.f64` needs `.ftz`");
    }
    if m.part == Some(Part::Wide) && ty.size_bytes() == 8 {
        return fail("`.wide` doubles 16- and 32-bit integers only");
    }
    if matches!(opcode, O::Add | O::Sub | O::Fma) && m.types.len() == 2 {
        let mixed = ty == T::F32 && matches!(m.types[1], T::F16 | T::Bf16);
        if !mixed {
            return fail("two types are for `.f32` with `.f16` or `.bf16`");
        }
    }
    if opcode == O::Ex2 && matches!(ty, T::Bf16 | T::Bf16x2) && !m.ftz {
        return fail("`ex2` of `.bf16` needs `.ftz`");
    }
    if matches!(opcode, O::AddCc | O::SubCc) && m.types.len() != 1 {
        return fail("`.cc` is for one type");
    }
    if opcode == O::Slct && !matches!(m.types.get(1), Some(T::S32 | T::F32)) {
        return fail("`slct` selects by `.s32` or `.f32`");
    }
    if matches!(opcode, O::Vshl | O::Vshr) && m.types.get(2) != Some(&T::U32) {
        return fail("a shift is by `.u32`");
    }
    if opcode == O::Tex && (m.vector == 2) != (ty == T::F16x2) {
        return fail("a texture gives `.v4`, or `.v2.f16x2`");
    }
    if opcode == O::CvtPack {
        let fits = match m.types.as_slice() {
            [_, T::S32] => matches!(ty, T::U16 | T::S16),
            [_, T::S32, T::B32] => !matches!(ty, T::S32 | T::B32),
            _ => false,
        };
        if !fits || !m.sat {
            return fail("`cvt.pack` has `.sat` and types such as `.u16.s32` or `.u8.s32.b32`");
        }
    }
    let half = matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2);
    if half && m.rounding.is_some_and(|r| r != Rounding::Rn) && m.types.len() == 1 {
        return fail("half precision is rounded by `.rn` only");
    }
    // `rcp.approx.ftz.f64` and its like exist; other operations on `.f64` never flush.
    if m.ftz && ty == T::F64 && !m.approx && opcode != O::Cvt && opcode != O::Set {
        return fail("`.ftz` is not for `.f64`");
    }
    if m.sat && ty == T::F64 && opcode != O::Cvt {
        return fail("`.sat` is not for `.f64`");
    }
    Ok(())
}

/// Orders of loads and stores: strong ones need a scope, weak ones take none (section 9.7.9.8).
fn ordered(m: &Modifiers) -> Result<(), String> {
    if m.cache == Some(CacheOp::Nc) && m.spaces.first() != Some(&super::StateSpace::Global) {
        return Err("`.nc` is for `.global`".to_owned());
    }
    scoped(m)
}

/// Checks that a strong order and a scope go together.
fn scoped(m: &Modifiers) -> Result<(), String> {
    use MemoryOrder as M;
    match (m.order, m.scope) {
        (Some(M::Relaxed | M::Acquire | M::Release), None) => {
            Err("this memory order needs a scope such as `.gpu`".to_owned())
        }
        (None | Some(M::Weak | M::Volatile), Some(_)) => {
            Err("a scope needs a memory order such as `.relaxed`".to_owned())
        }
        _ => Ok(()),
    }
}

/// Checks where an asynchronous copy goes, and where it comes from.
fn copied(opcode: Opcode, m: &Modifiers) -> Result<(), String> {
    use super::StateSpace as S;
    match m.spaces.as_slice() {
        [S::Shared, S::Global] if opcode == Opcode::CpAsync => Ok(()),
        _ if opcode == Opcode::CpAsync => {
            Err("this copy goes from `.global` to `.shared`".to_owned())
        }
        [S::Shared | S::SharedCluster, S::Global]
        | [S::Global, S::Shared]
        | [S::SharedCluster, S::Shared] => Ok(()),
        _ => Err("a copy goes from `.global` to `.shared` or back".to_owned()),
    }
}

/// Checks that a matrix has one shape such as `.m16n8k16`.
fn shaped(m: &Modifiers) -> Result<(), String> {
    let is_shape = |w: &&String| {
        let mut bytes = w.bytes();
        bytes.next() == Some(b'm') && bytes.next().is_some_and(|b| b.is_ascii_digit())
    };
    match m.rest.iter().filter(is_shape).count() {
        1 => Ok(()),
        _ => Err("a matrix has one shape such as `.m16n8k16`".to_owned()),
    }
}

/// Checks shape, layouts and types of a matrix product (sections 9.7.14.3 and 9.7.14.5).
fn multiplied(opcode: Opcode, m: &Modifiers) -> Result<(), String> {
    let fail = |what: &str| Err(what.to_owned());
    shaped(m)?;
    let layouts = m
        .rest
        .iter()
        .filter(|w| matches!(w.as_str(), "row" | "col"));
    if layouts.count() != 2 {
        return fail("a matrix product has two layouts");
    }
    let accumulates = |t: T| matches!(t, T::F16 | T::F32 | T::F64 | T::S32);
    let multiplies = |t: T| !matches!(t, T::F32 | T::S32);
    let fits = match (opcode, m.types.as_slice()) {
        (Opcode::WmmaMma, [d, c]) => accumulates(*d) && accumulates(*c),
        (Opcode::MmaBlockScale, [d, a, b, c, _]) | (_, [d, a, b, c]) => {
            accumulates(*d) && accumulates(*c) && multiplies(*a) && multiplies(*b)
        }
        _ => false,
    };
    if !fits {
        return fail("these are no types of a matrix product");
    }
    let (has, is_bit) = (
        |w: &str| m.rest.iter().any(|r| r == w),
        m.types.get(1) == Some(&T::B1),
    );
    if is_bit && !(has("popc") && (has("and") || has("xor"))) {
        return fail("a product of bits needs `.and` or `.xor`, and `.popc`");
    }
    Ok(())
}

/// Types that an atomic operation works on (sections 9.7.13.5 and 9.7.13.6).
fn combined(m: &Modifiers, ty: T) -> Result<(), String> {
    use AtomOp as A;
    let bits = matches!(ty, T::B32 | T::B64);
    let half = matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2);
    let word = matches!(ty, T::U32 | T::S32 | T::U64);
    let fits = match m.atom {
        Some(A::And | A::Or | A::Xor) => bits,
        Some(A::Exch) => bits || ty == T::B128,
        Some(A::Cas) => bits || matches!(ty, T::B16 | T::B128),
        Some(A::Inc | A::Dec) => ty == T::U32,
        Some(A::Add) => word || half || matches!(ty, T::F32 | T::F64),
        Some(A::Min | A::Max) => word || half || ty == T::S64 || m.vector > 0,
        _ => true,
    };
    if half && !m.rest.iter().any(|w| w == "noftz") {
        return Err("half precision needs `.noftz`".to_owned());
    }
    if fits {
        Ok(())
    } else {
        Err(format!("this operation does not work on `.{}`", name(ty)))
    }
}

/// Comparisons that a type has (section 9.3.1).
fn compared(m: &Modifiers) -> Result<(), String> {
    use super::Comparison as C;
    let ty = m
        .types
        .get(1)
        .or(m.types.first())
        .copied()
        .unwrap_or_default();
    let Some(comparison) = m.comparison else {
        return Ok(());
    };
    let fits = match comparison {
        C::Eq | C::Ne => true,
        C::Lt | C::Le | C::Gt | C::Ge => is_integer(ty) || ty.is_float(),
        C::Lo | C::Ls | C::Hi | C::Hs => is_integer(ty) && !ty.is_signed(),
        _ => ty.is_float(),
    };
    if !fits {
        return Err(format!("`.{}` has no such comparison", name(ty)));
    }
    if m.ftz && !ty.is_float() {
        return Err("`.ftz` is for floating point".to_owned());
    }
    Ok(())
}

/// Checks the rounding that a conversion must name (section 9.7.9.21).
fn conversion(m: &Modifiers) -> Result<(), String> {
    let (Some(&to), Some(&from)) = (m.types.first(), m.types.get(1)) else {
        return Ok(());
    };
    let plain =
        |t: T| matches!(t, T::F16 | T::Bf16 | T::F32 | T::F64) || (!t.is_float() && is_integer(t));
    let bits = |t: T| matches!(t, T::B8 | T::B16 | T::B32 | T::B64);
    if bits(to) || (bits(from) && plain(to)) {
        return Err("a conversion names integer or floating types, not bits".to_owned());
    }
    if !plain(to) || !plain(from) {
        return packed_conversion(m, to, from);
    }
    let to_integer = matches!(
        m.rounding,
        Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)
    );
    let missing = match (to.is_float(), from.is_float()) {
        (false, true) => !to_integer,
        (true, false) => m.rounding.is_none() || to_integer,
        (true, true) => to.size_bytes() < from.size_bytes() && m.rounding.is_none(),
        (false, false) => false,
    };
    let needless = match (to.is_float(), from.is_float()) {
        (false, false) => m.rounding.is_some(),
        (true, true) => to == from && m.rounding.is_some() && !to_integer,
        _ => false,
    };
    if needless || (m.ftz && !to.is_float() && !from.is_float()) {
        return Err("this conversion rounds nothing".to_owned());
    }
    if missing {
        let wanted = "`.rzi` and the like to integers, `.rn` and the like to floating point";
        return Err(format!("this conversion needs a rounding: {wanted}"));
    }
    Ok(())
}

/// Conversions to and from packed types and `.tf32`: each names its rounding, narrow types do not convert to each other
/// or to a scalar, and all but scale factors saturate.
fn packed_conversion(m: &Modifiers, to: T, from: T) -> Result<(), String> {
    let narrow = |t: T| {
        let two = matches!(t, T::E4m3x2 | T::E5m2x2 | T::E2m1x2 | T::E2m3x2 | T::E3m2x2);
        two || matches!(t, T::E4m3x4 | T::E5m2x4 | T::E2m1x4 | T::E2m3x4 | T::E3m2x4)
    };
    let half = |t: T| matches!(t, T::F16x2 | T::Bf16x2);
    let scalar =
        |t: T| t == T::Tf32 || is_integer(t) || matches!(t, T::F16 | T::Bf16 | T::F32 | T::F64);
    if (scalar(to) && from != T::F32) || (narrow(to) && narrow(from)) || (half(to) && half(from)) {
        return Err(format!(
            "`.{}` does not convert to `.{}`",
            name(from),
            name(to)
        ));
    }
    let has = |word: &str| m.rest.iter().any(|w| w == word);
    if m.rounding.is_none() && !has("rs") {
        return Err("this conversion needs a rounding such as `.rn`".to_owned());
    }
    if narrow(to) && !m.satfinite {
        return Err("this conversion needs `.satfinite`".to_owned());
    }
    Ok(())
}
