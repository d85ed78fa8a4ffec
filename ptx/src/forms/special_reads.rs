//! Reads of special registers that get another value, whatever the reading instruction makes of it.
//!
//! A `mov` or a `cvt` reads a special register in a width of its own (PTX ISA section 10: «predefined, read-only»
//! 32-bit registers that older PTX reads in 16 bits, too), by itself, in a vector that is packed, or all of its axes at
//! once. Rule: the value is brought to that width in front of the instruction, which then reads a register.

use super::code::Code;
use super::frame::Frame;
use crate::decode::{Guard, Instruction, Opcode, Operand, RegId, ScalarType, SpecialReg};

/// Returns the special registers that an instruction names.
pub(crate) fn specials(i: &Instruction) -> impl Iterator<Item = SpecialReg> {
    let mut found = Vec::new();
    i.operands
        .iter()
        .for_each(|operand| collect(operand, &mut found));
    found.into_iter()
}

fn collect(operand: &Operand, found: &mut Vec<SpecialReg>) {
    match operand {
        Operand::Special(register) => found.push(*register),
        Operand::Vector(all) | Operand::Arguments(all) => {
            all.iter().for_each(|operand| collect(operand, found));
        }
        Operand::TexAddress(address) => {
            address
                .coordinates
                .iter()
                .for_each(|operand| collect(operand, found));
        }
        _ => {}
    }
}

/// Returns the destination of an unguarded `mov` of 32 bits into an integer register, which can take a value at once.
pub(crate) fn plain_destination(frame: &Frame<'_>, i: &Instruction) -> Option<RegId> {
    use ScalarType as T;
    let [Operand::Reg(into), Operand::Special(_)] = i.operands[..] else {
        return None;
    };
    let is_plain = i.opcode == Opcode::Mov
        && i.guard.is_none()
        && i.mods.vector == 0
        && matches!(frame.type_of(into), T::U32 | T::S32 | T::B32);
    is_plain.then_some(into)
}

/// Makes an instruction read what `value` gives, a 32-bit register with what puts the value there, in the place of each
/// special register for which it gives something.
pub(crate) fn replace(
    frame: &mut Frame<'_>,
    n: u32,
    mut value: impl FnMut(&mut Frame<'_>, SpecialReg) -> Option<(Code, RegId)>,
) {
    let i = &frame.change(n).clone();
    let Some(bytes) = width(i) else { return };
    let mut code = Code::new();
    let mut replaced = |frame: &mut Frame<'_>, register| {
        let (load, word) = value(frame, register)?;
        code.append(load);
        Some(widened(frame, &mut code, word, bytes))
    };
    if let [Operand::Vector(into), Operand::Vector(from)] = &i.operands[..] {
        let read = from.iter().map(|element| match element {
            // The fourth axis is always the same.
            Operand::Special(SpecialReg::Ctaid(3) | SpecialReg::Nctaid(3)) => Operand::Int(0),
            Operand::Special(register) => {
                replaced(frame, *register).map_or(element.clone(), Operand::Reg)
            }
            _ => element.clone(),
        });
        let read = read.collect();
        one_by_one(&mut code, i.guard, (into, read), bytes);
        return frame.replace(n, code);
    }
    let mut operands = i.operands.clone();
    for operand in &mut operands {
        replace_in(frame, operand, &mut replaced);
    }
    frame.before(n, code);
    frame.change(n).operands = operands;
}

fn replace_in(
    frame: &mut Frame<'_>,
    operand: &mut Operand,
    replaced: &mut impl FnMut(&mut Frame<'_>, SpecialReg) -> Option<RegId>,
) {
    match operand {
        Operand::Special(register) => {
            if let Some(register) = replaced(frame, *register) {
                *operand = Operand::Reg(register);
            }
        }
        Operand::Vector(all) => {
            all.iter_mut()
                .for_each(|operand| replace_in(frame, operand, replaced));
        }
        _ => {}
    }
}

/// Returns in how many bytes an instruction reads a special register; `None` where it is none that may.
fn width(i: &Instruction) -> Option<u32> {
    let types = &i.mods.types;
    let bytes = match i.opcode {
        Opcode::Mov => types.first()?.size_bytes(),
        Opcode::Cvt => types.get(1)?.size_bytes(),
        _ => return None,
    };
    let parts = match &i.operands[..] {
        // All axes are read at once, each as the type says.
        _ if i.mods.vector != 0 => 1,
        [_, Operand::Vector(parts)] => u32::try_from(parts.len()).ok()?,
        _ => 1,
    };
    Some(bytes / parts.max(1))
}

/// Returns the register that holds a 32-bit value in so many bytes.
fn widened(frame: &mut Frame<'_>, code: &mut Code, word: RegId, bytes: u32) -> RegId {
    let (ty, cvt) = match bytes {
        2 => (ScalarType::B16, "cvt.u16.u32"),
        8 => (ScalarType::B64, "cvt.u64.u32"),
        _ => return word,
    };
    let register = frame.fresh(ty);
    code.op(cvt, (register, word));
    register
}

/// Adds a `mov` for each element of a vector: there is none that takes several registers at once.
fn one_by_one(
    code: &mut Code,
    guard: Option<Guard>,
    (into, from): (&[Operand], Vec<Operand>),
    bytes: u32,
) {
    let mov = match bytes {
        2 => "mov.b16",
        8 => "mov.b64",
        _ => "mov.b32",
    };
    for (into, from) in into.iter().zip(from) {
        if *into == Operand::Sink {
            continue;
        }
        let operands = vec![into.clone(), from];
        match guard {
            None => code.op(mov, operands),
            Some(Guard { reg, negated: true }) => code.op_unless(reg, mov, operands),
            Some(Guard {
                reg,
                negated: false,
            }) => code.op_if(reg, mov, operands),
        }
    }
}
