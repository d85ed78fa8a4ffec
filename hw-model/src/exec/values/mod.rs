//! Operations on register values: arithmetic, logic, comparison, conversion, and data across the lanes of a warp.
//!
//! One file per opcode family of the PTX ISA, with its lane arithmetic and its lowering; [`round`] and [`exact`] are
//! arithmetic that several share.
//! Rules: nothing here touches memory or the order of execution; a result that the ISA defines exactly is that result;
//! each file says what it does where the ISA leaves room.

pub(super) mod bits;
pub(super) mod carry;
pub(super) mod compare;
pub(super) mod convert;
pub(super) mod convert_any;
pub(super) mod data;
pub(super) mod directed;
pub(super) mod dot;
pub(super) mod exact;
pub(super) mod float;
pub(super) mod half;
pub(super) mod integer;
pub(super) mod round;
pub(super) mod shuffle;
pub(super) mod special;
pub(super) mod video;
