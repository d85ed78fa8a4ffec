//! The text that confines one address; each function gives it and the register that holds the result.

use super::FenceMode;
use crate::control::{FENCE_BASE_AT, FENCE_MASK_AT};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Registers that hold what the control block says, loaded when the function is entered.
#[derive(Default)]
pub(super) struct Loaded {
    base: Option<String>,
    mask: Option<String>,
    /// Upper halves.
    high: Option<(String, String)>,
    /// In [`FenceMode::Mask`], the mask without the bits that an alignment clears.
    aligned: BTreeMap<u32, String>,
}

impl Loaded {
    fn value(frame: &mut Frame<'_>, value: Value) -> String {
        if let Some(formal) = frame.formal(value) {
            return formal;
        }
        let register = frame.fresh("b64");
        let text = frame.load(value, &register);
        frame.at_entry(&text);
        register
    }

    fn base(&mut self, frame: &mut Frame<'_>) -> String {
        let load = || Self::value(frame, Value::FenceBase);
        self.base.get_or_insert_with(load).clone()
    }

    fn mask(&mut self, frame: &mut Frame<'_>, align: u32) -> String {
        let load = || Self::value(frame, Value::FenceMask);
        let mask = self.mask.get_or_insert_with(load).clone();
        if align <= 1 {
            return mask;
        }
        let aligned = || {
            let register = frame.fresh("b64");
            frame.at_entry(&format!("and.b64 {register}, {mask}, -{align};"));
            register
        };
        self.aligned.entry(align).or_insert_with(aligned).clone()
    }

    /// Returns the upper halves of base and mask. A kernel reads them from the constant bank as they stand.
    fn high(&mut self, frame: &mut Frame<'_>) -> (String, String) {
        if let Some(high) = &self.high {
            return high.clone();
        }
        let (base, mask) = (frame.fresh("b32"), frame.fresh("b32"));
        if matches!(frame.role, Role::Kernel(_)) {
            let (b, m) = (
                frame.control(FENCE_BASE_AT + 4),
                frame.control(FENCE_MASK_AT + 4),
            );
            frame.at_entry(&format!(
                "ld.param.u32 {base}, {b}; ld.param.u32 {mask}, {m};"
            ));
        } else {
            let low = frame.fresh("b32");
            for (value, high) in [(Value::FenceBase, &base), (Value::FenceMask, &mask)] {
                let all = Self::value(frame, value);
                frame.at_entry(&format!("mov.b64 {{{low}, {high}}}, {all};"));
            }
        }
        self.high.insert((base, mask)).clone()
    }
}

/// Confines a 64-bit address to the reservation and rounds it down to a multiple of `align`.
pub(super) fn confine(
    frame: &mut Frame<'_>,
    loaded: &mut Loaded,
    mode: FenceMode,
    (address, align): (&str, u32),
) -> (String, String) {
    let result = frame.fresh("b64");
    let mut text = String::new();
    match mode {
        FenceMode::Window => {
            let base = loaded.base(frame);
            let mut from = address.to_owned();
            if align > 1 {
                from = frame.fresh("b64");
                let _ = write!(text, "and.b64 {from}, {address}, -{align}; ");
            }
            let _ = write!(text, "bfi.b64 {result}, {from}, {base}, 0, 32;");
        }
        FenceMode::HighBits => {
            let (base, mask) = loaded.high(frame);
            let [low, high, new] = [(); 3].map(|()| frame.fresh("b32"));
            let _ = write!(text, "mov.b64 {{{low}, {high}}}, {address}; ");
            let mut kept = low;
            if align > 1 {
                let rounded = frame.fresh("b32");
                let _ = write!(text, "and.b32 {rounded}, {kept}, -{align}; ");
                kept = rounded;
            }
            // (high & mask) | base.
            let _ = write!(
                text,
                "lop3.b32 {new}, {high}, {mask}, {base}, 0xEA; mov.b64 {result}, {{{kept}, {new}}};"
            );
        }
        FenceMode::Mask => {
            let base = loaded.base(frame);
            let mask = loaded.mask(frame, align);
            let kept = frame.fresh("b64");
            let _ = write!(
                text,
                "and.b64 {kept}, {address}, {mask}; or.b64 {result}, {kept}, {base};"
            );
        }
    }
    (text, result)
}

/// Returns a lower bound of an offset from an object's first byte: `name + min(address - name, last)`, rounded down.
pub(super) fn hold(
    frame: &mut Frame<'_>,
    (address, name): (&str, &str),
    (last, align): (u64, u32),
) -> (String, String) {
    let [start, distance, held, result] = [(); 4].map(|()| frame.fresh("b64"));
    let last = last / u64::from(align) * u64::from(align);
    let rounded = frame.fresh("b64");
    let text = format!(
        "mov.u64 {start}, {name}; sub.u64 {distance}, {address}, {start}; min.u64 {held}, {distance}, {last}; \
         and.b64 {rounded}, {held}, -{align}; add.u64 {result}, {rounded}, {start};"
    );
    (text, result)
}
