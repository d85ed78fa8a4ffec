//! The code that confines one address; each function gives it and the register that holds the result.

use super::FenceMode;
use crate::control::{FENCE_BASE_AT, FENCE_MASK_AT};
use crate::decode::{Operand, RegId, ScalarType as T, VarId};
use crate::forms::code::{Code, vector};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;
use std::collections::BTreeMap;

/// Code, and the register that holds the result then.
pub(super) type Held = (Code, RegId);

/// Registers that hold what the control block says, loaded when the function is entered.
#[derive(Default)]
pub(super) struct Loaded {
    base: Option<RegId>,
    mask: Option<RegId>,
    /// Upper halves.
    high: Option<(RegId, RegId)>,
    /// In [`FenceMode::Mask`], the mask without the bits that an alignment clears.
    aligned: BTreeMap<u32, RegId>,
}

impl Loaded {
    fn value(frame: &mut Frame<'_>, value: Value) -> RegId {
        let (load, register) = frame.held(value);
        frame.at_entry(load);
        register
    }

    fn base(&mut self, frame: &mut Frame<'_>) -> RegId {
        let load = || Self::value(frame, Value::FenceBase);
        *self.base.get_or_insert_with(load)
    }

    fn mask(&mut self, frame: &mut Frame<'_>, align: u32) -> RegId {
        let load = || Self::value(frame, Value::FenceMask);
        let mask = *self.mask.get_or_insert_with(load);
        if align <= 1 {
            return mask;
        }
        let aligned = || {
            let register = frame.fresh(T::B64);
            let mut code = Code::new();
            code.op("and.b64", (register, mask, -i64::from(align)));
            frame.at_entry(code);
            register
        };
        *self.aligned.entry(align).or_insert_with(aligned)
    }

    /// Returns the upper halves of base and mask. A kernel reads them from the constant bank as they stand.
    fn high(&mut self, frame: &mut Frame<'_>) -> (RegId, RegId) {
        if let Some(high) = self.high {
            return high;
        }
        let [base, mask] = frame.several(T::B32);
        let mut code = Code::new();
        if matches!(frame.role, Role::Kernel(_)) {
            for (at, high) in [(FENCE_BASE_AT, base), (FENCE_MASK_AT, mask)] {
                code.op("ld.param.u32", (high, frame.control(at + 4)));
            }
        } else {
            let low = frame.fresh(T::B32);
            for (value, high) in [(Value::FenceBase, base), (Value::FenceMask, mask)] {
                let all = Self::value(frame, value);
                code.op("mov.b64", (vector(&[low, high]), all));
            }
        }
        frame.at_entry(code);
        *self.high.insert((base, mask))
    }
}

/// Confines a 64-bit address to the reservation and rounds it down to a multiple of `align`.
pub(super) fn confine(
    frame: &mut Frame<'_>,
    loaded: &mut Loaded,
    mode: FenceMode,
    (address, align): (RegId, u32),
) -> Held {
    let result = frame.fresh(T::B64);
    let mut code = Code::new();
    match mode {
        FenceMode::Window => {
            let base = loaded.base(frame);
            let from = rounded(frame, &mut code, address, align);
            let bits: [Operand; 5] = [
                result.into(),
                from.into(),
                base.into(),
                Operand::Int(0),
                Operand::Int(32),
            ];
            code.op("bfi.b64", Vec::from(bits));
        }
        FenceMode::HighBits => {
            let (base, mask) = loaded.high(frame);
            let [low, high, new] = frame.several(T::B32);
            code.op("mov.b64", (vector(&[low, high]), address));
            let kept = rounded(frame, &mut code, low, align);
            // (high & mask) | base.
            code.op("lop3.b32", (new, high, mask, base, 0xea_u32));
            code.op("mov.b64", (result, vector(&[kept, new])));
        }
        FenceMode::Mask => {
            let base = loaded.base(frame);
            let mask = loaded.mask(frame, align);
            let kept = frame.fresh(T::B64);
            code.op("and.b64", (kept, address, mask));
            code.op("or.b64", (result, kept, base));
        }
    }
    (code, result)
}

/// Adds what rounds an address down to a multiple of `align`.
pub(super) fn rounded(frame: &mut Frame<'_>, code: &mut Code, address: RegId, align: u32) -> RegId {
    if align <= 1 {
        return address;
    }
    let ty = frame.type_of(address);
    let (ty, and) = match ty.size_bytes() {
        8 => (T::B64, "and.b64"),
        _ => (T::B32, "and.b32"),
    };
    let register = frame.fresh(ty);
    code.op(and, (register, address, -i64::from(align)));
    register
}

/// What an address is held inside of: a variable, or the kernel's parameters.
#[derive(Clone, Copy)]
pub(super) enum Object {
    Variable(VarId),
    /// From the first of the kernel's own on.
    Params,
}

/// Returns a lower bound of an offset from an object's first byte: `start + min(address - start, last)`, rounded down.
pub(super) fn hold(
    frame: &mut Frame<'_>,
    (address, object): (RegId, Object),
    (last, align): (u64, u32),
) -> Held {
    let [start, distance, held, rounded, result] = frame.several(T::B64);
    let last = last / u64::from(align) * u64::from(align);
    let mut code = Code::new();
    match object {
        Object::Variable(v) => code.op("mov.u64", (start, v)),
        Object::Params => code.op("mov.u64", (start, crate::decode::Symbol::Param(0))),
    }
    code.op("sub.u64", (distance, address, start));
    code.op("min.u64", (held, distance, last.cast_signed()));
    code.op("and.b64", (rounded, held, -i64::from(align)));
    code.op("add.u64", (result, rounded, start));
    (code, result)
}
