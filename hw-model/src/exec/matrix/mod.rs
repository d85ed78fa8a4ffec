//! Matrix products of a warp, and the matrices' way between memory and registers.
//!
//! Rules: sums are formed in the order that [`product`] says, whatever the host; the layouts of `mma` and
//! `wmma` are said in [`fragment`], those of `ldmatrix`, `stmatrix` and `movmatrix` beside these.

pub(super) mod fragment;
pub(super) mod fragment_memory;
pub(super) mod product;
pub(super) mod timing;
