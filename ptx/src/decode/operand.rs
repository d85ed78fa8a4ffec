//! Operand text to [`Operand`] (PTX ISA section 6).
//!
//! The parser has checked brackets, separators and names. What is left undecoded here (`None`) is a form that the
//! typed view does not model; its instruction becomes [`Opcode::Other`](super::Opcode::Other).

use super::function::Body;
use super::{
    AddressBase, FuncId, Operand, RegId, ScalarType, SpecialReg, Symbol, TexAddress, VarId,
};
use crate::syntax::constant::{self, Float};
use crate::syntax::cursor::Cursor;
use crate::syntax::lex::kind;
use crate::syntax::names::{Declaration, Meaning, Names};
use crate::syntax::vocabulary::VOCABULARY;

/// What operands are decoded against.
pub(crate) struct Context<'a, 'b> {
    pub(crate) names: &'a mut Names,
    pub(crate) body: &'a mut Body<'b>,
    /// The instruction's first type: it decides how wide a decimal literal is.
    pub(crate) ty: ScalarType,
    /// `bra`: the operand is a label.
    pub(crate) is_branch: bool,
    /// `call`: parentheses hold arguments rather than a constant expression.
    pub(crate) is_call: bool,
    /// `mov`, `cvta` and the like: `name[index]` is an address to hand on rather than one to go to.
    pub(crate) moves: bool,
    /// Bytes of an element of each variable that is an array.
    pub(crate) element_bytes: &'a [Option<u32>],
    /// Where the operand will stand, for labels that are defined further down.
    pub(crate) instruction: u32,
    pub(crate) operand: u32,
    /// Inside `[…]`, where `register+constant` is an address.
    pub(crate) in_brackets: bool,
}

