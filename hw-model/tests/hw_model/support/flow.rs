//! Kernels of one output word per thread, run both ways.
//!
//! Rule: a text is a whole module with an entry `k(.param .u64 out)`; the functional and the timed run must agree.

use super::opcode::report;
use super::{Bench, functional};
use gridmux_hw_model::{Fault, FaultKind, RunError, run_functional};

pub const HEAD: &str = ".version 8.5\n.target sm_80\n.address_size 64\n";

/// Returns a module of `functions` and a kernel with its output's address in `%rd2` and its thread's index in `%r1`.
pub fn module(functions: &str, body: &str) -> String {
    format!(
        "{HEAD}{functions}\n.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<16>;\n.reg .b16 %h<8>;\n\
         .reg .b32 %r<32>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<16>;\nld.param.u64 %rd1, [out];\nmov.u32 %r2, %tid.x;\n\
         mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.s32 %r1, %r3, %r4, %r2;\n\
         mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n{body}\nret;\n}}\n"
    )
}

/// Returns one word per thread, from a kernel whose results do not depend on the order of its threads.
pub fn run(text: &str, blocks: u32, threads: u32) -> Vec<u32> {
    let [functional, timed] = runs(text, blocks, threads);
    assert_eq!(functional, timed, "timing changed the results of {text}");
    report_control(text);
    functional
}

/// Returns one word per thread of the functional and of the timed run.
pub fn runs(text: &str, blocks: u32, threads: u32) -> [Vec<u32>; 2] {
    let count = (blocks * threads) as usize;
    let one_way = |timed: bool| {
        let mut bench = Bench::small();
        let kernel = bench.kernel(text, "k");
        let out = bench.buffer(&vec![0; count * 4]);
        let params = out.to_le_bytes();
        let mut launch = bench.simple(&kernel, blocks, threads, &params);
        launch.budget = Some(gridmux_policy::units::Cycles(200_000_000));
        if timed {
            bench.timed(launch);
        } else {
            functional(&mut bench, &launch);
        }
        bench.words(out, count)
    };
    [one_way(false), one_way(true)]
}

/// Notes the control and synchronisation opcodes of a text whose results the caller compares: they have no value of
/// their own, and show in everything that the kernel stores.
fn report_control(text: &str) {
    let families = [
        "bra",
        "brx",
        "call",
        "exit",
        "ret",
        "bar",
        "barrier",
        "membar",
        "fence",
        "nanosleep",
        "mbarrier",
    ];
    let statements = text.split([';', '\n', '{', '}']).map(str::trim);
    for statement in statements {
        let unguarded = match statement.strip_prefix('@') {
            Some(guarded) => guarded.split_once(' ').map_or("", |(_, rest)| rest),
            None => statement,
        };
        let family = unguarded.split([' ', '.']).next().unwrap_or_default();
        let copies = unguarded.starts_with("cp.async");
        if copies || families.contains(&family) {
            report(unguarded);
        }
    }
}

/// Returns the fault of a launch of one block.
pub fn fault(text: &str, threads: u32) -> Fault {
    let mut bench = Bench::small();
    let kernel = bench.kernel(text, "k");
    let out = bench.buffer(&[0; 4096]);
    let params = out.to_le_bytes();
    let mut launch = bench.simple(&kernel, 1, threads, &params);
    launch.budget = Some(gridmux_policy::units::Cycles(20_000_000));
    let timed = bench.time(launch.clone()).err().expect("it faults");
    if matches!(timed.kind, FaultKind::Trap | FaultKind::Breakpoint) {
        report(&timed.mnemonic);
    }
    assert!(bench.gpu.idle(), "a faulted launch is gone");
    match run_functional(&mut bench.gpu, &launch) {
        Err(RunError::Fault(functional)) => assert_eq!(
            (functional.kind, functional.ptx_line),
            (timed.kind, timed.ptx_line)
        ),
        other => panic!("{other:?}"),
    }
    *timed
}

/// Returns the line of the first occurrence of `what` in a text, from 1.
pub fn line_of(text: &str, what: &str) -> u32 {
    let at = text.find(what).expect("it is there");
    let before = text[..at].matches('\n').count();
    u32::try_from(before + 1).expect("short")
}

/// Returns the message of a module that is refused.
pub fn refusal(text: &str) -> String {
    let mut bench = Bench::small();
    let error = bench.try_kernel(text, "k").expect_err("it is refused");
    error.to_string()
}

/// Returns a fault's kind, for tests that look at nothing else.
pub fn kind(text: &str, threads: u32) -> FaultKind {
    fault(text, threads).kind
}
