//! Forward progress inside a warp: spin locks, lanes that wait for one another, operations across named lanes.

use crate::support::Bench;
use crate::support::flow::{kind, module, run, runs};
use gridmux_hw_model::{FaultKind, GpuConfig};
use gridmux_policy::units::Cycles;

/// Words that every thread of a launch shares.
const GLOBALS: &str = ".global .align 4 .u32 lock;\n.global .align 4 .u32 counter;\n.global .align 4 .u32 flags[64];\n";

#[test]
fn a_spin_lock_inside_a_warp_ends() {
    // while (atomicCAS(&lock, 0, 1)) ; counter = counter + 1; lock = 0.
    let body = "mov.u64 %rd5, lock;\nmov.u64 %rd6, counter;\nSPIN:\n\
        atom.global.acquire.gpu.cas.b32 %r5, [%rd5], 0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n\
        @%p1 bra SPIN;\nld.volatile.global.u32 %r6, [%rd6];\nadd.u32 %r7, %r6, 1;\n\
        st.volatile.global.u32 [%rd6], %r7;\nfence.acq_rel.gpu;\n\
        st.release.gpu.global.u32 [%rd5], 0;\nst.global.u32 [%rd2], %r6;";
    for mut got in runs(&module(GLOBALS, body), 3, 96) {
        got.sort_unstable();
        assert!(
            got.iter().copied().eq(0..288),
            "each thread saw a count of its own: {got:?}"
        );
    }
}

#[test]
fn a_lock_taken_and_released_inside_a_loop_ends() {
    // The form with a flag, and a synchronisation of the warp behind each round.
    let body = "mov.u64 %rd5, lock;\nmov.u64 %rd6, counter;\nmov.u32 %r8, 0;\nROUND:\nSPIN:\n\
        atom.global.exch.b32 %r5, [%rd5], 1;\nsetp.ne.u32 %p1, %r5, 0;\n\
        @%p1 bra SPIN;\nld.volatile.global.u32 %r6, [%rd6];\nadd.u32 %r6, %r6, 1;\n\
        st.volatile.global.u32 [%rd6], %r6;\nmembar.gl;\natom.global.exch.b32 %r5, [%rd5], 0;\n\
        bar.warp.sync -1;\nvote.sync.ballot.b32 %r9, 1, -1;\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p2, %r8, 4;\n\
        @%p2 bra ROUND;\nbar.sync 0;\n\
        ld.volatile.global.u32 %r6, [%rd6];\nadd.u32 %r6, %r6, %r9;\nst.global.u32 [%rd2], %r6;";
    let got = run(&module(GLOBALS, body), 1, 64);
    assert!(got.iter().all(|got| *got == 64 * 4 - 1), "{got:?}");
}

#[test]
fn lanes_of_a_warp_may_wait_for_one_another() {
    // Each lane waits for the flag of its left neighbour, whichever way the branch goes first.
    for (first, other) in [("ge", "lane 31 first"), ("lt", "lane 0 first")] {
        let wait = "mul.wide.u32 %rd5, %r2, 4;\nmov.u64 %rd6, flags;\nadd.u64 %rd6, %rd6, %rd5;\nmov.u32 %r6, 1;\n\
            setp.eq.u32 %p1, %r2, 0;\n";
        let body = format!(
            "{wait}setp.{first}.u32 %p3, %r2, 16;\n@%p3 bra ONE;\n@%p1 bra SET;\nWAIT:\n\
             ld.relaxed.gpu.global.u32 %r6, [%rd6+-4];\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra WAIT;\n\
            bra ADD;\nONE:\n@%p1 bra SET;\nWAIT2:\nld.volatile.global.u32 %r6, [%rd6+-4];\nsetp.eq.u32 %p2, %r6, 0;\n\
            @%p2 bra WAIT2;\nADD:\nadd.u32 %r6, %r6, 1;\nSET:\nst.release.gpu.global.u32 [%rd6], %r6;\n\
            st.global.u32 [%rd2], %r6;"
        );
        for (n, got) in (0_u32..).zip(run(&module(GLOBALS, &body), 1, 32)) {
            assert_eq!(got, n + 1, "thread {n}, {other}");
        }
    }
}

