//! Every kind of fault: the whole message, functional and timed.

use crate::support::Bench;
use crate::support::flow::{line_of, module};
use gridmux_hw_model::{Fault, GpuConfig, RunError, run_functional};
use gridmux_policy::units::Cycles;

const SHARED: &str = ".shared .align 16 .b8 tile[256];\n";

/// Returns the fault of one block, the same functionally and timed, and the address of its 400-byte output.
fn both(bench: &mut Bench, text: &str, threads: u32, budget: u64) -> (Fault, u64) {
    let kernel = bench.kernel(text, "k");
    let out = bench.buffer(&[0; 400]);
    let params = out.to_le_bytes();
    let mut launch = bench.simple(&kernel, 1, threads, &params);
    launch.budget = Some(Cycles(budget));
    let timed = bench.time(launch.clone()).err().expect("it faults");
    match run_functional(&mut bench.gpu, &launch) {
        Err(RunError::Fault(functional)) => assert_eq!(functional.to_string(), timed.to_string()),
        other => panic!("{other:?}"),
    }
    (*timed, out)
}

/// Checks the whole message of `text`'s fault; in `want`, `LINE` stands for the line of `at`, `OUT` for the
/// output's address.
fn says(text: &str, threads: u32, at: &str, want: &str) {
    let mut bench = Bench::small();
    let (fault, out) = both(&mut bench, text, threads, 3_000_000);
    let want = want
        .replace("LINE", &line_of(text, at).to_string())
        .replace("OUT", &format!("{out:#x}"));
    assert_eq!(fault.to_string(), want);
}

#[test]
fn accesses_outside_every_allocation() {
    let text = module("", "st.global.u32 [%rd2], %r1;");
    let mut bench = Bench::small();
    let (fault, out) = both(&mut bench, &text, 128, 1_000_000);
    let line = line_of(&text, "st.global");
    assert_eq!(
        fault.to_string(),
        format!(
            "kernel 'k', block (0, 0, 0), thread (100, 0, 0), PTX line {line} (st.global.u32): it wrote 4 bytes of \
             global \
             memory out of bounds at {:#x}; the nearest allocation is 400 bytes at {out:#x}",
            out + 400
        )
    );
    says(
        &module("", "mov.u64 %rd3, 16;\nld.u32 %r5, [%rd3];\n"),
        32,
        "ld.u32",
        "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line LINE (ld.u32): it read 4 bytes of global memory out \
         of \
         bounds at 0x10; the nearest allocation is 400 bytes at OUT",
    );
    let local = module(
        "",
        ".local .align 8 .b8 own[16];\nmov.u64 %rd3, own;\nst.local.u32 [%rd3+65536], %r2;\n",
    );
    let mut bench = Bench::small();
    let (fault, _) = both(&mut bench, &local, 32, 1_000_000);
    assert!(
        fault
            .to_string()
            .contains("it wrote 4 bytes of local memory out of bounds at 0x10000"),
        "{fault}"
    );
    let shared = module(
        SHARED,
        "mov.u32 %r5, tile;\nld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r5+256];\n",
    );
    let mut bench = Bench::small();
    let (fault, _) = both(&mut bench, &shared, 32, 1_000_000);
    assert!(
        fault.to_string().contains(
            "(ld.shared.v4.u32): it read 16 bytes of shared memory out of bounds at 0x100"
        ),
        "{fault}"
    );
}

#[test]
fn misaligned_accesses() {
    let text = module("", "ld.global.v2.u32 {%r5, %r6}, [%rd1+4];\n");
    let mut bench = Bench::small();
    let (fault, out) = both(&mut bench, &text, 32, 1_000_000);
    let line = line_of(&text, "ld.global");
    assert_eq!(
        fault.to_string(),
        format!(
            "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line {line} (ld.global.v2.u32): it read 8 bytes of \
             global \
             memory at {:#x}, which is not a multiple of 8; the nearest allocation is 400 bytes at {out:#x}",
            out + 4
        )
    );
}

