//! How many instructions the kernel's verifier goes through for each program, held to a budget.
//!
//! The verifier follows every path, so that one more loop or branch may multiply its work: loading takes longer, and
//! from a million instructions on the kernel refuses the program.
//!
//! Rule: a budget is about twice what Linux 6.18 goes through for what clang 19 makes, because kernels and compilers
//! differ. A program that needs more is made simpler, or gets a greater budget by a change that says why.

use crate::loaded;
use gridmux_bpf::LatencyProgram;
use libbpf_rs::ObjectBuilder;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Most verified instructions of each program. Linux 6.18 goes through 8,413, 51, 269, 2,962, 8,371, 2,089 and
/// 1,182.
const BUDGETS: [(&str, u64); 7] = [
    ("gridmux_arm", 16_000),
    ("gridmux_bypass", 400),
    ("gridmux_count", 600),
    ("gridmux_done", 6_000),
    ("gridmux_drain", 16_000),
    ("gridmux_event", 6_000),
    ("gridmux_range", 3_000),
];

/// Aligned as libbpf reads ELF headers.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

/// Every object of this room.
static OBJECTS: [&Aligned<[u8]>; 6] = [
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bypass.bpf.o"))),
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/core.bpf.o"))),
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/timer.bpf.o"))),
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"))),
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o"))),
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/ranges.bpf.o"))),
];

/// Returns how many instructions the kernel has verified of a loaded program (`verified_insns`, since Linux 5.16).
fn verified_instructions(program: BorrowedFd<'_>) -> u64 {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("verified_insns:"));
    line.expect("a kernel that tells").trim().parse().unwrap()
}

#[test]
fn every_program_stays_within_its_budget_of_verified_instructions() {
    // Whether all programs can be loaded here, and the kernel says what it verified.
    let Some(latency) = loaded(LatencyProgram::load(&crate::instance("budgets"))) else {
        return;
    };
    if let Err(why) = latency.drains_itself() {
        println!("SKIPPED: {why}");
        return;
    }
    let mut budgets = BTreeMap::from(BUDGETS);
    let mut failures = Vec::new();
    for image in OBJECTS {
        let object = ObjectBuilder::default().open_memory(&image.0).unwrap();
        let object = object.load().unwrap();
        for program in object.progs() {
            let name = program.name().to_str().unwrap();
            let verified = verified_instructions(program.as_fd());
            let budget = budgets.remove(name);
            println!("{name}: {verified} verified instructions, budget {budget:?}");
            match budget {
                Some(budget) if verified <= budget => {}
                Some(budget) => failures.push(format!("{name}: {verified} of at most {budget}")),
                None => failures.push(format!("{name} has no row in `BUDGETS`")),
            }
        }
    }
    let absent = budgets
        .keys()
        .map(|name| format!("there is no program {name}"));
    failures.extend(absent);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
