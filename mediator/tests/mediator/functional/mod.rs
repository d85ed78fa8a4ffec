//! The modelled device without timing: results, turns, budgets, kills, copies; and what it has in common with the timed
//! one.

pub(crate) mod rig;

use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_mediator::device::{
    Command, DeviceCopyCommand, Direction, MemsetCommand, Outcome, Timing,
};
use gridmux_workloads::{Size, workloads};
use rig::{Rig, SPIN, Shape};
use std::time::Duration;

const BOTH: [Timing; 2] = [Timing::Timed, Timing::Functional];

#[test]
fn every_workload_gives_its_references_results_on_both() {
    // The timed model itself is judged on larger ones where it lives.
    let runs = [
        (Timing::Timed, Size::Tiny),
        (Timing::Functional, Size::Tiny),
        (Timing::Functional, Size::Small),
    ];
    for workload in workloads() {
        for (timing, size) in runs {
            let case = workload.case(size, 7);
            let output = Rig::new(timing).run(workload.ptx, &case);
            case.verify(&output)
                .unwrap_or_else(|error| panic!("{} {size}: {error}", workload.name));
        }
    }
}

#[test]
fn long_kernels_of_two_clients_make_progress_in_turns() {
    let mut rig = Rig::new(Timing::Functional);
    let shape = Shape::line(4000, 256);
    let tags = [0, 1].map(|lane| {
        let domain = rig.domain();
        rig.spin(lane, domain, shape, 2000)
    });
    rig.until("the first end", |rig| {
        tags.iter().any(|tag| rig.of(*tag).ended.is_some())
    });
    // They are alike, so one is nearly as far as the other whenever the first ends.
    for tag in tags {
        let retired = rig.of(tag).retired;
        assert!(retired > 2000, "{retired} of 4000 blocks");
        assert_eq!(rig.end_of(tag), Outcome::Done);
        let seen = rig.of(tag);
        assert_eq!((seen.placed, seen.retired), (4000, 4000));
        assert!(seen.ran_ns > 0 && seen.end_ns > seen.start_ns);
    }
}

#[test]
fn who_holds_more_of_the_device_gets_more_of_the_time() {
    let mut rig = Rig::new(Timing::Functional);
    let [large, small] = [0, 1].map(|_| rig.domain());
    // 8 SMs hold 64 blocks of 256 threads: all of the device, and a quarter of it.
    let (large_rounds, small_rounds) = (500, 150_000);
    let large = rig.spin(0, large, Shape::line(40_000, 256), large_rounds);
    let small = rig.spin(1, small, Shape::line(16, 256), small_rounds);
    rig.until("a start", |rig| rig.of(small).placed == 16);
    let before = rig.of(large).retired;
    assert_eq!(rig.end_of(small), Outcome::Done);
    assert_eq!(rig.of(large).ended, None);
    let of_large = f64::from(rig.of(large).retired - before) * f64::from(large_rounds);
    let of_small = f64::from(16 * small_rounds);
    let ratio = of_large / of_small;
    assert!((2.0..8.0).contains(&ratio), "{ratio} where 4 is due");
}

#[test]
fn an_endless_kernel_ends_at_its_budget_and_keeps_nobody_from_being_served() {
    let mut rig = Rig::with(Timing::Functional, "h200", 8, Duration::from_millis(1500));
    let (evil, good) = (rig.domain(), rig.domain());
    // It counts to 2^32 in each of its warps.
    let endless = rig.spin(0, evil, Shape::line(64, 1024), u32::MAX);
    rig.until("a start", |rig| rig.of(endless).placed > 0);
    for _ in 0..20 {
        let tag = rig.spin(1, good, Shape::line(16, 256), 100);
        assert_eq!(rig.end_of(tag), Outcome::Done);
    }
    assert_eq!(rig.of(endless).ended, None, "it does not end by itself");
    let outcome = rig.end_of(endless);
    assert_eq!(outcome, Outcome::Failed(CompletionStatus::Budget));
    let text = rig.fault(endless);
    assert!(text.contains("kernel_budget_cpu_seconds"), "{text}");
}

