//! Asynchronous copies and mbarrier objects.

use crate::support::flow::{fault, module, run};
use gridmux_hw_model::{FaultKind, FaultSpace};

const BOX: &str = ".shared .align 16 .b8 box[4096];\n.shared .align 8 .b8 bars[64];\n\
    .global .align 16 .u32 source[256] = {1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007};\n";

#[test]
fn copies_of_each_size_arrive() {
    // Each thread fills 64 bytes of the source's second half, then copies 4, 8 and 16 bytes of it.
    let body = "mov.u64 %rd5, source;\nmul.wide.u32 %rd6, %r2, 16;\nadd.u64 %rd5, %rd5, %rd6;\n\
        mul.lo.u32 %r5, %r2, 10;\nadd.u32 %r6, %r5, 1;\nadd.u32 %r7, %r5, 2;\nadd.u32 %r8, %r5, 3;\n\
        st.global.v4.u32 [%rd5], {%r5, %r6, %r7, %r8};\nmembar.gl;\nmov.u32 %r9, box;\nmul.lo.u32 %r10, %r2, 32;\n\
        add.u32 %r9, %r9, %r10;\ncp.async.ca.shared.global [%r9], [%rd5+4], 4;\n\
        cp.async.ca.shared.global.L2::128B [%r9+8], [%rd5+8], 8;\n\
        cp.async.commit_group;\ncp.async.cg.shared.global [%r9+16], [%rd5], 16;\ncp.async.commit_group;\n\
        cp.async.wait_group 1;\ncp.async.wait_all;\nbar.sync 0;\nld.shared.u32 %r11, [%r9];\n\
        ld.shared.v2.u32 {%r12, %r13}, [%r9+8];\nld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r9+16];\n\
        add.u32 %r11, %r11, %r12;\nadd.u32 %r11, %r11, %r13;\nmad.lo.u32 %r11, %r14, 3, %r11;\n\
        mad.lo.u32 %r11, %r15, 5, %r11;\nmad.lo.u32 %r11, %r16, 7, %r11;\nmad.lo.u32 %r11, %r17, 11, %r11;\n\
        st.global.u32 [%rd2], %r11;";
    for (n, got) in (0_u32..).zip(run(&module(BOX, body), 1, 64)) {
        let v = |k: u32| 10 * n + k;
        let expected = v(1) + v(2) + v(3) + 3 * v(0) + 5 * v(1) + 7 * v(2) + 11 * v(3);
        assert_eq!(got, expected, "thread {n}");
    }
}

#[test]
fn short_sources_are_filled_with_zeros() {
    // The source size is the thread's number; what lies behind it in the source is not read.
    let body = "mov.u32 %r9, box;\nmul.lo.u32 %r10, %r2, 16;\nadd.u32 %r9, %r9, %r10;\nmov.u32 %r5, -1;\n\
        st.shared.v4.u32 [%r9], {%r5, %r5, %r5, %r5};\nmov.u64 %rd5, source;\nmin.u32 %r6, %r2, 16;\n\
        cp.async.cg.shared.global [%r9], [%rd5], 16, %r6;\ncp.async.wait_all;\n\
        ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r9];\nsetp.gt.u32 %p1, %r2, 20;\n\
        @%p1 cp.async.ca.shared.global [%r9], [%rd5], 8, !%p1;\n\
        @!%p1 cp.async.ca.shared.global [%r9], [%rd5], 8, %p1;\ncp.async.wait_all;\nld.shared.u32 %r15, [%r9];\n\
        add.u32 %r11, %r11, %r12;\nadd.u32 %r11, %r11, %r13;\nadd.u32 %r11, %r11, %r14;\n\
        mad.lo.u32 %r11, %r15, 10000, %r11;\nst.global.u32 [%rd2], %r11;";
    let bytes: Vec<u8> = (1000_u32..1004).flat_map(u32::to_le_bytes).collect();
    for (n, got) in run(&module(BOX, body), 1, 32).into_iter().enumerate() {
        let mut seen = [0; 16];
        let length = n.min(16);
        seen[..length].copy_from_slice(&bytes[..length]);
        let words = seen
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
        assert_eq!(got, words.sum::<u32>() + 10_000_000, "thread {n}");
    }
}

#[test]
fn an_ignored_source_is_not_read() {
    let body = "mov.u32 %r9, box;\nmov.u64 %rd5, 4096;\nsetp.lt.u32 %p1, %r2, 100;\nmov.u32 %r5, -1;\n\
        st.shared.u32 [%r9], %r5;\ncp.async.ca.shared.global [%r9], [%rd5], 4, %p1;\nmov.u32 %r6, 0;\n\
        cp.async.ca.shared.global [%r9+4], [%rd5], 4, %r6;\ncp.async.wait_all;\nld.shared.u32 %r7, [%r9];\n\
        st.global.u32 [%rd2], %r7;";
    assert!(run(&module(BOX, body), 1, 32).iter().all(|got| *got == 0));
    let read = body.replace("%r2, 100", "%r2, 0");
    let fault = fault(&module(BOX, &read), 32);
    assert_eq!(
        fault.kind,
        FaultKind::OutOfBounds {
            write: false,
            space: FaultSpace::Global,
            bytes: 4
        }
    );
}

