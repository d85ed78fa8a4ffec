//! The kernels of the scenarios, written by hand so that each does one thing.

/// One module with all of them.
pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// A module whose one kernel uses a register that it does not declare.
pub(crate) const BROKEN: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry broken()
{
    add.u32 %undeclared, %undeclared, 1;
    ret;
}
";