#[test]
fn a_budget_in_cycles_is_kept_by_the_estimate() {
    let mut rig = Rig::new(Timing::Functional);
    let domain = rig.domain();
    rig.budget_cycles = 10_000;
    let tag = rig.spin(0, domain, Shape::line(1, 32), u32::MAX);
    assert_eq!(rig.end_of(tag), Outcome::Failed(CompletionStatus::Budget));
    let text = rig.fault(tag);
    assert!(text.contains("10000 core cycles"), "{text}");
    let tag = rig.spin(0, domain, Shape::line(1, 32), 100);
    assert_eq!(rig.end_of(tag), Outcome::Done);
}

#[test]
fn what_runs_and_what_waits_can_be_killed() {
    let mut rig = Rig::new(Timing::Functional);
    let domain = rig.domain();
    let tags = [0, 1].map(|_| rig.spin(0, domain, Shape::line(8, 64), u32::MAX));
    rig.until("a start", |rig| rig.of(tags[0]).placed > 0);
    rig.kill(tags[1]);
    assert_eq!(rig.end_of(tags[1]), Outcome::Killed);
    assert_eq!(rig.of(tags[0]).ended, None);
    rig.kill(tags[0]);
    assert_eq!(rig.end_of(tags[0]), Outcome::Killed);
    rig.kill(tags[0]);
    let tag = rig.spin(0, domain, Shape::line(8, 64), 10);
    assert_eq!(rig.end_of(tag), Outcome::Done);
    rig.control.destroy_domain(domain);
}

#[test]
fn a_launch_that_no_sm_could_hold_is_refused_with_its_reason_on_both() {
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let domain = rig.domain();
        let too_large = [
            (Shape::line(1, 2048), "block"),
            (Shape::line(0, 32), "grid"),
            (
                Shape {
                    shared_bytes: 1 << 20,
                    ..Shape::line(1, 32)
                },
                "shared memory",
            ),
        ];
        for (shape, word) in too_large {
            let tag = rig.spin(0, domain, shape, 1);
            let outcome = rig.end_of(tag);
            assert_eq!(outcome, Outcome::Failed(CompletionStatus::BadShape));
            let text = rig.fault(tag);
            assert!(text.contains(word), "{text}");
        }
    }
}

#[test]
fn a_bad_address_is_the_launchs_fault_on_both() {
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let domain = rig.domain();
        let kernel = rig.kernel(domain, SPIN);
        let tag = rig.launch(0, domain, &kernel, Shape::line(1, 32), &[1; 12]);
        let outcome = rig.end_of(tag);
        assert_eq!(outcome, Outcome::Failed(CompletionStatus::MemoryFault));
        assert!(rig.fault(tag).contains("0x101010101010101"));
    }
}

#[test]
fn large_copies_arrive_whole_beside_a_kernel_and_on_both() {
    let bytes: Vec<u8> = (0..(33_u32 << 20) / 4)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    let length = bytes.len() as u64;
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let (other, domain) = (rig.domain(), rig.domain());
        if timing == Timing::Functional {
            rig.spin(0, other, Shape::line(8, 64), u32::MAX);
        }
        let [a, b] = [0, 1].map(|_| rig.alloc(domain, length));
        rig.write(domain, a, &bytes);
        let tag = rig.command(1, |tag| {
            Command::DeviceCopy(DeviceCopyCommand {
                tag,
                domain,
                from: a,
                to: b,
                bytes: length,
                rest_bytes: 0,
            })
        });
        assert_eq!(rig.end_of(tag), Outcome::Done);
        assert!(rig.read(domain, b, bytes.len()) == bytes, "all bytes");
        for (width, value) in [
            (Width::One, 7),
            (Width::Two, 0x102),
            (Width::Four, 0x0102_0304),
        ] {
            let tag = rig.command(1, |tag| {
                Command::Memset(MemsetCommand {
                    tag,
                    domain,
                    address: a + 4,
                    bytes: length - 8,
                    rest_bytes: 0,
                    value,
                    width,
                })
            });
            assert_eq!(rig.end_of(tag), Outcome::Done);
            let filled = rig.read(domain, a, bytes.len());
            let element = &value.to_le_bytes()[..width.bytes() as usize];
            let inner = &filled[4..filled.len() - 4];
            assert!(inner.chunks(element.len()).all(|found| found == element));
            assert_eq!(filled[..4], bytes[..4]);
        }
    }
}

