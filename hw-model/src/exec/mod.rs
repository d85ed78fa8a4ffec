//! Functional execution: one operation over the 32 lanes of a warp.
//!
//! A PTX instruction is lowered once into an [`Op`] whose `exec` is a function compiled for the host's vector
//! instructions ([`isa`]); registers are `[register][32 lanes]`, executed as vectors under a mask. One file per
//! opcode family holds both the lane arithmetic and the choice of function ("lowering") for its opcodes.
//!
//! Rules: a lane outside the mask keeps its registers; a function never panics on any register contents; an
//! access is checked before memory is touched; nothing allocates.

mod cx;
mod isa;
mod lanes;
mod op;

pub(crate) use cx::{BlockEnv, Cx, RangeCache, RawFault};
pub(crate) use op::{CONSTANT, Op, Slot};
