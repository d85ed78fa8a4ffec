//! Barriers: reductions, named barriers, arrivals, thread counts, ended threads, deadlocks.

use crate::support::flow::{fault, line_of, module, run};
use gridmux_hw_model::FaultKind;

#[test]
fn a_reduction_counts_and_combines_predicates() {
    let body = "setp.lt.u32 %p1, %r2, 70;\nsetp.lt.u32 %p2, %r2, 1000;\nsetp.gt.u32 %p3, %r2, 126;\n\
        barrier.cta.red.popc.aligned.u32 %r5, 0, %p1;\nbar.red.popc.u32 %r6, 1, 128, !%p1;\n\
        bar.red.and.pred %p4, 0, %p2;\nbar.red.and.pred %p5, 0, %p1;\n\
        bar.red.or.pred %p6, 0, %p3;\nbar.red.or.pred %p7, 0, !%p2;\nselp.u32 %r7, 1, 0, %p4;\n\
        selp.u32 %r8, 2, 0, %p5;\nselp.u32 %r9, 4, 0, %p6;\n\
        selp.u32 %r10, 8, 0, %p7;\nadd.u32 %r7, %r7, %r8;\nadd.u32 %r9, %r9, %r10;\nadd.u32 %r7, %r7, %r9;\n\
        mad.lo.u32 %r5, %r5, 1000, %r6;\n\
        mad.lo.u32 %r7, %r7, 1000000, %r5;\nst.global.u32 [%rd2], %r7;";
    for got in run(&module("", body), 2, 128) {
        assert_eq!(got, 5_070_058);
    }
}

#[test]
fn a_reduction_counts_each_phase_anew_and_only_living_threads() {
    let body = "setp.ge.u32 %p1, %r2, 50;\n@%p1 exit;\nmov.u32 %r6, 0;\nmov.u32 %r7, 0;\nLOOP:\n\
        setp.le.u32 %p2, %r2, %r7;\n\
        bar.red.popc.u32 %r5, 0, %p2;\nmad.lo.u32 %r6, %r6, 10, %r5;\nadd.u32 %r7, %r7, 1;\n\
        setp.lt.u32 %p3, %r7, 5;\n@%p3 bra LOOP;\nst.global.u32 [%rd2], %r6;";
    for (n, got) in run(&module("", body), 1, 64).into_iter().enumerate() {
        assert_eq!(got, if n < 50 { 12345 } else { 0 }, "thread {n}");
    }
}

#[test]
fn producers_and_consumers_meet_at_named_barriers() {
    // Warp 0 consumes what warps 1 to 3 produce, four times; the barrier's number is in a register.
    let shared = ".shared .align 4 .b8 box[512];\n";
    let body = "shr.u32 %r5, %r2, 5;\nmov.u32 %r6, box;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r7, %r6, %r7;\n\
        mov.u32 %r8, 0;\nmov.u32 %r9, 0;\n\
        setp.ne.u32 %p1, %r5, 0;\n@%p1 bra PRODUCE;\nCONSUME:\nand.b32 %r10, %r8, 1;\nadd.u32 %r10, %r10, 1;\n\
        barrier.sync %r10, 128;\n\
        ld.shared.u32 %r11, [%r7+128];\nld.shared.u32 %r12, [%r7+256];\nld.shared.u32 %r13, [%r7+384];\n\
        add.u32 %r11, %r11, %r12;\nadd.u32 %r11, %r11, %r13;\n\
        add.u32 %r9, %r9, %r11;\nbar.arrive 3, 128;\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p2, %r8, 4;\n\
        @%p2 bra CONSUME;\nbra END;\n\
        PRODUCE:\nmad.lo.u32 %r11, %r8, 100, %r2;\nst.shared.u32 [%r7], %r11;\nand.b32 %r10, %r8, 1;\n\
        add.u32 %r10, %r10, 1;\nbarrier.arrive %r10, 128;\n\
        bar.sync 3, 128;\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p2, %r8, 4;\n@%p2 bra PRODUCE;\nEND:\n\
        st.global.u32 [%rd2], %r9;";
    let got = run(&module(shared, body), 2, 128);
    for (n, got) in (0_u32..).zip(got) {
        let expected: u32 = (0..4).map(|k| 300 * k + 3 * (n % 128) + 192).sum();
        assert_eq!(got, if n % 128 < 32 { expected } else { 0 }, "thread {n}");
    }
}

#[test]
fn the_two_sides_of_a_branch_may_wait_at_one_barrier() {
    // As from sm_70 on, threads arrive one by one.
    let shared = ".shared .align 4 .b8 box[256];\n";
    let body = "mov.u32 %r6, box;\nshl.b32 %r7, %r2, 2;\nadd.u32 %r7, %r6, %r7;\nand.b32 %r5, %r2, 1;\n\
        setp.ne.u32 %p1, %r5, 0;\nst.shared.u32 [%r7], %r2;\n\
        @%p1 bra ODD;\nbarrier.sync 0;\nld.shared.u32 %r8, [%r7+4];\nbra END;\nODD:\nbarrier.sync 0;\n\
        ld.shared.u32 %r8, [%r7+-4];\nEND:\nst.global.u32 [%rd2], %r8;";
    for (n, got) in (0_u32..).zip(run(&module(shared, body), 1, 64)) {
        assert_eq!(got, n ^ 1, "thread {n}");
    }
}

#[test]
fn a_barrier_that_cannot_complete_is_reported_with_who_waits_where() {
    let body = "shr.u32 %r5, %r2, 5;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra OTHER;\nbar.sync 1, 96;\nbra END;\nOTHER:\n\
        bar.sync 2, 96;\nEND:\nst.global.u32 [%rd2], %r5;";
    let text = module("", body);
    let fault = fault(&text, 64);
    assert_eq!(fault.kind, FaultKind::BarrierDeadlock);
    assert_eq!(fault.ptx_line, line_of(&text, "bar.sync 1"));
    let message = fault.to_string();
    let other = format!("line {}", line_of(&text, "bar.sync 2"));
    for part in ["barrier 1", "barrier 2", "96", &other] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn bad_numbers_and_counts_are_faults() {
    let bad_id = fault(&module("", "mov.u32 %r5, 16;\nbarrier.sync %r5;\n"), 32);
    assert_eq!(bad_id.kind, FaultKind::BadBarrier { id: 16 });
    let bad_count = fault(&module("", "mov.u32 %r5, 40;\nbar.sync 1, %r5;\n"), 32);
    assert_eq!(bad_count.kind, FaultKind::BadBarrierCount { threads: 40 });
}

#[test]
fn a_warp_may_arrive_twice_in_one_phase() {
    // Warp 0 announces two warps' worth of work for warp 1, which waits for three arrivals of 32.
    let shared = ".shared .align 4 .b8 box[4];\n";
    let body = "mov.u32 %r6, box;\nsetp.ge.u32 %p1, %r2, 32;\n@%p1 bra TAKE;\nmov.u32 %r7, 1;\n\
        st.shared.u32 [%r6], %r7;\nbar.arrive 1, 96;\n\
        mov.u32 %r7, 2;\nst.shared.u32 [%r6], %r7;\nbar.arrive 1, 96;\nbra END;\nTAKE:\nbar.sync 1, 96;\n\
        ld.shared.u32 %r8, [%r6];\nEND:\nst.global.u32 [%rd2], %r8;";
    for (n, got) in (0_u32..).zip(run(&module(shared, body), 2, 64)) {
        assert_eq!(got, if n % 64 < 32 { 0 } else { 2 }, "thread {n}");
    }
}
