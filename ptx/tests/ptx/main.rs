//! Tests of the crate as its users see it: reading, linking, judging and rewriting PTX.
//!
//! Golden files, and the cases that fuzzing has found, stand in folders beside this one.

mod analysis;
#[allow(dead_code, reason = "the benchmark of costs uses all of it")]
mod assemble;
mod audit;
mod check;
mod conform;
mod corpus;
mod decode;
mod found;
mod gangs;
mod golden;
mod hostile;
mod link;
mod meaning;
#[allow(
    unreachable_pub,
    reason = "the fuzz targets are another crate, which calls the same functions"
)]
#[path = "../../fuzz/oracle.rs"]
mod oracle;
mod place;
mod print;
mod registers;
mod round_trip;
mod waits;
mod warps;
