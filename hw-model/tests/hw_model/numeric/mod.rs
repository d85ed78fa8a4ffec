//! Every numeric opcode family against values computed independently: exact rational numbers and big integers
//! (`support::exact`), or the ISA's own pseudo-code bit by bit; over edge values and random ones.
//!
//! One file per family; each `Table` that passes is reported for `cargo xtask coverage opcodes`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    reason = "the expected values are exact bit patterns, cut as the instruction cuts them"
)]

mod bits;
mod compare;
mod convert;
mod data;
mod float;
mod half;
mod integer;
mod matrix;
mod texture;
mod values;
mod video;
mod wide;
