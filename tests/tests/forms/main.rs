//! What rewritten kernels promise, held against the SM model without a service: the same bits as the original, and
//! memory that a fence confines, and stamps that are true.
//!
//! A binary of its own, because its threads take every core, and tests of the service beside it would wait for them.

mod equivalence;
mod fence;
mod fence_faults;
mod stamps;