#[test]
fn a_copy_beyond_its_allocation_moves_nothing() {
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let domain = rig.domain();
        let address = rig.alloc(domain, 4096);
        let (buffer, _) = rig.buffer(&[9; 8192]);
        let tag = rig.copy(0, domain, Direction::ToDevice, (buffer, address, 8192));
        let outcome = rig.end_of(tag);
        assert_eq!(outcome, Outcome::Failed(CompletionStatus::BadAddress));
        assert!(rig.fault(tag).contains("leaves its allocation"));
        assert_eq!(rig.read(domain, address, 4096), vec![0; 4096]);
    }
}

/// Three kernels: one writes 7, one is of clusters, which are not modelled, and the threads of one print their block.
const MIXED: &str = include_str!("mixed.ptx");

#[test]
fn a_kernel_that_cannot_run_leaves_the_others_of_its_module_usable_on_both() {
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let domain = rig.domain();
        let (module, kernels) = rig
            .load_module(domain, MIXED)
            .expect("two of three can run");
        let names: Vec<_> = kernels
            .iter()
            .map(|k| k.loaded.compiled.kernel.name.as_str())
            .collect();
        assert_eq!(names, ["writes", "clusters", "prints"]);
        let verdicts: Vec<_> = kernels.iter().map(|k| k.loaded.unusable.clone()).collect();
        assert_eq!((&verdicts[0], &verdicts[2]), (&None, &None));
        let why = verdicts[1].as_deref().expect("it cannot run");
        assert!(why.contains("clusters") && why.contains("line"), "{why}");
        let out = rig.alloc(domain, 256);
        let shape = Shape::line(1, 32);
        let tag = rig.launch(0, domain, &kernels[0], shape, &out.to_le_bytes());
        assert_eq!(rig.end_of(tag), Outcome::Done);
        assert_eq!(rig.read(domain, out, 4), [7, 0, 0, 0]);
        assert!(rig.control.used_bytes(domain) > 256, "it has a variable");
        rig.control.unload(domain, module);
        assert_eq!(rig.control.used_bytes(domain), 256);
        // A module of variables alone goes, too.
        let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
        let text = format!("{head}.visible .global .align 4 .b8 bytes[4096];\n");
        let (module, kernels) = rig.load_module(domain, &text).expect("it loads");
        assert!(kernels.is_empty() && rig.control.used_bytes(domain) > 4096);
        rig.control.unload(domain, module);
        assert_eq!(rig.control.used_bytes(domain), 256);
    }
}

#[test]
fn a_module_none_of_whose_kernels_can_run_is_refused_and_leaves_nothing() {
    for timing in BOTH {
        let rig = Rig::new(timing);
        let domain = rig.domain();
        let (begin, end) = (
            MIXED.find(".visible"),
            MIXED.find(".visible .entry clusters"),
        );
        let (begin, end) = (begin.expect("it is there"), end.expect("it is there"));
        let last = MIXED.find(".visible .entry prints").expect("it is there");
        let text = format!("{}{}", &MIXED[..begin], &MIXED[end..last]);
        let error = rig.load(domain, &text).map(drop).expect_err("none can run");
        assert!(error.contains("clusters"), "{error}");
        assert_eq!(rig.control.used_bytes(domain), 0);
    }
}

