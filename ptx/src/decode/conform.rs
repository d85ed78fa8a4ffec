//! Whether an instruction is what the ISA's table says of its opcode: modifiers, types, operands.
//!
//! The verdicts follow `ptxas`, with one rule above all: what it accepts is never refused here. What it refuses and
//! this module lets pass is decoded as written.

use super::isa::{Row, is_known};
use super::{
    AddressBase, AtomOp, CacheOp, FuncId, MemoryOrder, Mode, Modifiers, Opcode, Operand, RegId,
    Rounding, ScalarType as T, SpecialReg, Symbol,
};

use crate::syntax::vocabulary::{Modifier, modifier_of};
use smallvec::SmallVec;

/// The word of a mnemonic that does not belong (0 is the opcode itself), and why.
pub(crate) fn mnemonic(
    row: &Row,
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
    exclusive(row, words)?;
    let (least, most) = row.types;
    if mods.types.len() < least {
        let message = format!("`{}` needs {}", row.name(), types(least));
        return Err((words.len() - 1, message));
    }
    if row.modifiers.is_some() && mods.types.len() > most {
        let message = format!("`{}` takes no more than {}", row.name(), types(most));
        return Err((words.len() - 1, message));
    }
    required(opcode, mods).map_err(|message| (words.len() - 1, message))
}

/// At most one modifier of a kind: two roundings, comparisons or state spaces contradict each other.
fn exclusive(row: &Row, words: &[&str]) -> Result<(), (usize, String)> {
    use std::mem::discriminant;
    let mut seen: SmallVec<[std::mem::Discriminant<Modifier>; 8]> = SmallVec::new();
    for (n, word) in words.iter().enumerate().skip(row.words.len()) {
        let kind = match modifier_of(word) {
            // Types and layouts repeat; `.mmio` and `.nc` stand beside another of their kind.
            None | Some(Modifier::Type(_) | Modifier::Uni | Modifier::Order(MemoryOrder::Mmio)) => {
                continue;
            }
            Some(Modifier::Space(_)) if matches!(row.opcode, Opcode::CpAsync) => continue,
            Some(Modifier::Cache(_) | Modifier::Mode(_)) => continue,
            Some(Modifier::Part(_)) if matches!(row.opcode, Opcode::Setp | Opcode::Set) => {
                discriminant(&Modifier::Comparison(super::Comparison::Lo))
            }
            Some(m @ Modifier::Rounding(_)) => discriminant(&m),
            Some(_) if row.modifiers.is_none() => continue,
            Some(m) => discriminant(&m),
        };
        if seen.contains(&kind) {
            return Err((n, format!("`.{word}` contradicts another modifier")));
        }
        seen.push(kind);
    }
    Ok(())
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
        O::Ld | O::St => ordered(m)?,
        O::Atom | O::Red => combined(m, ty)?,
        O::Cvt => return conversion(m),
        _ => {}
    }
    if matches!(opcode, O::Setp | O::Set) {
        compared(m)?;
    }
    suited(opcode, m, ty)
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
    use super::MemoryOrder as M;
    if m.cache == Some(CacheOp::Nc) && m.spaces.first() != Some(&super::StateSpace::Global) {
        return Err("`.nc` is for `.global`".to_owned());
    }
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

/// Rounding that a conversion must name (section 9.7.9.21).
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
        return Ok(());
    }
    if m.types.len() > 2 {
        return Err("a conversion has two types".to_owned());
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
        return Err("this conversion needs a rounding: `.rzi` and the like to integers, `.rn` and the like to floating point".to_owned());
    }
    Ok(())
}

fn is_integer(t: T) -> bool {
    matches!(
        t,
        T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64
    )
}

/// What operands name.
pub(crate) struct Scope<'a> {
    /// A register's type.
    pub(crate) register: &'a dyn Fn(RegId) -> T,
    /// A symbol's state space; generic for functions.
    pub(crate) space: &'a dyn Fn(Symbol) -> super::StateSpace,
}