#[test]
fn an_mbarrier_counts_arrivals_over_phases() {
    // All threads arrive; thread 0 counts twice; every phase passes data on.
    let body = "mov.u32 %r9, bars;\nmov.u32 %r10, box;\nshl.b32 %r11, %r2, 2;\nadd.u32 %r12, %r10, %r11;\n\
        setp.eq.u32 %p1, %r2, 0;\nadd.u32 %r13, %r4, 1;\n@%p1 mbarrier.init.shared.b64 [%r9], %r13;\nbar.sync 0;\n\
        mov.u32 %r5, 0;\nmov.u32 %r6, 0;\n\
        LOOP:\nmad.lo.u32 %r14, %r5, 100, %r2;\nst.shared.u32 [%r12], %r14;\n\
        @%p1 mbarrier.arrive.shared::cta.b64 %rd5, [%r9], 2;\n\
        @!%p1 mbarrier.arrive.release.cta.shared.b64 %rd5, [%r9];\nWAIT:\n\
        mbarrier.test_wait.shared.b64 %p2, [%r9], %rd5;\n@!%p2 bra WAIT;\n\
        xor.b32 %r15, %r12, 4;\nld.shared.u32 %r16, [%r15];\nadd.u32 %r6, %r6, %r16;\nbar.sync 0;\n\
        add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 3;\n@%p3 bra LOOP;\nst.global.u32 [%rd2], %r6;";
    for (n, got) in (0_u32..).zip(run(&module(BOX, body), 1, 96)) {
        assert_eq!(got, 3 * (n ^ 1) + 300, "thread {n}");
    }
}

#[test]
fn a_producer_warp_feeds_consumers_through_parities() {
    // Warp 0 copies into the box, others wait by parity with try_wait; a second barrier says that the box is free.
    let body = "mov.u32 %r9, bars;\nmov.u32 %r10, box;\nand.b32 %r7, %r2, 31;\nshl.b32 %r11, %r7, 2;\n\
        add.u32 %r12, %r10, %r11;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared.b64 [%r9], 32;\n\
        @%p1 mbarrier.init.shared.b64 [%r9+8], 64;\nbar.sync 0;\n\
        mov.u64 %rd6, source;\nmul.wide.u32 %rd7, %r7, 4;\nadd.u64 %rd6, %rd6, %rd7;\nmov.u32 %r5, 0;\n\
        mov.u32 %r6, 0;\nmov.u32 %r8, 0;\nsetp.lt.u32 %p4, %r2, 32;\n@!%p4 bra CONSUME;\nPRODUCE:\n\
        st.global.u32 [%rd6], %r5;\nmembar.gl;\n\
        cp.async.ca.shared.global [%r12], [%rd6], 4;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r9];\nFREE:\n\
        mbarrier.try_wait.parity.shared.b64 %p2, [%r9+8], %r8;\n@!%p2 bra FREE;\nxor.b32 %r8, %r8, 1;\n\
        add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 6;\n@%p3 bra PRODUCE;\nbra END;\n\
        CONSUME:\nFULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], %r8, 1000;\n@!%p2 bra FULL;\n\
        ld.shared.u32 %r13, [%r12];\nmad.lo.u32 %r6, %r6, 10, %r13;\nmbarrier.arrive.shared.b64 _, [%r9+8];\n\
        xor.b32 %r8, %r8, 1;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 6;\n@%p3 bra CONSUME;\nEND:\n\
        st.global.u32 [%rd2], %r6;";
    for (n, got) in run(&module(BOX, body), 1, 96).into_iter().enumerate() {
        assert_eq!(got, if n < 32 { 0 } else { 12345 }, "thread {n}");
    }
}

#[test]
fn transactions_drops_and_pending_counts() {
    // One thread: 3 expected, one dropped; a phase waits for its bytes as well.
    let body = "mov.u32 %r9, bars;\nmov.u32 %r6, 0;\nmbarrier.init.shared.b64 [%r9], 3;\n\
        mbarrier.arrive_drop.shared.b64 %rd5, [%r9];\nmbarrier.pending_count.b64 %r5, %rd5;\n\
        mbarrier.arrive.expect_tx.shared.b64 %rd6, [%r9], 16;\nmbarrier.pending_count.b64 %r7, %rd6;\n\
        mbarrier.arrive.shared.b64 %rd7, [%r9];\n\
        mbarrier.test_wait.shared.b64 %p1, [%r9], %rd7;\n\
        mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r9], 10;\n\
        mbarrier.test_wait.shared.b64 %p2, [%r9], %rd7;\nmbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%r9], 6;\n\
        mbarrier.test_wait.shared.b64 %p3, [%r9], %rd7;\nmbarrier.arrive.shared.b64 %rd8, [%r9];\n\
        mbarrier.pending_count.b64 %r8, %rd8;\nmbarrier.inval.shared.b64 [%r9];\n\
        selp.u32 %r10, 1, 0, %p1;\nselp.u32 %r11, 10, 0, %p2;\nselp.u32 %r12, 100, 0, %p3;\n\
        add.u32 %r10, %r10, %r11;\nadd.u32 %r10, %r10, %r12;\nmad.lo.u32 %r10, %r5, 1000, %r10;\n\
        mad.lo.u32 %r10, %r7, 10000, %r10;\nmad.lo.u32 %r10, %r8, 100000, %r10;\nst.global.u32 [%rd2], %r10;";
    assert_eq!(run(&module(BOX, body), 1, 1), [223_100]);
}

#[test]
fn an_object_that_was_not_initialised_is_a_fault() {
    let body = "mov.u32 %r9, bars;\nmbarrier.arrive.shared.b64 %rd5, [%r9];\n";
    assert_eq!(fault(&module(BOX, body), 1).kind, FaultKind::BadMbarrier);
}
