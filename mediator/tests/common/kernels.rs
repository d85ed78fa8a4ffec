//! Kernels of several tests.

/// A kernel that counts to `n` in every thread; its blocks all take the same time.
pub(crate) const SPIN: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .u32 %r<4>;
    .reg .u64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, 0;
LOOP:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    mov.u32 %r3, %ctaid.x;
    add.u32 %r3, %r3, %r2;
    st.global.u32 [%rd1], %r3;
    ret;
}
";
