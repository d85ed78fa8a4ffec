//! Where the state spaces that a chip maps into generic addresses begin (PTX ISA section 5.1, generic addressing).
//!
//! Rule: no buffer of global memory lies in a window.

/// First generic address of shared memory.
pub(super) const SHARED_WINDOW: u64 = 0x1_0000_0000;
/// First generic address of local memory.
pub(super) const LOCAL_WINDOW: u64 = 0x2_0000_0000;
/// First generic address of a kernel's parameters.
pub(super) const PARAM_WINDOW: u64 = 0x3_0000_0000;
/// Bytes of each window.
pub(super) const WINDOW_BYTES: u64 = 0x1_0000_0000;