#[test]
fn a_kernel_with_a_malformed_instruction_leaves_the_others_usable_on_both() {
    let text = MIXED.replace(
        ".visible .entry clusters",
        ".visible .entry wrong()\n{\n.reg .u32 %r<2>;\nadd.u33 %r1, %r1, 1;\nret;\n}\n.visible .entry clusters",
    );
    let line = 1 + text
        .lines()
        .position(|line| line.contains("add.u33"))
        .expect("it is there");
    for timing in BOTH {
        let rig = Rig::new(timing);
        let kernels = rig.load(rig.domain(), &text).expect("two of four can run");
        let why = |n: usize| kernels[n].loaded.unusable.clone();
        assert_eq!((why(0), why(3)), (None, None));
        let why = why(1).expect("it cannot run");
        assert!(
            why.contains("'wrong'") && why.contains(&format!("{line}:")),
            "{why}"
        );
        assert!(why.contains("u33"), "{why}");
    }
}

#[test]
fn what_kernels_print_goes_to_their_client_on_both() {
    for timing in BOTH {
        let mut rig = Rig::new(timing);
        let domains = [0, 1].map(|_| rig.domain());
        for (lane, domain) in (0..).zip(domains) {
            let kernels = rig.load(domain, MIXED).expect("it loads");
            let blocks = u32::from(lane) + 2;
            let tag = rig.launch(lane, domain, &kernels[2], Shape::line(blocks, 1), &[]);
            assert_eq!(rig.end_of(tag), Outcome::Done);
        }
        for (blocks, domain) in (2..).zip(domains) {
            let (text, lost) = rig.control.take_printed(domain);
            let text = String::from_utf8(text).expect("it is text");
            let mut lines: Vec<_> = text.lines().collect();
            lines.sort_unstable();
            let expected: Vec<_> = (0..blocks).map(|n| format!("block {n}")).collect();
            assert_eq!(
                (lines, lost),
                (expected.iter().map(String::as_str).collect(), 0)
            );
            assert_eq!(rig.control.take_printed(domain), (Vec::new(), 0));
        }
    }
}

/// The clock is what tenants share: who prints long lines uses up the host as well.
#[test]
fn what_is_long_on_the_host_is_long_on_the_device() {
    let mut rig = Rig::new(Timing::Functional);
    let domain = rig.domain();
    let took = |rig: &mut Rig, line: &str| {
        let bytes: Vec<String> = line.bytes().map(|byte| byte.to_string()).collect();
        let (before, rest) = MIXED.split_once("text[").expect("it is there");
        let (_, rest) = rest.split_once(';').expect("it ends");
        let text = format!(
            "{before}text[{}] = {{{}, 0}};{rest}",
            bytes.len() + 1,
            bytes.join(", ")
        );
        let kernels = rig.load(domain, &text).expect("it loads");
        let tag = rig.launch(0, domain, &kernels[2], Shape::line(64, 256), &[]);
        assert_eq!(rig.end_of(tag), Outcome::Done);
        rig.of(tag).end_ns - rig.of(tag).start_ns
    };
    // The same instructions, and each of 16,384 threads prints a thousand times as much.
    let (short, long) = (took(&mut rig, "x"), took(&mut rig, &"x".repeat(1000)));
    assert!(long > 5 * short, "{short} and {long} ns of device time");
}

#[test]
fn text_beyond_the_buffer_is_counted() {
    let mut rig = Rig::new(Timing::Functional);
    let domain = rig.domain();
    let kernels = rig.load(domain, MIXED).expect("it loads");
    let (blocks, threads) = (200, 1024);
    let shape = Shape::line(blocks, threads);
    let tag = rig.launch(0, domain, &kernels[2], shape, &[]);
    assert_eq!(rig.end_of(tag), Outcome::Done);
    let (text, lost) = rig.control.take_printed(domain);
    let all: u64 = (0..blocks)
        .map(|n| format!("block {n}\n").len() as u64 * u64::from(threads))
        .sum();
    assert_eq!(text.len() as u64 + lost, all);
    assert!(lost > 0 && text.len() > 1000 << 10, "{} bytes", text.len());
}
