//! The kernels of the scenarios, written by hand so that each does one thing.

/// One module with all of them.
pub(crate) const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64

.visible .global .align 4 .u32 number = 5;

.extern .func __assertfail(
    .param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 char_bytes
);
.global .align 1 .b8 words[5] = {111, 111, 112, 115, 0};

// data[i] += number, for i below n.
.visible .entry add(.param .u64 data, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [data];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra $end;
    mul.wide.u32 %rd1, %r4, 4;
    add.u64 %rd1, %rd1, %rd0;
    mov.u64 %rd2, number;
    ld.global.u32 %r5, [%rd2];
    ld.global.u32 %r6, [%rd1];
    add.u32 %r6, %r6, %r5;
    st.global.u32 [%rd1], %r6;
$end:
    ret;
}

// Counts to `rounds`, then stores a value.
.visible .entry slow(.param .u64 out, .param .u32 rounds, .param .u32 value)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [out];
    ld.param.u32 %r0, [rounds];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, 0;
$again:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r0;
    @%p bra $again;
    st.global.u32 [%rd0], %r1;
    ret;
}

// Looks at a flag until it is not 0, at most `rounds` times, and stores what it saw last.
.visible .entry watch(.param .u64 flag, .param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [flag];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r0, [rounds];
    mov.u32 %r2, 0;
$again:
    ld.volatile.global.u32 %r1, [%rd0];
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra $end;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r0;
    @%p1 bra $again;
$end:
    st.global.u32 [%rd1], %r1;
    ret;
}

// to = from + 1.
.visible .entry next(.param .u64 to, .param .u64 from)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to];
    ld.param.u64 %rd1, [from];
    ld.global.u32 %r0, [%rd1];
    add.u32 %r0, %r0, 1;
    st.global.u32 [%rd0], %r0;
    ret;
}

// Parameters of all sizes, whose places the alignment decides; stores each of them.
.visible .entry mixed(
    .param .u8 a, .param .u16 b, .param .u8 c, .param .u32 d, .param .u8 e, .param .u64 f, .param .u64 out
)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [out];
    ld.param.u8 %r0, [a];
    ld.param.u16 %r1, [b];
    ld.param.u8 %r2, [c];
    ld.param.u32 %r3, [d];
    ld.param.u8 %r4, [e];
    ld.param.u64 %rd1, [f];
    st.global.u32 [%rd0], %r0;
    st.global.u32 [%rd0+4], %r1;
    st.global.u32 [%rd0+8], %r2;
    st.global.u32 [%rd0+12], %r3;
    st.global.u32 [%rd0+16], %r4;
    st.global.u64 [%rd0+24], %rd1;
    ret;
}

// Stores a word wherever it is told to.
.visible .entry poke(.param .u64 address)
{
    .reg .b64 %rd0;
    ld.param.u64 %rd0, [address];
    st.global.u32 [%rd0], 7;
    ret;
}

.visible .entry trap()
{
    trap;
}

.visible .entry fail()
{
    .reg .b64 %rd0;
    mov.u64 %rd0, words;
    cvta.global.u64 %rd0, %rd0;
    {
        .param .b64 p0;
        .param .b64 p1;
        .param .b32 p2;
        .param .b64 p3;
        .param .b64 p4;
        st.param.b64 [p0], %rd0;
        st.param.b64 [p1], %rd0;
        st.param.b32 [p2], 12;
        st.param.b64 [p3], %rd0;
        st.param.b64 [p4], 1;
        call.uni __assertfail, (p0, p1, p2, p3, p4);
    }
    ret;
}

.visible .entry endless()
{
$again:
    bra.uni $again;
}

// A block of at most 128 threads with 4 KiB of shared memory of its own.
.visible .entry small(.param .u64 out)
.maxntid 128, 1, 1
{
    .shared .align 4 .b8 room[4096];
    .reg .b32 %r0;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [out];
    mov.u64 %rd1, room;
    st.shared.u32 [%rd1], 3;
    ld.shared.u32 %r0, [%rd1];
    st.global.u32 [%rd0], %r0;
    ret;
}
";

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