/// The operand that does not belong, and why.
pub(crate) fn operands(
    row: &Row,
    opcode: Opcode,
    mods: &Modifiers,
    given: &[Operand],
    scope: &Scope<'_>,
) -> Result<(), (usize, String)> {
    let (least, most) = row.count;
    if given.len() < least || given.len() > most {
        let wanted = if least == most {
            format!("{least}")
        } else if most == usize::MAX {
            format!("at least {least}")
        } else {
            format!("{least} to {most}")
        };
        let message = format!(
            "`{}` takes {wanted} operands, here are {}",
            row.name(),
            given.len()
        );
        return Err((given.len().min(most), message));
    }
    let check = Check {
        opcode,
        mods,
        scope,
    };
    for (n, (operand, letter)) in given.iter().zip(row.operands).enumerate() {
        check.operand(n, *letter, operand).map_err(|m| (n, m))?;
    }
    check.together(given)
}

/// The same for a call, whose operands are returned arguments, callee, passed arguments and maybe a prototype.
/// `callee` gives how many values a function returns and takes, when that is known.
pub(crate) fn call(
    given: &[Operand],
    callee: impl Fn(FuncId) -> Option<(usize, usize)>,
) -> Result<(), (usize, String)> {
    let (Some(Operand::Arguments(returned)), Some(target), Some(Operand::Arguments(passed))) =
        (given.first(), given.get(1), given.get(2))
    else {
        return Err((0, "a call names a function".to_owned()));
    };
    match target {
        Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        } => {
            let wanted = callee(*f);
            if wanted.is_some_and(|w| w != (returned.len(), passed.len())) {
                return Err((0, "the call has the wrong number of arguments".to_owned()));
            }
            Ok(())
        }
        Operand::Reg(_) | Operand::Address { .. } => Ok(()),
        _ => Err((
            1,
            "a function or a register that holds one is expected".to_owned(),
        )),
    }
}

struct Check<'a> {
    opcode: Opcode,
    mods: &'a Modifiers,
    scope: &'a Scope<'a>,
}

const DESTINATION: &str = "the destination must be a register";