#[test]
fn an_address_in_another_domain_is_anothers_and_nothing_in_it_is_named() {
    let text = module(
        "",
        "ld.global.u64 %rd3, [%rd2];\nld.global.u32 %r5, [%rd3];\n",
    );
    let mut bench = Bench::small();
    let memory = bench.gpu.memory_mut();
    let other = memory.create_domain(1 << 20).expect("room");
    let foreign = memory.alloc(other, 4321).expect("fits");
    memory.write(other, foreign, &[0xab; 64]).expect("inside");
    let kernel = bench.kernel(&text, "k");
    let out = bench.buffer(&foreign.to_le_bytes());
    let params = out.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 1, &params);
    let timed = bench.time(launch.clone()).err().expect("it faults");
    let line = line_of(&text, "ld.global.u32");
    let want = format!(
        "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line {line} (ld.global.u32): it read 4 bytes of global \
         memory \
         out of bounds at {foreign:#x}; the nearest allocation is 8 bytes at {out:#x}; the address belongs to another \
         client"
    );
    assert_eq!(timed.to_string(), want);
    assert_eq!(timed.lies_in, Some(other));
    match run_functional(&mut bench.gpu, &launch) {
        Err(RunError::Fault(fault)) => assert_eq!(fault.to_string(), want),
        done => panic!("{done:?}"),
    }
}

#[test]
fn an_address_in_a_partition_names_the_partition() {
    let text = module(
        "",
        "ld.global.u64 %rd3, [%rd2];\nld.global.u32 %r5, [%rd3];\n",
    );
    let mut bench = Bench::small();
    let memory = bench.gpu.memory_mut();
    let shared = memory.create_domain(40 << 30).expect("room");
    let [own, other] = [(); 2].map(|()| memory.reserve(shared, 1 << 20).expect("room"));
    let out = memory.alloc_in(own, 8).expect("fits");
    let outside = bench.buffer(&[0; 8]);
    let bad = other.base + 4098;
    // From the partition beside it, where every address is mapped, a misaligned one; from another domain any.
    for (domain, at, lies_in) in [(shared, out, None), (bench.domain, outside, Some(shared))] {
        let memory = bench.gpu.memory_mut();
        memory
            .write(domain, at, &bad.to_le_bytes())
            .expect("inside");
        bench.domain = domain;
        let kernel = bench.kernel(&text, "k");
        let params = at.to_le_bytes();
        let launch = bench.simple(&kernel, 1, 1, &params);
        let timed = bench.time(launch.clone()).err().expect("it faults");
        assert_eq!((timed.lies_in, timed.partition), (lies_in, Some(other)));
        let said = format!("; the address lies in the partition at {:#x}", other.base);
        assert!(timed.to_string().ends_with(&said), "{timed}");
        match run_functional(&mut bench.gpu, &launch) {
            Err(RunError::Fault(fault)) => assert_eq!(fault.partition, Some(other)),
            done => panic!("{done:?}"),
        }
    }
}

#[test]
fn source_files_are_named() {
    let body = ".loc 1 42 7\nst.global.u32 [%rd2], %r1;\n";
    let line = |text: &str| {
        let mut bench = Bench::small();
        both(&mut bench, text, 128, 1_000_000).0.to_string()
    };
    let named = line(&module(".file 1 \"/home/me/saxpy.cu\"\n", body));
    assert!(
        named.ends_with(" (source file /home/me/saxpy.cu, line 42)"),
        "{named}"
    );
    let late = line(&format!(
        "{}.file\t1 \"late.cu\", 1700000000, 99\n",
        module("", body)
    ));
    assert!(late.ends_with(" (source file late.cu, line 42)"), "{late}");
}

#[test]
fn traps_breakpoints_and_assertions() {
    let here = "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line LINE";
    let trap = format!("{here} (trap): it executed a trap");
    says(&module("", "trap;\n"), 32, "trap", &trap);
    let stop = format!("{here} (brkpt): it executed a breakpoint, and there is no debugger");
    says(&module("", "brkpt;\n"), 32, "brkpt", &stop);
}

