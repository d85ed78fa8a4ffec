//! Matrix products of a warp, and the matrices' way between memory and registers.
//!
//! Rules: sums are formed in the order that [`product`] says, whatever the host; which element stands in which register
//! is said once, in [`fragment`].

pub(super) mod fragment;
pub(super) mod fragment_memory;
pub(super) mod product;
pub(super) mod timing;
