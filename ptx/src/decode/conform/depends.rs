//! Operands that depend on modifiers or on each other.

use super::super::{AtomOp, CacheOp, Opcode, Operand, Rounding, ScalarType as T};
use super::{Check, is_integer, literal};

impl Check<'_> {
    /// Operands that depend on modifiers.
    pub(super) fn together(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        use Opcode as O;
        let last = given.len().saturating_sub(1);
        self.policy(given).map_err(|m| (last, m))?;
        match self.opcode {
            O::Setp | O::Set if given.len() == 4 && self.mods.bool_op.is_none() => Err((
                last,
                "a predicate is combined by `.and`, `.or` or `.xor`, none of which is given"
                    .to_owned(),
            )),
            O::Setp | O::Set if given.len() == 3 && self.mods.bool_op.is_some() => {
                Err((last, "the predicate to combine with is missing".to_owned()))
            }
            O::Atom if self.mods.atom == Some(AtomOp::Cas) => match given.get(3) {
                Some(stored) => self.read(stored, self.ty(0)).map_err(|m| (3, m)),
                None => Err((
                    last,
                    "`.cas` compares with one value and stores another".to_owned(),
                )),
            },
            O::MbarrierTestWait | O::MbarrierTryWait => {
                let by_parity = self.mods.rest.iter().any(|w| w == "parity");
                let ty = if by_parity { T::U32 } else { T::B64 };
                self.read(&given[2], ty).map_err(|m| (2, m))
            }
            O::CpAsync => match given[2] {
                Operand::Int(4 | 8) if self.mods.cache == Some(CacheOp::Ca) => Ok(()),
                Operand::Int(16) => Ok(()),
                _ => Err((2, "4, 8 or 16 bytes are copied, by `.cg` 16".to_owned())),
            },
            O::Elect => match &given[0] {
                Operand::RegPair(_, Some(p)) => self.predicate(*p).map_err(|m| (0, m)),
                _ => Err((0, "the predicate to write is missing".to_owned())),
            },
            O::Bfe | O::Bfi => (given.len() - 2..given.len())
                .try_for_each(|n| in_byte(&given[n]).map_err(|m| (n, m))),
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
            // The barrier, and how many threads come to it, in front of the predicate.
            O::BarRed => (1..last)
                .try_for_each(|n| self.read(&given[n], T::U32).map_err(|m| (n, m)))
                .and_then(|()| barrier_number(&given[1]).map_err(|m| (1, m))),
            _ => Ok(()),
        }
    }

    /// Checks that a cache policy is an operand with `.L2::cache_hint` only (section 9.7.9.2).
    fn policy(&self, given: &[Operand]) -> Result<(), String> {
        use Opcode as O;
        let has = |word: &str| self.mods.rest.iter().any(|w| w == word);
        let has_hint = has("L2::cache_hint");
        let plain = match self.opcode {
            O::Ld | O::St | O::Red => 2,
            O::Atom if self.mods.atom == Some(AtomOp::Cas) => 4,
            // ptxas lets a fourth operand pass that nothing reads.
            O::Atom if !has_hint && given.len() == 4 => 4,
            O::Atom => 3,
            _ => return Ok(()),
        };
        if given.len() == plain + usize::from(has_hint) {
            return Ok(());
        }
        Err("a cache policy and `.L2::cache_hint` go together".to_owned())
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
        if self.mods.sync && given.len() < 5 {
            return Err((given.len() - 1, "the mask of lanes is missing".to_owned()));
        }
        self.read(&given[1], T::B32).map_err(|m| (1, m))
    }

    /// Checks the one or two floating sources of a conversion to a packed type.
    fn packed_sources(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        let sources = match given[1] {
            Operand::Vector(_) => 0,
            _ => given.len().min(3) - 1,
        };
        (1..=sources).try_for_each(|n| {
            match &given[n] {
                Operand::Reg(r) => self.holds(*r, T::F32),
                Operand::Int(_) | Operand::Symbol { .. } => {
                    Err("a floating constant or a register is expected".to_owned())
                }
                _ => Ok(()),
            }
            .map_err(|m| (n, m))
        })
    }

    fn conversion(&self, given: &[Operand]) -> Result<(), (usize, String)> {
        let (to, from) = (self.ty(0), self.ty(1));
        let scalar = |t: T| is_integer(t) || matches!(t, T::F16 | T::Bf16 | T::F32 | T::F64);
        if !scalar(to) || !scalar(from) {
            return match from {
                T::F32 => self.packed_sources(given),
                _ => Ok(()),
            };
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
            Operand::Target(_) | Operand::Symbol { .. } | Operand::Vector(_) => {
                Err("a register or a constant is expected".to_owned())
            }
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

/// Checks that where a bit field begins and how long it is are bytes (sections 9.7.1.19 and 9.7.1.20).
fn in_byte(operand: &Operand) -> Result<(), String> {
    match operand {
        Operand::Int(n) if !(0..256).contains(n) => Err("this is not from 0 to 255".to_owned()),
        _ => Ok(()),
    }
}

/// Checks the number of a barrier: a block has 16 (section 9.7.13.1).
fn barrier_number(operand: &Operand) -> Result<(), String> {
    match operand {
        Operand::Int(n) if !(0..16).contains(n) => {
            Err("barriers are numbered from 0 to 15".to_owned())
        }
        _ => Ok(()),
    }
}
