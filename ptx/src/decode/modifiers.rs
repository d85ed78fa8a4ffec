//! The modifiers of an instruction: what stands between the dots after its opcode (PTX ISA section 9).
//!
//! Rule: one [`Modifiers`] record serves every opcode, so that a consumer asks for a modifier by name and never
//! takes the mnemonic apart; what no field holds stays in [`Modifiers::rest`], so that nothing is lost.

use crate::words::{
    AtomOp, BoolOp, CacheOp, Comparison, MemoryOrder, Mode, Part, Rounding, ScalarType, Scope,
    StateSpace,
};
use smallvec::SmallVec;

/// Every modifier of an instruction; absent ones are `None`/`false`/0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modifiers {
    /// Types in source order: `cvt.rn.f32.s32` has `[F32, S32]`, most have one.
    pub types: SmallVec<[ScalarType; 2]>,
    /// Rounding.
    pub rounding: Option<Rounding>,
    /// `.ftz`.
    pub ftz: bool,
    /// `.sat`.
    pub sat: bool,
    /// `.satfinite`.
    pub satfinite: bool,
    /// `.approx`.
    pub approx: bool,
    /// `.full` (division).
    pub full: bool,
    /// `.relu`.
    pub relu: bool,
    /// `.NaN` on `min`/`max`.
    pub nan: bool,
    /// `.xorsign.abs`.
    pub xorsign_abs: bool,
    /// `.hi`, `.lo`, `.wide`.
    pub part: Option<Part>,
    /// Comparison of `setp`/`set`.
    pub comparison: Option<Comparison>,
    /// Boolean combination of `setp`/`set`.
    pub bool_op: Option<BoolOp>,
    /// State spaces in source order (`cvta.to.global`, `cp.async.shared.global` has two).
    pub spaces: SmallVec<[StateSpace; 2]>,
    /// `cvta.to`.
    pub to: bool,
    /// `.v2`, `.v4`, `.v8` as a count; 0 for scalars. `ldmatrix .x1/.x2/.x4` uses it as well.
    pub vector: u8,
    /// Atomic or reduction operation.
    pub atom: Option<AtomOp>,
    /// Memory order.
    pub order: Option<MemoryOrder>,
    /// Scope.
    pub scope: Option<Scope>,
    /// Cache operator.
    pub cache: Option<CacheOp>,
    /// Mode; `.clamp` or `.wrap` of `shf`.
    pub mode: Option<Mode>,
    /// `.l` or `.r` of `shf`.
    pub direction: Option<Mode>,
    /// `.sync` / `.aligned` as written.
    pub sync: bool,
    /// `.aligned`.
    pub aligned: bool,
    /// `.uni` on `bra`, `call`, `ret`.
    pub uni: bool,
    /// `.trans`, `.shiftamt`, `.noftz`, shapes such as `.m16n8k16`, layouts, texture geometry and whatever else
    /// the fields above do not hold, in source order without dots.
    pub rest: SmallVec<[String; 1]>,
}
