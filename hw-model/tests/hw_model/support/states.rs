//! Kernels that spend most of their time in one state in which a block may have to leave its SM.
//!
//! Rule: what they leave in memory depends on no order of blocks, and every lost, repeated or torn step shows in it.

use super::flow::module;

/// Words behind the threads' own in a launch's only buffer, all zero.
pub const TAIL_WORDS: u32 = 1 << 14;

/// Name, declarations and functions, and body. The body has the buffer in `%rd1`, its own word's address in `%rd2`,
/// and thread, block, block length and thread of the grid in `%r2`, `%r3`, `%r4` and `%r1`.
const STATES: [(&str, &str, &str); 11] = [
    // All warps but one wait.
    (
        "waiting at a barrier",
        ".shared .align 16 .b8 box[4096];\n",
        "mov.u32 %r5, 0;\nmov.u32 %r6, %r1;\nmov.u32 %r10, box;\nshl.b32 %r11, %r2, 2;\nadd.u32 %r11, %r11, %r10;\n\
         add.u32 %r12, %r2, 33;\nrem.u32 %r12, %r12, %r4;\n\
         shl.b32 %r12, %r12, 2;\nadd.u32 %r12, %r12, %r10;\nROUND:\nshr.u32 %r7, %r2, 5;\nand.b32 %r8, %r5, 3;\n\
         setp.ne.u32 %p1, %r7, %r8;\n@%p1 bra MEET;\nmov.u32 %r9, 0;\n\
         SLOW:\nmad.lo.u32 %r6, %r6, 1664525, %r2;\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 40;\n@%p2 bra SLOW;\n\
         MEET:\nst.shared.u32 [%r11], %r6;\nbar.sync 0;\n\
         ld.shared.u32 %r13, [%r12];\nadd.u32 %r6, %r6, %r13;\nbar.sync 0;\nadd.u32 %r5, %r5, 1;\n\
         setp.lt.u32 %p3, %r5, 10;\n@%p3 bra ROUND;\nst.global.u32 [%rd2], %r6;",
    ),
    // Half of the threads arrive at one barrier and wait at another, the other half the other way round.
    (
        "between two named barriers",
        ".shared .align 16 .b8 box[4096];\n",
        "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nmov.u32 %r10, box;\nand.b32 %r11, %r2, 31;\nshl.b32 %r11, %r11, 2;\n\
         add.u32 %r11, %r11, %r10;\nand.b32 %r7, %r2, 32;\nsetp.eq.u32 %p1, %r7, 0;\n\
         shr.u32 %r8, %r2, 6;\nshl.b32 %r9, %r8, 7;\nadd.u32 %r11, %r11, %r9;\nshl.b32 %r12, %r8, 1;\n\
         add.u32 %r12, %r12, 1;\nadd.u32 %r13, %r12, 1;\nROUND:\n@!%p1 bra TAKE;\n\
         mad.lo.u32 %r14, %r5, 977, %r1;\nst.shared.u32 [%r11], %r14;\nbar.arrive %r12, 64;\nbar.sync %r13, 64;\n\
         bra NEXT;\nTAKE:\nbar.sync %r12, 64;\nld.shared.u32 %r15, [%r11];\n\
         mad.lo.u32 %r6, %r6, 31, %r15;\nbar.arrive %r13, 64;\nNEXT:\nadd.u32 %r5, %r5, 1;\n\
         setp.lt.u32 %p3, %r5, 20;\n@%p3 bra ROUND;\nst.global.u32 [%rd2], %r6;",
    ),
    (
        "diverged within loops within branches",
        "",
        "mov.u32 %r6, %r1;\nmov.u32 %r5, 0;\nand.b32 %r7, %r2, 7;\nOUTER:\nand.b32 %r8, %r6, 1;\n\
         setp.eq.u32 %p1, %r8, 0;\n@%p1 bra EVEN;\nmov.u32 %r9, 0;\n\
         ODD:\nmad.lo.u32 %r6, %r6, 1103515245, 12345;\nadd.u32 %r9, %r9, 1;\nsetp.le.u32 %p2, %r9, %r7;\n\
         @%p2 bra ODD;\nbra JOIN;\n\
         EVEN:\nmad.lo.u32 %r6, %r6, 22695477, 1;\nshr.u32 %r10, %r6, 29;\nsetp.gt.u32 %p4, %r10, 3;\n\
         @%p4 bra JOIN;\nxor.b32 %r6, %r6, 0x5bd1e995;\n\
         JOIN:\nadd.u32 %r5, %r5, 1;\nadd.u32 %r11, %r7, 20;\nsetp.lt.u32 %p3, %r5, %r11;\n@%p3 bra OUTER;\n\
         st.global.u32 [%rd2], %r6;",
    ),
    // Three deep, a different number of rounds for each lane, and a frame on the stack.
    (
        "inside calls",
        ".func (.reg .u32 o) inner(.reg .u32 a, .reg .u32 n)\n\
         {\n.reg .pred %p<2>;\n.reg .u32 %r<4>;\nmov.u32 %r1, 0;\nmov.u32 o, a;\nL:\nmad.lo.u32 o, o, 69069, 5;\n\
         add.u32 %r1, %r1, 1;\n\
         setp.lt.u32 %p1, %r1, n;\n@%p1 bra L;\nret;\n}\n\
         .func (.reg .u32 o) middle(.reg .u32 a)\n\
         {\n.local .align 4 .b8 kept[32];\n.reg .u32 %r<6>;\n.reg .u64 %rd<4>;\nmov.u64 %rd1, kept;\n\
         and.b32 %r1, a, 7;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd1, %rd1, %rd2;\n\
         st.local.u32 [%rd1], a;\nadd.u32 %r2, %r1, 1;\ncall (%r3), inner, (a, %r2);\nld.local.u32 %r4, [%rd1];\n\
         add.u32 o, %r3, %r4;\nret;\n}\n\
         .func (.reg .u32 o) outer(.reg .u32 a)\n\
         {\n.reg .pred %p<2>;\n.reg .u32 %r<4>;\ncall (%r1), middle, (a);\nand.b32 %r2, %r1, 1;\n\
         setp.eq.u32 %p1, %r2, 0;\nmov.u32 o, %r1;\n@%p1 bra D;\ncall (%r3), middle, (%r1);\nxor.b32 o, o, %r3;\nD:\n\
         ret;\n}\n",
        "mov.u32 %r6, %r1;\nmov.u32 %r5, 0;\nROUND:\ncall (%r6), outer, (%r6);\nadd.u32 %r5, %r5, 1;\n\
         setp.lt.u32 %p3, %r5, 8;\n@%p3 bra ROUND;\nst.global.u32 [%rd2], %r6;",
    ),
    // Every ticket is drawn once, and every draw comes to one thread.
    (
        "atomic operations in flight",
        "",
        "mov.u32 %r5, 0;\nmov.u32 %r10, %nctaid.x;\nmul.lo.u32 %r10, %r10, %r4;\nmul.wide.u32 %rd5, %r10, 4;\n\
         add.u64 %rd5, %rd5, %rd1;\nROUND:\natom.global.add.u32 %r6, [%rd5], 1;\n\
         and.b32 %r7, %r6, 8191;\nmul.wide.u32 %rd6, %r7, 4;\nadd.u64 %rd6, %rd6, %rd5;\n\
         red.global.add.u32 [%rd6+8], 1;\natom.global.xor.b32 %r8, [%rd2], %r5;\n\
         add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 10;\n@%p3 bra ROUND;",
    ),
    // Each load needs the one before, each store the load.
    (
        "loads and stores in flight",
        "",
        "mov.u32 %r5, 0;\nst.global.u32 [%rd2], %r1;\nROUND:\nld.global.cg.u32 %r6, [%rd2];\n\
         mad.lo.u32 %r6, %r6, 1664525, 1013904223;\nst.global.u32 [%rd2], %r6;\n\
         add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 12;\n@%p3 bra ROUND;",
    ),
    // Warps end one after another, lanes within a warp too.
    (
        "with warps that have ended",
        "",
        "mov.u32 %r5, 0;\nmov.u32 %r6, %r1;\nshr.u32 %r7, %r2, 3;\nROUND:\nsetp.ge.u32 %p1, %r5, %r7;\n\
         st.global.u32 [%rd2], %r6;\n@%p1 exit;\n\
         mad.lo.u32 %r6, %r6, 1664525, 1013904223;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 64;\n@%p3 bra ROUND;",
    ),
    // A pipeline two deep of copies from the thread's own words behind the threads'.
    (
        "asynchronous copies in flight",
        ".shared .align 16 .b8 box[8192];\n",
        "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nmov.u32 %r10, %nctaid.x;\nmul.lo.u32 %r10, %r10, %r4;\n\
         mul.wide.u32 %rd5, %r10, 4;\nadd.u64 %rd5, %rd5, %rd1;\nadd.u64 %rd5, %rd5, 15;\nand.b64 %rd5, %rd5, -16;\n\
         mul.wide.u32 %rd6, %r1, 16;\nadd.u64 %rd5, %rd5, %rd6;\nmov.u32 %r11, box;\nshl.b32 %r12, %r2, 5;\n\
         add.u32 %r11, %r11, %r12;\nROUND:\n\
         add.u32 %r13, %r1, %r5;\nst.global.v4.u32 [%rd5], {%r13, %r5, %r2, %r3};\nand.b32 %r14, %r5, 1;\n\
         shl.b32 %r14, %r14, 4;\nadd.u32 %r14, %r14, %r11;\n\
         cp.async.cg.shared.global [%r14], [%rd5], 16;\ncp.async.commit_group;\ncp.async.wait_group 1;\n\
         xor.b32 %r15, %r14, 16;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra FIRST;\n\
         ld.shared.v2.u32 {%r16, %r17}, [%r15];\nmad.lo.u32 %r6, %r6, 33, %r16;\nadd.u32 %r6, %r6, %r17;\nFIRST:\n\
         add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 12;\n@%p3 bra ROUND;\n\
         cp.async.wait_all;\nst.global.u32 [%rd2], %r6;",
    ),
    // The first warp fills the box, the others take from it; both sides wait for an mbarrier's parity, the
    // filling side with pauses.
    (
        "spinning on mbarriers",
        ".shared .align 16 .b8 box[128];\n.shared .align 8 .b8 bars[16];\n",
        "mov.u32 %r9, bars;\nmov.u32 %r10, box;\nand.b32 %r7, %r2, 31;\nshl.b32 %r11, %r7, 2;\n\
         add.u32 %r12, %r10, %r11;\nsetp.eq.u32 %p1, %r2, 0;\nsub.u32 %r14, %r4, 32;\n\
         @%p1 mbarrier.init.shared.b64 [%r9], 32;\n@%p1 mbarrier.init.shared.b64 [%r9+8], %r14;\nbar.sync 0;\n\
         mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nmov.u32 %r8, 0;\nsetp.lt.u32 %p4, %r2, 32;\n@!%p4 bra TAKE;\n\
         FILL:\nadd.u32 %r15, %r5, %r3;\nst.shared.u32 [%r12], %r15;\nmbarrier.arrive.shared.b64 _, [%r9];\nFREE:\n\
         nanosleep.u32 20;\nmbarrier.try_wait.parity.shared.b64 %p2, [%r9+8], %r8;\n@!%p2 bra FREE;\n\
         xor.b32 %r8, %r8, 1;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 8;\n@%p3 bra FILL;\nbra END;\nTAKE:\n\
         mbarrier.try_wait.parity.shared.b64 %p2, [%r9], %r8;\n@!%p2 bra TAKE;\n\
         ld.shared.u32 %r13, [%r12];\nmad.lo.u32 %r6, %r6, 10, %r13;\nmbarrier.arrive.shared.b64 _, [%r9+8];\n\
         xor.b32 %r8, %r8, 1;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 8;\n@%p3 bra TAKE;\nEND:\n\
         st.global.u32 [%rd2], %r6;",
    ),
    // The lanes of a warp wait for each other in the middle of a branch, and pass values on.
    (
        "asleep, and meeting within a warp",
        "",
        "mov.u32 %r5, 0;\nmov.u32 %r6, %r1;\nand.b32 %r7, %r2, 3;\nROUND:\nsetp.eq.u32 %p1, %r7, 1;\n\
         @%p1 nanosleep.u32 40;\nsetp.lt.u32 %p2, %r7, 2;\n@!%p2 bra AWAKE;\nmad.lo.u32 %r6, %r6, 5, 7;\n\
         AWAKE:\nbar.warp.sync -1;\nshfl.sync.bfly.b32 %r8, %r6, 5, 31, -1;\nadd.u32 %r6, %r6, %r8;\nmembar.gl;\n\
         add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 10;\n@%p3 bra ROUND;\nst.global.u32 [%rd2], %r6;",
    ),
    // One thread of each block counts under a lock that all blocks share.
    (
        "holding a lock",
        "",
        "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra OUT;\nmov.u32 %r10, %nctaid.x;\nmul.lo.u32 %r10, %r10, %r4;\n\
         mul.wide.u32 %rd5, %r10, 4;\nadd.u64 %rd5, %rd5, %rd1;\nmov.u32 %r5, 0;\n\
         ROUND:\natom.global.cas.b32 %r6, [%rd5], 0, 1;\nsetp.ne.u32 %p2, %r6, 0;\n@%p2 bra ROUND;\nmembar.gl;\n\
         ld.volatile.global.u32 %r7, [%rd5+4];\nadd.u32 %r7, %r7, 1;\nst.volatile.global.u32 [%rd5+4], %r7;\n\
         membar.gl;\natom.global.exch.b32 %r6, [%rd5], 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 4;\n\
         @%p3 bra ROUND;\nOUT:\nst.global.u32 [%rd2], %r1;",
    ),
];

/// Returns the name and module of each; the entry is `k`.
pub fn states() -> impl Iterator<Item = (&'static str, String)> {
    STATES
        .into_iter()
        .map(|(name, functions, body)| (name, module(functions, body)))
}