impl Check<'_> {
    fn ty(&self, n: usize) -> T {
        let types = &self.mods.types;
        types.get(n).or(types.first()).copied().unwrap_or_default()
    }

    fn operand(&self, n: usize, letter: u8, operand: &Operand) -> Result<(), String> {
        use super::Part;
        // `add.f32.f16` and its kind: the second type is that of one source.
        let mixed = self.mods.types.len() > 1;
        let wide = self.mods.part == Some(Part::Wide);
        match letter {
            b'd' | b's'
                if mixed && matches!(self.opcode, Opcode::Add | Opcode::Sub | Opcode::Fma) =>
            {
                Ok(())
            }
            b'd' if wide => self.written(operand, double(self.ty(0))),
            b's' if wide && n == 3 => self.read(operand, double(self.ty(0))),
            b'd' => self.written(operand, self.ty(0)),
            b's' => self.read(operand, self.ty(0)),
            b't' => self.read(operand, self.ty(1)),
            b'U' => self.written(operand, T::B32),
            b'u' => self.read(operand, T::U32),
            b'v' => self.loaded(operand),
            b'w' => self.stored(operand),
            b'p' => match operand {
                Operand::Reg(r) => self.predicate(*r),
                Operand::RegPair(a, b) => a.iter().chain(b).try_for_each(|r| self.predicate(*r)),
                Operand::Sink => Ok(()),
                _ => Err("the destination must be a predicate register".to_owned()),
            },
            b'q' => match operand {
                Operand::Reg(r) | Operand::NotReg(r) => self.predicate(*r),
                Operand::Int(_) => Ok(()),
                _ => Err("a predicate register is expected".to_owned()),
            },
            b'a' => match operand {
                Operand::Address { base, .. } => self.address(*base),
                Operand::TexAddress { .. } => Ok(()),
                _ => Err("an address in brackets is expected".to_owned()),
            },
            b'l' => match operand {
                Operand::Target(_) | Operand::BranchTable(_) => Ok(()),
                _ => Err("a label is expected".to_owned()),
            },
            b'D' => self.free_destination(operand),
            _ => match operand {
                Operand::Target(_) => Err("a label cannot stand here".to_owned()),
                _ if self.opcode == Opcode::Mov => self.moved(operand),
                _ => Ok(()),
            },
        }
    }

    fn predicate(&self, r: RegId) -> Result<(), String> {
        if (self.scope.register)(r) == T::Pred {
            Ok(())
        } else {
            Err("a predicate register is expected".to_owned())
        }
    }

    /// Whether the address is in the state space that the instruction names (section 6.4.1).
    fn address(&self, base: AddressBase) -> Result<(), String> {
        use super::StateSpace as S;
        let symbol = match base {
            AddressBase::Reg(r) => {
                let ty = (self.scope.register)(r);
                return if ty == T::Pred || matches!(ty, T::F32 | T::F64) {
                    Err(format!(
                        "a register of type `.{}` holds no address",
                        name(ty)
                    ))
                } else {
                    Ok(())
                };
            }
            AddressBase::Symbol(symbol) => symbol,
            AddressBase::Absolute => return Ok(()),
        };
        if !matches!(
            self.opcode,
            Opcode::Ld | Opcode::Ldu | Opcode::St | Opcode::Atom | Opcode::Red
        ) {
            return Ok(());
        }
        let named = self.mods.spaces.first().copied().unwrap_or_default();
        let fits = match ((self.scope.space)(symbol), named) {
            (S::Const, S::Generic) | (S::Param, S::Generic) | (S::Generic, _) => false,
            (_, S::Generic) | (S::Shared, S::SharedCluster) => true,
            (a, b) => a == b,
        };
        if fits {
            Ok(())
        } else {
            Err("this name is not in the state space that the instruction names".to_owned())
        }
    }

    fn written(&self, operand: &Operand, ty: T) -> Result<(), String> {
        match operand {
            Operand::Reg(r) => self.fits(*r, ty),
            _ => Err(DESTINATION.to_owned()),
        }
    }

    fn read(&self, operand: &Operand, ty: T) -> Result<(), String> {
        match operand {
            Operand::Reg(r) => self.fits(*r, ty),
            Operand::RegOffset(r, _) => self.fits(*r, ty),
            Operand::NotReg(r) if ty == T::Pred => self.predicate(*r),
            Operand::NotReg(_) => Err("`!` is for predicates".to_owned()),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(operand, ty),
            Operand::Target(_) => Err("a label cannot stand here".to_owned()),
            Operand::Special(_) => Err("a special register can only be read by `mov`".to_owned()),
            _ => Err("a register or a constant is expected".to_owned()),
        }
    }

    /// Whether a register can hold a value of exactly this type (section 9.4.1).
    fn fits(&self, r: RegId, ty: T) -> Result<(), String> {
        let register = (self.scope.register)(r);
        if alike(register, ty) && (ty == T::Pred || register.size_bytes() == ty.size_bytes()) {
            return Ok(());
        }
        Err(mismatch(register, ty))
    }

    /// The same for loads, stores and conversions, whose registers may be wider (section 9.4.2).
    fn holds(&self, r: RegId, ty: T) -> Result<(), String> {
        let register = (self.scope.register)(r);
        if alike(register, ty) && register.size_bytes() >= ty.size_bytes() {
            return Ok(());
        }
        Err(mismatch(register, ty))
    }

    fn loaded(&self, operand: &Operand) -> Result<(), String> {
        let ty = self.ty(0);
        self.elements(operand, |o| match o {
            Operand::Reg(r) => self.holds(*r, ty),
            Operand::Sink => Ok(()),
            // A 128-bit value may come in two halves.
            Operand::Vector(_) if ty == T::B128 => Ok(()),
            _ => Err(DESTINATION.to_owned()),
        })
    }

    fn stored(&self, operand: &Operand) -> Result<(), String> {
        let ty = self.ty(0);
        self.elements(operand, |o| match o {
            Operand::Reg(r) => self.holds(*r, ty),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(o, ty),
            Operand::Vector(_) | Operand::Sink => Ok(()),
            _ => Err("a register or a constant is expected".to_owned()),
        })
    }

    /// Each element of a vector operand, of which there must be as many as `.v2` and the like say.
    fn elements(
        &self,
        operand: &Operand,
        each: impl Fn(&Operand) -> Result<(), String>,
    ) -> Result<(), String> {
        let wanted = usize::from(self.mods.vector.max(1));
        match operand {
            Operand::Vector(v) if v.len() == wanted => v.iter().try_for_each(|o| each(o)),
            Operand::Vector(v) if wanted == 1 && self.ty(0) == T::B128 && v.len() == 2 => Ok(()),
            Operand::Vector(v) => Err(format!(
                "a vector of {wanted} is expected, here are {}",
                v.len()
            )),
            _ if wanted > 1 => Err(format!("a vector of {wanted} is expected")),
            one => each(one),
        }
    }

    fn free_destination(&self, operand: &Operand) -> Result<(), String> {
        match operand {
            Operand::Int(_)
            | Operand::F32(_)
            | Operand::F64(_)
            | Operand::Special(_)
            | Operand::Symbol { .. }
            | Operand::RegOffset(..)
            | Operand::NegReg(_)
            | Operand::NotReg(_)
            | Operand::Target(_) => Err(DESTINATION.to_owned()),
            Operand::Sink if self.opcode == Opcode::Mov => Err(DESTINATION.to_owned()),
            _ if self.opcode == Opcode::Mov => self.moved(operand),
            Operand::Reg(r) if self.opcode == Opcode::Cvt => self.holds(*r, self.ty(0)),
            _ => Ok(()),
        }
    }

    fn moved(&self, operand: &Operand) -> Result<(), String> {
        let ty = self.ty(0);
        match operand {
            Operand::Reg(r) | Operand::RegOffset(r, _) => self.fits(*r, ty),
            Operand::Vector(v) => {
                let wanted = usize::from(self.mods.vector);
                if wanted > 0 && v.len() != wanted {
                    return Err(format!(
                        "a vector of {wanted} is expected, here are {}",
                        v.len()
                    ));
                }
                let packs = ty.size_bytes() > 4 && v.len() < 4;
                if wanted == 0 && !packs && v.iter().any(|o| matches!(o, Operand::Special(_))) {
                    return Err("an axis such as `.x` is missing".to_owned());
                }
                if wanted == 0 && !matches!(v.len(), 2 | 4) {
                    return Err(format!("a vector of {} is neither 2 nor 4 long", v.len()));
                }
                Ok(())
            }
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(operand, ty),
            Operand::Special(s) => special(*s, ty),
            _ => Ok(()),
        }
    }

    /// Operands that depend on modifiers.
    fn together(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        use super::AtomOp;
        use Opcode as O;
        let last = given.len().saturating_sub(1);
        match self.opcode {
            O::Setp | O::Set if given.len() == 4 && self.mods.bool_op.is_none() => Err((
                last,
                "a predicate is combined by `.and`, `.or` or `.xor`, none of which is given"
                    .to_owned(),
            )),
            O::Setp | O::Set if given.len() == 3 && self.mods.bool_op.is_some() => {
                Err((last, "the predicate to combine with is missing".to_owned()))
            }
            O::Atom if self.mods.atom == Some(AtomOp::Cas) && given.len() < 4 => Err((
                last,
                "`.cas` compares with one value and stores another".to_owned(),
            )),
            O::Cvt => self.conversion(given),
            O::Shfl => self.shuffle(given),
            O::Lop3 if !matches!(given[4], Operand::Int(_)) => {
                Err((4, "the table of truth values is a constant".to_owned()))
            }
            O::Vmad => Ok(()),
            _ if given.iter().any(negated) => {
                Err((last, "only `vmad` takes a negated register".to_owned()))
            }
            O::Isspacep => self
                .read(&given[1], T::U64)
                .or_else(|_| self.read(&given[1], T::U32))
                .map_err(|m| (1, m)),
            O::Bar | O::BarArrive => barrier_number(&given[0]).map_err(|m| (0, m)),
            O::BarRed => barrier_number(&given[1]).map_err(|m| (1, m)),
            _ => Ok(()),
        }
    }

    fn shuffle(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        match &given[0] {
            Operand::RegPair(Some(r), p) => {
                self.fits(*r, T::B32).map_err(|m| (0, m))?;
                p.iter()
                    .try_for_each(|p| self.predicate(*p).map_err(|m| (0, m)))?;
            }
            Operand::Reg(r) => self.fits(*r, T::B32).map_err(|m| (0, m))?,
            _ => {}
        }
        self.read(&given[1], T::B32).map_err(|m| (1, m))
    }

    fn conversion(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        let (to, from) = (self.ty(0), self.ty(1));
        let scalar = |t: T| is_integer(t) || matches!(t, T::F16 | T::Bf16 | T::F32 | T::F64);
        if !scalar(to) || !scalar(from) {
            return Ok(());
        }
        if given.len() > 2
            && self.mods.rounding != Some(Rounding::Rn)
            && self.mods.rounding.is_some()
        {
            return Err((2, "this conversion has one source".to_owned()));
        }
        match &given[1] {
            Operand::Reg(r) => self.holds(*r, from),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(&given[1], from),
            Operand::Target(_) => Err("a label cannot stand here".to_owned()),
            _ => Ok(()),
        }
        .map_err(|m| (1, m))
    }
}

