//! Kernels that tests of several rooms launch, each a module of PTX with one entry.

/// `busy(.param .u32 rounds)`: a loop of independent additions, which issues whenever it may.
pub const BUSY: &str = include_str!("busy.ptx");

/// `printing(.param .u64 out, .param .u32 n)`: prints a line in every thread, `n` times; it writes nothing to `out`.
pub const PRINTING: &str = include_str!("printing.ptx");

/// `stay(.param .u64 ns)`: stays on its SM for the nanoseconds of its parameter, mostly asleep.
pub const STAY: &str = include_str!("stay.ptx");