/// Returns whether a word is `b0`, `h1`, `b3210`: bytes or halves of a register (section 9.7.17).
fn is_selector(word: &str) -> bool {
    let (part, digits) = word.split_at(word.len().min(1));
    matches!(part, "b" | "h") && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

impl Context<'_, '_> {
    /// Decodes one operand; the cursor ends behind it.
    pub(crate) fn operand(&mut self, c: &mut Cursor<'_>) -> Option<Operand> {
        match c.kind() {
            b'{' => {
                let elements = self.list(c, b'}')?;
                let vector = Operand::Vector(elements.into());
                self.resident(c, vector)
            }
            b'(' if self.is_call => Some(Operand::Arguments(self.list(c, b')')?.into())),
            b'[' => self.address(c),
            b'!' if c.kind_after() == kind::NAME => {
                c.at += 1;
                match self.operand(c)? {
                    Operand::Reg(r) => Some(Operand::NotReg(r)),
                    _ => None,
                }
            }
            b'-' if c.kind_after() == kind::NAME => {
                let mut ahead = *c;
                ahead.at += 1;
                match self.named(&mut ahead) {
                    Some(Operand::Reg(r)) => {
                        *c = ahead;
                        Some(Operand::NegReg(r))
                    }
                    Some(Operand::Selected(r, text)) => {
                        *c = ahead;
                        Some(Operand::Selected(r, format!("-{text}").into()))
                    }
                    _ => self.constant(c),
                }
            }
            kind::NAME if c.token().sym() != VOCABULARY.warp_sz => self.named(c),
            _ => self.constant(c),
        }
    }

    /// Reads `vector|predicate` of sparse textures, or the vector alone.
    fn resident(&mut self, c: &mut Cursor<'_>, vector: Operand) -> Option<Operand> {
        if !c.accept(b'|') {
            return Some(vector);
        }
        match self.operand(c)? {
            Operand::Reg(p) => Some(Operand::Resident(Box::new(vector), p)),
            Operand::Sink => Some(vector),
            _ => None,
        }
    }

    fn list(&mut self, c: &mut Cursor<'_>, close: u8) -> Option<Vec<Operand>> {
        c.at += 1;
        let mut out = Vec::new();
        while !c.accept(close) {
            out.push(self.operand(c)?);
            if !c.accept(b',') && c.kind() != close {
                return None;
            }
        }
        Some(out)
    }

    fn constant(&self, c: &mut Cursor<'_>) -> Option<Operand> {
        if !constant::is_floating(c) {
            return constant::expression(c).ok().map(Operand::Int);
        }
        Some(match constant::floating(c).ok()? {
            Float::Single(bits) => Operand::F32(bits),
            // A decimal or double literal used as f32 is rounded to nearest (section 4.5.2).
            #[allow(clippy::cast_possible_truncation)]
            Float::Double(bits) if self.ty == ScalarType::F32 => {
                Operand::F32((f64::from_bits(bits) as f32).to_bits())
            }
            Float::Double(bits) => Operand::F64(bits),
        })
    }

    fn named(&mut self, c: &mut Cursor<'_>) -> Option<Operand> {
        let token = c.bump();
        let sym = token.sym();
        if sym == VOCABULARY.sink {
            return self.pair_or(c, None, Operand::Sink);
        }
        if self.is_branch {
            return Some(self.label(sym, token.start));
        }
        let Some(d) = self.body.resolve(self.names, c.interner, sym) else {
            if let Some(special) = VOCABULARY.special(sym) {
                return special_register(c, special);
            }
            return Some(self.label(sym, token.start));
        };
        match d.meaning {
            Meaning::Register => self.register(c, d),
            Meaning::Variable
            | Meaning::ExternVariable
            | Meaning::Param
            | Meaning::ReturnParam
            | Meaning::Function => {
                let symbol = symbol(d)?;
                if c.kind() == b'[' {
                    return self.element(c, symbol);
                }
                let offset = offset(c)?;
                Some(Operand::Symbol { symbol, offset })
            }
            Meaning::BranchTable => Some(Operand::BranchTable(d.value)),
            Meaning::Prototype => Some(Operand::Prototype(d.value)),
            Meaning::Label => Some(self.label(sym, token.start)),
            Meaning::Range => None,
        }
    }

    /// Reads `name[index]`: an element of an array (section 6.4.2), for loads and stores an address.
    fn element(&mut self, c: &mut Cursor<'_>, symbol: Symbol) -> Option<Operand> {
        c.at += 1;
        let index = constant::expression(c).ok()?;
        let Symbol::Variable(v) = symbol else {
            return None;
        };
        let element = self.element_bytes.get(v.0 as usize).copied().flatten()?;
        let offset = index.checked_mul(i64::from(element))?;
        c.accept(b']').then_some({
            if self.moves {
                Operand::Symbol { symbol, offset }
            } else {
                Operand::Address {
                    base: AddressBase::Symbol(symbol),
                    offset,
                }
            }
        })
    }

    /// Returns a label, patched when its scope closes.
    fn label(&mut self, sym: crate::syntax::intern::Sym, offset: u32) -> Operand {
        let site = self.body.site(self.instruction, self.operand);
        self.names.wait(sym, offset, site);
        Operand::Target(u32::MAX)
    }

    fn register(&mut self, c: &mut Cursor<'_>, d: Declaration) -> Option<Operand> {
        let reg = RegId(d.value);
        let width = self.body.vector_width(reg);
        if c.kind() == kind::DOT {
            let suffix = c.name(c.token().sym());
            c.at += 1;
            return match suffix {
                selector if width == 1 && is_selector(selector) => {
                    Some(Operand::Selected(reg, selector.into()))
                }
                _ => {
                    let lane = match suffix {
                        "x" | "r" => 0,
                        "y" | "g" => 1,
                        "z" | "b" => 2,
                        "w" | "a" => 3,
                        _ => return None,
                    };
                    (width > 1 && lane < width).then_some(Operand::Reg(RegId(reg.0 + lane)))
                }
            };
        }
        if width > 1 {
            let all = (0..width).map(|k| Operand::Reg(RegId(reg.0 + k)));
            return Some(Operand::Vector(all.collect()));
        }
        if c.kind() == b'+' && !self.in_brackets {
            return Some(Operand::RegOffset(reg, offset(c)?));
        }
        self.pair_or(c, Some(reg), Operand::Reg(reg))
    }

    /// Reads `first|second`, or `alone` when there is no `|`.
    fn pair_or(
        &mut self,
        c: &mut Cursor<'_>,
        first: Option<RegId>,
        alone: Operand,
    ) -> Option<Operand> {
        if !c.accept(b'|') {
            return Some(alone);
        }
        match self.operand(c)? {
            Operand::Reg(second) => Some(Operand::RegPair(first, Some(second))),
            Operand::Sink => Some(Operand::RegPair(first, None)),
            _ => None,
        }
    }

    fn address(&mut self, c: &mut Cursor<'_>) -> Option<Operand> {
        c.at += 1;
        let outside = std::mem::replace(&mut self.in_brackets, true);
        let base = self.operand(c);
        self.in_brackets = outside;
        let base = base?;
        if c.accept(b',') {
            return self.texture(c, base);
        }
        let operand = match base {
            Operand::Reg(r) => Operand::Address {
                base: AddressBase::Reg(r),
                offset: offset(c)?,
            },
            Operand::Symbol { symbol, offset } => Operand::Address {
                base: AddressBase::Symbol(symbol),
                offset,
            },
            Operand::Int(offset) => Operand::Address {
                base: AddressBase::Absolute,
                offset,
            },
            _ => return None,
        };
        c.accept(b']').then_some(operand)
    }

    /// Reads `[object, {coordinates}]` or `[object, sampler, {coordinates}]`, behind the first comma.
    fn texture(&mut self, c: &mut Cursor<'_>, object: Operand) -> Option<Operand> {
        let mut next = self.operand(c)?;
        let mut sampler = None;
        if c.accept(b',') {
            sampler = Some(next);
            next = self.operand(c)?;
        }
        let coordinates = match next {
            Operand::Vector(v) => v,
            single @ Operand::Reg(_) => Box::new([single]),
            _ => return None,
        };
        c.accept(b']').then(|| {
            Operand::TexAddress(Box::new(TexAddress {
                object,
                sampler,
                coordinates,
            }))
        })
    }
}

/// Reads `+ constant` after a base, which may be negative; 0 when there is none. There is no `- constant`.
fn offset(c: &mut Cursor<'_>) -> Option<i64> {
    match c.kind() {
        b'+' => constant::expression(c).ok(),
        _ => Some(0),
    }
}

fn symbol(d: Declaration) -> Option<Symbol> {
    Some(match d.meaning {
        Meaning::Variable | Meaning::ExternVariable => Symbol::Variable(VarId(d.value)),
        Meaning::Param => Symbol::Param(d.value),
        Meaning::ReturnParam => Symbol::ReturnParam(d.value),
        Meaning::Function => Symbol::Function(FuncId(d.value)),
        _ => return None,
    })
}

/// Returns a special register, or all four of a vector of them.
fn special_register(c: &mut Cursor<'_>, special: SpecialReg) -> Option<Operand> {
    use SpecialReg as S;
    let has_axis = matches!(
        special,
        S::Tid(_)
            | S::Ntid(_)
            | S::Ctaid(_)
            | S::Nctaid(_)
            | S::Clusterid(_)
            | S::Nclusterid(_)
            | S::ClusterCtaid(_)
            | S::ClusterNctaid(_)
    );
    if !has_axis {
        return Some(Operand::Special(special));
    }
    if c.kind() != kind::DOT {
        let all = (0..4).map(|n| Operand::Special(with_axis(special, n)));
        return Some(Operand::Vector(all.collect()));
    }
    let word = c.bump().sym();
    let axis = match c.name(word) {
        "x" | "r" => 0,
        "y" | "g" => 1,
        "z" | "b" => 2,
        "w" | "a" => 3,
        _ => return None,
    };
    Some(Operand::Special(with_axis(special, axis)))
}

fn with_axis(special: SpecialReg, axis: u8) -> SpecialReg {
    use SpecialReg as S;
    match special {
        S::Tid(_) => S::Tid(axis),
        S::Ntid(_) => S::Ntid(axis),
        S::Ctaid(_) => S::Ctaid(axis),
        S::Nctaid(_) => S::Nctaid(axis),
        S::Clusterid(_) => S::Clusterid(axis),
        S::Nclusterid(_) => S::Nclusterid(axis),
        S::ClusterCtaid(_) => S::ClusterCtaid(axis),
        _ => S::ClusterNctaid(axis),
    }
}
