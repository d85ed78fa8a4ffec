//! PTX: the program's own kernels.

/// Kernels that look at clocks and words while they run.
pub const PROBE: &str = include_str!("../kernels/probe.ptx");

/// A kernel that does nothing, of `hw-model/validation`.
pub const EMPTY: &str = include_str!("../../hw-model/validation/kernels/empty.ptx");
