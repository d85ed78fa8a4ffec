//! What can be said of a kernel without running it: control flow, calls, dominance, uniformity, liveness, registers,
//! instruction mix.
//!
//! Analyses read a decoded [`Function`](crate::decode::Function) and change nothing. Each is linear, near-linear or
//! bounded by a named limit, and none recurses, because the functions come from tenants.

mod call_graph;
mod dominance;
mod effects;
mod flow;
mod liveness;
mod mix;
pub(crate) mod operands;
mod phases;
mod registers;
mod stride;
mod uniformity;
mod warp_rows;

pub use call_graph::CallGraph;
pub use dominance::{PostDominators, Tree, dominators};
pub use effects::{Effects, effects};
pub use flow::{Block, Flow};
pub(crate) use liveness::live_at_entry;
pub use mix::{Mix, mix};
pub use operands::{Access, for_each_register};
pub use phases::Phases;
pub use registers::registers_estimate;
pub use stride::{Coalescing, coalescing};
pub use uniformity::Uniformity;
pub use warp_rows::WarpRows;
