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

/// A module with a managed variable, and a kernel that counts it up.
pub(crate) const MANAGED: &str = "
.version 8.0
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 count = 5;
.visible .global .align 4 .u32 plain = 7;
.visible .entry up()
{
    .reg .b32 %r0;
    ld.global.u32 %r0, [count];
    add.u32 %r0, %r0, 1;
    st.global.u32 [count], %r0;
    ret;
}
";
