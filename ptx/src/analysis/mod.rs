//! What can be said of a kernel without running it: control flow, liveness, registers, instruction mix.
//!
//! Analyses read a decoded [`Function`](crate::decode::Function) and change nothing. Each is linear or bounded by
//! a named limit, because the functions come from tenants.

mod flow;
mod liveness;
mod mix;
mod operands;
mod registers;

pub use flow::{Block, Flow};
pub use mix::{Mix, mix};
pub use operands::{Access, for_each_register};
pub use registers::registers_estimate;