#[test]
fn a_plain_load_in_a_waiting_loop_is_enough() {
    let body = "setp.eq.u32 %p1, %r2, 5;\nmov.u64 %rd5, flags;\n@%p1 bra SET;\nWAIT:\nld.global.u32 %r6, [%rd5];\n\
        setp.eq.u32 %p2, %r6, 0;\n@%p2 bra WAIT;\nbra END;\nSET:\n\
        mov.u32 %r6, 9;\nst.global.u32 [%rd5], %r6;\nEND:\nst.global.u32 [%rd2], %r6;";
    assert!(
        run(&module(GLOBALS, body), 1, 32)
            .iter()
            .all(|got| *got == 9)
    );
}

#[test]
fn lanes_of_two_warps_share_a_lock_in_shared_memory() {
    let shared = ".shared .align 4 .u32 gate[2];\n";
    let body = "mov.u32 %r9, gate;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 st.shared.v2.u32 [%r9], {%r3, %r3};\nbar.sync 0;\n\
        SPIN:\natom.shared.cas.b32 %r5, [%r9], %r3, 77;\nsetp.ne.u32 %p1, %r5, %r3;\n\
        @%p1 bra SPIN;\nld.volatile.shared.u32 %r6, [%r9+4];\nadd.u32 %r7, %r6, 1;\n\
        st.volatile.shared.u32 [%r9+4], %r7;\nmembar.cta;\nst.volatile.shared.u32 [%r9], %r3;\nsub.u32 %r6, %r6, %r3;\n\
        st.global.u32 [%rd2], %r6;";
    let [functional, timed] = runs(&module(shared, body), 2, 128);
    for block in functional.chunks(128).chain(timed.chunks(128)) {
        let mut block = block.to_vec();
        block.sort_unstable();
        assert!(block.iter().copied().eq(0..128), "{block:?}");
    }
}

#[test]
fn an_operation_across_lanes_waits_for_those_it_names() {
    // Two ways lead to one shuffle; a vote on one way names only the lanes that go there.
    let body = "and.b32 %r5, %r2, 1;\nsetp.ne.u32 %p1, %r5, 0;\nmov.u32 %r7, 0;\n@%p1 bra ODD;\n\
        vote.sync.ballot.b32 %r7, 1, 0x55555555;\nmul.lo.u32 %r6, %r2, 3;\nbra JOIN;\n\
        ODD:\nmul.lo.u32 %r6, %r2, 5;\nmatch.any.sync.b32 %r7, %r5, 0xaaaaaaaa;\nJOIN:\n\
        shfl.sync.bfly.b32 %r8, %r6, 1, 31, -1;\nadd.u32 %r8, %r8, %r7;\nst.global.u32 [%rd2], %r8;";
    for (n, got) in (0_u32..).zip(run(&module("", body), 1, 64)) {
        let (lane, other) = (n % 2, n ^ 1);
        let mask = [0x5555_5555_u32, 0xaaaa_aaaa][lane as usize];
        let expected = mask.wrapping_add(other * if other % 2 == 0 { 3 } else { 5 });
        assert_eq!(got, expected, "thread {n}");
    }
}

#[test]
fn groups_with_masks_of_their_own_share_an_instruction() {
    // Tiles of eight lanes reduce and vote among themselves, in one instruction for all.
    let body = "and.b32 %r5, %r2, 24;\nmov.u32 %r6, 255;\nshl.b32 %r6, %r6, %r5;\nredux.sync.add.u32 %r7, %r2, %r6;\n\
        setp.gt.u32 %p1, %r2, 12;\nvote.sync.ballot.b32 %r8, %p1, %r6;\n\
        popc.b32 %r8, %r8;\nvote.sync.all.pred %p2, %p1, %r6;\nselp.u32 %r9, 1000000, 0, %p2;\n\
        mad.lo.u32 %r7, %r8, 10000, %r7;\nadd.u32 %r7, %r7, %r9;\nst.global.u32 [%rd2], %r7;";
    for (n, got) in (0_u32..).zip(run(&module("", body), 1, 32)) {
        let tile = n / 8 * 8..n / 8 * 8 + 8;
        let sum: u32 = tile.clone().sum();
        let above = u32::try_from(tile.filter(|k| *k > 12).count()).expect("small");
        assert_eq!(
            got,
            sum + above * 10_000 + u32::from(above == 8) * 1_000_000,
            "thread {n}"
        );
    }
}