#[test]
fn barriers() {
    let here = "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line LINE";
    let id = format!("{here} (barrier.sync): barrier 16 was named; a block has barriers 0 to 15");
    says(
        &module("", "mov.u32 %r5, 16;\nbarrier.sync %r5;\n"),
        32,
        "barrier.sync",
        &id,
    );
    let count = format!(
        "{here} (bar.sync): 40 threads were named for a barrier; the count is a multiple of 32 above 0"
    );
    says(
        &module("", "mov.u32 %r5, 40;\nbar.sync 1, %r5;\n"),
        32,
        "bar.sync",
        &count,
    );
    let dead = format!(
        "{here} (bar.sync): every thread left in the block waits at a barrier that can never complete: barrier 1 has \
         64 of \
         96 threads; 64 threads wait at barrier 1 at line LINE (bar.sync, first in warp 0)"
    );
    says(&module("", "bar.sync 1, 96;\n"), 64, "bar.sync", &dead);
}

#[test]
fn budgets() {
    let text = module("", "AGAIN:\nadd.u32 %r5, %r5, 1;\nbra AGAIN;\n");
    let mut bench = Bench::small();
    let kernel = bench.kernel(&text, "k");
    let params = bench.buffer(&[0; 4]).to_le_bytes();
    let mut launch = bench.simple(&kernel, 1, 32, &params);
    launch.budget = Some(Cycles(5000));
    let timed = bench.time(launch.clone()).err().expect("it faults");
    let functional = match run_functional(&mut bench.gpu, &launch) {
        Err(RunError::Fault(fault)) => fault,
        done => panic!("{done:?}"),
    };
    // Where in the loop it was is not the same.
    for (fault, unit) in [(timed, "cycles"), (functional, "warp instructions")] {
        let message = fault.to_string();
        let start = "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line ";
        let end = format!("): the launch exceeded its budget of 5000 {unit}");
        assert!(
            message.starts_with(start) && message.ends_with(&end),
            "{message}"
        );
    }
}

#[test]
fn mbarriers_tables_and_calls() {
    let here = "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line LINE";
    let object = format!(
        "{here} (mbarrier.arrive.shared.b64): it used an mbarrier object that was not initialised in shared memory"
    );
    let text = module(
        SHARED,
        "mov.u32 %r5, tile;\nmbarrier.arrive.shared.b64 %rd5, [%r5];\n",
    );
    says(&text, 1, "mbarrier.arrive", &object);
    let table = format!("{here} (brx.idx): it branched to entry 5 of a table of 2");
    let text = module(
        "",
        "mov.u32 %r5, 5;\ntable: .branchtargets A, B;\nbrx.idx %r5, table;\nA:\nB:\n",
    );
    says(&text, 32, "brx.idx", &table);
    let call = format!("{here} (call): it called 0x1000, which is no function of the module");
    let text = module(
        "",
        "mov.u64 %rd7, 4096;\nproto: .callprototype _ ();\ncall %rd7, proto;\n",
    );
    says(&text, 32, "call %rd7", &call);
}

#[test]
fn stacks() {
    // Each call takes 1 KiB more.
    let f = ".func f(.param .b32 a)\n{\n.local .align 8 .b8 own[1024];\n.reg .b32 %r<4>;\nst.local.u32 [own], %r1;\n\
             {\n.param .b32 p0;\nst.param.b32 [p0], %r1;\ncall.uni f, (p0);\n}\nret;\n}\n";
    let text = module(
        f,
        "{\n.param .b32 p0;\nst.param.b32 [p0], %r1;\ncall.uni f, (p0);\n}\n",
    );
    let mut bench = Bench::small();
    let (fault, _) = both(&mut bench, &text, 32, 3_000_000);
    let line = line_of(&text, "call.uni f");
    let message = fault.to_string();
    let start = format!(
        "kernel 'k', block (0, 0, 0), thread (0, 0, 0), PTX line {line} (call.uni in function 'f'): the thread's stack \
         overflowed; it has "
    );
    assert!(
        message.starts_with(&start) && message.ends_with(" bytes of local memory"),
        "{message}"
    );
}

