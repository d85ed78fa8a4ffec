//! Bounds of waiting loops: those that are never met, and those that are.

use super::{assert_cut, assert_waits, polls_while};

// Length: a table of kernels.
#[test]
fn a_bound_that_is_never_met_ends_nothing() {
    let zero = "mov.u32 %r1, 0; mov.u64 %rd1, 0;";
    let clock = "mov.u32 %r1, %clock; mov.u64 %rd1, %clock64;";
    for (name, before, round) in [
        (
            "not past the largest number",
            zero,
            "add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, -1;",
        ),
        (
            "not past the largest signed one",
            zero,
            "add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, 0x7fffffff;",
        ),
        (
            "not past the largest of 64 bits",
            zero,
            "add.u64 %rd1, %rd1, 1; setp.le.u64 %p1, %rd1, -1;",
        ),
        (
            "the largest number in a register",
            "mov.u32 %r1, 0; mov.u32 %r2, -1;",
            "add.u32 %r1, %r1, 1; setp.ge.u32 %p1, %r2, %r1;",
        ),
        (
            "not below zero",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; setp.ge.u32 %p1, %r1, 0;",
        ),
        (
            "not below the smallest signed one",
            zero,
            "add.s32 %r1, %r1, -1; setp.ge.s32 %p1, %r1, 0x80000000;",
        ),
        (
            "too many rounds",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0x1000003;",
        ),
        (
            "too many rounds from anywhere",
            "mov.u32 %r1, %t;",
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, -9;",
        ),
        (
            "too many rounds down",
            zero,
            "add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, -2000000000;",
        ),
        (
            "too many rounds to be met",
            zero,
            "add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0x1000002;",
        ),
        (
            "too many rounds round about",
            zero,
            "add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 9;",
        ),
        (
            "past the bound by steps of two",
            zero,
            "add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 1001;",
        ),
        (
            "past a parameter by steps of two",
            zero,
            "add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, %n;",
        ),
        (
            "past the bound and round",
            zero,
            "add.u32 %r1, %r1, 0x40000000; setp.lt.u32 %p1, %r1, 0xc0000001;",
        ),
        (
            "steps that are none",
            zero,
            "add.u64 %rd1, %rd1, 0x100000000; cvt.u32.u64 %r2, %rd1; \
         setp.lt.u32 %p1, %r2, %n;",
        ),
        (
            "no 32 bits come so far",
            zero,
            "add.u32 %r1, %r1, 4096; cvt.u64.u32 %rd2, %r1; \
         setp.lt.u64 %p1, %rd2, 0x100000001;",
        ),
        (
            "not below zero when widened",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; cvt.u64.u32 %rd2, %r1; \
         setp.ge.s64 %p1, %rd2, 0;",
        ),
        (
            "met, but not at the same time",
            "mov.u32 %r1, 0; mov.u32 %r2, 0;",
            "add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r1, 5; setp.ne.or.u32 %p1, %r2, 6, %p2;",
        ),
        (
            "a step that is taken back",
            zero,
            "add.u32 %r1, %r1, 1; not.b32 %r2, %r1; add.u32 %r3, %r1, %r2; \
         setp.lt.u32 %p1, %r3, %n;",
        ),
        (
            "a number that others take, too",
            zero,
            "atom.global.add.u32 %r1, [%q], 1; setp.ne.u32 %p1, %r1, 1000;",
        ),
        (
            "a number that begins anew",
            zero,
            "atom.global.inc.u32 %r1, [%q], 5; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "the end of time",
            clock,
            "mov.u64 %rd2, %clock64; setp.lt.u64 %p1, %rd2, 0xffffffffffffffff;",
        ),
        (
            "a time of the day",
            clock,
            "mov.u64 %rd2, %globaltimer; setp.lt.u64 %p1, %rd2, 0x1000000000;",
        ),
        (
            "not one tick of a clock",
            clock,
            "mov.u64 %rd2, %globaltimer; setp.ne.u64 %p1, %rd2, 3;",
        ),
        (
            "a tick after the start",
            clock,
            "mov.u64 %rd2, %clock64; sub.u64 %rd2, %rd2, %rd1; \
         setp.ne.u64 %p1, %rd2, 1000;",
        ),
        (
            "hours",
            clock,
            "mov.u64 %rd2, %clock64; sub.u64 %rd2, %rd2, %rd1; setp.lt.u64 %p1, %rd2, 0x20000000000;",
        ),
        (
            "more than a short clock counts",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; \
         setp.le.u32 %p1, %r2, -1;",
        ),
        (
            "a short clock, widened",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; cvt.u64.u32 %rd2, %r2; \
         setp.lt.u64 %p1, %rd2, 0x200000000;",
        ),
    ] {
        assert_waits(name, "", &polls_while(before, round));
    }
    for (name, before, round) in [
        (
            "a thousand rounds",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "a thousand and one",
            zero,
            "add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, 1000;",
        ),
        (
            "a thousand, met",
            zero,
            "add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 1000;",
        ),
        (
            "a thousand of 64 bits",
            zero,
            "add.u64 %rd1, %rd1, 8; setp.lt.u64 %p1, %rd1, 8000;",
        ),
        (
            "as many as there may be",
            zero,
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 0x1000000;",
        ),
        (
            "down from a parameter",
            "mov.u32 %r1, %n;",
            "add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0;",
        ),
        (
            "down to below zero",
            "mov.u32 %r1, %n;",
            "add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, -1;",
        ),
        (
            "threads in turn",
            "mov.u32 %r1, %t;",
            "add.u32 %r1, %r1, 256; setp.lt.u32 %p1, %r1, 4096;",
        ),
        (
            "up to a parameter",
            zero,
            "add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %n;",
        ),
        (
            "up to what memory says",
            zero,
            "ld.global.u32 %r2, [%q]; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2;",
        ),
        (
            "a number taken",
            zero,
            "atom.global.add.u32 %r1, [%q], 1; setp.lt.u32 %p1, %r1, 1000;",
        ),
        (
            "ticks",
            clock,
            "mov.u64 %rd2, %clock64; sub.s64 %rd2, %rd2, %rd1; setp.lt.s64 %p1, %rd2, 100000;",
        ),
        (
            "ticks of a short clock",
            clock,
            "mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; \
         setp.lt.u32 %p1, %r2, 100000;",
        ),
        (
            "a time from the start on",
            "mov.u64 %rd1, %globaltimer; add.u64 %rd1, %rd1, 10000000000;",
            "mov.u64 %rd2, %globaltimer; setp.lt.u64 %p1, %rd2, %rd1;",
        ),
        (
            "a time in a parameter",
            clock,
            "mov.u64 %rd2, %clock64; setp.gt.u64 %p1, %q, %rd2;",
        ),
    ] {
        assert_cut(name, "", &polls_while(before, round));
    }
}
