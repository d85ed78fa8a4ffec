//! Local memory: what one tenant's threads left in it is nothing that another one's can read.

use crate::support::Bench;
use crate::support::flow::module;
use gridmux_hw_model::run_functional;

/// A function that may recur, so that there is stack behind a kernel's frame.
const RECURS: &str = ".func f(.param .b32 a)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\nld.param.u32 %r1, [a];\n\
    setp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\nsub.u32 %r1, %r1, 1;\n\
    {\n.param .b32 p;\nst.param.b32 [p], %r1;\ncall.uni f, (p);\n}\nDONE:\nret;\n}\n";

/// Returns a kernel that does this with each word of 8 KiB of its local memory, at `%rd5`.
fn everywhere(what: &str) -> String {
    let body = format!(
        "mov.u64 %rd5, 0;\nmov.u32 %r6, 0;\nAGAIN:\n{what}\nadd.u64 %rd5, %rd5, 4;\n\
         setp.lt.u64 %p1, %rd5, 8192;\n@%p1 bra AGAIN;\nst.global.u32 [%rd2], %r6;\nmov.u32 %r5, 2;\n\
         {{\n.param .b32 p;\nst.param.b32 [p], %r5;\ncall.uni f, (p);\n}}\n"
    );
    module(RECURS, &body)
}

/// Runs a kernel in a domain; what its threads stored.
fn run(bench: &mut Bench, text: &str, timed: bool) -> Vec<u32> {
    let kernel = bench.kernel(text, "k");
    let out = bench.buffer(&[0; 64 * 4]);
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 64, &params);
    if timed {
        bench.timed(launch);
    } else {
        run_functional(&mut bench.gpu, &launch).unwrap_or_else(|error| panic!("{error}"));
    }
    bench.words(out, 64)
}

#[test]
fn a_stack_holds_nothing_of_another_tenant() {
    let writer = everywhere("st.local.u32 [%rd5], 0x5ec2e7;");
    let reader = everywhere("ld.local.u32 %r7, [%rd5];\nor.b32 %r6, %r6, %r7;");
    // A kernel without a stack leaves what it does not clear.
    let small = module(
        "",
        ".local .align 4 .b8 own[16];\nst.local.u32 [own], 1;\nld.local.u32 %r6, [own];\n\
         st.global.u32 [%rd2], %r6;",
    );
    for timed in [false, true] {
        let mut bench = Bench::small();
        let first = bench.domain;
        let memory = bench.gpu.memory_mut();
        let second = memory.create_domain(1 << 30).expect("address space");
        run(&mut bench, &writer, timed);
        bench.domain = second;
        let read = run(&mut bench, &reader, timed);
        assert_eq!(read, [0; 64], "timed: {timed}");
        // The tenant is gone, and the next one gets its number.
        run(&mut bench, &writer, timed);
        let memory = bench.gpu.memory_mut();
        memory.destroy_domain(second).expect("it exists");
        let again = memory.create_domain(1 << 30).expect("address space");
        assert_eq!(again, second);
        let read = run(&mut bench, &reader, timed);
        assert_eq!(read, [0; 64], "timed: {timed}, the same number");
        // Somebody else's kernel without a stack ran in between.
        run(&mut bench, &writer, timed);
        bench.domain = first;
        assert_eq!(run(&mut bench, &small, timed), [1; 64]);
        let read = run(&mut bench, &reader, timed);
        assert_eq!(read, [0; 64], "timed: {timed}, after a kernel without");
    }
}