fn checking() -> Bench {
    let mut config = GpuConfig::builtin("h200").expect("built in");
    config.checks.uninitialised_shared = true;
    Bench::new(config)
}

#[test]
fn shared_memory_that_nobody_wrote() {
    // Thread 7 does not write, and thread 6 reads its neighbour's word.
    let body = "mov.u32 %r5, tile;\nshl.b32 %r6, %r2, 2;\nadd.u32 %r6, %r5, %r6;\nsetp.ne.u32 %p1, %r2, 7;\n\
        @%p1 st.shared.u32 [%r6], %r2;\nbar.sync 0;\nxor.b32 %r6, %r6, 4;\nld.shared.u32 %r7, [%r6];\n\
        st.global.u32 [%rd2], %r7;";
    let text = module(SHARED, body);
    let (fault, _) = both(&mut checking(), &text, 32, 1_000_000);
    let line = line_of(&text, "ld.shared");
    assert_eq!(
        fault.to_string(),
        format!(
            "kernel 'k', block (0, 0, 0), thread (6, 0, 0), PTX line {line} (ld.shared.u32): it read 4 bytes of shared \
             memory at 0x1c that no thread of the block has written"
        )
    );
    // Nobody asks, and nobody is told.
    let mut plain = Bench::small();
    let kernel = plain.kernel(&text, "k");
    let params = plain.buffer(&[0; 400]).to_le_bytes();
    let launch = plain.simple(&kernel, 1, 32, &params);
    run_functional(&mut plain.gpu, &launch).expect("it runs unchecked");
}

#[test]
fn writes_of_every_kind_count_and_atomics_read() {
    // A copy, a vector, a byte of four, an mbarrier; the second block starts afresh.
    let head = "mov.u32 %r5, tile;\nmov.u64 %rd5, source;\nmov.u32 %r6, 1;\nmov.b16 %h1, 1;\n";
    let good = "cp.async.ca.shared.global [%r5], [%rd5], 16;\ncp.async.wait_all;\n\
        ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r5];\n\
        st.shared.v2.u32 [%r5+16], {%r6, %r6};\nld.shared.u64 %rd6, [%r5+16];\natom.shared.add.u32 %r7, [%r5+20], 1;\n\
        mbarrier.init.shared.b64 [%r5+32], 1;\nmbarrier.arrive.shared.b64 %rd7, [%r5+32];\nst.global.u32 [%rd2], %r7;";
    let declared = format!("{SHARED}.global .align 16 .b8 source[16];\n");
    let run = |body: &str| {
        let mut bench = checking();
        let kernel = bench.kernel(&module(&declared, &format!("{head}{body}")), "k");
        let params = bench.buffer(&[0; 400]).to_le_bytes();
        let launch = bench.simple(&kernel, 2, 1, &params);
        let timed = bench
            .time(launch.clone())
            .map(drop)
            .err()
            .map(|f| f.to_string());
        let functional = run_functional(&mut bench.gpu, &launch)
            .err()
            .map(|e| e.to_string());
        assert_eq!(functional, timed);
        timed
    };
    assert_eq!(run(good), None);
    let message = run("st.shared.u8 [%r5+64], %h1;\nld.shared.u32 %r7, [%r5+64];\n")
        .expect("three bytes are missing");
    assert!(
        message.contains("4 bytes of shared memory at 0x40 that no thread"),
        "{message}"
    );
    let message = run("red.shared.add.u32 [%r5+80], 1;\n").expect("a sum reads");
    assert!(
        message.contains("4 bytes of shared memory at 0x50 that no thread"),
        "{message}"
    );
}