fn negated(operand: &Operand) -> bool {
    match operand {
        Operand::NegReg(_) => true,
        Operand::Selected(_, text) => text.starts_with('-'),
        _ => false,
    }
}

/// A block has 16 barriers (section 9.7.13.1).
fn barrier_number(operand: &Operand) -> Result<(), String> {
    match operand {
        Operand::Int(n) if !(0..16).contains(n) => {
            Err("barriers are numbered from 0 to 15".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether `mov` of this type reads the special register (section 10); a 32-bit one may be cut to 16.
fn special(register: SpecialReg, ty: T) -> Result<(), String> {
    use SpecialReg as S;
    let wide = matches!(register, S::Clock64 | S::Globaltimer | S::CurrentGraphExec);
    let either = matches!(register, S::Gridid | S::Pm(_));
    let is_wide = ty.size_bytes() == 8;
    if ty.is_float() || ty == T::Pred || (wide != is_wide && !either) {
        return Err(format!(
            "this special register cannot be read as `.{}`",
            name(ty)
        ));
    }
    Ok(())
}

fn double(ty: T) -> T {
    match ty {
        T::U16 => T::U32,
        T::S16 => T::S32,
        T::U32 => T::U64,
        T::S32 => T::S64,
        other => other,
    }
}

/// Whether the kinds agree, sizes aside: bits agree with all, integers with each other, floats with their own.
fn alike(register: T, ty: T) -> bool {
    let bits = |t: T| matches!(t, T::B8 | T::B16 | T::B32 | T::B64 | T::B128);
    if (register == T::Pred) != (ty == T::Pred) {
        return false;
    }
    if register == ty || bits(register) || bits(ty) {
        return true;
    }
    is_integer(register) && is_integer(ty)
}

fn mismatch(register: T, ty: T) -> String {
    format!(
        "a register of type `.{}` cannot hold `.{}`",
        name(register),
        name(ty)
    )
}

fn name(ty: T) -> String {
    format!("{ty:?}").to_lowercase()
}

fn literal(operand: &Operand, ty: T) -> Result<(), String> {
    let is_int = matches!(operand, Operand::Int(_));
    if is_int && ty.is_float() {
        return Err("an integer constant where a floating one is expected".to_owned());
    }
    if !is_int && (is_integer(ty) || ty == T::Pred) {
        return Err("a floating constant where an integer is expected".to_owned());
    }
    Ok(())
}