#[test]
fn masked_synchronisation_after_early_exits() {
    // A quarter exits, a quarter synchronises alone, the rest in pairs; data passes through shared memory.
    let shared = ".shared .align 4 .b8 box[128];\n";
    let body = "mov.u32 %r9, box;\nshl.b32 %r10, %r2, 2;\nadd.u32 %r10, %r9, %r10;\nsetp.lt.u32 %p1, %r2, 8;\n\
        @%p1 exit;\nsetp.lt.u32 %p2, %r2, 16;\n@%p2 bra LOW;\nst.shared.u32 [%r10], %r2;\n\
        bar.warp.sync 0xffff0000;\nxor.b32 %r11, %r10, 4;\nld.shared.u32 %r6, [%r11];\nbra END;\nLOW:\n\
        st.shared.u32 [%r10], 500;\nbar.warp.sync 0xff00;\nxor.b32 %r11, %r10, 4;\nld.shared.u32 %r6, [%r11];\n\
        END:\nbar.warp.sync -1;\nactivemask.b32 %r7;\npopc.b32 %r7, %r7;\nmad.lo.u32 %r6, %r7, 1000, %r6;\n\
        st.global.u32 [%rd2], %r6;";
    for (n, got) in (0_u32..).zip(run(&module(shared, body), 1, 32)) {
        let expected = match n {
            0..8 => 0,
            8..16 => 24_500,
            _ => 24_000 + (n ^ 1),
        };
        assert_eq!(got, expected, "thread {n}");
    }
}

#[test]
fn lanes_that_leave_a_loop_one_by_one_still_synchronise() {
    // Each lane leaves after a number of rounds of its own; the full mask includes those that have exited.
    let body = "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nLOOP:\nbar.warp.sync -1;\nvote.sync.ballot.b32 %r7, 1, -1;\n\
        popc.b32 %r7, %r7;\nadd.u32 %r6, %r6, %r7;\nst.global.u32 [%rd2], %r6;\nsetp.ge.u32 %p1, %r5, %r2;\n\
        @%p1 exit;\n\
        add.u32 %r5, %r5, 1;\nbra LOOP;\n";
    for (n, got) in (0_u32..).zip(run(&module("", body), 1, 32)) {
        assert_eq!(got, (0..=n).map(|k| 32 - k).sum::<u32>(), "thread {n}");
    }
}

#[test]
fn synchronising_inside_functions_called_from_both_sides() {
    let f = ".func (.param .b32 r) f(.param .b32 a)\n\
        {\n.reg .b32 %r<8>;\nld.param.u32 %r1, [a];\nbar.warp.sync -1;\nshfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;\n\
        st.param.b32 [r], %r2;\nret;\n}\n";
    let call = "{\n.param .b32 p0;\nst.param.b32 [p0], %r2;\n.param .b32 q0;\ncall (q0), f, (p0);\n\
        ld.param.b32 %r6, [q0];\n}\n";
    let body = format!(
        "bar.warp.sync -1;\n{call}mov.u32 %r7, %r6;\nsetp.lt.u32 %p1, %r2, 16;\n@%p1 bra LOW;\n\
         add.u32 %r7, %r7, 100;\nbra JOIN;\nLOW:\nadd.u32 %r7, %r7, 200;\nJOIN:\n{call}\
        add.u32 %r6, %r6, %r7;\nst.global.u32 [%rd2], %r6;"
    );
    for (n, got) in (0_u32..).zip(run(&module(f, &body), 1, 32)) {
        assert_eq!(
            got,
            2 * (n ^ 16) + if n < 16 { 200 } else { 100 },
            "thread {n}"
        );
    }
}

