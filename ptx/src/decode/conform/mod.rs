//! Whether an instruction's operands are what the ISA's table says of its opcode.
//!
//! The verdicts follow `ptxas`, with one rule above all: what it accepts is never refused here. What it refuses and
//! this module lets pass is decoded as written.

mod call;
mod depends;

pub(super) use call::{Callee, call, passes};

use super::isa::IsaRow;
use super::{AddressBase, Modifiers, Opcode, Operand, RegId, ScalarType as T, SpecialReg, Symbol};

pub(super) fn is_integer(t: T) -> bool {
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

/// Returns the operand that does not belong, and why.
pub(crate) fn operands(
    row: &IsaRow,
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
    let letters = row.operands.iter().filter(|letter| **letter != b'?');
    for (n, (operand, letter)) in given.iter().zip(letters).enumerate() {
        check.operand(n, *letter, operand).map_err(|m| (n, m))?;
    }
    for (n, operand) in given.iter().enumerate() {
        check.elements_alike(operand).map_err(|m| (n, m))?;
    }
    check.together(given)
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
            b'l' if self.opcode == Opcode::BrxIdx => match operand {
                Operand::BranchTable(_) => Ok(()),
                _ => Err("a table of `.branchtargets` above is expected".to_owned()),
            },
            b'l' => match operand {
                Operand::Target(_) => Ok(()),
                _ => Err("a label is expected".to_owned()),
            },
            b'D' => self.free_destination(operand),
            _ => match operand {
                Operand::Target(_) => Err("a label cannot stand here".to_owned()),
                _ if self.opcode == Opcode::Mov => self.moved(operand),
                Operand::Int(_) => Ok(()),
                _ if waits_for(self.opcode) => Err("a constant is expected".to_owned()),
                Operand::Reg(r) if self.opcode == Opcode::Cvta => self.fits(*r, self.ty(0)),
                Operand::Symbol { .. } if self.opcode == Opcode::Cvta && self.mods.to => {
                    Err("a register is expected".to_owned())
                }
                Operand::Address { .. } if self.opcode == Opcode::Cvta => {
                    Err("a register or a name is expected".to_owned())
                }
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

    /// Checks that the address is in the state space that the instruction names (section 6.4.1).
    fn address(&self, base: AddressBase) -> Result<(), String> {
        use super::StateSpace as S;
        match (self.opcode, base) {
            (Opcode::St, AddressBase::Symbol(Symbol::Param(_))) => {
                return Err("a parameter is not written to".to_owned());
            }
            (Opcode::Ld, AddressBase::Symbol(Symbol::ReturnParam(_))) => {
                return Err("a returned parameter is not read".to_owned());
            }
            _ => {}
        }
        let symbol = match base {
            AddressBase::Reg(r) => {
                let ty = (self.scope.register)(r);
                let holds = matches!(ty, T::B8 | T::B16 | T::B32 | T::B64)
                    || matches!(ty, T::U8 | T::U16 | T::U32 | T::U64)
                    || matches!(ty, T::S8 | T::S16 | T::S32 | T::S64);
                return match holds {
                    true => Ok(()),
                    false => Err(format!(
                        "a register of type `.{}` holds no address",
                        name(ty)
                    )),
                };
            }
            AddressBase::Symbol(symbol) => symbol,
            AddressBase::Absolute => {
                return match self.mods.spaces.first() {
                    Some(S::Local) => Ok(()),
                    _ => Err("a constant is an address only in local memory".to_owned()),
                };
            }
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
            Operand::Symbol {
                symbol: Symbol::Function(_),
                offset: 0,
            } => Ok(()),
            _ => Err("a register or a constant is expected".to_owned()),
        }
    }

    /// Checks that a register can hold a value of exactly this type (section 9.4.1).
    fn fits(&self, r: RegId, ty: T) -> Result<(), String> {
        let register = (self.scope.register)(r);
        if alike(register, ty) && (ty == T::Pred || register.size_bytes() == ty.size_bytes()) {
            return Ok(());
        }
        Err(mismatch(register, ty))
    }

    /// Checks the same for loads, stores and conversions, whose registers may be wider (section 9.4.2).
    fn holds(&self, r: RegId, ty: T) -> Result<(), String> {
        let register = (self.scope.register)(r);
        if can_hold(register, ty) {
            return Ok(());
        }
        Err(mismatch(register, ty))
    }

    fn loaded(&self, operand: &Operand) -> Result<(), String> {
        let ty = self.ty(0);
        self.elements(operand, |o| match o {
            Operand::Reg(_) | Operand::Sink => Ok(()),
            // A 128-bit value may come in two halves.
            Operand::Vector(_) if ty == T::B128 => Ok(()),
            _ => Err(DESTINATION.to_owned()),
        })
    }

    fn stored(&self, operand: &Operand) -> Result<(), String> {
        let ty = self.ty(0);
        self.elements(operand, |o| match o {
            Operand::Reg(_) | Operand::RegOffset(..) => Ok(()),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(o, ty),
            Operand::Vector(_) if ty == T::B128 => Ok(()),
            Operand::Symbol {
                symbol: Symbol::Function(_),
                offset: 0,
            } => Ok(()),
            _ => Err("a register or a constant is expected".to_owned()),
        })
    }

    /// Checks that the registers of a vector hold this type. They are as wide as each other; where one of them has
    /// no type that is all, otherwise they are typed alike, and integers also hold floating numbers of their own width.
    fn all_hold(&self, elements: &[Operand], ty: T) -> Result<(), String> {
        let types = elements.iter().filter_map(|o| match o {
            Operand::Reg(r) | Operand::RegOffset(r, _) => Some((self.scope.register)(*r)),
            _ => None,
        });
        let Some(first) = types.clone().find(|&t| is_bits(t)).or(types.clone().next()) else {
            return Ok(());
        };
        if let Some(other) = types.clone().find(|&t| !alike(t, first)) {
            return Err(mismatch(other, first));
        }
        let as_wide = is_integer(first) && first.size_bytes() == ty.size_bytes();
        if (as_wide && matches!(ty, T::F32 | T::F64)) || can_hold(first, ty) {
            return Ok(());
        }
        Err(mismatch(first, ty))
    }

    /// Checks that the registers of a vector are of one size.
    fn elements_alike(&self, operand: &Operand) -> Result<(), String> {
        let Operand::Vector(elements) = operand else {
            return Ok(());
        };
        let mut sizes = elements.iter().filter_map(|o| match o {
            Operand::Reg(r) => Some((self.scope.register)(*r).size_bytes()),
            _ => None,
        });
        let first = sizes.next();
        if sizes.all(|size| Some(size) == first) {
            return Ok(());
        }
        Err("the registers of a vector are of one size".to_owned())
    }

    /// Checks each element of a vector operand, of which there must be as many as `.v2` and the like say.
    fn elements(
        &self,
        operand: &Operand,
        each: impl Fn(&Operand) -> Result<(), String>,
    ) -> Result<(), String> {
        let wanted = usize::from(self.mods.vector.max(1));
        let ty = self.ty(0);
        match operand {
            Operand::Vector(v) if v.len() == wanted => {
                v.iter().try_for_each(&each)?;
                self.all_hold(v, ty)
            }
            Operand::Vector(v) if wanted == 1 && self.ty(0) == T::B128 && v.len() == 2 => Ok(()),
            Operand::Vector(v) => Err(format!(
                "a vector of {wanted} is expected, here are {}",
                v.len()
            )),
            _ if wanted > 1 => Err(format!("a vector of {wanted} is expected")),
            one => {
                each(one)?;
                let is_exact = matches!(self.opcode, Opcode::Atom | Opcode::Red);
                match one {
                    Operand::Reg(r) if is_exact => self.fits(*r, ty),
                    Operand::Reg(r) | Operand::RegOffset(r, _) => self.holds(*r, ty),
                    _ => Ok(()),
                }
            }
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
                match wanted {
                    0 => self.packed(v, ty),
                    _ => Ok(()),
                }
            }
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => literal(operand, ty),
            Operand::Special(s) => special(*s, ty),
            Operand::Symbol { .. } if ty.is_float() || ty == T::Pred => {
                Err(format!("an address is no `.{}`", name(ty)))
            }
            _ => Ok(()),
        }
    }

    /// Checks that registers side by side are what `mov` takes apart or puts together (section 9.7.9.5).
    fn packed(&self, elements: &[Operand], ty: T) -> Result<(), String> {
        if !is_bits(ty) {
            return Err(format!(
                "registers are packed into bits, not into `.{}`",
                name(ty)
            ));
        }
        let fits = |o: &Operand| match o {
            Operand::Reg(r) => {
                let register = (self.scope.register)(*r);
                let bytes = register.size_bytes() as usize * elements.len();
                register != T::Pred && bytes == ty.size_bytes() as usize
            }
            _ => true,
        };
        if elements.iter().all(fits) {
            return Ok(());
        }
        Err(format!("these registers do not make `.{}`", name(ty)))
    }
}

/// Checks that `mov` of this type reads the special register (section 10); a 32-bit one may be cut to 16.
fn special(register: SpecialReg, ty: T) -> Result<(), String> {
    use SpecialReg as S;
    let wide = matches!(register, S::Clock64 | S::Globaltimer | S::CurrentGraphExec);
    let either = matches!(register, S::Gridid | S::Pm(_));
    let is_wide = ty.size_bytes() == 8;
    if ty == T::Pred && matches!(register, S::IsExplicitCluster) {
        return Ok(());
    }
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

/// Returns whether the operand says how many groups may still be under way, which is a constant.
fn waits_for(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::CpAsyncWaitGroup
            | O::CpAsyncBulkWaitGroup
            | O::WgmmaWaitGroup
            | O::Setmaxnreg
            | O::Pmevent
    )
}

fn is_bits(t: T) -> bool {
    matches!(t, T::B8 | T::B16 | T::B32 | T::B64 | T::B128)
}

/// Returns whether the kinds agree and the register is wide enough.
fn can_hold(register: T, ty: T) -> bool {
    alike(register, ty) && register.size_bytes() >= ty.size_bytes()
}

/// Returns whether the kinds agree, sizes aside: bits agree with all, integers with each other, floats with their own.
fn alike(register: T, ty: T) -> bool {
    if (register == T::Pred) != (ty == T::Pred) {
        return false;
    }
    if register == ty || is_bits(register) || is_bits(ty) {
        return true;
    }
    // `.f16x2` registers hold integers.
    let integer = |t: T| is_integer(t) || matches!(t, T::U16x2 | T::S16x2);
    (integer(register) || register == T::F16x2) && integer(ty)
}

fn mismatch(register: T, ty: T) -> String {
    format!(
        "a register of type `.{}` cannot hold `.{}`",
        name(register),
        name(ty)
    )
}

pub(super) fn name(ty: T) -> String {
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
