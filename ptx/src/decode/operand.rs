//! Operand text to [`Operand`] (PTX ISA section 6).
//!
//! The parser has checked brackets, separators and names. What is left undecoded here (`None`) is a form that the
//! typed view does not model; its instruction becomes [`Opcode::Other`](super::Opcode::Other).

use super::function::Body;
use super::{AddressBase, FuncId, Operand, RegId, ScalarType, SpecialReg, Symbol, VarId};
use crate::syntax::constant::{self, Float};
use crate::syntax::cursor::Cursor;
use crate::syntax::lex::kind;
use crate::syntax::names::{Declaration, Meaning, Names};
use crate::syntax::vocabulary::VOCABULARY;
use smallvec::SmallVec;

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
    /// Where the operand will stand, for labels that are defined further down.
    pub(crate) instruction: u32,
    pub(crate) operand: u32,
}

impl Context<'_, '_> {
    /// Decodes one operand; the cursor ends behind it.
    pub(crate) fn operand(&mut self, c: &mut Cursor<'_>) -> Option<Operand> {
        match c.kind() {
            b'{' => {
                let elements = self.list(c, b'}')?;
                Some(Operand::Vector(
                    elements.into_iter().map(Box::new).collect(),
                ))
            }
            b'(' if self.is_call => Some(Operand::Arguments(self.list(c, b')')?)),
            b'[' => self.address(c),
            b'!' if c.kind_after() == kind::NAME => {
                c.at += 1;
                match self.operand(c)? {
                    Operand::Reg(r) => Some(Operand::NotReg(r)),
                    _ => None,
                }
            }
            kind::NAME if c.token().sym() != VOCABULARY.warp_sz => self.named(c),
            _ => self.constant(c),
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
        let negative = c.kind() == b'-' && c.kind_after() == kind::FLOAT;
        if negative {
            c.at += 1;
        }
        if c.kind() == kind::FLOAT {
            let token = c.bump();
            return Some(match constant::float(c.text(token))? {
                Float::Single(bits) => Operand::F32(bits ^ (u32::from(negative) << 31)),
                Float::Double(bits) => {
                    let bits = bits ^ (u64::from(negative) << 63);
                    if self.ty == ScalarType::F32 {
                        // A decimal or double literal used as f32 is rounded to nearest (section 4.5.2).
                        #[allow(clippy::cast_possible_truncation)]
                        let single = f64::from_bits(bits) as f32;
                        Operand::F32(single.to_bits())
                    } else {
                        Operand::F64(bits)
                    }
                }
            });
        }
        constant::expression(c).ok().map(Operand::Int)
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
                return special_register(c, special).map(Operand::Special);
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
                let offset = offset(c)?;
                Some(Operand::Symbol { symbol, offset })
            }
            Meaning::BranchTable => Some(Operand::BranchTable(d.value)),
            Meaning::Prototype => Some(Operand::Prototype(d.value)),
            Meaning::Label => Some(self.label(sym, token.start)),
            Meaning::Range => None,
        }
    }

    /// A label, patched when its scope closes.
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
                _ if width == 1 && is_selector(suffix) => {
                    Some(Operand::Selected(reg, suffix.to_owned()))
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
            let all = (0..width).map(|k| Box::new(Operand::Reg(RegId(reg.0 + k))));
            return Some(Operand::Vector(all.collect()));
        }
        self.pair_or(c, Some(reg), Operand::Reg(reg))
    }

    /// `first|second`, or `alone` when there is no `|`.
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
        let base = self.operand(c)?;
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

    /// `[object, {coordinates}]` or `[object, sampler, {coordinates}]`, behind the first comma.
    fn texture(&mut self, c: &mut Cursor<'_>, object: Operand) -> Option<Operand> {
        let mut next = self.operand(c)?;
        let mut sampler = None;
        if c.accept(b',') {
            sampler = Some(Box::new(next));
            next = self.operand(c)?;
        }
        let coordinates = match next {
            Operand::Vector(v) => v,
            single @ Operand::Reg(_) => SmallVec::from_iter([Box::new(single)]),
            _ => return None,
        };
        c.accept(b']').then(|| Operand::TexAddress {
            object: Box::new(object),
            sampler,
            coordinates,
        })
    }
}

/// Bytes or half-words of a video instruction's operand: `b0`, `h1`, `b7654`, `h10` (PTX ISA section 9.7.17).
fn is_selector(suffix: &str) -> bool {
    let (kind, digits) = suffix.split_at(1);
    let most = match kind {
        "b" => 4,
        "h" => 2,
        _ => return false,
    };
    (1..=most).contains(&digits.len()) && digits.bytes().all(|d| d.is_ascii_digit())
}

/// `+ constant` or `- constant` after a base, repeated; 0 when there is none.
fn offset(c: &mut Cursor<'_>) -> Option<i64> {
    match c.kind() {
        b'+' | b'-' => constant::expression(c).ok(),
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

fn special_register(c: &mut Cursor<'_>, special: SpecialReg) -> Option<SpecialReg> {
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
        return Some(special);
    }
    if c.kind() != kind::DOT {
        return None;
    }
    let word = c.bump().sym();
    let axis = match c.name(word) {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        "w" => 3,
        _ => return None,
    };
    Some(match special {
        S::Tid(_) => S::Tid(axis),
        S::Ntid(_) => S::Ntid(axis),
        S::Ctaid(_) => S::Ctaid(axis),
        S::Nctaid(_) => S::Nctaid(axis),
        S::Clusterid(_) => S::Clusterid(axis),
        S::Nclusterid(_) => S::Nclusterid(axis),
        S::ClusterCtaid(_) => S::ClusterCtaid(axis),
        _ => S::ClusterNctaid(axis),
    })
}