#[test]
fn an_endless_wait_for_a_lane_of_the_same_warp_is_reported() {
    // Lane 0 waits at the block's barrier for lanes that wait for lane 0.
    let body = "setp.eq.u32 %p1, %r2, 0;\n@%p1 bra ZERO;\nbar.warp.sync -1;\nbra END;\nZERO:\nbarrier.sync 0;\nEND:\n\
        st.global.u32 [%rd2], %r2;";
    assert_eq!(kind(&module("", body), 64), FaultKind::BarrierDeadlock);
}

#[test]
fn lanes_that_wait_for_each_other_in_a_circle_go_on_alone() {
    // Lane 0 waits for lane 1, lane 1 for lane 2, lane 2 for lane 0, each at a statement of its own: a chip would wait
    // for ever, the model lets each go on, and the others have long passed.
    let body = "mov.u32 %r5, 7;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra ZERO;\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra ONE;\n\
        setp.eq.u32 %p3, %r2, 2;\n@%p3 bra TWO;\nbra END;\n\
        ZERO:\nbar.warp.sync 3;\nmov.u32 %r5, 10;\nbra END;\nONE:\nbar.warp.sync 6;\nmov.u32 %r5, 11;\nbra END;\n\
        TWO:\nbar.warp.sync 5;\nmov.u32 %r5, 12;\nEND:\nst.global.u32 [%rd2], %r5;";
    for (n, got) in (0_u32..).zip(run(&module("", body), 2, 32)) {
        let lane = n % 32;
        assert_eq!(got, if lane < 3 { 10 + lane } else { 7 }, "thread {n}");
    }
}

/// `f` exchanges its argument with another lane, over its own register, and asks all lanes; `g` calls it one deeper.
const DEEP: &str = ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n\
    ld.param.b32 %r1, [a];\nmul.wide.u32 %rd1, %r1, 0x10001;\nand.b32 %r3, %r1, 3;\nsetp.eq.u32 %p1, %r3, 1;\n\
    shfl.sync.bfly.b32 %r1, %r1, 17, 31, -1;\nvote.sync.ballot.b32 %r2, %p1, -1;\n@!%p1 bar.warp.sync -1;\n\
    popc.b32 %r2, %r2;\n\
    mad.lo.u32 %r1, %r2, 1000, %r1;\ncvt.u32.u64 %r4, %rd1;\nadd.u32 %r1, %r1, %r4;\nst.param.b32 [r], %r1;\nret;\n}\n\
    .func (.param .b32 r) g(.param .b32 a)\n\
    {\n.reg .b32 %r<8>;\n.reg .b64 %rd<6>;\nld.param.b32 %r1, [a];\nmul.wide.u32 %rd5, %r1, %r1;\n\
    {\n.param .b32 p0;\nst.param.b32 [p0], %r1;\n.param .b32 q0;\ncall (q0), f, (p0);\nld.param.b32 %r2, [q0];\n}\n\
    cvt.u32.u64 %r3, %rd5;\nadd.u32 %r2, %r2, %r3;\nst.param.b32 [r], %r2;\nret;\n}\n";

fn call(function: &str) -> String {
    format!(
        "{{\n.param .b32 p0;\nst.param.b32 [p0], %r2;\n.param .b32 q0;\ncall (q0), {function}, (p0);\n\
        ld.param.b32 %r6, [q0];\n}}\n"
    )
}

#[test]
fn lanes_that_came_by_calls_of_different_depth_meet() {
    let (f, g) = (call("f"), call("g"));
    let body = format!(
        "mov.u32 %r7, 0;\nsetp.lt.u32 %p1, %r2, 13;\n@%p1 bra LOW;\n{f}bra JOIN;\nLOW:\n{g}add.u32 %r7, %r7, 7;\n\
         JOIN:\n\
        add.u32 %r6, %r6, %r7;\nst.global.u32 [%rd2], %r6;"
    );
    for (n, got) in (0_u32..).zip(run(&module(DEEP, &body), 1, 32)) {
        // Eight of 32 numbers leave 1 when divided by 4.
        let of_f = (n ^ 17) + 8 * 1000 + n * 0x1_0001;
        let of_g = if n < 13 { n * n + 7 } else { 0 };
        assert_eq!(got, of_f + of_g, "thread {n}");
    }
}

#[test]
fn functions_that_lanes_run_at_one_time_keep_their_registers() {
    // Each function holds numbers of its own width over a call in which all lanes meet.
    let meet = ".func meet()\n{\nbar.warp.sync -1;\nret;\n}\n";
    let function = |name: &str, width: u32, sum: &str| {
        let registers = (0..12).map(|k| format!("mul.lo.u{width} %v{k}, %v12, {};\n", k + 3));
        let adds = (0..12).map(|k| format!("add.u{width} %v13, %v13, %v{k};\n"));
        format!(
            ".func (.param .b32 r) {name}(.param .b32 a)\n{{\n.reg .b{width} %v<16>;\n.reg .b32 %s;\n\
             ld.param.u32 %v12, [a];\n\
            {}call meet;\nmov.b{width} %v13, 0;\n{}{sum}st.param.b32 [r], %s;\nret;\n}}\n",
            registers.collect::<String>(),
            adds.collect::<String>()
        )
    };
    let functions = [
        meet.to_owned(),
        function("wide", 64, "cvt.u32.u64 %s, %v13;\n"),
        function("narrow", 32, "mov.u32 %s, %v13;\n"),
    ];
    for [low, high] in [["wide", "narrow"], ["narrow", "wide"]] {
        let body = format!(
            "setp.lt.u32 %p1, %r2, 13;\n@%p1 bra LOW;\n{}bra JOIN;\nLOW:\n{}JOIN:\nst.global.u32 [%rd2], %r6;",
            call(high),
            call(low)
        );
        for (n, got) in (0_u32..).zip(run(&module(&functions.concat(), &body), 1, 32)) {
            let factors: u32 = (3..15).sum();
            assert_eq!(got, n * factors, "thread {n}, {low} below");
        }
    }
}

#[test]
fn every_sub_core_comes_to_the_unit_that_all_share() {
    // 64 warps fill the SM; all but one of each block ask an mbarrier in shared memory without a pause, and look at
    // words that lie in one bank. The one, in each sub-core in turn, must come to the load/store unit between them to
    // let the others go.
    let shared = ".shared .align 8 .b64 gate;\n.shared .align 4 .u32 count;\n.shared .align 4 .b8 rows[4096];\n";
    for name in ["v100", "h200", "c2050", "gtx480-lrr"] {
        for releaser in [28, 29, 30, 31].map(|warp| warp * 32) {
            let body = format!(
                "mov.u32 %r9, gate;\nmov.u32 %r10, rows;\nand.b32 %r11, %r2, 31;\nmad.lo.u32 %r10, %r11, 128, %r10;\n\
                st.shared.u32 [%r10], %r11;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared.b64 [%r9], 1;\n\
                bar.sync 0;\n\
                setp.ne.u32 %p1, %r2, {releaser};\n@%p1 bra WAIT;\nmov.u32 %r5, 0;\nROUND:\n\
                st.shared.u32 [count], %r5;\n\
                add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 50;\n@%p2 bra ROUND;\n\
                mbarrier.arrive.shared.b64 %rd5, [%r9];\n\
                WAIT:\nld.volatile.shared.u32 %r12, [%r10];\nmbarrier.test_wait.parity.shared.b64 %p3, [%r9], 0;\n\
                @!%p3 bra WAIT;\n\
                sub.u32 %r12, %r12, %r11;\nadd.u32 %r12, %r12, %r1;\nst.global.u32 [%rd2], %r12;"
            );
            let config = GpuConfig::builtin(name).expect("built in");
            let mut bench = Bench::new(config.scaled_to_sms(1));
            let kernel = bench.kernel(&module(shared, &body), "k");
            let out = bench.buffer(&[0; 2048 * 4]);
            let params = out.to_le_bytes();
            let mut launch = bench.simple(&kernel, 2, 1024, &params);
            launch.budget = Some(Cycles(2_000_000));
            let ended = bench.time(launch);
            assert!(
                ended.is_ok(),
                "{name}, thread {releaser}: {:?}",
                ended.err()
            );
            assert!(bench.words(out, 2048).iter().copied().eq(0..2048));
        }
    }
}
